"""Sessions, cells, candidates, facts and trees of a source copied into the target, a set of rows by one statement."""

# ruff: noqa: S608 - statements are made of constants of this module

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import sqlalchemy as sa

from memforest_core.domain.facts import CORRECTED_ITEM
from memforest_core.domain.ids import CellId, FactId, ForestId, NodeId, SessionId, TreeId
from memforest_core.domain.rendering import speech
from memforest_core.domain.times import from_micros
from memforest_core.index.rows import want_indexed
from memforest_core.ingest.reduce.records import Member
from memforest_core.lifecycle.merge.records import (
    CellCopy,
    FactCopy,
    ItemCopy,
    Overlap,
    ScopeCopy,
    SessionPlan,
    StoredCell,
    StoredFact,
    StoredItem,
    StoredScope,
    StoredSession,
)
from memforest_core.memtree import Key, Node
from memforest_core.store import tables as m
from memforest_core.store.copying import change_rows, columns_of, copy_forest_rows, copy_rows, given, literal, old
from memforest_core.store.packs import of_sessions, unpack
from memforest_core.store.removal import RemovalRows
from memforest_core.store.rows import TenantRows, record_of, seconds_from_now
from memforest_core.store.statements import from_document
from memforest_core.store.topics import CopiedTurns
from memforest_core.store.trees import TreeRows, head_of, members, micros, node_of
from memforest_core.store.vectors import cell_hash, from_bytes

_SCOPE = f"""
    SELECT r.tree_id, r.kind, r.scope_key, r.state, r.k, r.root_id, r.height, r.leaf_count, r.domain, r.centroid,
           {micros("r.time_start")} AS "start", {micros("r.time_end")} AS "end"
      FROM memforest.tree r"""

_NODES = sa.text("""
    SELECT n.* FROM memforest.tree r JOIN memforest.node n ON n.tenant_id = :t AND n.tree_id = r.tree_id
     WHERE r.tenant_id = :t AND r.forest_id = :f AND r.state = 'active'
    """)

_MEMBERS = sa.text(f"""
    SELECT p.tree_id, p.payload_id, coalesce(r.session_id, o.session_id) AS session_id
      FROM memforest.tree r CROSS JOIN {members("q.tree_id = r.tree_id")} p
      LEFT JOIN LATERAL (SELECT session_id FROM memforest.occurrence
                          WHERE tenant_id = :t AND fact_id = p.payload_id ORDER BY session_id LIMIT 1) o ON true
     WHERE r.tenant_id = :t AND r.forest_id = :f AND r.state IN ('active', 'candidate')
     ORDER BY p.tree_id, p.payload_id
    """)

_DIRTY = given("dirty")
# A scope without a root is a candidate; a tree that has to be refreshed is due after the quiet time.
_SCOPE_CHANGED = {
    "label": sa.func.coalesce(given("label"), old("label")),
    "state": sa.case((given("root_id").is_(None), "candidate"), else_="active"),
    "marks": 1,
    "first_mark_at": sa.case((_DIRTY, sa.func.now())),
    # The points of a copy are all written.
    "cold_at": sa.null(),
}


class TreeCopies(TreeRows):
    """Copies scopes and trees, in one transaction of a tenant."""

    def all_scopes(self, forest: ForestId) -> Sequence[StoredScope]:
        """Active and candidate scopes of a forest."""
        statement = sa.text(
            f"{_SCOPE} WHERE r.tenant_id = :t AND r.forest_id = :f AND r.state IN ('active', 'candidate')"
            " ORDER BY r.tree_id"
        )
        return [_scope(row) for row in self._run(statement, f=forest)]

    def scopes_of(self, ids: Sequence[TreeId]) -> Mapping[TreeId, StoredScope]:
        """Those of these scopes that exist."""
        statement = sa.text(f"{_SCOPE} WHERE r.tenant_id = :t AND r.tree_id = ANY(CAST(:ids AS uuid[]))")
        return {TreeId(row.tree_id): _scope(row) for row in self._run(statement, ids=list(ids))}

    def nodes(self, forest: ForestId) -> Mapping[TreeId, Sequence[Node]]:
        found: dict[TreeId, list[Node]] = defaultdict(list)
        for node in map(node_of, self._run(_NODES, f=forest)):
            found[node.tree_id].append(node)
        return found

    def all_members(self, forest: ForestId) -> Sequence[Member]:
        """All members of a forest's active and candidate scopes."""
        return [Member(*row) for row in self._run(_MEMBERS, f=forest)]

    def copy_scopes(self, target: ForestId, copies: Sequence[ScopeCopy], quiet_s: float) -> None:
        """Add scopes, with the heads of those whose trees are copied; what has to be refreshed is due after the quiet
        time."""
        if not copies:
            return
        trees = [copy.copy for copy in copies]
        heads = [tree.head if tree is not None else None for tree in trees]
        new: dict[str, Sequence[Any]] = {
            "tree_id": [copy.id for copy in copies],
            "scope_key": [copy.key for copy in copies],
            "label": [copy.plan.name if copy.plan is not None else None for copy in copies],
            "session_id": [copy.plan.target if copy.plan is not None else None for copy in copies],
            "dirty": [tree is not None and tree.dirty for tree in trees],
            "root_id": [head.root_id if head else None for head in heads],
            "height": [head.height if head else 0 for head in heads],
            "leaf_count": [head.leaf_count if head else 0 for head in heads],
        }
        by = {"tree_id": [copy.source.id for copy in copies]}
        due = sa.case((_DIRTY, seconds_from_now(quiet_s)))
        changed = _SCOPE_CHANGED | {"forest_id": target, "due_at": due}
        self._db.execute(copy_rows("tree", self._tenant, by, new, changed, order_by=[given("tree_id")]))

    def topics_of(self, said: CopiedTurns) -> frozenset[TreeId]:
        """The topics of turns that are copied."""
        return frozenset(said.topics(self._db, self._tenant))

    def copy_topics(self, said: CopiedTurns, target: ForestId, scenes: Mapping[TreeId, TreeId]) -> None:
        """Give copied turns the topics that theirs have become."""
        said.copy(self._db, self._tenant, target, scenes)

    def copy_summaries(self, target: ForestId, renamed: Mapping[NodeId, NodeId]) -> None:
        """Copy the summaries of nodes to their copies, and mark those for indexing."""
        if not renamed:
            return
        there = self._select(m.NodeRow.node_id).where(m.NodeRow.node_id == given("node_id"))
        statement = copy_rows(
            "node_summary",
            self._tenant,
            {"node_id": renamed},
            {"node_id": renamed.values()},
            {},
            # What was just copied has no statistics: by LIMIT each node is looked up.
            where=there.limit(1).exists(),
        )
        copied = self._db.scalars(statement.returning(m.NodeSummary.node_id)).all()
        want_indexed(self._db, self._tenant, target, "node", copied, lane=1)


def _scope(row: sa.Row[Any]) -> StoredScope:
    head = head_of(row) if row.root_id is not None else None
    total = from_bytes(row.centroid) if row.centroid is not None else None
    return record_of(StoredScope, row, id=row.tree_id, key=row.scope_key, head=head, total=total)


def _ids(*names: str) -> str:
    return ", ".join(f"CAST(:{name} AS uuid[])" for name in names)


# Workers lock the cells of a window from its first one on: in the same order no two transactions wait for each other.
_HOLD_CELLS = sa.text("""
    SELECT 1 FROM memforest.cell
     WHERE tenant_id = :t AND forest_id = :f AND (state <> 'done' OR retry_at IS NOT NULL)
     ORDER BY session_id, ordinal FOR NO KEY UPDATE
    """)

_LOCK_SESSIONS = sa.text("""
    SELECT session_id, turn_count, cell_count FROM memforest.session
     WHERE tenant_id = :t AND session_id = ANY(CAST(:ids AS uuid[])) ORDER BY session_id FOR NO KEY UPDATE
    """)

# As ``Turn.same_as``. What was erased on one side can't be compared: its place and id are enough. A turn without an id
# of the caller's may have been stored by an older version, whose generated ids began otherwise.
_DIFFER = sa.text(f"""
    SELECT u.old FROM unnest({_ids("old", "new")}) AS u(old, new)
     WHERE EXISTS (
        SELECT 1 FROM memforest.turn a
          JOIN memforest.turn b ON b.tenant_id = :t AND b.session_id = u.new AND b.ordinal = a.ordinal
         WHERE a.tenant_id = :t AND a.session_id = u.old
           AND ((a.external_id <> b.external_id AND NOT (a.external_id IN ('turn-' || a.ordinal, 'turn@' || a.ordinal)
                                                     AND b.external_id IN ('turn-' || a.ordinal, 'turn@' || a.ordinal)))
                OR (NOT a.erased AND NOT b.erased AND (
                (a.role, a.content, a.speaker_id, a.name) IS DISTINCT FROM (b.role, b.content, b.speaker_id, b.name)
                OR (a.dated AND b.dated AND a.occurred_at <> b.occurred_at)))))
    """)

_LENGTHEN = [
    sa.text(statement)
    for statement in (
        f"""
        UPDATE memforest.session s
           SET turn_count = o.turn_count, cell_count = s.cell_count + u.cells, updated_at = clock_timestamp()
          FROM unnest({_ids("old", "new")}, CAST(:cells AS int[])) AS u(old, new, cells)
          JOIN memforest.session o ON o.tenant_id = :t AND o.session_id = u.old
         WHERE s.tenant_id = :t AND s.session_id = u.new
        """,
        """
        UPDATE memforest.cell SET state = 'ready', available_at = clock_timestamp()
         WHERE tenant_id = :t AND session_id = ANY(CAST(:new AS uuid[])) AND state = 'held'
        """,
    )
]

# What is pinned on one side is pinned in the session that both become.
_TAKE_PINS = [
    sa.text(statement)
    for statement in (
        f"""
        UPDATE memforest.session s SET pinned = true
          FROM unnest({_ids("old", "new")}) AS u(old, new)
          JOIN memforest.session o ON o.tenant_id = :t AND o.session_id = u.old AND o.pinned
         WHERE s.tenant_id = :t AND s.session_id = u.new AND NOT s.pinned
        """,
        f"""
        UPDATE memforest.turn b SET pinned = true
          FROM unnest({_ids("old", "new")}) AS u(old, new)
          JOIN memforest.turn a ON a.tenant_id = :t AND a.session_id = u.old AND a.pinned
         WHERE b.tenant_id = :t AND b.session_id = u.new AND b.ordinal = a.ordinal AND NOT b.erased AND NOT b.pinned
        """,
    )
]

# An owner without a name takes that of the first source that has one.
_TAKE_NAME = sa.text("""
    UPDATE memforest.forest f SET display_name = s.display_name FROM memforest.forest s
     WHERE f.tenant_id = :t AND f.forest_id = :target AND f.display_name IS NULL
       AND s.tenant_id = :t AND s.forest_id = :source AND s.display_name IS NOT NULL
    """)

# In the order of the fields of ``StoredCell``.
_CELL = f"""
    SELECT c.cell_id, c.session_id, c.ordinal, c.window_ordinal, c.first_turn, c.last_turn,
           coalesce(c.char_start, 0) AS char_start, {micros("c.time_start")} AS "start",
           {micros("c.time_end")} AS "end", c.state = 'done' AND c.placed AS settled,
           (SELECT coalesce(max(k.item), -1) + 1 FROM memforest.candidate k WHERE k.tenant_id = :t
               AND k.cell_id = c.cell_id AND k.item BETWEEN 0 AND {CORRECTED_ITEM} - 1) AS next_item,
           (SELECT coalesce(max(k.item) + 1, {CORRECTED_ITEM}) FROM memforest.candidate k WHERE k.tenant_id = :t
               AND k.cell_id = c.cell_id AND k.item >= {CORRECTED_ITEM}) AS next_correction
      FROM memforest.cell c"""

_CUT_TURNS = sa.text(f"""
    SELECT u.cell, r.name, r.content, {micros("r.occurred_at")} AS at
      FROM unnest({_ids("cells", "sessions")}, CAST(:firsts AS int[]), CAST(:lasts AS int[]))
           AS u(cell, session, first, last)
      JOIN memforest.turn r ON r.tenant_id = :t AND r.session_id = u.session AND r.ordinal BETWEEN u.first AND u.last
     ORDER BY u.cell, r.ordinal
    """)

_ITEMS = sa.text(f"""
    SELECT k.cell_id, k.item, k.turn_ordinals, o.fact_id,
           CASE WHEN o.fact_id IS NULL AND k.item >= {CORRECTED_ITEM} THEN k.statement END AS pending
      FROM memforest.cell c
      JOIN memforest.candidate k ON k.tenant_id = :t AND k.cell_id = c.cell_id
      LEFT JOIN memforest.occurrence o ON o.tenant_id = :t AND o.cell_id = k.cell_id AND o.item = k.item
     WHERE c.tenant_id = :t AND c.forest_id = :f ORDER BY c.session_id, c.ordinal, k.item
    """)

_FACT = f"""
    SELECT f.fact_id, f.statement, f.text_hash, f.key_time, f.key_ordinal, f.key_item,
           {micros("coalesce(f.time_start, f.mentioned_at)")} AS "start",
           {micros("coalesce(f.time_end, f.time_start, f.mentioned_at)")} AS "end",
           f.pinned, f.superseded_by, f.superseded_at IS NOT NULL AS superseded
      FROM memforest.fact f"""

_TAKE_CORRECTIONS = sa.text(f"""
    UPDATE memforest.fact g SET superseded_by = u.by, superseded_at = f.superseded_at
      FROM unnest({_ids("old", "new", "by")}) AS u(old, new, by)
      JOIN memforest.fact f ON f.tenant_id = :t AND f.fact_id = u.old
      JOIN memforest.fact n ON n.tenant_id = :t AND n.fact_id = u.by AND n.superseded_at IS NULL
     WHERE g.tenant_id = :t AND g.fact_id = u.new AND g.superseded_at IS NULL AND u.by <> u.new
       AND NOT EXISTS (
           SELECT 1 FROM memforest.occurrence o
             JOIN memforest.candidate k ON k.tenant_id = :t AND k.cell_id = o.cell_id AND k.item = o.item
            WHERE o.tenant_id = :t AND o.fact_id = g.fact_id
              AND CAST(k.statement ->> 'mentioned_at' AS timestamptz) >= f.superseded_at)
    RETURNING g.fact_id
    """)

# What was cut or left behind brings no vector. What has just been copied has no statistics: each hash is looked up.
_OF_TARGET = sa.text("""
    coalesce(
        (SELECT 1 FROM memforest.cell c
          WHERE c.tenant_id = :t AND c.forest_id = :target AND c.text_hash = old.text_hash LIMIT 1),
        (SELECT 1 FROM memforest.fact f
          WHERE f.tenant_id = :t AND f.forest_id = :target AND f.text_hash = old.text_hash LIMIT 1),
        (SELECT 1 FROM memforest.candidate k JOIN memforest.cell c
             ON c.tenant_id = :t AND c.cell_id = k.cell_id AND c.forest_id = :target
          WHERE k.tenant_id = :t AND k.text_hash = old.text_hash LIMIT 1),
        (SELECT 1 FROM memforest.candidate k JOIN memforest.cell c
             ON c.tenant_id = :t AND c.cell_id = k.cell_id AND c.forest_id = :target
          WHERE k.tenant_id = :t AND k.routing_hash = old.text_hash LIMIT 1)) IS NOT NULL
    """)

_WAITING = sa.case((old("state") == "running", "ready"), else_=old("state"))


class ContentCopies(TenantRows):
    """Copies what was said and what was made of it, in one transaction of a tenant."""

    def lock_cells(self, source: ForestId) -> None:
        """Keep workers from claiming or ending the extraction of a forest's cells until the transaction ends; its turns
        have their texts then, and none is in a pack."""
        self._run(_HOLD_CELLS, f=source)
        unpack(self._db, self._tenant, m.TurnPack.forest_id == source)

    def sessions(self, forest: ForestId) -> Sequence[StoredSession]:
        """All sessions of a forest, by the caller's id."""
        s = m.Session
        own = self._select(s.session_id, s.external_id, s.turn_count).where(s.forest_id == forest)
        rows = self._db.execute(own.order_by(s.external_id))
        return [record_of(StoredSession, row, id=row.session_id, turns=row.turn_count) for row in rows]

    def add_sessions(self, owner: str, target: ForestId, plans: Sequence[SessionPlan]) -> frozenset[SessionId]:
        """Copy session rows of an owner; the new ones among these, the others were there already."""
        statement = copy_rows(
            "session",
            self._tenant,
            {"session_id": [plan.source.id for plan in plans]},
            {"session_id": [plan.target for plan in plans], "external_id": [plan.name for plan in plans]},
            {"forest_id": target, "origin_owner": sa.func.coalesce(old("origin_owner"), owner)},
            order_by=[given("session_id")],
        )
        return frozenset(self._db.scalars(statement.on_conflict_do_nothing().returning(m.Session.session_id)))

    def overlaps(self, plans: Sequence[SessionPlan]) -> Mapping[SessionId, Overlap]:
        """The target's sessions of these names, locked, compared turn by turn; by the source's session."""
        if not plans:
            return {}
        new = [plan.target for plan in plans]
        there = {row.session_id: row for row in self._run(_LOCK_SESSIONS, ids=new)}
        unpack(self._db, self._tenant, of_sessions(new))
        differ = set(self._run(_DIFFER, old=[plan.source.id for plan in plans], new=new).scalars())
        return {
            plan.source.id: Overlap(row.turn_count, row.cell_count, plan.source.id in differ)
            for plan in plans
            for row in [there[plan.target]]
        }

    def add_turns(self, plans: Sequence[SessionPlan]) -> None:
        """Copy the turns of sessions from the first that is missing in the target."""
        if plans:
            by = {"session_id": [plan.source.id for plan in plans]}
            new = {"session_id": [plan.target for plan in plans]} | columns_of(plans, "first_turn")
            later = old("ordinal") >= given("first_turn")
            self._db.execute(copy_rows("turn", self._tenant, by, new, {}, where=later))

    def lengthen(self, sessions: Sequence[tuple[SessionId, SessionId, int]]) -> None:
        """Set the turn count of sessions (source, target) to the source's, and add the number of cells; held cells of
        the target become ready."""
        if sessions:
            old, new, cells = (list(column) for column in zip(*sessions, strict=True))
            for statement in _LENGTHEN:
                self._run(statement, old=old, new=new, cells=cells)

    def take_pins(self, plans: Sequence[SessionPlan]) -> None:
        """Pin in the target's sessions what is pinned in the source's: the sessions themselves, and their turns."""
        if plans:
            old, new = [plan.source.id for plan in plans], [plan.target for plan in plans]
            for statement in _TAKE_PINS:
                self._run(statement, old=old, new=new)

    def take_name(self, source: ForestId, target: ForestId) -> None:
        """Give the target the display name of the source, unless it has one."""
        self._run(_TAKE_NAME, source=source, target=target)

    def cells(self, forest: ForestId) -> Sequence[StoredCell]:
        """All cells of a forest, by session and ordinal."""
        statement = sa.text(f"{_CELL} WHERE c.tenant_id = :t AND c.forest_id = :f ORDER BY c.session_id, c.ordinal")
        return [StoredCell(*row) for row in self._run(statement, f=forest)]

    def cells_of(self, sessions: Sequence[SessionId]) -> Sequence[StoredCell]:
        """All cells of these sessions, by session and ordinal; locked, so that none is extracted again meanwhile."""
        statement = sa.text(f"""{_CELL} WHERE c.tenant_id = :t AND c.session_id = ANY(CAST(:ids AS uuid[]))
             ORDER BY c.session_id, c.ordinal FOR NO KEY UPDATE OF c""")
        return [StoredCell(*row) for row in self._run(statement, ids=list(sessions))]

    def add_cells(self, target: ForestId, copies: Sequence[CellCopy]) -> None:
        """Copy cells with their state; one that is being worked on waits again. They are marked for indexing."""
        if not copies:
            return
        new = columns_of(copies, "cell_id", "session_id", "ordinal", "window_ordinal", "first_turn")
        by = {"cell_id": [copy.source.id for copy in copies]}
        changed = {"forest_id": target, "state": _WAITING}
        self._db.execute(copy_rows("cell", self._tenant, by, new, changed))
        want_indexed(self._db, self._tenant, target, "cell", new["cell_id"], lane=1)

    def cut_texts(self, copies: Sequence[CellCopy]) -> Mapping[CellId, tuple[int, int]]:
        """Cut the texts of copied cells to the turns from their first one on; the span of each cell in microseconds."""
        if not copies:
            return {}
        rows = self._run(
            _CUT_TURNS,
            cells=[copy.cell_id for copy in copies],
            sessions=[copy.session_id for copy in copies],
            firsts=[copy.first_turn for copy in copies],
            lasts=[copy.source.last_turn for copy in copies],
        )
        texts: dict[CellId, str] = {}
        spans: dict[CellId, tuple[int, int]] = {}
        for cell, turns in groupby(rows, key=lambda row: CellId(row.cell)):
            said = list(turns)
            texts[cell] = "\n".join(speech(row.name, row.content) for row in said)
            spans[cell] = min(row.at for row in said), max(row.at for row in said)
        starts = [from_micros(start) for start, _ in spans.values()]
        new: dict[str, Sequence[Any]] = {
            "text": list(texts.values()),
            "text_hash": [cell_hash(text, start) for text, start in zip(texts.values(), starts, strict=True)],
            "time_start": starts,
            "time_end": [from_micros(end) for _, end in spans.values()],
        }
        self._db.execute(change_rows("cell", self._tenant, {"cell_id": texts}, new))
        return spans

    def items(self, forest: ForestId) -> Sequence[StoredItem]:
        """All candidates of a forest, by cell and item."""
        return [
            StoredItem(
                CellId(row.cell_id),
                row.item,
                tuple(row.turn_ordinals),
                FactId(row.fact_id) if row.fact_id else None,
                from_document(row.pending) if row.pending else None,
            )
            for row in self._run(_ITEMS, f=forest)
        ]

    def add_items(self, copies: Sequence[ItemCopy]) -> None:
        """Copy candidates, and attach those that have a fact."""
        for table, some, more in (
            ("candidate", copies, ()),
            ("occurrence", [copy for copy in copies if copy.fact_id is not None], ("fact_id", "session_id")),
        ):
            if some:
                by, new = columns_of(some, "cell_id", "item"), columns_of(some, *more)
                new |= {"cell_id": [copy.new_cell for copy in some], "item": [copy.new_item for copy in some]}
                self._db.execute(copy_rows(table, self._tenant, by, new, {}))

    def facts(self, forest: ForestId) -> Sequence[StoredFact]:
        """All facts of a forest, in the order in which they were made."""
        statement = sa.text(f"{_FACT} WHERE f.tenant_id = :t AND f.forest_id = :f ORDER BY f.seq")
        return [_fact(row) for row in self._run(statement, f=forest)]

    def facts_of(self, ids: Sequence[FactId]) -> Sequence[StoredFact]:
        """Those of these facts that exist."""
        statement = sa.text(f"{_FACT} WHERE f.tenant_id = :t AND f.fact_id = ANY(CAST(:ids AS uuid[]))")
        return [_fact(row) for row in self._run(statement, ids=literal(ids))]

    def copy_facts(self, target: ForestId, copies: Sequence[FactCopy]) -> None:
        """Copy facts under their new ids, and mark them for indexing."""
        if not copies:
            return
        ids = [copy.target for copy in copies]
        new: dict[str, Sequence[Any]] = {"fact_id": ids, "superseded_by": [copy.superseded_by for copy in copies]}
        by = {"fact_id": [copy.source for copy in copies]}
        self._db.execute(copy_rows("fact", self._tenant, by, new, {"forest_id": target}, order_by=[old("seq")]))
        want_indexed(self._db, self._tenant, target, "fact", ids, lane=1)

    def take_corrections(self, copies: Sequence[FactCopy]) -> None:
        """Supersede facts of the target (``target``) that the source has in the same words and has corrected since they
        were last said, if their successors are there and hold; what is above them is to be summarized again."""
        if not copies:
            return
        found = self._run(
            _TAKE_CORRECTIONS,
            old=literal(copy.source for copy in copies),
            new=literal(copy.target for copy in copies),
            by=literal(copy.superseded_by for copy in copies),
        )
        superseded = found.scalars().all()
        if superseded:
            RemovalRows(self._db, self._tenant).mark_payloads(superseded)

    def pin(self, facts: Sequence[FactId]) -> None:
        self._db.execute(self._update_rows(m.FactRow).where(m.FactRow.fact_id.in_(facts)).values(pinned=True))

    def copy_vectors(self, source: ForestId, target: ForestId) -> None:
        """Give the target the vectors of what it has taken over from the source; its own stay."""
        own = _OF_TARGET.bindparams(t=self._tenant, target=target)
        self._db.execute(copy_forest_rows("vector", self._tenant, source, target, own))


def _fact(row: sa.Row[Any]) -> StoredFact:
    key = Key(row.key_time, row.key_ordinal, row.key_item, row.fact_id.hex)
    return record_of(StoredFact, row, id=row.fact_id, statement=from_document(row.statement), key=key)
