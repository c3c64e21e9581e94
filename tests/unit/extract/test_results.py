"""What the offline extractor takes from a tool's result: values with a unit, and nothing about anybody."""

from __future__ import annotations

import json

import pytest

from memforest_core.domain.facts import Origin
from memforest_core.domain.turns import Role
from memforest_core.ingest.extract.offline.proposing import MAX_RESULTS, propose, results
from tests.harness.builders import window, window_turn


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ('{"site": "attic", "temperature_c": 6.4, "status": "ok"}', ["attic: temperature 6.4 C"]),
        ('{"room": "attic", "sensor": "a1", "rh_pct": 88, "battery_v": 3}', ["attic a1: rh 88 %, battery 3 V"]),
        ('{"list": [{"site": "a", "load_kw": 2}, {"site": "b", "load_kw": 3}]}', ["a: load 2 kW", "b: load 3 kW"]),
        ('"load_kw": 1}, {"site": "b", "load_kw": 3}, {"site":', ["b: load 3 kW"]),
    ],
    ids=["JSON", "two values", "records", "a part of JSON"],
)
def test_values_with_a_unit_become_sentences(text: str, reported: list[str]) -> None:
    found = list(results(text))
    assert [sentence for sentence, _ in found] == reported
    assert all(record in text for _, record in found)


@pytest.mark.parametrize(
    "text",
    [
        '{"status": "ok", "retry_after_s": 300, "count": 4, "ready": true}',
        '{"temperature_c": 6.4}',
        '{"name": "Eirik", "height_cm": 180}',
        '{"site": "attic", "open_w": true, "price_per_kwh": 1.3}',
        "name: Eirik\nage: 41\ntemperature: 31.5 C",
        "1 failed, 22 passed in 9.47 seconds",
        "File 'basket.py', line 142: KeyError",
        '{"site": "attic", "temperature_c": 6.4',
        "",
    ],
    ids=["no unit", "no place", "a person's", "no number", "texts", "a report", "a trace", "broken", "empty"],
)
def test_the_rest_states_nothing(text: str) -> None:
    assert list(results(text)) == []


def test_of_a_long_result_the_first_few_are_taken() -> None:
    records = [{"site": f"hall {number}", "load_kw": number} for number in range(9)]
    assert [sentence for sentence, _ in results(json.dumps(records))] == [
        f"hall {n}: load {n} kW" for n in range(MAX_RESULTS)
    ]


def test_a_result_is_about_nobody() -> None:
    """Given a result with names and states in it, then its facts have no subject, name nobody and set nothing."""
    text = (
        'Bob lives in Oslo. My dog is called Rex.\n{"site": "Bob\'s greenhouse", "temperature_c": 31.5, "owner": "Bob"}'
    )
    answer = propose(window(window_turn(1, text, role=Role.TOOL, speaker="tool")))

    (item,) = answer.items
    assert item.text == "Bob's greenhouse: temperature 31.5 C"
    assert (item.subject, item.attribute, item.entities, item.origin) == ("", "", [], Origin.ASSISTANT)
