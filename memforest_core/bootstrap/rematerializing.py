"""Building forests anew, wired."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from memforest_core.bootstrap.process import Process
from memforest_core.bootstrap.producer import open_producer
from memforest_core.index.collection_rows import CollectionStore
from memforest_core.index.opening import open_index
from memforest_core.index.rows import IndexStore
from memforest_core.index.service import Indexer
from memforest_core.models.calls import Embedder, Step
from memforest_core.models.limits.opening import limit_embedder, open_limits
from memforest_core.models.opening import BUILT_IN_EMBEDDINGS, open_embedder, step_settings
from memforest_core.models.prices import ListPrices, Price
from memforest_core.settings import OFFLINE, Settings
from memforest_core.store.schema import check_ready
from memforest_core.transfer.rebuild.embedding import Reembedding
from memforest_core.transfer.rebuild.planning import Models, Planner
from memforest_core.transfer.rebuild.rows.rebuilding import CopyStore
from memforest_core.transfer.rebuild.rows.reembedding import ReembedStore
from memforest_core.transfer.rebuild.service import Clear, Rematerializing


def open_rematerializing(process: Process, clear: Clear) -> Rematerializing:
    """Asking for forests to be built anew, and the steps of it; ``clear`` deletes a gone forest batch by batch."""
    settings, store = process.settings, CopyStore(process.engine)
    return Rematerializing(
        store,
        process.operations,
        Planner(store.planning, settings, _models(process), _prices(settings)),
        settings,
        process.embedder.model,
        process.producer.wakeups,
        clear,
    )


def _models(process: Process) -> Models:
    extract, summarize = (
        None if (model := step_settings(process.settings.llm, step).model) == OFFLINE else model
        for step in (Step.EXTRACT, Step.SUMMARIZE)
    )
    return Models(extract, summarize, process.embedder.model)


def _prices(settings: Settings) -> ListPrices:
    given: dict[Step, Price] = {
        step: (found.input_usd_per_mtok, found.output_usd_per_mtok)
        for step in (Step.EXTRACT, Step.SUMMARIZE)
        if (found := step_settings(settings.llm, step))
    }
    return ListPrices(
        given | {Step.EMBED: (settings.embedding.input_usd_per_mtok, None)}, frozenset(BUILT_IN_EMBEDDINGS)
    )


@contextmanager
def open_reembedding(settings: Settings, embedder: Embedder | None = None) -> Iterator[Reembedding]:
    """Giving the whole database the embedding model of these settings; nothing is asked of the live collection.

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
            ReembedStore(producer.engine),
            rows,
            CollectionStore(producer.engine).tenants,
            embedder,
            index,
            indexer.run_one,
            _prices(settings),
            settings.worker.dead_after_s,
        )
