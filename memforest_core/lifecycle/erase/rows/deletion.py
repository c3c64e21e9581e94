"""A deletion as an operation: its progress, forests that are given up and cleared, and the search for what is left."""

# ruff: noqa: S608 - statements are made of constants of this module

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy import Connection

from memforest_core.domain.ids import ForestId, SessionId, TenantId, TreeKind, tree_id
from memforest_core.ingest.reduce.rows import ReduceRows
from memforest_core.lifecycle.erase.records import Removed, Scope, Target
from memforest_core.lifecycle.erase.rows.targets import IDS, ITEMS, OF_TIMES, TURNS, BatchRows, TargetRows, sessions_of
from memforest_core.lifecycle.erase.rows.words import WordRows
from memforest_core.store import tables as m
from memforest_core.store.copying import (
    CONTENT,
    RECORDS,
    delete_rows,
    delete_some,
    lock_some,
    of_forest,
    stored_table,
    words_left,
)
from memforest_core.store.owners import ForestRows, lock_forests, set_forest_state
from memforest_core.store.rows import among
from memforest_core.store.vectors import UNUSED, VectorRows
from memforest_core.work.records import Numbers, TaskId
from memforest_core.work.rows.operation_rows import OperationRows

_CANDIDATES = sa.text(f"""
    SELECT count(*) FROM {ITEMS} JOIN memforest.candidate k
        ON k.tenant_id = :t AND k.cell_id = u.cell AND k.item = u.item
""")


def _counting(conditions: Mapping[str, str]) -> str:
    return ", ".join(f'count(*) FILTER (WHERE {condition}) AS "{name}"' for name, condition in conditions.items())


_WORDS_OF_TURNS = sa.text(f"""
    SELECT {_counting({"turn.erased": "NOT t.erased"} | words_left("turn", "t"))} FROM {TURNS}
      JOIN memforest.turn t ON t.tenant_id = :t AND t.session_id = u.session AND t.ordinal = u.ordinal
""")

# A cell with remaining turns is given their text.
_WORDS_OF_CELLS = sa.text(f"""
    SELECT {_counting(words_left("cell", "c", but=("text", "text_hash")))} FROM memforest.cell c
     WHERE c.tenant_id = :t AND c.cell_id = {IDS}
""")

_WORDS_OF_TREES = sa.text(f"""
    SELECT {_counting(words_left("tree", "r"))} FROM memforest.tree r WHERE r.tenant_id = :t AND r.tree_id = {IDS}
""")

_ITEMS_OF_TURNS = sa.text(f"""
    SELECT count(*) FROM {TURNS} JOIN memforest.window_item i
        ON i.tenant_id = :t AND i.said_in = u.session AND i.ordinal = u.ordinal
""")

_TOPICS_OF_TURNS = sa.text(f"""
    SELECT count(*) FROM {TURNS} JOIN memforest.turn_topic w
        ON w.tenant_id = :t AND w.session_id = u.session AND w.ordinal = u.ordinal
""")

_DAYS = sa.text(f"SELECT count(*) FROM memforest.calendar_digest g WHERE {OF_TIMES}")

_VECTORS = sa.text(f"""
    SELECT count(*) FROM memforest.vector v
     WHERE v.tenant_id = :t AND v.forest_id = :f AND v.model IN (SELECT model FROM memforest.collection)
       AND v.text_hash = ANY(CAST(:hashes AS bytea[])) AND {UNUSED}
""")

_BOUND = ("occurrence.session_id", "placement.session_id", "tree.session_id", "window_item.item_id")
"""No index finds rows by these: what binds such a row is searched for, its cell, its tree, or its fact or turn."""

Reference = tuple[sa.orm.QueryableAttribute[Any], Sequence[UUID]]
"""A column, and ids that must not occur in it."""


def _references(**ids: Sequence[UUID]) -> list[Reference]:
    """All columns of these names, but those of records, with the ids that must not occur in them."""
    tables = [each for each in m.Base.registry.mappers if each.class_.__tablename__ not in RECORDS]
    found = [(getattr(each.class_, name), ids[name]) for each in tables for name in ids if name in each.columns]
    return [(column, of) for column, of in found if f"{column.class_.__tablename__}.{column.key}" not in _BOUND]


class RemainingRows(BatchRows):
    def of_batch(self, forest: ForestId, removed: Removed) -> Counter[str]:
        payloads = [*removed.cells, *removed.facts]
        points = [*payloads, *removed.nodes]
        found = self._counted(
            *_references(
                cell_id=removed.cells,
                fact_id=removed.facts,
                payload_id=payloads,
                node_id=removed.nodes,
                item_id=points,
                point_id=points,
            ),
            (m.NodeSummary.node_id, removed.masked),
            (m.ExtractionCache.session_id, sessions_of(removed.turns)),
            (m.Summary.tree_id, removed.trees),
            (m.SessionWindow.session_id, sessions_of(removed.turns)),
        )
        found["window_item.ordinal"] = self._turns(_ITEMS_OF_TURNS, removed.turns).scalar_one()
        found["turn_topic.vector"] = self._turns(_TOPICS_OF_TURNS, removed.turns).scalar_one()
        for words in (
            self._ids(_WORDS_OF_TREES, removed.trees),
            self._ids(_WORDS_OF_CELLS, removed.rewritten),
            self._turns(_WORDS_OF_TURNS, removed.turns),
        ):
            found.update(dict(words.mappings().one()))
        found["calendar_digest.start_at"] = self._run(_DAYS, f=forest, times=list(removed.times)).scalar_one()
        found["candidate.item"] = self._items(_CANDIDATES, removed.items).scalar_one()
        found["vector.text_hash"] = self._run(_VECTORS, f=forest, hashes=list(removed.hashes)).scalar_one()
        return found

    def of_target(self, scope: Scope) -> Counter[str]:
        """What is still there of an owner or a fact."""
        if scope.target is Target.OWNER:
            return self.of_forest(scope.forest)
        if scope.fact is None:
            return Counter()
        columns = ("fact_id", "superseded_by", "payload_id", "item_id", "point_id")
        return self._counted(*_references(**{key: [scope.fact] for key in columns}))

    def of_session(self, forest: ForestId, session: SessionId) -> Counter[str]:
        """What is still there of a session, in the transaction that deletes it."""
        tree = [tree_id(forest, TreeKind.SESSION, str(session))]
        return self._counted(*_references(session_id=[session], said_in=[session], tree_id=tree))

    def of_forest(self, forest: ForestId) -> Counter[str]:
        """Tables without a column for the forest have a foreign key to one that has it: none of their rows are left."""
        return self._counted(*_references(forest_id=[forest]), tombstones=True)

    def _counted(self, *references: Reference, tombstones: bool = False) -> Counter[str]:
        """How often each column has one of its ids; rows of deleted points count only with ``tombstones``."""
        counts = []
        for column, ids in references:
            table = column.class_
            where = [table.tenant_id == self._tenant, among(column, ids)]
            if table is m.IndexRow and not tombstones:
                where.append(~table.deleted)
            name = sa.literal(f"{table.__tablename__}.{column.key}")
            counts.append(sa.select(name, sa.func.count()).select_from(table).where(*where))
        found: Counter[str] = Counter()
        for row in self._db.execute(sa.union_all(*counts)):
            found[str(row[0])] += int(row[1])
        return found


STEPS = "steps"
"""How many steps a task has committed: of two progresses the one with more steps is newer."""

# An owner's forest first, then what imports and merges fill for the owner, then copies of rebuilds.
_FORESTS_OF_OWNER = sa.text("""
    SELECT forest_id FROM memforest.forest
     WHERE tenant_id = :t AND owner = :owner AND (state IN ('live', 'frozen') OR state = 'hidden')
     ORDER BY state = 'hidden', rules ? 'held', forest_id
""")

_REPEATS = sa.text("""
    SELECT task_id FROM memforest.maintenance
     WHERE tenant_id = :t AND kind = 'erase' AND (task_id = :task OR arguments ->> 'repeats' = CAST(:task AS text))
     ORDER BY sequence
""")

_NAMED = sa.text("""
    SELECT owner, forest_id FROM memforest.forest
     WHERE tenant_id = :t AND state <> 'gone' AND (forest_id = :f
           OR encode(sha256(convert_to(tenant_id || chr(31) || owner, 'UTF8')), 'hex') = CAST(:hash AS text))
     ORDER BY state = 'hidden', rules ? 'held', forest_id
""")

_IMPORTS_INTO = sa.text(f"""
    SELECT task_id FROM memforest.maintenance
     WHERE tenant_id = :t AND kind = 'import' AND state = 'held' AND forest_id = {IDS} ORDER BY task_id
""")

_EXPORTS_OF = sa.text("""
    SELECT task_id, actor FROM memforest.maintenance
     WHERE tenant_id = :t AND kind = 'export' AND state = 'held' AND forest_id = :f ORDER BY task_id
""")

_MERGED_BEFORE = sa.text("""
    SELECT EXISTS (
        SELECT 1 FROM memforest.maintenance k
          JOIN memforest.maintenance_forest mine ON mine.tenant_id = :t AND mine.task_id = k.task_id
          JOIN memforest.maintenance_forest theirs
            ON theirs.tenant_id = :t AND theirs.forest_id = mine.forest_id AND theirs.role LIKE 'merge%'
          JOIN memforest.maintenance o
            ON o.tenant_id = :t AND o.task_id = theirs.task_id AND o.state IN ('ready', 'running')
           AND o.sequence < k.sequence
         WHERE k.tenant_id = :t AND k.task_id = :task)
""")

_FORESTS_TO_GIVE_UP = sa.text("""
    SELECT f.forest_id FROM memforest.maintenance_forest x
      JOIN memforest.forest f ON f.tenant_id = :t AND f.forest_id = x.forest_id AND f.state <> 'gone'
     WHERE x.tenant_id = :t AND x.task_id = :task ORDER BY f.forest_id
""")

_GOING = sa.text("""
    SELECT f.forest_id FROM memforest.maintenance k
      JOIN memforest.maintenance_forest x ON x.tenant_id = :t AND x.task_id = k.task_id
      JOIN memforest.forest f ON f.tenant_id = :t AND f.forest_id = x.forest_id AND f.state = 'gone'
     WHERE k.tenant_id = :t AND k.task_id = :task AND f.forest_id IS DISTINCT FROM CAST(:source AS uuid)
     ORDER BY f.forest_id = k.forest_id, f.forest_id LIMIT 1
""")

_COPY = "(f.state = 'gone' OR (f.state = 'hidden' AND f.rules ? 'held'))"

_COPIES_OF = sa.text(f"""
    SELECT f.forest_id FROM memforest.forest o
      JOIN memforest.forest f ON f.tenant_id = :t AND f.owner = o.owner AND f.forest_id <> o.forest_id AND {_COPY}
     WHERE o.tenant_id = :t AND o.forest_id = :f
""")

# Copies that a rebuild makes, or made and that are being deleted, have the same words.
_TOUCH_COPIES = sa.text(f"""
    INSERT INTO memforest.maintenance_forest (tenant_id, task_id, forest_id, role)
    SELECT DISTINCT CAST(:t AS text), CAST(:task AS uuid), f.forest_id, 'erase'
      FROM memforest.maintenance_forest x
      JOIN memforest.forest o ON o.tenant_id = :t AND o.forest_id = x.forest_id
      JOIN memforest.forest f ON f.tenant_id = :t AND f.owner = o.owner AND {_COPY}
     WHERE x.tenant_id = :t AND x.task_id = :task
    ON CONFLICT DO NOTHING
""")

_ALL_REQUESTED = sa.text("""
    SELECT EXISTS (SELECT 1 FROM memforest.maintenance
                    WHERE tenant_id = :t AND forest_id = :f AND kind = 'erase' AND arguments ->> 'target' = 'owner'
                      AND NOT arguments ? 'dry_run' AND cancelled_by IS NULL)
""")

# The unfinished work of a forest that is given up is postponed for 100 years: no worker finds it. An indexer that is
# writing points of it has its lease still, so that clearing can wait for it.
_PUT_OFF_CELLS = sa.text("""
    UPDATE memforest.cell SET state = CASE WHEN state = 'running' THEN 'ready' ELSE state END, retry_at = NULL,
           lease_token = NULL, lease_until = NULL, worker_id = NULL,
           available_at = clock_timestamp() + interval '100 years'
     WHERE tenant_id = :t AND forest_id = :f AND (state IN ('ready', 'held', 'running') OR retry_at IS NOT NULL)
""")
_PUT_OFF_POINTS = sa.text(f"""
    UPDATE memforest.index_row SET available_at = clock_timestamp() + interval '100 years'
     WHERE tenant_id = :t AND point_id IN (
           SELECT point_id FROM memforest.index_row
            WHERE tenant_id = :t AND forest_id = :f AND {m.BEHIND} AND state = 'ready' ORDER BY point_id FOR UPDATE)
""")
_PUT_OFF_TREES = sa.text("""
    UPDATE memforest.tree SET due_at = NULL, first_mark_at = NULL, marks = marks + 1
     WHERE tenant_id = :t AND tree_id IN (
           SELECT tree_id FROM memforest.tree
            WHERE tenant_id = :t AND forest_id = :f AND due_at IS NOT NULL ORDER BY tree_id FOR NO KEY UPDATE)
""")
_PUT_OFF_REDUCING = sa.text("""
    UPDATE memforest.forest SET reduce_available_at = clock_timestamp() + interval '100 years'
     WHERE tenant_id = :t AND forest_id = :f
""")

_CACHES = ("extraction_cache", "summary_cache", "session_window", "window_item", "running_session", "calendar_digest")
_NAMES = (
    {name: f"{name}s" for name in (*CONTENT, "forest")}
    | {"node_summary": "summaries", "webhook_delivery": "deliveries", "retention_policy": "policies"}
    | {"index_row": "points", "turn_pack": "packs", **dict.fromkeys(_CACHES, "cached")}
)
"""The names under which rows are counted, by table; leaves are counted separately from other nodes."""

_ROOTS = ("cell", "fact", "node")
"""Their rows go first, together with the rows that refer to them."""

# The other tables, in an order that foreign keys allow. No vector is added to a forest that was given up.
_FIRST_OR_LAST = {*_ROOTS, "candidate", "occurrence", "node_summary", "index_row", "forest"}
_REST = tuple(
    each.name for each in reversed(m.Base.metadata.sorted_tables) if each.name in _NAMES.keys() - _FIRST_OR_LAST
)


class DeletionRows(BatchRows):
    """The rows of a deletion's task, and the states of the forests that it deletes."""

    @property
    def tasks(self) -> OperationRows:
        return OperationRows(self._db, self._tenant)

    def further(self, task: TaskId, progress: Numbers) -> Numbers:
        """The progress that a step of this task has committed with its rows, if it is further than ``progress``."""
        own = self._select(m.OperationRow.progress).where(m.OperationRow.task_id == task)
        stored: Mapping[str, Any] = self._db.scalar(own) or {}
        return stored if int(stored.get(STEPS, 0)) > int(progress.get(STEPS, 0)) else progress

    def forests_of(self, owner: str) -> list[ForestId]:
        """An owner's forest, and those that are hidden."""
        return [ForestId(forest) for forest in self._run(_FORESTS_OF_OWNER, owner=owner).scalars()]

    def repeats(self, task: UUID) -> list[TaskId]:
        """The task of this id, or the tasks that repeat it."""
        return [TaskId(found) for found in self._run(_REPEATS, task=task).scalars()]

    def named(self, forest: UUID, owner_hash: str | None) -> tuple[str | None, list[ForestId]]:
        """The owner of a forest, by its id or the audit's hash of its name, and the owner's forests, the live first."""
        rows = self._run(_NAMED, f=forest, hash=owner_hash).all()
        return (rows[0].owner if rows else None), [ForestId(row.forest_id) for row in rows]

    def cancel_imports(self, forests: Sequence[ForestId], actor: str) -> None:
        """Have the imports undone that fill these forests."""
        for task in self._ids(_IMPORTS_INTO, forests).scalars().all():
            self.tasks.cancel(TaskId(task), actor)

    def cancel_exports(self, forest: ForestId) -> None:
        """Cancel the exports of a forest that is gone: a process that was killed at one can't go on with it."""
        for task, actor in self._run(_EXPORTS_OF, f=forest).all():
            self.tasks.cancel(TaskId(task), actor)

    def whole_forest_requested(self, forest: ForestId) -> bool:
        return bool(self._run(_ALL_REQUESTED, f=forest).scalar())

    def touched(self, task: TaskId) -> list[ForestId]:
        """The forests of a deletion: those that were meant, and copies of them."""
        touched = m.OperationForestRow
        statement = self._select(touched.forest_id).where(touched.task_id == task)
        return [ForestId(found) for found in self._db.scalars(statement.order_by(touched.forest_id))]

    def next_to_clear(self, task: TaskId, source: ForestId | None = None) -> ForestId | None:
        """The next forest of a deletion to clear: copies first, all but their ``source``."""
        found = self._run(_GOING, task=task, source=source).scalar()
        return ForestId(found) if found is not None else None

    def give_up_copies(self, task: TaskId, forest: ForestId) -> None:
        """Give up the copies that are being built of a forest; this deletion clears them, and what older ones left."""
        copies = self._run(_COPIES_OF, f=forest).scalars().all()
        for each in sorted({forest, *copies}):
            # A rebuild reads deletions with its source locked.
            if each == forest:
                lock_forests(self._db, self._tenant, [forest])
            else:
                self.give_up(ForestId(each))
        self._run(_TOUCH_COPIES, task=task)

    def give_up_forests(self, task: TaskId) -> None:
        """Give up a deletion's forests, and copies of them, unless a merge that was requested before works on one."""
        if self._run(_MERGED_BEFORE, task=task).scalar():
            return
        self._run(_TOUCH_COPIES, task=task)
        for forest in self._run(_FORESTS_TO_GIVE_UP, task=task).scalars().all():
            self.give_up(ForestId(forest))

    def give_up(self, forest: ForestId) -> None:
        """Take a forest from its owner and stop its work; it has to be cleared. Does nothing if it was given up."""
        state = self._select(m.Forest.state).where(m.Forest.forest_id == forest)
        if self._db.scalar(state) in (None, "gone"):
            return
        set_forest_state(self._db, self._tenant, forest, "gone")
        for statement in (_PUT_OFF_CELLS, _PUT_OFF_POINTS, _PUT_OFF_TREES, _PUT_OFF_REDUCING):
            self._run(statement, f=forest)

    def clear(self, forest: ForestId, limit: int) -> Mapping[str, int] | None:
        """Delete up to ``limit`` rows of one table of a forest, and what refers to them; counts, None without any."""
        for root in _ROOTS:
            lock = lock_some(root, self._tenant, forest, limit)
            rows = self._db.execute(lock.add_columns(m.NodeRow.level) if root == "node" else lock).all()
            if rows:
                leaves = sum(row.level == 0 for row in rows) if root == "node" else 0
                return _named(delete_rows(self._db, self._tenant, root, [row[0] for row in rows]).items(), leaves)
        for name in _REST:
            gone = self._db.execute(delete_some(name, self._tenant, forest, limit)).rowcount
            if gone:
                return {_NAMES[name]: gone}
        return None

    def points_of(self, forest: ForestId, limit: int) -> Sequence[UUID]:
        """The next points that a forest has rows of and that no indexer is writing now."""
        point = m.IndexRow
        return self._db.scalars(
            self._select(point.point_id)
            .where(point.forest_id == forest, point.state != "running")
            .order_by(point.point_id)
            .limit(limit)
        ).all()

    def drop_points(self, points: Sequence[UUID]) -> int:
        point = m.IndexRow
        own = [point.tenant_id == self._tenant, among(point.point_id, points)]
        self._db.execute(sa.select(point.point_id).where(*own).order_by(point.point_id).with_for_update()).all()
        return self._db.execute(sa.delete(point).where(*own, point.state != "running")).rowcount

    def drop_forest(self, forest: ForestId) -> int:
        """Drop a forest's row. Operations on it stay on record, as ids and counts."""
        return self._delete(m.Forest.forest_id, [forest])

    def counts_of(self, forest: ForestId) -> Mapping[str, int]:
        """The size of a forest, under the names that clearing counts by."""
        counts = [
            sa.select(sa.literal(name), sa.func.count())
            .select_from(stored_table(name))
            .where(of_forest(name, self._tenant, forest))
            for name in _NAMES
        ]
        leaves = sa.select(sa.func.count()).where(of_forest("node", self._tenant, forest), m.NodeRow.level == 0)
        rows = self._db.execute(sa.union_all(*counts))
        return _named(((str(row[0]), int(row[1])) for row in rows), int(self._db.scalar(leaves) or 0))


def _named(counts: Iterable[tuple[str, int]], leaves: int) -> Counter[str]:
    """Counts of tables under the names that people read, with leaves separately from other nodes."""
    named = Counter({"leaves": leaves, "nodes": -leaves})
    for table, count in counts:
        named[_NAMES[table]] += count
    return named


class ErasureRows(ForestRows):
    """One transaction of a tenant, by what the steps of a deletion do in it."""

    def __init__(self, connection: Connection, tenant: TenantId) -> None:
        super().__init__(connection, tenant)
        self.deletion = DeletionRows(connection, tenant)
        self.targets = TargetRows(connection, tenant)
        self.words = WordRows(connection, tenant)
        self.vectors = VectorRows(connection, tenant)
        self.reducing = ReduceRows(connection, tenant)
        self.remaining = RemainingRows(connection, tenant)
