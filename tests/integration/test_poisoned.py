"""An input that a model alone fails on: the others go on, and it ends word by word and as a dead letter."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from memforest_core.models.calls import Embedder
from tests.harness.model_faults import Fault
from tests.harness.model_server import ModelServer
from tests.harness.sayings import said
from tests.harness.servers import SessionServers
from tests.harness.stack import Stack, stack

POISON = "quinquereme"
MOST_TRIES = 60


@contextmanager
def with_model(
    servers: SessionServers, directory: Path, embedder: Embedder | None, model: ModelServer, **groups: object
) -> Iterator[Stack]:
    llm = {"model": "openai/test-model", "api_base": model.url, "api_key": "test-key", "timeout_s": 1}
    with stack(servers, directory, embedder=embedder, llm=llm, **groups) as running:
        yield running


def talk(number: int, *, poisoned: bool) -> list[str]:
    ship = POISON if poisoned else "kayak"
    return [
        f"I bought {number + 3} red {ship}s in Davis.",
        "How nice.",
        f"I sold my {ship} numbered {number} to Ann.",
        "Great.",
    ]


def work(pipeline: Stack) -> None:
    """Let delayed work be due and do it, until each window and each point has ended."""
    for _ in range(MOST_TRIES):
        pipeline.execute("UPDATE memforest.cell SET available_at = now() WHERE state = 'ready'")
        pipeline.drive()
        if pipeline.rows("SELECT count(*) FROM memforest.cell WHERE state = 'ready' OR NOT placed") == [(0,)]:
            return
    raise AssertionError(f"not at rest: {pipeline.rows('SELECT state, attempts, error_code FROM memforest.cell')}")


FAULTS = [Fault.SERVER_ERROR, Fault.OVERLOADED, Fault.BAD_REQUEST, Fault.DISCONNECT, Fault.BROKEN_BODY]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_poisoned_window_ends_word_by_word_and_as_a_dead_letter(
    servers: SessionServers, tmp_path: Path, embedder: Embedder, fault: Fault
) -> None:
    """Given nothing else to do, then checks with a short text are the evidence."""
    limits = {"circuit_open_s": 0.2, "circuit_longest_s": 0.2, "retry_after_longest_s": 0.1}
    with ModelServer() as model, with_model(servers, tmp_path, embedder, model, limits=limits) as pipeline:
        model.faults.poisons[POISON] = fault
        handle = pipeline.memory.client.enqueue("bob", "s1", said(*talk(0, poisoned=True)))
        work(pipeline)
        status = handle.status()
        assert (status.cells, status.verbatim, status.dead) == (2, 2, 0)
        letters = pipeline.memory.dead.list()
        assert {(each.step, each.owner) for each in letters} == {("extract", "bob")}
        assert len(letters) == 2
        assert any(POISON in fact.statement.text for fact in pipeline.memory.facts("bob").items)


@pytest.mark.parametrize(("retried", "verbatim"), [(True, 0), (False, 2)])
def test_a_dead_letter_is_read_again_when_it_is_retried_and_stays_word_by_word_when_it_is_discarded(
    servers: SessionServers, tmp_path: Path, embedder: Embedder, retried: bool, verbatim: int
) -> None:
    with ModelServer() as model, with_model(servers, tmp_path, embedder, model) as pipeline:
        model.faults.poisons[POISON] = Fault.SERVER_ERROR
        handle = pipeline.memory.client.enqueue("bob", "s1", said(*talk(0, poisoned=True)))
        work(pipeline)
        if retried:
            model.faults.poisons.clear()
            pipeline.memory.dead.retry_all()
        else:
            pipeline.memory.dead.discard(*(str(each.id) for each in pipeline.memory.dead.list()))
        work(pipeline)
        assert (handle.status().verbatim, pipeline.memory.dead.list()) == (verbatim, [])
        assert pipeline.rows("SELECT count(*) FROM memforest.cell WHERE retry_at IS NOT NULL") == [(0,)]


def test_five_poisoned_windows_of_twenty_hold_nobody_up(
    servers: SessionServers, tmp_path: Path, embedder: Embedder
) -> None:
    """Given five poisoned windows that come first, then one round of work reads the fifteen others."""
    with ModelServer() as model, with_model(servers, tmp_path, embedder, model) as pipeline:
        model.faults.poisons[POISON] = Fault.SERVER_ERROR
        handles = [
            pipeline.memory.client.enqueue(f"owner {number}", "s1", said(*talk(number, poisoned=number < 5)))
            for number in range(20)
        ]
        pipeline.drive()
        assert [handle.status().ok for handle in handles] == [0] * 5 + [2] * 15
        work(pipeline)
        assert [handle.status().verbatim for handle in handles] == [2] * 5 + [0] * 15
        assert len(pipeline.memory.dead.list()) == 10


def test_an_outage_counts_against_no_window(servers: SessionServers, tmp_path: Path, embedder: Embedder) -> None:
    """Given a model that answered before and then fails for everybody, then no window has a failed try, however often
    it is tried, and all are read when it is back."""
    limits = {"circuit_open_s": 0.05, "circuit_longest_s": 0.05}
    with ModelServer() as model, with_model(servers, tmp_path, embedder, model, limits=limits) as pipeline:
        pipeline.memory.client.enqueue("ann", "s1", said(*talk(9, poisoned=False)))
        pipeline.drive()
        model.faults.poisons[""] = Fault.SERVER_ERROR
        handles = [
            pipeline.memory.client.enqueue(f"owner {number}", "s1", said(*talk(number, poisoned=False)))
            for number in range(3)
        ]
        for _ in range(12):
            pipeline.execute("UPDATE memforest.cell SET available_at = now() WHERE state = 'ready'")
            pipeline.runtime.extract()
        assert pipeline.rows("SELECT DISTINCT attempts FROM memforest.cell WHERE state = 'ready'") == [(0,)]
        model.faults.poisons.clear()
        work(pipeline)
        assert [handle.status().ok for handle in handles] == [2, 2, 2]


def test_a_window_that_hangs_counts_when_others_are_answered(
    servers: SessionServers, tmp_path: Path, embedder: Embedder
) -> None:
    """A call that is cut off at its deadline may have met a slow model: only answers to other windows are evidence."""
    with ModelServer() as model, with_model(servers, tmp_path, embedder, model) as pipeline:
        model.faults.poisons[POISON] = Fault.HANG
        handle = pipeline.memory.client.enqueue("bob", "s1", said(*talk(0, poisoned=True)[:2]))
        for number in range(16):
            pipeline.memory.client.enqueue("ann", f"s{number}", said(*talk(number, poisoned=False)))
            pipeline.execute("UPDATE memforest.cell SET available_at = now() WHERE state = 'ready'")
            pipeline.drive()
        work(pipeline)
        assert handle.status().verbatim == 1
        assert [each.owner for each in pipeline.memory.dead.list()] == ["bob"]


def embedding(model: ModelServer) -> dict[str, object]:
    return {"model": "openai/test-embedding", "api_base": model.url, "api_key": "test-key", "timeout_s": 2}


@pytest.mark.parametrize("fault", [Fault.SERVER_ERROR, Fault.BAD_REQUEST, Fault.BROKEN_BODY])
def test_a_text_that_cannot_be_embedded_blocks_no_other_text(
    servers: SessionServers, tmp_path: Path, fault: Fault
) -> None:
    """Given one poisoned text in a batch, then the others have their vectors, and only its own point is behind."""
    with ModelServer() as model, stack(servers, tmp_path, embedding=embedding(model)) as pipeline:
        for number in range(6):
            pipeline.memory.client.enqueue(f"owner {number}", "s1", said(*talk(number, poisoned=number == 3)))
        pipeline.runtime.index(pipeline.tenant, ())
        model.faults.poisons[POISON] = fault
        for _ in range(3):
            pipeline.runtime.extract()
        behind = """SELECT DISTINCT f.owner FROM memforest.index_row i JOIN memforest.forest f USING (tenant_id, forest_id)
                     WHERE i.version > i.indexed_version AND i.kind = 'cell'"""
        assert pipeline.rows(behind) == [("owner 3",)]
        model.faults.poisons.clear()
        pipeline.execute("UPDATE memforest.index_row SET available_at = now()")
        work(pipeline)
        assert pipeline.rows(behind) == []


def test_a_node_that_the_model_refuses_gets_an_extract_and_the_others_their_summaries(
    servers: SessionServers, tmp_path: Path, embedder: Embedder
) -> None:
    long = [
        f"I bought {number} red kayaks in Davis for my sister, who paddles each Sunday at noon." for number in range(60)
    ]
    with ModelServer() as model, with_model(servers, tmp_path, embedder, model) as pipeline:
        pipeline.memory.client.enqueue("ann", "s1", said(*long))
        pipeline.memory.client.enqueue("bob", "s1", said(*(text.replace("kayaks", POISON) for text in long)))
        while pipeline.runtime.extract() + pipeline.runtime.reduce():
            pass
        model.faults.poisons[POISON] = Fault.BAD_REQUEST
        for _ in range(MOST_TRIES):
            pipeline.execute("UPDATE memforest.node SET available_at = now() WHERE version > clean_version")
            pipeline.drive()
        dirty = "SELECT count(*) FROM memforest.node WHERE version > clean_version AND level > 0"
        assert pipeline.rows(dirty) == [(0,)]
        sources = """SELECT DISTINCT f.owner FROM memforest.node_summary s
                       JOIN memforest.node n USING (tenant_id, node_id) JOIN memforest.tree r USING (tenant_id, tree_id)
                       JOIN memforest.forest f USING (tenant_id, forest_id) WHERE s.source = 'degraded'"""
        assert pipeline.rows(sources) == [("bob",)]
