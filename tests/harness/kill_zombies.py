"""A process is stopped at its work for longer than its lease, and continues after others did it: is any harm done?"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass

import psutil

from tests.harness.end_state import State, differences
from tests.harness.kill_beside import IDLE
from tests.harness.kill_pairs import ASKERS, POLL_S, Copy, PairArena, Started
from tests.harness.kill_points import Broken, Prepared

STAGES = ("extract", "reduce", "refresh", "index")
MEANWHILE = ("nothing", "erase-new-session", "erase-owner")
"""What is asked for while the process stands still: the session that it works on is deleted, or its owner."""
STOPPED_S = 60.0
_ASKER = ASKERS[:1]


@dataclass(frozen=True, slots=True)
class Calm:
    """A session that one process works on, and what it comes to; without disturbance."""

    before: Prepared
    events: dict[str, list[str]]
    """By stage."""
    ends: dict[str, State]
    """By what is asked for afterwards."""
    unclean: list[str]


@dataclass(frozen=True, slots=True)
class Stop:
    """Where a process is stopped, and what happens meanwhile."""

    stage: str
    at: int
    meanwhile: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """One process that was stopped and went on."""

    stop: Stop
    what: str
    """The event that it was stopped before."""
    stopped: bool
    differing: list[str]
    unclean: list[str]
    heard: dict[str, int]
    """Faults that the process met when it went on."""
    seconds: float

    @property
    def kept(self) -> bool:
        """Whether the end is the same, and verified."""
        return not self.differing and not self.unclean


class ZombieArena(PairArena):
    """Processes that are stopped, and others that do their work."""

    def calm_session(self, grown: Prepared) -> Calm:
        """A session that nobody has worked on, and what it comes to. Raises Broken."""
        with self._copy(grown) as (database, files):
            copy = self._on(database, files)
            copy.start("accept").end()
            copy.stop(signal.SIGTERM)
            before = self._packed(database, files)
        ends: dict[str, State] = {}
        events: dict[str, list[str]] = {}
        unclean: list[str] = []
        for meanwhile in MEANWHILE:
            with self.copied(before) as copy:
                worked = copy.start("beside").end()
                events = events or worked.events
                told = _worked(copy, meanwhile).end()
                end = copy.start("look").end()
            ends[meanwhile] = end.state
            unclean += [f"{meanwhile}: {line}" for line in (*end.unclean, *told.refused.values())]
        return Calm(before, events, ends, unclean)

    def stops(self, calm: Calm, stops: Sequence[Stop]) -> Iterator[Outcome]:
        """Play each of these: as many at a time as there are forking processes. Raises Broken."""
        with ThreadPoolExecutor(len(self._zygotes)) as pool:
            yield from pool.map(lambda numbered: self._stopped(calm, *numbered), enumerate(stops))

    def _stopped(self, calm: Calm, number: int, stop: Stop) -> Outcome:
        started = time.monotonic()
        with self.copied(calm.before, self._zygotes[number % len(self._zygotes)]) as copy:
            zombie = copy.start("beside", at=stop.at, stopped=True, stage=stop.stage)
            stopped = _until_stopped(zombie)
            _worked(copy, stop.meanwhile).end()
            if stopped:
                os.kill(zombie.process.pid, signal.SIGCONT)
            heard = zombie.end().heard
            end = copy.start("look", askers=_ASKER).end()
        return Outcome(
            stop,
            calm.events[stop.stage][stop.at - 1],
            stopped,
            differences(calm.ends[stop.meanwhile], end.state),
            end.unclean,
            heard,
            time.monotonic() - started,
        )


def _worked(copy: Copy, meanwhile: str) -> Started:
    """A process that finds everything at work, brings it to rest, and asks for something."""
    return copy.start("after", () if meanwhile == "nothing" else [meanwhile], _ASKER if meanwhile != "nothing" else ())


def _until_stopped(zombie: Started) -> bool:
    """Wait until it stands still; False when it came to its end."""
    deadline = time.monotonic() + STOPPED_S
    while not zombie.process.ended:
        with suppress(psutil.NoSuchProcess):
            if psutil.Process(zombie.process.pid).status() == psutil.STATUS_STOPPED:
                return True
        if time.monotonic() > deadline:
            raise Broken(f"The process did not stop at event {zombie.part.at} of {zombie.part.stage}.")
        time.sleep(POLL_S)
    return False


def drawn(calm: Calm, count: int, seed: int, stages: Sequence[str] = STAGES) -> list[Stop]:
    """Points of each stage: events of steps that had something to do, and what happens meanwhile in turn."""
    stops = []
    for stage in stages:
        rng = random.Random(f"{seed}/{stage}")
        at_work = [number for number, what in enumerate(calm.events[stage], start=1) if what != IDLE]
        chosen = sorted(rng.sample(at_work, min(count, len(at_work))))
        stops += [Stop(stage, at, MEANWHILE[turn % len(MEANWHILE)]) for turn, at in enumerate(chosen)]
    return stops
