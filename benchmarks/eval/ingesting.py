"""Conversations into a memory through the real pipeline: Postgres, broker, workers and index in one directory."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.eval.dataset import Conversation, Dataset, Session, Turn, fingerprint
from benchmarks.harness import say
from memforest_core.client.api import MemForest
from memforest_core.domain.chat_messages import TurnInput
from memforest_core.settings import Settings

INGESTED = "ingested.json"
FLUSH_TIMEOUT_S = 6 * 3_600.0
"""For one conversation; a slow chat model takes long over hundreds of sessions."""
ROOM_TIMEOUT_S = 3_600.0
_SHAPING = ("embedding", "accept", "extract", "reduce", "tree", "refresh")
"""Groups of settings that decide what is stored, in addition to the models that extract and summarize."""


@dataclass(frozen=True, slots=True)
class Memory:
    """A memory that holds the data set, each conversation under its id as the owner."""

    memory: MemForest
    turns: int
    ingest_s: float
    """From the first session accepted to the last one indexed; the first run's time when its node is used again."""
    stored: bool
    """Whether an earlier run ingested it."""


def storage_key(data: Dataset, settings: Settings) -> str:
    """A directory's name for what these sessions become under these settings, whatever the questions: 16 characters.

    It does not know the code: after a change to extraction or the trees another home is needed.
    """
    content = fingerprint(tuple(replace(one, questions=()) for one in data))
    llm = settings.llm
    models = [step.model or llm.model for step in (llm.extract, llm.summarize)]
    shaping = {name: getattr(settings, name).model_dump(mode="json") for name in _SHAPING} | {"models": models}
    return hashlib.sha256(json.dumps([content, shaping], sort_keys=True).encode()).hexdigest()[:16]


@contextmanager
def remembered(data: Dataset, settings: Settings, home: Path | None) -> Iterator[Memory]:
    """A running node with all sessions of the data set, placed, summarized and indexed.

    With ``home`` the node is stored there, and found there the next time; an ingestion that was interrupted goes on.
    Raises what the node raises, such as DataDirectoryInUse.
    """
    with ExitStack() as stack:
        if home is None:
            place = Path(tempfile.mkdtemp(prefix="memforest-eval-"))
            stack.callback(shutil.rmtree, place, ignore_errors=True)
        else:
            place = home / storage_key(data, settings)
            place.mkdir(parents=True, exist_ok=True)
        memory = stack.enter_context(MemForest.embedded(place / "node", settings))
        turns = sum(len(session.turns) for one in data for session in one.sessions)
        before = _before(place)
        if before is None:
            say(f"ingesting {len(data)} conversations, {turns} turns")
            spent = _ingest(memory, data)
            (place / INGESTED).write_text(json.dumps({"ingest_s": spent, "turns": turns}) + "\n", encoding="utf-8")
            say(f"ingested in {spent:.1f} s")
        yield Memory(memory, turns, spent if before is None else before, before is not None)


def _before(place: Path) -> float | None:
    """Seconds that an earlier run took to ingest; None when none has finished."""
    path = place / INGESTED
    if not path.exists():
        return None
    return float(json.loads(path.read_text(encoding="utf-8"))["ingest_s"])


def _ingest(memory: MemForest, data: Dataset) -> float:
    """Accept everything, then wait for it; seconds. A session that is there already is accepted again as it is."""
    started = time.perf_counter()
    for done, one in enumerate(data, 1):
        for session in one.sessions:
            memory.client.enqueue(
                one.id,
                session.id,
                payload(one, session),
                started_at=session.started_at.isoformat(),
                room_timeout_s=ROOM_TIMEOUT_S,
            )
        say(f"accepted {done} of {len(data)} conversations")
    for done, one in enumerate(data, 1):
        memory.flush(one.id, FLUSH_TIMEOUT_S)
        say(f"remembered {done} of {len(data)} conversations, {time.perf_counter() - started:.0f} s")
    return round(time.perf_counter() - started, 2)


def payload(conversation: Conversation, session: Session) -> list[TurnInput]:
    """The turns of a session as a caller sends them; a turn without a time of its own has its session's."""
    return [_sent(conversation.id, turn) for turn in session.turns]


def _sent(owner: str, turn: Turn) -> TurnInput:
    sent: TurnInput = {"id": turn.id, "role": turn.role, "name": turn.speaker, "content": turn.text}
    if turn.by_owner:
        sent["speaker_id"] = owner
    if turn.at is not None:
        sent["timestamp"] = turn.at.isoformat()
    return sent
