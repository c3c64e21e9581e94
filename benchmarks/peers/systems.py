"""What the measurement can do with a system, and the systems that are libraries in a child process."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

from benchmarks.peers.sessions import Session

ROOT = Path(__file__).parents[2]
ENVIRONMENTS = ROOT / ".venv-peers"
"""Where make installs the peers, each in an environment of its own: their dependencies conflict."""
ANSWER_TIMEOUT_S = 1_800.0


class PeerUnavailable(Exception):
    """A system that can't run here; the message says why, in one sentence."""


class System(Protocol):
    """A memory that is started in a directory, ingests sessions, answers questions, and is killed."""

    sent: set[str]
    """Ids of sessions whose handing over began."""
    accepted: set[str]
    """Ids of sessions that it took on: what its caller would not send again."""

    def start(self) -> None:
        """Start or start again on what is there; returns when it takes orders. Raises PeerAway."""

    def add(self, sessions: Sequence[Session]) -> None:
        """Begin to hand over sessions, from several threads; returns at once."""

    def await_facts(self) -> None:
        """Until all sessions are handed over and their facts can be recalled."""

    def settle(self, owners: Sequence[str]) -> None:
        """Until it has nothing left to do."""

    def recall(self, owner: str, question: str, k: int) -> tuple[list[str], float]:
        """The texts of the ``k`` best items, and how long it took in seconds."""

    def kill(self) -> None:
        """kill -9 of the process that holds the memory; its database goes on running."""

    def stop(self) -> None:
        """In peace."""


def environment_of(peer: str) -> Path:
    """The programs of a peer's environment. Raises PeerAway."""
    environment = ENVIRONMENTS / peer
    if not (environment / ".installed").exists():
        place = f"{ENVIRONMENTS.name}/{peer}"
        raise PeerUnavailable(
            f"{peer} is not installed in {place}: make {place}/.installed does that, or says why not."
        )
    return environment / "bin"


class ChildSystem:
    """A library behind ``child.obey``."""

    def __init__(self, python: str, module: str, arguments: Sequence[str], log: Path, **variables: str) -> None:
        self.sent: set[str] = set()
        self.accepted: set[str] = set()
        self._command = [python, "-m", module, *arguments]
        self._log = log
        self._variables = variables
        self._process: subprocess.Popen[str] | None = None
        self._answers: queue.Queue[dict[str, Any] | None] = queue.Queue()

    def start(self) -> None:
        """See System."""
        with self._log.open("a") as log:
            self._process = subprocess.Popen(
                self._command,
                cwd=ROOT,
                env=os.environ | self._variables,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self._answers = queue.Queue()
        threading.Thread(target=self._read, args=(self._process, self._answers), daemon=True).start()
        self._await("start")

    def add(self, sessions: Sequence[Session]) -> None:
        """See System."""
        self._order(do="add", sessions=[asdict(each) for each in sessions])

    def await_facts(self) -> None:
        """See System."""
        self._await("add")
        self._order(do="await_facts")
        self._await("await_facts")

    def settle(self, owners: Sequence[str]) -> None:
        """See System."""
        self._order(do="settle", owners=list(owners))
        self._await("settle")

    def recall(self, owner: str, question: str, k: int) -> tuple[list[str], float]:
        """See System."""
        self._order(do="recall", owner=owner, question=question, k=k)
        answer = self._await("recall")
        return list(answer["texts"]), float(answer["seconds"])

    def kill(self) -> None:
        """See System."""
        process = self._running()
        process.kill()
        process.wait()
        while self._answers.get(timeout=ANSWER_TIMEOUT_S) is not None:
            pass  # what it said before

    def stop(self) -> None:
        """See System."""
        process = self._running()
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _running(self) -> subprocess.Popen[str]:
        assert self._process is not None, "not started"
        return self._process

    def _order(self, **order: Any) -> None:
        stdin = self._running().stdin
        assert stdin is not None
        stdin.write(json.dumps(order) + "\n")
        stdin.flush()

    def _read(self, process: subprocess.Popen[str], answers: queue.Queue[dict[str, Any] | None]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            answer = json.loads(line)
            if "sent" in answer:
                self.sent.add(answer["sent"])
            elif "accepted" in answer:
                self.accepted.add(answer["accepted"])
            else:
                answers.put(answer)
        answers.put(None)

    def _await(self, done: str) -> dict[str, Any]:
        answer = self._answers.get(timeout=ANSWER_TIMEOUT_S)
        if answer is None:
            raise PeerUnavailable(f"{self._command[2]} ended during {done!r}: {last_line(self._log)}")
        assert answer["done"] == done, answer
        return answer


def last_line(log: Path) -> str:
    """What a process said last."""
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it said nothing"


def memforest(directory: Path, model_url: str) -> ChildSystem:
    """MemForest's embedded node."""
    arguments = [str(directory / "data"), model_url]
    return ChildSystem(sys.executable, "benchmarks.peers.memforest_child", arguments, directory / "log")


def mem0(directory: Path, model_url: str, postgres_url: str, infer: bool) -> ChildSystem:
    """mem0 with Postgres. Raises PeerAway."""
    python = str(environment_of("mem0") / "python")
    arguments = [str(directory), model_url, postgres_url, "on" if infer else "off"]
    return ChildSystem(
        python,
        "benchmarks.peers.mem0_child",
        arguments,
        directory / "log",
        MEM0_TELEMETRY="false",
        MEM0_DIR=str(directory / "mem0"),
    )


def until(reached: Callable[[], bool], seconds: float, pause_s: float = 0.1) -> bool:
    """Wait for a condition; False when it did not come."""
    deadline = time.monotonic() + seconds
    while not reached():
        if time.monotonic() > deadline:
            return False
        time.sleep(pause_s)
    return True
