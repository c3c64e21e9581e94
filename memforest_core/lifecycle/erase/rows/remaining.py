"""The search after a deletion: references to removed ids, and what is still there of a target; every count should be 0.

Each count is named after the column that it was found in.
"""

# ruff: noqa: S608 - statements are made of constants of this package

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from memforest_core.domain.ids import ForestId, SessionId, TreeKind, tree_id
from memforest_core.lifecycle.erase.records import Removed, Scope, Target
from memforest_core.lifecycle.erase.rows.batch import IDS, ITEMS, OF_TIMES, TURNS, BatchRows, sessions_of
from memforest_core.store import tables as m
from memforest_core.store.copying import RECORDS, words_left
from memforest_core.store.rows import among
from memforest_core.store.vectors import UNUSED

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

_DAYS = sa.text(f"SELECT count(*) FROM memforest.calendar_digest g WHERE {OF_TIMES}")

_VECTORS = sa.text(f"""
    SELECT count(*) FROM memforest.vector v
     WHERE v.tenant_id = :t AND v.forest_id = :f AND v.model IN (SELECT model FROM memforest.collection)
       AND v.text_hash = ANY(CAST(:hashes AS bytea[])) AND {UNUSED}
""")

_UNUSED_VECTORS = sa.text(
    f"SELECT count(*) FROM memforest.vector v WHERE v.tenant_id = :t AND v.forest_id = :f AND {UNUSED}"
)

# Tables without a column for the forest have a foreign key to one of these, so none of their rows can be left.
_OF_FOREST = tuple(
    each.class_
    for each in m.Base.registry.mappers
    if "forest_id" in each.columns and each.class_.__tablename__ not in RECORDS
)

Reference = tuple[sa.orm.QueryableAttribute[Any], Sequence[UUID]]
"""A column, and ids that must not occur in it."""


class RemainingRows(BatchRows):
    def of_batch(self, forest: ForestId, removed: Removed) -> Counter[str]:
        payloads = [*removed.cells, *removed.facts]
        points = [*payloads, *removed.nodes]
        found = self._counted(
            (m.Cell.cell_id, removed.cells),
            (m.FactRow.fact_id, removed.facts),
            (m.CandidateRow.cell_id, removed.cells),
            (m.OccurrenceRow.cell_id, removed.cells),
            (m.OccurrenceRow.fact_id, removed.facts),
            (m.Placement.payload_id, payloads),
            (m.NodeRow.payload_id, payloads),
            (m.NodeRow.node_id, removed.nodes),
            (m.NodeSummary.node_id, [*removed.nodes, *removed.masked]),
            (m.Visit.item_id, points),
            (m.IndexRow.point_id, points),
            (m.ExtractionCache.session_id, sessions_of(removed.turns)),
            (m.Summary.tree_id, removed.trees),
            (m.SessionWindow.session_id, sessions_of(removed.turns)),
            (m.WindowItem.fact_id, removed.facts),
        )
        found["window_item.ordinal"] = self._turns(_ITEMS_OF_TURNS, removed.turns).scalar_one()
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
        """What is still there of an owner or a fact, and vectors without a text in the target's forest."""
        match scope.target:
            case Target.OWNER:
                return self.of_forest(scope.forest)
            case Target.FACT if scope.fact is not None:
                fact = [scope.fact]
                found = self._counted(
                    (m.FactRow.fact_id, fact),
                    (m.FactRow.superseded_by, fact),
                    (m.OccurrenceRow.fact_id, fact),
                    (m.Placement.payload_id, fact),
                    (m.NodeRow.payload_id, fact),
                    (m.Visit.item_id, fact),
                    (m.IndexRow.point_id, fact),
                )
            case _:
                found = Counter()
        found["vector.text_hash"] = self._run(_UNUSED_VECTORS, f=scope.forest).scalar_one()
        return found

    def of_session(self, forest: ForestId, session: SessionId) -> Counter[str]:
        """What is still there of a session, in the transaction that deletes it."""
        ids, tree = [session], [tree_id(forest, TreeKind.SESSION, str(session))]
        return self._counted(
            (m.Session.session_id, ids),
            (m.TurnRow.session_id, ids),
            (m.Cell.session_id, ids),
            (m.Tree.tree_id, tree),
            (m.Placement.tree_id, tree),
            (m.NodeRow.tree_id, tree),
            (m.ExtractionCache.session_id, ids),
            (m.SessionWindow.session_id, ids),
            (m.WindowItem.session_id, ids),
            (m.WindowItem.said_in, ids),
        )

    def of_forest(self, forest: ForestId) -> Counter[str]:
        return self._counted(*((table.forest_id, [forest]) for table in _OF_FOREST), tombstones=True)

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
        return Counter({str(row[0]): int(row[1]) for row in self._db.execute(sa.union_all(*counts))})
