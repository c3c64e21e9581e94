"""Hooks of coding agents against an embedded node: what was said is stored once, and remembered in the next session."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from typer.testing import CliRunner

from memforest_core import MemForest, RemoteMemForest
from memforest_core.cli.page import served_page
from memforest_core.cli.program import app
from memforest_core.client.embedded.directory import is_open, served_at
from tests.harness.timing import until

STAMP = "2026-05-20T18:00:00.000Z"
AGENTS = ("claude-code", "codex", "codex-before")


def claude(role: str, content: object, **more: object) -> dict[str, object]:
    """A line of a transcript of Claude Code."""
    message = {"role": role, "content": content}
    return {"type": role, "uuid": str(uuid4()), "isSidechain": False, "timestamp": STAMP, "message": message} | more


def rollout(kind: str, **payload: object) -> dict[str, object]:
    """A line of a rollout of Codex."""
    return {"timestamp": STAMP, "type": kind, "payload": payload}


FIRST: dict[str, list[dict[str, object]]] = {
    "claude-code": [
        {"type": "summary", "summary": "noise", "leafUuid": "u9"},
        claude("user", "<command-name>/clear</command-name>"),
        claude("user", "noise of a note", isMeta=True),
        claude("user", "<ide_opened_file>noise</ide_opened_file>We deploy the billing service with Kustomize."),
        claude("assistant", [{"type": "thinking", "thinking": "noise"}, {"type": "text", "text": "I will remember."}]),
        claude("assistant", [{"type": "tool_use", "id": "t1", "name": "Read", "input": {"file_path": "/noise"}}]),
        claude("user", [{"type": "tool_result", "tool_use_id": "t1", "content": "noise of a tool"}]),
        claude("assistant", "noise of a subagent", isSidechain=True),
    ],
    "codex-before": [
        rollout("session_meta", id="s", cwd="/app"),
        rollout("response_item", type="message", role="user", content=[{"type": "input_text", "text": "noise"}]),
        rollout("event_msg", type="user_message", message="We deploy the billing service with Kustomize."),
        rollout("response_item", type="function_call_output", output="noise of a tool"),
        rollout("event_msg", type="agent_message", message="I will remember."),
    ],
}


def item(kind: str, part: str, text: str) -> dict[str, object]:
    """A line of a rollout of Codex 0.171: an item of a turn."""
    said = {"type": kind, "id": str(uuid4()), "content": [{"type": part, "text": text}]}
    return rollout("event_msg", type="item_completed", turn_id="t1", item=said)


FIRST["codex"] = [
    *FIRST["codex-before"][:2],
    item("UserMessage", "text", "We deploy the billing service with Kustomize."),
    item("Reasoning", "Text", "noise"),
    item("AgentMessage", "Text", "I will remember."),
]
NEXT = {
    "codex": [item("UserMessage", "text", "The staging cluster is in Oslo.")],
    "claude-code": [claude("user", "The staging cluster is in Oslo.")],
    "codex-before": [rollout("event_msg", type="user_message", message="The staging cluster is in Oslo.")],
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A node that runs as ``memforest up`` runs it."""
    directory = tmp_path_factory.mktemp("hooks") / "data"
    with MemForest.embedded(directory) as memory, served_page(memory, directory, 0):
        yield directory


@pytest.fixture
def owner() -> str:
    return f"owner-{uuid4().hex[:12]}"


def hook(*arguments: str, stdin: object = None, **variables: str) -> tuple[dict[str, Any], str]:
    """What the hook prints, and its sentences; it ends with 0 whatever happens."""
    given = stdin if isinstance(stdin, str) else json.dumps(stdin)
    none = {name: None for name in os.environ if name.startswith(("MEMFOREST_", "CLAUDE_", "CODEX_"))}
    done = CliRunner().invoke(app, ["hook", *arguments], input=given, env={**none, **variables})
    assert done.exit_code == 0, (done.stderr, done.exception)
    return json.loads(done.stdout).get("hookSpecificOutput", {}) if done.stdout else {}, done.stderr


def event(name: str, transcript: Path | None, session: str = "s1", **more: object) -> dict[str, object]:
    path = None if transcript is None else str(transcript)
    return {"hook_event_name": name, "session_id": session, "transcript_path": path, "cwd": "/home/ana/app", **more}


def write(path: Path, *lines: dict[str, object]) -> Path:
    with path.open("a") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    return path


def contents(data: Path, owner: str, session: str) -> list[str]:
    served = served_at(data)
    assert served is not None
    with RemoteMemForest(*served) as memory:
        return [turn.content for turn in memory.turns(owner, session).items]


@pytest.mark.parametrize("agent", AGENTS)
def test_a_session_is_stored_once_and_remembered_in_the_next(
    data: Path, owner: str, agent: str, tmp_path: Path
) -> None:
    """Given a transcript, when hooks are called for it twice and once more with a new turn, then each turn is stored
    once without tools, and the next session of the project is given them; another project is not."""
    options = (agent.removesuffix("-before"), "--data", str(data), "--owner", owner)
    transcript = write(tmp_path / "t.jsonl", *FIRST[agent])
    for name in ("Stop", "Stop", "PreCompact"):
        assert hook(*options, stdin=event(name, transcript)) == ({}, "")
    spoken = ["We deploy the billing service with Kustomize.", "I will remember."]
    assert contents(data, owner, "s1") == spoken
    with write(transcript, *NEXT[agent]).open("a") as file:
        file.write('{"type": "user", "half')
    assert hook(*options, stdin=event("SessionEnd", transcript, reason="other")) == ({}, "")
    assert contents(data, owner, "s1") == [*spoken, "The staging cluster is in Oslo."]

    begun, _ = hook(*options, stdin=event("SessionStart", tmp_path / "none", "s2", source="startup"))
    assert begun["hookEventName"] == "SessionStart"
    assert "Kustomize" in begun["additionalContext"]
    assert "noise" not in begun["additionalContext"]
    prompt = event("UserPromptSubmit", None, "s2", prompt="What do we deploy billing with?")
    found, _ = hook(*options, stdin=prompt)
    assert "<evidence>" in found["additionalContext"]
    assert "<window" not in found["additionalContext"]
    assert hook(*options, "--channel", "other", stdin=prompt)[0] == {}


def test_a_notification_of_codex_is_stored_once(data: Path, owner: str, tmp_path: Path) -> None:
    """Given a finished turn, then it is read from the session's file, or as it came where there is none."""
    notice = {
        "type": "agent-turn-complete",
        "thread-id": str(uuid4()),
        "turn-id": "7",
        "cwd": "/home/ana/app",
        "input-messages": ["Rename foo to bar."],
        "last-assistant-message": "Renamed.",
    }
    call = ("codex", json.dumps(notice), "--data", str(data), "--owner", owner)
    for _ in range(2):
        assert hook(*call, CODEX_HOME=str(tmp_path)) == ({}, "")
    assert contents(data, owner, str(notice["thread-id"])) == ["Rename foo to bar.", "Renamed."]

    notice["thread-id"] = str(uuid4())
    day = tmp_path / "sessions" / "2026" / "05" / "20"
    day.mkdir(parents=True)
    write(day / f"rollout-2026-05-20T18-00-00-{notice['thread-id']}.jsonl", *FIRST["codex"])
    call = ("codex", json.dumps(notice), *call[2:])
    assert hook(*call, CODEX_HOME=str(tmp_path)) == ({}, "")
    assert len(contents(data, owner, str(notice["thread-id"]))) == 2


@pytest.mark.parametrize(
    ("arguments", "stdin", "sentence"),
    [
        (("claude-code", "--nonsense"), "{}", "No such option"),
        (("claude-code",), "not JSON", "as one JSON object on stdin"),
        (("claude-code",), "[" * 100_000, "as one JSON object on stdin"),
        (("claude-code", "--data", "/proc/none"), event("Stop", None), "/proc/none can't be used"),
        (("codex",), '{"hook_event_name": "Stop"}', "has no session_id"),
        (("claude-code",), '{"hook_event_name": "PreToolUse"}', "is no event of this hook"),
        (("claude-code", "--server", "http://127.0.0.1:9"), event("Stop", None), "Set MEMFOREST_KEY"),
        (("claude-code", "--server", "http://x", "--data", "d"), event("Stop", None), "not both"),
    ],
)
def test_what_goes_wrong_is_one_sentence_and_the_agent_goes_on(
    arguments: tuple[str, ...], stdin: object, sentence: str
) -> None:
    printed, said = hook(*arguments, stdin=stdin)
    assert printed == {}
    assert said.startswith("memforest: ")
    assert sentence in said
    assert len(said.splitlines()) == 1


def test_a_server_that_is_unavailable_and_lines_that_cannot_be_read_are_said(
    data: Path, owner: str, tmp_path: Path
) -> None:
    unavailable = {"MEMFOREST_URL": "http://127.0.0.1:9", "MEMFOREST_KEY": "mf_x"}
    transcript = write(tmp_path / "t.jsonl", claude("user", "x" * 70_000))
    assert "can't be reached" in hook("claude-code", stdin=event("Stop", transcript), **unavailable)[1]
    empty = write(tmp_path / "empty.jsonl", claude("assistant", []))
    said = hook("claude-code", "--data", str(data), "--owner", owner, stdin=event("Stop", empty, "s0"))[1]
    assert "no turn that can be read" in said
    transcript.write_text("broken\n[1]\n" + transcript.read_text())
    said = hook("claude-code", "--data", str(data), "--owner", owner, stdin=event("Stop", transcript))[1]
    assert "2 lines of the transcript are no JSON" in said
    assert "1 turns have more than 60,000 characters" in said
    assert len(contents(data, owner, "s1")[0]) < 61_000


def test_without_a_node_a_process_of_its_own_stores_and_the_printed_configuration_runs(tmp_path: Path) -> None:
    """Given a directory in which no node runs, when the printed command is run as the agent runs it, then it returns
    at once, and the turns are there for the next session."""
    data = tmp_path / "data"
    printed = CliRunner().invoke(app, ["hook", "claude-code", "--data", str(data), "--owner", "ana", "--print-config"])
    hooks = json.loads(printed.stdout)["hooks"]
    assert list(hooks) == ["SessionStart", "Stop", "PreCompact", "SessionEnd"]
    [call] = hooks["Stop"][0]["hooks"]
    assert shlex.split(call["command"])[1:3] == ["hook", "claude-code"]
    given = json.dumps(event("Stop", write(tmp_path / "t.jsonl", *FIRST["claude-code"])))
    done = subprocess.run(call["command"], shell=True, input=given, text=True, capture_output=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    log = data / "logs" / "hook.log"
    until(lambda: (data / "pg").exists() and not is_open(data), 90, log.read_text)
    assert log.read_text() == ""
    begun, _ = hook(
        "claude-code", "--data", str(data), "--owner", "ana", stdin=event("SessionStart", None, "s2", source="startup")
    )
    assert "Kustomize" in begun["additionalContext"]
