"""A caller: reads actions as JSON lines from stdin, does them, and answers each with a line; it may be killed.

``python -m benchmarks.soak.caller``; its settings come from the environment.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from benchmarks.soak.known import WORD
from memforest_core.cli.toolkit.logs import configure_logs
from memforest_core.client.api import MemForest
from memforest_core.client.handles import Operation
from memforest_core.domain.chat_messages import TurnInput
from memforest_core.errors import MemForestError, QuotaExceeded, RetryableError
from memforest_core.work.waiting import WaitTimeout

ACTOR = "soak"
WAIT_S = 60.0


def _ended(memory: MemForest, operation: Operation) -> dict[str, object]:
    """Wait for an operation; of a deletion, what its receipt says."""
    operation.wait(WAIT_S)
    if memory.lifecycle.operation(operation.id).kind != "erase":
        return {"operation": str(operation.id)}
    receipt = memory.lifecycle.receipt(operation.id)
    return {"operation": str(operation.id), "clean": receipt.clean, "left": dict(receipt.left)}


def _ingest(memory: MemForest, owner: str, session: str, turns: list[TurnInput]) -> object:
    memory.ingest(owner, session, turns)
    return {}


def _append(memory: MemForest, owner: str, session: str, turn: TurnInput) -> object:
    memory.append(owner, session, turn)
    return {}


def _remember(memory: MemForest, owner: str, session: str, text: str, at: int) -> object:
    memory.remember(owner, text, session_id=session, at=at)
    return {}


def _show(memory: MemForest, owner: str, what: str, session: str, at: int) -> object:
    """The planted words of what is made of the memory."""
    day = datetime.fromtimestamp(at, UTC).date()
    shown: dict[str, Callable[[], object]] = {
        "window": lambda: memory.window(owner, session),
        "day": lambda: memory.day(owner, day),
        "week": lambda: memory.week(owner),
        "month": lambda: memory.period(owner, f"{day:%Y-%m}"),
        "profile": lambda: memory.profile(owner),
        "context": lambda: memory.context(owner, session),
    }
    return {"words": sorted(set(WORD.findall(str(shown[what]()))))}


def _recall(memory: MemForest, owner: str, question: str) -> object:
    result = memory.recall(owner, question, k=10)
    words = {word for piece in result.evidence for word in WORD.findall(piece.text)}
    return {"words": sorted(words), "degraded": len(result.degraded)}


def _forget(memory: MemForest, owner: str, **target: Any) -> object:
    return _ended(memory, memory.lifecycle.forget(owner, actor=ACTOR, **target))


def _correct(memory: MemForest, owner: str, session: str, word: str, text: str) -> object:
    """Correct the fact that has this word; nothing when it was not found yet."""
    for piece in memory.recall(owner, f"What is {word}?", k=5, sessions=[session]).evidence:
        if word in piece.text and len(piece.fact_ids) == 1:
            return _ended(memory, memory.lifecycle.correct(owner, piece.fact_ids[0], text=text, actor=ACTOR))
    return {"found": False}


def _merge(memory: MemForest, sources: list[str], into: str) -> object:
    return _ended(memory, memory.lifecycle.merge(sources, into, actor=ACTOR))


def _export(memory: MemForest, owner: str, path: str) -> object:
    return dict(memory.lifecycle.export(owner, path, actor=ACTOR, overwrite=True))


def _import(memory: MemForest, path: str, owner: str) -> object:
    return dict(memory.lifecycle.import_(path, owner, actor=ACTOR))


ACTIONS: dict[str, Callable[..., object]] = {
    "ingest": _ingest,
    "append": _append,
    "recall": _recall,
    "remember": _remember,
    "show": _show,
    "forget": _forget,
    "correct": _correct,
    "merge": _merge,
    "export": _export,
    "import": _import,
}


def answered(memory: MemForest, what: str, arguments: dict[str, Any]) -> dict[str, object]:
    """The outcome of an action, as JSON represents it."""
    try:
        return {"value": ACTIONS[what](memory, **arguments)}
    except MemForestError as error:
        repeated = isinstance(error, (QuotaExceeded, RetryableError, WaitTimeout))
        return {"error": error.code, "message": error.message, "again": repeated}


def main() -> None:
    """Run as a process of its own."""
    configure_logs(logging.ERROR)
    with MemForest.connect() as memory:
        print("ready", flush=True)
        for line in sys.stdin:
            order = json.loads(line)
            print(json.dumps(answered(memory, order["do"], order["with"])), flush=True)


if __name__ == "__main__":
    main()
