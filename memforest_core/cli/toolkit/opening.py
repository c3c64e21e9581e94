"""Opening what a command works on: running services, or an embedded node in a data directory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from memforest_core.errors import InvalidInput

if TYPE_CHECKING:
    from memforest_core.client.api import MemForest
    from memforest_core.client.producer import MemForestClient
    from memforest_core.domain.ids import TenantId
    from memforest_core.observe.inspection import InspectionService
    from memforest_core.store.engine import Engine

EMBEDDED_CONCURRENCY = 8
"""Tasks at once of an embedded node."""


@dataclass(frozen=True, slots=True)
class Store:
    """What commands need that ask no question: accepting, waiting, reading the database. No models, no index."""

    client: MemForestClient
    engine: Engine
    inspection: InspectionService

    @property
    def tenant(self) -> TenantId:
        """The tenant that everything belongs to."""
        return self.client.tenant


@contextmanager
def opened_memory(
    data: Path | None, *, create: bool = False, concurrency: int = EMBEDDED_CONCURRENCY, alone: bool = False
) -> Iterator[MemForest]:
    """The whole memory: an embedded node in ``data``, or the services that the settings name.

    A node that runs in ``data`` already is used as it is, unless the command must be the node itself (``alone``).
    """
    from memforest_core.client.api import MemForest

    quiet_logs()
    with MemForest.connect() if data is None else _opened_node(_checked(data, create), concurrency, alone) as memory:
        yield memory


def _opened_node(data: Path, concurrency: int, alone: bool) -> MemForest:
    from memforest_core.client.api import MemForest
    from memforest_core.client.embedded.directory import DataDirectoryInUse, running_node
    from memforest_core.settings import load_settings

    try:
        return MemForest.embedded(data, concurrency=concurrency)
    except DataDirectoryInUse:
        published = None if alone else running_node(data)
        if published is None:
            raise
        return MemForest.connect(load_settings(**published))


@contextmanager
def opened_store(data: Path | None, *, create: bool = False) -> Iterator[Store]:
    """The database and the broker that the settings name, connected on first use; with ``data`` an embedded node, which
    works meanwhile."""
    if data is not None:
        with opened_memory(data, create=create) as memory:
            yield Store(memory, memory.services.engine, memory.services.inspection)
        return
    from memforest_core.client.producer import MemForestClient
    from memforest_core.client.services.producer import open_producer
    from memforest_core.observe.inspection import open_inspection
    from memforest_core.settings import load_settings

    quiet_logs()
    settings = load_settings()
    producer = open_producer(settings)
    with MemForestClient(settings, producer=producer) as client:
        yield Store(client, producer.engine, open_inspection(producer.engine, settings))


def quiet_logs() -> None:
    """Only what went wrong is logged beside a command's own output."""
    import logging

    from memforest_core.cli.toolkit.logs import configure_logs

    configure_logs(logging.WARNING)


def _checked(data: Path, create: bool) -> Path:
    if not create and not data.is_dir():
        raise InvalidInput(
            f"There is no data directory {data}: make one with memforest ingest --data.",
            code="no_data_directory",
        )
    return data
