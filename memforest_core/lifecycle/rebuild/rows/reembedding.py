"""Vectors of another embedding model for all that is stored, in Postgres."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC
from typing import Any
from uuid import UUID

import numpy as np
import sqlalchemy as sa

from memforest_core.domain.ids import ForestId, NodeId, TreeId
from memforest_core.domain.indexed import cell_text
from memforest_core.errors import InvariantViolated
from memforest_core.index.collection_rows import switch_collection
from memforest_core.ingest.refresh.records import SummarySource
from memforest_core.ingest.refresh.rows import RefreshRows
from memforest_core.lifecycle.rebuild.records import StoredSummary, TextKind
from memforest_core.lifecycle.rebuild.rows.forest_sizes import PlanRows
from memforest_core.models.calls import CallRecord, OwnText, Vectors
from memforest_core.models.statement_vectors import Parts, parts_of
from memforest_core.store import tables as m
from memforest_core.store.call_ledger import record_calls
from memforest_core.store.copying import change_rows, columns_of
from memforest_core.store.engine import transaction
from memforest_core.store.owners import lock_forest
from memforest_core.store.rows import FIRST
from memforest_core.store.statements import from_document
from memforest_core.store.trees import members, set_centroids
from memforest_core.store.vectors import Key, VectorRows, pooled_half, to_half

# A candidate is compared by its sentence, and in routing by that with its origin and scene.
_CANDIDATES = sa.text("""
    WITH cells AS (
        SELECT cell_id, forest_id FROM memforest.cell
         WHERE tenant_id = :t AND cell_id > :after AND (CAST(:f AS uuid) IS NULL OR forest_id = :f)
         ORDER BY cell_id LIMIT :n)
    SELECT c.cell_id, c.forest_id, k.statement
      FROM cells c LEFT JOIN memforest.candidate k ON k.tenant_id = :t AND k.cell_id = c.cell_id
     ORDER BY c.cell_id, k.item
    """)

_SUMMARIES = sa.text("""
    SELECT s.node_id, s.version, s.text, s.source FROM memforest.node n
      JOIN memforest.node_summary s ON s.tenant_id = :t AND s.node_id = n.node_id
     WHERE n.tenant_id = :t AND n.level = :level AND s.vector_model <> :model ORDER BY s.node_id LIMIT :n
    """)

_COUNTS = sa.text("""
    SELECT count(*) AS summaries, count(*) FILTER (WHERE source = 'model') AS written,
           coalesce(sum(length(text)) FILTER (WHERE source = 'model'), 0) AS chars,
           (SELECT count(*) FROM memforest.tree WHERE tenant_id = :t AND centroid IS NOT NULL) AS scenes
      FROM memforest.node_summary WHERE tenant_id = :t AND vector_model <> :model
    """)

# For each fact of a scene first the candidate that most likely worded it, by whose routing vector it went there.
_MEMBERS = sa.text(f"""
    WITH scenes AS (
        SELECT tree_id, forest_id FROM memforest.tree
         WHERE tenant_id = :t AND tree_id > :after AND kind = 'scene' AND centroid IS NOT NULL
           AND (CAST(:f AS uuid) IS NULL OR forest_id = :f)
         ORDER BY tree_id LIMIT :n)
    SELECT DISTINCT ON (r.tree_id, p.payload_id) r.tree_id, r.forest_id, k.routing_hash
      FROM scenes r
      LEFT JOIN {members("q.tree_id = r.tree_id")} p ON true
      LEFT JOIN memforest.fact f ON f.tenant_id = :t AND f.fact_id = p.payload_id
      LEFT JOIN memforest.occurrence o ON o.tenant_id = :t AND o.fact_id = f.fact_id
      LEFT JOIN memforest.candidate k ON k.tenant_id = :t AND k.cell_id = o.cell_id AND k.item = o.item
     ORDER BY r.tree_id, p.payload_id, k.text_hash <> f.text_hash, o.cell_id, o.item DESC
    """)  # noqa: S608 - a constant of this package

_WORKERS = sa.text(
    "SELECT name FROM memforest.worker WHERE heartbeat_at > clock_timestamp() - make_interval(secs => :s) ORDER BY name"
)


class ReembedRows(VectorRows, PlanRows):
    """Rows of one transaction of a tenant."""

    def drop_changed(self) -> None:
        """Drop the vectors of texts that were changed or deleted while they were embedded."""
        self.unhurried()
        for forest in self._db.scalars(self._select(m.Forest.forest_id)).all():
            self.drop_orphans(ForestId(forest))

    def texts_after(
        self, kind: TextKind, after: UUID, limit: int, forest: ForestId | None
    ) -> tuple[list[OwnText], Parts, UUID | None]:
        """Texts of the next rows (of one forest or of all) in the order of ids, what routing texts among them are made
        of, and the last of these rows; None after the last page."""
        if kind is TextKind.CANDIDATE:
            return self._candidates(after, limit, forest)
        table, id_ = (m.Cell, m.Cell.cell_id) if kind is TextKind.CELL else (m.FactRow, m.FactRow.fact_id)
        when = m.Cell.time_start if kind is TextKind.CELL else m.FactRow.mentioned_at
        own = () if forest is None else (table.forest_id == forest,)
        rows = self._db.execute(
            sa.select(id_.label("id"), table.forest_id, table.text, when.label("at"))
            .where(table.tenant_id == self._tenant, id_ > after, *own)
            .order_by(id_)
            .limit(limit)
        ).all()
        texts = [
            OwnText(
                ForestId(row.forest_id),
                cell_text(row.text, row.at.astimezone(UTC)) if kind is TextKind.CELL else row.text,
            )
            for row in rows
        ]
        return texts, {}, rows[-1].id if rows else None

    def _candidates(self, after: UUID, limit: int, forest: ForestId | None) -> tuple[list[OwnText], Parts, UUID | None]:
        rows = self._run(_CANDIDATES, after=after, n=limit, f=forest).all()
        said = [(ForestId(row.forest_id), from_document(row.statement)) for row in rows if row.statement is not None]
        texts = [OwnText(forest, statement.text) for forest, statement in said]
        texts += [OwnText(forest, statement.routing_text) for forest, statement in said if statement.routing_label]
        return texts, parts_of(statement for _, statement in said), rows[-1].cell_id if rows else None

    def levels(self) -> int:
        """The height of the highest tree."""
        return int(self._db.scalar(sa.select(sa.func.max(m.Tree.height)).where(m.Tree.tenant_id == self._tenant)) or 0)

    def summaries(self, level: int, model: str, limit: int) -> Sequence[StoredSummary]:
        """Summaries of a level that have no vectors of this model; those below them have."""
        rows = self._run(_SUMMARIES, level=level, model=model, n=limit).all()
        children = RefreshRows(self._db, self._tenant).children_of([row.node_id for row in rows], model)
        return [
            StoredSummary(
                NodeId(row.node_id),
                row.version,
                row.text,
                row.source == SummarySource.MODEL,
                tuple(children[row.node_id]),
            )
            for row in rows
        ]

    def sizes(self, model: str) -> dict[str, int]:
        """``summaries`` without vectors of this model, those that a model has ``written`` with their ``chars``, and
        ``scenes``."""
        return {name: int(count) for name, count in self._run(_COUNTS, model=model).one()._asdict().items()}

    def put_summaries(
        self, model: str, nodes: Sequence[StoredSummary], vectors: Sequence[tuple[Vectors, Vectors]]
    ) -> None:
        """Give summaries their vectors and those that their leaves pool, unless they were written again meanwhile."""
        by = columns_of(nodes, "node_id", "version")
        new: dict[str, Sequence[Any]] = {
            "vector": [to_half(vector) for vector, _ in vectors],
            "pooled": [pooled_half(pooled, vector) for vector, pooled in vectors],
        }
        self._db.execute(change_rows("node_summary", self._tenant, by, new, vector_model=model))

    def recenter(
        self, after: TreeId | None, model: tuple[str, int], limit: int, forest: ForestId | None
    ) -> TreeId | None:
        """Compute the centroids of the next scenes, of one forest (which is locked) or of all; the last scene, None at
        the end.

        A centroid is the sum of its facts' routing vectors. ``model`` is the name and dimension of the embedding model.
        """
        if forest is not None:
            lock_forest(self._db, self._tenant, forest)
        rows = self._run(_MEMBERS, after=after or FIRST, n=limit, f=forest).all()
        if not rows:
            return None
        name, dimension = model
        members: dict[TreeId, list[Key]] = defaultdict(list)
        for row in rows:
            found = [(ForestId(row.forest_id), bytes(row.routing_hash))] if row.routing_hash is not None else []
            members[TreeId(row.tree_id)].extend(found)
        wanted = {key for keys in members.values() for key in keys}
        known = self.vectors_by_hash(name, wanted)
        missing = wanted - known.keys()
        if missing:
            raise InvariantViolated(f"{len(missing)} facts have no routing vector of model {name}.")
        zero = np.zeros(dimension, np.float32)
        sums = {tree: sum((known[key] for key in keys), zero) for tree, keys in members.items()}
        set_centroids(self._db, self._tenant, sums)
        return TreeId(rows[-1].tree_id)

    def record_call(self, call: CallRecord) -> None:
        record_calls(self._db, self._tenant, [call], None, None)


def alive_workers(engine: sa.Engine, dead_after_s: float) -> Sequence[str]:
    """The names of worker processes that are alive."""
    with transaction(engine) as connection:
        return list(connection.scalars(_WORKERS, {"s": dead_after_s}))


def live_collection(engine: sa.Engine) -> str | None:
    """The name of the collection that is in use."""
    with transaction(engine) as connection:
        found: str | None = connection.scalar(sa.select(m.Collection.name).where(m.Collection.live))
        return found


def make_live(engine: sa.Engine, name: str, model: str, dimension: int, *, live: bool = True) -> None:
    """Make this the collection in use, or name it first: from then on deletions know its model's vectors."""
    with transaction(engine) as connection:
        connection.execute(sa.text("LOCK TABLE memforest.collection IN SHARE ROW EXCLUSIVE MODE"))
        switch_collection(connection, name, model, dimension, live=live)
