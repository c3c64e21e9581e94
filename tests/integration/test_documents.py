"""Tools' results between talk on the real stack: found by their numbers, about nobody, and not in the way of talk."""

from __future__ import annotations

import json

import pytest

from tests.harness.stack import Stack

READINGS = json.dumps(
    {
        "status": "ok",
        "readings": [
            {
                "site": "greenhouse",
                "sensor": "a1",
                "temperature_c": 31.5,
                "operator": "Eirik",
                "state": "moved to Oslo",
            },
            {"site": "cellar", "sensor": "c1", "temperature_c": 9.25, "operator": "Eirik", "state": "works at Acme"},
        ],
    }
)
SAID = (
    ("user", "I live in Bergen. How warm is it in the greenhouse?"),
    ("tool", READINGS),
    ("assistant", "It is warm, open the vents."),
    ("user", "My brother Magnus can do that, he is allergic to bees though."),
    ("tool", '{"build": "green", "status": "ok", "name": "Oda", "job": "deploy", "retry_after_s": 300}'),
)


def tell(stack: Stack) -> None:
    turns = [
        {"id": f"t{at}", "role": role, "content": text, "timestamp": f"2025-05-03T14:0{at}:00+00:00"}
        for at, (role, text) in enumerate(SAID)
    ]
    stack.memory.ingest("oda", "s1", turns, wait="none", backfill=True, display_name="Oda")


def test_a_tools_result_makes_facts_about_nobody(grown_once: Stack) -> None:
    """Given results with names and states in them, then their facts are the values with units, and the profile is the
    owner's own words."""
    facts = [fact.text for fact in grown_once.memory.facts("oda").items]
    assert {"greenhouse a1: temperature 31.5 C", "cellar c1: temperature 9.25 C"} <= set(facts)
    assert not any("Eirik" in text or "ok" in text.split() or "deploy" in text for text in facts)
    keys = grown_once.rows("SELECT scope_key FROM memforest.tree WHERE kind = 'entity'")
    assert not any("eirik" in row.scope_key or "greenhouse" in row.scope_key for row in keys)
    stated = grown_once.rows("SELECT attribute, text FROM memforest.fact WHERE attribute <> ''")
    assert {row.text for row in stated if row.attribute in {"residence", "job"}} == {"Oda lives in Bergen."}


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("What was the temperature in the greenhouse on 3 May?", "31.5"),
        ("How warm was the cellar, 9.25 C?", "9.25"),
        ("What is my brother allergic to?", "bees"),
    ],
)
def test_the_number_and_the_neighbouring_talk_are_found(grown_once: Stack, question: str, words: str) -> None:
    assert words in grown_once.memory.recall("oda", question, k=3).evidence[0].text
