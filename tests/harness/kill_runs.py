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
from dataclasses import dataclass
from itertools import combinations_with_replacement, product
from pathlib import Path
from queue import SimpleQueue
from typing import TypeVar
from uuid import uuid4

import psutil

from memforest_core.domain.operation_rules import Answer, Role, answer
from tests.harness.end_state import State, differences
from tests.harness.forking import SEVERAL, Forked, Zygote
from tests.harness.grown_forests import grow
from tests.harness.hashed_words import HashedWords
from tests.harness.kill_child import ANSWER, COMMITTED, REQUEST, ChildEnd, Request
from tests.harness.kill_concurrent import IDLE, INDEX_TIMEOUT_S, PART, REPORTED, Part, Reported
from tests.harness.kill_operations import (
    BEGUN,
    CONCURRENT_OPERATIONS,
    OPERATIONS,
    OVER,
    WRITERS,
    extended_by,
    wrong_turns,
)
from tests.harness.servers import SessionServers
from tests.harness.stack import admin, database_settings, stack

_ANSWER_FILE = "answer.json"
_BLOCK = 64 * 1024


class Broken(Exception):
    """A process that should have come to an end did not; its traceback is on stderr."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A database and files that copies are made of."""

    database: str
    files: Path


@dataclass(frozen=True, slots=True)
class CalmRun:
    """An operation that nobody disturbed: the events of its one process, and what it came to."""

    operation: str
    before: Prepared
    end: ChildEnd


@dataclass(frozen=True, slots=True)
class PointOutcome:
    """One point: where the process was killed, and how what came of it differs from the calm run."""

    operation: str
    at: int
    what: str
    """The event it was killed at; it happened in the calm run under the same number."""
    killed: bool
    """Whether it was: a run that takes another way may have fewer events."""
    differing: list[str]
    unclean: list[str]
    receipts: list[str]
    """Numbers of the receipt that are others than the calm run's: steps that were taken twice count what is left."""
    seconds: float

    @property
    def sound(self) -> bool:
        """Whether the end is the same, and verified."""
        return not self.differing and not self.unclean


class Arena:
    """Servers, forking processes that take turns, and a place for copies."""

    def __init__(self, servers: SessionServers, directory: Path, zygotes: Sequence[Zygote]) -> None:
        self._servers = servers
        self._directory = directory
        self._zygotes = zygotes
        self._made: list[str] = []

    def grown(self) -> Prepared:
        """The three forests, at rest."""
        files = self._directory / "grown"
        files.mkdir()
        with stack(self._servers, files, embedder=HashedWords()) as running:
            grow(running)
            running.services.close()
            running.disconnect()
            packed = Prepared(self._as_template(running.database), self._directory / "packed")
        copy_sparse(files, packed.files)
        return packed

    def calm(self, name: str, grown: Prepared) -> CalmRun:
        """Prepare an operation once, and run it without disturbance. Raises Broken."""
        zygote = self._zygotes[0]
        operation = OPERATIONS[name]
        needs = operation.prepare is not None or operation.requested_before
        before = self._prepared(zygote, name, grown) if needs else grown
        with self._copy(before) as (database, files):
            self._ask(zygote, self._request(name, "work", database, files))
            return CalmRun(name, before, _answer(files))

    def points(self, calm: CalmRun, ats: Sequence[int]) -> Iterator[PointOutcome]:
        """Kill at each of these events (from 1), take over, compare: as many at a time as there are processes.

        Raises Broken.
        """
        free: SimpleQueue[Zygote] = SimpleQueue()
        for zygote in self._zygotes:
            free.put(zygote)

        def point(at: int) -> PointOutcome:
            zygote = free.get()
            try:
                return self._killed(zygote, calm, at)
            finally:
                free.put(zygote)

        with ThreadPoolExecutor(len(self._zygotes)) as pool:
            yield from pool.map(point, ats)

    def close(self) -> None:
        """Drop what copies were made of."""
        for name in self._made:
            self._admin(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def _prepared(self, zygote: Zygote, name: str, grown: Prepared) -> Prepared:
        with self._copy(grown) as (database, files):
            self._ask(zygote, self._request(name, "prepare", database, files))
            before = Prepared(self._as_template(database), self._directory / f"before-{uuid4().hex}")
            copy_sparse(files, before.files)
            return before

    def _killed(self, zygote: Zygote, calm: CalmRun, at: int) -> PointOutcome:
        started = time.monotonic()
        with self._copy(calm.before) as (database, files):
            killed = self._ask(zygote, self._request(calm.operation, "work", database, files, at))
            if killed:
                self._ask(zygote, self._request(calm.operation, "resume", database, files))
            end = _answer(files)
        return PointOutcome(
            calm.operation,
            at,
            calm.end.events[at - 1],
            killed=killed,
            differing=differences(calm.end.state, end.state),
            unclean=end.unclean,
            receipts=[receipt for receipt in end.receipts if receipt not in calm.end.receipts],
            seconds=time.monotonic() - started,
        )

    def _as_template(self, database: str) -> str:
        name = f"kill_{uuid4().hex}"
        self._admin(f"CREATE DATABASE {name} TEMPLATE {database}")
        self._made.append(name)
        return name

    @contextmanager
    def _copy(self, prepared: Prepared) -> Iterator[tuple[str, Path]]:
        name = f"test_{uuid4().hex}"
        files = self._directory / name
        # Clients are killed here, never the server: no commit has to wait for the disk.
        self._admin(
            f"CREATE DATABASE {name} TEMPLATE {prepared.database}",
            f"ALTER DATABASE {name} SET synchronous_commit = off",
        )
        try:
            copy_sparse(prepared.files, files)
            yield name, files
        finally:
            shutil.rmtree(files, ignore_errors=True)
            self._admin(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def _admin(self, *statements: str) -> None:
        for statement in statements:
            admin(self._servers, statement)

    def _request(self, operation: str, phase: str, database: str, files: Path, kill_at: int | None = None) -> Request:
        address = database_settings(self._servers, database).url.get_secret_value()
        return Request(
            operation, phase, address, self._servers.broker_url, str(files), str(files / _ANSWER_FILE), kill_at
        )

    @staticmethod
    def _ask(zygote: Zygote, request: Request) -> bool:
        """Whether the process was killed where it should be; else it came to its end. Raises Broken."""
        code = zygote.run(REQUEST.dump_json(request).decode())
        if code == -signal.SIGKILL and request.kill_at is not None:
            return True
        if code != 0:
            raise Broken(f"{request.operation}, {request.phase}, at {request.kill_at}: exit code {code}")
        return False


def _answer(files: Path) -> ChildEnd:
    return ANSWER.validate_json((files / _ANSWER_FILE).read_bytes())


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


def chosen(events: Sequence[str], count: int, rng: random.Random) -> list[int]:
    """Numbers of events to be killed at: after the first and the last commit, and others at random; all if few."""
    if len(events) <= count:
        return list(range(1, len(events) + 1))
    commits = [number for number, what in enumerate(events, start=1) if what == COMMITTED]
    always = dict.fromkeys([commits[0], commits[-1]] if commits else [])
    others = [number for number in range(1, len(events) + 1) if number not in always]
    return sorted([*always, *rng.sample(others, max(0, count - len(always)))])[: max(count, len(always))]


A = TypeVar("A", bound=Arena)


@contextmanager
def arena(servers: SessionServers, directory: Path, kind: type[A], processes: int = 2) -> Iterator[A]:
    """A place for kill points, so many at a time; the template of ``make_template`` must be there."""
    with ExitStack() as undo:
        zygotes = [undo.enter_context(Zygote()) for _ in range(processes)]
        place = kind(servers, directory, zygotes)
        undo.callback(place.close)
        yield place


KINDS = ("erase-session", "erase-owner", "correct", "merge-live", "export", "import", "rematerialize", "retain")
"""Of each kind of operation one, of deletions two."""
PAIRS = tuple(combinations_with_replacement(KINDS, 2))
WRITTEN = tuple(product(KINDS, WRITERS))
"""Each kind of operation, and a writer during it."""
ASKERS = ("first", "second")
STARTED_S = 30.0
POLL_S = 0.01

Pair = tuple[str, str]

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


@dataclass(frozen=True, slots=True)
class Ends:
    """What a pair may come to, by the order of requesting; and how many events each operation had."""

    pair: Pair
    before: Prepared
    states: dict[tuple[str, ...], State]
    events: dict[str, int]
    unclean: list[str]
    """What is wrong although nobody was disturbed, nor had company."""


@dataclass(frozen=True, slots=True)
class PairOutcome:
    """One point of a pair."""

    pair: Pair
    number: int
    victim: str
    at: int | None
    killed: bool
    order: tuple[str, ...]
    """Who requested, in order; who was refused is not there."""
    differing: list[str]
    unclean: list[str]
    heard: dict[str, int]
    seconds: float

    @property
    def sound(self) -> bool:
        """Whether it ended as one after the other, and verified."""
        return not self.differing and not self.unclean


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
        self,
        role: str,
        operations: Sequence[str] = (),
        askers: Sequence[str] | None = None,
        at: int | None = None,
        stopped: bool = False,
        stage: str = "",
        session: tuple[str, str] = ("", ""),
        seed: str = "",
    ) -> Started:
        """A process that plays a role."""
        answer = self.files / f"{role}-{uuid4().hex}.json"
        part = Part(
            role,
            self._url,
            self._broker,
            str(self.files),
            self._index,
            list(operations),
            list(ASKERS[: len(operations)] if askers is None else askers),
            str(answer),
            at,
            stopped,
            stage,
            session,
            seed,
        )
        return Started(part, self._fork(part), answer)

    def _fork(self, part: Part) -> Forked:
        return self._zygote.start(SEVERAL, PART.dump_json(part).decode())


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


class PairArena(Arena):
    """Several processes at once on each copy, which share its index."""

    def grown(self) -> Prepared:
        """The three forests, at rest, with an index that is served."""
        files = self._directory / "grown-concurrently with"
        files.mkdir()
        copy = Copy(self._zygotes[0], self._servers.broker_url, "", files)
        index = {"kind": "qdrant", "url": copy.serve(), "timeout_s": INDEX_TIMEOUT_S}
        with stack(self._servers, files, embedder=HashedWords(), index=index) as running:
            grow(running)
            running.services.close()
            running.disconnect()
            copy.stop(signal.SIGTERM)
            return self._packed(running.database, files)

    def prepared(self, grown: Prepared, names: Sequence[str]) -> Prepared:
        """What these operations find when they begin."""
        if all(CONCURRENT_OPERATIONS[name].prepare is None for name in names):
            return grown
        with self._copy(grown) as (database, files):
            copy = self._on(database, files)
            copy.start("prepare", names).end()
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

    def ends(self, pair: Pair, grown: Prepared) -> Ends:
        """Run a pair one after the other, in both orders, or an operation without its writer. Raises Broken."""
        before = self.prepared(grown, [name for name in pair if name not in WRITERS])
        states: dict[tuple[str, ...], State] = {}
        events: dict[str, int] = {}
        unclean: list[str] = []
        orders: list[tuple[str, ...]] = [ASKERS, ASKERS[::-1]]
        if pair in WRITTEN:
            orders = [ASKERS[:1]]
        elif pair[0] == pair[1]:
            # The same request while one waits or runs is the same task.
            orders.append(ASKERS[:1])
        elif Answer.REFUSED in (answer(*_roles(pair)), answer(*_roles(pair)[::-1])):
            # An operation that is refused for good leaves what the other one comes to alone.
            orders += [ASKERS[:1], ASKERS[1:]]
        for order in orders:
            names = [pair[ASKERS.index(asker)] for asker in order]
            with self.copied(before) as copy:
                reported = copy.start("serial", names, order).end()
            states[order] = reported.state
            events.setdefault(order[0], len(reported.events[order[0]]))
            unclean += [f"{' then '.join(names)}: {line}" for line in reported.unclean]
        return Ends(pair, before, states, events, unclean)

    def pairs(self, ends: Ends, points: Sequence[Point]) -> Iterator[PairOutcome]:
        """Play each of these points: as many at a time as there are forking processes. Raises Broken."""
        with ThreadPoolExecutor(len(self._zygotes)) as pool:
            play = self._written if ends.pair in WRITTEN else self._played
            yield from pool.map(lambda point: play(ends, point), points)

    def _written(self, ends: Ends, point: Point) -> PairOutcome:
        """One operation while a writer adds to a session of its forest."""
        started = time.monotonic()
        name, writing = ends.pair
        seed = f"{'+'.join(ends.pair)}/{point.number}/{point.at}"
        session = extended_by(name, point.number)
        killed, heard, end, wrong = False, Counter[str](), Reported(), list[str]()
        with self.copied(ends.before, self._zygotes[point.number % len(self._zygotes)]) as copy:
            try:
                writer = copy.start("write", [writing], ASKERS[:1], session=session, seed=seed)
                writer.begun()
                reported = copy.start("concurrent", [name], at=point.at).reported()
                if killed := reported is None:
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
        return PairOutcome(
            ends.pair,
            point.number,
            point.victim,
            point.at,
            killed,
            tuple(end.requested),
            wrong,
            end.unclean,
            dict(heard),
            time.monotonic() - started,
        )

    def _played(self, ends: Ends, point: Point) -> PairOutcome:
        started = time.monotonic()
        with self.copied(ends.before, self._zygotes[point.number % len(self._zygotes)]) as copy:
            order = ASKERS if point.first == ASKERS[0] else ASKERS[::-1]
            both = {
                asker: copy.start(
                    "concurrent", [ends.pair[ASKERS.index(asker)]], [asker], point.at if asker == point.victim else None
                )
                for asker in order
            }
            killed = both[point.victim].reported() is None
            heard: dict[str, int] = {}
            if killed:
                repeated = copy.start("concurrent", [ends.pair[ASKERS.index(point.victim)]], [point.victim])
                heard |= repeated.end().heard
            other = next(asker for asker in order if asker != point.victim)
            heard |= both[other].end().heard
            end = copy.start("end", ends.pair).end()
        return PairOutcome(
            ends.pair,
            point.number,
            point.victim,
            point.at,
            killed,
            tuple(end.requested),
            against(ends, end),
            end.unclean,
            heard,
            time.monotonic() - started,
        )

    def _on(self, database: str, files: Path, zygote: Zygote | None = None) -> Copy:
        url = database_settings(self._servers, database).url.get_secret_value()
        copy = Copy(zygote or self._zygotes[0], self._servers.broker_url, url, files)
        copy.serve()
        return copy

    def _packed(self, database: str, files: Path) -> Prepared:
        packed = Prepared(self._as_template(database), self._directory / f"packed-{uuid4().hex}")
        copy_sparse(files, packed.files)
        return packed


@dataclass(frozen=True, slots=True)
class Point:
    """Where a pair is disturbed."""

    number: int
    first: str
    """Whose process is started first; who requests first, the race decides."""
    victim: str
    at: int | None
    """The event of the victim that it is killed at; None for never."""


def drawn_points(ends: Ends, count: int, seed: int) -> list[Point]:
    """Points of a pair; the same seed draws the same ones, the first of them without a kill."""
    rng = random.Random(f"{seed}/{'+'.join(ends.pair)}")
    points = []
    askers = tuple(asker for asker in ASKERS if asker in ends.events)
    for number in range(count):
        first, victim = rng.choice(askers), rng.choice(askers)
        at = rng.randint(1, max(1, ends.events[victim]))
        points.append(Point(number, first, victim, None if number == 0 and count > 1 else at))
    return points


def against(ends: Ends, end: Reported) -> list[str]:
    """How an end differs from each that is right: none, or the differences from that in the order of requesting."""
    found = [differences(ends.states[order], end.state) for order in _right(ends, end)]
    return [] if not all(found) else found[0]


def unended(end: Reported, refused: Mapping[str, str]) -> list[str]:
    """Why an operation has no end, if it was neither done nor refused with a sentence that a caller can follow."""
    codes = [code for code in refused.values() if code != "owner_exists"]
    return [f"refused: {codes}"] if codes or not (end.requested or refused) else []


def _roles(pair: Pair) -> tuple[Role, Role]:
    first, second = (_ROLES[name] for name in pair)
    return first, second


def _right(ends: Ends, end: Reported) -> list[tuple[str, ...]]:
    """In which orders the two may seem to have run, that of requesting first."""
    if end.at_once:
        return [ASKERS[:1]]
    # Who was refused came too late: the other one was first.
    order = (*end.requested, *(asker for asker in ASKERS if asker not in end.requested))
    earlier, later = (_ROLES[ends.pair[ASKERS.index(asker)]] for asker in order)
    either = answer(earlier, later) in (Answer.CONCURRENT, Answer.OVERTAKES)
    alone = [tuple(end.requested)] if tuple(end.requested) in ends.states else []
    return [order, order[::-1]] if either else [order, *alone]


STAGES = ("extract", "reduce", "refresh", "index")
MEANWHILE = ("nothing", "erase-new-session", "erase-owner")
"""What is requested while the process is stopped: the session that it works on is deleted, or its owner."""
STOPPED_S = 60.0
_ASKER = ASKERS[:1]


@dataclass(frozen=True, slots=True)
class CalmSession:
    """A session that one process works on, and what it comes to; without disturbance."""

    before: Prepared
    events: dict[str, list[str]]
    """By stage."""
    ends: dict[str, State]
    """By what is requested afterwards."""
    unclean: list[str]


@dataclass(frozen=True, slots=True)
class Stop:
    """Where a process is stopped, and what happens meanwhile."""

    stage: str
    at: int
    meanwhile: str


@dataclass(frozen=True, slots=True)
class ZombieOutcome:
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
    def sound(self) -> bool:
        """Whether the end is the same, and verified."""
        return not self.differing and not self.unclean


class ZombieArena(PairArena):
    """Processes that are stopped, and others that do their work."""

    def calm_session(self, grown: Prepared) -> CalmSession:
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
                worked = copy.start("concurrent").end()
                events = events or worked.events
                reported = _worked(copy, meanwhile).end()
                end = copy.start("end").end()
            ends[meanwhile] = end.state
            unclean += [f"{meanwhile}: {line}" for line in (*end.unclean, *reported.refused.values())]
        return CalmSession(before, events, ends, unclean)

    def stops(self, calm: CalmSession, stops: Sequence[Stop]) -> Iterator[ZombieOutcome]:
        """Play each of these: as many at a time as there are forking processes. Raises Broken."""
        with ThreadPoolExecutor(len(self._zygotes)) as pool:
            yield from pool.map(lambda numbered: self._stopped(calm, *numbered), enumerate(stops))

    def _stopped(self, calm: CalmSession, number: int, stop: Stop) -> ZombieOutcome:
        started = time.monotonic()
        with self.copied(calm.before, self._zygotes[number % len(self._zygotes)]) as copy:
            zombie = copy.start("concurrent", at=stop.at, stopped=True, stage=stop.stage)
            stopped = _until_stopped(zombie)
            _worked(copy, stop.meanwhile).end()
            if stopped:
                os.kill(zombie.process.pid, signal.SIGCONT)
            heard = zombie.end().heard
            end = copy.start("end", askers=_ASKER).end()
        return ZombieOutcome(
            stop,
            calm.events[stop.stage][stop.at - 1],
            stopped,
            differences(calm.ends[stop.meanwhile], end.state),
            end.unclean,
            heard,
            time.monotonic() - started,
        )


def _worked(copy: Copy, meanwhile: str) -> Started:
    """A process that finds everything at work, brings it to rest, and requests something."""
    return copy.start("after", () if meanwhile == "nothing" else [meanwhile], _ASKER if meanwhile != "nothing" else ())


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


def drawn_stops(calm: CalmSession, count: int, seed: int, stages: Sequence[str] = STAGES) -> list[Stop]:
    """Points of each stage: events of steps that had something to do, and what happens meanwhile in turn."""
    stops = []
    for stage in stages:
        rng = random.Random(f"{seed}/{stage}")
        at_work = [number for number, what in enumerate(calm.events[stage], start=1) if what != IDLE]
        chosen = sorted(rng.sample(at_work, min(count, len(at_work))))
        stops += [Stop(stage, at, MEANWHILE[turn % len(MEANWHILE)]) for turn, at in enumerate(chosen)]
    return stops
