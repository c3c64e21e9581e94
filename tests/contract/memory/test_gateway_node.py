"""OpenAI's own client for Node against the server, before and after a restart."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.contract.memory.conftest import Node
from tests.contract.memory.test_gateway import CALL, CALLED, Served, knows
from tests.contract.memory.test_typescript import NODES, NPM, OWN, ran
from tests.harness.model_answers import last_user_text
from tests.harness.model_server import ModelServer

pytestmark = pytest.mark.timeout(600)
"""npm fetches its packages first."""
PROGRAM = Path(__file__).parent / "openai_node"
PACKAGES = {str(OWN / "node"): "openai"}
"""The newest client runs on this Node; an older Node has the newest that runs there."""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh directory with the program and its packages."""
    directory = tmp_path_factory.mktemp("openai")
    for name in ("package.json", "package-lock.json", "chat.mjs"):
        (directory / name).write_bytes((PROGRAM / name).read_bytes())
    ran([*NPM, "ci", "--no-audit", "--no-fund", "--loglevel=error"], directory)
    return directory


@pytest.mark.parametrize("program", NODES)
def test_the_client_for_node_has_memory_across_a_restart(node: Node, installed: Path, program: str) -> None:
    """Given a sentence, then it is known after a restart, in parts too; tools arrive, and what is left is not stored."""

    def answer(body: Mapping[str, Any]) -> str | dict[str, Any]:
        upstream.part_s = 0.5 if "wait" in last_user_text(body) else 0.0
        return {"content": None, "tool_calls": [CALL]} if body.get("tools") else knows(body)

    with ModelServer(answer=answer) as upstream:
        first = Served(node, upstream)
        owner = first.owner
        run = {"MEMFOREST_KEY": node.key(), "OWNER": owner, "OPENAI_PACKAGE": PACKAGES.get(program, "openai6")}
        said = ran(
            [program, "chat.mjs", "first", "I moved to Lisbon."], installed, MEMFOREST_URL=first.server.address, **run
        )
        assert json.loads(said)["answer"] == "I do not know."
        first.memory.session_close(owner, "first")
        first.memory.wait(owner, "first", "facts")
        first.close()
        second = Served(node, upstream)
        second.owner = owner
        found = json.loads(
            ran(
                [program, "chat.mjs", "second", "Where do I live?"],
                installed,
                MEMFOREST_URL=second.server.address,
                **run,
            )
        )
        turns = second.turns("second")
        second.close()

    assert found.pop("used").startswith("facts=") and found.pop("parts") > 3
    assert found == {
        "answer": "In Lisbon.",
        "streamed": "In Lisbon.",
        "call": {"name": "weather", "arguments": CALL["function"]["arguments"]},
        "error": "model_not_found",
    }
    known = [("user", "Where do I live?"), ("assistant", "In Lisbon."), ("user", "And where, in parts?")]
    known += [("assistant", "In Lisbon."), ("user", "The weather?"), ("assistant", CALLED), ("user", "Do not wait.")]
    assert turns == known
