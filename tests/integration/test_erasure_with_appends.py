"""Deletions and pins while turns of the same session are added: each turn goes whole or stays whole."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
import sqlalchemy as sa

from memforest_core.errors import NotFound
from memforest_core.index.service import Indexer
from memforest_core.index.vector_index import PointKind
from memforest_core.lifecycle.erase.steps import PHASE
from memforest_core.work.records import Numbers
from tests.harness.sayings import said
from tests.harness.stack import Stack
from tests.integration.test_erasure import (
    GARAGE,
    PARTY,
    assert_nowhere,
    assert_whole,
    erase,
    fact_saying,
    held,
    one,
    receipt,
    work,
)
from tests.integration.test_erasure import ask as requested
from tests.integration.test_erasure import tell as tell

LOCKED = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'memforest_app' AND wait_event_type = 'Lock'"
MORE: dict[str, Any] = {"role": "user", "name": "Bob", "content": "I bought a blue gramophone."}


@pytest.fixture
def filled(rested: Stack) -> Stack:
    return rested


def add_one(filled: Stack, transaction: sa.Connection | None = None) -> None:
    filled.memory.client.append("bob", "garage", MORE, transaction=transaction)


def add_three(filled: Stack, transaction: sa.Connection | None = None) -> None:
    filled.memory.client.enqueue("bob", "garage", [*GARAGE, MORE, MORE, MORE], transaction=transaction)


@contextmanager
def waiting(filled: Stack, called: Callable[[], object], others: int = 0) -> Iterator[None]:
    """A call in another thread that has come to wait for a lock, as ``others`` do; it is over at the end of the block."""
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(called)
        deadline = time.monotonic() + 60
        while one(filled, LOCKED) <= others:
            assert time.monotonic() < deadline and not running.done()
            time.sleep(0.01)
        yield
        running.result()


@pytest.mark.parametrize("add", [add_one, add_three])
def test_what_commits_while_its_session_is_deleted_goes_with_it(filled: Stack, add: Callable[..., None]) -> None:
    """Given: a caller's own transaction has extended a session. When: its deletion begins, then the caller commits.
    Then: the whole session is gone, and the receipt is clean."""
    task = requested(filled, session="garage")
    with filled.services.engine.connect() as connection, connection.begin() as transaction:
        add(filled, connection)
        with waiting(filled, lambda: work(filled)):
            transaction.commit()

    assert receipt(filled, task).clean
    assert_nowhere(filled, "zorblax", "gramophone")
    with pytest.raises(NotFound):
        filled.memory.status("bob", "garage")
    assert_whole(filled)


@pytest.mark.parametrize("call", ["append", "enqueue"])
def test_a_turn_that_waits_for_a_deletion_begins_the_session_again(filled: Stack, call: str) -> None:
    """Given: the deletion of a session is under way and waits for a cell. When: a turn comes to wait for the session.
    Then: it is the first of a new session under that id."""
    task = requested(filled, session="party")
    calls = {
        "append": lambda: filled.memory.client.append("bob", "party", MORE),
        "enqueue": lambda: filled.memory.client.enqueue("bob", "party", [*PARTY, MORE]),
    }
    engine = filled.owner_engine()
    with ExitStack() as over, engine.connect() as other, other.begin() as transaction:
        other.execute(sa.text("SET LOCAL memforest.across = 'on'"))
        other.execute(sa.text("SELECT 1 FROM memforest.cell WHERE text LIKE '%clocks%' FOR UPDATE"))
        over.enter_context(waiting(filled, lambda: work(filled)))
        over.enter_context(waiting(filled, calls[call], others=1))
        transaction.rollback()
    engine.dispose()

    assert receipt(filled, task).clean
    said_now = [turn.content for turn in filled.memory.turns("bob", "party").items]
    assert said_now == [MORE["content"]] if call == "append" else len(said_now) == len(PARTY) + 1
    assert_whole(filled)


def test_a_session_begun_again_under_its_id_is_not_counted_as_left(filled: Stack) -> None:
    """Given: all rows of a session are deleted, and its points are still to go. When: a turn comes under that id.
    Then: the receipt of the deletion is clean, and the turn is there."""
    task, step = held(filled, session="garage"), filled.services.lifecycle.erasing.step
    progress: Numbers = {}
    while progress.get(PHASE) != "index":
        progress = step(filled.tenant, task, progress) or {}
    add_one(filled)
    filled.execute("UPDATE memforest.maintenance SET available_at = now()")
    work(filled)

    assert receipt(filled, task.id).clean
    assert [turn.content for turn in filled.memory.turns("bob", "garage").items] == [MORE["content"]]
    assert_whole(filled)


def test_words_said_while_a_speakers_words_are_deleted_go_too(filled: Stack) -> None:
    """Given: a deletion has found no words of a speaker any more. When: the speaker says something before the search
    for what is left. Then: that goes too, and the receipt is clean."""
    task, step = held(filled, speaker="ysolde"), filled.services.lifecycle.erasing.step
    progress: Numbers = {}
    while progress.get(PHASE) != "scan":
        progress = step(filled.tenant, task, progress) or {}
    filled.memory.client.enqueue("bob", "later", said("I sold my drimble boat again.", name="Ysolde"))
    filled.execute("UPDATE memforest.maintenance SET available_at = now()")
    work(filled)

    assert receipt(filled, task.id).clean
    assert_nowhere(filled, "drimble")
    assert_whole(filled)


def test_a_fact_that_is_deleted_meanwhile_is_not_said_to_be_pinned(filled: Stack) -> None:
    """Given: a pin has come to wait for the deletion of its fact. Then: it says that there is no such fact."""
    fact = fact_saying(filled, "copper kettles")
    with filled.services.engine.connect() as connection, connection.begin() as transaction:
        connection.execute(sa.text("SELECT set_config('memforest.tenant', :t, true)"), {"t": filled.tenant})
        connection.execute(sa.text("SELECT 1 FROM memforest.forest WHERE owner = 'bob' FOR NO KEY UPDATE"))
        connection.execute(sa.text("DELETE FROM memforest.occurrence WHERE fact_id = :f"), {"f": fact})
        connection.execute(sa.text("DELETE FROM memforest.fact WHERE fact_id = :f"), {"f": fact})
        with pytest.raises(NotFound), waiting(filled, lambda: filled.memory.lifecycle.pin("bob", fact, actor="test")):
            transaction.commit()


def test_a_deletion_leaves_other_sessions_to_their_callers(filled: Stack) -> None:
    """Given: a caller's own transaction has extended another session. Then: a deletion does not wait for it."""
    with filled.services.engine.connect() as connection, connection.begin() as transaction:
        filled.memory.client.append("bob", "party", MORE, transaction=connection)
        erase(filled, session="garage")
        transaction.commit()
    assert_whole(filled)


def test_a_point_begun_again_while_its_writer_takes_it_back_has_no_lease(
    filled: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given: a session is deleted while its points are written, and begun again while the writer takes them back. Then:
    no row stays under the writer's lease, for which the receipt would wait."""
    indexer = filled.services.indexer
    upsert, undo = indexer.index.upsert, Indexer._undo
    filled.memory.client.enqueue("bob", "short", [MORE])

    def deleted_meanwhile(points: Any) -> None:
        monkeypatch.undo()
        monkeypatch.setattr(Indexer, "_undo", restarted)
        upsert(points)
        task, progress = held(filled, session="short"), {}
        while progress.get(PHASE) != "index":
            progress = filled.services.lifecycle.erasing.step(filled.tenant, task, progress) or {}

    def restarted(*given: Any) -> None:
        filled.memory.client.append("bob", "short", MORE)
        undo(*given)

    monkeypatch.setattr(indexer.index, "upsert", deleted_meanwhile)
    indexer.run_one(filled.tenant, filled.runtime.worker, tuple(PointKind))
    monkeypatch.undo()

    assert one(filled, "SELECT count(*) FROM memforest.index_row WHERE state = 'running'") == 0
    filled.execute("UPDATE memforest.maintenance SET available_at = now()")
    work(filled)
    assert_whole(filled)
