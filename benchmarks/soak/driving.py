"""Callers that act at random, processes that are killed at random, and what was seen meanwhile."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from benchmarks.chaos.breaking import meanwhile
from benchmarks.soak.acting import Action, Chooser, Reply
from benchmarks.soak.known import Known
from tests.harness.processes import Deployment, environment

TRIES_S = 240.0
"""A call that fails is made again for so long; then it is given up, and that is a finding."""
REPEATED_S = 0.5
CRASHED = "crashed"
KILLED = "killed"
MOST_WAITING = 300
"""Cells; with more than that to do, callers say nothing new."""


class Caller:
    """A caller's process, restarted after it was killed."""

    def __init__(self, running: Deployment, number: int) -> None:
        self._running = running
        self._log = running.logs / f"caller-{number}.log"
        self._process: subprocess.Popen[str] | None = None
        self._ready = False

    @property
    def pid(self) -> int | None:
        """Its process, while it is ready to act."""
        process = self._process
        return process.pid if process is not None and self._ready and process.poll() is None else None

    def call(self, action: str, arguments: dict[str, Any]) -> Reply:
        """What it came to: a value, or an error; "killed" and "crashed" when the process ended meanwhile."""
        process = self._started()
        if process is None:
            return {"error": KILLED, "again": True}
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps({"do": action, "with": arguments}) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if line:
            return dict(json.loads(line))
        self._ready = False
        code = process.wait()
        return {"error": KILLED if code == -signal.SIGKILL else CRASHED, "again": True}

    def start(self) -> None:
        """Start it, and wait until it is ready to act."""
        self._started()

    def close(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _started(self) -> subprocess.Popen[str] | None:
        if self.pid is None:
            with self._log.open("ab") as log:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "benchmarks.soak.caller"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    text=True,
                    env=environment(**self._running.variables),
                )
            assert self._process.stdout is not None
            self._ready = self._process.stdout.readline().strip() == "ready"
            if not self._ready:
                self._process.wait()
                return None
        return self._process


@dataclass
class Seen:
    """What happened, for the report. Callers hold the model's lock."""

    actions: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    kills: Counter[str] = field(default_factory=Counter)
    seconds: dict[str, list[float]] = field(default_factory=dict)
    findings: list[dict[str, object]] = field(default_factory=list)

    def find(self, what: str, **detail: object) -> None:
        """Something that must not be."""
        self.findings.append({"what": what, **detail})


class Driver:
    """Runs one action after the other until its stop event is set; each is written to a log before it is done."""

    def __init__(self, known: Known, chooser: Chooser, seen: Seen, log: TextIO, rate: float) -> None:
        self._known, self._chooser, self._seen = known, chooser, seen
        self._log = log
        self._pause_s = 1 / rate
        self.full = threading.Event()
        """There is enough to do: say nothing new."""
        self._number = 0

    def drive(self, caller: Caller, rng: random.Random, stop: threading.Event) -> None:
        """Act until the stop."""
        while not stop.is_set():
            started = time.monotonic()
            with self._known.lock:
                action = self._chooser.choose(rng, self.full.is_set())
                self._number += 1
                number = self._number
            if action is not None:
                self.act(caller, action, number)
            stop.wait(max(0.0, self._pause_s * rng.uniform(0.5, 1.5) - (time.monotonic() - started)))

    def end(self, caller: Caller) -> None:
        """When nothing else happens any more: tell each owner something, so that something must always be known."""
        with self._known.lock:
            actions = self._chooser.last()
        for action in actions:
            self._number += 1
            self.act(caller, action, self._number)

    def act(self, caller: Caller, action: Action, number: int) -> None:
        """Make one call until it is answered, and change the model."""
        started = time.monotonic()
        while True:
            with self._known.lock:
                arguments = action.arguments()
                self._write({"number": number, "kind": action.kind, "do": action.do, "with": arguments})
            reply = caller.call(action.do, arguments)
            with self._known.lock:
                moving = reply.get("error") == "not_found" and action.on_the_move()
                patient = time.monotonic() - started < TRIES_S
                self._seen.outcomes[f"{action.kind}: {reply.get('error', 'ok')}"] += 1
                if reply.get("error") == CRASHED:
                    self._seen.find("a caller crashed", number=number, kind=action.kind)
                if not ((reply.get("again") or moving) and patient):
                    break
            time.sleep(REPEATED_S)
        with self._known.lock:
            try:
                shown = action.done(reply["value"]) if "value" in reply else action.refused(str(reply["error"]))
            finally:
                action.end()
            self._write({"number": number, "came_to": reply})
            self._seen.actions[action.kind] += 1
            self._seen.seconds.setdefault(action.kind, []).append(time.monotonic() - started)
            for what in shown:
                self._seen.find(what, number=number, kind=action.kind, message=reply.get("message"), given=arguments)

    def _write(self, entry: dict[str, object]) -> None:
        self._log.write(json.dumps({"at": round(time.time(), 3), **entry}) + "\n")
        self._log.flush()


@dataclass
class Killer:
    """Kills a random process every so often, and restarts workers; callers start by themselves."""

    running: Deployment
    callers: list[Caller]
    seen: Seen
    rng: random.Random
    every_s: float
    workers: int

    def kill(self, stop: threading.Event) -> None:
        """Until the stop."""
        while not stop.wait(self.every_s):
            callers = [caller.pid for caller in self.callers if caller.pid is not None]
            workers = self.running.worker_pids()
            if not callers and not workers:
                continue
            pid = self.rng.choice([*callers, *workers])
            self.seen.kills["caller" if pid in callers else "worker"] += 1
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            self.renew()

    def renew(self) -> None:
        """As many workers as there are to be."""
        time.sleep(0.1)
        for _ in range(self.workers - len(self.running.worker_pids())):
            self.running.launch_worker(concurrency=2)


@contextmanager
def watched(running: Deployment, full: threading.Event) -> Iterator[None]:
    """Look every other second whether there is too much to do."""

    def check_now(stop: threading.Event) -> None:
        while not stop.wait(2.0):
            waiting = running.scalar("SELECT count(*) FROM memforest.cell WHERE NOT placed AND state <> 'dead'")
            (full.set if waiting > MOST_WAITING else full.clear)()

    with meanwhile(check_now):
        yield


@contextmanager
def together(steps: list[Callable[[threading.Event], None]]) -> Iterator[None]:
    """Run each in a thread of its own until the end of the block."""
    if not steps:
        yield
        return
    with meanwhile(steps[0]), together(steps[1:]):
        yield


def log_of(directory: Path) -> TextIO:
    """Where actions are written ahead."""
    return (directory / "actions.jsonl").open("w")
