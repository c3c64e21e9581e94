"""Windows in Postgres: a session's turns and clean summaries are read; the window's own summary and items are stored.

A writer here holds the lock of the forest's row: a deletion waits for it, and nobody waits for two rows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID, uuid5

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from memforest_core.assistant.conversation_window.records import (
    HeldItem,
    PartKind,
    StoredSummary,
    TreeSummary,
    WindowHead,
    WindowPart,
)
from memforest_core.assistant.rows import PeopleRows
from memforest_core.domain.ids import FactId, ForestId, NodeId, SessionId, TreeId, session_id
from memforest_core.domain.rendering import turn_line
from memforest_core.domain.turns import Role, Turn
from memforest_core.ingest.refresh.records import SummarySource
from memforest_core.store import tables as m
from memforest_core.store.packs import PACKED, Texts, packed_of
from memforest_core.store.rows import among
from memforest_core.store.turn_rows import turns_of, whole_turns

_HIGHEST = 2**63 - 1


class Reference(NamedTuple):
    """What an item of a window refers to: a fact, or a turn of a session."""

    fact: FactId | None = None
    session: SessionId | None = None
    ordinal: int | None = None

    @property
    def id(self) -> UUID:
        """The same for the same fact or turn."""
        if self.fact is not None:
            return self.fact
        if self.session is None:
            raise ValueError("a reference names a fact or a turn")
        return uuid5(self.session, f"turn\x1f{self.ordinal}")


# Ids, deletions and times: what was said under an id never changes, but a deleted tail can be followed by other turns.
_DIGEST = sa.text("""
    SELECT sha256(convert_to(coalesce(string_agg(concat_ws(chr(31), t.ordinal, t.external_id, t.erased,
               extract(epoch FROM t.occurred_at)), chr(30) ORDER BY t.ordinal), ''), 'UTF8'))
      FROM memforest.turn t
     WHERE t.tenant_id = :t AND t.session_id = :s AND t.ordinal >= :start AND t.ordinal < :end
    """)

_KEY = "(({0}).key_time, ({0}).key_ordinal, ({0}).key_item, ({0}).key_id)"
_ORDER = "{0}.key_time {1}, {0}.key_ordinal {1}, {0}.key_item {1}, {0}.key_id {1}"


def _edge(where: str, direction: str) -> str:
    """The first or last leaf of a node's span, with its cell."""
    return f"""
      CROSS JOIN LATERAL (
           SELECT c.first_turn, c.last_turn FROM memforest.node l
             JOIN memforest.cell c ON c.tenant_id = :t AND c.cell_id = l.payload_id
            WHERE l.tenant_id = :t AND l.tree_id = n.tree_id AND l.level = 0 AND {where}
            ORDER BY {_ORDER.format("l", direction)} LIMIT 1)"""  # noqa: S608 - constants of this module


# A node's leaves lie between its key and that of the next node of its level.
_SPANS = f"""
    SELECT n.node_id, coalesce(s.text, '') AS text, coalesce(s.source, '') AS source, head.first_turn, tail.last_turn,
           n.level, n.version = n.clean_version AND NOT n.dead AND s.node_id IS NOT NULL AS clean
      FROM memforest.node n
      LEFT JOIN memforest.node_summary s ON s.tenant_id = :t AND s.node_id = n.node_id
      LEFT JOIN LATERAL (
           SELECT o.key_time, o.key_ordinal, o.key_item, o.key_id FROM memforest.node o
            WHERE o.tenant_id = :t AND o.tree_id = n.tree_id AND o.level = n.level
              AND {_KEY.format("o")} > {_KEY.format("n")}
            ORDER BY {_ORDER.format("o", "ASC")} LIMIT 1) following ON true
      {_edge(f"{_KEY.format('l')} >= {_KEY.format('n')}", "ASC")} head
      {
    _edge(
        f"{_KEY.format('l')} < (coalesce(following.key_time, {_HIGHEST}), coalesce(following.key_ordinal, 0),"
        " coalesce(following.key_item, 0), coalesce(following.key_id, ''))",
        "DESC",
    )
} tail
     WHERE n.tenant_id = :t AND n.level > 0
    """  # noqa: S608 - constants of this module
_SPAN = sa.text(f"{_SPANS} AND n.node_id = :node")
_SPANS_BELOW = sa.text(f"{_SPANS} AND n.parent_id = ANY(CAST(:ids AS uuid[])) ORDER BY {_ORDER.format('n', 'ASC')}")

# Notes are no conversation.
_LATEST = sa.text("""
    SELECT s.external_id FROM memforest.session s
     WHERE s.tenant_id = :t AND s.forest_id = :f AND s.turn_count > 0 AND NOT s.note
       AND (CAST(:channel AS text) IS NULL OR s.channel = :channel)
     ORDER BY s.external_id = :running DESC, s.updated_at DESC, s.session_id LIMIT 1
    """)

# Of a fact the first place where it was said.
_ITEMS = sa.text(f"""
    SELECT i.fact_id, i.said_in = i.session_id AS own, x.text, x.superseded_at IS NOT NULL AS superseded,
           t.name, t.content, {PACKED}, said.external_id AS said_in, said.turn_ids, said.ordinal
      FROM memforest.window_item i
      LEFT JOIN memforest.fact x ON x.tenant_id = :t AND x.fact_id = i.fact_id
      LEFT JOIN memforest.turn t ON t.tenant_id = :t AND t.session_id = i.said_in AND t.ordinal = i.ordinal
                                AND NOT t.erased
     CROSS JOIN LATERAL (
           SELECT s.external_id, array_agg(u.external_id ORDER BY u.ordinal) AS turn_ids, min(u.ordinal) AS ordinal
             FROM (SELECT i.said_in AS session_id, ARRAY[CAST(i.ordinal AS bigint)] AS ordinals WHERE i.fact_id IS NULL
                   UNION ALL
                   (SELECT o.session_id, o.turn_ordinals FROM memforest.occurrence o
                     WHERE o.tenant_id = :t AND o.fact_id = i.fact_id ORDER BY o.cell_id, o.item LIMIT 1)) place
             JOIN memforest.session s ON s.tenant_id = :t AND s.session_id = place.session_id
             JOIN memforest.turn u ON u.tenant_id = :t AND u.session_id = place.session_id
                                  AND u.ordinal = ANY(place.ordinals)
            GROUP BY s.external_id) said
     WHERE i.tenant_id = :t AND i.session_id = :s AND (x.fact_id IS NOT NULL OR t.session_id IS NOT NULL)
     ORDER BY i.place DESC
    """)  # noqa: S608 - constants of this package

_DROP_OLDEST = sa.text("""
    DELETE FROM memforest.window_item WHERE tenant_id = :t AND session_id = :s AND item_id IN (
        SELECT item_id FROM memforest.window_item WHERE tenant_id = :t AND session_id = :s
         ORDER BY place DESC OFFSET :most)
    """)


class WindowRows(PeopleRows):
    """Rows of one transaction of a tenant."""

    def head(self, forest: ForestId, name: str) -> WindowHead | None:
        """A session by the caller's id."""
        s = m.Session
        own = self._select(s.session_id, s.turn_count, s.channel).where(s.session_id == session_id(forest, name))
        row = self._db.execute(own).first()
        return None if row is None else WindowHead(SessionId(row.session_id), name, row.turn_count, row.channel)

    def latest(self, forest: ForestId, channel: str | None = None) -> str | None:
        """The id of the session that runs; without one in this ``channel``, of the session that got a turn last."""
        r = m.RunningSession
        own = self._select(r.external_id).where(r.forest_id == forest)
        running: str | None = self._db.scalar(own)
        if running is not None and channel is None:
            return running
        found: str | None = self._run(_LATEST, f=forest, channel=channel, running=running or "").scalar()
        return found

    def last_said(self, session: SessionId) -> str:
        """The words of the last turn of a user; empty when there is none."""
        t = m.TurnRow
        own = self._select(t.content, packed_of(t)).where(
            t.session_id == session, ~t.erased, t.role == Role.USER, t.content.regexp_match(r"\S") | t.pack.is_not(None)
        )
        row = self._db.execute(own.order_by(t.ordinal.desc()).limit(1)).first()
        return "" if row is None else Texts()(row.content, row.packed)

    def stored(self, session: SessionId) -> StoredSummary | None:
        """The summary that is stored of a session's first turns."""
        w = m.SessionWindow
        own = self._select(w.__table__).where(w.session_id == session)
        row = self._db.execute(own).first()
        if row is None:
            return None
        source = SummarySource(row.source)
        return StoredSummary(row.turns, row.text, source, row.model, bytes(row.input_hash), row.version)

    def digest(self, session: SessionId, start: int, end: int) -> bytes:
        """What the turns from ``start`` to before ``end`` are: another one as soon as one of them is deleted."""
        return bytes(self._run(_DIGEST, s=session, start=start, end=end).scalar_one())

    def root(self, tree: TreeId) -> NodeId | None:
        """The root of a tree, if there is one."""
        own = self._select(m.Tree.root_id).where(m.Tree.tree_id == tree)
        found = self._db.scalar(own)
        return None if found is None else NodeId(found)

    def span(self, node: NodeId) -> list[TreeSummary]:
        """An internal node; nothing for a leaf."""
        return [TreeSummary(*row) for row in self._run(_SPAN, node=node)]

    def spans_below(self, nodes: Collection[NodeId]) -> list[TreeSummary]:
        """The internal nodes that are children of these, in the order of their keys."""
        return [TreeSummary(*row) for row in self._run(_SPANS_BELOW, ids=list(nodes))]

    def waiting(self, session: SessionId, end: int) -> list[tuple[int, int]]:
        """First and last turns of cells before a turn that are not in the tree."""
        c = m.Cell
        own = self._select(c.first_turn, c.last_turn).where(c.session_id == session, c.first_turn < end, ~c.placed)
        return [(row.first_turn, row.last_turn) for row in self._db.execute(own)]

    def turns(self, session: SessionId, ordinals: Collection[int], begin: int) -> list[Turn]:
        """These turns and all from ``begin`` on, in order, but those without words."""
        t = m.TurnRow
        wanted = sa.or_(among(t.ordinal, ordinals), t.ordinal >= begin)
        own = whole_turns().where(t.tenant_id == self._tenant, t.session_id == session, ~t.erased, wanted)
        return turns_of(self._db.execute(own.order_by(t.ordinal)).mappings())

    def ids(self, session: SessionId, ordinals: Collection[int]) -> Mapping[int, str]:
        """The caller's ids of turns, by ordinal."""
        t = m.TurnRow
        own = self._select(t.ordinal, t.external_id).where(t.session_id == session, among(t.ordinal, ordinals))
        return {row.ordinal: row.external_id for row in self._db.execute(own)}

    def items(self, session: SessionId) -> list[HeldItem]:
        """A window's items with what they refer to, the one that was used last first."""
        texts = Texts()
        return [
            HeldItem(
                WindowPart(
                    kind=PartKind.ITEM,
                    text=row.text if row.fact_id is not None else turn_line(row.name, texts(row.content, row.packed)),
                    session_id=row.said_in,
                    turn_ids=tuple(row.turn_ids),
                    first=row.ordinal,
                    last=row.ordinal,
                    turns=len(row.turn_ids),
                    fact_id=None if row.fact_id is None else FactId(row.fact_id),
                ),
                superseded=bool(row.superseded),
                own=bool(row.own),
            )
            for row in self._run(_ITEMS, s=session)
        ]

    def store(self, forest: ForestId, session: SessionId, summary: StoredSummary, replaced: UUID | None) -> bool:
        """Keep a summary in place of the one of the version ``replaced`` (None: of none); False when that is not the
        one that is stored now. The caller holds the forest's lock."""
        w = m.SessionWindow
        values: dict[str, Any] = {
            "turns": summary.turns,
            "text_": summary.text,
            "source": summary.source.value,
            "model": summary.model,
            "input_hash": summary.input_hash,
            "version": summary.version,
        }
        if replaced is None:
            new = insert(w).values(tenant_id=self._tenant, session_id=session, forest_id=forest, **values)
            return bool(self._db.execute(new.on_conflict_do_nothing()).rowcount)
        own = self._update_rows(w).where(w.session_id == session, w.version == replaced)
        return bool(self._db.execute(own.values(updated_at=sa.func.clock_timestamp(), **values)).rowcount)

    def facts(self, forest: ForestId, ids: Collection[UUID]) -> set[UUID]:
        """Those of these facts that a forest has."""
        x = m.FactRow
        own = self._select(x.fact_id).where(x.forest_id == forest, among(x.fact_id, ids))
        return set(self._db.scalars(own))

    def ordinals(self, session: SessionId, turns: Collection[str]) -> Mapping[str, int]:
        """The ordinals of turns with words, by the caller's ids."""
        t = m.TurnRow
        own = self._select(t.external_id, t.ordinal).where(
            t.session_id == session, ~t.erased, among(t.external_id, turns)
        )
        return {row.external_id: row.ordinal for row in self._db.execute(own)}

    def put(
        self, forest: ForestId, session: SessionId, references: Sequence[Reference], *, repeat_moves: bool, most: int
    ) -> tuple[int, int, int]:
        """Put items into a window, the last one at the best place: how many it has, are new, and fell out.

        ``repeat_moves`` says whether one that is there already moves to the best place. The caller holds the forest's
        lock.
        """
        i = m.WindowItem
        of_window = (i.tenant_id == self._tenant, i.session_id == session)
        before = set(self._db.scalars(sa.select(i.item_id).where(*of_window)))
        highest = int(self._db.scalar(sa.select(sa.func.coalesce(sa.func.max(i.place), 0)).where(*of_window)) or 0)
        unique = list({each.id: each for each in references}.values())
        if unique:
            upsert = insert(i)
            key = ["tenant_id", "session_id", "item_id"]
            rows = [
                {
                    "tenant_id": self._tenant,
                    "session_id": session,
                    "item_id": each.id,
                    "forest_id": forest,
                    "place": highest + 1 + at,
                    "fact_id": each.fact,
                    "said_in": each.session,
                    "ordinal": each.ordinal,
                }
                for at, each in enumerate(unique)
            ]
            used = {"place": upsert.excluded.place, "put_at": sa.func.clock_timestamp()}
            stored = (
                upsert.on_conflict_do_update(index_elements=key, set_=used)
                if repeat_moves
                else upsert.on_conflict_do_nothing(index_elements=key)
            )
            self._db.execute(stored, rows)
        fallen = self._run(_DROP_OLDEST, s=session, most=most).rowcount
        held = int(self._db.scalar(sa.select(sa.func.count()).where(*of_window)) or 0)
        return held, sum(each.id not in before for each in unique), fallen
