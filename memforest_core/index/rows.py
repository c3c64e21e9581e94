"""The indexer's rows in Postgres."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from memforest_core.domain.ids import ForestId, LeaseToken, TenantId
from memforest_core.domain.operation_rules import OperationKind
from memforest_core.index.collection_rows import STORE
from memforest_core.index.content_rows import Content, read_contents
from memforest_core.index.records import LEASE_S, PointLease, PointRow, StalePoint
from memforest_core.index.vector_index import PointKind
from memforest_core.store import tables as m
from memforest_core.store.owners import forest_id, lock_forests
from memforest_core.store.rows import among
from memforest_core.store.tables import BEHIND
from memforest_core.store.trees import NEXT_VERSION
from memforest_core.store.vectors import VectorRows
from memforest_core.work.jobs import WorkState

_FIRST = UUID(int=0)

# A tenant's points may be newer than its rows: after Postgres was restored to an earlier point, until the parity task
# has raised the rows above them. What is written meanwhile could be taken for a late write and be dropped.
UNSURE = f"""(
    EXISTS (SELECT 1 FROM memforest.collection c WHERE c.live AND c.store_started <> {STORE})
    OR EXISTS (SELECT 1 FROM memforest.maintenance k
                WHERE k.tenant_id = :t AND k.kind = '{OperationKind.PARITY.value}'
                  AND k.state IN ('held', 'ready', 'running')))"""  # noqa: S608 - constants of this package

_UNDER = "tenant_id = :t AND point_id = ANY(CAST(:ids AS uuid[])) AND lease_token = :token"
"""Those of some rows that are under a lease, which no index knows."""

# No index has a column that a claim changes: Postgres then rewrites the row in its page, and nothing to the indexes.
_CLAIM = sa.text(f"""
    WITH behind AS (
        SELECT point_id FROM memforest.index_row
         WHERE tenant_id = :t AND kind = ANY(CAST(:kinds AS text[])) AND {BEHIND} AND state = 'ready'
           AND available_at <= clock_timestamp() AND NOT {UNSURE}
         ORDER BY lane, available_at LIMIT :n FOR NO KEY UPDATE SKIP LOCKED)
    UPDATE memforest.index_row i
       SET state = 'running', attempts = least(i.attempts + 1, 1000), lease_token = :token, worker_id = :worker,
           lease_until = clock_timestamp() + make_interval(secs => :lease)
      FROM behind WHERE i.tenant_id = :t AND i.point_id = behind.point_id
    RETURNING i.point_id, i.forest_id, i.kind, i.version, i.deleted, i.cold, i.indexed_version
    """)  # noqa: S608 - constants of this package

# Rows of forests that are gone become tombstones, which their writer finishes.
_BURY = sa.text(f"""
    UPDATE memforest.index_row i SET deleted = true, version = {NEXT_VERSION}
     WHERE i.tenant_id = :t AND i.lease_token = :token AND i.point_id = ANY(CAST(:ids AS uuid[]))
    """)  # noqa: S608 - a constant of this package

_FREE = "lease_token = NULL, lease_until = NULL, worker_id = NULL"

# A row that was marked again meanwhile is still behind.
_FINISH = sa.text(f"""
    UPDATE memforest.index_row i
       SET state = CASE WHEN i.version = u.version THEN 'done' ELSE 'ready' END, indexed_version = u.version,
           erased_version = CASE WHEN u.version > i.erased_version THEN 0 ELSE i.erased_version END,
           attempts = 0, lane = CASE WHEN i.version = u.version THEN 0 ELSE i.lane END, {_FREE},
           error_code = NULL, error_text = NULL
      FROM unnest(CAST(:ids AS uuid[]), CAST(:versions AS bigint[])) AS u(id, version)
     WHERE i.tenant_id = :t AND i.point_id = u.id AND i.lease_token = :token AND NOT i.deleted
    RETURNING i.point_id
    """)  # noqa: S608 - a constant of this module

_FORGET = sa.text("""
    DELETE FROM memforest.index_row i USING unnest(CAST(:ids AS uuid[]), CAST(:versions AS bigint[])) AS u(id, version)
     WHERE i.tenant_id = :t AND i.point_id = u.id AND i.lease_token = :token AND i.deleted AND i.version = u.version
    RETURNING i.point_id
    """)

# A writer of the forest that has locked a row is about to take the lease off it. Waiting for that writer with locks on
# other rows could deadlock, so rows that are locked are left out, and waited for one by one.
_HOLD_FREE = sa.text(f"""
    SELECT point_id, forest_id, version, deleted FROM memforest.index_row
     WHERE {_UNDER} ORDER BY point_id FOR UPDATE SKIP LOCKED
    """)  # noqa: S608 - a constant of this module

_FORESTS_UNDER = sa.text(f"SELECT DISTINCT forest_id FROM memforest.index_row WHERE {_UNDER}")  # noqa: S608 - as above
_DELETE_TOMBSTONES = sa.text(f"DELETE FROM memforest.index_row WHERE {_UNDER} AND deleted")  # noqa: S608 - as above
_HOLD_ONE = sa.text(f"SELECT point_id FROM memforest.index_row WHERE {_UNDER} FOR UPDATE")  # noqa: S608 - as above

_MADE = sa.text(f"""
    SELECT point_id, forest_id, kind, version, deleted, cold, indexed_version FROM memforest.index_row WHERE {_UNDER}
    """)  # noqa: S608 - a constant of this module

# A node that waits for its refresh has changed already, and gets another version with it.
_WRITTEN = sa.text("""
    SELECT i.point_id, i.forest_id, i.kind, i.version, i.deleted, i.cold, i.indexed_version FROM memforest.index_row i
     WHERE i.tenant_id = :t AND i.point_id = ANY(CAST(:ids AS uuid[])) AND i.state = 'done' AND NOT i.deleted
       AND NOT i.cold AND NOT EXISTS (SELECT 1 FROM memforest.node n WHERE n.tenant_id = :t
                                         AND n.node_id = i.point_id AND n.version > n.clean_version)
    """)

_GIVE_BACK = sa.text(f"""
    UPDATE memforest.index_row SET state = 'ready', attempts = greatest(attempts - 1, 0), {_FREE}
     WHERE {_UNDER} AND NOT deleted RETURNING point_id
    """)  # noqa: S608 - constants of this module

# Without a delay it is no failed try, and a row stays at its place in the queue.
_GIVE_BACK_FAILED = sa.text(f"""
    UPDATE memforest.index_row
       SET state = 'ready', {_FREE}, error_code = :code, error_text = :text,
           attempts = CASE WHEN CAST(:delay AS float) IS NULL THEN greatest(attempts - 1, 0) ELSE attempts END,
           available_at = coalesce(clock_timestamp() + make_interval(secs => CAST(:delay AS float)), available_at)
     WHERE {_UNDER}
    """)  # noqa: S608 - constants of this module

_RENEW = sa.text(f"""
    UPDATE memforest.index_row i
       SET version = {NEXT_VERSION}, indexed_version = 0, attempts = 0, available_at = clock_timestamp(),
           state = CASE i.state WHEN 'running' THEN 'running' ELSE 'ready' END
     WHERE i.tenant_id = :t AND i.point_id = ANY(CAST(:ids AS uuid[])) AND NOT i.deleted
    """)  # noqa: S608 - a constant of this package

_RENEW_LEASES = sa.text("""
    UPDATE memforest.index_row SET lease_until = clock_timestamp() + make_interval(secs => :lease)
     WHERE tenant_id = :t AND lease_token = :token AND point_id = ANY(CAST(:ids AS uuid[]))
    """)

_BEHIND = sa.text(f"""
    SELECT CASE WHEN {UNSURE} THEN :n ELSE (
        SELECT count(*) FROM (
            SELECT 1 FROM memforest.index_row
             WHERE tenant_id = :t AND forest_id = :f AND {BEHIND} AND state IN ('ready', 'running') LIMIT :n) rows) END
    """)  # noqa: S608 - constants of this package

_BEHIND_BY_KIND = sa.text(f"""
    SELECT kind, count(*) FROM memforest.index_row
     WHERE tenant_id = :t AND {BEHIND} AND state IN ('ready', 'running') GROUP BY kind
    """)  # noqa: S608 - a constant

# An index that was lost has no point of any row.
_MARK_ALL = sa.text(f"""
    UPDATE memforest.index_row i
       SET version = {NEXT_VERSION}, indexed_version = CASE WHEN :lost THEN 0 ELSE i.indexed_version END,
           state = 'ready', lane = 1, attempts = 0, available_at = clock_timestamp(), {_FREE}
     WHERE i.tenant_id = :t AND i.point_id = ANY(CAST(:ids AS uuid[])) AND NOT i.deleted
    """)  # noqa: S608 - a constant of this package

_OVERTAKE = sa.text(f"""
    UPDATE memforest.index_row i
       SET version = greatest(u.version + 1, {NEXT_VERSION}), state = 'ready', lane = 1, attempts = 0,
           available_at = clock_timestamp(), {_FREE}
      FROM unnest(CAST(:ids AS uuid[]), CAST(:versions AS bigint[])) AS u(id, version)
     WHERE i.tenant_id = :t AND i.point_id = u.id AND NOT i.deleted AND u.version > i.indexed_version
    """)  # noqa: S608 - a constant of this package

_MARK_MISSING = sa.text("""
    UPDATE memforest.index_row i
       SET indexed_version = u.found, state = 'ready', lane = 1, attempts = 0, available_at = clock_timestamp()
      FROM unnest(CAST(:ids AS uuid[]), CAST(:versions AS bigint[]), CAST(:found AS bigint[])) AS u(id, version, found)
     WHERE i.tenant_id = :t AND i.point_id = u.id AND i.version = u.version AND i.state = 'done' AND NOT i.deleted
    """)


_POINT_ROW = (
    *(m.IndexRow.point_id, m.IndexRow.forest_id),
    *(m.IndexRow.version, m.IndexRow.indexed_version, m.IndexRow.deleted, m.IndexRow.cold),
)
"""As the fields of ``PointRow``."""


def _stale(row: sa.Row[*tuple[Any, ...]], content: Content | None) -> StalePoint:
    """A claimed index row, and the content of its cell, fact or node; None: that is gone."""
    made = content or {}
    if row.indexed_version:
        made.pop("waited_s", None)
    cold = row.cold and not row.deleted
    gone = content is None and not cold
    return StalePoint(row.point_id, ForestId(row.forest_id), PointKind(row.kind), row.version, gone, cold, **made)


class IndexRows(VectorRows):
    """Rows of one indexing transaction."""

    def claim_points(self, kinds: Sequence[PointKind], lease: PointLease, limit: int) -> list[StalePoint]:
        """Take index rows that are behind under a lease, in addition to those that were made under it.

        None, while it is not certain that the points are not newer than the rows: a restored store has not been
        looked at yet, or the tenant's parity task is under way.
        """
        claimed: list[sa.Row[*tuple[Any, ...]]] = []
        if lease.points:
            claimed += self._run(_MADE, token=lease.token, ids=list(lease.points))
        own = {"token": lease.token, "worker": lease.worker, "lease": LEASE_S}
        claimed += self._run(_CLAIM, kinds=[kind.value for kind in kinds], n=limit, **own)
        contents = self._contents(claimed)
        return [_stale(row, contents.get(row.point_id)) for row in claimed]

    def _contents(self, rows: Sequence[sa.Row[*tuple[Any, ...]]]) -> dict[UUID, Content]:
        contents: dict[UUID, Content] = {}
        for kind in PointKind:
            ids = [row.point_id for row in rows if row.kind == kind and not row.deleted and not row.cold]
            if ids:
                contents.update(read_contents(self._db, self._tenant, kind, ids))
        return contents

    def written_points(self, ids: Collection[UUID]) -> tuple[str | None, list[StalePoint]]:
        """The live collection's model, None without one, and those of these points that the index has, as their rows
        are now."""
        rows = self._run(_WRITTEN, ids=list(ids)).all()
        contents = self._contents(rows)
        written = [_stale(row, contents[row.point_id]) for row in rows if row.point_id in contents]
        return self._db.scalars(sa.select(m.Collection.model).where(m.Collection.live)).first(), written

    def hold_points(self, token: LeaseToken, versions: Mapping[UUID, int]) -> frozenset[UUID]:
        """Lock those of these rows that are still under the lease until the transaction ends; the ids that may be
        written.

        These are unchanged since the claim, and their forests still exist. Rows that another transaction has locked
        are left out: it is about to change or delete them. ``put_vectors`` belongs into the same transaction.
        """
        ids = list(versions)
        forests = self._run(_FORESTS_UNDER, token=token, ids=ids).scalars()
        alive = self.hold_forests([ForestId(forest) for forest in forests])
        rows = self._free_rows(token, ids).all()
        gone = [row.point_id for row in rows if row.forest_id not in alive and not row.deleted]
        if gone:
            self._run(_BURY, token=token, ids=gone)
        return frozenset(
            row.point_id
            for row in rows
            if row.version == versions[row.point_id] and (row.deleted or row.forest_id in alive)
        )

    def renew_leases(self, token: LeaseToken, points: Sequence[UUID]) -> None:
        """These rows, which the transaction holds, are left to their worker for the whole time of a lease again."""
        if points:
            self._run(_RENEW_LEASES, token=token, ids=list(points), lease=LEASE_S)

    def finish_points(
        self,
        token: LeaseToken,
        claimed: Sequence[UUID],
        written: Mapping[UUID, int],
        dropped: Mapping[UUID, int],
        alone: UUID | None = None,
    ) -> tuple[frozenset[UUID], frozenset[UUID]]:
        """The index has the written versions, and tombstones of the dropped ones have done their work.

        What else was ``claimed`` and is still under the lease is given back as behind. Returns all these, and what
        somebody else has locked: a writer of the forest that has a row may wait for another one of these, so nothing is
        waited for but the row that is given ``alone``, in a transaction of its own. Of what is in neither the lease was
        lost, or it was buried while the lease held.
        """
        if alone is None:
            held = self._free_rows(token, claimed).scalars().all()
        else:
            held = self._run(_HOLD_ONE, token=token, ids=[alone]).scalars().all()
        ended: set[UUID] = set()
        for statement, points in ((_FORGET, dropped), (_FINISH, written)):
            if ids := [id_ for id_ in held if id_ in points]:
                versions = [points[id_] for id_ in ids]
                ended.update(self._run(statement, token=token, ids=ids, versions=versions).scalars())
        if rest := [id_ for id_ in held if id_ not in ended]:
            ended.update(self._run(_GIVE_BACK, token=token, ids=rest).scalars())
        if len(held) == len(claimed):
            return frozenset(ended), frozenset()
        under = self._run(_MADE, token=token, ids=list(claimed)).scalars()
        return frozenset(ended), frozenset(under) - frozenset(held)

    def release_points(self, lease: PointLease) -> None:
        """Give rows back that were made under a lease: somebody else claims them later."""
        held = self._free_rows(lease.token, list(lease.points)).scalars().all()
        self._run(_GIVE_BACK, token=lease.token, ids=held)

    def undo_points(self, token: LeaseToken, points: Sequence[UUID], lost: Sequence[UUID]) -> None:
        """These points were deleted from the index after their lease was lost: forget tombstones, renew what lives.

        Of all that was ``lost``, what lives again under the lease is given back: it was begun again after its deletion.
        """
        ids = sorted(points, key=str)
        self._hold(lost)
        self._run(_DELETE_TOMBSTONES, token=token, ids=ids)
        self._run(_RENEW, ids=ids)
        self._run(_GIVE_BACK, token=token, ids=list(lost))

    def renew_points(self, points: Sequence[UUID]) -> int:
        """Mark what lives of these points as behind: their points may be missing; how many. Leases stay."""
        if not points:
            return 0
        self._hold(points)
        return self._run(_RENEW, ids=list(points)).rowcount

    def give_back_points(
        self, token: LeaseToken, claimed: Sequence[UUID], code: str, text: str, delay_s: float | None = None
    ) -> None:
        """Give the claimed rows back after an error: for a try in ``delay_s`` seconds, or (None) as they were before.

        As they were is for an unavailable index: that is no failed try, and they stay at their place in the queue. A
        row that somebody else has locked is leased until that ends.
        """
        held = self._free_rows(token, claimed).scalars().all()
        self._run(_GIVE_BACK_FAILED, token=token, ids=held, code=code, text=text, delay=delay_s)

    def _free_rows(self, token: LeaseToken, ids: Sequence[UUID]) -> sa.CursorResult[*tuple[Any, ...]]:
        """Those of these rows under a lease that nobody else has locked, locked in the order of ids."""
        return self._run(_HOLD_FREE, token=token, ids=list(ids))

    def behind(self, forest: ForestId, limit: int) -> int:
        """How many of a forest's points are not in the index as they should be; ``limit`` means that many or more.

        Also ``limit`` while nobody knows: a restored store has not been looked at yet, or is being compared.
        """
        found = self._run(_BEHIND, f=forest, n=limit).scalar()
        return min(int(found or 0), limit)

    def behind_by_kind(self) -> Mapping[PointKind, int]:
        """How many rows of each kind are behind, over all forests."""
        return {PointKind(kind): count for kind, count in self._run(_BEHIND_BY_KIND)}

    def find_forest(self, owner: str) -> ForestId | None:
        """The forest of an owner."""
        return forest_id(self._db, self._tenant, owner)

    def any_indexed(self) -> bool:
        """Whether the index has, as far as the rows know, any point of the tenant."""
        indexed = sa.exists().where(m.IndexRow.tenant_id == self._tenant, m.IndexRow.indexed_version > 0)
        return bool(self._db.scalar(sa.select(indexed)))

    def mark_all(self, after: UUID | None, limit: int, forest: ForestId | None, lost: bool) -> tuple[UUID | None, int]:
        """Mark the next ``limit`` rows in the order of ids as behind, under a higher version, in the backfill lane.

        ``forest`` None: of all forests. ``lost`` says that the index has none of their points. Returns the last id,
        None when there was no row left, and how many rows.
        """
        living = self._after(after, forest, limit).where(~m.IndexRow.deleted)
        picked = [row.point_id for row in self._db.execute(living)]
        self._hold(picked)
        marked = self._run(_MARK_ALL, ids=picked, lost=lost).rowcount if picked else 0
        return max(picked, default=None), marked

    def _hold(self, points: Sequence[UUID]) -> None:
        """Lock many points' rows, as the writer of their forests: those lock such rows in several statements."""
        row = m.IndexRow
        mine = (row.tenant_id == self._tenant, among(row.point_id, points))
        forests = self._db.scalars(sa.select(row.forest_id).where(*mine).distinct())
        lock_forests(self._db, self._tenant, [ForestId(forest) for forest in forests])
        self._db.execute(sa.select(row.point_id).where(*mine).order_by(row.point_id).with_for_update(key_share=True))

    def point_rows(self, ids: Sequence[UUID]) -> dict[UUID, PointRow]:
        """The rows of these points."""
        found = self._db.execute(self._rows(among(m.IndexRow.point_id, ids)))
        return {row.point_id: PointRow(*row) for row in found}

    def _rows(self, *where: sa.ColumnElement[bool]) -> sa.Select[*tuple[Any, ...]]:
        return sa.select(*_POINT_ROW).where(m.IndexRow.tenant_id == self._tenant, *where)

    def written_rows(self, after: UUID | None, limit: int, forest: ForestId | None = None) -> Sequence[PointRow]:
        """The next rows, of one forest or of all, in the order of ids that say that the index has their point."""
        done = (m.IndexRow.state == WorkState.DONE, ~m.IndexRow.deleted, ~m.IndexRow.cold)
        return [PointRow(*row) for row in self._db.execute(self._after(after, forest, limit).where(*done))]

    def point_ids(self, after: UUID | None, limit: int, forest: ForestId) -> Sequence[UUID]:
        """The points of the next rows of a forest, in order, whatever their state."""
        return [row.point_id for row in self._db.execute(self._after(after, forest, limit))]

    def _after(self, after: UUID | None, forest: ForestId | None, limit: int) -> sa.Select[*tuple[Any, ...]]:
        """The next rows in the order of ids, of one forest or of all."""
        row = m.IndexRow
        rows = self._rows(row.point_id > (after or _FIRST))
        return (rows if forest is None else rows.where(row.forest_id == forest)).order_by(row.point_id).limit(limit)

    def overtake(self, versions: Mapping[UUID, int]) -> int:
        """Raise rows above these versions, which the index has and no row has confirmed; how many.

        They are behind then. Otherwise the guard against late writers would leave a point without a row.
        """
        if not versions:
            return 0
        ids = list(versions)
        self._hold(ids)
        return self._run(_OVERTAKE, ids=ids, versions=list(versions.values())).rowcount

    def mark_missing(self, rows: Sequence[PointRow], found: Mapping[UUID, int]) -> int:
        """Mark rows as behind whose point is missing, or has only the version ``found``; how many.

        Rows that changed since they were read are left: they are behind already.
        """
        if not rows:
            return 0
        ids = [row.id for row in rows]
        self._hold(ids)
        versions, seen = [row.version for row in rows], [found.get(row.id, 0) for row in rows]
        return self._run(_MARK_MISSING, ids=ids, versions=versions, found=seen).rowcount


OpenIndexRows = Callable[[TenantId], AbstractContextManager[IndexRows]]
"""Opens the rows of a tenant in a transaction."""

_WANT = """
    INSERT INTO memforest.index_row AS i (tenant_id, point_id, forest_id, kind, lane{columns})
    SELECT :t, u.id, u.forest, :k, :lane{values}
      FROM unnest(CAST(:ids AS uuid[]), CAST(:forests AS uuid[])) AS u(id, forest){given} ORDER BY u.id
    ON CONFLICT (tenant_id, point_id) DO UPDATE
    SET version = greatest(i.version + 1, excluded.version), attempts = 0, deleted = false, cold = false,
        state = CASE i.state WHEN 'running' THEN 'running' ELSE 'ready' END,
        available_at = clock_timestamp()
    """

_WANTED = sa.text(_WANT.format(columns="", values="", given=""))

# A row that was there already is claimed in the usual way.
_LEASED = sa.text(
    _WANT.format(
        columns=", state, attempts, lease_token, worker_id, lease_until",
        values=""", CASE WHEN s.unsure THEN 'ready' ELSE 'running' END, CASE WHEN s.unsure THEN 0 ELSE 1 END,
           CASE WHEN NOT s.unsure THEN CAST(:token AS uuid) END, CASE WHEN NOT s.unsure THEN CAST(:worker AS uuid) END,
           CASE WHEN NOT s.unsure THEN clock_timestamp() + make_interval(secs => :lease) END""",
        given=f" CROSS JOIN (SELECT {UNSURE} AS unsure) s",
    )
    + " RETURNING i.point_id, i.lease_token"
)


def want_indexed(
    connection: sa.Connection,
    tenant: TenantId,
    forest: ForestId,
    kind: str,
    ids: Sequence[Any],
    lane: int = 0,
    lease: PointLease | None = None,
) -> None:
    """Mark points of one forest as behind: new ones, and changed ones under a higher version."""
    want_indexed_in(connection, tenant, dict.fromkeys(ids, forest), kind, lane, lease)


def want_indexed_in(
    connection: sa.Connection,
    tenant: TenantId,
    forests: Mapping[Any, ForestId],
    kind: str,
    lane: int = 0,
    lease: PointLease | None = None,
) -> None:
    """The same for points of several forests, in one statement: all writers lock index rows in the order of ids.

    A row that is being written stays leased, so that a point has one writer at a time; its writer then finds the row
    behind and gives it back. With a ``lease``, rows that are new are made under it, and added to it.
    """
    if not forests:
        return
    values = {"t": tenant, "k": kind, "ids": list(forests), "forests": list(forests.values()), "lane": lane}
    if lease is None:
        connection.execute(_WANTED, values)
        return
    own = {"token": lease.token, "worker": lease.worker, "lease": LEASE_S}
    made = connection.execute(_LEASED, values | own)
    lease.points.update(row.point_id for row in made if row.lease_token == lease.token)
