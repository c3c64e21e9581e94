"""Topics in Postgres: active scenes with what their facts, turns and visits tell of them."""

# ruff: noqa: S608 - statements are made of constants of this module

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from memforest_core.assistant.topics.records import Temperature, Topic, TopicTurn
from memforest_core.domain.ids import ForestId, TreeId
from memforest_core.domain.temperature import Decay, learned_importance, priority, tags_of
from memforest_core.domain.text import clipped
from memforest_core.domain.turns import Turn
from memforest_core.ingest.reduce.rows import ReduceRows
from memforest_core.settings import TopicSettings
from memforest_core.store import tables as m
from memforest_core.store.owners import VISIBLE, ForestRef, find_forest
from memforest_core.store.packs import PACKED, Texts, loose, of_no_cold_topic, pack, unpack
from memforest_core.store.rows import FIRST
from memforest_core.store.temperatures import set_temperature, warm_strays
from memforest_core.store.topics import COOLABLE, REACHED, TOPIC, TURNS, described
from memforest_core.store.trees import MEMBERS, members
from memforest_core.store.turn_rows import columns_with, turn_of

Row = sa.Row[*tuple[Any, ...]]

_PAGE = sa.text(f"""
    {
    described(f'''SELECT r.* FROM memforest.tree r WHERE {TOPIC}
        AND (CAST(:end AS timestamptz) IS NULL
             OR ({REACHED}, r.tree_id) < (CAST(:end AS timestamptz), CAST(:after AS uuid)))
      ORDER BY {REACHED} DESC, r.tree_id DESC LIMIT :n''')
}
     ORDER BY reached DESC, r.tree_id DESC
""")

_THESE = sa.text(described(f"SELECT r.* FROM memforest.tree r WHERE {TOPIC} AND r.tree_id = ANY(CAST(:ids AS uuid[]))"))

# Those that wait longest for something new: as many as a round reads.
_LEAST_RECENT = sa.text(
    described(f"""
        SELECT r.* FROM memforest.tree r
          LEFT JOIN memforest.visit v ON v.tenant_id = :t AND v.item_id = coalesce(r.root_id, r.tree_id)
         WHERE {TOPIC} AND {COOLABLE} AND r.cold_at IS NULL
           AND greatest(coalesce(r.last_mark_at, r.created_at), v.last_visit_at)
               < clock_timestamp() - make_interval(secs => :idle)
         ORDER BY greatest(coalesce(r.last_mark_at, r.created_at), v.last_visit_at), r.tree_id LIMIT :n""")
)

_CURRENT = sa.text("""
    SELECT w.tree_id FROM memforest.turn_topic w WHERE w.tenant_id = :t AND w.forest_id = :f
     ORDER BY w.occurred_at DESC, w.session_id DESC, w.ordinal DESC LIMIT 1
""")

_SAID = f"""FROM (SELECT r.* FROM memforest.tree r WHERE {TOPIC} AND r.tree_id = :tree) r
     CROSS JOIN LATERAL (SELECT t.* FROM {TURNS}) t
      JOIN memforest.session s ON s.tenant_id = :t AND s.session_id = t.session_id"""
_HISTORY = sa.text(f"""
    SELECT t.*, {PACKED}, s.external_id AS session_external_id
      {_SAID}
     WHERE CAST(:moment AS timestamptz) IS NULL OR (t.occurred_at, t.session_id, t.ordinal)
           > (CAST(:moment AS timestamptz), CAST(:session AS uuid), CAST(:ordinal AS int))
     ORDER BY t.occurred_at, t.session_id, t.ordinal LIMIT :n
""")

_NEWEST = sa.text(f"""
    SELECT t.session_id, {columns_with(content="left(t.content, :chars)")}, s.external_id AS session_external_id
      {_SAID}
     ORDER BY t.occurred_at DESC, t.session_id DESC, t.ordinal DESC LIMIT :n
""")

_STATS = sa.text(f"""
    SELECT said.*, packs.*, points.*
      FROM (SELECT r.* FROM memforest.tree r WHERE {TOPIC} AND r.tree_id = :tree) r
     CROSS JOIN LATERAL (
        SELECT count(DISTINCT t.session_id) AS sessions,
               count(*) FILTER (WHERE t.pack IS NULL) AS active_turns,
               count(t.pack) AS compressed_turns,
               CAST(coalesce(sum(octet_length(t.content)), 0) AS bigint) AS text_bytes,
               CAST(coalesce(sum(pg_column_size(t.content)), 0) AS bigint) AS stored_bytes
          FROM {TURNS}) said
     CROSS JOIN LATERAL (
        SELECT CAST(coalesce(sum(k.text_bytes), 0) AS bigint) AS unpacked_bytes,
               CAST(coalesce(sum(octet_length(k.texts)), 0) AS bigint) AS packed_bytes
          FROM memforest.turn_pack k WHERE k.tenant_id = :t AND k.pack IN (SELECT t.pack FROM {TURNS})) packs
     CROSS JOIN LATERAL (
        SELECT count(*) FILTER (WHERE NOT i.cold) AS points, count(*) FILTER (WHERE i.cold) AS points_cold
          FROM (SELECT p.payload_id AS id FROM {MEMBERS} p WHERE p.tenant_id = :t AND p.tree_id = r.tree_id
                 UNION
                SELECT o.cell_id FROM {MEMBERS} p
                  JOIN memforest.occurrence o ON o.tenant_id = :t AND o.fact_id = p.payload_id
                 WHERE p.tenant_id = :t AND p.tree_id = r.tree_id) held
          JOIN memforest.index_row i ON i.tenant_id = :t AND i.point_id = held.id AND NOT i.deleted) points
""")

_TOGETHER = sa.text(
    f"SELECT count(DISTINCT p.payload_id) FROM {MEMBERS} p WHERE p.tree_id = ANY(CAST(:trees AS uuid[]))"
)

# A deletion of the forest waits for this, or this finds it going.
_VISIT = sa.text(f"""
    WITH alive AS (
        SELECT f.forest_id FROM memforest.forest f
         WHERE f.tenant_id = :t AND f.forest_id = :f AND f.state = ANY(CAST(:visible AS text[])) FOR KEY SHARE)
    INSERT INTO memforest.visit (tenant_id, item_id, forest_id, visits, last_visit_at)
    SELECT :t, coalesce(r.root_id, r.tree_id), r.forest_id, 1, clock_timestamp()
      FROM memforest.tree r JOIN alive a ON a.forest_id = r.forest_id WHERE {TOPIC} AND r.tree_id = :tree
        ON CONFLICT (tenant_id, item_id) DO UPDATE
       SET visits = least(CAST(visit.visits AS bigint) + 1, 2147483647), last_visit_at = excluded.last_visit_at
""")

# More topics than stay hot, or something cold.
_RESTLESS = sa.text(f"""
    WITH f AS MATERIALIZED (SELECT f.forest_id FROM memforest.forest f
                             WHERE f.tenant_id = :t AND f.state = 'live' AND f.forest_id > CAST(:after AS uuid)
                             ORDER BY f.forest_id LIMIT :n)
    SELECT f.forest_id, (SELECT count(*) > :most OR coalesce(bool_or(r.cold_at IS NOT NULL), false) FROM (
                SELECT r.cold_at FROM memforest.tree r
                 WHERE r.tenant_id = :t AND r.forest_id = f.forest_id AND {COOLABLE} LIMIT CAST(:most AS bigint) + 1) r)
        OR EXISTS (SELECT 1 FROM memforest.index_row i WHERE i.tenant_id = :t AND i.forest_id = f.forest_id AND i.cold)
        OR EXISTS (SELECT 1 FROM memforest.turn_pack p WHERE p.tenant_id = :t AND p.forest_id = f.forest_id) AS restless
      FROM f ORDER BY f.forest_id
""")

_HOT = sa.text(f"""
    SELECT count(*) FROM memforest.tree r
     WHERE r.tenant_id = :t AND r.forest_id = :f AND {COOLABLE} AND r.cold_at IS NULL
""")

# Visits are counted in memory and written late: one that came just before a topic became cold counts too.
_VISITED = sa.text(f"""
    SELECT r.tree_id FROM memforest.tree r
     WHERE {TOPIC} AND r.cold_at IS NOT NULL AND (
           CAST(:all AS boolean) OR r.last_mark_at > r.cold_at
           OR EXISTS (SELECT 1 FROM memforest.visit v WHERE v.tenant_id = :t AND v.item_id IN (r.root_id, r.tree_id)
                         AND v.last_visit_at > r.cold_at - make_interval(secs => :late))
           OR EXISTS (SELECT 1 FROM {members("q.tree_id = r.tree_id")} p
                        JOIN memforest.occurrence o ON o.tenant_id = :t AND o.fact_id = p.payload_id
                        JOIN memforest.visit v ON v.tenant_id = :t AND v.item_id IN (o.cell_id, o.fact_id)
                       WHERE v.last_visit_at > r.cold_at - make_interval(secs => :late)))
     ORDER BY r.time_start, r.tree_id LIMIT :n
""")


class TopicRows(ReduceRows):
    """Topics of one transaction of a tenant."""

    def forest(self, owner: str) -> ForestRef | None:
        """The owner's forest."""
        return find_forest(self._db, self._tenant, owner)

    def page(self, forest: ForestId, after: tuple[datetime, UUID] | None, limit: int, importance: float) -> list[Row]:
        """Topics with their columns, the one that reaches furthest in time first, from the one after this place."""
        end, tree = after or (None, None)
        return list(self._run(_PAGE, f=forest, end=end, after=tree, n=limit, importance=importance))

    def these(self, forest: ForestId, trees: Sequence[UUID], importance: float) -> list[Row]:
        """Those of these topics that the forest has."""
        return list(self._run(_THESE, f=forest, ids=list(trees), importance=importance))

    def least_recent(self, forest: ForestId, idle_s: float, limit: int, importance: float) -> list[Row]:
        """Hot topics to which nothing came for so many seconds, the one that waits longest first."""
        return list(self._run(_LEAST_RECENT, f=forest, idle=idle_s, n=limit, importance=importance))

    def current(self, forest: ForestId) -> TreeId | None:
        """The topic of the newest turn that has one."""
        found: TreeId | None = self._run(_CURRENT, f=forest).scalar()
        return found

    def hot(self, forest: ForestId) -> int:
        """How many topics are hot."""
        return int(self._run(_HOT, f=forest).scalar() or 0)

    def history(self, forest: ForestId, tree: UUID, after: Sequence[object] | None, limit: int) -> list[Row]:
        """Rows of a topic's turns in the order of time, from the one after this moment, session and ordinal."""
        place = dict(zip(("moment", "session", "ordinal"), after or (None, None, None), strict=True))
        return list(self._run(_HISTORY, f=forest, tree=tree, n=limit, **place))

    def newest_turns(self, forest: ForestId, tree: UUID, chars: int, limit: int) -> list[TopicTurn]:
        """A topic's last turns, the newest first, each cut to so many characters."""
        found = self._run(_NEWEST, f=forest, tree=tree, chars=chars, n=limit)
        texts = Texts()
        return [topic_turn(row, texts) for row in found]

    def stats(self, forest: ForestId, tree: UUID) -> Row:
        """Counts of a topic's turns and points."""
        return self._run(_STATS, f=forest, tree=tree).one()

    def rate(self, tree: UUID, importance: float) -> None:
        """Store how important a user says that a topic is. The caller holds the forest's lock."""
        own = self._update_rows(m.Tree).where(m.Tree.tree_id == tree)
        self._db.execute(own.values(rated=round(1_000 * importance)))

    def visit(self, forest: ForestId, tree: UUID) -> None:
        """Count one access of a topic."""
        self._run(_VISIT, f=forest, tree=tree, visible=list(VISIBLE))

    def rules(self, forest: ForestId) -> dict[str, float]:
        """What a forest was materialized with, where it differs from the settings."""
        f = m.Forest
        found = self._db.scalar(self._select(f.rules).where(f.forest_id == forest))
        return dict(found or {})

    def together(self, trees: Sequence[TreeId]) -> int:
        """How many facts these topics hold, each counted once."""
        return int(self._run(_TOGETHER, trees=list(trees)).scalar() or 0)

    def restless(self, after: ForestId | None, most: int, limit: int) -> Sequence[tuple[ForestId, bool]]:
        """The next ``limit`` live forests, and whether each has more than ``most`` topics or anything cold."""
        return [(id_, found) for id_, found in self._run(_RESTLESS, after=after or FIRST, most=most, n=limit)]

    def visited(self, forest: ForestId, late_s: float, limit: int, *, every: bool) -> list[TreeId]:
        """Cold topics that were visited or got something since, the earliest in time first; or ``every`` cold one."""
        found = self._run(_VISITED, f=forest, late=late_s, n=limit, all=every)
        return [TreeId(tree) for tree in found.scalars()]

    def set_temperature(self, trees: Sequence[TreeId], *, cold: bool) -> int:
        """Make topics cold or hot; how many points that changes. The caller holds the forest's lock."""
        return set_temperature(self._db, self._tenant, trees, cold=cold)

    def loose(self, forest: ForestId, most: int) -> Sequence[TreeId]:
        """Cold topics with turns that are to be packed, at most so many."""
        return loose(self._db, self._tenant, forest, most)

    def pack(self, forest: ForestId, topic: TreeId) -> int:
        """Pack turns of a cold topic; how many. The caller holds the forest's lock."""
        return pack(self._db, self._tenant, forest, topic)

    def unpack_strays(self, forest: ForestId, most: int, *, every: bool) -> int:
        """Unpack packs that no cold topic has any more, or ``every`` one, at most so many; how many turns."""
        which = m.TurnPack.forest_id == forest if every else of_no_cold_topic(forest)
        return unpack(self._db, self._tenant, which, most)

    def warm_strays(self, forest: ForestId, limit: int) -> int:
        """Write points again that no cold topic has any more; how many. The caller holds the forest's lock."""
        return warm_strays(self._db, self._tenant, forest, limit)


def topic_turn(row: Row, texts: Texts) -> TopicTurn:
    """A turn from its row, with the session's id."""
    turn: Turn = turn_of(row._mapping, texts)
    return TopicTurn(row.session_external_id, turn)


def place_of(row: Row) -> Sequence[object]:
    """Where in a history a turn is."""
    return [row.occurred_at.astimezone(UTC).isoformat(), str(row.session_id), row.ordinal]


TITLE_CHARS = 80
"""Of a title, until a topic is named: the beginning of its first turn."""


def title_of(row: Any) -> str:
    """The stored title, else the beginning of its first turn, or without turns that of its summary."""
    first = row.beginning if row.packed is None else Texts()(None, row.packed)
    return shortened(row.title or first or row.summary or "")


def shortened(text: str) -> str:
    """A text on one line, as long as titles are."""
    return clipped(" ".join(text.split()), TITLE_CHARS)


def topic_of(row: Any, settings: TopicSettings) -> Topic:
    """A topic of a row, rated when the row was read."""
    importance, rated = importance_and_priority(row, settings)
    return Topic(
        id=TreeId(row.tree_id),
        title=title_of(row),
        named=bool(row.title),
        tags=tags_of(row.tags),
        facts=row.facts,
        turns=row.turns,
        first=_moment(row.first),
        last=_moment(row.last),
        priority=rated,
        temperature=Temperature.HOT if row.cold_at is None else Temperature.COLD,
        accesses=int(row.visits),
        last_access=_moment(row.last_visit_at),
        importance=importance,
    )


def _moment(value: datetime | None) -> datetime | None:
    return None if value is None else value.astimezone(UTC)


def importance_and_priority(row: Any, settings: TopicSettings) -> tuple[float, float]:
    """A topic's importance and its priority, each 0 to 1, by the timestamp ``now`` of its row."""
    decay = Decay(settings.half_life_s)
    accesses = int(row.visits)
    importance = learned_importance(float(row.stated), accesses, decay)
    return importance, priority(importance, accesses, idle_s(row), decay)


def idle_s(row: Any) -> float:
    """Seconds since a topic was accessed or got something."""
    touched: datetime = max(row.learned_at, row.last_visit_at or row.learned_at)
    return float((row.now - touched).total_seconds())
