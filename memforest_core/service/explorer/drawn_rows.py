"""What pages with drawings read: facts by words and small talk, and the links between people and things."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from memforest_core.domain.ids import FactId, ForestId, TreeId, TreeKind
from memforest_core.domain.text import normalize_statement
from memforest_core.observe.reading.rows import ReadingRows
from memforest_core.service.explorer.finding_rows import SEARCHED_FACTS
from memforest_core.store import tables as m
from memforest_core.store.rows import among, record_of
from memforest_core.store.trees import members

CHIPS = 8
"""Values of a column that can be chosen by a click."""
MOST_LINKS = 20_000
_F = m.FactRow
_STATED = _F.statement
SMALL_TALK = sa.and_(
    *(_F.attribute == "", _F.time_start.is_(None), ~_F.pinned, _F.superseded_by.is_(None)),
    *(_STATED["subject"].astext == "", _STATED["scene"].astext == "", _STATED["entities"].astext == "[]"),
    *(_STATED["verbatim"].astext == "false", _F.normalized.op("!~")("[[:digit:]]")),
)
"""A fact that names no state, nobody and nothing, no day, no number and no topic, and was not pinned or corrected."""
Condition = sa.ColumnElement[bool]

_LINKS = sa.text(f"""
    WITH recent AS (
        SELECT fact_id, coalesce(time_start, mentioned_at) AS at FROM memforest.fact
         WHERE tenant_id = :t AND forest_id = :f AND superseded_by IS NULL ORDER BY seq DESC LIMIT :searched
    ), placed AS (
        SELECT p.tree_id, x.fact_id, x.at
          FROM recent x CROSS JOIN {members("q.payload_id = x.fact_id")} p
          JOIN memforest.tree r ON r.tenant_id = :t AND r.tree_id = p.tree_id
         WHERE r.kind = 'entity' AND r.state <> 'merged'
    )
    SELECT a.tree_id AS one, b.tree_id AS other, a.fact_id AS fact, a.at
      FROM placed a JOIN placed b ON b.fact_id = a.fact_id AND b.tree_id > a.tree_id
     ORDER BY a.at DESC, a.fact_id, a.tree_id, b.tree_id LIMIT :most
    """)  # noqa: S608 - a constant of this package


@dataclass(frozen=True, slots=True)
class Link:
    """A fact that two people or things share."""

    one: TreeId
    other: TreeId
    fact: FactId
    at: datetime
    """When it happened, else the timestamp of its mention."""


def has_word(word: str) -> Condition:
    """That a fact has a word, or a part of one, whatever the language and the case."""
    return _F.normalized.contains(normalize_statement(word), autoescape=True)


class DrawnRows(ReadingRows):
    """Reads of one transaction of a tenant."""

    def newest(self, forest: ForestId) -> Condition:
        """That a fact is among those which are searched and counted."""
        last = (
            self._select(_F.seq).where(_F.forest_id == forest).order_by(_F.seq.desc()).offset(SEARCHED_FACTS).limit(1)
        )
        return _F.seq > sa.func.coalesce(last.scalar_subquery(), -1)

    def subjects(self, forest: ForestId) -> Sequence[tuple[str, int]]:
        """Whom or what most facts are about."""
        return self._counted(forest, _STATED["subject"].astext)

    def attributes(self, forest: ForestId) -> Sequence[tuple[str, int]]:
        """The states that most facts set."""
        return self._counted(forest, sa.type_coerce(_F.attribute, sa.Text()))

    def small_talk(self, forest: ForestId, conditions: Sequence[Condition]) -> int:
        """How many facts under these conditions are small talk."""
        own = (_F.tenant_id == self._tenant, _F.forest_id == forest, self.newest(forest), SMALL_TALK)
        return int(self._db.scalar(sa.select(sa.func.count()).select_from(_F).where(*own, *conditions)) or 0)

    def links(self, forest: ForestId) -> Sequence[Link]:
        """The pairs of people and things that a fact is about, of the newest facts."""
        found = self._run(_LINKS, f=forest, searched=SEARCHED_FACTS, most=MOST_LINKS)
        return [record_of(Link, row) for row in found]

    def entities(self, forest: ForestId) -> Mapping[TreeId, tuple[str, bool]]:
        """What the entity trees of a forest are about, and whether each has leaves yet."""
        r = m.Tree
        own = self._select(r.tree_id, r.label, (r.state == "active").label("grown"))
        found = self._db.execute(own.where(r.forest_id == forest, r.kind == TreeKind.ENTITY))
        return {TreeId(row.tree_id): (row.label, row.grown) for row in found}

    def texts(self, facts: Sequence[FactId]) -> Mapping[FactId, str]:
        """The sentences of facts."""
        wanted = self._select(_F.fact_id, _F.text).where(among(_F.fact_id, facts))
        return {FactId(row.fact_id): row.text for row in self._db.execute(wanted)}

    def _counted(self, forest: ForestId, column: sa.ColumnElement[str]) -> Sequence[tuple[str, int]]:
        number = sa.func.count().label("number")
        own = (_F.tenant_id == self._tenant, _F.forest_id == forest, self.newest(forest), column != "")
        statement = sa.select(column.label("value"), number).where(*own).group_by("value")
        ordered = statement.order_by(number.desc(), sa.literal_column("value")).limit(CHIPS)
        return [(row.value, row.number) for row in self._db.execute(ordered)]
