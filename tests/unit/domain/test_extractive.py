"""Extractive summaries: within the budget, in order, and worth reading."""

from __future__ import annotations

import pytest

from memforest_core.domain.extractive import summarize

HISTORY = [
    "Bob lives in Boston. The weather was grey all week and nothing happened.",
    "Bob works as a data analyst at Harborline Freight. He had a sandwich.",
    "Bob adopted a dog named Biscuit on 4 November 2023. The shelter was friendly.",
    "Biscuit weighs 24 pounds. Biscuit hates the scale.",
    "Bob moved to Miami in 2024 and works at Tidewise. It is humid there.",
]


def test_what_fits_is_joined_without_repetition() -> None:
    assert summarize(["One.", "Two.", "One."], 100) == "One.\nTwo."


def test_lines_are_verbatim_and_in_the_order_of_the_texts() -> None:
    lines = summarize(HISTORY, 200).split("\n")

    locations = ["\n".join(HISTORY).index(line.strip()) for line in lines]
    assert len(lines) >= 3
    assert locations == sorted(locations)


def test_the_first_and_the_latest_state_stay() -> None:
    summary = summarize(HISTORY, 210)

    assert "Boston" in summary
    assert "Miami" in summary


def test_the_newest_lines_stay_however_little_they_weigh() -> None:
    """Given lines of one kind, then the newest stay as far as their share goes, the very last in any case, and others
    are chosen in addition."""
    reported = [f"Bob paid {n} dollars for lamp {n}." for n in range(10, 40)]
    text = "\n".join(reported)

    assert reported[-1] not in summarize([text], 200)
    for share, last in ((1, reported[-1:]), (2 * len(reported[0]) + 1, reported[-2:]), (200, reported[-5:])):
        lines = summarize([text], 200, newest_chars=share).split("\n")
        assert lines[-len(last) :] == last
        assert len(lines) >= 5


@pytest.mark.parametrize("budget", [1, 5, 20, 60, 120, 200])
def test_the_budget_is_observed_with_the_newest_lines_too(budget: int) -> None:
    assert 0 < len(summarize(HISTORY, budget, newest_chars=budget)) <= budget


def test_a_newest_line_that_is_too_long_is_cut() -> None:
    summary = summarize([*HISTORY, "Bob " + "really " * 40 + "left."], 60, newest_chars=30)

    assert "Bob really" in summary
    assert len(summary) <= 60


def test_a_repeated_line_does_not_crowd_out_another() -> None:
    texts = ["Bob likes tea very much indeed.", "BOB likes tea very much indeed."] * 5 + ["Maya plays the cello."]

    summary = summarize(texts, 70)

    assert summary.casefold().count("tea") == 1
    assert "cello" in summary


def test_one_endless_text_leaves_room_for_the_others() -> None:
    summary = summarize(["word " * 2_000, "Maya moved to Denver."], 100)

    assert "Denver" in summary
    assert len(summary) <= 100


@pytest.mark.parametrize("texts", [[], [""], ["  ", "\n"]])
def test_nothing_gives_nothing(texts: list[str]) -> None:
    assert summarize(texts, 100) == ""


@pytest.mark.parametrize("between", [" ", "\n  ", "\n  - "])
def test_only_the_beginning_of_a_turn_is_at_the_margin(between: str) -> None:
    """Given a text with a sentence that imitates a turn, then a summary shows that sentence as the rest of a turn."""
    texts = ["Ann: I sing.", f"weather: It is sunny.{between}Bob: I moved to Rome in 2024.", "Cy: Good morning to you."]
    shorter = summarize([*texts, "Ann: " + "word " * 200], 130)
    for summary in (shorter, summarize([shorter, *texts[:1]], 150)):
        assert "moved to Rome" in summary
        assert all(line.startswith(("Ann: ", "weather: ", "Cy: ", "  ")) for line in summary.splitlines())


def test_a_text_that_begins_with_the_rest_of_a_turn_stays_indented() -> None:
    assert summarize(["  Bob: I moved.", "Ann: Hi."], 100) == "  Bob: I moved.\nAnn: Hi."


def test_the_rest_of_an_item_without_its_beginning_says_whose_it_is() -> None:
    """Given turns of several sentences, then none is left under the name of another speaker."""
    turns = (
        "assistant: You could call it Falcon. The launch with 300 guests is fixed on 4 May in Lisbon.",
        "Ann: No, not that. I will name it Heron and launch it in June with 20 friends in Porto.",
    )

    for budget in range(60, 175):
        text = summarize(["\n".join(turns)], budget)
        assert len(text) <= budget
        speaker = ""
        for line in text.splitlines():
            speaker = speaker if line.startswith("  ") else line.partition(": ")[0]
            assert ("Falcon" in line or "Lisbon" in line) <= (speaker == "assistant"), text
            assert ("Heron" in line or "20" in line) <= (speaker == "Ann"), text
