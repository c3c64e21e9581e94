"""Recall with a chat model over HTTP: llm and planner mode, follow-up questions, what they cost, and what they fall back to."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from memforest_core.domain.evidence import Mode
from memforest_core.domain.ids import TreeKind
from memforest_core.models.calls import Embedder
from tests.contract.rerank.shared_words import RerankServer
from tests.harness.model_answers import messages_of
from tests.harness.model_faults import Fault
from tests.harness.model_server import ModelServer
from tests.harness.servers import SessionServers
from tests.harness.stack import Stack, stack
from tests.integration.test_recall_options import SAID

HARBOUR = "Who loves the boats?"


def planning(body: Mapping[str, Any]) -> str:
    """A model that ranks children with "boats" first, plans, and completes follow-ups."""
    document = json.loads(messages_of(body)[-1][1])
    if "children" in document:
        numbered = [(child["number"], "boats" in child["text"]) for child in document["children"]]
        order = [number for number, _ in sorted(numbered, key=lambda each: not each[1])]
        return json.dumps({"order": order, "none_relevant": False})
    if "trees" in document:
        queries = [{"tree": tree["number"], "ask": f"boats in {tree['label']}"} for tree in document["trees"]]
        return json.dumps(
            {"question_type": "single", "plan": "direct", "anchor_a": "", "anchor_b": "", "trees": queries}
        )
    return json.dumps({"question": "Where does Ann's dog Pepper wait?"})


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(answer=planning, latency_s=0.02) as running:
        yield running


@pytest.fixture
def ann(servers: SessionServers, tmp_path: Path, embedder: Embedder, server: ModelServer) -> Iterator[Stack]:
    model = {"model": "openai/test-model", "api_base": server.url, "api_key": "test"}
    llm = {step: model for step in ("browse", "plan")}
    # A tree for each topic, however small, so that the question to each tree can be seen.
    with stack(servers, tmp_path, embedder=embedder, llm=llm, reduce={"scene_min_facts": 1}) as running:
        for session, said in SAID.items():
            turns = [{"role": "user", "name": name, "content": text, "timestamp": at} for at, name, text in said]
            running.memory.ingest("ann", session, turns)
        running.drive()
        yield running


def spent(ann: Stack) -> dict[str, int]:
    return {row.step: row.n for row in ann.rows("SELECT step, count(*) AS n FROM memforest.llm_call GROUP BY step")}


def test_a_model_ranks_the_children_and_every_call_is_stored(ann: Stack, server: ModelServer) -> None:
    before = spent(ann).get("browse", 0)
    result = ann.memory.recall("ann", HARBOUR, mode="llm")
    assert "Pepper loves the boats" in result.evidence[0].text
    assert result.evidence[0].signals["ranked"] > 0
    assert result.calls > 0
    assert spent(ann)["browse"] - before == result.calls == len(server.requests)
    assert result.degraded == ()
    logged = ann.memory.calls("ann", step="browse", limit=result.calls).items
    assert {(call.model, call.outcome) for call in logged} == {("openai/test-model", "ok")}
    assert all(call.latency_ms >= 20 and call.prompt_tokens > 0 for call in logged)


def test_a_cross_encoder_obeys_the_limits_and_its_calls_are_stored(
    servers: SessionServers, tmp_path: Path, embedder: Embedder
) -> None:
    """With one request a minute the second recall gets no permit: its order stays as it was, and the result says so."""
    with RerankServer() as server:
        rerank = {"model": "cohere/test-rerank", "api_base": server.url, "api_key": "test", "timeout_s": 20.0}
        settings = {"recall": {"rerank": rerank}, "limits": {"requests_per_minute": 1}}
        with stack(servers, tmp_path, embedder=embedder, **settings) as running:
            turns = [
                {"role": "user", "name": "Bob", "content": text} for text in ("Bob lives in Davis.", "The dog plays.")
            ]
            running.memory.ingest("bob", "homes", turns)
            running.drive()
            first, second = (running.memory.recall("bob", "where lives bob now") for _ in range(2))
            assert first.degraded == ()
            assert first.evidence[0].signals["rerank"] > 0
            assert second.degraded == ("The rerank model is unavailable: items are in the order of recall.",)
            assert len(server.requests) == 1
            [stored] = running.memory.calls("bob", step="rerank").items
            assert (stored.model, stored.outcome) == ("cohere/test-rerank", "ok")
            assert stored.latency_ms > 0


def test_the_planner_gives_each_tree_its_own_question(ann: Stack, server: ModelServer) -> None:
    result = ann.memory.recall("ann", HARBOUR, mode="planner")
    assert result.plan == {"type": "direct", "question": "single"}
    requested = [json.loads(messages_of(call.body)[-1][1]) for call in server.requests]
    plans = [document for document in requested if "trees" in document]
    assert len(plans) == 1
    assert {document["question"].split(" in ")[0] for document in requested if "children" in document} == {"boats"}
    assert spent(ann)["plan"] == 1


def test_a_follow_up_is_completed_from_the_running_session(ann: Stack) -> None:
    result = ann.memory.recall("ann", "And where does she wait?", session_id="spring")
    assert result.question == "And where does she wait?"
    assert result.completed_question == "Where does Ann's dog Pepper wait?"
    assert "Pepper waits" in result.evidence[0].text
    assert (
        ann.memory.recall("ann", "Where does Ann live?", session_id="spring").completed_question
        == "Where does Ann live?"
    )


@pytest.mark.parametrize("fault", [Fault.RATE_LIMIT, Fault.SERVER_ERROR, Fault.MALFORMED])
def test_a_model_that_fails_leaves_what_is_found_without_one_and_says_so(
    ann: Stack, server: ModelServer, fault: Fault
) -> None:
    plain = ann.memory.recall("ann", HARBOUR, mode="embedding", trees=list(TreeKind))
    server.faults.rates = {fault: 1.0}
    result = ann.memory.recall("ann", HARBOUR, mode="planner")
    assert [piece.text for piece in result.evidence] == [piece.text for piece in plain.evidence]
    assert any("planner" in sentence for sentence in result.degraded)
    assert any("not followed" in sentence for sentence in result.degraded)


def test_auto_takes_the_most_thorough_mode_within_the_time_budget(ann: Stack) -> None:
    assert ann.memory.recall("ann", HARBOUR, mode="auto").mode is Mode.PLANNER
    assert ann.memory.recall("ann", HARBOUR, mode="auto", budget_ms=1_000).mode is Mode.EMBEDDING
