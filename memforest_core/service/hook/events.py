"""What Claude Code and Codex send to a hook, and what they said so far."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from glob import escape
from pathlib import Path
from typing import Any, TypeAlias

from memforest_core.domain.chat_messages import TurnInput
from memforest_core.errors import InvalidInput
from memforest_core.ingest.formats.agent_lines import HIDDEN_LINES, own_words
from memforest_core.ingest.formats.file_items import name_of, turns_of

MAX_CHARS = 60_000
"""Of one turn: what is longer is cut, because ``accept.max_turn_bytes`` (262,144) would refuse the whole session."""
CUT = " [cut]"
STORING = frozenset({"SessionStart", "Stop", "PreCompact", "SessionEnd"})
"""Events at which new turns of the transcript are stored."""
RECALLING = frozenset({"SessionStart", "UserPromptSubmit"})
"""Events whose hook may give context."""

_Said: TypeAlias = tuple[str, object, str | None]
"""Role, content and id."""
_NOTICE = "agent-turn-complete"
"""The type of what Codex gives to the program of its setting ``notify``."""
_CODEX_ROLES = {
    "UserMessage": "user",
    "user_message": "user",
    "AgentMessage": "assistant",
    "agent_message": "assistant",
}
"""Of items since version 0.171 at the latest, and of the events of earlier ones."""


class Agent(StrEnum):
    """The agents whose hooks are known."""

    CLAUDE_CODE = "claude-code"
    CODEX = "codex"


@dataclass(frozen=True, slots=True)
class HookEvent:
    """One call of a hook."""

    name: str
    """``SessionStart``, ``UserPromptSubmit``, ``Stop``, ``PreCompact`` or ``SessionEnd``."""
    session: str
    """The agent's id of its session."""
    project: str
    """The directory in which the agent works."""
    transcript: Path | None
    source: str = ""
    """Why a session starts: ``startup``, ``resume``, ``clear``, ``compact``."""
    prompt: str = ""
    said: Sequence[TurnInput] = ()
    """The turns that came with the event, for a session without a transcript."""


@dataclass(slots=True)
class Transcript:
    """The turns of a session in order: what people typed and what the agent answered, without its tools."""

    turns: list[TurnInput] = field(default_factory=list)
    unreadable: int = 0
    """Lines that are no JSON object; the last one is not read without its end."""
    cut: int = 0
    """Turns that were longer than MAX_CHARS."""


def read_event(agent: Agent, raw: bytes) -> HookEvent:
    """The event in a hook's input. Raises InvalidInput for what is none that is known."""
    try:
        fields = json.loads(raw)
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        raise InvalidInput(f"Give the hook input of {agent} as one JSON object on stdin.", code="invalid_hook")
    if agent is Agent.CODEX and fields.get("type") == _NOTICE:
        return _notified(fields)
    name = _text(fields, "hook_event_name", agent)
    if name not in STORING | RECALLING:
        raise InvalidInput(f"{name:.40} is no event of this hook: see memforest hook {agent} --print-config.")
    path = fields.get("transcript_path")
    return HookEvent(
        name,
        _text(fields, "session_id", agent),
        os.environ.get("CLAUDE_PROJECT_DIR") or _text(fields, "cwd", agent),
        Path(path).expanduser() if isinstance(path, str) and path else None,
        str(fields.get("source") or ""),
        str(fields.get("prompt") or ""),
    )


def read_transcript(agent: Agent, path: Path) -> Transcript:
    """The turns in an agent's own file of a session; none while there is no file. Raises InvalidInput."""
    found = Transcript()
    try:
        lines = path.read_text("utf-8", errors="replace").split("\n")
    except FileNotFoundError:
        return found
    except OSError as error:
        raise InvalidInput(f"{path} can't be read ({error.strerror}).", code="unreadable_file") from None
    lines.pop()
    read = _claude_said if agent is Agent.CLAUDE_CODE else _codex_said
    for line in filter(str.strip, lines):
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            entry = None
        if not isinstance(entry, dict):
            found.unreadable += 1
            continue
        role, content, own = read(entry) or ("", None, None)
        text = content if isinstance(content, str) else "\n\n".join(_texts(content))
        if len(text) > MAX_CHARS:
            text = text[:MAX_CHARS] + CUT
            found.cut += 1
        stamp = entry.get("timestamp")
        found.turns += turns_of(role, text, id=own, timestamp=stamp if isinstance(stamp, str) else None)
    return found


def _claude_said(entry: Mapping[str, Any]) -> _Said | None:
    """What a line of a transcript of Claude Code says; None for tools, reasoning, subagents and notes of its own."""
    role, message = entry.get("type"), entry.get("message")
    hidden = any(entry.get(flag) for flag in HIDDEN_LINES)
    if role not in ("user", "assistant") or hidden or not isinstance(message, dict):
        return None
    return role, (own_words({**message, "role": role}) or {}).get("content"), name_of(entry.get("uuid"))


def _codex_said(entry: Mapping[str, Any]) -> _Said | None:
    """What a line of a rollout of Codex says: an event has neither instructions nor tools."""
    payload = entry.get("payload")
    if entry.get("type") != "event_msg" or not isinstance(payload, dict):
        return None
    item = payload.get("item") if payload.get("type") == "item_completed" else payload
    role = _CODEX_ROLES.get(str(item.get("type"))) if isinstance(item, dict) else None
    if not isinstance(item, dict) or role is None:
        return None
    said = item["message"] if isinstance(item.get("message"), str) else item.get("content")
    own = name_of(item.get("id"))
    return role, said, f"{payload.get('turn_id')}-{own}" if own else None


def _texts(content: object) -> Iterator[str]:
    for part in content if isinstance(content, list) else ():
        if isinstance(part, dict) and part.get("type") in ("text", "Text") and isinstance(part.get("text"), str):
            yield part["text"]


def _notified(fields: Mapping[str, Any]) -> HookEvent:
    """A finished turn of Codex. Its file of the session is preferred, which hooks read too: nothing is stored twice."""
    thread, turn = _text(fields, "thread-id", Agent.CODEX), _text(fields, "turn-id", Agent.CODEX)
    home = Path(os.environ.get("CODEX_HOME") or "~/.codex").expanduser()
    typed = fields.get("input-messages")
    spoken = [("user", str(each)) for each in (typed if isinstance(typed, list) else ())]
    spoken.append(("assistant", str(fields.get("last-assistant-message") or "")))
    made = (turns_of(role, text[:MAX_CHARS], id=f"{turn}-{at}") for at, (role, text) in enumerate(spoken))
    path = next((home / "sessions").glob(f"*/*/*/rollout-*-{escape(thread)}.jsonl"), None)
    return HookEvent(
        "Stop", thread, _text(fields, "cwd", Agent.CODEX), path, said=[one for each in made for one in each]
    )


def _text(fields: Mapping[str, Any], name: str, agent: Agent) -> str:
    value = fields.get(name)
    if not isinstance(value, str) or not value:
        raise InvalidInput(f"The hook input of {agent} has no {name}.", code="invalid_hook")
    return value
