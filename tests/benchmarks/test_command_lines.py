"""The benchmarks through their command line, at small sizes: they stay within bounds and the report can be read."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.harness.processes import environment

ROOT = Path(__file__).parents[2]


def reported(module: str, *arguments: str) -> dict[str, Any]:
    """The JSON object that a benchmark prints last, which must keep its bounds; its progress must be on stderr."""
    code, answer = ended(module, *arguments)
    assert code == 0, answer
    return answer


def ended(module: str, *arguments: str) -> tuple[int, dict[str, Any]]:
    """The exit code, 1 where a bound is exceeded, and the JSON object."""
    done = subprocess.run(
        [sys.executable, "-m", module, "--json", "--seed", "3", *arguments],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    assert done.stdout, done.stderr
    answer = json.loads(done.stdout.splitlines()[-1])
    assert answer["seed"] == 3
    assert {"cores", "python", "platform", "load"} <= answer["machine"].keys()
    return done.returncode, dict(answer)


@pytest.fixture(scope="module")
def recalled() -> list[dict[str, Any]]:
    sizes = ("--sizes", "60,300", "--forests", "2", "--questions", "4", "--callers", "3", "--most", "99")
    rows = reported("benchmarks.recall_latency", *sizes)
    return list(rows["rows"])


def test_each_size_of_memory_has_its_recall_latency(recalled: list[dict[str, Any]]) -> None:
    assert [(row["facts"], row["forests"]) for row in recalled] == [(60, 1), (300, 1), (200, 2)]
    for row in recalled:
        assert 0 < row["p50_ms"] <= row["p95_ms"] and row["round_trips"] >= 2 and row["n"] == 4
        assert sum(row["parts_ms"].values()) == pytest.approx(row["mean_ms"], abs=0.1)
        assert (row["at_once"]["callers"], row["in_processes"]["processes"]) == (3, 2)
        assert row["at_once"]["per_second"] > 0 < row["in_processes"]["per_second"]
        assert row["process_cold"]["first_ms"] > 0
    assert recalled[-1]["forests_cold"]["n"] == 40


def test_what_a_cell_costs_is_measured_with_a_model_over_http() -> None:
    """Given two sessions of twenty turns and a model server, then their windows were read by it."""
    (row,) = reported("benchmarks.write_path", "--owners", "1", "--sessions", "2", "--model")["rows"]
    assert (row["turns"], row["cells"]) == (40, 20)
    assert row["model_calls"] >= 2
    assert row["python_ms_a_cell"] > 0 < row["statements_a_cell"]


def test_a_short_soak_loses_nothing_and_leaves_nothing() -> None:
    """Given callers that do everything at random while processes are killed, then the model in memory was right."""
    options = ("--minutes", "0.2", "--owners", "3", "--kill-every", "4", "--rate", "4")
    (row,) = reported("benchmarks.soak", *options)["rows"]
    assert row["findings"] == []
    assert sum(row["actions"].values()) > 10
    assert sum(row["kills"].values()) >= 2
    assert row["words_known"] > 0
    assert row["asked"] > 0


def scaled(*scenarios: str) -> dict[str, dict[str, Any]]:
    """Rows of the smallest sizes, twenty and two, by operation."""
    rows = reported("benchmarks.scale", "--scale", "0.0001", "--slack", "99", "--only", *scenarios)["rows"]
    for row in rows:
        assert row["n"] == 20
        assert row["seconds"] > 0 and row["statements"] > 0 and row["resident_mb"] > 0
    return {row["operation"]: row for row in rows}


def test_scale_compares_each_operation_on_a_forest_with_a_tenth() -> None:
    assert list(scaled("one_forest")) == ["enqueue", "tree_insert", "refresh", "recall", "verify", "export"]


def test_operations_are_timed_on_small_memories() -> None:
    (row,) = reported("benchmarks.lifecycle", "--sessions", "3", "--rounds", "2")["rows"]
    assert (row["n"], row["sessions"]) == (2, 3)
    seconds = {name: value for name, value in row.items() if name.endswith("_s")}
    assert list(seconds) == ["facts_s", "refresh_s", "merge_s", "erase_s", "export_s", "import_s"]
    assert all(value > 0 for value in seconds.values())
