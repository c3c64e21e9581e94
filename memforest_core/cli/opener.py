"""Opens services or an embedded node for all commands: the program hands it to them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from memforest_core.cli.toolkit.memory_opening import DATA, EMBEDDED_CONCURRENCY, Store
from memforest_core.cli.toolkit.output import similar_owners
from memforest_core.errors import InvalidInput, NotFound, StoreUnavailable

if TYPE_CHECKING:
    from memforest_core.client.api import MemForest
    from memforest_core.domain.ids import TenantId
    from memforest_core.lifecycle.rebuild.embedding import Reembedding
    from memforest_core.settings import DatabaseSettings
    from memforest_core.store.engine import Engine


class ProgramOpener:
    """The opener of the command line: everything is imported when it is used."""

    @contextmanager
    def memory(self, data: Path | None, *, create: bool, concurrency: int, alone: bool) -> Iterator[MemForest]:
        """The services that the settings name, or a node in ``data``."""
        from memforest_core.client.api import MemForest

        if data is not None:
            opened = _opened_node(_checked(data, create), concurrency, alone)
        else:
            with _named_services():
                opened = MemForest.connect()
        with opened as memory, _similar_owners(memory.services.engine, memory.tenant):
            yield memory

    @contextmanager
    def store(self, data: Path | None, *, create: bool) -> Iterator[Store]:
        """The database and the broker, connected on first use; with ``data`` those of a node."""
        if data is not None:
            with self.memory(data, create=create, concurrency=EMBEDDED_CONCURRENCY, alone=False) as memory:
                yield Store(memory, memory.services.engine, memory.services.inspection)
            return
        from memforest_core.client.producer import MemForestClient
        from memforest_core.client.services.producer_services import open_producer
        from memforest_core.observe.inspection import open_inspection
        from memforest_core.settings import load_settings

        settings = load_settings()
        producer = open_producer(settings)
        with (
            _named_services(),
            MemForestClient(settings, producer=producer) as client,
            _similar_owners(producer.engine, client.tenant),
        ):
            yield Store(client, producer.engine, open_inspection(producer.engine, settings))

    @contextmanager
    def owners_database(self, data: Path | None, *, running: bool) -> Iterator[DatabaseSettings]:
        """The database with its owner's address; with ``data`` a node's, whose servers are started unless it runs."""
        from memforest_core.client.embedded.cluster import SUPERUSER
        from memforest_core.client.embedded.directory import DataDirectoryInUse, running_node
        from memforest_core.client.embedded.node import embedded_settings
        from memforest_core.client.embedded.servers import EmbeddedServers
        from memforest_core.settings import load_settings
        from memforest_core.store.schema import owners_address

        if data is None:
            yield load_settings().database
            return
        try:
            servers = EmbeddedServers.start(data)
        except DataDirectoryInUse:
            published = running_node(data) if running else None
            if published is None:
                raise
            yield owners_address(load_settings(**published).database, SUPERUSER)
            return
        try:
            yield embedded_settings(load_settings(), servers).database
        finally:
            servers.close()

    def reembedding(self) -> AbstractContextManager[Reembedding]:
        """The change of the embedding model of the database that the settings name."""
        from memforest_core.client.services.service import open_reembedding
        from memforest_core.settings import load_settings

        return open_reembedding(load_settings())


@contextmanager
def _similar_owners(engine: Engine, tenant: TenantId) -> Iterator[None]:
    """Name an owner of the same tenant with a similar name where an unknown one is given."""
    from memforest_core.store.owners import ForestRows

    def find(owner: str) -> str | None:
        with ForestRows.opened(engine, tenant) as rows:
            return rows.similar_owner(owner)

    with similar_owners(find):
        try:
            yield
        except NotFound as error:
            unknown = re.match(r"(?:Owner|No owner) '([^']+)'(?: has no memory yet)?:", error.message)
            near = find(unknown[1]) if unknown else None
            if near is None:
                raise
            raise NotFound(f"{error.message} Did you mean {near}?", code=error.code) from None


@contextmanager
def _named_services() -> Iterator[None]:
    """Say what else there is where the services that the settings name can't be reached, and none were named."""
    from memforest_core.settings import DatabaseSettings, load_settings

    try:
        yield
    except StoreUnavailable as error:
        answers = type(error) is not StoreUnavailable  # and refuses, or is busy
        if answers or load_settings().database.url != DatabaseSettings().url:
            raise
        begin = "" if DATA.is_dir() else "memforest up makes one, "
        raise StoreUnavailable(
            f"{error.message} Without servers of your own: {begin}--data {DATA} works on the node in that directory."
        ) from None


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


def _checked(data: Path, create: bool) -> Path:
    if not create and not data.is_dir():
        raise InvalidInput(
            f"There is no data directory {data}: make one with memforest ingest --data.", code="no_data_directory"
        )
    return data
