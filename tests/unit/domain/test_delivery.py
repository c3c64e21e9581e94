"""Evidence as one text within a budget."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from memforest_core.domain.delivery import deliver, estimated_tokens
from memforest_core.domain.evidence import Evidence, EvidenceKind, day_label
from memforest_core.domain.times import UNKNOWN_TIME, Precision, TimeSpan

MONDAY = datetime(2023, 5, 8, 13, 56, tzinfo=UTC)


def piece(text: str, ordinal: int = 0, session: str = "s1", days: int = 0) -> Evidence:
    moment = MONDAY + timedelta(days=days)
    span = TimeSpan(moment, moment, Precision.MINUTE)
    return Evidence(
        text=text,
        time=span,
        time_label=day_label(span, UTC),
        score=1.0,
        kind=EvidenceKind.TURN,
        fact_ids=(),
        session_id=session,
        turn_ids=(f"turn-{ordinal}",),
        ordinal=ordinal,
        speaker=text.partition(":")[0],
    )


def test_one_header_per_session_and_day_and_turns_in_order_of_the_dialogue() -> None:
    late, early = piece("Ann: And you?", 3), piece("Ann: Hello", 1)
    assert deliver([late, early]) == "[Monday 8 May 2023]\nAnn: Hello\nAnn: And you?"


def test_groups_come_in_order_of_time() -> None:
    text = deliver([piece("Ann: Now", 0, "s2", days=1), piece("Ann: Before", 0, "s1")])
    assert text.splitlines() == ["[Monday 8 May 2023]", "Ann: Before", "[Tuesday 9 May 2023]", "Ann: Now"]


def test_the_text_never_exceeds_its_budget_headers_included() -> None:
    parts = [piece("Ann: " + "x" * 60, n, f"s{n % 3}", n % 3) for n in range(20)]
    for budget in (5, 20, 40, 100, 300):
        assert estimated_tokens(deliver(parts, budget)) <= budget


def test_a_piece_that_does_not_fit_leaves_room_for_a_shorter_one() -> None:
    text = deliver([piece("Ann: " + "x" * 400, 0), piece("Ann: short", 1)], 20)
    assert text == "[Monday 8 May 2023]\nAnn: short"


def test_a_label_is_as_coarse_as_the_date_was_said() -> None:
    end = MONDAY + timedelta(days=7)
    labels = {
        precision: day_label(TimeSpan(MONDAY, end, precision), UTC)
        for precision in (Precision.YEAR, Precision.MONTH, Precision.WEEK, Precision.DAY)
    }
    assert labels == {
        Precision.YEAR: "2023",
        Precision.MONTH: "May 2023",
        Precision.WEEK: "week of Monday 8 May 2023",
        Precision.DAY: "Monday 8 May 2023",
    }
    assert day_label(UNKNOWN_TIME, UTC) == "date unknown"
