"""Whom a name means, and which names an error offers."""

from __future__ import annotations

from memforest_core.recall.timeline import Speakers, unknown


def test_an_owner_is_known_under_id_and_names() -> None:
    speakers = Speakers("u-17", [("u-17", "Ann"), ("u-17", "Annie"), ("ben", "Ben")])
    assert speakers.owner_keys == {"u 17", "ann", "annie"}
    assert speakers.keys("Annie") == speakers.owner_keys
    assert speakers.person("ann") == speakers.person("annie") != speakers.person("ben")


def test_somebody_who_never_spoke_is_a_person_by_name() -> None:
    speakers = Speakers("ann", [])
    assert speakers.keys("Dr. Clara Holm") == {"clara holm"}
    assert speakers.person("clara holm") == "clara holm"


def test_an_error_offers_at_most_ten_names() -> None:
    refused = unknown("Zed", "entity", [*(f"P{number}" for number in range(13)), "P0"])
    assert refused.message.endswith("Entities: P0, P1, P2, P3, P4, P5, P6, P7, P8, P9 and 3 more.")
    assert refused.code == "unknown_entity"
    assert "none are known yet" in unknown("work", "scene", []).message
