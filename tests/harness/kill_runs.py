"""Runs with a killed or stopped process: of one operation, of a pair, and of a stage of the pipeline."""

from __future__ import annotations

import errno
import os
import random
import shutil
import signal
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import combinations_with_replacement, product
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil

from memforest_core.domain.operation_rules import Answer, Role, answer
from tests.harness.end_state import State, differences
from tests.harness.forking import CHILD, Forked, Zygote
from tests.harness.grown_forests import grow
from tests.harness.hashed_words import HashedWords
from tests.harness.kill_operations import BEGUN, OPERATIONS, OVER, WRITERS, extended_by, wrong_turns
from tests.harness.kill_process import COMMITTED, IDLE, INDEX_TIMEOUT_S, PART, REPORTED, Part, Reported
from tests.harness.servers import SessionServers
from tests.harness.stack import admin, database_settings, stack

_BLOCK = 64 * 1024
KINDS = ("erase-session", "erase-owner", "correct", "merge-live", "export", "import", "rematerialize", "retain")
"""Of each kind of operation one, of deletions two."""
Run = tuple[str, ...]
"""An operation alone, two at once, or one and a writer."""
PAIRS: tuple[Run, ...] = tuple(combinations_with_replacement(KINDS, 2))
WRITTEN: tuple[Run, ...] = tuple(product(KINDS, WRITERS))
"""Each kind of operation, and a writer during it."""
ASKERS = ("first", "second")
STAGES = ("extract", "reduce", "refresh", "index")
MEANWHILE = ("nothing", "erase-new-session", "erase-owner")
"""What is requested while a process is stopped: the session that it works on is deleted, or its owner."""
STARTED_S = 30.0
STOPPED_S = 60.0
POLL_S = 0.01

_ROLES = {
    "erase-session": Role.ERASE,
    "erase-owner": Role.ERASE,
    "correct": Role.CORRECT,
    "merge-live": Role.MERGE_INTO,
    "merge-new": Role.MERGE_FROM,
    "export": Role.EXPORT,
    "import": Role.IMPORT,
    "rematerialize": Role.REMATERIALIZE,
    "retain": Role.RETAIN,
}
"""What each does to the forest that both are about. An import fills another one."""


class Broken(Exception):
    """A process that should have come to an end did not; its traceback is on stderr."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A database and files that copies are made of."""

    database: str
    files: Path


@dataclass(frozen=True, slots=True)
class Ends:
    """What a run that nobody disturbs may come to."""

    run: Run
    before: Prepared
    states: dict[tuple[str, ...], State]
    """By the order of requesting."""
    events: dict[str, list[str]]
    """Of each operation, by who requested it; or by stage."""
    unclean: list[str]
    """What is wrong although nobody was disturbed, nor had company."""


@dataclass(frozen=True, slots=True)
class Point:
    """Where a run is disturbed: a process is killed, or (with a stage) stopped until others have done its work."""

    number: int
    victim: str = ASKERS[0]
    """Who requested what it works on."""
    at: int | None = None
    """The event of the victim; None for never."""
    first: str = ASKERS[0]
    """Whose process is started first; who requests first, the race decides."""
    stage: str = ""
    meanwhile: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One point, and how what came of it differs from what may."""

    run: Run
    point: Point
    hit: bool
    """Whether it was killed or stopped there: a run that takes another way may have fewer events."""
    differing: list[str]
    unclean: list[str]
    order: tuple[str, ...] = ()
    """Who requested, in order; who was refused is not there."""
    heard: dict[str, int] = field(default_factory=dict)
    """Faults that passed."""
    seconds: float = 0.0

    @property
    def sound(self) -> bool:
        """Whether the end is the same, and verified."""
        return not self.differing and not self.unclean


def copy_sparse(source: Path, target: Path) -> None:
    """Copy a directory; what is empty in its files, most of an index's hundreds of megabytes, becomes holes."""
    for folder, _, files in os.walk(source):
        into = target / Path(folder).relative_to(source)
        into.mkdir(parents=True)
        for name in files:
            with (Path(folder) / name).open("rb") as old, (into / name).open("wb") as new:
                _copy_data(old.fileno(), new.fileno())


def _copy_data(old: int, new: int) -> None:
    size, at = os.fstat(old).st_size, 0
    os.truncate(new, size)
    while at < size:
        try:
            at = os.lseek(old, at, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return
            raise
        block = os.pread(old, _BLOCK, at)
        if block.count(0) < len(block):
            os.pwrite(new, block, at)
        at += len(block)


class Copy:
    """A copy of a prepared database with an index server, and the processes at work on it."""

    def __init__(self, zygote: Zygote, broker: str, url: str, files: Path) -> None:
        self.files = files
        self._zygote = zygote
        self._broker = broker
        self._url = url
        self._index = ""
        self._server: Forked | None = None

    def serve(self) -> str:
        """Start the index server; its address."""
        answer = self.files / "index.url"
        self._server = self._fork(Part("index", self._url, self._broker, str(self.files), answer=str(answer)))
        _until_written(answer, self._server, "The index server")
        self._index = answer.read_text()
        answer.unlink()
        return self._index

    def stop(self, how: signal.Signals) -> None:
        """End the index server."""
        assert self._server is not None
        os.kill(self._server.pid, how)
        self._server.wait()

    def start(
        self, role: str, operations: Sequence[str] = (), askers: Sequence[str] | None = None, **more: Any
    ) -> Started:
        """A process that plays a role."""
        answer = self.files / f"{role}-{uuid4().hex}.json"
        names = list(ASKERS[: len(operations)] if askers is None else askers)
        own = (self._url, self._broker, str(self.files), self._index, list(operations), names, str(answer))
        part = Part(role, *own, **more)
        return Started(part, self._fork(part), answer)

    def _fork(self, part: Part) -> Forked:
        return self._zygote.start(CHILD, PART.dump_json(part).decode())


def _until_written(path: Path, process: Forked, what: str) -> None:
    """Wait for the file by which a process reports that it has started. Raises Broken."""
    deadline = time.monotonic() + STARTED_S
    while not path.exists():
        if process.ended or time.monotonic() > deadline:
            raise Broken(f"{what} did not start.")
        time.sleep(POLL_S)


@dataclass(frozen=True, slots=True)
class Started:
    """A process under way."""

    part: Part
    process: Forked
    answer: Path

    def reported(self) -> Reported | None:
        """Its report at its end; None if it was killed where it should be. Raises Broken."""
        code = self.process.wait()
        if code == -signal.SIGKILL and self.part.at is not None:
            return None
        if code != 0:
            raise Broken(f"{self.part.role} of {self.part.operations}, at {self.part.at}: exit code {code}")
        return REPORTED.validate_json(self.answer.read_bytes())

    def begun(self) -> None:
        """Wait until a writer has sent its first turn. Raises Broken."""
        _until_written(self.answer.with_suffix(BEGUN), self.process, f"Writing, {self.part.operations},")

    def end(self) -> Reported:
        """The report of a process that nobody kills. Raises Broken."""
        reported = self.reported()
        assert reported is not None
        return reported


class Arena:
    """Servers, forking processes that take turns, and a place for copies."""

    def __init__(self, servers: SessionServers, directory: Path, zygotes: Sequence[Zygote]) -> None:
        self._servers = servers
        self._directory = directory
        self._zygotes = zygotes
        self._made: list[str] = []

    def grown(self) -> Prepared:
        """The three forests, at rest, with an index that is served."""
        files = self._directory / "grown"
        files.mkdir()
        copy = Copy(self._zygotes[0], self._servers.broker_url, "", files)
        index = {"kind": "qdrant", "url": copy.serve(), "timeout_s": INDEX_TIMEOUT_S}
        with stack(self._servers, files, embedder=HashedWords(), index=index) as running:
            grow(running)
            running.services.close()
            running.disconnect()
            copy.stop(signal.SIGTERM)
            return self._packed(running.database, files)

    def ends(self, run: Run, grown: Prepared) -> Ends:
        """Run operations one after the other, in both orders, or one without its writer. Raises Broken."""
        before = self._prepared(grown, "prepare", [name for name in run if name not in WRITERS])
        states: dict[tuple[str, ...], State] = {}
        events: dict[str, list[str]] = {}
        unclean: list[str] = []
        for order in _orders(run):
            names = [run[ASKERS.index(asker)] for asker in order]
            with self.copied(before) as copy:
                reported = copy.start("serial", names, order).end()
            states[order] = reported.state
            events.setdefault(order[0], reported.events[order[0]])
            unclean += [f"{' then '.join(names)}: {line}" for line in reported.unclean]
        return Ends(run, before, states, events, unclean)

    def ends_of_session(self, grown: Prepared) -> Ends:
        """A session that one process works on, and what it comes to, by what is requested then. Raises Broken."""
        before = self._prepared(grown, "accept", ())
        states: dict[tuple[str, ...], State] = {}
        events: dict[str, list[str]] = {}
        unclean: list[str] = []
        for meanwhile in MEANWHILE:
            with self.copied(before) as copy:
                worked = copy.start("concurrent").end()
                events = events or worked.events
                reported = _worked(copy, meanwhile).end()
                end = copy.start("end").end()
            states[(meanwhile,)] = end.state
            unclean += [f"{meanwhile}: {line}" for line in (*end.unclean, *reported.refused.values())]
        return Ends((), before, states, events, unclean)

    def outcomes(self, ends: Ends, points: Sequence[Point]) -> Iterator[Outcome]:
        """Play each of these points: as many at a time as there are forking processes. Raises Broken."""
        play = self._pair
        if not ends.run:
            play = self._stopped
        elif len(ends.run) == 1:
            play = self._alone
        elif ends.run in WRITTEN:
            play = self._written

        def timed(point: Point) -> Outcome:
            started = time.monotonic()
            with self.copied(ends.before, self._zygotes[point.number % len(self._zygotes)]) as copy:
                played = play(ends, point, copy)
            return replace(Outcome(ends.run, point, *played), seconds=time.monotonic() - started)

        with ThreadPoolExecutor(len(self._zygotes)) as pool:
            yield from pool.map(timed, points)

    def close(self) -> None:
        """Drop what copies were made of."""
        for name in self._made:
            admin(self._servers, f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def _alone(self, ends: Ends, point: Point, copy: Copy) -> tuple[Any, ...]:
        """One operation; another process takes over from one that was killed."""
        reported = copy.start("serial", ends.run, at=point.at).reported()
        hit = reported is None
        end = reported or copy.start("serial", ends.run).end()
        return hit, differences(ends.states[ASKERS[:1]], end.state), end.unclean, tuple(end.requested), end.heard

    def _written(self, ends: Ends, point: Point, copy: Copy) -> tuple[Any, ...]:
        """One operation while a writer adds to a session of its forest."""
        name, writing = ends.run
        seed = f"{'+'.join(ends.run)}/{point.number}/{point.at}"
        session = extended_by(name, point.number)
        hit, heard, end = False, Counter[str](), Reported()
        try:
            writer = copy.start("write", [writing], ASKERS[:1], session=session, seed=seed)
            writer.begun()
            reported = copy.start("concurrent", [name], at=point.at).reported()
            if hit := reported is None:
                reported = copy.start("concurrent", [name]).end()
            writer.answer.with_suffix(OVER).touch()
            extended = writer.end()
            copy.start("concurrent").end()
            end = copy.start("end", [name]).end()
            for each in (reported, extended):
                heard.update(each.heard)
            wrong = wrong_turns(name, end.state, extended.accepted) + unended(end, reported.refused)
        except Broken as error:
            wrong = [str(error)]
        return hit, wrong, end.unclean, tuple(end.requested), dict(heard)

    def _pair(self, ends: Ends, point: Point, copy: Copy) -> tuple[Any, ...]:
        """Two operations at once."""
        order = ASKERS if point.first == ASKERS[0] else ASKERS[::-1]
        named = dict(zip(ASKERS, ends.run, strict=True))
        both = {
            asker: copy.start("concurrent", [named[asker]], [asker], at=point.at if asker == point.victim else None)
            for asker in order
        }
        hit = both[point.victim].reported() is None
        heard: dict[str, int] = {}
        if hit:
            heard |= copy.start("concurrent", [named[point.victim]], [point.victim]).end().heard
        other = next(asker for asker in order if asker != point.victim)
        heard |= both[other].end().heard
        end = copy.start("end", ends.run).end()
        return hit, against(ends, end), end.unclean, tuple(end.requested), heard

    def _stopped(self, ends: Ends, point: Point, copy: Copy) -> tuple[Any, ...]:
        """A process that is stopped, while others do its work, and goes on."""
        zombie = copy.start("concurrent", at=point.at, stopped=True, stage=point.stage)
        hit = _until_stopped(zombie)
        _worked(copy, point.meanwhile).end()
        if hit:
            os.kill(zombie.process.pid, signal.SIGCONT)
        heard = zombie.end().heard
        end = copy.start("end", askers=ASKERS[:1]).end()
        return hit, differences(ends.states[(point.meanwhile,)], end.state), end.unclean, (), heard

    def _prepared(self, grown: Prepared, role: str, names: Sequence[str]) -> Prepared:
        """What these operations find when they begin."""
        if role == "prepare" and all(OPERATIONS[name].prepare is None for name in names):
            return grown
        with self._copy(grown) as (database, files):
            copy = self._on(database, files)
            copy.start(role, names).end()
            copy.stop(signal.SIGTERM)
            return self._packed(database, files)

    @contextmanager
    def copied(self, before: Prepared, zygote: Zygote | None = None) -> Iterator[Copy]:
        """A copy of one's own, and its index served."""
        with self._copy(before) as (database, files):
            copy = self._on(database, files, zygote)
            try:
                yield copy
            finally:
                copy.stop(signal.SIGKILL)

    def _on(self, database: str, files: Path, zygote: Zygote | None = None) -> Copy:
        url = database_settings(self._servers, database).url.get_secret_value()
        copy = Copy(zygote or self._zygotes[0], self._servers.broker_url, url, files)
        copy.serve()
        return copy

    def _packed(self, database: str, files: Path) -> Prepared:
        name = f"kill_{uuid4().hex}"
        admin(self._servers, f"CREATE DATABASE {name} TEMPLATE {database}")
        self._made.append(name)
        packed = Prepared(name, self._directory / f"packed-{uuid4().hex}")
        copy_sparse(files, packed.files)
        return packed

    @contextmanager
    def _copy(self, prepared: Prepared) -> Iterator[tuple[str, Path]]:
        name = f"test_{uuid4().hex}"
        files = self._directory / name
        admin(self._servers, f"CREATE DATABASE {name} TEMPLATE {prepared.database}")
        # Clients are killed here, never the server: no commit has to wait for the disk.
        admin(self._servers, f"ALTER DATABASE {name} SET synchronous_commit = off")
        try:
            copy_sparse(prepared.files, files)
            yield name, files
        finally:
            shutil.rmtree(files, ignore_errors=True)
            admin(self._servers, f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


@contextmanager
def arena(servers: SessionServers, directory: Path, processes: int = 2) -> Iterator[Arena]:
    """A place for kill points, so many at a time; the template of ``make_template`` must be there."""
    with ExitStack() as undo:
        zygotes = [undo.enter_context(Zygote()) for _ in range(processes)]
        place = Arena(servers, directory, zygotes)
        undo.callback(place.close)
        yield place


def _orders(run: Run) -> list[tuple[str, ...]]:
    """In which orders the operations of a run are requested, to see what each comes to."""
    if len(run) == 1 or run in WRITTEN:
        return [ASKERS[:1]]
    orders: list[tuple[str, ...]] = [ASKERS, ASKERS[::-1]]
    first, second = (_ROLES[name] for name in run)
    if run[0] == run[1]:
        # The same request while one waits or runs is the same task.
        orders.append(ASKERS[:1])
    elif Answer.REFUSED in (answer(first, second), answer(second, first)):
        # An operation that is refused for good leaves what the other one comes to alone.
        orders += [ASKERS[:1], ASKERS[1:]]
    return orders


def chosen(events: Sequence[str], count: int, rng: random.Random) -> list[Point]:
    """Events to be killed at: after the first and the last commit, and others at random; all if few."""
    every = range(1, len(events) + 1)
    commits = [number for number in every if events[number - 1] == COMMITTED]
    always = dict.fromkeys([commits[0], commits[-1]] if commits else [])
    others = [number for number in every if number not in always]
    ats = sorted([*always, *rng.sample(others, min(len(others), max(0, count - len(always))))])
    return [Point(at, at=at) for at in ats]


def drawn_points(ends: Ends, count: int, seed: int) -> list[Point]:
    """Points of a pair; the same seed draws the same ones, the first of them without a kill."""
    rng = random.Random(f"{seed}/{'+'.join(ends.run)}")
    points = []
    askers = tuple(asker for asker in ASKERS if asker in ends.events)
    for number in range(count):
        first, victim = rng.choice(askers), rng.choice(askers)
        at = rng.randint(1, max(1, len(ends.events[victim])))
        points.append(Point(number, victim, None if number == 0 and count > 1 else at, first))
    return points


def drawn_stops(ends: Ends, count: int, seed: int, stages: Sequence[str] = STAGES) -> list[Point]:
    """Points of each stage: events of steps that had something to do, and what happens meanwhile in turn."""
    stops: list[Point] = []
    for stage in stages:
        rng = random.Random(f"{seed}/{stage}")
        at_work = [number for number, what in enumerate(ends.events[stage], start=1) if what != IDLE]
        for turn, at in enumerate(sorted(rng.sample(at_work, min(count, len(at_work))))):
            meanwhile = MEANWHILE[turn % len(MEANWHILE)]
            stops.append(Point(len(stops), at=at, stage=stage, meanwhile=meanwhile))
    return stops


def against(ends: Ends, end: Reported) -> list[str]:
    """How an end differs from each that is right: none, or the differences from that in the order of requesting."""
    found = [differences(ends.states[order], end.state) for order in _right(ends, end)]
    return [] if not all(found) else found[0]


def unended(end: Reported, refused: Mapping[str, str]) -> list[str]:
    """Why an operation has no end, if it was neither done nor refused with a sentence that a caller can follow."""
    codes = [code for code in refused.values() if code != "owner_exists"]
    return [f"refused: {codes}"] if codes or not (end.requested or refused) else []


def _right(ends: Ends, end: Reported) -> list[tuple[str, ...]]:
    """In which orders the two may seem to have run, that of requesting first."""
    if end.at_once:
        return [ASKERS[:1]]
    # Who was refused came too late: the other one was first.
    order = (*end.requested, *(asker for asker in ASKERS if asker not in end.requested))
    earlier, later = (_ROLES[ends.run[ASKERS.index(asker)]] for asker in order)
    either = answer(earlier, later) in (Answer.CONCURRENT, Answer.OVERTAKES)
    alone = [tuple(end.requested)] if tuple(end.requested) in ends.states else []
    return [order, order[::-1]] if either else [order, *alone]


def _worked(copy: Copy, meanwhile: str) -> Started:
    """A process that finds everything at work, brings it to rest, and requests something."""
    return copy.start(
        "after", () if meanwhile == "nothing" else [meanwhile], ASKERS[:1] if meanwhile != "nothing" else ()
    )


def _until_stopped(zombie: Started) -> bool:
    """Wait until it is stopped; False when it came to its end."""
    deadline = time.monotonic() + STOPPED_S
    while not zombie.process.ended:
        with suppress(psutil.NoSuchProcess):
            if psutil.Process(zombie.process.pid).status() == psutil.STATUS_STOPPED:
                return True
        if time.monotonic() > deadline:
            raise Broken(f"The process did not stop at event {zombie.part.at} of {zombie.part.stage}.")
        time.sleep(POLL_S)
    return False
