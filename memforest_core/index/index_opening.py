"""Maintenance tasks and the upkeep of the index, wired: what workers run and what people ask for."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import cast

from memforest_core.domain.operation_rules import OperationKind
from memforest_core.errors import InvalidSettings
from memforest_core.index.collection_rows import CollectionStore
from memforest_core.index.generations import Generations
from memforest_core.index.rebuild import IndexUpkeep, Parity, Rebuild
from memforest_core.index.rows import IndexRows
from memforest_core.index.socket_index import SocketIndex, read_address
from memforest_core.index.vector_index import VectorIndex
from memforest_core.models.calls import Embedder
from memforest_core.settings import Settings
from memforest_core.store.engine import Engine
from memforest_core.work.messages import WakeUps
from memforest_core.work.rows.operation_rows import OperationRows
from memforest_core.work.runner import Handler, OperationRunner
from memforest_core.work.telemetry import SILENT, Telemetry


@dataclass(frozen=True, slots=True)
class Maintenance:
    """The maintaining side of a process."""

    tasks: OperationRunner
    generations: Generations
    upkeep: IndexUpkeep


def open_maintenance(
    engine: Engine,
    index: VectorIndex,
    wakeups: WakeUps,
    settings: Settings,
    telemetry: Telemetry = SILENT,
    handlers: Mapping[str, Handler] | None = None,
    undo: Mapping[str, Handler] | None = None,
) -> Maintenance:
    """Wire the runner of operations and the upkeep of the index.

    ``handlers`` adds operations of other folders, and ``undo`` the steps of those that were cancelled.
    """
    rows, tasks = partial(IndexRows.opened, engine), partial(OperationRows.opened, engine)
    collections = CollectionStore(engine)
    own: dict[str, Handler] = {
        OperationKind.REBUILD: Rebuild(rows, collections, index).step,
        OperationKind.PARITY: Parity(rows, collections, index).step,
    }
    return Maintenance(
        tasks=OperationRunner(
            tasks,
            own | dict(handlers or {}),
            settings.worker.task_budget_s,
            random.Random(),  # noqa: S311 - jitter
            telemetry,
            undo=undo,
        ),
        generations=Generations(collections, rows, tasks, index, settings.index.mark_s, wakeups),
        upkeep=IndexUpkeep(rows, collections, tasks, index, wakeups),
    )


def open_index(settings: Settings, embedder: Embedder, *, owned: bool = False) -> VectorIndex:
    """The configured vector index, not yet prepared.

    A directory that belongs to an embedded node is opened by that node alone (``owned``); other processes call
    the node.
    """
    if settings.index.kind == "qdrant_edge":
        if settings.index.path is None:
            raise InvalidSettings("Set MEMFOREST_INDEX__PATH to a directory for the in-process index.")
        path = Path(settings.index.path)
        served_at = None if owned else read_address(path)
        if served_at is not None:
            served = SocketIndex(served_at, embedder.model, embedder.dimension, settings.index.timeout_s)
            return cast("VectorIndex", served)
        from memforest_core.index.qdrant.edge_index import EdgeIndex

        return EdgeIndex(path, embedder.model, embedder.dimension)
    from memforest_core.index.qdrant.server_index import QdrantServerIndex

    key = settings.index.api_key
    return QdrantServerIndex.at(
        settings.index.url,
        key.get_secret_value() if key else None,
        embedder.model,
        embedder.dimension,
        settings.index.timeout_s,
        shards=settings.index.shards,
        replicas=settings.index.replicas,
    )
