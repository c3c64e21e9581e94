"""The commands that change memory, through the program, while a worker runs."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from memforest_core.cli.program import app
from memforest_core.cli.toolkit import operating
from memforest_core.client.api import MemForest
from memforest_core.lifecycle.bundle.importing import Import
from memforest_core.lifecycle.correct import cli as correct
from memforest_core.lifecycle.retain import cli as policy
from memforest_core.models.calls import Embedder
from memforest_core.work import cli as work
from tests.harness.sayings import said
from tests.harness.servers import SessionServers
from tests.harness.stack import Stack, stack

BETWEEN_S = 0.05
COMMANDS = (operating, work, correct, policy)
TALK = {
    "s-1": ("I moved to Quito in May 2021.", "I bought a red kayak."),
    "s-2": ("I adopted a tortoise called Zorba.", "I play the cello."),
    "s-3": ("I moved to Kyoto in June 2023.", "My sister Greta lives in Turin."),
}


def work(running: Stack, stopped: threading.Event) -> None:
    """What workers do, until stopped."""
    while not stopped.wait(BETWEEN_S):
        running.execute("UPDATE memforest.tree SET due_at = now() WHERE due_at IS NOT NULL")
        for part in ("extract", "reduce", "refresh", "maintain"):
            getattr(running.runtime, part)()


@pytest.fixture(scope="module")
def worked(servers: SessionServers, tmp_path_factory: pytest.TempPathFactory, embedder: Embedder) -> Iterator[Stack]:
    with stack(servers, tmp_path_factory.mktemp("worked"), embedder=embedder) as running:
        stopped = threading.Event()
        thread = threading.Thread(target=work, args=(running, stopped))
        thread.start()
        try:
            yield running
        finally:
            stopped.set()
            thread.join()


class Program:
    """The program over the stack's memory; each call is one command."""

    def __init__(self, running: Stack) -> None:
        self.memory = running.memory

    def __call__(self, *arguments: str, code: int = 0) -> str:
        done = CliRunner().invoke(app, list(arguments))
        assert done.exit_code == code, (done.stdout, done.stderr, done.exception)
        return done.stdout

    def json(self, *arguments: str) -> Any:
        """The one JSON object that a command prints."""
        return json.loads(self(*arguments, "--json"))

    def refused(self, *arguments: str) -> str:
        """The code of the error that a command ends with."""
        done = CliRunner().invoke(app, [*arguments, "--json"])
        assert done.exit_code == 2, (done.stdout, done.stderr)
        return str(json.loads(done.stderr.splitlines()[-1])["error"]["code"])

    def reported(self, owner: str) -> None:
        """An owner with three sessions, at rest."""
        for session, lines in TALK.items():
            self.memory.enqueue(owner, session, said(*lines))
        self.memory.flush(owner, 60)

    def found(self, owner: str, question: str) -> str:
        """All the evidence for a question."""
        return "\n".join(piece.text for piece in self.memory.recall(owner, question).evidence)

    def fact(self, owner: str, word: str) -> str:
        """The id of a fact that has a word."""
        parts = self.memory.recall(owner, f"What about {word}?").evidence
        return next(str(piece.fact_ids[0]) for piece in parts if word in piece.text and piece.fact_ids)


@pytest.fixture
def program(worked: Stack, monkeypatch: pytest.MonkeyPatch) -> Program:
    @contextmanager
    def opened(_data: Path | None, **_options: object) -> Iterator[MemForest]:
        yield worked.memory

    for module in COMMANDS:
        monkeypatch.setattr(module, "opened_memory", opened)
    return Program(worked)


def test_forget_prints_a_receipt(program: Program) -> None:
    """Given a dry run, then nothing goes; given a session, then its receipt says what went and that nothing is left."""
    program.reported("ada")
    requested = ("forget", "--owner", "ada", "--session", "s-2")
    assert program.json(*requested, "--dry-run")["numbers"]["turns"] == 2
    assert "Zorba" in program.found("ada", "What is the tortoise called?")
    assert program.refused(*requested) == "not_confirmed"

    shown = program.json(*requested, "--yes", "--receipt")["receipt"]

    assert shown["removed"]["turns"] == 2 and shown["target"] == "session"
    assert set(shown["left"].values()) == {0} and shown["actor"].startswith("cli:")
    assert "Zorba" not in program.found("ada", "What is the tortoise called?")
    assert "Nothing of it is left." in program(
        "forget", "-o", "ada", "--session", "s-1", "--turn", _turn(program, "ada", "kayak"), "-y", "--receipt"
    )
    assert "kayak" not in program.found("ada", "What did Bob buy?")
    planned = program("forget", "-o", "ada", "--session", "s-1", "--dry-run")
    assert re.fullmatch(r"Would be deleted: 1 session, \d+ turns?(, \d+ facts?)?\.", planned.strip()), planned
    deleted = program("forget", "-o", "ada", "--session", "s-1", "--yes")
    assert re.fullmatch(r"Deleted: 1 session, .*; nothing refers to it\.", deleted.strip()), deleted
    assert program.refused("forget", "-o", "ada", "--session", "nowhere", "-y") == "not_found"


def _turn(program: Program, owner: str, word: str) -> str:
    parts = program.memory.recall(owner, f"What about {word}?").evidence
    return next(piece.turn_ids[0] for piece in parts if word in piece.text)


def test_sessions_and_turns_are_pinned_and_policies_have_ages(program: Program) -> None:
    """Given pins of a session and a turn and a policy with an age of each kind, then commands print them, and a run
    leaves them alone."""
    program.reported("pia")
    turn = _turn(program, "pia", "kayak")
    assert program.json("pin", "--owner", "pia", "--session", "s-2")["numbers"]["sessions"] == 1
    assert program.json("pin", "--owner", "pia", "--session", "s-1", "--turn", turn)["numbers"]["turns"] == 1
    pinned = {"sessions": ["s-2"], "turns": [{"session_id": "s-1", "turn_id": turn}], "facts": []}
    assert program.json("pins", "--owner", "pia") == pinned
    assert "s-2" in program("pins", "--owner", "pia")
    assert program.refused("pin", "--owner", "pia") == "invalid_pin"
    assert program.refused("pin", "--owner", "pia", "--session", "nowhere") == "not_found"
    ages = [
        "--max-age-days",
        "1",
        "--facts-max-age-days",
        "2",
        "--digests-max-age-days",
        "3",
        "--window-max-age-days",
        "4",
    ]
    shown = program.json("policy", "set", "--owner", "pia", *ages, "--order", "visits")["policies"]
    (own,) = [each for each in shown if each["owner"] == "pia"]
    kinds = ("max_age_days", "facts_max_age_days", "digests_max_age_days", "window_max_age_days", "order")
    assert [own[name] for name in kinds] == [1, 2, 3, 4, "visits"]
    assert "visits" in program("policy", "show")
    numbers = program.json("policy", "apply", "--owner", "pia")["numbers"]
    assert (numbers["pinned_sessions"], numbers["pinned_turns"]) == (1, 1) and numbers["aged"] >= 1
    found = program.found("pia", "What did Bob say?")
    assert "Zorba" in found and "kayak" in found and "Greta" not in found
    assert program.json("unpin", "--owner", "pia", "--session", "s-2")["numbers"]["sessions"] == 1
    assert program.json("pins", "--owner", "pia")["sessions"] == []
    program("policy", "clear", "--owner", "pia")


def test_a_fact_is_corrected_and_pinned(program: Program) -> None:
    program.reported("bea")
    fact = program.fact("bea", "cello")
    assert "facts" in program("pin", fact, "--owner", "bea")
    program("unpin", fact, "--owner", "bea")

    program("correct", fact, "--owner", "bea", "--text", "Bob plays the viola.", "--actor", "bea")

    assert "viola" in program.found("bea", "What does Bob play?")
    assert program.refused("correct", fact, "--owner", "bea", "--text", "Bob plays the oboe.")
    entries = program.json("audit", "--owner", "bea", "--action", "correct")["audit"]
    assert [entry["outcome"] for entry in entries].count("done") == 3
    assert entries[0]["actor"] == "bea"


def test_forests_are_merged(program: Program) -> None:
    program.reported("cid")
    program.memory.enqueue("dee", "s-9", said("I bought a blue tent.", "I play the cello."))
    program.memory.flush("dee", 60)
    report = program.json("merge", "cid", "dee", "--into", "all", "--dry-run")["report"]
    assert (report["sessions"], report["counts"]["sessions"], report["counts"]["facts_exact"]) == ([], 4, 1)
    assert "Bob plays the cello." in program("merge", "cid", "dee", "--into", "all", "--dry-run")
    assert program.json("audit", "--action", "merge")["audit"] == []

    numbers = program.json("merge", "cid", "dee", "--into", "all", "--yes")["numbers"]

    assert numbers["sessions"] == 4
    found = program.memory.recall("all", "What tent did Bob buy?").evidence
    assert ("blue tent" in found[0].text, found[0].origin) == (True, "dee")
    program("merge", "all", "--into", "copy", "--keep-sources")
    assert "Kyoto" in program.found("copy", "Where did Bob move?")
    assert "Kyoto" in program.found("all", "Where did Bob move?")


def test_a_forest_goes_out_and_in(program: Program, tmp_path: Path) -> None:
    program.reported("eve")
    file = tmp_path / "eve.memforest"
    assert program.json("export", str(file), "--owner", "eve")["numbers"]["turn"] == 6
    assert program.refused("export", str(file), "--owner", "eve")
    program("export", str(file), "--owner", "eve", "--overwrite", "--format", "jsonl")
    assert program.refused("import", str(file))

    program("import", str(file), "--owner", "eve-too")

    program.memory.flush("eve-too", 60)
    assert "Turin" in program.found("eve-too", "Where does Greta live?")
    assert program.json("import", str(file), "--owner", "eve-too")["numbers"]["already"] == 1


def test_a_forest_is_rebuilt_after_its_plan(program: Program) -> None:
    program.reported("fay")
    plan = program.json("rematerialize", "--owner", "fay", "--set", "session_k=4", "--dry-run")["plan"]
    assert (plan["sessions"], plan["extraction_calls"], plan["cost_usd"]) == (3, 0, 0)
    assert program.refused("rematerialize", "--owner", "fay", "--set", "session_k=1", "--yes")
    assert program.refused("rematerialize") == "nothing_named"

    program("rematerialize", "--owner", "fay", "--set", "session_k=4", "--yes")

    assert "Kyoto" in program.found("fay", "Where did Bob move?")
    assert program.json("rematerialize", "--owner", "fay", "--abandon") == {"abandoned": 0}


def test_policies_say_what_they_would_do(program: Program) -> None:
    program.reported("gus")
    assert "There is no policy" in program("policy", "show")
    shown = program.json("policy", "set", "--owner", "gus", "--max-facts", "2", "--fraction", "0.5")["policies"]
    assert [(one["owner"], one["max_facts"], one["fraction"]) for one in shown] == [("gus", 2, 0.5)]
    planned = program.json("policy", "apply", "--owner", "gus", "--dry-run")["numbers"]
    assert planned["over_facts"] > 0

    numbers = program.json("policy", "apply", "--owner", "gus")["numbers"]

    assert 0 < numbers["forgotten"] <= planned["over_facts"]
    program("policy", "clear", "--owner", "gus")
    assert program.json("policy", "show") == {"policies": []}


def test_requested_operations_are_listed(program: Program) -> None:
    program.reported("hal")
    program("forget", "--owner", "hal", "--everything", "--yes")
    newest = program.json("operations", "--limit", "1")["operations"]
    assert [(one["kind"], one["state"]) for one in newest] == [("erase", "done")]
    assert "erase" in program("operations")
    assert "erase" in program("audit", "--owner", "hal")


def test_an_import_that_was_killed_is_cancelled(program: Program, tmp_path: Path) -> None:
    """Given an import whose process has ended, when it is cancelled, then its numbers say so; what is done can't be."""
    program.reported("jan")
    path = tmp_path / "jan.memforest"
    exported = program.json("export", str(path), "--owner", "jan")["numbers"]["task"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Import, "_texts", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            program.memory.lifecycle.import_(path, "jan-copy", actor="test")
    [killed] = [each for each in program.memory.lifecycle.operations(1) if each.state == "held"]

    shown = program.json("operations", "cancel", str(killed.id), "--actor", "boss")

    assert shown == {"operation": str(killed.id), "kind": "import", "state": "done", "cancelled": True}
    assert "was cancelled" in program("operations", "cancel", str(killed.id))
    assert program.refused("operations", "cancel", exported) == "too_late"
