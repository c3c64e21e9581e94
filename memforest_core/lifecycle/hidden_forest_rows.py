"""Rows of a hidden forest: merge, rebuild and import make one, fill it, and show it as its owner's memory."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from memforest_core.domain.ids import ForestId
from memforest_core.ingest.reduce.records import HELD, Rules
from memforest_core.store import tables as m
from memforest_core.store.copying import copy_forest_rows, copy_rows, literal
from memforest_core.store.owners import ForestRows, visible

_OWN_WORK = ("reduce_available_at", "reduce_failures", "scene_seq")
"""Columns that a new forest does not take from another one: it is placed and numbers its scenes by itself."""

_COPY_VISITS = sa.text("""
    INSERT INTO memforest.visit AS mine (tenant_id, item_id, forest_id, visits, last_visit_at)
    SELECT :t, u.new, :target, sum(v.visits), max(v.last_visit_at)
      FROM memforest.visit v
      JOIN unnest(CAST(:old AS uuid[]), CAST(:new AS uuid[])) AS u(old, new) ON u.old = v.item_id
     WHERE v.tenant_id = :t AND v.forest_id = :source
     GROUP BY u.new ORDER BY u.new
    ON CONFLICT (tenant_id, item_id) DO UPDATE
    SET visits = mine.visits + excluded.visits, last_visit_at = greatest(mine.last_visit_at, excluded.last_visit_at)
    """)


@dataclass(frozen=True, slots=True)
class StoredForest:
    """A forest that an operation reads or fills."""

    id: ForestId
    owner: str
    state: str
    rules: Rules = field(default_factory=dict)


class HiddenForestRows(ForestRows):
    """Forests of an operation, in one transaction of a tenant."""

    def forests(self, ids: Sequence[ForestId]) -> Sequence[StoredForest]:
        """These forests in whatever state, as far as they exist, in the order of ids."""
        return self._forests(m.Forest.forest_id.in_(ids))

    def forest(self, forest: ForestId) -> StoredForest | None:
        """A forest in whatever state."""
        return next(iter(self.forests([forest])), None)

    def forest_of(self, owner: str) -> StoredForest | None:
        """The forest that is the owner's memory."""
        return next(iter(self._forests(m.Forest.owner == owner, visible())), None)

    def _forests(self, *where: sa.ColumnElement[bool]) -> list[StoredForest]:
        f = m.Forest
        rows = self._db.execute(
            self._select(f.forest_id, f.owner, f.state, f.rules.op("-")(sa.literal(HELD, sa.Text())))
            .where(*where)
            .order_by(f.forest_id)
        )
        return [StoredForest(*row) for row in rows]

    def make_hidden(self, like: ForestId, new: ForestId, *left_out: str, **changed: Any) -> None:
        """Make a hidden forest after another one, unless it exists; columns that are ``left_out`` get their default."""
        statement = copy_rows(
            "forest",
            self._tenant,
            {"forest_id": [like]},
            {"forest_id": [new]},
            {"state": "hidden"} | changed,
            left_out=(*_OWN_WORK, *left_out),
        )
        self._db.execute(statement.on_conflict_do_nothing(index_elements=["tenant_id", "forest_id"]))

    def stays_hidden(self, forest: ForestId) -> bool:
        """Whether a forest is hidden, and stays so until this transaction ends: no deletion has taken it."""
        hidden = self._select(m.Forest.forest_id).where(m.Forest.forest_id == forest, m.Forest.state == "hidden")
        return self._db.scalar(hidden.with_for_update(read=True, key_share=True)) is not None

    def copy_speakers(self, source: ForestId, target: ForestId) -> None:
        """Copy the speakers that the target does not have."""
        self._db.execute(copy_forest_rows("speaker", self._tenant, source, target))

    def copy_visits(self, source: ForestId, target: ForestId, pairs: Collection[tuple[UUID, UUID]]) -> None:
        """Add the visits of items to those of the items that they became: ``pairs`` of old and new ids."""
        ids = {"old": literal(old for old, _ in pairs), "new": literal(new for _, new in pairs)}
        self._run(_COPY_VISITS, source=source, target=target, **ids)

    def move_deliveries(self, leaving: Sequence[ForestId], into: ForestId) -> None:
        """Webhooks that wait for delivery go on under the forest that takes the place of these."""
        d = m.WebhookDelivery
        own = self._update_rows(d).where(d.forest_id.in_(leaving))
        self._db.execute(own.values(forest_id=into))
