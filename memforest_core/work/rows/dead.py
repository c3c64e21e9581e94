"""Dead work in Postgres: seen through partial indexes, changed in sets, and only while it is still dead."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy import exc

from memforest_core.domain.ids import NodeId, TenantId, TreeId
from memforest_core.errors import StoreUnavailable
from memforest_core.store.engine import tenant_transaction
from memforest_core.store.owners import forest_id
from memforest_core.store.trees import lock_nodes, lock_trees
from memforest_core.store.vectors import VectorRows
from memforest_core.work.dead_records import Acted, DeadDetail, DeadFilter, DeadKind, DeadLetter, DeadRef
from memforest_core.work.rows import dead_sql as sql
from memforest_core.work.rows.operations import take_turn
from memforest_core.work.states import WorkState

_TRIES = 3
"""A task that is asked for anew between the look at it and its change is looked at again."""


class DeadRows:
    """Dead work of one transaction of a tenant. Whatever somebody else has revived meanwhile is left alone."""

    def __init__(self, connection: sa.Connection, tenant: TenantId) -> None:
        self._db = connection
        self._tenant = tenant

    def known_owner(self, owner: str) -> bool:
        """Whether the tenant has a forest of this owner."""
        return forest_id(self._db, self._tenant, owner) is not None

    def letters(self, which: DeadFilter, limit: int) -> Sequence[DeadLetter]:
        """Dead work by kind, owner and session, ``limit`` at most."""
        return [_letter(row) for row in self._rows(sql.LIST, n=limit, **_meant(which))]

    def find(self, which: DeadFilter) -> Sequence[DeadRef]:
        """All dead work that is meant."""
        return [DeadRef(DeadKind(row.kind), row.id) for row in self._rows(sql.FIND, **_meant(which))]

    def starting(self, prefixes: Sequence[str]) -> Sequence[DeadRef]:
        """Dead work whose id begins with one of these hex digits (without dashes)."""
        found = self._rows(sql.STARTING, patterns=[f"{prefix}%" for prefix in prefixes])
        return [DeadRef(DeadKind(row.kind), row.id) for row in found]

    def detail(self, ref: DeadRef, *, text: bool) -> DeadDetail | None:
        """Everything about one; None when it is not dead anymore."""
        letters = self._rows(sql.ONE, kind=ref.kind.value, id=ref.id)
        about = {DeadKind.CELL: sql.CELL, DeadKind.NODE: sql.NODE, DeadKind.TASK: sql.TASK}[ref.kind]
        found = self._rows(about, id=ref.id)
        if not letters or not found:
            return None
        texts: tuple[str, ...] | None = None
        if text:
            said = {DeadKind.CELL: sql.CELL_TEXTS, DeadKind.NODE: sql.NODE_TEXTS}.get(ref.kind)
            texts = tuple(row.text for row in self._rows(said, id=ref.id)) if said is not None else ()
        return DeadDetail(_letter(letters[0]), _about(found[0]), texts)

    def retry(self, refs: Sequence[DeadRef]) -> Acted:
        """Make it ready again, as if it had never been tried; its last error stays until it succeeds.

        A cell that the reducer gave up is ready for the reducer again. A maintenance task whose like is under way
        already stays as it is.
        """
        by_kind = self._held(refs)
        cells = self._changed(sql.RETRY_CELLS, by_kind[DeadKind.CELL])
        reduced = {row.forest_id for row in cells if row.state == WorkState.DONE}
        self._changed(sql.REDUCE_NOW, sorted(reduced), returning=False)
        nodes = self._retry_nodes(by_kind[DeadKind.NODE])
        tasks = self._retry_tasks(by_kind[DeadKind.TASK])
        return Acted(
            changed=(
                *(DeadRef(DeadKind.CELL, row.cell_id) for row in cells),
                *(DeadRef(DeadKind.NODE, row.node_id) for row in nodes),
                *(DeadRef(DeadKind.TASK, row.task_id) for row in tasks),
            ),
            windows=sum(row.state == WorkState.READY and row.head for row in cells),
            forests=len(reduced),
            trees=len({row.tree_id for row in nodes}),
            tasks=len(tasks),
        )

    def discard(self, refs: Sequence[DeadRef]) -> Acted:
        """Go on without it.

        A cell gives up the facts that are not in the trees yet, and its turns go into its session's tree. A node
        keeps the summary it has until something below changes. A maintenance task is over.
        """
        by_kind = self._held(refs)
        ids = [row.cell_id for row in self._changed(sql.STILL_DEAD, by_kind[DeadKind.CELL])]
        unpoint, candidates, aside = sql.DISCARD_CELLS
        self._changed(unpoint, ids, returning=False)
        said = self._changed(candidates, ids)
        self._changed(aside, ids, returning=False)
        cells = self._changed(sql.END_CELLS, ids)
        vectors, hashes = (
            VectorRows(self._db, self._tenant),
            {bytes(key) for row in said for key in (row.text_hash, row.routing_hash)},
        )
        for forest in sorted({row.forest_id for row in cells}, key=str):
            vectors.drop_unused(forest, hashes)
        reduced = {row.forest_id for row in cells if not row.placed}
        self._changed(sql.REDUCE_NOW, sorted(reduced), returning=False)
        nodes = self._changed(sql.DISCARD_NODES, by_kind[DeadKind.NODE])
        tasks = [
            row
            for statement in (sql.DISCARD_TASKS, sql.UNDO_TASKS)
            for row in self._changed(statement, by_kind[DeadKind.TASK])
        ]
        return Acted(
            changed=(
                *(DeadRef(DeadKind.CELL, row.cell_id) for row in cells),
                *(DeadRef(DeadKind.NODE, row.node_id) for row in nodes),
                *(DeadRef(DeadKind.TASK, row.task_id) for row in tasks),
            ),
            forests=len(reduced),
        )

    def _held(self, refs: Sequence[DeadRef]) -> dict[DeadKind, list[UUID]]:
        """Ids by kind, with their forests locked, then their nodes: the order that all writers keep to."""
        by_kind: dict[DeadKind, list[UUID]] = {kind: [] for kind in DeadKind}
        for ref in refs:
            by_kind[ref.kind].append(ref.id)
        if by_kind[DeadKind.CELL] or by_kind[DeadKind.NODE]:
            self._rows(sql.LOCK_FORESTS, cells=by_kind[DeadKind.CELL], nodes=by_kind[DeadKind.NODE])
        return by_kind

    def _retry_nodes(self, ids: Sequence[UUID]) -> Sequence[sa.Row[Any]]:
        paths = self._changed(sql.PATHS, ids)
        lock_nodes(self._db, self._tenant, [NodeId(row.node_id) for row in paths])
        self._changed(sql.MARK_PATHS, [row.node_id for row in paths], returning=False)
        nodes = self._changed(sql.RETRY_NODES, ids)
        trees = sorted({row.tree_id for row in nodes})
        lock_trees(self._db, self._tenant, [TreeId(tree) for tree in trees])
        self._changed(sql.MARK_TREES, trees, returning=False)
        return nodes

    def _retry_tasks(self, ids: Sequence[UUID]) -> Sequence[sa.Row[Any]]:
        for _ in range(_TRIES):
            try:
                with self._db.begin_nested():
                    take_turn(self._db, self._tenant)
                    tasks = self._changed(sql.RETRY_TASKS, ids)
                    self._changed(sql.ASK_AGAIN, [row.task_id for row in tasks], returning=False)
                    return tasks
            except exc.IntegrityError:
                continue  # the like of one was asked for in this moment
        raise StoreUnavailable("Tasks like these are asked for faster than they can be tried again.")

    def _rows(self, statement: sa.TextClause, **values: object) -> list[sa.Row[Any]]:
        return [*self._db.execute(statement, {"t": self._tenant, **values})]

    def _changed(
        self, statement: sa.TextClause, ids: Sequence[UUID], *, returning: bool = True
    ) -> Sequence[sa.Row[Any]]:
        """Run a statement over ids, if there are any; its rows."""
        if not ids:
            return []
        done = self._db.execute(statement, {"t": self._tenant, "ids": [*ids]})
        return done.all() if returning else []


def _meant(which: DeadFilter) -> dict[str, object]:
    return {"owner": which.owner, "code": which.code, "kinds": [kind.value for kind in which.kinds]}


def _letter(row: sa.Row[Any]) -> DeadLetter:
    return DeadLetter(
        kind=DeadKind(row.kind),
        id=row.id,
        step=row.step,
        owner=row.owner,
        session=row.session,
        code=row.code or "",
        text=row.text or "",
        attempts=row.attempts,
        lost_leases=row.lost_leases,
        since=row.since,
    )


def _about(row: sa.Row[Any]) -> dict[str, str | int]:
    """Columns under their names; a task's progress number by number."""
    about: dict[str, str | int] = {}
    for name, value in row._mapping.items():
        if isinstance(value, dict):
            about.update({f"{name}.{key}": part for key, part in sorted(value.items())})
        else:
            about[name] = value if isinstance(value, int) else str(value)
    return about


class DeadStore:
    """Opens transactions on dead work."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    @contextmanager
    def looking_after(self, tenant: TenantId) -> Iterator[DeadRows]:
        """One transaction of a tenant."""
        with tenant_transaction(self._engine, tenant) as connection:
            yield DeadRows(connection, tenant)
