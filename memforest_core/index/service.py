"""The indexer: rows that are behind get their vectors and their points, in batches."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple
from uuid import UUID

from memforest_core.domain.ids import LeaseToken, TenantId, WorkerId
from memforest_core.errors import IndexUnavailable, MemForestError, StoreUnavailable
from memforest_core.index.records import LEASE_S, PointLease, StalePoint, texts_of
from memforest_core.index.rows import OpenIndexRows
from memforest_core.index.vector_index import PointKind, VectorIndex
from memforest_core.models.calls import CallRecord, Embedder, OwnText, Vectors
from memforest_core.models.limits.model_limits import input_name
from memforest_core.models.outages import OutagePause
from memforest_core.models.token_vectors import MODELS, to_bytes
from memforest_core.store.repeating import repeated
from memforest_core.store.vectors import as_stored
from memforest_core.work.jobs import LONGEST_DELAY_S, decide
from memforest_core.work.telemetry import SILENT, Telemetry

STEP = "index"

FIRST_TEXTS = 64
"""Embedded at once before it is known how fast the model is: one call by the default of embedding.batch."""
PORTION_S = LEASE_S / 6
"""Of a batch as many texts are embedded at once as take so long; then their vectors are stored, and the lease is
renewed. A sixth, because other threads may ask the same model meanwhile."""


class Embedding(NamedTuple):
    """Vectors of texts, the token vectors of the cells among them as they are stored, and the record of the call."""

    vectors: dict[OwnText, Vectors]
    tokens: dict[OwnText, bytes]
    record: CallRecord


class Pace:
    """How many texts an embedding model takes at once, by how long the last ones took. Thread-safe: one number is
    replaced."""

    def __init__(self) -> None:
        self._text_s: float | None = None

    @property
    def texts(self) -> int:
        """As many as fit into ``PORTION_S``, at least one; ``FIRST_TEXTS`` before any was seen."""
        if self._text_s is None:
            return FIRST_TEXTS
        return max(1, int(PORTION_S / max(self._text_s, 1e-6)))

    def took(self, seconds: float, texts: int) -> None:
        """So many texts were embedded in this time."""
        self._text_s = seconds / texts


@dataclass(frozen=True)
class Indexer:
    """Indexes a tenant's stale rows. Thread-safe."""

    open_rows: OpenIndexRows
    index: VectorIndex
    embedder: Embedder
    batch: int
    """Rows that are indexed at once."""
    rng: random.Random
    telemetry: Telemetry = SILENT
    clock: Callable[[], float] = time.monotonic
    """Seconds, monotonic."""

    @cached_property
    def _pause(self) -> OutagePause:
        return OutagePause(self.clock)

    @cached_property
    def _pace(self) -> Pace:
        return Pace()

    def run_one(
        self, tenant: TenantId, worker: WorkerId, kinds: Sequence[PointKind], lease: PointLease | None = None
    ) -> int:
        """Index one batch; how many rows are up to date now (0: none was behind, or the index is unavailable).

        ``lease``: rows that the worker has made under it are indexed in addition to those that wait.

        Vectors are committed before the index is written, so that nothing is embedded twice; those of a slow model in
        portions, each of which renews the lease. Neither is written for a row whose lease was lost; a point that was
        erased while it was written is deleted again. While the index is unavailable nothing is claimed. Raises
        StoreUnavailable.
        """
        lease = PointLease(worker) if lease is None else lease
        if not self._reachable():
            if lease.points:
                self._release(tenant, lease)
            return 0
        started, token = self.clock(), lease.token
        points, known = self._claimed(tenant, kinds, lease)
        if not points:
            return 0
        outcome = "done"
        try:
            with self.telemetry.span(STEP):
                self._write(tenant, token, points, known)
        except StoreUnavailable as error:
            self._give_back(tenant, token, points, error)
            raise
        except IndexUnavailable as error:
            self._pause.failed()
            outcome = error.code
            self._give_back(tenant, token, points, error)
        except MemForestError as error:
            outcome = error.code
            decision = decide(error, attempts=1, max_attempts=1, divisible=False, jitter=self.rng.random())
            self._give_back(tenant, token, points, error, max(1.0, decision.delay_s))
        self.telemetry.worked(STEP, tenant, self.clock() - started, outcome)
        if outcome == "done":
            for point in points:
                if point.waited_s is not None:
                    self.telemetry.reached("raw", tenant, point.waited_s + self.clock() - started)
            return len(points)
        self.telemetry.retried(STEP, tenant, outcome)
        return 0

    @repeated
    def _claimed(
        self, tenant: TenantId, kinds: Sequence[PointKind], lease: PointLease
    ) -> tuple[list[StalePoint], dict[OwnText, Vectors]]:
        """What is under the lease now, and the vectors that it needs and that are stored."""
        with self.open_rows(tenant) as rows:
            points = rows.claim_points(kinds, lease, self.batch)
            cells = _turns(points) if self.embedder.model in MODELS else ()
            return points, rows.known_vectors(self.embedder.model, texts_of(points), cells)

    @repeated
    def _release(self, tenant: TenantId, lease: PointLease) -> None:
        with self.open_rows(tenant) as rows:
            rows.release_points(lease)

    def _reachable(self) -> bool:
        """Whether to go on. After an outage the collection is created if the index came back without it."""
        if not self._pause.may_try():
            return False
        if self._pause.unavailable:
            try:
                self.index.prepare()
            except IndexUnavailable:
                self._pause.failed()
                return False
            self._pause.worked()
        return True

    def _write(
        self, tenant: TenantId, token: LeaseToken, points: Sequence[StalePoint], known: dict[OwnText, Vectors]
    ) -> None:
        """Write what is still under the lease; delete what was erased meanwhile."""
        vectors = dict(known)
        missing = [text for text in texts_of(points) if text not in known]
        held = frozenset(point.id for point in points)
        # What was claimed just now and needs no vector is looked at again when it is written.
        if not missing and not all(point.wanted for point in points):
            held = self._held(tenant, token, points, None)
        failed: dict[str, MemForestError] = {}
        for embedded in self._embedded(missing, _turns(points), failed):
            vectors |= embedded.vectors
            self.telemetry.called(tenant, [embedded.record])
            more = any(text not in vectors for text in missing)
            # A row that somebody else had locked while a portion was stored is missing the vectors of that portion.
            held &= self._held(tenant, token, points, embedded, renew=more)
            if not held:
                break
        for point in points:
            if (error := failed.get(point.text)) is not None:
                self._give_back(tenant, token, [point], error, LONGEST_DELAY_S)
        points = [point for point in points if point.text not in failed]
        mine = [point for point in points if point.id in held]
        gone = [point for point in mine if point.gone]
        there = [point for point in mine if point.wanted]
        cold = [point for point in mine if point.cold]
        if gone or cold:
            self.index.delete([point.key(tenant) for point in (*gone, *cold)])
        self.index.upsert([point.point(tenant, vectors) for point in there])
        written, dropped = _versions([*there, *cold]), _versions(gone)
        claimed = [point.id for point in points]
        ended, left = self._finish(tenant, token, claimed, written, dropped)
        for alone in left:
            ended |= self._finish(tenant, token, claimed, written, dropped, alone)[0]
        self._undo(tenant, token, [point for point in points if point.id not in ended])

    @repeated
    def _held(
        self,
        tenant: TenantId,
        token: LeaseToken,
        points: Sequence[StalePoint],
        embedded: Embedding | None,
        *,
        renew: bool = False,
    ) -> frozenset[UUID]:
        """Commit the vectors of what is still under the lease, and renew it if there is more to embed; the points that
        may be written."""
        with self.open_rows(tenant) as rows:
            held = rows.hold_points(token, {point.id: point.version for point in points})
            if renew:
                rows.renew_leases(token, list(held))
            if embedded is not None:
                current = set(texts_of([point for point in points if point.id in held]))
                made = {text: vector for text, vector in embedded.vectors.items() if text in current}
                rows.put_vectors(self.embedder.model, made, embedded.tokens)
                rows.record_calls([embedded.record], None, None)
        return held

    @repeated
    def _finish(
        self,
        tenant: TenantId,
        token: LeaseToken,
        claimed: Sequence[UUID],
        written: dict[UUID, int],
        dropped: dict[UUID, int],
        alone: UUID | None = None,
    ) -> tuple[frozenset[UUID], frozenset[UUID]]:
        with self.open_rows(tenant) as rows:
            return rows.finish_points(token, claimed, written, dropped, alone)

    @repeated
    def _give_back(
        self,
        tenant: TenantId,
        token: LeaseToken,
        points: Sequence[StalePoint],
        error: MemForestError,
        delay_s: float | None = None,
    ) -> None:
        with self.open_rows(tenant) as rows:
            rows.give_back_points(token, [point.id for point in points], error.code, error.message, delay_s)

    def _undo(self, tenant: TenantId, token: LeaseToken, lost: Sequence[StalePoint]) -> None:
        """Delete the points of what has no row any more, or a tombstone: nobody else may know of them."""
        if not lost:
            return
        with self.open_rows(tenant) as rows:
            found = rows.point_rows([point.id for point in lost])
        orphans = [
            point
            for point in lost
            if not point.wanted
            or (row := found.get(point.id)) is None
            or row.deleted
            or row.forest_id != point.forest_id
        ]
        self.index.delete([point.key(tenant) for point in orphans])
        with self.open_rows(tenant) as rows:
            rows.undo_points(token, [point.id for point in orphans], [point.id for point in lost])

    def _embedded(
        self, missing: Sequence[OwnText], cells: Mapping[OwnText, Sequence[int]], failed: dict[str, MemForestError]
    ) -> Iterator[Embedding]:
        """The vectors of texts, each embedded once for all forests, in portions that keep to the lease; ``cells`` says
        where the turns of those begin that are cells. Texts that the model alone can't embed are added to ``failed``.
        """
        owners: dict[str, list[OwnText]] = {}
        for own in missing:
            owners.setdefault(own.text, []).append(own)
        texts = list(owners)
        while texts:
            some, texts = texts[: (size := self._pace.texts)], texts[size:]
            started = self.clock()
            try:
                embedded = self.embedder.embed(some)
            except MemForestError as error:
                bad = dict.fromkeys((text for text in some if input_name([text]) in error.inputs), error)
                if not bad:
                    raise
                failed |= bad
                texts = [text for text in some if text not in bad] + texts
                continue
            self._pace.took(self.clock() - started, len(some))
            found = zip(some, map(as_stored, embedded.vectors), strict=True)
            vectors = {own: vector for text, vector in found for own in owners[text]}
            tokens: dict[OwnText, bytes] = {}
            if embedded.tokens is not None:
                for text, each in zip(some, embedded.tokens, strict=True):
                    tokens |= {own: to_bytes(each, cells[own]) for own in owners[text] if own in cells}
            yield Embedding(vectors, tokens, embedded.record)


def _versions(points: Sequence[StalePoint]) -> dict[UUID, int]:
    return {point.id: point.version for point in points}


def _turns(points: Sequence[StalePoint]) -> dict[OwnText, tuple[int, ...]]:
    """Where the turns begin in the texts of cells."""
    return {point.own_text: point.turns for point in points if point.turns}
