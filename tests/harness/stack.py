"""A whole pipeline for one test: its own database and index, driven by hand or by a real worker."""

from __future__ import annotations

import atexit
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, cast
from uuid import UUID, uuid4

import sqlalchemy as sa
from pydantic import SecretStr

from memforest_core.client.api import MemForest
from memforest_core.client.services.service import Services, open_services
from memforest_core.domain.ids import ForestId, TenantId
from memforest_core.index.qdrant.edge_index import EdgeIndex
from memforest_core.index.vector_index import PointKey
from memforest_core.lifecycle.verify.service import open_verification
from memforest_core.models.calls import Embedder
from memforest_core.models.model_opening import open_embedder
from memforest_core.settings import DatabaseSettings, EmbeddingSettings, Settings, load_settings
from memforest_core.store.engine import open_engine
from memforest_core.store.schema import upgrade
from memforest_core.work.jobs import WorkKind
from memforest_workers.runtime import Runtime
from tests.harness import shared_statements
from tests.harness.given_qdrant import URL, drop_collection
from tests.harness.servers import SessionServers

shared_statements.share()

TEMPLATE = "memforest_template"
SERVICE_ROLE = "memforest_app"

MEMBERS = """(SELECT tenant_id, tree_id, payload_id FROM memforest.node WHERE level = 0
    UNION ALL SELECT tenant_id, tree_id, payload_id FROM memforest.placement)"""
"""What scopes have, in any tenant."""


def at(url: str, *, database: str, user: str | None = None) -> str:
    """The same server, another database and role."""
    parsed = sa.make_url(url).set(database=database)
    if user is not None:
        parsed = parsed.set(username=user)
    return parsed.render_as_string(hide_password=False)


@cache
def _superuser(url: str) -> sa.Engine:
    """Open for the whole session: a new connection costs more than most statements."""
    return sa.create_engine(url, isolation_level="AUTOCOMMIT", pool_pre_ping=True)


def admin(servers: SessionServers, statement: str) -> None:
    """Run one statement as the superuser, outside a transaction."""
    with _superuser(servers.postgres_url).connect() as connection:
        connection.exec_driver_sql(statement)


def owner_of(settings: DatabaseSettings) -> sa.Engine:
    """Reaches the database as the owner of its tables, whom row security does not bind; a connection stays open between
    uses, and replaced when it was lost. The caller disposes of it."""
    assert settings.migration_url is not None
    # Not prepared: tests change tables under an open connection.
    plain = {"prepare_threshold": None}
    return sa.create_engine(settings.migration_url.get_secret_value(), pool_pre_ping=True, connect_args=plain)


def database_settings(servers: SessionServers, database: str) -> DatabaseSettings:
    """Service and owner addresses of a database."""
    return DatabaseSettings(
        url=SecretStr(at(servers.postgres_url, database=database, user=SERVICE_ROLE)),
        migration_url=SecretStr(at(servers.postgres_url, database=database)),
    )


def make_template(servers: SessionServers) -> None:
    """A migrated database that tests clone: much faster than migrating each time."""
    admin(servers, f"DROP DATABASE IF EXISTS {TEMPLATE} WITH (FORCE)")
    admin(servers, f"CREATE DATABASE {TEMPLATE}")
    upgrade(database_settings(servers, TEMPLATE))


@contextmanager
def database(servers: SessionServers, template: str = TEMPLATE) -> Iterator[DatabaseSettings]:
    """A fresh clone of a template, dropped at the end."""
    name = f"test_{uuid4().hex}"
    # Files are copied faster than the same pages through the write-ahead log.
    admin(servers, f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY")
    try:
        yield database_settings(servers, name)
    finally:
        admin(servers, f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


def copy_index(index: Path, to: Path) -> None:
    """Copy an index that nobody has open. Its files are 200 MB of holes, which ``shutil`` would write out."""
    to.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cp", "-R", str(index), str(to)], check=True)


@cache
def built_in() -> Embedder:
    """The built-in model, loaded once for all tests."""
    return open_embedder(EmbeddingSettings())


@cache
def empty_index(model: str, dimension: int) -> Path:
    """A prepared index without points: copied much faster than each payload index is made and flushed."""
    directory = Path(tempfile.mkdtemp(prefix="memforest-empty-index-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    index = EdgeIndex(directory, model, dimension)
    index.prepare()
    index.close()
    return directory


@dataclass
class Stack:
    """Services over a database and an index of their own; nothing runs unless the test runs it."""

    settings: Settings
    services: Services
    runtime: Runtime
    memory: MemForest

    @property
    def tenant(self) -> TenantId:
        return TenantId(self.settings.tenant)

    @property
    def database(self) -> str:
        """The database's name."""
        name = sa.make_url(self.settings.database.url.get_secret_value()).database
        assert name is not None
        return name

    def owner_engine(self) -> sa.Engine:
        """A new engine of the tables' owner, as a process would open it; the caller disposes of it."""
        url = self.settings.database.migration_url
        assert url is not None
        return open_engine(self.settings.database, url.get_secret_value())

    @cached_property
    def owner(self) -> sa.Engine:
        """What ``rows`` and ``execute`` use."""
        return owner_of(self.settings.database)

    def disconnect(self) -> None:
        """Close all connections that nobody uses, so that the database can be copied; new ones are opened as needed."""
        self.services.engine.dispose()
        self.owner.dispose()

    def rows(self, statement: str, **values: object) -> list[sa.Row[*tuple[Any, ...]]]:
        """Rows of a query, across tenants."""
        with self.owner.connect() as connection:
            return list(connection.execute(sa.text(statement), values).all())

    def counts(self) -> dict[str, int]:
        """How many rows each table has."""
        tables = [str(row[0]) for row in self.rows("SELECT tablename FROM pg_tables WHERE schemaname = 'memforest'")]
        every = " UNION ALL ".join(f"SELECT '{table}', count(*) FROM memforest.{table}" for table in tables)
        return {str(row[0]): int(row[1]) for row in self.rows(every)}

    def versions(self, rows: Iterable[UUID]) -> dict[UUID, int]:
        """The versions of the points that stand for these rows, whichever forest of the tenant they are of."""
        forests = self.rows("SELECT forest_id FROM memforest.forest WHERE tenant_id = :t", t=self.tenant)
        wanted = list(rows)
        keys = [PointKey(self.tenant, ForestId(forest), row) for (forest,) in forests for row in wanted]
        return self.services.index.versions(keys)

    def execute(self, statement: str, **values: object) -> None:
        """One write, across tenants."""
        with self.owner.begin() as connection:
            connection.execute(sa.text(statement), values)

    def broken(self) -> Mapping[str, Mapping[str, int]]:
        """What verification finds, by check: nothing."""
        report = open_verification(self.services.engine, self.services.index, self.services.settings).run()
        assert report.complete
        return {str(each.check): each.kinds for each in report.checks if each.violations}

    def hurry(self) -> None:
        """Tasks that wait for a moment are due now, but vacuums: they take the most time and change no row."""
        self.execute("UPDATE memforest.maintenance SET available_at = now() WHERE state = 'ready' AND kind <> 'vacuum'")

    def assert_verified(self) -> None:
        """Trees, placements, provenance, summaries and both stores agree."""
        report = open_verification(self.services.engine, self.services.index, self.services.settings).run()
        assert {each.check: dict(each.kinds) for each in report.checks if each.violations} == {}

    def drive(self, rounds: int = 50, *, due: bool = True) -> None:
        """Do all work that can be claimed, in this thread, until nothing moves."""
        for _ in range(rounds):
            if due:
                self.execute("UPDATE memforest.tree SET due_at = now() WHERE due_at IS NOT NULL")
            moved = self.runtime.extract() + self.runtime.reduce() + self.runtime.refresh() + self.runtime.maintain()
            if not moved and not any(
                self.services.jobs.waiting(kind) for kind in (WorkKind.EXTRACT, WorkKind.REDUCE, WorkKind.MAINTAIN)
            ):
                return
        raise AssertionError("the pipeline does not come to rest")


SMALL: Mapping[str, dict[str, object]] = {
    "accept": {"window_turns": 4},
    "refresh": {"model_from_leaves": 1, "model_reads_last": True, "title_sizes": (3, 10, 30, 60)},
}
"""So that forests of a few turns have several windows, and summaries of a model where there is one."""


def settings_for(database: DatabaseSettings, broker_url: str, index: Path, /, **groups: object) -> Settings:
    """Settings of a test's own stack; groups override."""
    values: dict[str, object] = {
        "database": database,
        "broker": {"url": broker_url, "publish_timeout_s": 2.0},
        "index": {"kind": "qdrant", "url": URL} if URL else {"kind": "qdrant_edge", "path": index},
        **{name: {**given, **cast(Mapping[str, object], groups.pop(name, {}))} for name, given in SMALL.items()},
    }
    return load_settings(**(values | groups))


@contextmanager
def stack(
    servers: SessionServers, directory: Path, *, embedder: Embedder | None = None, **groups: object
) -> Iterator[Stack]:
    """A stack of one's own; with the built-in model, opened once, unless another is given or set."""
    if embedder is None and "embedding" not in groups:
        embedder = built_in()
    with database(servers) as address:
        place = directory / "index"
        settings = settings_for(address, servers.broker_url, place, **groups)
        if embedder is not None and settings.index.path == place and not place.exists():
            copy_index(empty_index(embedder.model, embedder.dimension), place)
        with opened(settings, embedder) as running:
            yield running


@contextmanager
def opened(settings: Settings, embedder: Embedder | None) -> Iterator[Stack]:
    """A stack over these settings; the database and the index are the caller's."""
    services = open_services(settings, embedder=embedder)
    try:
        drop_collection(services.embedder.model, services.embedder.dimension)
        services.index.prepare()
        runtime = Runtime(services, ["extract", "reduce", "refresh", "maintain"], name="test")
        services.jobs.register(runtime.worker, runtime.name, runtime.queues)
        running = Stack(settings, services, runtime, MemForest(services))
        try:
            yield running
        finally:
            running.owner.dispose()
    finally:
        services.close()


@dataclass(frozen=True)
class Grown:
    """A database and an index as a pipeline at rest left them, to be cloned."""

    database: str
    index: Path


@contextmanager
def grown_by(
    tell: Callable[[Stack], None], servers: SessionServers, directory: Path, embedder: Embedder
) -> Iterator[Grown]:
    """What a test enqueues, worked to rest once for many clones; dropped at the end."""
    name = f"grown_{uuid4().hex}"
    with stack(servers, directory, embedder=embedder) as running:
        tell(running)
        running.drive()
        running.services.close()
        running.disconnect()
        admin(servers, f"CREATE DATABASE {name} TEMPLATE {running.database} STRATEGY FILE_COPY")
    yield Grown(name, directory / "index")
    admin(servers, f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


@contextmanager
def cloned(
    servers: SessionServers, grown: Grown, directory: Path, embedder: Embedder, **groups: object
) -> Iterator[Stack]:
    """A stack that begins as a grown one ended; groups of settings override."""
    with database(servers, grown.database) as address:
        if not URL:
            copy_index(grown.index, directory / "index")
        with opened(settings_for(address, servers.broker_url, directory / "index", **groups), embedder) as running:
            if URL:
                with running.owner.begin() as connection:
                    mark = "UPDATE memforest.index_row SET state = 'ready', indexed_version = 0 WHERE NOT deleted"
                    connection.execute(sa.text(mark))
                running.drive()
            yield running
