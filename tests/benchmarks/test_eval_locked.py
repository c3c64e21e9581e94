"""The locked half of the lives through the command line: figures come out, but no question does."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.eval import lives
from benchmarks.eval.dataset import limited
from benchmarks.eval.records import read_records
from benchmarks.eval.report import main as report
from tests.harness.processes import environment

ROOT = Path(__file__).parents[2]
METHODS = ["bm25_turns", "convex_turns", "memforest"]
QUESTIONS = 4
SEED = 7
TURN_ID = re.compile(r"\bD\d+:\d+\b")


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("locked")


@pytest.fixture(scope="module")
def outputs(out: Path) -> list[str]:
    """What a run over one life prints."""
    requested = ["--dataset", "lives-locked", "--conversations", "1", "--limit", str(QUESTIONS), "--seed", str(SEED)]
    command = [sys.executable, "-m", "benchmarks.eval", *requested, "--methods", ",".join(METHODS), "--json"]
    done = subprocess.run(
        [*command, "--out", str(out)],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [done.stdout, done.stderr]


def test_the_locked_half_gives_figures(out: Path, outputs: list[str]) -> None:
    """Given the locked questions, when they are measured, then each has a record with a hash, a type and its figures."""
    first: dict[str, Any] = json.loads(outputs[0].splitlines()[-1])
    assert [(row["method"], row["n"]) for row in first["rows"]] == [(name, QUESTIONS) for name in METHODS]
    assert all(row["share_2000"] > 0 for row in first["rows"])
    requested = limited(limited(lives.load(locked=lives.LOCKED), 1, None, SEED), None, QUESTIONS, SEED)
    expected = {(question.id, question.category) for question in requested[0].questions}
    records = read_records(out)
    assert {(record.question_id, record.category) for record in records} == expected
    assert [record.gold for record in records] == [()] * len(METHODS) * QUESTIONS


def test_nothing_that_is_printed_or_written_reveals_a_locked_question(out: Path, outputs: list[str]) -> None:
    """Given everything that a run leaves, then no question, no answer and no turn can be read in it."""
    assert report([str(out)]) == 0
    files = [path for path in out.rglob("*") if path.is_file()]
    assert {path.name for path in files} >= {"records.jsonl", "run.json", "result.json", "report.md"}
    everything = "\n".join([*outputs, *(path.read_text(encoding="utf-8") for path in files)])
    for one in lives.load(locked=lives.LOCKED):
        for question in one.questions:
            assert question.text not in everything
            # A short answer is a figure or a word that a report has anyway.
            assert len(question.answer) < 12 or question.answer not in everything
    assert not TURN_ID.search(everything)
