"""Evidence that says nothing new is left out; what fits is taken, the best first."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

from memforest_core.context.evidence import Shown, chosen, in_order
from memforest_core.context.portraits import Line
from memforest_core.context.rendering import body_tokens
from memforest_core.domain.evidence import Evidence, EvidenceKind
from memforest_core.domain.ids import FactId
from memforest_core.domain.times import Precision, TimeSpan

OSLO, JOB = FactId(UUID(int=1)), FactId(UUID(int=2))
PROFILE = (
    Line(
        text="Alice lives in Oslo and works at Initech.",
        facts=(OSLO, JOB),
        told=("Alice lives in Oslo.", "Alice works at Initech."),
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


def reasons(pieces: list[Evidence], shown: Shown, tokens: int = 1_000) -> tuple[list[str], list[str]]:
    parts, out = chosen(pieces, shown, tokens, 0.9)
    assert body_tokens(parts) <= tokens
    return [part.text for part in parts], [each.why.value for each in out]


def test_what_the_profile_tells_is_not_repeated() -> None:
    """A fact goes; a turn goes when it has hardly a word beyond its facts, and stays when it tells more."""
    fact = piece("Alice lives in Oslo.", OSLO, kind=EvidenceKind.FACT)
    bare = piece("Alice: I live in Oslo.", OSLO)
    more = piece("Alice: I live in Oslo, above the bakery with the red door.", OSLO)
    other = piece("Alice: I bought a kayak.")

    shown, out = reasons([fact, bare, more, other], Shown(lines=PROFILE))

    assert shown == [more.text, other.text]
    assert out == ["in profile", "in profile"]


def test_what_the_window_shows_is_not_repeated() -> None:
    pieces = [
        piece("Alice: Hi.", turn="t1"),
        piece("Alice: Hi.", turn="t2"),
        piece("A fact.", JOB, kind=EvidenceKind.FACT),
    ]

    shown, out = reasons(pieces, Shown(turns={("s1", "t1")}, items={JOB}))

    assert (shown, out) == (["Alice: Hi."], ["in window", "in window"])


def test_one_that_does_not_fit_leaves_room_for_shorter_ones() -> None:
    long, short = piece("x" * 400), piece("Alice: Hi.", day=2)

    assert reasons([long, short], Shown(), 20) == (["Alice: Hi."], ["budget"])


def test_pieces_are_shown_in_order_of_time() -> None:
    late, early = piece("Late.", day=5), piece("Early.", day=2)

    assert in_order([late, early]) == [early, late]
