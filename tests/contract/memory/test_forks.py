"""A process that connects and forks: its children ask the same memory over connections of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from memforest_core.client.api import MemForest
from memforest_core.client.async_memory import AsyncMemForest
from tests.harness.forked import in_children
from tests.harness.sayings import said

OWNERS = ("fork-ann", "fork-bob", "fork-cleo")
ROUNDS = 5


def own(owner: str) -> list[str]:
    return [f"I live in the house of {owner}."] * ROUNDS


@pytest.mark.parametrize("face", ["connected", "remote"])
def test_children_and_parent_read_what_they_ask_for(memory: MemForest) -> None:
    def reading(owner: str) -> Callable[[], object]:
        return lambda: [turn.content for _ in range(ROUNDS) for turn in memory.turns(owner, "base").items]

    for owner in OWNERS:
        memory.enqueue(owner, "base", said(f"I live in the house of {owner}."))
    assert [reading(owner)() for owner in OWNERS] == [own(owner) for owner in OWNERS]
    assert in_children(*map(reading, OWNERS)) == [own(owner) for owner in OWNERS]
    assert [reading(owner)() for owner in OWNERS] == [own(owner) for owner in OWNERS]


def test_children_call_an_async_memory_that_their_parent_has_called(memories: dict[str, MemForest]) -> None:
    """The threads of an async memory are the parent's."""
    memory = AsyncMemForest(memories["connected"])
    memories["connected"].enqueue(OWNERS[0], "async", said(f"I live in the house of {OWNERS[0]}."))

    def read() -> list[str]:
        return [turn.content for turn in asyncio.run(memory.turns(OWNERS[0], "async")).items]

    expected = own(OWNERS[0])[:1]
    assert read() == expected
    assert in_children(read, read) == [expected, expected]


def test_a_child_of_a_node_is_refused(memories: dict[str, MemForest]) -> None:
    [refused] = in_children(lambda: memories["embedded"].turns(OWNERS[0], "base").items)
    assert refused.startswith("UsedAfterFork: ")
