"""The rate of a key without Redis: a sliding window in one process."""

from __future__ import annotations

import asyncio
from uuid import uuid4

import pytest

from memforest_core.service.http.gate import WINDOW_S, Rates


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0 * WINDOW_S

    def __call__(self) -> float:
        return self.now


def test_a_minute_takes_as_many_as_the_limit() -> None:
    """Given a limit of 10, when 12 come at once, then 10 pass, and the wait ends with the window."""
    clock = Clock()
    rates, key = Rates(None, clock), uuid4()

    async def use() -> list[float]:
        return [await rates.admit(key, 10) for _ in range(12)]

    waits = asyncio.run(use())
    assert waits[:10] == [0.0] * 10
    assert waits[10:] == pytest.approx([WINDOW_S, WINDOW_S])


def test_the_minute_before_counts_by_the_share_that_is_inside() -> None:
    clock = Clock()
    rates, key = Rates(None, clock), uuid4()

    async def use() -> int:
        for _ in range(10):
            await rates.admit(key, 10)
        clock.now += 1.5 * WINDOW_S
        return sum([await rates.admit(key, 10) == 0.0 for _ in range(10)])

    assert asyncio.run(use()) == 5


def test_each_key_is_counted_separately() -> None:
    rates = Rates(None, Clock())

    async def use() -> list[float]:
        first, second = uuid4(), uuid4()
        await rates.admit(first, 1)
        return [await rates.admit(second, 1), await rates.admit(first, 1)]

    free, busy = asyncio.run(use())
    assert free == 0.0
    assert busy > 0.0
