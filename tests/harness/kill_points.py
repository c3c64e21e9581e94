"""kill -9 at chosen points of an operation: each on a copy of its own, taken over by another process, then compared."""

from __future__ import annotations

import errno
import os
import random
import shutil
import signal
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import TypeVar
from uuid import uuid4

from tests.harness.end_state import differences
from tests.harness.grown_forests import grow
from tests.harness.hashed_words import HashedWords
from tests.harness.kill_child import ANSWER, REQUEST, Answer, Request
from tests.harness.kill_operations import OPERATIONS
from tests.harness.kill_tape import COMMITTED
from tests.harness.kill_zygote import Zygote
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
class Calm:
    """An operation that nobody disturbed: the events of its one process, and what it came to."""

    operation: str
    before: Prepared
    end: Answer


@dataclass(frozen=True, slots=True)
class Outcome:
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
    def kept(self) -> bool:
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
            packed = Prepared(self._kept(running.database), self._directory / "packed")
        copy_sparse(files, packed.files)
        return packed

    def calm(self, name: str, grown: Prepared) -> Calm:
        """Prepare an operation once, and run it without disturbance. Raises Broken."""
        zygote = self._zygotes[0]
        operation = OPERATIONS[name]
        needs = operation.prepare is not None or operation.asked_before
        before = self._prepared(zygote, name, grown) if needs else grown
        with self._copy(before) as (database, files):
            self._ask(zygote, self._request(name, "work", database, files))
            return Calm(name, before, _answer(files))

    def points(self, calm: Calm, ats: Sequence[int]) -> Iterator[Outcome]:
        """Kill at each of these events (from 1), take over, compare: as many at a time as there are processes.

        Raises Broken.
        """
        free: SimpleQueue[Zygote] = SimpleQueue()
        for zygote in self._zygotes:
            free.put(zygote)

        def point(at: int) -> Outcome:
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
            before = Prepared(self._kept(database), self._directory / f"before-{uuid4().hex}")
            copy_sparse(files, before.files)
            return before

    def _killed(self, zygote: Zygote, calm: Calm, at: int) -> Outcome:
        started = time.monotonic()
        with self._copy(calm.before) as (database, files):
            killed = self._ask(zygote, self._request(calm.operation, "work", database, files, at))
            if killed:
                self._ask(zygote, self._request(calm.operation, "resume", database, files))
            end = _answer(files)
        return Outcome(
            calm.operation,
            at,
            calm.end.events[at - 1],
            killed=killed,
            differing=differences(calm.end.state, end.state),
            unclean=end.unclean,
            receipts=[receipt for receipt in end.receipts if receipt not in calm.end.receipts],
            seconds=time.monotonic() - started,
        )

    def _kept(self, database: str) -> str:
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


def _answer(files: Path) -> Answer:
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
