"""What is kept in memory, beside the engine, of forests that are asked again and again: built and brought up to date by
a thread of its own."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Generic, NamedTuple, Protocol, TypeVar
from uuid import UUID

import structlog

from memforest_core.errors import MemForestError

log = structlog.get_logger(__name__)

ASKED_BEFORE = 20
"""Searches of a forest before anything is built, so that a process that asks once builds nothing."""
MOST_POINTS = 300_000
"""In all that is kept of one sort in a process."""
MOST_KNOWN = 10_000
"""Groups whose searches are counted; those that were searched longest ago are forgotten."""
MOST_CHANGED, CHANGED_PART = 1_000, 10
"""Changed rows that a search scores by themselves, and of how many that are kept one may have changed; with more the
engine is asked until they have been taken in. Rarity of words is that of before until then."""
PORTION = 64
"""Rows that are taken in at once; searches of that group wait for it."""

Group = TypeVar("Group", bound=Hashable)
Content = TypeVar("Content")
Content_contra = TypeVar("Content_contra", contravariant=True)
Content_co = TypeVar("Content_co", covariant=True)
Group_contra = TypeVar("Group_contra", contravariant=True)


class Beside(Protocol[Content_contra]):
    """What is kept of one group of points; thread-safe."""

    def __len__(self) -> int:
        """Its rows."""

    @property
    def worn(self) -> bool:
        """Whether it is worth building anew."""

    def add(self, contents: Mapping[UUID, Content_contra]) -> None:
        """Add or replace rows."""

    def drop(self, rows: Collection[UUID]) -> None:
        """Take these out, as far as they are there."""


Kept = TypeVar("Kept", bound=Beside[Any])


class Source(Protocol[Group_contra, Content_co]):
    """Where the contents of rows are: the engine."""

    def counted(self, group: Group_contra) -> int:
        """How many points a group has. Raises IndexUnavailable."""

    def pages(self, group: Group_contra) -> Iterator[Mapping[UUID, Content_co]]:
        """All of them, in pages. Raises IndexUnavailable."""

    def named(self, group: Group_contra, rows: Sequence[UUID]) -> Mapping[UUID, Content_co]:
        """Those of these that exist. Raises IndexUnavailable."""


class Found(NamedTuple, Generic[Kept]):
    """What is kept of a group, and the rows that changed since it took them in, to be scored beside."""

    kept: Kept
    changed: set[UUID]


@dataclass(slots=True)
class _Known(Generic[Kept]):
    """What is known of one group."""

    asked: int = 0
    tended: bool = False
    """Whether a thread is building, or taking changes in."""
    kept: Kept | None = None
    changed: dict[UUID, int] = field(default_factory=dict)
    """Rows that were written or deleted and that were not taken in, by the number of the change; noted from before the
    first page is read."""

    @property
    def outdated(self) -> bool:
        """Whether most of what is kept changed. Of a small group a few changes say nothing: among them may be rows of
        other groups of the forest, when they were deleted."""
        return self.kept is not None and 2 * len(self.changed) > max(len(self.kept), MOST_CHANGED)


class Tended(Generic[Group, Content, Kept]):
    """Thread-safe. Who writes to the index calls ``forget`` after each write and before it is acknowledged.

    No change is hidden: rows that changed since they were taken in are named, to be scored by the engine.
    """

    def __init__(
        self,
        source: Source[Group, Content],
        make: Callable[[Group, int], Kept],
        least: int,
    ) -> None:
        """A group gets one of what ``make`` makes for it and as many points as it has: from ``least`` on, at most
        MOST_POINTS. 0 is for never."""
        self._source, self._make, self._least = source, make, least
        self._known: OrderedDict[Group, _Known[Kept]] = OrderedDict()
        self._changes = 0
        self._lock = threading.Lock()
        self._building = threading.Lock()
        self._closed = threading.Event()

    def find(self, group: Group) -> Found[Kept] | None:
        """What is kept of a group that is searched, and what changed meanwhile; None when the engine has to be
        asked."""
        if self._least <= 0:
            return None
        with self._lock:
            known = self._known.get(group)
            if known is None:
                known = self._known[group] = _Known()
            self._known.move_to_end(group)
            if len(self._known) > MOST_KNOWN:
                self._known.popitem(last=False)
            known.asked += 1
            kept, changed = known.kept, set(known.changed)
            if not known.tended and (changed if kept is not None else known.asked >= ASKED_BEFORE):
                known.tended = True
                threading.Thread(target=self._tend, args=(group, known), name="memforest-beside", daemon=True).start()
        return _usable(kept, changed)

    def known(self, group: Group) -> Found[Kept] | None:
        """What ``find`` gives, for who looks at rows of a group that was searched before: it counts as no search."""
        with self._lock:
            known = self._known.get(group)
            return None if known is None else _usable(known.kept, set(known.changed))

    def forget(self, written: Iterable[tuple[Group, UUID]]) -> None:
        """Note rows that were written or deleted, each with every group that it may be in. What is kept of a group goes
        at once when most of it changed, as when a forest is deleted."""
        with self._lock:
            self._changes += 1
            touched = set[Group]()
            for group, row in written:
                known = self._known.get(group)
                if known is not None and (known.tended or known.kept is not None):
                    known.changed[row] = self._changes
                    touched.add(group)
            for group in touched:
                known = self._known[group]
                if known.outdated and not known.tended:
                    known.kept, known.changed = None, {}

    @property
    def tending(self) -> bool:
        """Whether a thread is building, or taking changes in."""
        with self._lock:
            return any(known.tended for known in self._known.values())

    def close(self) -> None:
        """End the threads and drop everything."""
        self._closed.set()
        with self._building, self._lock:
            self._known.clear()

    def _tend(self, group: Group, known: _Known[Kept]) -> None:
        """Build what is kept of a group, or take in what changed; one thread at a time."""
        try:
            with self._building:
                kept = known.kept
                if kept is None or kept.worn:
                    self._build(group, known)
                else:
                    self._take_in(group, known, kept)
        except MemForestError as error:
            log.warning("not_built_beside_the_index", code=error.code)
        finally:
            with self._lock:
                known.tended = False
                if known.kept is None:
                    known.asked = 0
                    known.changed.clear()

    def _build(self, group: Group, known: _Known[Kept]) -> None:
        points = self._source.counted(group)
        if not self._least <= points <= MOST_POINTS:
            known.kept = None
            return
        with self._lock:
            begun = self._changes
        kept = self._make(group, points)
        for page in self._source.pages(group):
            for portion in _portions(page):
                if self._closed.is_set():
                    return
                kept.add(portion)
        with self._lock:
            known.kept = kept
            # What changed before the first page was read is in the pages.
            known.changed = {row: number for row, number in known.changed.items() if number > begun}
            self._drop_oldest(known)

    def _take_in(self, group: Group, known: _Known[Kept], kept: Kept) -> None:
        """What changed is read again, so that it does not matter how often or in which order it was written."""
        while not self._closed.is_set():
            with self._lock:
                changed = dict(islice(known.changed.items(), PORTION))
            if not changed:
                return
            there = self._source.named(group, list(changed))
            kept.drop([row for row in changed if row not in there])
            kept.add(there)
            with self._lock:
                for row, number in changed.items():
                    if known.changed.get(row) == number:
                        del known.changed[row]

    def _drop_oldest(self, newest: _Known[Kept]) -> None:
        """Keep within the bound: what was asked longest ago goes."""
        held = sum(len(known.kept) for known in self._known.values() if known.kept is not None)
        for known in self._known.values():
            if held <= MOST_POINTS:
                return
            if known.kept is not None and known is not newest:
                held -= len(known.kept)
                known.kept, known.asked, known.changed = None, 0, {}


def _usable(kept: Kept | None, changed: set[UUID]) -> Found[Kept] | None:
    """What is kept and what changed, unless that is too much."""
    if kept is None or len(changed) > min(MOST_CHANGED, len(kept) // CHANGED_PART):
        return None
    return Found(kept, changed)


def _portions(page: Mapping[UUID, Content]) -> Iterator[dict[UUID, Content]]:
    rows = iter(page.items())
    while portion := dict(islice(rows, PORTION)):
        yield portion
