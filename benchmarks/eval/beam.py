"""Conversations in the format of BEAM (100K, 500K, 1M): a user and an assistant, questions by what they probe."""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.eval.dataset import Conversation, Dataset, Question, Session, Turn, WrongFile, checked, read_json

CHAT, PROBES = "chat.json", Path("probing_questions", "probing_questions.json")
"""The two files of a conversation's directory, as in the authors' repository."""
ABSTENTION = "abstention"
"""The ability of questions that the conversation does not answer (Tavakoli et al., 2025)."""
_ANSWERS = ("answer", "ideal_response", "ideal_answer", "ideal_summary", "expected_compliance")
_PLAN = re.compile(r"\s*->->[\s\d,]*$")
"""Ends users' messages: their place in the plan that they were generated from."""
_TIME = "%B-%d-%Y"
_ROLES = {"user", "assistant"}


def load(path: Path) -> Dataset:
    """The conversations of a directory (one conversation's own, or one that holds such), or the rows of a file as the
    public copy has them, as a JSON list or a line each.

    A session is a batch of the file, at the day of its time anchor in UTC. Raises WrongFile.
    """
    if not path.is_dir():
        return checked(path, [_conversation(path, row) for row in _rows(path)])
    own = [path] if (path / CHAT).exists() else [one.parent for one in path.glob(f"*/{CHAT}")]
    ordered = sorted(own, key=lambda one: (len(one.name), one.name))
    return checked(path, [_conversation(one / CHAT, _read(one)) for one in ordered])


def _read(directory: Path) -> dict[str, Any]:
    """A conversation's directory as a row."""
    return {
        "conversation_id": directory.name,
        "chat": read_json(directory / CHAT),
        "probing_questions": read_json(directory / PROBES),
    }


def _rows(path: Path) -> list[Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise WrongFile(f"{path} cannot be read: {error.strerror or error}.") from None
    try:
        rows = json.loads(text) if text.lstrip().startswith("[") else [json.loads(line) for line in text.splitlines()]
    except ValueError:
        raise WrongFile(f"{path} is not JSON: give a list of BEAM's rows, or one row a line.") from None
    return list(rows)


def _conversation(path: Path, row: object) -> Conversation:
    if not isinstance(row, dict) or not isinstance(row.get("chat"), list) or "probing_questions" not in row:
        raise WrongFile(f"{path} is not in BEAM's format: rows with chat and probing_questions.")
    id_ = str(row.get("conversation_id") or path.stem)
    batches = [list(_messages(batch)) for batch in row["chat"]]
    used = Counter(str(message.get("id")) for batch in batches for message in batch)
    sessions = [_session(path, number, batch, used) for number, batch in enumerate(batches, 1) if batch]
    kept = [one for one in sessions if one.turns]
    once = {turn.id for session in kept for turn in session.turns if used[turn.id] == 1}
    questions = tuple(_questions(path, id_, row["probing_questions"], once))
    return Conversation(id_, tuple(sorted(kept, key=lambda one: one.started_at)), questions)


def _messages(batch: object) -> Iterator[Mapping[str, Any]]:
    """The messages of a batch, however its exchanges are nested."""
    if isinstance(batch, dict) and "role" in batch:
        yield batch
    elif isinstance(batch, dict):
        yield from _messages(batch.get("turns"))
    elif isinstance(batch, list):
        for one in batch:
            yield from _messages(one)


def _session(path: Path, number: int, batch: list[Mapping[str, Any]], used: Mapping[str, int]) -> Session:
    anchor = next((message["time_anchor"] for message in batch if message.get("time_anchor")), None)
    try:
        started = datetime.strptime(str(anchor), _TIME).replace(tzinfo=UTC)
    except ValueError:
        raise WrongFile(f"{path}: batch {number} has no time_anchor such as 'March-15-2024'.") from None
    turns = [_turn(f"{number}.{position}", one, used) for position, one in enumerate(batch, 1)]
    return Session(f"batch-{number}", started, tuple(turn for turn in turns if turn.text))


def _turn(place: str, raw: Mapping[str, Any], used: Mapping[str, int]) -> Turn:
    """A message; one whose id another has too, or that has none, is named by its place."""
    role = str(raw["role"])
    role = role if role in _ROLES else "user"
    written = str(raw.get("id"))
    id_ = written if "id" in raw and used[written] == 1 else f"at-{place}"
    text = _PLAN.sub("", str(raw.get("content") or "")).strip()
    return Turn(id_, role, text, role=role, by_owner=role == "user")


def _questions(path: Path, id_: str, raw: object, known: Collection[str]) -> Iterator[Question]:
    probes = _parsed(raw) if isinstance(raw, str) else raw
    if not isinstance(probes, dict) or not all(map(_are_questions, probes.values())):
        raise WrongFile(f"{path}: the probing_questions of {id_} are no lists of questions by ability.")
    for ability, asked in probes.items():
        for number, one in enumerate(asked, 1):
            sources = dict.fromkeys(map(str, _ids(one.get("source_chat_ids"))))
            yield Question(
                id=f"{id_}/{ability}/{number}",
                text=str(one.get("question") or ""),
                category=str(ability).replace("_", "-"),
                gold=tuple(source for source in sources if source in known),
                answer=next((str(one[name]) for name in _ANSWERS if one.get(name)), ""),
                answerable=ability != ABSTENTION,
            )


def _are_questions(raw: object) -> bool:
    return isinstance(raw, list) and all(isinstance(one, dict) for one in raw)


def _parsed(written: str) -> object:
    """Questions that are written into one field, as JSON or as Python's literals; None for anything else."""
    for read in (json.loads, ast.literal_eval):
        try:
            parsed: object = read(written)
        except (ValueError, SyntaxError):
            continue
        return parsed
    return None


def _ids(raw: object) -> Iterator[int]:
    """The ids of messages, in lists or in lists by their part in the question."""
    if isinstance(raw, int):
        yield raw
    elif isinstance(raw, dict):
        yield from _ids(list(raw.values()))
    elif isinstance(raw, list):
        for one in raw:
            yield from _ids(one)
