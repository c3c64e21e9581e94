"""The commands of the room, through the program."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from memforest_core.assistant.profile import cli
from memforest_core.cli.program import app
from memforest_core.client.api import MemForest
from tests.harness.stack import Stack


def tell(running: Stack) -> None:
    turns = [{"id": "t1", "role": "user", "content": "I work at Initech.", "timestamp": 1_714_000_000}]
    running.memory.enqueue("alice", "s1", turns, display_name="Alice")


@pytest.fixture
def program(rested: Stack, monkeypatch: pytest.MonkeyPatch) -> Stack:
    @contextmanager
    def memory(_data: Path | None, **_options: object) -> Iterator[MemForest]:
        yield rested.memory

    @contextmanager
    def store(_data: Path | None, **_options: object) -> Iterator[SimpleNamespace]:
        yield SimpleNamespace(client=rested.memory)

    monkeypatch.setattr(cli, "opened_memory", memory)
    monkeypatch.setattr(cli, "opened_store", store)
    return rested


def run(*arguments: str, code: int = 0) -> str:
    done = CliRunner().invoke(app, list(arguments))
    assert done.exit_code == code, (done.stdout, done.stderr, done.exception)
    return done.stdout


def run_json(*arguments: str, code: int = 0) -> Any:
    return json.loads(run(*arguments, "--json", code=code))


def test_a_note_is_stored_and_printed(program: Stack) -> None:
    stored = run_json("remember", "I moved to Miami.", "--owner", "alice", "--session", "n1")
    assert (stored["session"], stored["progress"]["turns"]) == ("n1", 1)
    assert "n1" in run("remember", "I moved to Miami.", "--owner", "alice", "--session", "n1")
    program.drive()

    profile = run_json("profile", "--owner", "alice")
    assert [state["value"] for state in profile["states"]] == ["Initech", "Miami"]
    assert profile["made"] == "rules" and len(profile["fact_ids"]) == 2
    assert "Miami" in run("profile", "--owner", "alice")
    assert "Nothing is known of Zoe" in run("profile", "--owner", "alice", "--about", "Zoe")
    assert "nobody" in run("profile", "--owner", "nobody")


def test_words_are_shown_first_and_then_forgotten(program: Stack) -> None:
    shown = run("forget-words", "where I work", "--owner", "alice", "--dry-run")
    assert "Would be forgotten" in shown and "s1/t1" in shown

    refused = CliRunner().invoke(app, ["forget-words", "where I work", "--owner", "alice", "--json"])
    assert refused.exit_code == 2 and "not_confirmed" in refused.stderr

    done = run_json("forget-words", "where I work", "--owner", "alice", "--yes", "--no-wait", "--actor", "me")
    assert done["found"] and len(done["operations"]) == 1 and done["receipts"] == []
    program.drive()

    assert not run_json("forget-words", "where I work", "--owner", "alice", "--dry-run", code=1)["found"]
    assert "Nothing was found" in run("forget-words", "where I work", "--owner", "alice", "--dry-run", code=1)
    assert [entry.actor for entry in program.memory.lifecycle.audit("alice", action="erase")] == ["me", "me"]


def work(running: Stack, stopped: threading.Event) -> None:
    """What workers do, until profile to stop."""
    while not stopped.wait(0.05):
        running.runtime.maintain()


def test_a_deletion_that_is_waited_for_has_receipts(program: Stack) -> None:
    stopped = threading.Event()
    worker = threading.Thread(target=work, args=(program, stopped))
    worker.start()
    try:
        done = run_json("forget-words", "where I work", "--owner", "alice", "--yes", "--timeout", "60")
        second = program.memory.forget("alice", "where I work", wait=True, timeout_s=60)
    finally:
        stopped.set()
        worker.join()

    (receipt,) = done["receipts"]
    assert (receipt["clean"], receipt["target"], receipt["removed"]["facts"]) == (True, "turns", 1)
    assert (second.found, second.receipts) == (False, ())


def test_an_intent_is_printed(program: Stack) -> None:
    assert run_json("intent", "Forget where I work.") == {
        "kind": "forget",
        "object": "where I work",
        "made": "rules",
        "degraded": [],
    }
    assert run("intent", "Hello.").strip() == "none"
