"""Calls in forked children of a test's process."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from typing import Any

PATIENCE_S = 60
"""A child that hangs is ended by its alarm."""


def in_children(*calls: Callable[[], object]) -> list[Any]:
    """What each call returns in a child of its own, as JSON carries it; all run at the same time.

    An error comes as "Name: message"; None is a child that hung.
    """
    begun = []
    for call in calls:
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            _answer(call, writing)
        os.close(writing)
        begun.append((pid, reading))
    answers = []
    for pid, reading in begun:
        with os.fdopen(reading) as answer:
            text = answer.read()
        os.waitpid(pid, 0)
        answers.append(json.loads(text) if text else None)
    return answers


def _answer(call: Callable[[], object], writing: int) -> None:
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(PATIENCE_S)
    try:
        answer = call()
    except BaseException as error:  # noqa: BLE001 - the parent reads it
        answer = f"{type(error).__name__}: {error}"
    os.write(writing, json.dumps(answer).encode())
    os._exit(0)
