"""Calibrating from the command line: what is printed, and what is written where."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from memforest_core.cli.commands import Commands
from memforest_core.ingest.reduce import cli as calibrate
from memforest_core.models import model_opening
from memforest_core.models.calls import Embedded
from memforest_core.models.embedders.minilm import MiniLmEmbedder
from memforest_core.settings import load_settings

SETTINGS = ("SCENE_ASSIGN", "SCENE_WEAK", "SCENE_MERGE", "SCENE_TIME_BONUS")


class OnceRead(MiniLmEmbedder):
    """The built-in model, which embeds a sample once for all tests."""

    def __init__(self) -> None:
        super().__init__()
        self._read: dict[tuple[str, ...], Embedded] = {}

    def embed(self, texts: Sequence[str]) -> Embedded:
        key = tuple(texts)
        if key not in self._read:
            self._read[key] = super().embed(texts)
        return self._read[key]


@pytest.fixture(scope="module")
def embedder() -> OnceRead:
    return OnceRead()


@pytest.fixture(autouse=True)
def fast_model(monkeypatch: pytest.MonkeyPatch, embedder: OnceRead) -> None:
    monkeypatch.setattr(model_opening, "open_embedder", lambda _settings: embedder)


def run(*arguments: str | Path) -> Result:
    app = typer.Typer(cls=Commands)
    app.command()(calibrate.calibrate)
    app.callback()(lambda: None)
    return CliRunner().invoke(app, ["calibrate", *map(str, arguments)])


def derived() -> dict[str, str]:
    result = run("--json")
    assert result.exit_code == 0, result.output
    found: dict[str, str] = json.loads(result.stdout)["settings"]
    return found


def test_programs_get_thresholds_figures_and_what_to_compare_with() -> None:
    found = json.loads(run("--json").stdout)
    assert found["model"] == "all-minilm-l6-v2-int8"
    assert min(found["pairs"].values()) >= 60
    assert set(found["figures"]) == {"derived", "in_force"}
    assert found["in_force"]["scene_assign"] == 0.7
    assert found["figures"]["derived"]["other_taken"] <= 0.1
    assert found["written"] is None


def test_what_is_printed_are_settings_by_the_name_to_set_them() -> None:
    """Given the printed variables, when they are set, then the settings have their values."""
    found = derived()
    assert list(found) == [f"MEMFOREST_REDUCE__{name}" for name in SETTINGS]
    with pytest.MonkeyPatch.context() as patch:
        for name, value in found.items():
            patch.setenv(name, value)
        reduce = load_settings().reduce
    assert reduce.scene_weak < reduce.scene_assign < reduce.scene_merge
    assert f"{reduce.scene_assign:g}" == found["MEMFOREST_REDUCE__SCENE_ASSIGN"]


def test_a_new_file_has_the_settings_and_their_model(tmp_path: Path) -> None:
    target = tmp_path / "memforest.env"
    result = run("--write", target)
    assert result.exit_code == 0, result.output
    remark, *lines = target.read_text().splitlines()
    assert "all-minilm-l6-v2-int8" in remark
    assert lines == [f"{name}={value}" for name, value in derived().items()]
    assert "SCENE_ASSIGN: 0.7 → " in result.stdout
    assert list(tmp_path.iterdir()) == [target]


def test_a_file_that_is_there_is_left_alone(tmp_path: Path) -> None:
    target = tmp_path / "memforest.env"
    target.write_text("MEMFOREST_TENANT=acme\n")
    result = run("--write", target)
    assert result.exit_code == 2
    assert "--force" in result.stderr
    assert target.read_text() == "MEMFOREST_TENANT=acme\n"


def test_force_changes_these_settings_and_no_other_line(tmp_path: Path) -> None:
    target = tmp_path / "memforest.env"
    target.write_text("A=1\nexport MEMFOREST_REDUCE__SCENE_WEAK=0.1\nB=2\nMEMFOREST_REDUCE__SCENE_CAP=9\n")
    target.chmod(0o600)
    assert run("--write", target, "--force").exit_code == 0
    once = target.read_text()
    lines = once.splitlines()
    assert [line for line in lines if "REDUCE" not in line and not line.startswith("#")] == ["A=1", "B=2"]
    assert lines[-1] == "MEMFOREST_REDUCE__SCENE_CAP=9"
    assert sum("SCENE_WEAK" in line for line in lines) == 1
    assert target.stat().st_mode & 0o777 == 0o600
    assert run("--write", target, "--force").exit_code == 0
    assert target.read_text() == once


def test_a_sample_of_the_callers_is_read(tmp_path: Path) -> None:
    sample = tmp_path / "pairs.jsonl"
    sample.write_text('{"a": "x", "b": "y", "label": "same"}\n')
    result = run("--sample", sample)
    assert result.exit_code == 2
    assert "scene has 0" in result.stderr


@pytest.mark.parametrize("content", [None, b"\xff\xfe"])
def test_a_sample_that_cannot_be_read_is_said(tmp_path: Path, content: bytes | None) -> None:
    sample = tmp_path / "pairs.jsonl"
    if content is not None:
        sample.write_bytes(content)
    result = run("--sample", sample, "--json")
    assert result.exit_code == 2
    assert json.loads(result.stderr)["error"]["code"] == "no_file"
