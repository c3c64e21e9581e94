"""Opening the memory, store or database that a command works on; ``cli.opener`` does it, handed in by the program."""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memforest_core.cli.toolkit.logs import configure_logs

if TYPE_CHECKING:
    from memforest_core.client.api import MemForest
    from memforest_core.client.producer import MemForestClient
    from memforest_core.domain.ids import TenantId
    from memforest_core.lifecycle.rebuild.embedding import Reembedding
    from memforest_core.observe.inspection import InspectionService
    from memforest_core.settings import DatabaseSettings
    from memforest_core.store.engine import Engine

DATA = Path("memforest-data")
"""Where ``memforest up`` stores everything unless --data says otherwise."""
EMBEDDED_CONCURRENCY = 8
"""Concurrent tasks of an embedded node."""


@dataclass(frozen=True, slots=True)
class Store:
    """The producer, the database and inspection: no models, no index."""

    client: MemForestClient
    engine: Engine
    inspection: InspectionService

    @property
    def tenant(self) -> TenantId:
        """The tenant that everything belongs to."""
        return self.client.tenant


_openers: list[Any] = []
"""The ``ProgramOpener`` of ``cli.opener``, which this layer may not import."""


def use_opener(opener: Any) -> None:
    """Open everything with ``opener`` from now on."""
    _openers[:] = [opener]


def opened_memory(
    data: Path | None, *, create: bool = False, concurrency: int = EMBEDDED_CONCURRENCY, alone: bool = False
) -> AbstractContextManager[MemForest]:
    """The whole memory: an embedded node in ``data``, or the services that the settings name.

    A node that runs in ``data`` already is used as it is, unless the command must be the node itself (``alone``).
    """
    quiet_logs()
    opened: AbstractContextManager[MemForest] = _openers[0].memory(
        data, create=create, concurrency=concurrency, alone=alone
    )
    return opened


def opened_store(data: Path | None, *, create: bool = False) -> AbstractContextManager[Store]:
    """The database and the broker that the settings name, connected on first use; with ``data`` an embedded node, which
    works meanwhile."""
    quiet_logs()
    opened: AbstractContextManager[Store] = _openers[0].store(data, create=create)
    return opened


def opened_database(data: Path | None, *, running: bool) -> AbstractContextManager[DatabaseSettings]:
    """The database with its owner's address: that of the settings, or of a node, which may be ``running``."""
    opened: AbstractContextManager[DatabaseSettings] = _openers[0].owners_database(data, running=running)
    return opened


def opened_reembedding() -> AbstractContextManager[Reembedding]:
    """The change of the embedding model of the whole database that the settings name."""
    quiet_logs()
    opened: AbstractContextManager[Reembedding] = _openers[0].reembedding()
    return opened


def quiet_logs() -> None:
    """Log warnings and errors only, so that they don't mix with a command's own output."""
    configure_logs(logging.WARNING)
