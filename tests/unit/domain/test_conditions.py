"""Conditions on metadata: what each fulfils, and how wrong ones are refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memforest_core.domain.conditions import MAX_DEPTH, MAX_PARTS, parse_conditions
from memforest_core.errors import InvalidInput

DOCUMENT = {
    "team": "blue",
    "price": 7,
    "share": 0.5,
    "open": True,
    "tags": ["a", "b", 3],
    "day": "2024-05-08",
    "no": None,
}


@pytest.mark.parametrize(
    "conditions",
    [
        {},
        {"team": "blue", "price": 7},
        {"price": 7.0},
        {"tags": ["a", "b", 3]},
        {"no": None},
        {"price": {"$gt": 6, "$lte": 7}},
        {"share": {"$lt": 1}},
        {"day": {"$gte": "2024-05-01", "$lt": "2024-06-01"}},
        {"team": {"$ne": "red"}},
        {"other": {"$ne": "red"}},
        {"other": {"$nin": ["red"]}},
        {"team": {"$in": ["red", "blue"]}},
        {"tags": {"$in": ["x", "b"]}},
        {"tags": {"$contains": 3}},
        {"team": {"$contains": "lu"}},
        {"team": {"$exists": True}, "other": {"$exists": False}},
        {"$or": [{"team": "red"}, {"price": {"$gte": 7}}]},
        {"$and": [{"team": "blue"}, {"$not": {"price": {"$lt": 7}}}]},
        {"$not": {"open": 1}},
    ],
)
def test_conditions_that_hold(conditions: dict[str, object]) -> None:
    assert parse_conditions(conditions)(DOCUMENT)
    assert not parse_conditions({"$not": conditions})(DOCUMENT)


@pytest.mark.parametrize(
    "conditions",
    [
        {"team": "red"},
        {"other": "blue"},
        {"other": None},
        {"open": 1},
        {"price": "7"},
        {"price": {"$gt": "6"}},
        {"open": {"$gt": 0}},
        {"team": {"$gt": 3}},
        {"other": {"$lt": 3}},
        {"tags": {"$nin": ["b"]}},
        {"tags": {"$contains": "c"}},
        {"price": {"$contains": "7"}},
        {"team": {"$exists": False}},
        {"team": "blue", "price": 8},
        {"$and": [{"team": "blue"}, {"price": 8}]},
        {"$or": [{"team": "red"}, {"price": 8}]},
    ],
)
def test_conditions_that_do_not_hold(conditions: dict[str, object]) -> None:
    assert not parse_conditions(conditions)(DOCUMENT)


@pytest.mark.parametrize(
    ("conditions", "named"),
    [
        ([], "mapping"),
        ({1: 2}, "mapping"),
        ({"price": {"$near": 3}}, r"\$near"),
        ({"$price": 3}, r"\$price"),
        ({"$and": {}}, r"\$and"),
        ({"$or": []}, r"\$or"),
        ({"$not": 3}, "mapping"),
        ({"price": {"$in": 3}}, r"\$in"),
        ({"price": {"$in": [{}]}}, r"\$in"),
        ({"price": {"$gt": [3]}}, r"\$gt"),
        ({"price": {"$exists": 1}}, r"\$exists"),
        ({"price": object()}, "price"),
        ({str(number): 1 for number in range(MAX_PARTS + 1)}, "at most"),
    ],
)
def test_wrong_conditions_are_refused_by_name(conditions: object, named: str) -> None:
    with pytest.raises(InvalidInput, match=named) as refused:
        parse_conditions(conditions)
    assert refused.value.code == "invalid_metadata"


def test_conditions_nested_too_deep_are_refused() -> None:
    conditions: dict[str, object] = {"a": 1}
    for _ in range(MAX_DEPTH + 1):
        conditions = {"$not": conditions}
    with pytest.raises(InvalidInput, match="at most"):
        parse_conditions(conditions)


PLAIN = st.none() | st.booleans() | st.integers() | st.text(max_size=4)


@given(st.dictionaries(st.text(max_size=3).filter(lambda name: not name.startswith("$")), PLAIN, max_size=4))
def test_a_document_fulfils_itself(document: dict[str, object]) -> None:
    assert parse_conditions(document)(document)
