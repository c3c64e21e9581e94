"""What is accepted is worked on at once: the reconciler is for what a failure has left behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from memforest_core import MemForest
from tests.harness.timing import until

BURSTS = 15
SESSIONS = 3
PATIENCE_S = 20.0


def unfinished(memory: MemForest, names: list[str]) -> list[str]:
    """Those of bob's sessions that lack facts or vectors of their turns."""
    found = [memory.status("bob", name) for name in names]
    return [name for name, now in zip(names, found, strict=True) if now.indexed < now.cells or now.placed < now.cells]


def test_nothing_waits_for_the_reconciler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Given workers whose reconciler does not come, when sessions come in bursts, so that threads take each other's
    windows, then each burst gets its vectors and facts."""
    monkeypatch.setenv("MEMFOREST_WORKER__RECONCILE_S", "3600")
    with MemForest.embedded(tmp_path / "data") as memory:
        for burst in range(BURSTS):
            names = [f"{burst}-{number}" for number in range(SESSIONS)]
            said = [[{"role": "user", "content": f"I ran {burst}.{number} km."}] for number in range(SESSIONS)]
            for name, turns in zip(names, said, strict=True):
                memory.ingest("bob", name, turns)
            until(lambda names=names: not unfinished(memory, names), PATIENCE_S)
