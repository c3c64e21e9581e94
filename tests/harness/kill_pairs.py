"""Two operations at once, each in a process of its own, one of which is killed: does it end as one after the other?"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import combinations_with_replacement, product
from pathlib import Path
from uuid import uuid4

from memforest_core.domain.operations import Answer, Role, answer
from tests.harness.end_state import State, differences
from tests.harness.grown_forests import grow
from tests.harness.hashed_words import HashedWords
from tests.harness.kill_beside import INDEX_TIMEOUT_S, PART, TOLD, Part, Told
from tests.harness.kill_operations import BESIDE
from tests.harness.kill_points import Arena, Broken, Prepared, copy_sparse
from tests.harness.kill_writers import BEGUN, OVER, WRITERS, extended_by, wrong_turns
from tests.harness.kill_zygote import SEVERAL, Forked, Zygote
from tests.harness.stack import database_settings, stack

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
    """What a pair may come to, by the order of asking; and how many events each operation had."""

    pair: Pair
    before: Prepared
    states: dict[tuple[str, ...], State]
    events: dict[str, int]
    unclean: list[str]
    """What is wrong although nobody was disturbed, nor had company."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One point of a pair."""

    pair: Pair
    number: int
    victim: str
    at: int | None
    killed: bool
    order: tuple[str, ...]
    """Who asked, in order; who was refused is not there."""
    differing: list[str]
    unclean: list[str]
    heard: dict[str, int]
    seconds: float

    @property
    def kept(self) -> bool:
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

    def told(self) -> Told | None:
        """What it tells at its end; None if it was killed where it should be. Raises Broken."""
        code = self.process.wait()
        if code == -signal.SIGKILL and self.part.at is not None:
            return None
        if code != 0:
            raise Broken(f"{self.part.role} of {self.part.operations}, at {self.part.at}: exit code {code}")
        return TOLD.validate_json(self.answer.read_bytes())

    def begun(self) -> None:
        """Wait until a writer has sent its first turn. Raises Broken."""
        _until_written(self.answer.with_suffix(BEGUN), self.process, f"Writing, {self.part.operations},")

    def end(self) -> Told:
        """What a process tells that nobody kills. Raises Broken."""
        told = self.told()
        assert told is not None
        return told


class PairArena(Arena):
    """Several processes at once on each copy, which share its index."""

    def grown(self) -> Prepared:
        """The three forests, at rest, with an index that is served."""
        files = self._directory / "grown-beside"
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
        if all(BESIDE[name].prepare is None for name in names):
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
            # Who is refused for good leaves what the other one comes to alone.
            orders += [ASKERS[:1], ASKERS[1:]]
        for order in orders:
            names = [pair[ASKERS.index(asker)] for asker in order]
            with self.copied(before) as copy:
                told = copy.start("serial", names, order).end()
            states[order] = told.state
            events.setdefault(order[0], len(told.events[order[0]]))
            unclean += [f"{' then '.join(names)}: {line}" for line in told.unclean]
        return Ends(pair, before, states, events, unclean)

    def pairs(self, ends: Ends, points: Sequence[Point]) -> Iterator[Outcome]:
        """Play each of these points: as many at a time as there are forking processes. Raises Broken."""
        with ThreadPoolExecutor(len(self._zygotes)) as pool:
            play = self._written if ends.pair in WRITTEN else self._played
            yield from pool.map(lambda point: play(ends, point), points)

    def _written(self, ends: Ends, point: Point) -> Outcome:
        """One operation while a writer adds to a session of its forest."""
        started = time.monotonic()
        name, writing = ends.pair
        seed = f"{'+'.join(ends.pair)}/{point.number}/{point.at}"
        session = extended_by(name, point.number)
        killed, heard, end, wrong = False, Counter[str](), Told(), list[str]()
        with self.copied(ends.before, self._zygotes[point.number % len(self._zygotes)]) as copy:
            try:
                writer = copy.start("write", [writing], ASKERS[:1], session=session, seed=seed)
                writer.begun()
                told = copy.start("beside", [name], at=point.at).told()
                if killed := told is None:
                    told = copy.start("beside", [name]).end()
                writer.answer.with_suffix(OVER).touch()
                extended = writer.end()
                copy.start("beside").end()
                end = copy.start("look", [name]).end()
                for each in (told, extended):
                    heard.update(each.heard)
                wrong = wrong_turns(name, end.state, extended.accepted) + unended(end, told.refused)
            except Broken as error:
                wrong = [str(error)]
        return Outcome(
            ends.pair,
            point.number,
            point.victim,
            point.at,
            killed,
            tuple(end.asked),
            wrong,
            end.unclean,
            dict(heard),
            time.monotonic() - started,
        )

    def _played(self, ends: Ends, point: Point) -> Outcome:
        started = time.monotonic()
        with self.copied(ends.before, self._zygotes[point.number % len(self._zygotes)]) as copy:
            order = ASKERS if point.first == ASKERS[0] else ASKERS[::-1]
            both = {
                asker: copy.start(
                    "beside",
                    [ends.pair[ASKERS.index(asker)]],
                    [asker],
                    point.at if asker == point.victim else None,
                )
                for asker in order
            }
            killed = both[point.victim].told() is None
            heard: dict[str, int] = {}
            if killed:
                again = copy.start("beside", [ends.pair[ASKERS.index(point.victim)]], [point.victim])
                heard |= again.end().heard
            other = next(asker for asker in order if asker != point.victim)
            heard |= both[other].end().heard
            end = copy.start("look", ends.pair).end()
        return Outcome(
            ends.pair,
            point.number,
            point.victim,
            point.at,
            killed,
            tuple(end.asked),
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
        packed = Prepared(self._kept(database), self._directory / f"packed-{uuid4().hex}")
        copy_sparse(files, packed.files)
        return packed


@dataclass(frozen=True, slots=True)
class Point:
    """Where a pair is disturbed."""

    number: int
    first: str
    """Whose process is started first; who asks first, the race decides."""
    victim: str
    at: int | None
    """The event of the victim that it is killed at; None for never."""


def drawn(ends: Ends, count: int, seed: int) -> list[Point]:
    """Points of a pair; the same seed draws the same ones, the first of them without a kill."""
    rng = random.Random(f"{seed}/{'+'.join(ends.pair)}")
    points = []
    askers = tuple(asker for asker in ASKERS if asker in ends.events)
    for number in range(count):
        first, victim = rng.choice(askers), rng.choice(askers)
        at = rng.randint(1, max(1, ends.events[victim]))
        points.append(Point(number, first, victim, None if number == 0 and count > 1 else at))
    return points


def against(ends: Ends, end: Told) -> list[str]:
    """How an end differs from each that is right: none, or the differences from that in the order of asking."""
    found = [differences(ends.states[order], end.state) for order in _right(ends, end)]
    return [] if not all(found) else found[0]


def unended(end: Told, refused: Mapping[str, str]) -> list[str]:
    """Why an operation has no end, if it was neither done nor refused with a sentence that a caller can follow."""
    codes = [code for code in refused.values() if code != "owner_exists"]
    return [f"refused: {codes}"] if codes or not (end.asked or refused) else []


def _roles(pair: Pair) -> tuple[Role, Role]:
    first, second = (_ROLES[name] for name in pair)
    return first, second


def _right(ends: Ends, end: Told) -> list[tuple[str, ...]]:
    """In which orders the two may seem to have run, that of asking first."""
    if end.at_once:
        return [ASKERS[:1]]
    # Who was refused came too late: the other one was first.
    order = (*end.asked, *(asker for asker in ASKERS if asker not in end.asked))
    earlier, later = (_ROLES[ends.pair[ASKERS.index(asker)]] for asker in order)
    either = answer(earlier, later) in (Answer.CONCURRENT, Answer.OVERTAKES)
    alone = [tuple(end.asked)] if tuple(end.asked) in ends.states else []
    return [order, order[::-1]] if either else [order, *alone]
