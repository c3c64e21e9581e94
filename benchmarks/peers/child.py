"""A memory library in a process of its own: orders come as lines of JSON on stdin, answers leave on stdout.

Needs the standard library only, because it also runs in environments that have a peer and not MemForest.
"""

from __future__ import annotations

import io
import json
import os
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

CALLERS = 8
"""Threads that hand sessions over: as many as an app server's."""


class Library(Protocol):
    """What a child does with its memory."""

    def add(self, owner: str, session_id: str, turns: Sequence[Mapping[str, Any]]) -> None:
        """Hand a session over; it is accepted when this returns."""

    def await_facts(self) -> None:
        """Until the facts of all accepted sessions can be recalled."""

    def settle(self, owners: Sequence[str]) -> None:
        """Until nothing is left to do for what these owners' sessions brought, also by an earlier process."""

    def recall(self, owner: str, question: str, k: int) -> list[str]:
        """The texts of the ``k`` best items."""


def obey(library: Library) -> None:
    """Say "ready", then carry out one order a line until stdin ends."""
    # What a library prints is no answer.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)
    lock = threading.Lock()

    def say(**answer: Any) -> None:
        with lock:
            answers.write(json.dumps(answer) + "\n")
            answers.flush()

    def hand_over(session: Mapping[str, Any]) -> None:
        say(sent=session["session_id"])
        library.add(session["owner"], session["session_id"], session["turns"])
        say(accepted=session["session_id"])

    say(done="start")
    for line in sys.stdin:
        order = json.loads(line)
        match order["do"]:
            case "add":
                with ThreadPoolExecutor(CALLERS) as pool:
                    list(pool.map(hand_over, order["sessions"]))
                say(done="add")
            case "await_facts":
                library.await_facts()
                say(done="await_facts")
            case "settle":
                library.settle(order["owners"])
                say(done="settle")
            case "recall":
                started = time.perf_counter()
                texts = library.recall(order["owner"], order["question"], order["k"])
                say(done="recall", texts=texts, seconds=time.perf_counter() - started)
