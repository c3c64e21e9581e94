"""No two transactions wait for each other: every operation's locks, statement by statement."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from memforest_core.ingest.accept.records import Stage
from memforest_core.lifecycle.verify.service import open_verification
from memforest_core.models.calls import Embedder
from tests.harness.grown_forests import BOB, DAY_S, MONDAY, grow
from tests.harness.kill_operations import REAL
from tests.harness.lock_order import LockOrder
from tests.harness.sayings import said
from tests.harness.servers import SessionServers
from tests.harness.stack import Grown, Stack, cloned, grown_by


@pytest.fixture(scope="module")
def grown(servers: SessionServers, tmp_path_factory: pytest.TempPathFactory, embedder: Embedder) -> Iterator[Grown]:
    with grown_by(grow, servers, tmp_path_factory.mktemp("grown"), embedder) as found:
        yield found


def tell(running: Stack, _directory: Path) -> None:
    """Sessions come, grow and are waited for; what failed for good is tried again."""
    client = running.memory.client
    client.enqueue(BOB, "boats", said(*[f"I moved to harbour {n % 5} with boat {n}." for n in range(30)]))
    running.runtime.extract()
    running.execute("UPDATE memforest.cell SET state = 'dead' WHERE state = 'done' AND NOT placed AND ordinal = 1")
    running.drive()
    running.execute(
        """UPDATE memforest.node SET dead = true, version = version + 1 WHERE node_id = (
                  SELECT node_id FROM memforest.node WHERE level = 1 LIMIT 1)"""
    )
    running.memory.dead.retry_all()
    for n in range(5):
        client.append(BOB, "stream", {"role": "user", "content": f"I bought pen {n}."})
    with running.services.engine.connect() as connection, connection.begin():
        client.append(BOB, "stream", {"role": "user", "content": "I sold all pens."}, transaction=connection)
    running.services.producer.flushing._closed(running.tenant, BOB)
    running.services.producer.flushing._nudge(running.tenant, BOB, None, Stage.SUMMARIES)
    found = running.memory.recall(BOB, "Where does Bob live?")
    ran = [client.append(BOB, None, {"role": "user", "content": f"I bought hook {n}, {'x' * 99}."}) for n in range(12)]
    for _ in range(2):
        running.memory.window_put(BOB, "LATEST", found.evidence)
    assert running.memory.window(BOB).compacted == 8
    assert running.memory.today(BOB).made
    assert running.memory.days(BOB).items
    assert running.memory.period(BOB, "life").text
    client.session_switch(BOB, "boats")
    client.session_close(BOB)
    running.memory.lifecycle.forget(BOB, session=ran[0].session_id, turns=["turn@2"], actor="test")
    running.memory.lifecycle.forget(BOB, session="boats", actor="test")


def catch_up(running: Stack, _directory: Path) -> None:
    """Leases are lost, windows are read again, degraded summaries are made again, and the store is checked."""
    running.memory.client.enqueue(BOB, "late", said("I planted a fig.", "I planted a pear.", start=MONDAY + 90 * DAY_S))
    running.execute("UPDATE memforest.cell SET retry_at = now() WHERE state = 'done'")
    running.execute("UPDATE memforest.node_summary SET redo_at = now()")
    running.execute("UPDATE memforest.index_row SET version = version + 1, state = 'done' WHERE state = 'done'")
    running.services.reconciler.run()
    running.drive()
    open_verification(running.services.engine, running.services.index, running.services.settings).run(None, None, True)


def topics(running: Stack, _directory: Path) -> None:
    """Topics are tagged, cooled, read, warmed, united, and one of them loses a fact."""
    memory, upkeep = running.memory, running.services.topic_cooling
    for lines in (
        "I bought item{0} for {0} dollars.",
        "I planted {0} tomato seeds.",
        "I ran {0} kilometers in race {0}.",
    ):
        memory.enqueue(BOB, lines, said(*[lines.format(n + 5) for n in range(4)]))
    running.drive()
    upkeep.settings = upkeep.settings.model_copy(update={"max_topics": 1})
    found = [topic.id for topic in memory.topics(BOB).items]
    assert len(found) > 2
    memory.topic_tag(BOB, found[0], ["first"])
    for table, column in (("fact", "created_at"), ("tree", "last_mark_at")):
        running.execute(f"UPDATE memforest.{table} SET {column} = {column} - interval '30 days'")
    assert upkeep.run().cooled
    running.drive()
    [cold, *_] = [topic.id for topic in memory.topics(BOB).items if topic.temperature == "cold"]
    assert memory.topic_context(BOB, cold).messages
    memory.topic_merge(BOB, cold, next(topic for topic in found if topic != cold))
    running.execute("UPDATE memforest.tree SET cold_at = last_mark_at - interval '1 day' WHERE kind = 'scene'")
    assert upkeep.run().warmed
    memory.lifecycle.forget(BOB, fact=memory.facts(BOB).items[0].id, actor="test")


ACTS: dict[str, Callable[[Stack, Path], object]] = {"tell": tell, "keep-up": catch_up, "topics": topics}


def _operate(name: str) -> Callable[[Stack, Path], object]:
    def act(running: Stack, directory: Path) -> None:
        REAL[name].act(running.services, directory)

    return act


ACTS |= {name: _operate(name) for name in REAL}


@pytest.fixture(scope="module")
def order(
    servers: SessionServers, grown: Grown, tmp_path_factory: pytest.TempPathFactory, embedder: Embedder
) -> LockOrder:
    """The locks of all operations, each on forests of its own, and of the pipeline's work after them."""
    order = LockOrder()
    for name, act in ACTS.items():
        directory = tmp_path_factory.mktemp(name)
        with cloned(servers, grown, directory, embedder) as running:
            prepare = REAL[name].prepare if name in REAL else None
            if prepare is not None:
                prepare(running.services, directory)
                running.drive()
            # Every event is for this webhook; its host has no address, so nothing is posted.
            running.memory.webhooks.create("https://example.com/hook")
            running.services.webhooks.poster._resolve = lambda host, port: []
            superuser = running.owner_engine()
            with superuser.begin() as connection:
                connection.execute(sa.text("CREATE EXTENSION pgrowlocks"))
            with order.recording(running.services.engine, superuser):
                act(running, directory)
                running.drive()
            superuser.dispose()
    return order


@pytest.mark.timeout(900)
def test_nobody_who_waits_is_waited_for(order: LockOrder) -> None:
    assert order.statements > 1_000
    assert {edge.held for edge in order.edges} >= {"forest", "session", "cell", "node", "tree", "webhook_delivery"}
    assert not order.cycles(), "\n\n".join(order.cycles())
