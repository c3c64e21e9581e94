"""Importing what others export, by the command, into a real store."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from memforest_core.cli.commands import Commands
from memforest_core.ingest.accept import cli as ingest_command
from tests.harness.stack import Stack


@pytest.fixture
def shell(pipeline: Stack, monkeypatch: pytest.MonkeyPatch) -> typer.Typer:
    """A program with the command, over the stack's services."""
    monkeypatch.setenv("MEMFOREST_DATABASE__URL", pipeline.settings.database.url.get_secret_value())
    monkeypatch.setenv("MEMFOREST_BROKER__URL", pipeline.settings.broker.url.get_secret_value())
    program = typer.Typer(cls=Commands, pretty_exceptions_enable=False)
    program.callback()(lambda: None)
    program.command()(ingest_command.ingest)
    return program


def ingest(shell: typer.Typer, content: object, directory: Path, *arguments: str) -> Result:
    file = directory / "export.json"
    file.write_text(json.dumps(content))
    return CliRunner().invoke(shell, ["ingest", str(file), *arguments])


def message(role: str, text: str, parent: str | None, at: float) -> dict[str, object]:
    content = {"content_type": "text", "parts": [text]}
    return {"parent": parent, "message": {"author": {"role": role}, "create_time": at, "content": content}}


NODES = {
    "root": {"parent": None, "message": None},
    "a": message("user", "I bought two kayaks in Oslo.", "root", 1_700_000_000.5),
    "b": message("assistant", "Enjoy the water.", "a", 1_700_000_009.25),
}
CHATS: list[dict[str, object]] = [
    {"title": "Boats", "conversation_id": "boats", "create_time": 1.7e9, "current_node": "b", "mapping": NODES},
    {"title": "Broken", "id": "broken", "current_node": "gone", "mapping": {"a": message("user", "Hi.", None, 1)}},
    {"title": "Empty", "id": "empty", "current_node": "a", "mapping": {"a": {"parent": None, "message": None}}},
]


def test_a_chat_export_is_recognized_imported_and_imported_again(
    pipeline: Stack, shell: typer.Typer, tmp_path: Path
) -> None:
    """Given an export with a broken conversation, then the others are stored with their ids and times, and once."""
    first = ingest(shell, CHATS, tmp_path, "--format", "auto", "--owner", "ann")
    assert first.exit_code == 2
    assert "Format: openai (" in first.stderr
    assert "item 2: The conversation's current_node is not in its mapping. [invalid_item]" in first.stderr
    assert "1 session accepted (2 new turns), 0 unchanged, 1 without words, 1 failed." in first.stdout

    stored = pipeline.rows("SELECT external_id, role, content, occurred_at FROM memforest.turn ORDER BY ordinal")
    assert [(row[0], row[1], row[2], row[3].timestamp()) for row in stored] == [
        ("a", "user", "I bought two kayaks in Oslo.", 1_700_000_000.5),
        ("b", "assistant", "Enjoy the water.", 1_700_000_009.25),
    ]

    nodes = dict(NODES, c=message("user", "They are red.", "b", 1_700_000_020))
    longer = [CHATS[0] | {"mapping": nodes, "current_node": "c"}]
    repeated = json.loads(ingest(shell, longer, tmp_path, "--format", "openai", "--owner", "ann", "--json").stdout)
    assert (repeated["format"], repeated["accepted"], repeated["new_turns"], repeated["failed"]) == ("openai", 1, 1, 0)


def test_exported_memories_are_statements_that_evidence_cites(
    pipeline: Stack, shell: typer.Typer, tmp_path: Path
) -> None:
    of = {"user_id": "ann", "created_at": "2024-03-01T08:00:00-07:00"}
    bees = {"id": "m2", "memory": "Ann keeps bees.", **of, "created_at": "2024-03-01T12:00:00-07:00"}
    results = [bees, {"id": "m1", "memory": "Ann sails to Gotland.", **of}, {"id": "m3", "memory": "", **of}]
    page = {"count": 3, "next": None, "results": results}
    first = json.loads(ingest(shell, page, tmp_path, "--format", "mem0", "--json").stdout)
    assert (first["accepted"], first["new_turns"], first["failed"]) == (1, 2, 1)
    [error] = first["errors"]
    assert (error["line"], error["item"], error["code"]) == (None, 3, "invalid_item")
    pipeline.drive()
    (best, *_) = pipeline.memory.recall("ann", "Who sails to Gotland?").evidence
    assert "Gotland" in best.text
    assert (best.session_id, best.turn_ids) == ("mem0-2024-03-01", ("m1",))
    assert pipeline.rows("SELECT external_id, metadata->>'mem0_id' FROM memforest.turn ORDER BY ordinal") == [
        ("m1", "m1"),
        ("m2", "m2"),
    ]
    repeated = json.loads(ingest(shell, page, tmp_path, "--format", "auto", "--json").stdout)
    assert (repeated["accepted"], repeated["unchanged"], repeated["failed"]) == (0, 1, 1)


def test_a_chatbots_history_is_imported_with_its_own_names(pipeline: Stack, shell: typer.Typer, tmp_path: Path) -> None:
    """Given rows under names of their own, then options say what they are, and importing again adds nothing."""
    rows = [
        {"room": "deck", "who": "captain", "content": "I bought two kayaks in Oslo.", "at": 1_700_000_000},
        {"room": "deck", "who": "bot", "content": "Enjoy the water.", "at": 1_700_000_009},
    ]
    mapped = ["--map", "session=room", "--map", "role=who", "--map", "role:captain=user", "--map", "time=at"]
    first = ingest(shell, rows, tmp_path, "--owner", "ann", *mapped)
    assert (first.exit_code, "Format: history (" in first.stderr) == (0, True), first.output
    repeated = json.loads(ingest(shell, rows, tmp_path, "--owner", "ann", *mapped, "--json").stdout)
    assert (repeated["accepted"], repeated["unchanged"]) == (0, 1)
    stored = pipeline.rows("SELECT role, content, occurred_at FROM memforest.turn ORDER BY ordinal")
    assert [(row[0], row[1], row[2].timestamp()) for row in stored] == [
        ("user", "I bought two kayaks in Oslo.", 1_700_000_000),
        ("assistant", "Enjoy the water.", 1_700_000_009),
    ]


def test_langchain_messages_and_a_sqlite_file_are_imported(pipeline: Stack, shell: typer.Typer, tmp_path: Path) -> None:
    kinds = {"human": "I keep bees.", "ai": "How many?"}
    messages = [{"type": kind, "data": {"content": text}} for kind, text in kinds.items()]
    shown = json.loads(ingest(shell, messages, tmp_path, "--owner", "ann", "--dry-run", "--json").stdout)
    assert (shown["sessions"], shown["owner_speaks_as"], shown["speakers"]) == (1, {"ann": 1}, {"assistant": 1})
    assert [turn["session_id"] for turn in shown["shown"]] == ["export", "export"]
    assert pipeline.rows("SELECT content FROM memforest.turn") == []
    assert ingest(shell, messages, tmp_path, "--owner", "ann", "--session", "bees").exit_code == 0

    path = tmp_path / "chat.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE messages (session_id, role, content)")
    connection.execute("INSERT INTO messages VALUES ('boats', 'user', 'I row.')")
    connection.commit()
    connection.close()
    done = CliRunner().invoke(shell, ["ingest", str(path), "--owner", "ann"])
    assert (done.exit_code, "Format: sqlite (" in done.stderr) == (0, True), done.output
    stored = pipeline.rows("SELECT content FROM memforest.turn ORDER BY content")
    assert [row[0] for row in stored] == ["How many?", "I keep bees.", "I row."]


@pytest.mark.parametrize("more", [("--map", "id=key"), ("--session", "s1")])
def test_options_of_another_format_are_refused(shell: typer.Typer, tmp_path: Path, more: tuple[str, str]) -> None:
    refused = ingest(shell, {"session_id": "s1", "turns": []}, tmp_path, "--owner", "ann", *more)
    assert refused.exit_code == 2
    assert f"Leave {more[0]} out" in refused.stderr


def test_sessions_of_a_file_are_in_the_zone_of_the_option_or_of_their_line(
    pipeline: Stack, shell: typer.Typer, tmp_path: Path
) -> None:
    said = {"role": "user", "content": "I visited Kyoto yesterday.", "timestamp": "2025-02-28T16:00:00Z"}
    file = tmp_path / "lines.jsonl"
    lines: list[dict[str, object]] = [
        {"owner": "home", "session_id": "first", "turns": [said | {"content": "Hello."}], "time_zone": "UTC"},
        {"owner": "home", "session_id": "away", "turns": [said]},
        {"owner": "home", "session_id": "nowhere", "turns": [said], "time_zone": "Mars/Olympus"},
    ]
    file.write_text("\n".join(map(json.dumps, lines)))

    reported = CliRunner().invoke(shell, ["ingest", str(file), "--time-zone", "Asia/Tokyo"])
    pipeline.drive()

    assert reported.exit_code == 2
    assert (
        "line 3: time_zone must be an IANA name such as Europe/Paris; 'Mars/Olympus' is not known." in reported.stderr
    )
    zones = pipeline.rows("SELECT external_id, time_zone FROM memforest.session ORDER BY created_at")
    assert zones == [("first", "UTC"), ("away", "Asia/Tokyo")]
    [visit] = [fact for fact in pipeline.memory.facts("home").items if "Kyoto" in fact.text]
    assert visit.statement.time.start is not None
    assert f"{visit.statement.time.start:%Y-%m-%d %H:%M}" == "2025-02-28 00:00"


def test_a_chat_stored_with_another_me_names_what_to_forget(
    pipeline: Stack, shell: typer.Typer, tmp_path: Path
) -> None:
    file = tmp_path / "boats.txt"
    file.write_text("13/04/24, 9:15 - Ida: I row.\n13/04/24, 9:16 - Ben: I sail.")
    first, second = (
        json.loads(CliRunner().invoke(shell, ["ingest", str(file), "--owner", "ann b", "--me", me, "--json"]).stdout)
        for me in ("Ida", "Ben")
    )
    assert first["accepted"] == 1 and first["warnings"][0].startswith("2 times without a zone: taken as UTC")
    [error] = second["errors"]
    assert "stored with another --me" in error["message"]
    assert error["message"].endswith("memforest forget --owner 'ann b' --session whatsapp-boats.")
