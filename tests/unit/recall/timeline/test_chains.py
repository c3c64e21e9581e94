"""Whom a name means, and which names an error offers."""

from __future__ import annotations

from uuid import UUID

from memforest_core.domain.ids import TreeId
from memforest_core.recall.states import KnownChain
from memforest_core.recall.timeline import Speakers, unknown_entity, unknown_scene


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
    chains = [KnownChain(f"p{number}", f"P{number}", "pet", 1) for number in range(13)]
    refused = unknown_entity("Zed", [*chains, KnownChain("p0", "P0", "job", 1)])
    assert refused.message.endswith("Entities: P0, P1, P2, P3, P4, P5, P6, P7, P8, P9 and 3 more.")
    assert refused.code == "unknown_entity"


def test_an_error_says_when_there_is_nothing_to_offer_and_names_scenes_by_id_without_a_label() -> None:
    assert "none are known yet" in unknown_scene("work", []).message
    tree = TreeId(UUID(int=3))
    assert str(tree) in unknown_scene("work", [(tree, "")]).message
