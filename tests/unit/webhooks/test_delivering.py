"""When a delivery is tried again."""

from __future__ import annotations

from itertools import accumulate

import pytest

from memforest_core.observe.webhooks.posting import RETRY_S, next_wait


def test_tries_follow_the_schedule_of_the_specification() -> None:
    after = [
        f"{int(s) // 3600:02}:{int(s) // 60 % 60:02}:{int(s) % 60:02}"
        for s in accumulate(next_wait(tries, 0.0, 0.0) or 0.0 for tries in range(1, 10))
    ]
    assert after == [
        "00:00:05", "00:05:05", "00:35:05", "02:35:05", "07:35:05", "17:35:05", "31:35:05", "51:35:05", "75:35:05",
    ]  # fmt: skip


def test_the_tenth_try_is_the_last_and_a_receiver_can_ask_for_more_time_but_not_for_less() -> None:
    assert (next_wait(len(RETRY_S), 0.0, 0.0), next_wait(len(RETRY_S) + 1, 0.0, 0.0)) == (RETRY_S[-1], None)
    assert (next_wait(1, 60.0, 0.0), next_wait(2, 60.0, 0.0)) == (60.0, 300.0)


def test_waits_differ_by_chance() -> None:
    assert next_wait(2, 0.0, 0.5) == pytest.approx(330.0)
