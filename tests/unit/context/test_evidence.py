"""Evidence that says nothing new is left out; what fits is taken, the best first."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import permutations
from uuid import UUID

from memforest_core.assistant.context.draft import chosen, in_order
from memforest_core.assistant.context.portraits import Line
from memforest_core.assistant.context.records import ContextPart, Section, body_tokens
from memforest_core.assistant.conversation_window.records import PartKind
from memforest_core.domain.evidence import Evidence, EvidenceKind
from memforest_core.domain.ids import FactId
from memforest_core.domain.times import Precision, TimeSpan

OSLO, JOB = FactId(UUID(int=1)), FactId(UUID(int=2))
PROFILE = (
    Line(
        text="Alice lives in Oslo and works at Initech.",
        facts=(OSLO, JOB),
        sentences=("Alice lives in Oslo.", "Alice works at Initech."),
    ),
)


def piece(
    text: str, *facts: FactId, day: int = 1, turn: str = "t1", kind: EvidenceKind = EvidenceKind.TURN
) -> Evidence:
    at = datetime(2024, 5, 1, tzinfo=UTC) + timedelta(days=day)
    return Evidence(
        text=text,
        time=TimeSpan(at, at, Precision.MINUTE),
        time_label=f"{at:%d %B}",
        score=1.0,
        kind=kind,
        fact_ids=facts,
        session_id=f"s{day}",
        turn_ids=(turn,),
        ordinal=0,
        speaker="Alice",
    )


def reasons(
    items: list[Evidence], window: tuple[ContextPart, ...] = (), lines: tuple[Line, ...] = (), tokens: int = 1_000
) -> tuple[list[str], list[str]]:
    parts, out = chosen(items, window, lines, tokens)
    assert body_tokens(parts) <= tokens
    return [part.text for part in parts], [each.why.value for each in out]


def test_facts_of_the_profile_are_not_repeated() -> None:
    """A fact goes; a turn goes when it has hardly a word beyond its facts, and stays when it says more."""
    fact = piece("Alice lives in Oslo.", OSLO, kind=EvidenceKind.FACT)
    bare = piece("Alice: I live in Oslo.", OSLO)
    more = piece("Alice: I live in Oslo, above the bakery with the red door.", OSLO)
    other = piece("Alice: I bought a kayak.")

    shown, out = reasons([fact, bare, more, other], lines=PROFILE)

    assert shown == [more.text, other.text]
    assert out == ["in profile", "in profile"]


def test_what_the_window_shows_is_not_repeated() -> None:
    items = [
        piece("Alice: Hi.", turn="t1"),
        piece("Alice: Hi.", turn="t2"),
        piece("A fact.", JOB, kind=EvidenceKind.FACT),
    ]

    turn = ContextPart(Section.WINDOW, PartKind.TURN, "Alice: Hi.", 3, session_id="s1", turn_ids=("t1",))
    item = ContextPart(Section.WINDOW, PartKind.ITEM, "A fact.", 2, fact_ids=(JOB,))

    shown, out = reasons(items, (turn, item))

    assert (shown, out) == (["Alice: Hi."], ["in window", "in window"])


def test_one_that_does_not_fit_leaves_room_for_shorter_ones() -> None:
    long, short = piece("x" * 400), piece("Alice: Hi.", day=2)

    assert reasons([long, short], tokens=20) == (["Alice: Hi."], ["budget"])


def test_the_session_of_the_best_piece_comes_first_and_each_is_in_the_order_of_time() -> None:
    """Given items best first of three sessions, then each session stays together, its own days in order."""
    late, early = piece("Late.", day=5), piece("Early.", day=2)
    after = replace(piece("After.", day=6), session_id=late.session_id)
    before = replace(piece("Before.", day=5), ordinal=-1)
    between = piece("Between.", day=3)

    assert in_order([after, early, late, between, before]) == [before, late, after, early, between]


def test_items_of_one_day_have_one_header_though_another_day_lies_between() -> None:
    """Given a piece of a span that begins within a day, then that day is still named once, as it was counted."""
    first, last = piece("First.", day=1), replace(piece("Last.", day=1), ordinal=2)
    other = replace(piece("Other.", day=1), time_label="1 to 3 May", ordinal=1)

    assert {tuple(one.time_label for one in in_order(list(given))) for given in permutations([first, other, last])} == {
        (first.time_label, last.time_label, other.time_label),
        (other.time_label, first.time_label, last.time_label),
    }
