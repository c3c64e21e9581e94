"""Three invented lives with their chats, written for this project: half of the questions are open, half are locked.

The locked half is in a file of its own that nobody reads by accident. A run over it prints and writes figures only:
its questions have a hash as their id, and records of them name no gold turns.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import zlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.eval.dataset import Conversation, Dataset, Question, Session, Turn, WrongFile, checked, read_json

LIVES = Path(__file__).parent / "data" / "lives.json"
LANGUAGES = LIVES.with_name("languages.json")
"""One conversation and its questions in four languages; all are open."""
TALK, TALK_LANGUAGES = LIVES.with_name("talk.json"), LIVES.with_name("talk-languages.json")
FRESH = LIVES.with_name("talk-fresh.json")
"""All its questions are locked."""
LOCKED = LIVES.with_suffix(".locked")
"""One line that says what it is, then zlib and base64 of questions by the id of their life."""
NEVER_SAID = "never said"
"""The type of questions that the chats do not answer."""
ID_DIGITS = 12
"""Hexadecimal digits of a question's hash."""
_ASSISTANT = "assistant"
_LOCKED_LINE = (
    "Locked half of the questions: zlib and base64. Do not decode by hand;"
    " python -m benchmarks.eval --dataset ...-locked prints its figures only."
)


def load(path: Path = LIVES, locked: Path | None = None) -> Dataset:
    """The lives of a file with their open questions, or with those of the file ``locked`` instead.

    Times are taken as UTC. Raises WrongFile.
    """
    raw = read_json(path)
    if not isinstance(raw, dict) or not isinstance(raw.get("lives"), list):
        raise WrongFile(f"{path} is not in the format of the lives: an object with lives.")
    hidden = None if locked is None else unlocked(locked)
    try:
        return checked(
            path, [_life(one, one["questions"] if hidden is None else hidden[one["id"]]) for one in raw["lives"]]
        )
    except (KeyError, TypeError, ValueError) as error:
        # No word of the file: it may be a locked question.
        raise WrongFile(f"{locked or path} is not in the format of the lives ({type(error).__name__}).") from None


def unlocked(path: Path) -> Mapping[str, Any]:
    """What a locked file holds, such as questions by the id of their life. Raises WrongFile."""
    try:
        _, _, body = path.read_text(encoding="ascii").partition("\n")
        found: Any = json.loads(zlib.decompress(base64.b64decode(body)))
    except OSError as error:
        raise WrongFile(f"{path} cannot be read: {error.strerror or error}.") from None
    except (ValueError, binascii.Error, zlib.error):
        raise WrongFile(f"{path} holds no locked questions.") from None
    return dict(found)


def _life(raw: Mapping[str, Any], questions: Sequence[Mapping[str, Any]]) -> Conversation:
    sessions = tuple(_session(number, one, raw.get("owner")) for number, one in enumerate(raw["sessions"], 1))
    return Conversation(raw["id"], sessions, tuple(_question(raw["id"], one) for one in questions))


def _session(number: int, raw: Mapping[str, Any], owner: str | None) -> Session:
    turns = tuple(_turn(one, owner) for one in raw["turns"])
    return Session(f"session_{number}", datetime.fromisoformat(raw["at"]).replace(tzinfo=UTC), turns)


def _turn(raw: Mapping[str, str], owner: str | None) -> Turn:
    """``owner`` is who talks with the assistant; among friends nobody owns the memory."""
    role = _ASSISTANT if raw["speaker"] == _ASSISTANT else "user"
    return Turn(raw["id"], raw["speaker"], raw["text"], role=role, by_owner=raw["speaker"] == owner)


def _question(life: str, raw: Mapping[str, Any]) -> Question:
    digest = hashlib.sha256(f"{life}/{raw['question']}".encode()).hexdigest()
    return Question(
        id=raw.get("id", digest[:ID_DIGITS]),
        text=raw["question"],
        category=raw["type"],
        gold=tuple(raw["gold"]),
        answer=raw["answer"],
        answerable=raw["type"] != NEVER_SAID,
        best=tuple(raw.get("best", ())),
        outdated=tuple(raw.get("outdated", ())),
        paraphrase_of=raw.get("paraphrase_of", ""),
    )


def pack(opened: Sequence[Path], locked: Sequence[Path], to: Path) -> None:
    """Write lives with open questions, a file each, to the file ``to``, and the locked questions of the same lives next
    to it."""
    lives = [read_json(path) for path in opened]
    hidden = {raw["id"]: raw["questions"] for raw in map(read_json, locked)}
    to.write_text(json.dumps({"lives": lives}, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    body = base64.encodebytes(zlib.compress(json.dumps(hidden, ensure_ascii=False).encode(), 9)).decode()
    to.with_suffix(".locked").write_text(f"{_LOCKED_LINE}\n{body}", encoding="ascii")
