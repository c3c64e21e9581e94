"""Merging forests in Postgres: the forests and tasks of a merge, and what two forests have in common."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from uuid import uuid4

import numpy as np
import sqlalchemy as sa

from memforest_core.domain.facts import Statement
from memforest_core.domain.ids import FactId, ForestId, TenantId
from memforest_core.ingest.reduce.records import HELD
from memforest_core.ingest.reduce.rows import ReduceRows
from memforest_core.lifecycle.hidden_forest_rows import HiddenForestRows, StoredForest
from memforest_core.lifecycle.merge.records import ValueConflict
from memforest_core.lifecycle.merge.rows.content import ContentCopies, TreeCopies
from memforest_core.models.calls import Vectors
from memforest_core.store import tables as m
from memforest_core.store.copying import old
from memforest_core.store.owners import lock_forests
from memforest_core.store.statements import from_document
from memforest_core.store.trees import micros
from memforest_core.store.vectors import from_bytes
from memforest_core.work.records import Numbers, TaskId
from memforest_core.work.rows.operation_rows import OperationRows

_CONTENDED = sa.text("""
    SELECT EXISTS (
        SELECT 1 FROM memforest.maintenance k
         WHERE k.tenant_id = :t AND k.state IN ('held', 'ready', 'running') AND k.task_id <> :task
           AND k.progress <> CAST('{}' AS jsonb) AND NOT k.arguments ? 'dry_run'
           AND CASE k.kind
               WHEN 'rematerialize' THEN CAST(k.forest_id AS text) = ANY(CAST(:all AS text[]))
               WHEN 'merge' THEN k.forest_id = ANY(CAST(:sources AS uuid[]))
                    OR EXISTS (SELECT 1 FROM jsonb_each_text(k.arguments) a WHERE a.key LIKE 'source%'
                                  AND a.value = ANY(CAST(:all AS text[])))
               ELSE false END)
    """)

_UNFINISHED = sa.text("""
    SELECT f.forest_id FROM memforest.forest f
      JOIN memforest.maintenance k ON k.tenant_id = :t AND k.forest_id = f.forest_id AND k.kind = 'merge'
     WHERE f.tenant_id = :t AND f.owner = :owner AND f.state = 'hidden' AND k.state IN ('held', 'ready', 'running')
       AND k.arguments ->> 'source_0' = CAST(:like AS text)
     ORDER BY k.created_at LIMIT 1
    """)

_TO_BE_DELETED = sa.text("""
    SELECT EXISTS (
        SELECT 1 FROM memforest.maintenance_forest x
          JOIN memforest.maintenance k ON k.tenant_id = :t AND k.task_id = x.task_id
         WHERE x.tenant_id = :t AND x.forest_id = :f AND x.role = 'erase' AND k.arguments ->> 'target' = 'owner'
           AND k.state IN ('ready', 'running') AND k.cancelled_by IS NULL)
    """)

# An undated state is valid until the next one of its chain. What is denied, planned or heard of contradicts nothing.
_VALUE_CONFLICTS = sa.text(f"""
    WITH held AS (
        SELECT f.forest_id, f.fact_id, f.subject_key, f.attribute, f.text, f.statement ->> 'value' AS value,
               {micros("coalesce(f.time_start, f.mentioned_at)")} AS since,
               CASE WHEN f.time_start IS NOT NULL THEN {micros("f.time_end")}
                    ELSE lead({micros("coalesce(f.time_start, f.mentioned_at)")}) OVER (
                         PARTITION BY f.forest_id, f.subject_key, f.attribute
                             ORDER BY coalesce(f.time_start, f.mentioned_at)) END AS until
          FROM memforest.fact f
         WHERE f.tenant_id = :t AND f.forest_id = ANY(CAST(:both AS uuid[])) AND f.attribute <> ''
           AND f.superseded_at IS NULL AND f.statement ->> 'polarity' = 'positive'
           AND f.statement ->> 'modality' = 'asserted' AND f.statement ->> 'value' <> '')
    SELECT a.subject_key, a.attribute, a.fact_id, a.text, a.value, b.fact_id AS other_id, b.text, b.value,
           greatest(a.since, b.since) AS since, count(*) OVER () AS conflicts
      FROM held a JOIN held b ON b.subject_key = a.subject_key AND b.attribute = a.attribute
     WHERE a.forest_id = :source AND b.forest_id = :target AND lower(a.value) <> lower(b.value)
       AND (a.until IS NULL OR a.until > b.since) AND (b.until IS NULL OR b.until > a.since)
     ORDER BY since, a.fact_id, b.fact_id LIMIT :n
    """)  # noqa: S608 - constants

_VECTORS = sa.text("""
    SELECT f.seq, f.fact_id, v.vector FROM memforest.fact f
      LEFT JOIN LATERAL (SELECT x.vector FROM memforest.vector x
                          WHERE x.tenant_id = :t AND x.forest_id = :f AND x.model = :m
                            AND x.text_hash = f.text_hash LIMIT 1) v ON true
     WHERE f.tenant_id = :t AND f.forest_id = :f AND f.superseded_at IS NULL AND f.seq > :after
     ORDER BY f.seq LIMIT :n
    """)


class MergeRows(HiddenForestRows):
    """Rows of one transaction of a merge."""

    def __init__(self, connection: sa.Connection, tenant: TenantId) -> None:
        super().__init__(connection, tenant)
        self.tasks = OperationRows(connection, tenant)
        self.content = ContentCopies(connection, tenant)
        self.trees = TreeCopies(connection, tenant)
        self.reduce = ReduceRows(connection, tenant)

    def lock_forests(self, forests: Sequence[ForestId], *, changing: bool = False) -> Mapping[ForestId, StoredForest]:
        """Become the only writer of these forests, in the order of ids; those that are there. ``changing``: the
        caller will change their states."""
        states = lock_forests(self._db, self._tenant, forests, changing=changing)
        return {forest.id: forest for forest in self.forests(list(states))}

    def new_forest(self, owner: str, like: ForestId) -> ForestId:
        """A new hidden forest of an owner, in another one's time zone and with its rules; that of an unfinished merge
        again, if there is one."""
        begun = self._run(_UNFINISHED, owner=owner, like=like).scalar()
        if begun is not None:
            return ForestId(begun)
        new = ForestId(uuid4())
        self.make_hidden(like, new, "created_at", owner=owner, rules=old("rules").op("-")(HELD))
        return new

    def to_be_deleted(self, forest: ForestId) -> bool:
        """Whether a deletion of the whole forest is requested and not done."""
        return bool(self._run(_TO_BE_DELETED, f=forest).scalar())

    def contended(self, task: TaskId, sources: Sequence[ForestId], target: ForestId) -> bool:
        """Whether another merge has begun that moves one of these forests, or moves into one of the sources, or one of
        them is being rebuilt."""
        every = [str(id_) for id_ in (*sources, target)]
        return bool(self._run(_CONTENDED, task=task, sources=list(sources), all=every).scalar())

    def progress(self, task: TaskId) -> Numbers:
        """How far a task has come, locked until this transaction ends. Empty for a task that is not stored."""
        found: Numbers | None = self._db.scalar(
            self._select(m.OperationRow.progress).where(m.OperationRow.task_id == task).with_for_update(key_share=True)
        )
        return found or {}

    def value_conflicts(self, source: ForestId, target: ForestId, limit: int) -> tuple[int, Sequence[ValueConflict]]:
        """How many pairs of facts give one attribute of one subject different values for the same time; some of them.

        A state without a time of its own is valid from its mention until the next one of its chain in its forest.
        """
        rows = self._run(_VALUE_CONFLICTS, source=source, target=target, both=[source, target], n=max(1, limit)).all()
        found = [ValueConflict(*row[:-1]) for row in rows[:limit]]
        return (int(rows[0].conflicts) if rows else 0), found

    def vector_pages(self, forest: ForestId, model: str, size: int) -> Iterator[tuple[Sequence[FactId], Vectors]]:
        """Pages of a forest's live facts that have a vector, and those as rows of a matrix."""
        after = -1
        while True:
            rows = self._run(_VECTORS, f=forest, m=model, after=after, n=size).all()
            if not rows:
                return
            after = rows[-1].seq
            found = [row for row in rows if row.vector is not None]
            if found:
                yield [FactId(row.fact_id) for row in found], np.stack([from_bytes(row.vector) for row in found])

    def fact_counts(self, forests: Sequence[ForestId]) -> Mapping[ForestId, int]:
        f = m.FactRow
        counted = self._select(f.forest_id, sa.func.count()).where(f.forest_id.in_(forests))
        found = self._db.execute(counted.group_by(f.forest_id)).all()
        return dict.fromkeys(forests, 0) | {ForestId(forest): count for forest, count in found}

    def statements(self, ids: Sequence[FactId]) -> Mapping[FactId, Statement]:
        """What these facts say, as far as they exist and are not superseded."""
        if not ids:
            return {}
        rows = self._db.execute(
            self._select(m.FactRow.fact_id, m.FactRow.statement).where(
                m.FactRow.fact_id.in_(list(dict.fromkeys(ids))), m.FactRow.superseded_at.is_(None)
            )
        )
        return {FactId(row.fact_id): from_document(row.statement) for row in rows}
