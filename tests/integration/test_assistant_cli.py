"""The commands of the assistant, through the program: as JSON what the methods return, and for people a text."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from memforest_core.cli.program import app
from memforest_core.client.api import MemForest
from tests.harness.sayings import said
from tests.harness.stack import Stack

SHOP = [f"I bought item{number} for {number + 3} dollars in Denver." for number in range(4)]
PETS = ("I have a dog called Rufus.", "My dog Rufus is two.", "I adopted a dog called Milo.", "My dog Milo is black.")


def tell(running: Stack) -> None:
    turns = [{"id": "t1", "role": "user", "content": "I work at Initech.", "timestamp": "2024-04-25T09:00:00Z"}]
    running.memory.enqueue("alice", "s1", turns, display_name="Alice")
    for at, (session, lines) in enumerate({"shop": SHOP, "pets": PETS}.items()):
        running.memory.enqueue("bob", session, said(*lines, start=1_704_100_000 + at * 10_000_000))


@pytest.fixture
def program(rested: Stack, monkeypatch: pytest.MonkeyPatch) -> Stack:
    @contextmanager
    def memory(_data: Path | None, **_options: object) -> Iterator[MemForest]:
        yield rested.memory

    @contextmanager
    def store(_data: Path | None, **_options: object) -> Iterator[SimpleNamespace]:
        yield SimpleNamespace(client=rested.memory, engine=rested.services.engine, tenant=rested.tenant)

    toolkit = ("cli.toolkit.method_commands", "cli.toolkit.operating")
    for module in (*toolkit, "assistant.conversation_window.cli", "assistant.profile.cli"):
        monkeypatch.setattr(f"memforest_core.{module}.opened_memory", memory)
    for module in (*toolkit, "assistant.topics.cli"):
        monkeypatch.setattr(f"memforest_core.{module}.opened_store", store)
    return rested


def run(*arguments: str, code: int = 0) -> str:
    done = CliRunner().invoke(app, list(arguments))
    assert done.exit_code == code, (done.stdout, done.stderr, done.exception)
    return done.stdout


def run_json(*arguments: str, code: int = 0) -> Any:
    return json.loads(run(*arguments, "--json", code=code))


SHOWN: dict[str, tuple[Callable[[MemForest], Any], tuple[str, ...], str]] = {
    "today": (lambda memory: memory.today("alice"), ("today",), "nothing was said"),
    "day": (lambda memory: memory.day("alice", "2024-04-25"), ("day", "2024-04-25"), "Alice: I work at Initech."),
    "week": (lambda memory: memory.week("alice"), ("week",), "Nothing was said."),
    "day of a speaker": (
        lambda memory: memory.day("alice", "2024-04-25", "Eve"),
        ("day", "2024-04-25", "--speaker", "Eve"),
        "nothing of or about this speaker",
    ),
    "period": (lambda memory: memory.period("alice", "2024"), ("period", "2024"), "2024-01-01 to 2024-12-31"),
    "summarize": (lambda memory: memory.day("alice", "2024-04-25"), ("summarize", "--day", "2024-04-25"), "joined"),
    "window": (lambda memory: memory.window("alice", "s1"), ("window", "s1"), "Alice: I work at Initech."),
    "context": (lambda memory: memory.context("alice", question="Job?"), ("context", "Job?"), "of 2000 tokens"),
    "profile": (lambda memory: memory.profile("alice"), ("profile",), "Initech"),
}


@pytest.mark.parametrize(("call", "command", "text"), SHOWN.values(), ids=SHOWN)
def test_a_command_shows_what_the_method_returns(
    program: Stack, call: Callable[[MemForest], Any], command: tuple[str, ...], text: str
) -> None:
    owned = (*command, "--owner", "alice")
    run(*owned)  # what it makes is stored then

    shown, found = run_json(*owned), call(program.memory).to_dict()

    assert {**shown, "made_at": None} == {**json.loads(json.dumps(found)), "made_at": None}
    assert text in run(*owned)
    if command[0] != "summarize":
        assert "nobody" in run(*command, "--owner", "nobody")


def test_pages_have_a_row_and_a_document_for_each_item(program: Stack) -> None:
    days = run_json("days", "--owner", "bob")
    assert [item["id"] for item in days["items"]] == ["day:2024-04-26", "day:2024-01-01"] and days["owner_known"]
    assert "2024-04-26" in run("days", "--owner", "bob") and "--cursor" in run("days", "--owner", "bob", "--limit", "1")


def test_topics_are_listed_read_tagged_and_merged(program: Stack) -> None:
    listed = run_json("topics", "list", "--owner", "bob")["items"]
    assert [each["facts"] for each in listed] == [4, 4]
    pets, shop = listed[0]["id"], listed[1]["id"]
    assert run_json("topics", "context", pets, "--owner", "bob")["messages"][1]["content"] == PETS[0]
    assert len(run_json("topics", "history", pets, "--limit", "2", "--owner", "bob")["items"]) == 2
    assert run_json("topics", "stats", pets, "--owner", "bob")["topic"]["turns"] == 4
    assert run_json("topics", "rate", pets, "0.25", "--owner", "bob")["importance"] >= 0.25
    assert run_json("topics", "rate", pets, "--useful", "--owner", "bob")["importance"] >= 0.4
    assert run_json("topics", "tag", pets, "home", "animals", "--owner", "bob")["tags"] == ["home", "animals"]
    for command in (["list"], ["context", pets], ["history", pets], ["stats", pets]):
        assert "Milo" in run("topics", *command, "--owner", "bob") or command[0] in {"list", "stats"}
    assert run_json("topics", "merge", pets, shop, "--owner", "bob")["facts"] == 8


def test_sessions_are_started_switched_and_closed(program: Stack) -> None:
    begun = run_json("session", "start", "one", "--owner", "bob")
    assert begun == {"owner": "bob", "session_id": "one", "turns": 0, "last_at": None}
    assert run_json("session", "switch", "pets", "--owner", "bob") == run_json("session", "current", "--owner", "bob")
    assert run_json("session", "close", "--owner", "bob")["turns"] == 4
    assert run_json("session", "current", "--owner", "bob") is None
    assert "No session runs." in run("session", "current", "--owner", "bob")
    bought = program.memory.turns("bob", "shop").items[1].id
    assert run_json("window-put", "pets", "--owner", "bob", "--turn", f"shop {bought}")["held"] == 1
    assert "invalid_items" in CliRunner().invoke(app, ["window-put", "--owner", "bob", "--turn", "t1", "--json"]).stderr


def test_a_note_is_stored_and_printed(program: Stack) -> None:
    stored = run_json("remember", "I moved to Miami.", "--owner", "alice", "--session", "n1")
    assert (stored["session"], stored["progress"]["turns"]) == ("n1", 1)
    assert "n1" in run("remember", "I moved to Miami.", "--owner", "alice", "--session", "n1")
    assert "Nothing is known of Zoe" in run("profile", "--owner", "alice", "--about", "Zoe")
    assert run_json("intent", "Forget where I work.")["object"] == "where I work"
    assert run("intent", "Hello.").strip() == "none"
    group = ("--owner", "alice", "--speaker", "alice", "--addressees", "bot", "--addressees", "memo")
    assert run("intent", "memo, remember that I go by allie7", *group).split("\n")[1:3] == [
        "About: alice",
        "Alias: allie7",
    ]
    assert "Stored" in run("remember", "I go by allie7", "--owner", "alice", "--alias", "Allie")
    assert run_json("profile", "Allie", "--owner", "alice")["about"] == "Alice"
    refused = CliRunner().invoke(
        app, ["remember", "x", "--owner", "alice", "--about", "Bob", "--alias", "Alice", "--json"]
    )
    assert "alias_taken" in refused.stderr


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
    """What workers do, until they are to stop."""
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
