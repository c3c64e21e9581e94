"""Questions in the format of LongMemEval (oracle and S): each comes with a history of its own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.eval.dataset import Conversation, Dataset, Question, Session, Turn, WrongFile, checked, read_json

ABSTENTION = "_abs"
"""Ends the ids of questions that the history does not answer (Wu et al., 2024)."""
_NEEDED = ("question_id", "question", "haystack_sessions", "haystack_dates", "question_date")
_WEEKDAY = re.compile(r"\s*\([^)]*\)\s*")
_ROLES = {"user", "assistant"}


def load(path: Path) -> Dataset:
    """One conversation for each question. Times are taken as UTC: the file names no zone. Raises WrongFile."""
    raw = read_json(path)
    if not isinstance(raw, list) or not all(isinstance(one, dict) for one in raw):
        raise WrongFile(f"{path} is not in LongMemEval's format: a list of questions with haystack_sessions.")
    return checked(path, [_conversation(path, one) for one in raw])


def moment(path: Path, written: str) -> datetime:
    """A time such as "2023/05/30 (Tue) 23:40", in UTC. Raises WrongFile."""
    plain = _WEEKDAY.sub(" ", written).strip()
    for form in ("%Y/%m/%d %H:%M", "%Y/%m/%d"):
        try:
            return datetime.strptime(plain, form).replace(tzinfo=UTC)
        except ValueError:
            continue
    raise WrongFile(f"{path}: {written!r:.40} is no time such as '2023/05/30 (Tue) 23:40'.")


def _conversation(path: Path, raw: Mapping[str, Any]) -> Conversation:
    missing = next((name for name in _NEEDED if name not in raw), None)
    if missing is not None:
        raise WrongFile(f"{path}: a question has no {missing}.")
    id_ = str(raw["question_id"])
    dates, histories = raw["haystack_dates"], raw["haystack_sessions"]
    names = raw.get("haystack_session_ids") or [f"session-{number + 1}" for number in range(len(histories))]
    if not len(dates) == len(histories) == len(names):
        raise WrongFile(f"{path}: question {id_} has {len(histories)} sessions and {len(dates)} dates.")
    sessions: list[Session] = []
    gold: list[str] = []
    used: set[str] = set()
    for name, date, turns in zip(names, dates, histories, strict=True):
        session_id = str(name)
        while session_id in used:
            session_id += "+"
        used.add(session_id)
        spoken = [(f"{session_id}:{number + 1}", turn) for number, turn in enumerate(turns) if _says(turn)]
        if not spoken:
            continue
        sessions.append(Session(session_id, moment(path, str(date)), tuple(_turn(id_, turn) for id_, turn in spoken)))
        gold += [turn_id for turn_id, turn in spoken if turn.get("has_answer")]
    question = Question(
        id=id_,
        text=str(raw["question"]),
        category=str(raw.get("question_type", "unknown")),
        gold=tuple(gold),
        answer=str(raw.get("answer", "")),
        asked_at=moment(path, str(raw["question_date"])),
        answerable=not id_.endswith(ABSTENTION),
    )
    return Conversation(id_, tuple(sorted(sessions, key=lambda one: one.started_at)), (question,))


def _says(raw: object) -> bool:
    return isinstance(raw, dict) and bool(str(raw.get("content") or "").strip())


def _turn(id_: str, raw: Mapping[str, Any]) -> Turn:
    role = str(raw.get("role", "user"))
    role = role if role in _ROLES else "user"
    return Turn(id_, role, str(raw["content"]).strip(), role=role, by_owner=role == "user")
