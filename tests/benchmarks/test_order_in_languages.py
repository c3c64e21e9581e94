"""One conversation in other languages than English: evidence is found by order and meaning, not by its words alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from benchmarks.eval.ingesting import payload
from benchmarks.eval.languages import LANGUAGES, conversations
from memforest_core.models.calls import Embedder
from tests.harness.servers import SessionServers
from tests.harness.stack import Stack, stack

FIRST = 5
OTHERS = ("de", "es", "zh")
GIVEN = {language: one for language, one in zip(LANGUAGES, conversations(), strict=True) if language in OTHERS}


@pytest.fixture(scope="module")
def memory(servers: SessionServers, tmp_path_factory: pytest.TempPathFactory, embedder: Embedder) -> Iterator[Stack]:
    """The conversation in these languages, an owner each."""
    with stack(servers, tmp_path_factory.mktemp("languages"), embedder=embedder) as running:
        for one in GIVEN.values():
            for session in one.sessions:
                running.memory.ingest(
                    one.id, session.id, payload(one, session), started_at=session.started_at.isoformat()
                )
            running.drive()
        yield running


@pytest.mark.parametrize("language", OTHERS)
def test_an_earlier_state_is_among_the_first_items(memory: Stack, language: str) -> None:
    """Given a question about an earlier state, when recalled, then order and wording bring it up in each language."""
    described = GIVEN[language]
    question = next(one for one in described.questions if one.category == "before")

    found = memory.memory.recall(described.id, question.text, mode="embedding").evidence[:FIRST]

    assert set(question.gold) <= {turn for piece in found for turn in piece.turn_ids}
    assert any(piece.signals.get("order", 0.0) > 0.0 for piece in found)
