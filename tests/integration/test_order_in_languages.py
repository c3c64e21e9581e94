"""A question about an earlier state finds it in German, Spanish and Chinese, by the order of time and other words."""

from __future__ import annotations

import pytest

from benchmarks.eval.ingesting import payload
from benchmarks.languages import conversations
from benchmarks.support.stack import Stack

FIRST = 5


@pytest.mark.parametrize("language", ["de", "es", "zh"])
def test_an_earlier_state_is_among_the_first_pieces(pipeline: Stack, language: str) -> None:
    told = next(one for one in conversations() if one.id.endswith(f"-{language}"))
    for session in told.sessions:
        pipeline.memory.ingest(told.id, session.id, payload(told, session), started_at=session.started_at.isoformat())
    pipeline.drive()
    asked = next(question for question in told.questions if question.category == "before")

    found = pipeline.memory.recall(told.id, asked.text, mode="embedding").evidence[:FIRST]

    assert set(asked.gold) <= {turn for piece in found for turn in piece.turn_ids}
    assert any(piece.signals.get("order", 0.0) > 0.0 for piece in found)
