"""What may stand in a bundle: types, lengths and values, before anything is written."""

from __future__ import annotations

import json
from uuid import UUID

import numpy as np
import pytest

from memforest_core.errors import InvalidInput
from memforest_core.lifecycle.bundle.checking import RowChecks, check_rules, check_zone, statement_of
from memforest_core.lifecycle.bundle.records import CANDIDATE, TURN, VECTOR, Row, Value
from memforest_core.settings import AcceptSettings, load_settings

CHECKS = RowChecks(AcceptSettings(max_turns=10, max_turn_bytes=2_000), 4)
TURN_ROW: Row = (str(UUID(int=5)), 0, "t0", "user", "I live in Davis.", 0, 1, "bob", "Bob", "{}", 0, 0, None)
STATEMENT = {
    "text": "Bob lives in Davis.",
    "start": None,
    "end": None,
    "precision": "unknown",
    "mentioned_at": "2023-05-08T12:00:00+00:00",
    "speaker": "Bob",
    "subject": "Bob",
    "attribute": "residence",
    "value": "Davis",
    "previous_value": "",
    "change": "none",
    "polarity": "positive",
    "modality": "asserted",
    "entities": ["Bob", "Davis"],
    "scene": "",
    "origin": "user",
    "verbatim": False,
}


def turn(**values: Value) -> Row:
    row = list(TURN_ROW)
    for name, value in values.items():
        row[TURN.at(name)] = value
    return tuple(row)


def test_an_honest_row_passes() -> None:
    CHECKS.check(TURN, [TURN_ROW, turn(utc_offset=-1439), turn(ordinal=9, erased=1, content="")])


@pytest.mark.parametrize(
    "values",
    [
        {"session_id": "5"},
        {"session_id": str(UUID(int=5)).replace("-", "")},
        {"session_id": None},
        {"ordinal": "0"},
        {"utc_offset": 1440},
        {"utc_offset": -1440},
        {"ordinal": 2**63},
        {"external_id": "x" * 2_000},
        {"role": "root"},
        {"content": b"bytes"},
        {"content": "a\x00b"},
        {"occurred_at": 2**62},
        {"dated": 2},
        {"metadata": "[]"},
        {"metadata": "{"},
        {"metadata": '{"a": NaN}'},
        {"metadata": '{"a": ' + "[" * 900 + "]" * 900 + "}" * 500},
    ],
)
def test_a_value_that_may_not_be_there_is_refused_by_its_column(values: dict[str, Value]) -> None:
    with pytest.raises(InvalidInput, match=f"turn.{next(iter(values))}"):
        CHECKS.check(TURN, [TURN_ROW, turn(**values)])


@pytest.mark.parametrize(
    "values, code", [({"ordinal": 10}, "too_many_turns"), ({"content": "ab " * 700}, "turn_too_long")]
)
def test_the_limits_are_those_of_enqueue(values: dict[str, Value], code: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        CHECKS.check(TURN, [turn(**values)])
    assert refused.value.code == code


def test_vectors_are_finite_and_as_long_as_the_model_says() -> None:
    sound = np.ones(4, "<f4")
    CHECKS.check(VECTOR, [(bytes(32), sound.tobytes())])
    for vector in (sound[:3], np.array([1, 2, np.nan, 4], "<f4"), np.array([1, 2, np.inf, 4], "<f4")):
        with pytest.raises(InvalidInput, match=r"vector\.vector"):
            CHECKS.check(VECTOR, [(bytes(32), vector.tobytes())])
    with pytest.raises(InvalidInput, match=r"vector\.text_hash"):
        CHECKS.check(VECTOR, [(bytes(31), sound.tobytes())])


def test_lists_hold_whole_numbers_only() -> None:
    row: Row = (str(UUID(int=1)), 0, "[1, 2]", "", json.dumps(STATEMENT))
    CHECKS.check(CANDIDATE, [row, (*row[:2], "[]", *row[3:])])
    for numbers in ("[1.5]", "[-1]", '["1"]', "{1}", "[1,]", "[[1]]", "[1]\n"):
        with pytest.raises(InvalidInput, match="turn_ordinals"):
            CHECKS.check(CANDIDATE, [(*row[:2], numbers, *row[3:])])


@pytest.mark.parametrize(
    "change",
    [{"text": 1}, {"entities": [1]}, {"verbatim": "no"}, {"precision": "century"}, {"start": "x"}, {"speaker": "\x00"}],
)
def test_a_statement_is_one_that_extraction_could_have_made(change: dict[str, object]) -> None:
    def row(document: dict[str, object]) -> Row:
        return (str(UUID(int=1)), 0, "[0]", "", json.dumps(document))

    assert statement_of(CANDIDATE, row(dict(STATEMENT))).value == "Davis"
    with pytest.raises(InvalidInput, match=r"candidate\.statement"):
        statement_of(CANDIDATE, row(STATEMENT | change))


def test_zones_and_rules() -> None:
    check_zone("Europe/Berlin")
    check_rules(load_settings(), {"scene_assign": 0.7})
    for zone in ("Nowhere/Land", "../../etc/passwd", "/etc/passwd", ""):
        with pytest.raises(InvalidInput):
            check_zone(zone)
    for rules in ({"scene_assign": "0.7"}, {"unknown": 1}, {"session_k": 1}, {"scene_cap": True}):
        with pytest.raises(InvalidInput):
            check_rules(load_settings(), rules)
