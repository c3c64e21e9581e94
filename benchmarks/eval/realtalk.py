"""Conversations in the format of REALTALK: a file for each chat of two people, evidence by the ids of messages."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.eval.dataset import Conversation, Dataset, Question, Session, Turn, WrongFile, checked, read_json
from benchmarks.eval.locomo import evidence_ids

CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "commonsense"}
"""The numbers in the files, by the names in the paper (Lee et al., 2025)."""
_SESSION = re.compile(r"session_(\d+)")
_RANGE = re.compile(r"D(\d+):(\d+)\s*-\s*(?:D\1:)?(\d+)")
_TIME = "%d.%m.%Y, %H:%M:%S"


def load(path: Path) -> Dataset:
    """The chat of a file, or those of all JSON files of a directory.

    Times are taken as UTC: the files name no zone. Raises WrongFile.
    """
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    chats = [_conversation(file) for file in files]
    return checked(path, [one for one in chats if one.sessions])


def _conversation(path: Path) -> Conversation:
    raw = read_json(path)
    if not isinstance(raw, dict) or not isinstance(raw.get("qa"), list) or not any(map(_SESSION.fullmatch, raw)):
        raise WrongFile(f"{path} is not in REALTALK's format: an object with session_1, session_2 and qa.")
    sessions = tuple(sorted(_sessions(path, raw), key=lambda one: one.started_at))
    known = {turn.id for session in sessions for turn in session.turns}
    questions = tuple(_question(f"{path.stem}/{number}", one, known) for number, one in enumerate(raw["qa"]))
    return Conversation(path.stem, sessions, questions)


def _sessions(path: Path, raw: Mapping[str, Any]) -> Iterator[Session]:
    for key, messages in raw.items():
        if not _SESSION.fullmatch(key) or not messages:
            continue
        turns = tuple(turn for turn in (_turn(path, key, one) for one in messages) if turn.text)
        if turns:
            written = raw.get(f"{key}_date_time")
            first = moment(path, written) if written else turns[0].at
            assert first is not None
            yield Session(key, first, turns)


def _turn(path: Path, session: str, raw: object) -> Turn:
    if not isinstance(raw, dict) or not isinstance(raw.get("speaker"), str) or not evidence_ids(raw.get("dia_id")):
        raise WrongFile(f"{path}: a message of {session} has no speaker or no dia_id.")
    text = str(raw.get("clean_text") or "").strip()
    return Turn(evidence_ids(raw["dia_id"])[0], raw["speaker"], text, moment(path, raw.get("date_time")))


def moment(path: Path, written: object) -> datetime:
    """A message's time such as "29.12.2023, 00:51:12", in UTC. Raises WrongFile."""
    try:
        return datetime.strptime(str(written).strip(), _TIME).replace(tzinfo=UTC)
    except ValueError:
        raise WrongFile(f"{path}: {written!r:.40} is no time such as '29.12.2023, 00:51:12'.") from None


def _question(id_: str, raw: Mapping[str, Any], known: Collection[str]) -> Question:
    number = raw.get("category")
    return Question(
        id=id_,
        text=str(raw.get("question") or ""),
        category=CATEGORIES.get(number, str(number)) if isinstance(number, int) else str(number),
        gold=tuple(one for one in _evidence(raw.get("evidence")) if one in known),
        answer=str(raw.get("answer") or ""),
    )


def _evidence(written: object) -> tuple[str, ...]:
    """The ids of the evidence; "D1:3-5" and "D1:3-D1:5" name three messages."""
    parts = written if isinstance(written, list) else [written]
    return evidence_ids([_RANGE.sub(_listed, str(part or "")) for part in parts])


def _listed(found: re.Match[str]) -> str:
    session, first, last = map(int, found.groups())
    return " ".join(f"D{session}:{number}" for number in range(first, max(first, last) + 1))
