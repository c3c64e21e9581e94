"""Arguments that are refused before anything is opened."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from memforest_core.cli.program import app


@pytest.mark.parametrize(
    "arguments, code",
    [
        (["status", "s1"], "missing_owner"),
        (["ingest", "missing.jsonl"], "unreadable_file"),
        (["recall", "Where?", "--owner", "bob", "--data", "missing"], "no_data_directory"),
        (["tree", "bob", "--data", "missing"], "no_data_directory"),
        (["status", "--data", "missing"], "no_data_directory"),
        (["ingest", "x", "--wait", "forever"], "usage"),
        (["tree", "bob", "--depth", "0"], "usage"),
        (["up", "--concurrency", "0"], "usage"),
    ],
)
def test_each_has_a_code_and_exit_2(
    arguments: list[str], code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, [*arguments, "--json"])
    assert result.exit_code == 2
    assert json.loads(result.stderr.splitlines()[-1])["error"]["code"] == code
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("queues", ["extract,levitate", ","])
def test_a_worker_works_for_known_queues(queues: str) -> None:
    result = CliRunner().invoke(app, ["worker", "--queues", queues])
    assert result.exit_code == 2
    assert "extract" in result.stderr


def test_health_needs_a_file_to_look_at() -> None:
    result = CliRunner().invoke(app, ["worker-health"])
    assert result.exit_code == 2
    assert "MEMFOREST_WORKER__HEALTH_FILE" in result.stderr


@pytest.mark.parametrize("age_s, exit_code", [(0.0, 0), (20.0, 0), (40.0, 1)])
def test_health_is_a_recent_heartbeat(tmp_path: Path, age_s: float, exit_code: int) -> None:
    """Given a worker that is dead after 30 s without a heartbeat, when its file is older, then it is not healthy."""
    file = tmp_path / "health"
    file.touch()
    touched = time.time() - age_s
    os.utime(file, (touched, touched))
    result = CliRunner().invoke(app, ["worker-health", "--json"], env={"MEMFOREST_WORKER__HEALTH_FILE": str(file)})
    assert result.exit_code == exit_code
    assert json.loads(result.stdout)["alive"] is (exit_code == 0)


def test_no_heartbeat_yet_is_not_healthy(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["worker-health"], env={"MEMFOREST_WORKER__HEALTH_FILE": str(tmp_path / "no")})
    assert result.exit_code == 1
