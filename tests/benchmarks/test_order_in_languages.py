"""One conversation in other languages than English: evidence is found by order and meaning, not by its words alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from benchmarks.eval import lives
from benchmarks.eval.ingesting import payload
from memforest_core.models.calls import Embedder
from tests.harness.servers import SessionServers
from tests.harness.stack import Stack, stack

FIRST = 5
OTHERS = ("de", "es", "zh")
GIVEN = {one.id[-2:]: one for one in lives.load(lives.LANGUAGES) if one.id[-2:] in OTHERS}


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


def test_earlier_states_are_among_the_first_items(memory: Stack) -> None:
    """Given questions about earlier states, when recalled, then the order of time lifts turns in each language, and it
    brings up most of the turns that answer."""
    found, lifted = [], set()
    for language, described in GIVEN.items():
        for question in (one for one in described.questions if one.category == "before"):
            first = memory.memory.recall(described.id, question.text, mode="embedding").evidence[:FIRST]
            found.append(set(question.gold) <= {turn for piece in first for turn in piece.turn_ids})
            if any(piece.signals.get("series", 0.0) > 0.0 for piece in first):
                lifted.add(language)

    assert lifted == set(OTHERS)
    assert sum(found) > len(found) / 2
