"""How long a wait pauses between two polls."""

from __future__ import annotations

from memforest_core.work.waiting import SOON_POLLS, SOON_S, polled


def pauses(soon_from: int, found_at: int) -> list[float]:
    """The pauses of a wait whose end is near from one look on, and which ends at another."""
    now, polls, paused = 0.0, 0, list[float]()

    def poll() -> str | None:
        nonlocal polls
        polls += 1
        return "found" if polls > found_at else None

    steps = polled(poll, 1_000.0, 0.02, longest_s=0.1, soon=lambda: polls > soon_from, clock=lambda: now)
    for pause in steps:
        paused.append(pause)
        now += pause
    return paused


def test_pauses_grow_until_it_is_near() -> None:
    found = pauses(soon_from=6, found_at=9)
    assert found[:2] == [0.02, 0.03]
    assert found[4:] == [0.1, 0.1, SOON_S, SOON_S, SOON_S]


def test_what_is_near_for_long_is_looked_at_seldom_again() -> None:
    found = pauses(soon_from=0, found_at=SOON_POLLS + 6)
    assert found[:SOON_POLLS] == [SOON_S] * SOON_POLLS
    assert found[SOON_POLLS:] == [0.02, 0.03, 0.045, 0.0675, 0.1, 0.1]
