"""Drains a forest's extracted cells into facts and trees: one short transaction, nothing slow inside."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeVar

import structlog

from memforest_core.domain.ids import FactId, ForestId, TenantId
from memforest_core.errors import MemForestError, PermanentError, RetryableError
from memforest_core.index.records import PointLease
from memforest_core.index.vector_index import VectorIndex
from memforest_core.ingest.reduce.canonical import near_facts
from memforest_core.ingest.reduce.placing import Placing, retire
from memforest_core.ingest.reduce.records import ReduceBatch, WaitingCandidate, WaitingForest, ruled
from memforest_core.ingest.reduce.rows import ReduceQueueRows, ReduceRows
from memforest_core.models.calls import CallRecord, Embedder, OwnText, Vectors
from memforest_core.models.statement_vectors import StatementEmbedder, parts_of
from memforest_core.settings import Settings
from memforest_core.store.engine import Engine
from memforest_core.store.repeating import repeated
from memforest_core.work.telemetry import SILENT, Telemetry

log = structlog.get_logger(__name__)

T = TypeVar("T")

BATCH_CELLS = 256
"""Cells of one batch."""
UNSEEN_LIMIT = 2_000
"""Not yet indexed facts that a batch is compared with; near merging is best effort beyond."""

FAILED_DELAY_S = 2.0

STEP = "reduce"


class Reduced(StrEnum):
    """How one drain ended."""

    NOTHING = "nothing"
    DONE = "done"
    BUSY = "busy"
    """Another worker writes this forest; it re-checks after its commit."""
    LATER = "later"


@dataclass(frozen=True, slots=True)
class Reduction:
    """The end of one drain: the forest, how many cells were placed, how many facts are new."""

    ended: Reduced
    forest_id: ForestId | None = None
    cells: int = 0
    new_facts: int = 0


Made = tuple[Mapping[str, Vectors], CallRecord]
"""The vectors of texts that were embedded again for a batch, and the call that made them."""


class ReductionService:
    """Drains forests of a tenant, one batch per call."""

    def __init__(
        self, engine: Engine, index: VectorIndex, embedder: Embedder, settings: Settings, telemetry: Telemetry = SILENT
    ) -> None:
        self._index = index
        self._engine = engine
        self._statements = StatementEmbedder(embedder)
        self._model = embedder.model
        self._settings = settings
        self._telemetry = telemetry

    def run_one(self, tenant: TenantId, lease: PointLease | None = None) -> Reduction:
        """Drain one batch of one forest; index rows of new facts are made under the ``lease``, for a caller that
        indexes them. Raises StoreUnavailable."""
        with ReduceRows.opened(self._engine, tenant) as rows:
            waiting = rows.queue.waiting(BATCH_CELLS)
        return Reduction(Reduced.NOTHING) if waiting is None else self._drain(tenant, waiting, lease)

    def _drain(self, tenant: TenantId, waiting: WaitingForest, lease: PointLease | None) -> Reduction:
        """Place cells; on a permanent fault bisect them, so that only the culprit is buried."""
        try:
            return self._drain_whole(tenant, waiting, lease)
        except PermanentError as error:
            log.warning("batch_refused", forest=str(waiting.forest_id), cells=len(waiting.cells), code=error.code)
            if len(waiting.cells) == 1:
                fault = error.code, error.message
                if not self._queue(tenant, lambda queue: queue.bury_cell(waiting, *fault)):
                    return Reduction(Reduced.BUSY, waiting.forest_id)
                self._telemetry.buried(STEP, tenant, error.code)
                return Reduction(Reduced.DONE, waiting.forest_id)
        except RetryableError as error:
            self._telemetry.retried(STEP, tenant, error.code)
            self._queue(tenant, lambda queue: queue.delay_forest(waiting.forest_id, FAILED_DELAY_S))
            raise
        half = len(waiting.cells) // 2
        first, second = (
            self._drain(tenant, replace(waiting, cells=part), lease)
            for part in (waiting.cells[:half], waiting.cells[half:])
        )
        cells, new_facts = first.cells + second.cells, first.new_facts + second.new_facts
        return Reduction(Reduced.DONE, waiting.forest_id, cells, new_facts)

    @repeated
    def _queue(self, tenant: TenantId, act: Callable[[ReduceQueueRows], T]) -> T:
        with ReduceRows.opened(self._engine, tenant) as rows:
            return act(rows.queue)

    @repeated
    def _drain_whole(self, tenant: TenantId, waiting: WaitingForest, lease: PointLease | None) -> Reduction:
        with ReduceRows.opened(self._engine, tenant) as rows:
            batch = rows.queue.load(waiting, self._model)
        with self._spans(batch):
            try:
                batch, made = self._completed(batch)
            except MemForestError as error:
                # The embedder failed, not the cells.
                self._telemetry.retried(STEP, tenant, error.code)
                self._queue(tenant, lambda queue: queue.delay_forest(waiting.forest_id, FAILED_DELAY_S))
                return Reduction(Reduced.LATER, waiting.forest_id)
            settings = ruled(self._settings, batch.rules, held=batch.held)
            near = near_facts(self._index, tenant, batch, settings.reduce)
            with ReduceRows.opened(self._engine, tenant) as rows:
                if rows.lock_forest(batch.forest_id, wait=False) is None:
                    return Reduction(Reduced.BUSY, batch.forest_id)
                reduction, ages = self._place(rows, batch, near, settings, made, lease)
        # Cells of a rebuild are old: their age says nothing about the delay of new facts.
        for age in () if batch.held else ages:
            self._telemetry.reached("facts", tenant, age)
        return reduction

    def _completed(self, batch: ReduceBatch) -> tuple[ReduceBatch, Made | None]:
        """The batch with the vectors that were missing (of texts that an erase dropped meanwhile), and the call that
        made them; nothing is locked."""
        missing = [
            waiting.candidate.statement
            for cell in batch.cells
            for waiting in cell.candidates
            if waiting.vector is None or waiting.routing_vector is None
        ]
        if not missing:
            return batch, None
        texts = list(dict.fromkeys(text for said in missing for text in (said.text, said.routing_text)))
        embedded = self._statements.embed(texts, parts_of(missing))
        vectors: Mapping[str, Vectors] = dict(zip(texts, embedded.vectors, strict=True))

        def complete(waiting: WaitingCandidate) -> WaitingCandidate:
            said, vector, routing = waiting.candidate.statement, waiting.vector, waiting.routing_vector
            vector = vectors[said.text] if vector is None else vector
            return replace(
                waiting, vector=vector, routing_vector=vectors[said.routing_text] if routing is None else routing
            )

        cells = (replace(cell, candidates=tuple(map(complete, cell.candidates))) for cell in batch.cells)
        return replace(batch, cells=tuple(cells)), (vectors, embedded.record)

    def _spans(self, batch: ReduceBatch) -> ExitStack:
        """One span in the trace of each session that the batch has cells of."""
        spans = ExitStack()
        for session, trace in {cell.session_id: cell.trace for cell in batch.cells if cell.trace}.items():
            spans.enter_context(self._telemetry.span(STEP, trace, session=str(session), forest=str(batch.forest_id)))
        return spans

    def _place(
        self,
        rows: ReduceRows,
        batch: ReduceBatch,
        near: tuple[list[FactId], list[FactId]] | None,
        settings: Settings,
        made: Made | None,
        lease: PointLease | None,
    ) -> tuple[Reduction, Sequence[float]]:
        waiting = rows.queue.still_waiting(batch)
        batch = replace(batch, cells=tuple(cell for cell in batch.cells if cell.id in waiting))
        if not batch.cells:
            return Reduction(Reduced.DONE, batch.forest_id), ()
        if made is not None:
            vectors, record = made
            said = [one.candidate.statement for cell in batch.cells for one in cell.candidates]
            texts = {text for each in said for text in (each.text, each.routing_text)} & vectors.keys()
            own = {OwnText(batch.forest_id, text): vectors[text] for text in sorted(texts)}
            rows.store_vectors(self._model, own, record, batch.forest_id)
        compared = {
            fact.id: fact
            for fact in (
                *rows.canon.known_facts(near[0] if near is not None else (), self._model),
                *rows.canon.unseen_facts(batch.forest_id, UNSEEN_LIMIT, self._model),
            )
        }
        # No candidate is merged into a fact that is about to be deleted.
        reopened = [cell.id for cell in batch.cells if cell.reopened]
        for going in rows.superseded_only(reopened) if reopened else ():
            compared.pop(going, None)
        nearby = near[1] if near is not None else None
        new_facts = Placing(rows, batch, compared, settings, nearby, lease).run()
        if reopened:
            retire(rows, batch.forest_id, reopened, self._model, settings)
        # The delay from session to facts is measured at cells that are placed for the first time.
        if reopened:
            rows.queue.set_placed(reopened)
        ages = rows.queue.set_placed([cell.id for cell in batch.cells if not cell.reopened])
        return Reduction(Reduced.DONE, batch.forest_id, len(batch.cells), new_facts), ages
