"""The evaluation through its command line, on the conversations that ship: real rows, and a killed run that goes on."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from benchmarks.eval.__main__ import options as command_line
from benchmarks.eval.__main__ import run
from benchmarks.eval.answers import ANSWERS
from benchmarks.eval.records import RECORDS, RESULT, read_records
from benchmarks.eval.tables import Verdict, read
from memforest_core.settings import load_settings
from tests.harness.model_server import ModelServer
from tests.harness.processes import environment

ROOT = Path(__file__).parents[2]
METHODS = [
    "bm25_turns",
    "hybrid_turns",
    "sum_cells",
    "flat_facts",
    "convex_turns",
    "memforest",
    "memforest:flat",
    "memforest:no-dense",
]
QUESTIONS = 6


def evaluated(*arguments: str) -> subprocess.CompletedProcess[str]:
    """One run of the harness on one conversation of the project's own."""
    return subprocess.run(
        [sys.executable, "-m", "benchmarks.eval", "--json", "--conversations", "1", *arguments],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )


def answer(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("eval")


@pytest.fixture(scope="module")
def options(place: Path) -> list[str]:
    home, out = str(place / "home"), str(place / "out")
    return ["--methods", ",".join(METHODS), "--limit", str(QUESTIONS), "--home", home, "--out", out]


@pytest.fixture(scope="module")
def first(options: list[str]) -> dict[str, Any]:
    return answer(evaluated(*options))


def test_each_method_has_a_row_with_real_figures(first: dict[str, Any]) -> None:
    """Given turns of a real ingestion, when all methods answer, then each finds something and none is free."""
    assert [row["method"] for row in first["rows"]] == METHODS
    for row in first["rows"]:
        assert row["n"] == QUESTIONS
        assert 0 < row["recall_500"] <= row["recall_2000"] <= 100
        assert 0 < row["share_500"] <= row["share_2000"] <= 100
        assert row["recall_at_5"] <= row["recall_at_10"] <= row["recall_at_20"]
        assert 0 < row["mrr"] <= 100
        assert row["context_tokens"] > 0
        timed = row["method"] != "memforest:no-dense"
        assert 0 < row["query_ms_p50"] <= row["query_ms_p95"] if timed else row["query_ms_p50"] is None
        assert (row["query_k_ms_p50"] is not None) == (row["method"] in {"memforest", "memforest:flat"})
        assert row["ours"] == (row["method"].startswith("memforest") or row["method"] == "flat_facts")
        assert row["ingest_s"] > 0
        assert row["degraded"] == 0
        assert sum(one["n"] for one in row["by_category"].values()) == QUESTIONS


def test_a_killed_run_goes_on_where_it_was(place: Path, options: list[str], first: dict[str, Any]) -> None:
    """Given records whose last line is torn, when the run resumes, then only missing ones are made, on the same memory."""
    path = place / "out" / RECORDS
    whole = read_records(place / "out")
    assert len(whole) == len(METHODS) * QUESTIONS
    stored = path.read_text().splitlines(keepends=True)[:-4]
    path.write_text("".join(stored) + '{"method": "memforest:no-den')
    repeated = answer(evaluated(*options, "--resume"))
    assert path.read_text().startswith("".join(stored))
    assert [record.key for record in read_records(place / "out")] == [record.key for record in whole]
    assert repeated["measured"]["ingest_kept"] is True
    assert [(row["method"], row["n"], row["recall_2000"]) for row in repeated["rows"]] == [
        (row["method"], row["n"], row["recall_2000"]) for row in first["rows"]
    ]
    assert json.loads((place / "out" / RESULT).read_text())["rows"] == repeated["rows"]


def test_two_models_answer_and_judge_in_the_columns_of_the_artifact_and_a_killed_run_goes_on(
    place: Path, options: list[str], first: dict[str, Any]
) -> None:
    """Given a reader that quotes, a judge by its own server and a table that ends within a row, then each question of
    each method has its answers and verdicts once, and nothing that has a verdict is requested twice."""

    def quoted(body: Mapping[str, Any]) -> str:
        return str(json.loads(body["messages"][1]["content"])["evidence"].splitlines()[1])

    def judged(body: Mapping[str, Any]) -> str:
        document = json.loads(body["messages"][1]["content"])
        return json.dumps({"reason": "read", "verdict": "correct" if ": " in document["answer"] else "wrong"})

    out, samples = place / "answers", 2
    wanted = ["--methods", "bm25_turns,memforest", "--limit", "2", "--answers", str(samples), "--conversations", "1"]
    with ModelServer(answer=quoted) as reader, ModelServer(answer=judged) as judge:
        llm = {
            "answer": {"model": "openai/reader", "api_base": reader.url, "api_key": "test"},
            "profile": {"model": "openai/judge", "api_base": judge.url, "api_key": "test"},
        }

        def evaluated_with(*more: str) -> None:
            run(command_line().parse_args([*wanted, *options[4:6], "--out", str(out), *more]), load_settings(llm=llm))

        evaluated_with()
        content = (out / ANSWERS).read_text()
        lines = content.splitlines(keepends=True)
        (out / ANSWERS).write_text("".join(lines[:-1]) + lines[-1][:40])
        evaluated_with("--resume")
        resumed = len(lines), (out / ANSWERS).read_text() == content
        models = [{one.body["model"] for one in each.requests} for each in (reader, judge)]
        calls = [len(each.requests) for each in (reader, judge)]
    named = "method,model_size,question_type,qid,question,gold_answer,answer_1,answer_2,judge_1,judge_2"
    assert lines[0].rstrip() == named
    assert resumed == (5, True)
    assert models == [{"reader"}, {"judge"}]
    assert calls == [samples * (4 + 1)] * 2
    assert json.loads((out / RESULT).read_text())["measured"]["ingest_kept"] is True
    rows = read(out / ANSWERS)
    assert sorted(row.method for row in rows) == ["bm25_turns", "bm25_turns", "memforest", "memforest"]
    assert all(row.model_size == "openai/reader" and len(row.samples) == samples for row in rows)
    assert all(sample.verdict is Verdict.CORRECT and ": " in sample.answer for row in rows for sample in row.samples)
