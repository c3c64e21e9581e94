"""What a forked child does with what its parent had open: it begins again, and the parent goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack

import pytest
import sqlalchemy as sa

from memforest_core.domain.ids import TenantId
from memforest_core.models.accounting import StepSettings
from memforest_core.models.calls import Embedder, Step
from memforest_core.models.limits.call_limits import CallLimits, client_address, open_redis
from memforest_core.models.limits.limited_models import LimitedCalls
from memforest_core.models.limits.model_limits import ModelLimits
from memforest_core.recall.visit_counter import VisitCounter
from memforest_core.store.engine import transaction
from memforest_core.work.publishing import CeleryWakeUps
from tests.harness.forked import in_children
from tests.harness.sayings import said
from tests.harness.servers import SessionServers
from tests.harness.stack import Stack, stack

OWNERS = ("ann", "bob", "cleo")
OWN = sa.text("SELECT pg_backend_pid()")


@pytest.fixture(scope="module")
def reported(servers: SessionServers, tmp_path_factory: pytest.TempPathFactory, embedder: Embedder) -> Iterator[Stack]:
    """Three owners, of whom each has said something of his own."""
    with stack(servers, tmp_path_factory.mktemp("forks"), embedder=embedder) as made:
        for owner in OWNERS:
            made.memory.enqueue(owner, "base", said(f"I live in the house of {owner}."))
        made.drive()
        yield made


def backend(running: Stack) -> int:
    with transaction(running.services.engine) as connection:
        return int(connection.scalar(OWN) or 0)


def test_children_read_what_they_ask_for_over_connections_of_their_own(reported: Stack) -> None:
    def turns(owner: str) -> list[str]:
        return [turn.content for _ in range(5) for turn in reported.memory.turns(owner, "base").items]

    def call(owner: str) -> Callable[[], object]:
        return lambda: turns(owner)

    before, children = backend(reported), in_children(*[lambda: backend(reported)] * 3)
    assert len({before, *children}) == 4 and backend(reported) == before
    own = {owner: [f"I live in the house of {owner}."] * 5 for owner in OWNERS}
    assert {owner: turns(owner) for owner in OWNERS} == own
    assert dict(zip(OWNERS, in_children(*map(call, OWNERS)), strict=True)) == own
    assert {owner: turns(owner) for owner in OWNERS} == own


def test_a_child_does_not_wait_for_what_other_threads_held_at_the_fork(reported: Stack) -> None:
    """Given threads that use all connections and all slots of recall, when the process forks, then a child finds all of
    them free."""
    services = reported.services
    settings = reported.settings.database
    with ExitStack() as held:
        for _ in range(settings.pool_size + settings.max_overflow):
            held.enter_context(transaction(services.engine))
        for _ in range(reported.settings.recall.at_once):
            held.enter_context(services.recall.slots.one())
        [found] = in_children(lambda: len(reported.memory.recall("ann", "Where do I live?").evidence))
    assert found == 1


def test_a_child_takes_locks_that_another_thread_held_at_the_fork(reported: Stack, embedder: Embedder) -> None:
    limits = CallLimits(None, ModelLimits(1_000, 1_000_000, 8, 3, 1.0, 10.0), 1)
    limited = LimitedCalls(Step.EMBED, StepSettings("key", concurrency=8), limits)
    visits = reported.services.visits
    locks: list[AbstractContextManager[object]] = [
        limits.own("key")._lock,
        limits._calling,
        visits._lock,
        reported.services.producer.wakeups._lock,
    ]
    taken, ended = threading.Event(), threading.Event()

    def hold() -> None:
        with ExitStack() as held:
            for lock in locks:
                held.enter_context(lock)
            for _ in range(8):
                held.enter_context(limited._slots)
            taken.set()
            ended.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    taken.wait()

    def all_of_them() -> object:
        accepted = reported.memory.enqueue("ann", "more", said("I like tea.")).accepted
        visits.note(reported.tenant, accepted.forest_id, [])
        return len(limited.called("tea", 1, lambda: embedder.embed(["tea"])).vectors)

    try:
        [found] = in_children(all_of_them)
    finally:
        ended.set()
        thread.join()
    assert found == 1


def test_a_child_embeds_after_its_parent_has(reported: Stack) -> None:
    """The pool of the model has threads in the parent only."""
    reported.services.embedder.embed(["before"])
    assert in_children(*[lambda: len(reported.services.embedder.embed(["after"]).vectors)] * 2) == [1, 1]


def test_visits_that_the_parent_has_counted_are_written_by_the_parent_alone(reported: Stack) -> None:
    reported.services.visits.flush()
    reported.memory.recall("bob", "Where do I live?")
    counter: VisitCounter = reported.services.visits
    assert counter._counts
    assert in_children(lambda: [counter.flush(), len(counter._counts)]) == [[None, 0]]
    assert counter._counts


def test_children_send_wake_ups_and_ask_for_limits_over_connections_of_their_own(
    reported: Stack, servers: SessionServers
) -> None:
    address = client_address(servers.broker_url)
    assert address is not None
    redis = open_redis(address)
    limits = CallLimits(redis, ModelLimits(1_000, 1_000_000, 8, 3, 1.0, 10.0), 1)
    wakeups = CeleryWakeUps(reported.settings.broker)

    def ask() -> list[object]:
        sent = [wakeups.send("extract", TenantId("default"), f"ref{number}") for number in range(5)]
        return [*sent, *[limits.paused("m") for _ in range(5)], redis.client_id()]

    own = ask()
    answers = in_children(ask, ask, ask)
    assert len({own[-1], *(answer[-1] for answer in answers)}) == 4
    assert all(answer[:-1] == own[:-1] for answer in answers)
    assert ask()[-1] == own[-1]
    limits.close()
    wakeups.close()
