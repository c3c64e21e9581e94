"""External collections that are searched in addition to forests: all at once, for a bounded time, never written."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as OutOfTime
from dataclasses import dataclass
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
from memforest_core.index.vector_index import DenseVector, External, SourceHit, SourceMismatch
from memforest_core.recall.request import ALWAYS, Bounds, touches
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


Searching = Mapping[str, tuple[Future[list[SourceHit]], float]]
"""Searches under way: what each source will have found, and until when it is waited for (monotonic seconds)."""


@dataclass(frozen=True, slots=True)
class SourceItem:
    """A point that may be evidence; ``id`` is its id among cells and facts, ``evidence`` is cleaned, cut and without a
    score."""

    id: UUID
    cosine: float
    said_at: datetime | None
    evidence: Evidence

    @property
    def spans(self) -> Sequence[tuple[datetime, datetime]]:
        """Its time; none when that is unknown."""
        return [] if self.said_at is None else [(self.said_at, self.said_at)]


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
        return answers

    def items(
        self, searching: Searching, bounds: Bounds, metadata: Test | None, zone: ZoneInfo
    ) -> tuple[list[SourceItem], list[str]]:
        """What the sources found within the bounds, and a sentence for what could not be had. Naive times of points are
        in the ``zone``.

        Bounds of sessions, channels, speakers and roles are the forest's: a source is chosen by its name.
        """
        found: list[SourceItem] = []
        degraded: list[str] = []
        for name, (answer, until) in searching.items():
            hits = _answered(name, answer, until)
            if isinstance(hits, str):
                degraded.append(hits)
                continue
            settings, faults = self._settings[name], Counter[str]()
            items = [_item(name, settings, hit, zone, faults) for hit in hits]
            degraded += [
                f"Source {name}: {faults[what]} of {len(hits)} points {what}."
                for what in _faults(settings)
                if faults[what]
            ]
            fitting = [item for item in items if item is not None and _within(item, bounds, metadata)]
            found += fitting[: settings.limit]
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

    def _pool(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="source")
            return self._threads

    def _search(
        self, name: str, vector: DenseVector, tenant: TenantId, owners: Sequence[str], limit: int
    ) -> list[SourceHit]:
        """What the collection of a source finds. Raises SourceMismatch when its key is to come from a variable that is
        not set."""
        settings = self._settings[name]
        with self._lock:
            if name not in self._collections:
                key = None if settings.key_variable is None else os.environ.get(settings.key_variable)
                if settings.key_variable is not None and not key:
                    raise SourceMismatch(f"{settings.key_variable}, the variable of its api key, is not set")
                self._collections[name] = self._open(settings, key, self._dimension)
            collection = self._collections[name]
        return collection.search(vector, tenant, owners, limit)


def _answered(name: str, answer: Future[list[SourceHit]], until: float) -> list[SourceHit] | str:
    """The hits of a source, or what to say of one that has none to give."""
    try:
        return answer.result(max(0.0, until - time.monotonic()))
    except (OutOfTime, CancelledError):
        answer.cancel()
        return f"Source {name} did not answer in time: it was left out."
    except SourceMismatch as error:
        return f"Source {name} was left out: {error.message}."
    except MemForestError as error:
        # What a foreign server gives as its reason is not repeated.
        log.warning("source_unavailable", source=name, code=error.code)
        reason = "is unavailable" if isinstance(error, IndexUnavailable) else "refuses the query"
        return f"Source {name} was left out: it {reason}."


def _faults(settings: SourceSettings) -> tuple[str, str, str]:
    """What is said of points without a usable text, time or metadata."""
    return (
        f"without a text in {settings.text!r:.80} were left out",
        f"have no time in {settings.time!r:.80} that can be read",
        "have metadata that are too long or too deep: they were left out",
    )


def _item(
    name: str, settings: SourceSettings, hit: SourceHit, zone: ZoneInfo, faults: Counter[str]
) -> SourceItem | None:
    """What is usable of a point; what is not is counted in ``faults``."""
    no_text, no_time, no_metadata = _faults(settings)
    text = _at(hit.payload, settings.text)
    cleaned = clipped(clean(text).strip(), settings.max_chars) if isinstance(text, str) else ""
    if not cleaned:
        faults[no_text] += 1
        return None
    said_at, when = None, None if settings.time is None else _at(hit.payload, settings.time)
    try:
        said_at = None if when is None else parse_timestamp(when, zone, "time").astimezone(UTC)
    except InvalidInput:
        faults[no_time] += 1
    metadata = {field: value for field in settings.metadata if (value := _at(hit.payload, field)) is not None}
    try:
        metadata = checked_metadata(metadata, "The point", METADATA)
    except InvalidInput:
        faults[no_metadata] += 1
        metadata = {}
    owner = None if settings.owner is None else _at(hit.payload, settings.owner)
    span = UNKNOWN_TIME if said_at is None else TimeSpan(said_at, said_at, Precision.MINUTE)
    evidence = Evidence(
        text=cleaned,
        time=span,
        time_label=day_label(span, zone),
        score=0.0,
        kind=EvidenceKind.EXTERNAL,
        fact_ids=(),
        session_id="",
        turn_ids=(),
        ordinal=0,
        speaker="",
        freshness=Freshness.RAW,
        metadata=metadata,
        owner=clean(owner)[:MAX_OWNER_CHARS] if isinstance(owner, str) else "",
        source=name,
        point_id=hit.id,
    )
    return SourceItem(uuid5(SPACE, f"{name}\n{hit.id}"), hit.score, said_at, evidence)


def _at(payload: Mapping[str, object], name: str) -> object:
    """The value of a field, of one within others by a name with dots; None when it is not there."""
    if name in payload:
        return payload[name]
    value: object = payload
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _within(item: SourceItem, bounds: Bounds, metadata: Test | None) -> bool:
    """Whether an item lies in the bounds of time and metadata; one without a time lies in no bounds of time."""
    if bounds.said_until is not None and (item.said_at is None or item.said_at > bounds.said_until):
        return False
    if bounds.between != ALWAYS and not touches(item.spans, bounds.between):
        return False
    return metadata is None or metadata(item.evidence.metadata)


def _each_once(items: Sequence[SourceItem]) -> list[SourceItem]:
    """Of items with the same words and time the nearest."""
    best: dict[tuple[str, datetime | None], SourceItem] = {}
    for item in sorted(items, key=lambda item: (-item.cosine, item.evidence.source, item.evidence.point_id)):
        best.setdefault((item.evidence.text, item.said_at), item)
    return list(best.values())
