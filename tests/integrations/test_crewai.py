"""CrewAI, in the environment that its bounds need, against a server of this one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.integrations.conftest import Node
from tests.integrations.test_docs import programs

CREW = Path(__file__).with_name("crew.py")
PYTHON = Path(sys.prefix) / "crewai" / "bin" / "python"
QUIET = {"CREWAI_DISABLE_TELEMETRY": "true", "OTEL_SDK_DISABLED": "true", "CREWAI_TRACING_ENABLED": "false"}


def test_a_crew_knows_what_another_one_did(node: Node, owner: str, tmp_path: Path) -> None:
    """Given a crew's task, then a new crew in another session is shown it; another owner's is not."""
    (page,) = (code for code in programs("frameworks.md") if "crewai" in code)
    command = [str(PYTHON), str(CREW), node.address, node.key(), owner, page.replace('"alice"', repr(owner))]
    own = {**os.environ, **QUIET, "CREWAI_STORAGE_DIR": str(tmp_path)}
    run = subprocess.run(command, env=own, capture_output=True, text=True, timeout=150, check=False)
    assert run.returncode == 0, run.stderr
    done: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])

    (turn,) = done["turns"]
    assert turn[:2] == ["assistant", "helper"]
    assert "Ana lives in Bergen" in turn[2]
    assert "Bergen" in done["second"]
    assert "Bergen" not in done["other"]
    assert "allergic to nuts" in done["allergy"]
    assert done["allergy"].startswith("["), "with its date"
    assert "Saved" in done["saved"]
    assert "plays chess" in done["searched"]
    assert "scope" in done["scope"]
    assert "private" in done["private"]
    assert "records" in done["records"]
    assert {"crew-2", done["note"]} < {*done["left"]}
    assert "crew-1" not in done["left"], "a reset deletes the session; notes stay"
    assert "Bergen" in done["page"]
    assert "Bergen" not in run.stderr
