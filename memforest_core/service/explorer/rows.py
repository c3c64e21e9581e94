"""What only the pages read: the cells of a session, the levels below a node, and the leaves that it rests on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from memforest_core.domain.ids import FactId, ForestId, NodeId, TreeId
from memforest_core.errors import NotFound
from memforest_core.observe.reading.records import TreeNode
from memforest_core.observe.reading.rows import ORDER, ReadingRows, spanning
from memforest_core.store import tables as m
from memforest_core.store.owners import known
from memforest_core.store.packs import PACKED, Texts
from memforest_core.store.rows import among

SHOWN_CHARS = 240
"""Of a node's text in a drawing."""

_CELLS = sa.text("""
    SELECT c.ordinal, c.first_turn, c.last_turn, c.state, c.placed, coalesce(c.outcome, '') AS outcome,
           coalesce(c.summary, '') AS summary, c.attempts, coalesce(c.error_code, '') AS error_code,
           coalesce(c.error_text, '') AS error_text, c.extracted_at, c.cell_id AS id
      FROM memforest.cell c JOIN memforest.session s ON s.tenant_id = :t AND s.session_id = c.session_id
     WHERE c.tenant_id = :t AND s.forest_id = :f AND s.external_id = :session
       AND c.last_turn >= :first AND c.first_turn <= :last
     ORDER BY c.ordinal
    """)

_LEAVES = sa.text(f"""
    WITH RECURSIVE below AS (
        SELECT node_id, level, payload_id, key_time, key_ordinal, key_item, key_id
          FROM memforest.node WHERE tenant_id = :t AND tree_id = :tree AND node_id = :node
        UNION ALL
        SELECT n.node_id, n.level, n.payload_id, n.key_time, n.key_ordinal, n.key_item, n.key_id
          FROM below b JOIN memforest.node n ON n.tenant_id = :t AND n.parent_id = b.node_id
    ), leaf AS (
        SELECT * FROM below WHERE level = 0 ORDER BY key_time, key_ordinal, key_item, key_id LIMIT :most
    ), said AS (
        SELECT l.node_id, o.session_id, unnest(o.turn_ordinals) AS ordinal
          FROM leaf l JOIN memforest.occurrence o ON o.tenant_id = :t AND o.fact_id = l.payload_id
        UNION
        SELECT l.node_id, c.session_id, generate_series(c.first_turn, c.last_turn)
          FROM leaf l JOIN memforest.cell c ON c.tenant_id = :t AND c.cell_id = l.payload_id
    )
    SELECT l.node_id, f.fact_id, coalesce(f.text, c.text, '') AS text, s.external_id AS session,
           t.external_id AS turn, t.ordinal, t.name, t.content, {PACKED}, t.occurred_at
      FROM leaf l
      LEFT JOIN memforest.fact f ON f.tenant_id = :t AND f.fact_id = l.payload_id
      LEFT JOIN memforest.cell c ON c.tenant_id = :t AND c.cell_id = l.payload_id
      LEFT JOIN said d ON d.node_id = l.node_id
      LEFT JOIN memforest.turn t ON t.tenant_id = :t AND t.session_id = d.session_id AND t.ordinal = d.ordinal
      LEFT JOIN memforest.session s ON s.tenant_id = :t AND s.session_id = d.session_id
     ORDER BY l.key_time, l.key_ordinal, l.key_item, l.key_id, s.started_at, t.ordinal
    """)  # noqa: S608 - constants of this package


_SAYING = sa.text(f"""
    SELECT DISTINCT s.external_id AS session, s.started_at, t.external_id AS turn, t.ordinal, t.name, t.content,
           {PACKED}, t.occurred_at
      FROM memforest.occurrence o
      JOIN memforest.session s ON s.tenant_id = :t AND s.session_id = o.session_id
      JOIN memforest.turn t ON t.tenant_id = :t AND t.session_id = o.session_id AND t.ordinal = ANY(o.turn_ordinals)
     WHERE o.tenant_id = :t AND o.fact_id = :fact
     ORDER BY s.started_at, s.external_id, t.ordinal LIMIT :most
    """)  # noqa: S608 - constants of this package
_TURN = sa.text(f"""
    SELECT s.external_id AS session, t.external_id AS turn, t.ordinal, t.name, t.content, {PACKED}, t.occurred_at
      FROM memforest.session s JOIN memforest.turn t ON t.tenant_id = :t AND t.session_id = s.session_id
     WHERE s.tenant_id = :t AND s.forest_id = :f AND s.external_id = :session AND t.external_id = :turn
    """)  # noqa: S608 - constants of this package


@dataclass(frozen=True, slots=True)
class SessionCell:
    """A cell of a session, and how its extraction ended."""

    id: UUID
    ordinal: int
    first_turn: int
    last_turn: int
    state: str
    placed: bool
    outcome: str
    """ok, empty, repaired, verbatim, failed or dead; empty while it waits."""
    summary: str
    attempts: int
    error_code: str
    error_text: str
    extracted_at: datetime | None

    @property
    def shown(self) -> str:
        """One word for its state."""
        return "dead" if self.state == "dead" else self.outcome or "waiting"


@dataclass(frozen=True, slots=True)
class DrawnNode(TreeNode):
    """A node as it is drawn, with the beginning of its text."""

    parent_id: NodeId | None
    running: bool

    @property
    def dirty(self) -> bool:
        """Whether its summary is behind."""
        return not self.fresh


@dataclass(frozen=True, slots=True)
class SaidTurn:
    """A turn that a leaf rests on, by the caller's ids."""

    session_id: str
    turn_id: str
    ordinal: int
    speaker: str
    text: str
    said_at: datetime


@dataclass(frozen=True, slots=True)
class Leaf:
    """A leaf below a node, and the turns that say it."""

    id: NodeId
    fact_id: FactId | None
    text: str
    turns: tuple[SaidTurn, ...]


class ExplorerRows(ReadingRows):
    """Reads of one transaction of a tenant."""

    def forest(self, owner: str) -> ForestId:
        """The owner's forest. Raises NotFound."""
        return known(self.find_forest(owner), owner).id

    def saying(self, fact: FactId, most: int) -> Sequence[SaidTurn]:
        """The turns that say a fact, in the order of sessions, at most so many."""
        texts = Texts()
        return [_said(row, texts) for row in self._run(_SAYING, fact=fact, most=most)]

    def turn(self, forest: ForestId, session: str, turn: str) -> SaidTurn:
        """One turn by the caller's ids. Raises NotFound."""
        row = self._run(_TURN, f=forest, session=session, turn=turn).first()
        if row is None:
            raise NotFound(f"Session {session!r:.80} has no turn {turn!r:.80}.")
        return _said(row, Texts())

    def cells(self, forest: ForestId, session: str, first: int, last: int) -> Sequence[SessionCell]:
        """The cells of a session that hold turns from one ordinal to another, in order."""
        found = self._run(_CELLS, f=forest, session=session, first=first, last=last)
        return [SessionCell(**row._mapping) for row in found]

    def session_tree(self, forest: ForestId, session: str) -> TreeId | None:
        """The tree of a session by the caller's id; None before it is made."""
        r, s = m.Tree, m.Session
        of = sa.and_(s.tenant_id == r.tenant_id, s.session_id == r.session_id)
        mine = (r.tenant_id == self._tenant, r.forest_id == forest, r.kind == "session", r.state == "active")
        found = self._db.scalar(sa.select(r.tree_id).join(s, of).where(*mine, s.external_id == session))
        return None if found is None else TreeId(found)

    def drawn_node(self, tree: TreeId, node: NodeId) -> DrawnNode:
        """One node of a tree. Raises NotFound."""
        row = self._db.execute(self._of_tree(tree).where(m.NodeRow.node_id == node)).first()
        if row is None:
            raise NotFound("This tree has no such node any more: it has changed since.")
        return _drawn(row)

    def below(self, tree: TreeId, parents: Sequence[DrawnNode], most: int) -> Sequence[DrawnNode]:
        """The children of nodes of one level in the order of their keys, at most so many."""
        children = self._of_tree(tree).where(among(m.NodeRow.parent_id, [node.id for node in parents]))
        ordered = children.order_by(*ORDER).limit(most)
        return [_drawn(row) for row in self._db.execute(ordered)]

    def leaves(self, tree: TreeId, node: NodeId, most: int) -> Sequence[Leaf]:
        """The leaves below a node in the order of their keys, at most so many, each with its turns."""
        found: dict[NodeId, Leaf] = {}
        turns: dict[NodeId, list[SaidTurn]] = {}
        texts = Texts()
        for row in self._run(_LEAVES, tree=tree, node=node, most=most):
            fact = None if row.fact_id is None else FactId(row.fact_id)
            found.setdefault(NodeId(row.node_id), Leaf(NodeId(row.node_id), fact, row.text, ()))
            if row.turn is not None:
                turns.setdefault(NodeId(row.node_id), []).append(_said(row, texts))
        return [Leaf(leaf.id, leaf.fact_id, leaf.text, tuple(turns.get(leaf.id, ()))) for leaf in found.values()]

    def _of_tree(self, tree: TreeId) -> sa.Select[*tuple[Any, ...]]:
        return self._nodes(SHOWN_CHARS).where(m.NodeRow.tree_id == tree)


def _said(row: sa.Row[*tuple[Any, ...]], texts: Texts) -> SaidTurn:
    said = texts(row.content, row.packed)
    return SaidTurn(row.session, row.turn, row.ordinal, row.name, said, row.occurred_at)


def _drawn(row: sa.Row[*tuple[Any, ...]]) -> DrawnNode:
    return spanning(DrawnNode, row, running=row.state == "running")
