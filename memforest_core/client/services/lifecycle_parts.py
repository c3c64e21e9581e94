"""Operations on stored memory, wired: their requests, and the steps that workers take."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cached_property, partial

from memforest_core.client.services.process_parts import Process
from memforest_core.client.services.producer_services import open_producer
from memforest_core.domain.ids import FactId, TenantId
from memforest_core.domain.operation_rules import OPERATIONS, OperationKind
from memforest_core.index.collection_rows import CollectionStore
from memforest_core.index.index_opening import open_index
from memforest_core.index.rows import IndexStore
from memforest_core.index.service import Indexer
from memforest_core.lifecycle.bundle.importing import BundleParts
from memforest_core.lifecycle.bundle.service import Bundles
from memforest_core.lifecycle.correct.service import Correction
from memforest_core.lifecycle.erase.service import Erasure
from memforest_core.lifecycle.erase.steps import Clearing, Erasing, ForestEraser, Vacuuming
from memforest_core.lifecycle.merge.service import Merging
from memforest_core.lifecycle.rebuild.embedding import Reembedding
from memforest_core.lifecycle.rebuild.planner import Planner
from memforest_core.lifecycle.rebuild.rows.forest_sizes import PlanRows
from memforest_core.lifecycle.rebuild.service import Rematerializing
from memforest_core.lifecycle.retain.service import Retention
from memforest_core.models.accounting import ListPrices, Price
from memforest_core.models.calls import Embedder, Step
from memforest_core.models.limits.limited_models import limit_embedder, open_limits
from memforest_core.models.model_opening import BUILT_IN_EMBEDDINGS, open_embedder, step_settings
from memforest_core.settings import OFFLINE, Settings
from memforest_core.store.schema import check_ready
from memforest_core.work.operations import needs_its_file, undo_import, undo_nothing
from memforest_core.work.records import TaskId
from memforest_core.work.runner import Handler


class LifecycleParts:
    """What runs operations on stored memory: each part is made on first use."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._engine = process.engine
        self._settings = process.settings
        self.operations = process.operations

    @cached_property
    def erasure(self) -> Erasure:
        """Requests for deletions, and their receipts."""
        return Erasure(self._engine, self.operations)

    @cached_property
    def erasing(self) -> Erasing:
        """The steps of deletions."""
        model = self._process.embedder.model
        return Erasing(self._engine, self._process.index, self.clearing, model, self._settings)

    @cached_property
    def clearing(self) -> Clearing:
        """Deleting whole forests that other operations leave behind."""
        return Clearing(self._engine, self._process.index, self._process.embedder.dimension)

    @cached_property
    def eraser(self) -> ForestEraser:
        """Deleting facts and words at once, for operations that do it inside their own steps."""
        return ForestEraser(self._engine, self._process.embedder.model, self._settings)

    @cached_property
    def vacuuming(self) -> Vacuuming:
        """The vacuum that follows deletions."""
        return Vacuuming(self._engine, self._settings.worker.vacuum_every_s)

    @cached_property
    def correction(self) -> Correction:
        """Correcting and pinning facts; the deletion of a corrected fact is an operation of its own."""

        def erase_fact(tenant: TenantId, owner: str, fact: FactId, actor: str, part_of: TaskId) -> TaskId:
            return self.erasure.ask(tenant, owner, fact=fact, actor=actor, part_of=part_of)

        return Correction(self._engine, self._process.embedder, self._process.producer.wakeups, erase_fact)

    @cached_property
    def merging(self) -> Merging:
        """Merging forests."""
        model = self._process.embedder.model
        return Merging(self._engine, self.operations, self._process.index, model, self._settings, self.clearing.clear)

    @cached_property
    def bundles(self) -> Bundles:
        """Export and import, by the process that has the file: no worker takes part."""
        process = self._process
        return Bundles(BundleParts(self._engine, process.embedder, process.producer.wakeups, self._settings))

    @cached_property
    def rematerializing(self) -> Rematerializing:
        """Rebuilding forests."""
        settings, engine = self._settings, self._engine
        planner = Planner(
            partial(PlanRows.opened, engine), settings, _models(self._process), _prices(settings), self._process.prompts
        )
        model, wakeups = self._process.embedder.model, self._process.producer.wakeups
        return Rematerializing(engine, self.operations, planner, settings, model, wakeups, self.clearing.clear)

    @cached_property
    def retention(self) -> Retention:
        """Policies and the runs that apply them."""
        return Retention(self._engine, self.operations, self.eraser)

    def handlers(self) -> dict[str, Handler]:
        """The handlers of operations, by kind."""
        deleting: dict[str, Handler] = {
            OperationKind.ERASE: self.erasing.step,
            OperationKind.CORRECT: self.correction.step,
            OperationKind.REMATERIALIZE: self.rematerializing.step,
            OperationKind.MERGE: self.merging.step,
            OperationKind.RETAIN: self.retention.step,
        }
        following = {kind: self.vacuuming.following(handler) for kind, handler in deleting.items()}
        return following | {
            OperationKind.IMPORT: needs_its_file,
            OperationKind.EXPORT: needs_its_file,
            OperationKind.VACUUM: self.vacuuming.step,
        }

    def undo(self) -> dict[str, Handler]:
        """The handlers of operations that were cancelled, by kind."""
        nothing: dict[str, Handler] = {kind: undo_nothing for kind in OPERATIONS}
        clearing: dict[str, Handler] = {
            OperationKind.MERGE: self.merging.undo,
            OperationKind.REMATERIALIZE: self.rematerializing.undo,
            OperationKind.IMPORT: undo_import(self.clearing.clear),
        }
        return nothing | {kind: self.vacuuming.following(handler) for kind, handler in clearing.items()}


def _models(process: Process) -> dict[Step, str | None]:
    """What a plan counts the costs of: rules cost nothing."""
    named = {step: step_settings(process.settings.llm, step).model for step in (Step.EXTRACT, Step.SUMMARIZE)}
    chat = {step: None if model == OFFLINE else model for step, model in named.items()}
    return chat | {Step.EMBED: process.embedder.model}


def _prices(settings: Settings) -> ListPrices:
    given = {step: step_settings(settings.llm, step).price for step in (Step.EXTRACT, Step.SUMMARIZE)}
    embedding = Price(prompt=settings.embedding.input_usd_per_mtok)
    return ListPrices(given | {Step.EMBED: embedding}, frozenset(BUILT_IN_EMBEDDINGS))


@contextmanager
def open_reembedding(settings: Settings, embedder: Embedder | None = None) -> Iterator[Reembedding]:
    """Giving the whole database the embedding model of these settings; the live collection is not read.

    Raises InvalidSettings for a database at another schema, StoreUnavailable.
    """
    with ExitStack() as undo:
        producer = open_producer(settings)
        undo.callback(producer.close)
        check_ready(producer.engine)
        limits = open_limits(settings)
        undo.callback(limits.close)
        embedder = embedder or limit_embedder(open_embedder(settings.embedding), limits, settings.embedding)
        index = open_index(settings, embedder)
        undo.callback(index.close)
        rows = IndexStore(producer.engine)
        indexer = Indexer(rows, index, embedder, settings.index.batch, random.Random())  # noqa: S311 - jitter
        yield Reembedding(
            producer.engine,
            rows,
            CollectionStore(producer.engine).tenants,
            embedder,
            index,
            indexer.run_one,
            _prices(settings),
            settings.worker.dead_after_s,
        )
