"""The sessions that all systems ingest: a made-up life; a later question is about one detail of each session."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.chaos.conversations import conversations
from benchmarks.lives import period

REPLIES = ("I see.", "How lovely.", "That sounds like a busy week.", "Good to know.", "Thank you for telling me.")


@dataclass(frozen=True, slots=True)
class Session:
    """A session to hand over, and a question about it for afterwards."""

    owner: str
    session_id: str
    turns: tuple[Mapping[str, Any], ...]
    """``role``, ``content`` and ``timestamp`` (unix seconds)."""
    question: str
    detail: str
    """What an answer must contain; no other session has it."""


def made(count: int, turns: int, seed: int) -> list[Session]:
    """``count`` sessions, ten of each owner, of ``turns`` turns each (6 to 40): a person talks, an assistant agrees."""
    described = []
    for number, one in enumerate(conversations(count, seed)):
        rng = random.Random(f"{seed}/{number}/replies")
        life = next(period(number, 1, seed)).turns
        said = [str(turn["content"]) for turn in life[: turns // 2 - 2]]
        said.insert(rng.randrange(len(said) + 1), str(one.turns[0]["content"]))
        said.insert(rng.randrange(len(said) + 1), str(one.turns[2]["content"]))
        start = int(str(one.turns[0]["timestamp"]))
        talk = [text for each in said for text in (each, rng.choice(REPLIES))]
        described.append(
            Session(
                owner=one.owner,
                session_id=one.session_id,
                turns=tuple(
                    {"role": "user" if at % 2 == 0 else "assistant", "content": text, "timestamp": start + at * 60}
                    for at, text in enumerate(talk)
                ),
                question=one.question,
                detail=one.detail,
            )
        )
    return described


def read(path: Path) -> list[Session]:
    """Sessions from a file of JSON lines with the fields of ``Session``. Raises OSError, ValueError, TypeError."""
    lines = path.read_text(encoding="utf-8").splitlines()
    documents = [json.loads(line) for line in lines if line.strip()]
    return [Session(**(each | {"turns": tuple(each["turns"])})) for each in documents]
