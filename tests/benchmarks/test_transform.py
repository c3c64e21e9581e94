"""Other names and another time, everywhere alike."""

from __future__ import annotations

from datetime import UTC, datetime

from benchmarks.eval.dataset import Conversation, Question, Session, Turn
from benchmarks.eval.transform import transformed

STARTED = datetime(2023, 5, 8, 13, 56, tzinfo=UTC)


def data(*texts: str, question: str = "When did Katrin meet Otto?") -> tuple[Conversation, ...]:
    turns = tuple(Turn(f"t{number}", "Katrin", text) for number, text in enumerate(texts))
    requested = Question("q", question, "temporal", ("t0",), "8 May 2023", STARTED)
    return (Conversation("c", (Session("s", STARTED, turns),), (requested,)),)


def test_a_name_becomes_the_same_other_name_everywhere() -> None:
    """Given a speaker whom texts name in several forms, when transformed, then one other name is in all of them."""
    (one,) = transformed(data("Katrin's cat", "dear katrin, KATRIN!", "Katrine stays."), 7)
    name = one.sessions[0].turns[0].speaker
    texts = [turn.text for turn in one.sessions[0].turns]
    assert name != "Katrin"
    assert texts == [f"{name}'s cat", f"dear {name.lower()}, {name.upper()}!", "Katrine stays."]
    assert one.questions[0].text.startswith(f"When did {name} meet ")
    assert "Otto" not in one.questions[0].text
