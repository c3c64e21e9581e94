"""A forest that was exported from one embedded node and imported into another answers fifty questions the same."""

from __future__ import annotations

from pathlib import Path

from benchmarks.eval.dataset import Conversation
from benchmarks.eval.locomo import load
from memforest_core.client.api import MemForest
from memforest_core.domain.evidence import Evidence
from tests.harness.close import Close

DATA = Path(__file__).parents[2] / "benchmarks" / "eval" / "data" / "own.json"
QUESTIONS = 50
ACTOR = "test"
TIMEOUT_S = 180.0

Piece = tuple[str, str, tuple[str, ...], tuple[object, ...], Close, str, object]


def ingest(memory: MemForest, conversation: Conversation) -> None:
    """All sessions of a conversation under its id, refreshed and indexed."""
    for session in conversation.sessions:
        turns = [
            {"id": turn.id, "role": "user", "name": turn.speaker, "speaker_id": turn.speaker, "content": turn.text}
            for turn in session.turns
        ]
        memory.ingest(conversation.id, session.id, turns, started_at=session.started_at)
    memory.flush(conversation.id, TIMEOUT_S)


def described(piece: Evidence) -> Piece:
    """What a caller sees of a piece of evidence, ids of facts and nodes included."""
    path = tuple((node.node_id, node.label, node.level, node.summary) for node in piece.path)
    return (
        piece.text,
        piece.session_id,
        piece.turn_ids,
        (*piece.fact_ids, *path),
        Close(piece.score),
        piece.freshness.value,
        piece.time,
    )


def test_an_imported_forest_answers_as_the_exported_one(tmp_path: Path) -> None:
    """Given fifty questions about two conversations, then every piece of evidence is the same, in the same order, with
    the same ids, scores, tree paths and summaries; the import embeds nothing and calls no model."""
    conversations = load(DATA)
    requested = [(one.id, question.text) for one in conversations for question in one.questions][:QUESTIONS]
    assert len(requested) == QUESTIONS
    with MemForest.embedded(tmp_path / "one") as memory:
        for conversation in conversations:
            ingest(memory, conversation)
            memory.lifecycle.export(conversation.id, tmp_path / f"{conversation.id}.memforest", actor=ACTOR)
        answers = [[described(piece) for piece in memory.recall(*pair).evidence] for pair in requested]
    with MemForest.embedded(tmp_path / "two") as memory:
        for conversation in conversations:
            memory.lifecycle.import_(tmp_path / f"{conversation.id}.memforest", actor=ACTOR)
            memory.flush(conversation.id, TIMEOUT_S)
        for pair, before in zip(requested, answers, strict=True):
            found = memory.recall(*pair)
            assert not found.degraded
            assert before and [described(piece) for piece in found.evidence] == before, pair
        assert {pair[0] for pair in requested} == {one.id for one in conversations}
