"""Answers and verdicts over HTTP: errors of a provider leave failed samples, and a second run replaces them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from benchmarks.eval.answers import AnswerTask, answer_and_judge
from benchmarks.eval.judging import JUDGE
from benchmarks.eval.tables import read, table
from memforest_core.errors import ModelAuthFailed
from memforest_core.models.accounting import StepSettings
from memforest_core.models.calls import Step
from memforest_core.models.litellm_chat import LitellmChat
from tests.harness.litellm_warm import warm_up
from tests.harness.model_faults import Fault
from tests.harness.model_server import ModelServer


def texts_of(body: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The fixed part of a call, and its document."""
    fixed, given = body["messages"][:2]
    assert (fixed["role"], given["role"]) == ("system", "user")
    document: dict[str, Any] = json.loads(given["content"])
    return fixed["content"], document


def answer(body: Mapping[str, Any]) -> str:
    """A reader that finds what follows "answer:" in the evidence, and a judge that compares letter by letter."""
    _, document = texts_of(body)
    if "evidence" in document:
        return str(document["evidence"].rpartition("answer: ")[2])
    verdict = "correct" if document["answer"] == document["reference"] else "wrong"
    return json.dumps({"reason": "compared", "verdict": verdict})


@pytest.fixture(scope="module")
def warm() -> None:
    warm_up()


@pytest.fixture
def server(warm: None) -> Iterator[ModelServer]:
    with ModelServer(answer=answer) as running:
        yield running


def chat(server: ModelServer) -> LitellmChat:
    settings = StepSettings("openai/reader", api_base=server.url, api_key="key", timeout_s=10.0)
    return LitellmChat({Step.ANSWER: settings, JUDGE: settings})


def task(qid: str, found: str, gold: str, before: str = "") -> AnswerTask:
    evidence = f"[Monday 8 May 2023]\n{before}\nanswer: {found}"
    return AnswerTask("memforest", "reader", "temporal", qid, f"When was {qid}?", gold, evidence, None)


def verdicts(path: Path) -> dict[str, list[str]]:
    return {row.qid: [sample.verdict.value for sample in row.samples] for row in read(path)}


def test_answers_are_taken_judged_and_summed(server: ModelServer, tmp_path: Path) -> None:
    tasks = [task("a", "May", "May"), task("b", "June", "May")]
    server.latency_s = 0.05
    answer_and_judge(tasks, chat(server), 2, 2, tmp_path / "answers.csv")
    (row,) = table(read(tmp_path / "answers.csv"))
    assert (row["n"], row["failed"], row["pass_1"], row["pass_2"]) == (2, 0, 50.0, 50.0)
    assert len(server.requests) == 8
    assert server.peak == 2
    kinds = Counter((call.body.get("response_format") or {}).get("type") for call in server.requests)
    assert kinds == {None: 4, "json_schema": 4}


@pytest.mark.parametrize(
    "fault", [Fault.SERVER_ERROR, Fault.RATE_LIMIT, Fault.EMPTY, Fault.CONTENT_FILTER, Fault.DISCONNECT]
)
def test_an_answer_that_does_not_come_is_failed_and_taken_again(
    server: ModelServer, tmp_path: Path, fault: Fault
) -> None:
    path, tasks = tmp_path / "answers.csv", [task("a", "May", "May"), task("b", "May", "May")]
    server.script(fault)
    answer_and_judge(tasks, chat(server), 1, 1, path)
    assert verdicts(path) == {"a": ["failed"], "b": ["correct"]}
    (row,) = table(read(path))
    assert (row["failed"], row["pass_1"]) == (1, 100.0)
    before = len(server.requests)
    answer_and_judge(tasks, chat(server), 1, 1, path)
    assert verdicts(path) == {"a": ["correct"], "b": ["correct"]}
    assert len(server.requests) - before == 2


@pytest.mark.parametrize("fault", [Fault.MALFORMED, Fault.TRUNCATED, Fault.WRONG_SCHEMA, Fault.WRONG_TYPE])
def test_a_malformed_verdict_is_requested_once_more(server: ModelServer, tmp_path: Path, fault: Fault) -> None:
    path = tmp_path / "answers.csv"
    server.script(None, fault)
    answer_and_judge([task("a", "June", "May")], chat(server), 1, 1, path)
    assert verdicts(path) == {"a": ["wrong"]}
    assert len(server.requests) == 3
    server.script(None, fault, fault)
    answer_and_judge([task("b", "June", "May")], chat(server), 1, 1, path)
    assert verdicts(path)["b"] == ["failed"]


def test_a_refused_key_ends_the_run(server: ModelServer, tmp_path: Path) -> None:
    server.script(None, None, Fault.UNAUTHORIZED)
    path = tmp_path / "answers.csv"
    with pytest.raises(ModelAuthFailed):
        answer_and_judge([task(name, "May", "May") for name in "abcdefgh"], chat(server), 1, 1, path)
    assert verdicts(path) == {"a": ["correct"]}
