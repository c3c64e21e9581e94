"""What a request of mem0's client means."""

from __future__ import annotations

from typing import Any

import pytest

from memforest_core.errors import InvalidInput
from memforest_core.service.http.mem0 import place_of, taken, turns_of, whole
from memforest_core.service.integrations.mem0_rows import Place


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"user_id": "a"}, Place("a")),
        ({"agent_id": "cook"}, Place("cook")),
        (
            {"user_id": "a", "agent_id": "cook", "app_id": "web"},
            Place("a", None, {"agent_id": "cook", "app_id": "web"}),
        ),
        ({"filters": {"user_id": "a", "run_id": "r"}}, Place("a", "r")),
        ({"filters": {"AND": [{"user_id": "a"}, {"AND": [{"metadata": {"x": 1}}]}]}}, Place("a", None, {"x": 1})),
        ({"user_id": "a", "filters": {"user_id": "a"}}, Place("a")),
        ({}, Place("bound")),
        ({"run_id": "r"}, Place("bound", "r")),
    ],
)
def test_ids_name_owner_and_session(fields: dict[str, Any], place: Place) -> None:
    assert place_of(fields, "bound") == place


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"app_id": "web"},
        {"user_id": "*"},
        {"user_id": ["a", "b"]},
        {"user_id": "a", "filters": {"user_id": "b"}},
        {"filters": {"AND": [{"user_id": "a"}, {"user_id": "b"}]}},
        {"filters": {"OR": [{"user_id": "a"}]}},
        {"filters": {"user_id": {"in": ["a"]}}},
        {"filters": {"user_id": "a", "created_at": {"gte": "2024-01-01"}}},
        {"filters": ["a"]},
    ],
)
def test_what_names_nobody_for_certain_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        place_of(fields, None)


def test_messages_of_every_shape_are_added() -> None:
    messages = [
        {"role": "assistant", "content": ""},
        {"role": "user", "content": [{"type": "tool_result", "content": "4 C"}, {"type": "text", "text": "Cold."}]},
    ]

    found = turns_of({"messages": messages, "metadata": {"app": "x"}}, Place("a"), "e")

    assert [(turn["id"], turn["role"], turn["content"]) for turn in found] == [
        ("e-0", "tool", "4 C"),
        ("e-1", "user", "Cold."),
    ]
    assert turns_of({"messages": messages[:1]}, Place("a"), "e") == []


def test_switches_stand_as_they_are() -> None:
    given = {"infer": True, "rerank": False, "query": "x", "top_k": None, "delete_linked": "true"}

    assert taken(given, "query", "top_k") == {"query": "x"}
    for other in ({"infer": False}, {"rerank": True}, {"threshold": 0.3}):
        with pytest.raises(InvalidInput, match="leave it out"):
            taken(other, "query")


def test_messages_become_turns_with_what_is_known_of_them() -> None:
    fields = {
        "messages": [
            {"role": "user", "content": "Hi."},
            {"role": "assistant", "content": [{"type": "text", "text": "Yes?"}]},
        ],
        "metadata": {"app": "web"},
        "timestamp": 1_700_000_000,
    }

    turns = turns_of(fields, Place("a", None, {"agent_id": "cook"}), "event")

    about = {"metadata": {"app": "web", "agent_id": "cook"}, "timestamp": 1_700_000_000}
    assert turns == [
        {"role": "user", "content": "Hi.", "id": "event-0", **about},
        {"role": "assistant", "content": "Yes?", "id": "event-1", **about},
    ]
    for wrong in ({}, {"messages": []}, {"messages": "Hi."}, {"messages": ["Hi."]}, {**fields, "metadata": "x"}):
        with pytest.raises(InvalidInput):
            turns_of(wrong, Place("a"), "event")


@pytest.mark.parametrize("value", [0, -1, 1001, "x", True, 1.5, "²"])
def test_numbers_are_whole_and_bounded(value: object) -> None:
    with pytest.raises(InvalidInput, match="whole number"):
        whole(value, "top_k")
