"""What a caller may ask: each option is parse_request before anything is read."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from memforest_core.domain.evidence import Mode
from memforest_core.domain.ids import TreeKind
from memforest_core.errors import InvalidInput
from memforest_core.recall.question import parse_question
from memforest_core.recall.request import MAX_OWNERS, MAX_SOURCES, Request, owners_of, parse_request
from memforest_core.settings import RecallSettings

ROME = ZoneInfo("Europe/Rome")


def requested(question: object = "Where?", k: object = None, mode: object = None, **options: object) -> Request:
    return parse_request(RecallSettings(), question, k, mode, options)


def test_defaults_come_from_the_settings() -> None:
    made = requested()
    assert (made.k, made.mode, made.neighbours) == (10, Mode.EMBEDDING, 0)
    assert made.trees == frozenset(TreeKind)
    assert requested(trees=["entity"]).trees == {TreeKind.ENTITY}
    assert not made.filters_after


def test_a_budget_of_tokens_without_k_takes_as_many_items_as_could_fit() -> None:
    assert requested(max_tokens=400).k == 100
    assert requested(max_tokens=400, k=3).k == 3
    assert requested(max_tokens=8).k == 10


def test_a_list_is_longer_when_the_caller_sets_neither_k_nor_tokens() -> None:
    settings, many = RecallSettings(), "Which cars has she had?"
    assert requested(many).k == settings.k + settings.list_more
    assert requested("And the others?").with_question(parse_question(many)).k == settings.k + settings.list_more
    assert requested("And the others?", 3).with_question(parse_question(many)).k == 3
    assert requested(many).with_question(parse_question("Where is it?")).k == settings.k
    assert requested("Where does she live?").k == settings.k
    assert requested(many, k=10).k == 10
    assert requested(many, max_tokens=400).k == 100


def test_naive_times_are_in_the_forests_zone() -> None:
    made = requested(since="2024-05-01", until="2024-05-02", as_of="2024-06-01")
    assert made.between(ROME) == (datetime(2024, 4, 30, 22, tzinfo=UTC), datetime(2024, 5, 1, 22, tzinfo=UTC))
    assert made.said_until(ROME) == datetime(2024, 5, 31, 22, tzinfo=UTC)


def test_a_question_about_an_earlier_time_is_asked_at_that_time_unless_said() -> None:
    assert requested(as_of="2024-06-01T00:00:00Z").timestamp(ROME) == datetime(2024, 6, 1, tzinfo=UTC)
    assert requested(as_of="2024-06-01", asked_at="2023-01-01T00:00Z").timestamp(ROME) == datetime(
        2023, 1, 1, tzinfo=UTC
    )
    assert abs(requested().timestamp(ROME) - datetime.now(UTC)).total_seconds() < 60


def test_between_is_since_and_until() -> None:
    made = requested(between=("2024-05-01T00:00Z", "2024-05-02T00:00Z"))
    assert made.between(ROME) == (datetime(2024, 5, 1, tzinfo=UTC), datetime(2024, 5, 2, tzinfo=UTC))


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"max_tokens": 0}, "invalid_max_tokens"),
        ({"max_tokens": "many"}, "invalid_max_tokens"),
        ({"budget_ms": 0}, "invalid_budget_ms"),
        ({"budget_ms": float("inf")}, "invalid_budget_ms"),
        ({"budget_ms": True}, "invalid_budget_ms"),
        ({"between": "2024"}, "invalid_range"),
        ({"between": ("2024-01-01", "2024-01-02"), "since": "2024-01-01"}, "invalid_range"),
        ({"sessions": "s1"}, "invalid_sessions"),
        ({"speakers": [""]}, "invalid_name"),
        ({"roles": ["boss"]}, "unknown_role"),
        ({"metadata": ["x"]}, "invalid_metadata"),
        ({"metadata": {"a": {"b": 1}}}, "invalid_metadata"),
        ({"trees": ["bush"]}, "invalid_trees"),
        ({"session_id": ""}, "invalid_name"),
        ({"channels": []}, "invalid_channels"),
        ({"channels": "general"}, "invalid_channels"),
        ({"owners": []}, "invalid_owners"),
        ({"owners": [f"o{n}" for n in range(MAX_OWNERS + 1)]}, "invalid_owners"),
        ({"sources": []}, "invalid_sources"),
        ({"sources": [f"s{n}" for n in range(MAX_SOURCES + 1)]}, "invalid_sources"),
        ({"vector": [1.0]}, "invalid_vector"),
        ({"question": None}, "invalid_vector"),
        ({"question": None, "vector": [1.0], "mode": "planner"}, "invalid_mode"),
        ({"mode": "root"}, "invalid_mode"),
        ({"mode": "embedding+planner"}, "invalid_mode"),
    ],
)
def test_what_can_not_be_meant_is_refused(options: dict[str, object], code: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        requested(**options)
    assert refused.value.code == code


def test_each_owner_of_one_recall_is_read_once() -> None:
    assert owners_of("ann", ("bob", "ann")) == ("ann", "bob")
    assert owners_of(None, ("bob",)) == ("bob",)
    with pytest.raises(InvalidInput, match="whose memory"):
        owners_of(None, ())
    with pytest.raises(InvalidInput, match="at most 16"):
        owners_of("ann", tuple(f"o{n}" for n in range(16)))


def test_a_vector_takes_the_place_of_the_question() -> None:
    made = requested(None, vector=[0.5, 1.0])
    assert (made.question.text, made.question.terms, made.vector) == ("", frozenset(), [0.5, 1.0])


@pytest.mark.parametrize("name", ["asof", "kk"])
def test_an_option_that_does_not_exist_is_a_programming_error(name: str) -> None:
    with pytest.raises(TypeError, match=name):
        requested(**{name: 1})
