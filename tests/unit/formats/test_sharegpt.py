"""Conversations in ShareGPT's format."""

from __future__ import annotations

import pytest

from memforest_core.ingest.formats.datasets import sharegpt
from memforest_core.ingest.formats.file_items import Converted, Refused, Value, Wordless, each

TALK = [{"from": "human", "value": "I row."}, {"from": "gpt", "value": "Alone?"}]


def test_a_conversation_is_a_session() -> None:
    assert list(each([Value(1, {"id": "t1", "conversations": TALK})], sharegpt, "ann")) == [
        Converted(1, "ann", "t1", [{"role": "user", "content": "I row."}, {"role": "assistant", "content": "Alone?"}])
    ]


def test_one_without_an_id_is_named_by_what_was_said() -> None:
    """Given the same conversation at two positions, then it has one name, and another one has another."""
    same, moved, other = each(
        [Value(1, {"conversations": TALK}), Value(8, {"conversations": TALK}), Value(9, {"conversations": TALK[:1]})],
        sharegpt,
        "ann",
    )
    assert isinstance(same, Converted) and isinstance(moved, Converted) and isinstance(other, Converted)
    assert same.session_id == moved.session_id != other.session_id
    assert same.session_id.startswith("sharegpt-")


@pytest.mark.parametrize(
    "name, role",
    [
        ("user", "user"),
        ("Human", "user"),
        ("chatgpt", "assistant"),
        ("system", "system"),
        ("function_call", "tool"),
        ("observation", "tool"),
    ],
)
def test_speakers_have_roles(name: str, role: str) -> None:
    (found,) = each([Value(1, {"id": 3, "conversations": [{"from": name, "value": "x"}]})], sharegpt, "ann")
    assert isinstance(found, Converted)
    assert (found.session_id, found.turns) == ("3", [{"role": role, "content": "x"}])


def test_a_conversation_without_words_is_none() -> None:
    assert list(each([Value(1, {"id": "t", "conversations": [{"from": "human", "value": ""}]})], sharegpt, "ann")) == [
        Wordless(1, "t")
    ]


@pytest.mark.parametrize(
    "raw, hint",
    [
        ([], "object"),
        ({"id": "t"}, "conversations"),
        ({"conversations": ["x"]}, "Turn 1"),
        ({"conversations": [{"from": "narrator", "value": "x"}]}, "narrator"),
        ({"conversations": [{"value": "x"}]}, "none of human"),
        ({"conversations": [{"from": "human", "value": None}]}, "text"),
    ],
)
def test_what_is_malformed_is_refused(raw: object, hint: str) -> None:
    bad, good = each([Value(1, raw), Value(2, {"conversations": TALK})], sharegpt, "ann")
    assert isinstance(bad, Refused) and bad.position == 1
    assert hint in bad.error.message
    assert isinstance(good, Converted)
