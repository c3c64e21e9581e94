"""What the recall command takes for a vector, several owners, channels and sources."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from memforest_core.cli.program import app
from memforest_core.domain.evidence import Evidence, EvidenceKind, Mode, RecallResult
from memforest_core.domain.times import UNKNOWN_TIME


def piece(**changes: Any) -> Evidence:
    given: dict[str, Any] = {
        "text": "Leeds has a library.",
        "time": UNKNOWN_TIME,
        "time_label": "date unknown",
        "score": 1.0,
        "kind": EvidenceKind.TURN,
        "fact_ids": (),
        "session_id": "s1",
        "turn_ids": ("t1",),
        "ordinal": 0,
        "speaker": "Ann",
        "owner": "ann",
    }
    return Evidence(**(given | changes))


@dataclass(frozen=True)
class Recall:
    """Records the arguments of the recall."""

    requested: dict[str, Any]

    def recall(
        self, tenant: str, owner: str, question: str | None, k: int | None, mode: str | None, **options: Any
    ) -> RecallResult:
        self.requested.update(tenant=tenant, owner=owner, question=question, **options)
        outside = piece(kind=EvidenceKind.EXTERNAL, source="notes", point_id="7", owner="", session_id="", turn_ids=())
        return RecallResult(question or "", Mode.FLAT, (piece(), outside), {"total": 1.0}, owners_unknown=("bea",))


class Memory:
    """A memory that records the arguments of each recall."""

    tenant = "acme"

    def __init__(self) -> None:
        self.requested: dict[str, Any] = {}
        self.services = SimpleNamespace(recall=Recall(self.requested))


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> Memory:
    made = Memory()

    @contextmanager
    def opened(data: Path | None) -> Iterator[Memory]:
        yield made

    monkeypatch.setattr("memforest_core.recall.cli.opened_memory", opened)
    return made


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["recall", *arguments])


def test_several_owners_channels_and_sources(memory: Memory) -> None:
    reported = run("Where?", "-o", "ann", "-o", "bea", "--channel", "work", "--source", "notes")
    assert reported.exit_code == 0, reported.output
    assert (memory.requested["owner"], memory.requested["owners"]) == ("ann", ["bea"])
    assert (memory.requested["channels"], memory.requested["sources"]) == (["work"], ["notes"])
    assert memory.requested["vector"] is None
    assert memory.requested["tenant"] == "acme"
    assert "bea has no memory yet" in reported.output
    assert "notes · point 7" in reported.output
    assert "memory    ann" in reported.output


def test_a_vector_is_read_from_a_file(memory: Memory, tmp_path: Path) -> None:
    file = tmp_path / "v.json"
    file.write_text(json.dumps([0.5, 1]))
    reported = run("-o", "ann", "--vector", str(file), "--json")
    assert reported.exit_code == 0, reported.output
    assert (memory.requested["question"], memory.requested["vector"], memory.requested["owners"]) == (
        None,
        [0.5, 1],
        None,
    )
    assert json.loads(reported.stdout)["evidence"][1]["source"] == "notes"


@pytest.mark.parametrize("written", ["{}", "[1,", "3"])
def test_a_file_without_a_list_is_refused(memory: Memory, tmp_path: Path, written: str) -> None:
    file = tmp_path / "v.json"
    file.write_text(written)
    reported = run("-o", "ann", "--vector", str(file))
    assert reported.exit_code != 0
    assert not memory.requested
