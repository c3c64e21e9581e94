"""A model that answers a few tokens a second: leases outlast its calls, windows fit its speed, and waiting says why."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from memforest_core.client.services.checkup import checkup
from memforest_core.models.calls import Embedder
from memforest_core.models.limits import limited_models
from memforest_core.work.waiting import WaitTimeout
from tests.harness.model_answers import last_user_text, wants_extraction
from tests.harness.model_faults import Fault
from tests.harness.model_server import ModelServer, Received
from tests.harness.rendered_windows import parse_window
from tests.harness.sayings import said
from tests.harness.servers import SessionServers
from tests.harness.stack import Stack, stack
from tests.harness.timing import until

SCALE = 30
"""A second here means half a minute: the timeout of 90 s is 3 s, and 5 tokens a second are 150."""
TIMEOUT_S = 90 / SCALE
THREADS = 4
DEADLINE_S = 60.0


def talk(owner: str, turns: int) -> list[str]:
    """Turns of some 20 tokens; each number is said once."""
    return [f"I bought {number + 2} red kayaks in the harbour, says note {owner} {number}." for number in range(turns)]


@pytest.fixture(autouse=True)
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """As short as everything else here."""
    monkeypatch.setattr(limited_models, "HOLD_GRACE_S", 5 / SCALE)


@contextmanager
def slowly(
    servers: SessionServers, directory: Path, embedder: Embedder, model: ModelServer, **groups: object
) -> Iterator[Stack]:
    llm = {"model": "openai/test-model", "api_base": model.url, "api_key": "k", "timeout_s": TIMEOUT_S}
    worker = {"heartbeat_s": 0.2, "dead_after_s": 10, "reconcile_s": 0.2}
    limits = {"circuit_open_s": 15 / SCALE}
    given = {"llm": llm, "worker": worker, "limits": limits, "accept": {"window_turns": 64}} | groups
    with stack(servers, directory, embedder=embedder, **given) as running:
        running.runtime.start()
        try:
            yield running
        finally:
            running.runtime.stop()


@contextmanager
def working(pipeline: Stack, threads: int) -> Iterator[None]:
    """Threads that extract what can be claimed, as a worker's do."""
    ended = threading.Event()

    def work() -> None:
        while not ended.is_set():
            pipeline.runtime.extract()
            ended.wait(0.05)

    running = [threading.Thread(target=work) for _ in range(threads)]
    for thread in running:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in running:
            thread.join()


def extracted(pipeline: Stack) -> bool:
    return pipeline.rows("SELECT 1 FROM memforest.cell WHERE state <> 'done' LIMIT 1") == []


def extractions(model: ModelServer) -> list[Received]:
    return [call for call in model.requests if wants_extraction(call.body)]


def read_by(call: Received) -> list[str]:
    """The turns that a call extracts."""
    return [turn.text for turn in parse_window(last_user_text(call.body)).turns]


@pytest.mark.parametrize("step", ["extract", "refresh"])
def test_a_call_longer_than_its_lease_is_made_once(
    servers: SessionServers, tmp_path: Path, embedder: Embedder, step: str
) -> None:
    """Given leases of a tenth of a second, when a model takes longer, then nobody else takes its work."""
    leases = {"extract": {"lease_s": 0.1}, "refresh": {"lease_s": 0.1, "model_from_leaves": 1, "title_sizes": ()}}
    with ModelServer() as model, slowly(servers, tmp_path, embedder, model, **leases) as pipeline:
        pipeline.memory.client.enqueue("bob", "s1", said(*talk("bob", 24)))
        if step == "refresh":
            pipeline.runtime.extract()
            pipeline.runtime.reduce()
            pipeline.execute("UPDATE memforest.tree SET due_at = now() WHERE due_at IS NOT NULL")
        before, model.latency_s = len(model.requests), 1.0
        table, work = ("cell", pipeline.runtime.extract) if step == "extract" else ("node", pipeline.runtime.refresh)
        leased = f"SELECT lease_until < clock_timestamp() FROM memforest.{table} WHERE lease_token IS NOT NULL"
        first = threading.Thread(target=work)
        first.start()
        until(lambda: len(model.requests) > before)
        while first.is_alive():
            assert all(not ended for (ended,) in pipeline.rows(leased))
            assert pipeline.services.reconciler.run().freed == 0
            pipeline.runtime.extract()
        first.join()
        inputs = Counter(last_user_text(call.body) for call in model.requests[before:])
        assert set(inputs.values()) == {1}
        assert pipeline.rows("SELECT DISTINCT state, lost_leases FROM memforest.cell") == [("done", 0)]


@pytest.mark.parametrize("tokens_per_s", [pytest.param(5, marks=pytest.mark.release), 30])
def test_a_slow_model_is_given_windows_that_it_answers_in_time_each_once(
    servers: SessionServers, tmp_path: Path, embedder: Embedder, tokens_per_s: int
) -> None:
    """Given a laptop's model, which answers one call at a time, when two sessions come, then windows and calls at once
    shrink until answers come in time; when it is fast, windows are whole again."""
    server = ModelServer(tokens_per_s=tokens_per_s * SCALE, one_at_a_time=True)
    with server as model, slowly(servers, tmp_path, embedder, model) as pipeline:
        for owner in ("bob", "eve"):
            pipeline.memory.client.enqueue(owner, "s1", said(*talk(owner, 40)))
        with working(pipeline, THREADS):
            until(lambda: extracted(pipeline), DEADLINE_S)
        calls = extractions(model)
        answered = [call for call in calls if call.status == 200]
        read = Counter(turn for call in answered for turn in read_by(call))
        assert (len(read), set(read.values())) == (80, {1})
        assert len(answered) > len(calls) / 2
        assert len(read_by(calls[0])) == 40
        assert min(len(read_by(call)) for call in answered) < 20
        assert pipeline.rows("SELECT DISTINCT outcome, lost_leases FROM memforest.cell") == [("ok", 0)]

        model.tokens_per_s = None
        for number in range(3):
            pipeline.memory.client.enqueue("bob", f"fast-{number}", said(*talk(f"bob-{number}", 40)))
            with working(pipeline, 1):
                until(lambda: extracted(pipeline))
        assert len(read_by(extractions(model)[-1])) == 40


def test_a_waiting_caller_learns_how_fast_the_model_answers(
    servers: SessionServers, tmp_path: Path, embedder: Embedder
) -> None:
    """Given 5 tokens a second, when nothing failed, then status, waits and the checkup name the pace and the time."""
    small = {"accept": {"window_turns": 2}}
    server = ModelServer(tokens_per_s=5, answer=lambda body: '{"items":[],"summaries":[]}')
    with server as model, slowly(servers, tmp_path, embedder, model, **small) as pipeline:
        memory = pipeline.memory
        memory.client.enqueue("bob", "s1", said(*talk("bob", 200)))
        with pytest.raises(WaitTimeout, match="no try has failed"):
            memory.wait("bob", "s1", "facts", 0.0)
        with working(pipeline, 1):
            until(lambda: pipeline.rows("SELECT 1 FROM memforest.cell WHERE state = 'done'"))
        error = memory.status("bob", "s1").last_error
        assert error is not None
        assert error.code == "model_slow"
        assert re.fullmatch(
            r"The model answers [45] tokens a second; this session needs about \d+ minutes\.", error.message
        )
        with pytest.raises(
            WaitTimeout, match=r"The model answers . tokens a second; this session needs about"
        ) as ended:
            memory.wait("bob", "s1", "facts", 0.0)
        assert "workers" not in ended.value.message
        with pytest.raises(WaitTimeout, match=r"The model answers . tokens a second; this owner's talk needs about"):
            memory.flush("bob", 0.0)
        paces = [check.says for check in checkup(pipeline.settings) if check.name == "pace"]
        assert [pace.split(";")[1] for pace in paces] == [
            error.message.split(";")[1].replace("this session", "what waits")
        ]


def test_a_timeout_is_the_last_error(servers: SessionServers, tmp_path: Path, embedder: Embedder) -> None:
    with ModelServer() as model, slowly(servers, tmp_path, embedder, model) as pipeline:
        model.script(Fault.HANG)
        pipeline.memory.client.enqueue("bob", "s1", said(*talk("bob", 4)))
        pipeline.runtime.extract()
        error = pipeline.memory.status("bob", "s1").last_error
        assert error is not None
        assert error.code == "model_timeout"
        assert "did not answer within 3 s" in error.message
