"""Sessions for apps without session ids: one runs, a gap begins the next one, and closing it makes its work due."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from memforest_core import InvalidInput, NotFound
from memforest_core.models.calls import Embedder
from tests.harness.servers import SessionServers
from tests.harness.stack import Stack, stack

START = 1_700_000_000
HOUR = 3_600


@pytest.fixture
def patient(servers: SessionServers, tmp_path: Path, embedder: Embedder) -> Iterator[Stack]:
    """A stack whose appended turns wait for an hour for the second turn of their cell."""
    with stack(servers, tmp_path, embedder=embedder, accept={"quiet_s": 3_600.0}) as running:
        yield running


def turn(text: str, at: float = START) -> dict[str, object]:
    return {"role": "user", "name": "Bob", "content": text, "timestamp": at}


def test_turns_without_a_session_go_to_the_one_that_runs_until_a_gap(pipeline: Stack) -> None:
    """Given turns without a session id, then they make one session; one that comes more than six hours after the last
    begins another; one that comes exactly then does not."""
    memory = pipeline.memory
    first = memory.append("bob", None, turn("I moved to Davis."))
    assert first.session_id == first.accepted.session != ""
    assert memory.append("bob", None, turn("I like it.", START + 60)).session_id == first.session_id
    assert memory.append("bob", None, turn("Still there.", START + 60 + 6 * HOUR)).session_id == first.session_id
    second = memory.append("bob", None, turn("Good morning.", START + 61 + 12 * HOUR))
    assert second.session_id != first.session_id
    current = memory.session_current("bob")
    assert current is not None
    assert (current.session_id, current.turns) == (second.session_id, 1)
    assert [session.turns for session in memory.sessions("bob").items] == [1, 3]
    assert memory.append("ann", None, turn("Hello.")).session_id not in (first.session_id, second.session_id)


def test_the_gap_is_a_setting(servers: SessionServers, tmp_path: Path, embedder: Embedder) -> None:
    with stack(servers, tmp_path, embedder=embedder, accept={"session_gap_h": 0.5}) as running:
        first = running.memory.append("bob", None, turn("One."))
        assert running.memory.append("bob", None, turn("Two.", START + HOUR)).session_id != first.session_id


def test_many_first_turns_at_once_make_one_session(pipeline: Stack) -> None:
    barrier = threading.Barrier(8)

    def say(number: int) -> str:
        barrier.wait()
        return pipeline.memory.append("bob", None, turn(f"Number {number}.", START + number)).session_id

    with ThreadPoolExecutor(8) as threads:
        assert len(set(threads.map(say, range(8)))) == 1
    assert pipeline.rows("SELECT turn_count FROM memforest.session")[0].turn_count == 8


def test_sessions_are_started_switched_and_closed(pipeline: Stack) -> None:
    memory = pipeline.memory
    assert memory.session_current("bob") is None
    begun = memory.session_start("bob", "work")
    assert (begun.session_id, begun.turns, begun.last_at) == ("work", 0, None)
    assert memory.append("bob", None, turn("A report is due.")).session_id == "work"
    made = memory.session_start("bob").session_id
    assert memory.append("bob", None, turn("Dinner at eight.")).session_id == made
    assert memory.session_switch("bob", "work").turns == 1
    assert memory.append("bob", None, turn("It is done.", START + 60)).session_id == "work"

    closed = memory.session_close("bob")
    assert closed is not None
    assert (closed.session_id, closed.turns) == ("work", 2)
    assert memory.session_current("bob") is None
    assert memory.session_close("bob") is None
    assert memory.append("bob", None, turn("Hello again.", START + 120)).session_id not in ("work", made)
    for wrong in (lambda: memory.session_switch("bob", "none"), lambda: memory.session_close("bob", "none")):
        with pytest.raises(NotFound):
            wrong()
    with pytest.raises(NotFound):
        memory.session_close("eve")
    with pytest.raises(InvalidInput):
        memory.session_start("bob", " ")


@pytest.mark.parametrize("summarize, state", [(True, "ready"), (False, "held")])
def test_closing_with_summarize_makes_the_last_cell_and_the_summaries_due(
    patient: Stack, summarize: bool, state: str
) -> None:
    """Given a last cell that waits for its second turn, when its session is closed to be summarized, then it is
    extracted at once and its tree refreshed; else it waits on. Cells of other sessions wait on too."""
    memory = patient.memory
    memory.append("bob", "other", turn("I bought a kettle."))
    memory.append("bob", None, turn("I moved to Davis."))
    closed = memory.session_close("bob", summarize=summarize)
    assert closed is not None
    cells = "SELECT s.external_id, c.state FROM memforest.cell c JOIN memforest.session s USING (session_id)"
    assert dict(patient.rows(cells)) == {"other": "held", closed.session_id: state}  # type: ignore[arg-type]
    patient.drive()
    assert memory.status("bob", closed.session_id).ready == summarize


def test_a_session_that_is_deleted_does_not_run_any_more(pipeline: Stack) -> None:
    memory = pipeline.memory
    memory.append("bob", "keep", turn("I live in Davis."))
    gone = memory.append("bob", None, turn("Forget this.")).session_id
    memory.lifecycle.forget("bob", session=gone, actor="test")
    pipeline.drive()
    assert memory.session_current("bob") is None
    assert memory.append("bob", None, turn("Hello.")).session_id != gone


def test_a_caller_s_transaction_carries_the_session_that_it_begins(pipeline: Stack) -> None:
    """Given a transaction of the caller's own that is rolled back, then no session runs; committed, one does."""
    with pipeline.services.engine.connect() as connection:
        transaction = connection.begin()
        pipeline.memory.append("bob", None, turn("Hello."), transaction=connection)
        transaction.rollback()
        assert pipeline.memory.session_current("bob") is None
        with connection.begin():
            named = pipeline.memory.append("bob", None, turn("Hello."), transaction=connection).session_id
    current = pipeline.memory.session_current("bob")
    assert current is not None
    assert current.session_id == named
