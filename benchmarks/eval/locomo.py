"""Conversations in the format of LoCoMo (``locomo10.json``): two speakers, dated sessions, evidence by dialogue ids.

Two fields are ours: a turn's ``role`` (one with the role ``user`` is the owner's), and a question's ``evidence_text``,
for ids of long gold turns the part that contains the answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.eval.dataset import Conversation, Dataset, Question, Session, Turn, WrongFile, checked, read_json

CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
"""The numbers in the file, by the names in the paper's tables (Maharana et al., 2024)."""
ROLES = ("user", "assistant", "tool")
_SESSION = re.compile(r"session_(\d+)")
_DIALOGUE_ID = re.compile(r"D\s*:?\s*(\d+)\s*:\s*(\d+)")
_TIMES = ("%I:%M %p on %d %B, %Y", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M")


def load(path: Path, *, captions: bool = False) -> Dataset:
    """The conversations of a file; with ``captions`` what a shared picture shows is part of its turn.

    Times are taken as UTC: the file names no zone. Raises WrongFile.
    """
    raw = read_json(path)
    if isinstance(raw, dict):
        raw = [raw]
    if not isinstance(raw, list) or not all(_is_sample(one) for one in raw):
        raise WrongFile(f"{path} is not in LoCoMo's format: a list of objects with conversation and qa.")
    samples = [_conversation(path, number, one, captions) for number, one in enumerate(raw)]
    return checked(path, [one for one in samples if one.sessions])


def _is_sample(raw: object) -> bool:
    return isinstance(raw, dict) and isinstance(raw.get("conversation"), dict) and isinstance(raw.get("qa"), list)


def _conversation(path: Path, number: int, raw: Mapping[str, Any], captions: bool) -> Conversation:
    id_ = str(raw.get("sample_id") or f"conversation-{number + 1}")
    sessions = tuple(sorted(_sessions(path, raw["conversation"], captions), key=lambda one: one.started_at))
    known = {turn.id: turn.text for session in sessions for turn in session.turns}
    questions = tuple(_question(path, f"{id_}/{position}", one, known) for position, one in enumerate(raw["qa"]))
    return Conversation(id_, sessions, questions)


def _sessions(path: Path, raw: Mapping[str, Any], captions: bool) -> Iterator[Session]:
    """The sessions that have turns and a time; the file also names times of sessions that it leaves out."""
    for key, turns in raw.items():
        found = _SESSION.fullmatch(key)
        if not found or not turns:
            continue
        written = raw.get(f"{key}_date_time")
        if not written:
            raise WrongFile(f"{path}: {key} has no {key}_date_time.")
        stored = [_turn(path, key, position, one, captions) for position, one in enumerate(turns)]
        spoken = tuple(turn for turn in stored if turn.text)
        if spoken:
            yield Session(key, moment(path, str(written)), spoken)


def _turn(path: Path, session: str, position: int, raw: object, captions: bool) -> Turn:
    if not isinstance(raw, dict) or not isinstance(raw.get("speaker"), str):
        raise WrongFile(f"{path}: turn {position + 1} of {session} has no speaker.")
    text = str(raw.get("text") or "").strip()
    caption = str(raw.get("blip_caption") or "").strip()
    if captions and caption:
        text = f"{text} [shares {caption}]".strip()
    number = _SESSION.fullmatch(session)
    assert number is not None
    fallback = f"D{number[1]}:{position + 1}"
    id_ = next(iter(evidence_ids(raw.get("dia_id"))), fallback)
    if "role" not in raw:
        return Turn(id_, raw["speaker"], text)
    if raw["role"] not in ROLES:
        raise WrongFile(f"{path}: turn {position + 1} of {session} has a role that is none of {', '.join(ROLES)}.")
    return Turn(id_, raw["speaker"], text, role=raw["role"], by_owner=raw["role"] == "user")


def moment(path: Path, written: str) -> datetime:
    """A session's time such as "1:56 pm on 8 May, 2023", in UTC. Raises WrongFile."""
    for form in _TIMES:
        try:
            return datetime.strptime(written.strip(), form).replace(tzinfo=UTC)
        except ValueError:
            continue
    raise WrongFile(f"{path}: {written!r:.40} is no time such as '1:56 pm on 8 May, 2023'.")


def evidence_ids(written: object) -> tuple[str, ...]:
    """The dialogue ids in what the file gives as evidence, each once: "D8:6; D9:17" has two, "D30:05" is "D30:5"."""
    parts = written if isinstance(written, list) else [written]
    found: dict[str, None] = {}
    for part in parts:
        for session, turn in _DIALOGUE_ID.findall(str(part or "")):
            found.setdefault(f"D{int(session)}:{int(turn)}")
    return tuple(found)


def _question(path: Path, id_: str, raw: Mapping[str, Any], known: Mapping[str, str]) -> Question:
    number = raw.get("category")
    category = CATEGORIES.get(number, str(number)) if isinstance(number, int) else str(number)
    return Question(
        id=id_,
        text=str(raw.get("question") or ""),
        category=category,
        gold=tuple(one for one in evidence_ids(raw.get("evidence")) if one in known),
        answer=str(raw.get("answer", raw.get("adversarial_answer", ""))),
        # What a question of the adversarial category wants to know was never said.
        answerable=category != CATEGORIES[5],
        excerpts=_excerpts(path, id_, raw.get("evidence_text") or {}, known),
    )


def _excerpts(path: Path, id_: str, raw: object, known: Mapping[str, str]) -> dict[str, str]:
    """Parts of gold turns by the turns' ids; each has to be in its turn, letter by letter."""
    if not isinstance(raw, dict) or not all(
        isinstance(text, str) and text in known.get(turn, "") for turn, text in raw.items()
    ):
        raise WrongFile(f"{path}: the evidence_text of {id_} names a turn or a piece of it that is not there.")
    return dict(raw)
