"""Which vector collection is live, and the generation that says whether it and the database still belong together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from memforest_core.domain.ids import TenantId
from memforest_core.errors import InvalidSettings
from memforest_core.index.records import StoredGeneration
from memforest_core.store import tables as m
from memforest_core.store.engine import transaction

_MARK_LOCK = 0x6D666D6B

Confirm = Callable[[UUID, str], None]
"""Notes a generation, and the start of the database under which both stores have it."""

# Identifies this database since its last start. A restored server has another start time, a restored copy in the same
# server another database oid, tables restored into the same database other oids. The service role may read all three.
STORE = """concat_ws('/', (SELECT oid FROM pg_database WHERE datname = current_database()),
                     'memforest.collection'::regclass::oid, extract(epoch FROM pg_postmaster_start_time()))"""

_READ_LIVE = sa.text(f"""
    SELECT name, model, dimension, generation, store_started AS confirmed_store, {STORE} AS store,
           extract(epoch FROM clock_timestamp())::double precision AS now
      FROM memforest.collection WHERE live
    """)  # noqa: S608 - a constant of this module

_LIVE = sa.select(m.Collection.name, m.Collection.model, m.Collection.dimension).where(m.Collection.live)


def claim_collection(engine: sa.Engine, name: str, model: str, dimension: int) -> None:
    """Make this the live collection if there is none yet, or only one of the same model under another name.

    Such a collection is of an earlier version, which named points in another way: the next comparison fills the new one
    from the rows. Raises InvalidSettings when the collection of another model is live.
    """
    with transaction(engine) as connection:
        live = connection.execute(_LIVE).first()
        if live is None or live.name != name:
            # Read under the lock too: two processes may start at once.
            connection.execute(sa.text("LOCK TABLE memforest.collection IN SHARE ROW EXCLUSIVE MODE"))
            live = connection.execute(_LIVE).first()
        if live is None or ((live.model, live.dimension) == (model, dimension) and live.name != name):
            switch_collection(connection, name, model, dimension)
        elif live.name != name:
            raise InvalidSettings(
                f"Stored vectors come from {live.model} with {live.dimension} dimensions, but the embedding model is"
                f" {model} with {dimension}: set MEMFOREST_EMBEDDING__MODEL={live.model}, or stop the"
                " workers and run memforest rematerialize --embedding."
            )


def switch_collection(connection: sa.Connection, name: str, model: str, dimension: int, *, live: bool = True) -> None:
    """Make this the live collection, or only add it; the caller has locked the table.

    It has no generation: the next check compares it with the rows and begins one in both stores.
    """
    if live:
        connection.execute(sa.update(m.Collection).values(live=False).where(m.Collection.name != name))
    connection.execute(
        insert(m.Collection)
        .values(name=name, model=model, dimension=dimension, live=live)
        .on_conflict_do_update(index_elements=["name"], set_={"live": live, "generation": None, "store_started": None})
    )


class CollectionStore:
    """The live collection in the database."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def live(self) -> StoredGeneration | None:
        """The live collection; None before there is one."""
        with transaction(self._engine) as connection:
            row = connection.execute(_READ_LIVE).first()
        return StoredGeneration(*row) if row is not None else None

    @contextmanager
    def comparing(self) -> Iterator[Confirm | None]:
        """For the one process that may compare and mark now: how it notes the generation of both stores. Else None."""
        # Only this lock is held while the index is read; a process that finds it taken does not wait.
        with transaction(self._engine) as connection:

            def confirm(generation: UUID, store: str) -> None:
                now = {"generation": generation, "store_started": store}
                connection.execute(sa.update(m.Collection).where(m.Collection.live).values(now))

            mine = connection.scalar(sa.text("SELECT pg_try_advisory_xact_lock(:key)"), {"key": _MARK_LOCK})
            yield confirm if mine else None

    def tenants(self) -> Sequence[TenantId]:
        """All tenants, in order."""
        with transaction(self._engine) as connection:
            return [TenantId(row) for row in connection.scalars(sa.text("SELECT tenant_id FROM memforest.tenants()"))]
