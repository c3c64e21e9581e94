"""Of forests that were not written one after the other only the seconds are continued, and the row says so."""

from __future__ import annotations

from benchmarks.merge import Stand, row

WRITTEN = [Stand(seconds=10.0, facts=20, trees=4, llm_calls=3), Stand(seconds=24.0, facts=41, trees=7, llm_calls=6)]
MERGED = Stand(seconds=3.0, facts=80, trees=12, llm_calls=1)


def test_a_size_that_was_written_has_its_own_figures() -> None:
    made = row(2, WRITTEN, MERGED, 7)

    assert (made["sequential_s"], made["extrapolated"], made["sequential_forests"]) == (24.0, False, "2 of 2")
    assert (made["sequential_facts"], made["speedup"]) == (41, 8.0)


def test_a_larger_size_has_continued_seconds_and_no_counts() -> None:
    """Given two forests of which each took 12 s, then four would take 48."""
    made = row(4, WRITTEN, MERGED, 7)

    assert (made["sequential_s"], made["extrapolated"], made["sequential_forests"]) == (48.0, True, "2 of 4")
    assert "sequential_facts" not in made
