"""External collections that are searched in addition to forests: all at once, for a bounded time, never written."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as OutOfTime
from dataclasses import dataclass, field
from datetime import UTC, datetime
from uuid import UUID, uuid5
from zoneinfo import ZoneInfo

import structlog

from memforest_core.domain.conditions import Test
from memforest_core.domain.evidence import Evidence, EvidenceKind, Freshness, day_label
from memforest_core.domain.forks import renewed_in_child
from memforest_core.domain.ids import TenantId
from memforest_core.domain.text import clean, clipped
from memforest_core.domain.times import UNKNOWN_TIME, Precision, TimeSpan
from memforest_core.domain.turns import TurnLimits, checked_metadata, parse_timestamp
from memforest_core.errors import IndexUnavailable, InvalidInput, MemForestError
from memforest_core.index.external import External, SourceHit, SourceMismatch
from memforest_core.index.vector_index import DenseVector
from memforest_core.recall.request import ALWAYS, Bounds, touches
from memforest_core.recall.signal_table import Candidate
from memforest_core.settings import SourceSettings

log = structlog.get_logger(__name__)

THREADS = 8
"""Collections that one process searches at once."""
WIDER = 4
"""How many times more points are read when some are left out afterwards, by time or metadata."""
MOST = 200
"""Points that are read at most of one collection."""
METADATA = TurnLimits(max_turn_bytes=16_384)
"""The metadata of a point that has more bytes are left out."""
SPACE = UUID("5f4ad1f4-7b0c-4e8e-9d8d-7d6b8c1d2f30")
"""Of the ids by which points are scored among cells and facts: fixed, like that of a name space."""
MAX_OWNER_CHARS = 512


@dataclass(frozen=True, slots=True)
class SourceItem:
    """A point that may be evidence, cleaned and cut; ``id`` is its id among cells and facts."""

    id: UUID
    source: str
    point_id: str
    cosine: float
    text: str
    said_at: datetime | None
    metadata: Mapping[str, object]
    owner: str

    def row(self, bounds: Bounds) -> Candidate:
        """The item as a row of the table: a turn with one fact, both in its words, without neighbours."""
        spans = [] if self.said_at is None else [(self.said_at, self.said_at)]
        in_time = bounds.about != ALWAYS and touches(spans, bounds.about)
        return Candidate(-1, (self.id, 0, 0), self.id, (self.id,), in_time=in_time)

    def evidence(self, score: float, signals: Mapping[str, float], zone: ZoneInfo) -> Evidence:
        """The item as it is delivered; its day is that of the zone."""
        span = UNKNOWN_TIME
        if self.said_at is not None:
            span = TimeSpan(self.said_at, self.said_at, Precision.MINUTE)
        return Evidence(
            text=self.text,
            time=span,
            time_label=day_label(span, zone),
            score=score,
            kind=EvidenceKind.EXTERNAL,
            fact_ids=(),
            session_id="",
            turn_ids=(),
            ordinal=0,
            speaker="",
            signals=signals,
            freshness=Freshness.RAW,
            metadata=self.metadata,
            owner=self.owner,
            source=self.source,
            point_id=self.point_id,
        )


@dataclass(frozen=True, slots=True)
class Searching:
    """Searches under way: what each source will have found, and until when it is waited for (monotonic seconds)."""

    answers: Mapping[str, tuple[Future[list[SourceHit]], float]] = field(default_factory=dict)

    def found(self) -> Iterator[tuple[str, list[SourceHit] | str]]:
        """The hits of each source, or what to say of one that has none to give."""
        for name, (answer, until) in self.answers.items():
            try:
                yield name, answer.result(max(0.0, until - time.monotonic()))
            except (OutOfTime, CancelledError):
                answer.cancel()
                yield name, f"Source {name} did not answer in time: it was left out."
            except SourceMismatch as error:
                yield name, f"Source {name} was left out: {error.message}."
            except MemForestError as error:
                # What a foreign server gives as its reason is not repeated.
                log.warning("source_unavailable", source=name, code=error.code)
                reason = "is unavailable" if isinstance(error, IndexUnavailable) else "refuses the query"
                yield name, f"Source {name} was left out: it {reason}."


def _collection(settings: SourceSettings, key: str | None, dimension: int) -> External:
    """A collection on a Qdrant server. Its client takes a second to import, which only those wait who have sources."""
    from memforest_core.index.qdrant.external_collection import SourceCollection

    return SourceCollection(settings, key, dimension)


@renewed_in_child
class Sources:
    """The configured sources of one process. Thread-safe; a collection is connected to when it is first searched."""

    def __init__(
        self,
        settings: Mapping[str, SourceSettings],
        dimension: int,
        opened: Callable[[SourceSettings, str | None, int], External] | None = None,
    ) -> None:
        self._settings = settings
        self._dimension = dimension
        self._open = opened or _collection
        self._lock = threading.Lock()
        self._collections: dict[str, External] = {}
        self._threads: ThreadPoolExecutor | None = None

    def check(self, names: Sequence[str]) -> None:
        """Raises InvalidInput for a name that is not configured."""
        for name in names:
            if name not in self._settings:
                known = ", ".join(sorted(self._settings)) or "none (set MEMFOREST_RECALL__SOURCES)"
                raise InvalidInput(f"There is no source {name!r:.80}; known are {known}.", code="unknown_source")

    def begin(
        self, names: Sequence[str], vector: DenseVector, tenant: TenantId, owners: Sequence[str], *, wider: bool
    ) -> Searching:
        """Search these sources, each in a thread; ``wider`` when some of what they find may be left out."""
        answers = {}
        for name in names:
            settings = self._settings[name]
            limit = min(MOST, settings.limit * (WIDER if wider else 1))
            answer = self._pool().submit(self._search, name, vector, tenant, list(owners), limit)
            answers[name] = answer, time.monotonic() + settings.timeout_s
        return Searching(answers)

    def items(
        self, searching: Searching, bounds: Bounds, metadata: Test | None, zone: ZoneInfo
    ) -> tuple[list[SourceItem], list[str]]:
        """What the sources found within the bounds, and a sentence for what could not be had. Naive times of points are
        in the ``zone``.

        Bounds of sessions, channels, speakers and roles are the forest's: a source is chosen by its name.
        """
        found: list[SourceItem] = []
        degraded: list[str] = []
        for name, hits in searching.found():
            if isinstance(hits, str):
                degraded.append(hits)
                continue
            read = [_Read(name, self._settings[name], hit, zone) for hit in hits]
            degraded += _unusable(name, self._settings[name], read)
            items = [one.item for one in read if one.item is not None]
            fitting = [item for item in items if _within(item, bounds, metadata)]
            found += fitting[: self._settings[name].limit]
        return _each_once(found), degraded

    def close(self) -> None:
        """Close the connections; searches that still run end by themselves."""
        with self._lock:
            threads, collections = self._threads, list(self._collections.values())
            self._threads, self._collections = None, {}
        if threads is not None:
            threads.shutdown(wait=False, cancel_futures=True)
        for collection in collections:
            collection.close()

    def _search(
        self, name: str, vector: DenseVector, tenant: TenantId, owners: Sequence[str], limit: int
    ) -> list[SourceHit]:
        return self._opened(name).search(vector, tenant, owners, limit)

    def _pool(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="source")
            return self._threads

    def _opened(self, name: str) -> External:
        """The collection of a source. Raises SourceMismatch when its key is to come from a variable that is not set."""
        settings = self._settings[name]
        with self._lock:
            if name not in self._collections:
                key = None if settings.key_variable is None else os.environ.get(settings.key_variable)
                if settings.key_variable is not None and not key:
                    raise SourceMismatch(f"{settings.key_variable}, the variable of its api key, is not set")
                self._collections[name] = self._open(settings, key, self._dimension)
            return self._collections[name]


class _Read:
    """A point as it was read: what is usable of it."""

    def __init__(self, name: str, settings: SourceSettings, hit: SourceHit, zone: ZoneInfo) -> None:
        self.bad_metadata = self.bad_time = False
        text = _at(hit.payload, settings.text)
        cleaned = clipped(clean(text).strip(), settings.max_chars) if isinstance(text, str) else ""
        owner = None if settings.owner is None else _at(hit.payload, settings.owner)
        self.item = None
        if cleaned:
            self.item = SourceItem(
                id=uuid5(SPACE, f"{name}\n{hit.id}"),
                source=name,
                point_id=hit.id,
                cosine=hit.score,
                text=cleaned,
                said_at=None if settings.time is None else self._time(_at(hit.payload, settings.time), zone),
                metadata=self._metadata(settings, hit.payload),
                owner=clean(owner)[:MAX_OWNER_CHARS] if isinstance(owner, str) else "",
            )

    def _time(self, value: object, zone: ZoneInfo) -> datetime | None:
        if value is None:
            return None
        try:
            return parse_timestamp(value, zone, "time").astimezone(UTC)
        except InvalidInput:
            self.bad_time = True
            return None

    def _metadata(self, settings: SourceSettings, payload: Mapping[str, object]) -> Mapping[str, object]:
        found = {name: value for name in settings.metadata if (value := _at(payload, name)) is not None}
        try:
            return checked_metadata(found, "The point", METADATA)
        except InvalidInput:
            self.bad_metadata = True
            return {}


def _at(payload: Mapping[str, object], name: str) -> object:
    """The value of a field, of one within others by a name with dots; None when it is not there."""
    if name in payload:
        return payload[name]
    value: object = payload
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _unusable(name: str, settings: SourceSettings, read: Sequence[_Read]) -> list[str]:
    """A sentence for each sort of field that some points do not have."""
    counts = (
        (sum(one.item is None for one in read), f"without a text in {settings.text!r:.80} were left out"),
        (sum(one.bad_time for one in read), f"have no time in {settings.time!r:.80} that can be read"),
        (sum(one.bad_metadata for one in read), "have metadata that are too long or too deep: they were left out"),
    )
    return [f"Source {name}: {count} of {len(read)} points {what}." for count, what in counts if count]


def _within(item: SourceItem, bounds: Bounds, metadata: Test | None) -> bool:
    """Whether a item lies in the bounds of time and metadata; one without a time lies in no bounds of time."""
    if bounds.said_until is not None and (item.said_at is None or item.said_at > bounds.said_until):
        return False
    spans = [] if item.said_at is None else [(item.said_at, item.said_at)]
    if bounds.between != ALWAYS and not touches(spans, bounds.between):
        return False
    return metadata is None or metadata(item.metadata)


def _each_once(items: Sequence[SourceItem]) -> list[SourceItem]:
    """Of items with the same words and time the nearest."""
    best: dict[tuple[str, datetime | None], SourceItem] = {}
    for item in sorted(items, key=lambda item: (-item.cosine, item.source, item.point_id)):
        best.setdefault((item.text, item.said_at), item)
    return list(best.values())
