"""The reducer's statements: its queue, canonical facts, scopes and their members. It works in sets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from memforest_core.domain.facts import Candidate, Fact
from memforest_core.domain.ids import (
    CellId,
    FactId,
    ForestId,
    PayloadId,
    ScopeState,
    SessionId,
    TenantId,
    TreeId,
    TreeKind,
)
from memforest_core.domain.people import People
from memforest_core.domain.times import micros
from memforest_core.index.records import PointLease
from memforest_core.index.rows import want_indexed
from memforest_core.ingest.reduce.canonical import Known
from memforest_core.ingest.reduce.records import (
    HELD,
    Member,
    ReduceBatch,
    ScopeDraft,
    ScopeHead,
    WaitingCandidate,
    WaitingCell,
    WaitingForest,
)
from memforest_core.ingest.reduce.routing import Scene
from memforest_core.memtree import Key
from memforest_core.models.calls import CallRecord, OwnText, Vectors
from memforest_core.store import tables as m
from memforest_core.store.call_ledger import record_calls
from memforest_core.store.copying import adding, change_rows, columns_of, given_to
from memforest_core.store.owners import lock_forest, people_of
from memforest_core.store.removal import RemovalRows
from memforest_core.store.rows import TenantRows, among, record_of, seconds_from_now
from memforest_core.store.statements import from_document, to_document
from memforest_core.store.temperatures import set_temperature
from memforest_core.store.topics import ASSIGN, move_turns
from memforest_core.store.trees import MEMBERS, SCOPES_OF, SceneSpan, head_of, lock_trees, set_spans
from memforest_core.store.vectors import VectorRows, from_bytes, text_hash, to_bytes
from memforest_core.work.jobs import WorkState

# A forest whose row is locked is being written: its writer re-checks for cells after its commit.
_PICK = sa.text("""
    SELECT f.forest_id, f.owner FROM memforest.cell c
      JOIN memforest.forest f ON f.tenant_id = :t AND f.forest_id = c.forest_id
     WHERE c.tenant_id = :t AND c.state = 'done' AND NOT c.placed
       AND f.reduce_available_at <= clock_timestamp()
     ORDER BY c.lane, c.extracted_at
     LIMIT 1 FOR NO KEY UPDATE OF f SKIP LOCKED
    """)

# A correction or an erasure may have changed a cell's candidates since it was loaded: then it is loaded again before it
# is placed. Its row is locked, so that it can't change again.
_UNATTACHED = """NOT EXISTS (SELECT 1 FROM memforest.occurrence o
                               WHERE o.tenant_id = :t AND o.cell_id = k.cell_id AND o.item = k.item)"""

_LOCK_CELLS = sa.text("""
    SELECT cell_id FROM memforest.cell WHERE tenant_id = :t AND cell_id = ANY(CAST(:cells AS uuid[]))
     ORDER BY cell_id FOR NO KEY UPDATE
    """)

_STILL_WAITING = sa.text(f"""
    SELECT c.cell_id, c.first_turn,
           ARRAY(SELECT k.item FROM memforest.candidate k
                  WHERE k.tenant_id = :t AND k.cell_id = c.cell_id AND k.item >= 0 AND {_UNATTACHED}
                  ORDER BY k.item) AS items,
           ARRAY(SELECT k.text_hash FROM memforest.candidate k
                  WHERE k.tenant_id = :t AND k.cell_id = c.cell_id AND k.item >= 0 AND {_UNATTACHED}
                  ORDER BY k.item) AS hashes
      FROM memforest.cell c
     WHERE c.tenant_id = :t AND c.cell_id = ANY(CAST(:cells AS uuid[])) AND c.state = 'done' AND NOT c.placed
    """)  # noqa: S608 - a constant of this module

_CANDIDATES = sa.text(f"""
    SELECT k.* FROM memforest.candidate k
     WHERE k.tenant_id = :t AND k.cell_id = ANY(CAST(:cells AS uuid[])) AND k.item >= 0 AND {_UNATTACHED}
     ORDER BY k.cell_id, k.item
    """)  # noqa: S608 - a constant of this module


class ReduceQueueRows(TenantRows):
    """Extracted cells that wait for the reducer."""

    @property
    def _waits(self) -> tuple[sa.ColumnElement[bool], ...]:
        return m.Cell.tenant_id == self._tenant, m.Cell.state == WorkState.DONE, ~m.Cell.placed

    def waiting(self, limit: int) -> WaitingForest | None:
        """Extracted cells of one forest that is not locked, at most ``limit``: live ones first, then by session."""
        forest = self._run(_PICK).first()
        if forest is None:
            return None
        c = m.Cell
        cells = sa.select(c.cell_id, c.extracted_at).where(*self._waits, c.forest_id == forest.forest_id)
        first = self._db.execute(cells.order_by(c.lane, c.session_id, c.ordinal).limit(limit))
        extracted_at = {CellId(row.cell_id): row.extracted_at for row in first}
        return WaitingForest(ForestId(forest.forest_id), forest.owner, tuple(extracted_at), extracted_at)

    def load(self, waiting: WaitingForest, model: str) -> ReduceBatch:
        """The waiting cells with their candidates that have no fact yet, and vectors. Raises InvariantViolated on a
        damaged one."""
        cells = self._db.execute(
            sa.select(
                m.Cell.__table__,
                m.Cell.cell_id.label("id"),
                m.Cell.placed_at.is_not(None).label("reopened"),
                m.Session.external_id.label("session_label"),
                m.Session.trace,
                m.Session.note,
            )
            .join(m.Session, sa.and_(m.Session.tenant_id == self._tenant, m.Session.session_id == m.Cell.session_id))
            .where(m.Cell.tenant_id == self._tenant, among(m.Cell.cell_id, waiting.cells))
            .order_by(m.Cell.session_id, m.Cell.ordinal)
        ).all()
        ordinals = {cell.cell_id: cell.ordinal for cell in cells}
        candidates = self._candidates(waiting, model, ordinals)
        f = m.Forest
        own = (f.tenant_id == self._tenant, f.forest_id == waiting.forest_id)
        forest = self._db.execute(sa.select(f.rules, f.state).where(*own)).one()
        return ReduceBatch(
            forest_id=waiting.forest_id,
            owner=waiting.owner,
            rules={name: value for name, value in forest.rules.items() if name != HELD},
            held=forest.state == "hidden" and HELD in forest.rules,
            cells=tuple(
                record_of(
                    WaitingCell, cell, char_start=cell.char_start or 0, candidates=tuple(candidates[cell.cell_id])
                )
                for cell in cells
            ),
        )

    def _candidates(
        self, waiting_forest: WaitingForest, model: str, ordinals: Mapping[UUID, int]
    ) -> dict[UUID, list[WaitingCandidate]]:
        forest = waiting_forest.forest_id
        rows = self._run(_CANDIDATES, cells=list(waiting_forest.cells)).all()
        keys = [(forest, bytes(key)) for row in rows for key in (row.text_hash, row.routing_hash)]
        vectors = VectorRows(self._db, self._tenant).vectors_by_hash(model, keys)
        waiting: dict[UUID, list[WaitingCandidate]] = defaultdict(list)
        for row in rows:
            waiting[row.cell_id].append(
                WaitingCandidate(
                    candidate=record_of(Candidate, row, statement=from_document(row.statement)),
                    vector=vectors.get((forest, bytes(row.text_hash))),
                    routing_vector=vectors.get((forest, bytes(row.routing_hash))),
                    cell_ordinal=ordinals[row.cell_id],
                )
            )
        return waiting

    def hand_back(self, cells: Sequence[CellId]) -> None:
        """Make extracted cells wait for the reducer once more, which then attaches candidates without a fact."""
        own = (m.Cell.tenant_id == self._tenant, among(m.Cell.cell_id, cells), m.Cell.state == WorkState.DONE)
        self._db.execute(sa.update(m.Cell).where(*own).values(placed=False))

    def still_waiting(self, batch: ReduceBatch) -> frozenset[CellId]:
        """Which cells of the batch are still not placed, and have the candidates that were loaded."""
        loaded = {
            cell.id: (
                cell.first_turn,
                [each.candidate.item for each in cell.candidates],
                [text_hash(each.candidate.statement.text) for each in cell.candidates],
            )
            for cell in batch.cells
        }
        self._run(_LOCK_CELLS, cells=list(loaded))
        return frozenset(
            CellId(row.cell_id)
            for row in self._run(_STILL_WAITING, cells=list(loaded))
            if (row.first_turn, row.items, [bytes(key) for key in row.hashes]) == loaded[CellId(row.cell_id)]
        )

    def set_placed(self, cells: Sequence[CellId]) -> list[float]:
        """Note that the cells are in the trees; their ages in seconds, apart from those extracted again."""
        c, now = m.Cell, sa.func.clock_timestamp()
        own = sa.update(c).where(c.tenant_id == self._tenant, among(c.cell_id, cells))
        age = sa.func.extract("epoch", now - c.created_at).label("age")
        placed = self._db.execute(own.values(placed=True, placed_at=now).returning(age, c.agains))
        return [float(row.age) for row in placed if row.agains == 0]

    def bury_cell(self, waiting: WaitingForest, code: str, text: str) -> bool:
        """Dead-letter the one extracted cell of ``waiting``, which can't be placed. False, and nothing is changed, when
        the forest is being written, or the cell was placed, erased or extracted again since it was read."""
        if lock_forest(self._db, self._tenant, waiting.forest_id, wait=False) is None:
            return False
        (cell,) = waiting.cells
        same = (m.Cell.cell_id == cell, m.Cell.extracted_at == waiting.extracted_at[cell])
        dead = {"state": WorkState.DEAD, "outcome": "dead", "error_code": code, "error_text": text}
        return self._db.execute(sa.update(m.Cell).where(*self._waits, *same).values(**dead)).rowcount == 1

    def delay_forest(self, forest: ForestId, delay_s: float) -> None:
        """Look at this forest again later, if cells of it still wait: else nothing delays cells that come next."""
        f, waits = m.Forest, sa.exists().where(*self._waits, m.Cell.forest_id == forest)
        own = sa.update(f).where(f.tenant_id == self._tenant, f.forest_id == forest, waits)
        self._db.execute(own.values(reduce_available_at=seconds_from_now(delay_s)))


_UNSEEN = sa.text("""
    SELECT x.fact_id FROM memforest.fact x
      JOIN memforest.index_row i ON i.tenant_id = :t AND i.point_id = x.fact_id
     WHERE x.tenant_id = :t AND x.forest_id = :f AND i.indexed_version = 0
     ORDER BY x.seq DESC LIMIT :n
    """)


_TELLERS = sa.text("""
    SELECT t.session_id, t.ordinal, t.speaker_id
      FROM unnest(CAST(:sessions AS uuid[]), CAST(:ordinals AS int[])) AS u(session, ordinal)
      JOIN memforest.turn t ON t.tenant_id = :t AND t.session_id = u.session AND t.ordinal = u.ordinal
    """)


class FactRows(TenantRows):
    """Canonical facts and their occurrences."""

    def people(self, forest: ForestId) -> People:
        """The owner and all human speakers under all their names."""
        return people_of(self._db, self._tenant, forest)

    def tellers(self, turns: Collection[tuple[SessionId, int]]) -> dict[tuple[SessionId, int], str]:
        """The speakers' ids of turns (session, ordinal)."""
        if not turns:
            return {}
        sessions, ordinals = ([str(session) for session, _ in turns], [ordinal for _, ordinal in turns])
        rows = self._run(_TELLERS, sessions=sessions, ordinals=ordinals)
        return {(SessionId(row.session_id), row.ordinal): row.speaker_id for row in rows}

    def stored_facts(self, ids: Sequence[FactId]) -> frozenset[FactId]:
        """Which of these facts exist."""
        x = m.FactRow
        own = sa.select(x.fact_id).where(x.tenant_id == self._tenant, among(x.fact_id, ids))
        return frozenset(FactId(id_) for id_ in self._db.scalars(own))

    def known_facts(self, ids: Sequence[FactId], model: str) -> list[Known]:
        """Those of the stored facts that are not superseded, with their vectors."""
        if not ids:
            return []
        x = m.FactRow
        own = (x.tenant_id == self._tenant, among(x.fact_id, ids), x.superseded_at.is_(None))
        rows = self._db.execute(sa.select(x.fact_id, x.forest_id, x.statement, x.text_hash).where(*own)).all()
        keys = [(ForestId(row.forest_id), bytes(row.text_hash)) for row in rows]
        vectors = VectorRows(self._db, self._tenant).vectors_by_hash(model, keys)
        return [
            Known(FactId(row.fact_id), from_document(row.statement), vectors[key])
            for row, key in zip(rows, keys, strict=True)
            if key in vectors
        ]

    def unseen_facts(self, forest: ForestId, limit: int, model: str) -> list[Known]:
        """The newest facts of a forest that the vector index does not hold yet."""
        ids = self._run(_UNSEEN, f=forest, n=limit).scalars()
        return self.known_facts([FactId(id_) for id_ in ids], model)

    def add_facts(
        self,
        forest: ForestId,
        facts: Sequence[Fact],
        keys: Mapping[FactId, Key],
        subjects: Mapping[FactId, str],
        lease: PointLease | None = None,
    ) -> None:
        """Store new facts and mark them for indexing, under a ``lease`` if the caller indexes them; ``subjects`` are
        keys of entities."""
        if not facts:
            return
        ids, said = [fact.id for fact in facts], [fact.statement for fact in facts]
        new: dict[str, list[Any]] = columns_of(said, "text", "mentioned_at", "attribute") | {
            "fact_id": ids,
            "forest_id": [forest] * len(facts),
            "normalized": [fact.normalized for fact in facts],
            "text_hash": [text_hash(each.text) for each in said],
            "time_start": [each.time.start for each in said],
            "time_end": [each.time.end for each in said],
            "subject_key": [subjects[id_] for id_ in ids],
            "statement": [to_document(each) for each in said],
            "key_time": [keys[id_].time for id_ in ids],
            "key_ordinal": [fact.cell_ordinal for fact in facts],
            "key_item": [fact.item for fact in facts],
        }
        self._db.execute(adding("fact", tuple(new)), given_to("fact", self._tenant, {}, new))
        want_indexed(self._db, self._tenant, forest, "fact", ids, lease=lease)

    def pin(self, facts: Sequence[FactId]) -> None:
        """Pin these facts; superseded ones stay as they are."""
        if facts:
            own = [m.FactRow.tenant_id == self._tenant, among(m.FactRow.fact_id, facts), ~m.FactRow.pinned]
            current = m.FactRow.superseded_at.is_(None)
            self._db.execute(sa.update(m.FactRow).where(*own, current).values(pinned=True))

    def add_occurrences(self, waiting: Sequence[tuple[WaitingCell, WaitingCandidate]], facts: Sequence[FactId]) -> None:
        """Store the provenance of candidates and the fact of each; a link that exists already stays."""
        said = [item.candidate for _, item in waiting]
        self._run(
            _ADD_OCCURRENCES,
            cells=[each.cell_id for each in said],
            items=[each.item for each in said],
            facts=list(facts),
            sessions=[cell.session_id for cell, _ in waiting],
            turns=[f"{{{','.join(map(str, each.turn_ordinals))}}}" for each in said],
        )


_ADD_OCCURRENCES = sa.text("""
    INSERT INTO memforest.occurrence (tenant_id, cell_id, item, fact_id, session_id, turn_ordinals)
    SELECT :t, u.cell, u.item, u.fact, u.session, CAST(u.turns AS bigint[])
      FROM unnest(CAST(:cells AS uuid[]), CAST(:items AS smallint[]), CAST(:facts AS uuid[]), CAST(:sessions AS uuid[]),
                  CAST(:turns AS text[])) AS u(cell, item, fact, session, turns)
    ON CONFLICT DO NOTHING
    """)

_ADD_MEMBERS = sa.text("""
    INSERT INTO memforest.placement (tenant_id, tree_id, payload_id, session_id)
    SELECT :t, u.tree, u.payload, u.session
      FROM unnest(CAST(:trees AS uuid[]), CAST(:payloads AS uuid[]), CAST(:sessions AS uuid[]))
           AS u(tree, payload, session)
    ON CONFLICT DO NOTHING
    """)

_EVIDENCE = sa.text("""
    SELECT tree_id, count(*) AS facts, array_agg(DISTINCT session_id) AS sessions FROM memforest.placement
     WHERE tenant_id = :t AND tree_id = ANY(CAST(:ids AS uuid[])) GROUP BY tree_id
    """)

_MEMBERS = sa.text("""
    SELECT p.tree_id, x.fact_id, x.key_time, x.key_ordinal, x.key_item, coalesce(x.time_start, x.mentioned_at) AS start,
           x.time_end
      FROM memforest.placement p JOIN memforest.fact x ON x.tenant_id = :t AND x.fact_id = p.payload_id
     WHERE p.tenant_id = :t AND p.tree_id = ANY(CAST(:ids AS uuid[]))
    """)

_MOVE_MEMBERS = sa.text(f"""
    INSERT INTO memforest.placement (tenant_id, tree_id, payload_id, session_id)
    SELECT :t, :target, p.payload_id, o.session_id FROM {MEMBERS} p
     CROSS JOIN LATERAL (SELECT session_id FROM memforest.occurrence
                          WHERE tenant_id = :t AND fact_id = p.payload_id ORDER BY session_id LIMIT 1) o
     WHERE p.tree_id = :absorbed AND NOT EXISTS (SELECT 1 FROM memforest.node n WHERE n.tenant_id = :t
                                                    AND n.tree_id = :target AND n.payload_id = p.payload_id)
    ON CONFLICT DO NOTHING
    """)  # noqa: S608 - a constant of this package


_MATCHED = sa.text("""
    SELECT w.session_id, w.ordinal, w.tree_id FROM memforest.cell c
      JOIN memforest.turn_topic w ON w.tenant_id = :t AND w.session_id = c.session_id
       AND w.ordinal BETWEEN c.first_turn AND c.last_turn AND w.matched
     WHERE c.tenant_id = :t AND c.cell_id = ANY(CAST(:cells AS uuid[]))
    """)


NO_EVIDENCE: tuple[int, frozenset[SessionId]] = (0, frozenset())
"""Of a scope that has nothing."""


class ScopeRows(TenantRows):
    """Scopes, their members, and how many of these there are."""

    def scopes(self, ids: Sequence[TreeId]) -> dict[TreeId, ScopeHead]:
        """Stored scopes among these."""
        if not ids:
            return {}
        own = (m.Tree.tenant_id == self._tenant, among(m.Tree.tree_id, ids))
        rows = self._db.execute(sa.select(m.Tree.__table__).where(*own)).all()
        return {
            TreeId(row.tree_id): ScopeHead(TreeKind(row.kind), row.label, head_of(row) if row.root_id else None)
            for row in rows
        }

    def entity_trees(self, forest: ForestId, keys: Collection[str]) -> dict[str, int]:
        """The scopes of entities that are stored under these keys, with the number of their leaves."""
        if not keys:
            return {}
        r = m.Tree
        where = (r.tenant_id == self._tenant, r.forest_id == forest, r.kind == TreeKind.ENTITY)
        rows = self._db.execute(sa.select(r.scope_key, r.leaf_count).where(*where, among(r.scope_key, sorted(keys))))
        return {row.scope_key: row.leaf_count for row in rows}

    def scenes_of(self, forest: ForestId, facts: Sequence[FactId], *, grown: bool = False) -> list[Scene]:
        """The scenes that have any of these facts; ``grown``: only those with trees."""
        trees = self._run(SCOPES_OF, ids=list(facts)).scalars().all() if facts else ()
        # In two statements: without fresh statistics one would be planned as a scan of all trees.
        mine = among(m.Tree.tree_id, trees)
        return self._scenes(forest, mine & m.Tree.root_id.is_not(None) if grown else mine) if trees else []

    def scenes(self, forest: ForestId, trees: Sequence[TreeId]) -> dict[TreeId, Scene]:
        """Those of these scenes that the forest has."""
        found = self._scenes(forest, among(m.Tree.tree_id, trees)) if trees else []
        return {scene.id: scene for scene in found}

    def newest_scenes(self, forest: ForestId, most: int) -> list[Scene]:
        """The ``most`` scenes that reach furthest in time."""
        return self._scenes(forest, sa.true(), most)

    def _scenes(self, forest: ForestId, which: sa.ColumnElement[bool], most: int | None = None) -> list[Scene]:
        r = m.Tree
        scene = (r.tenant_id == self._tenant, r.forest_id == forest, r.kind == TreeKind.SCENE)
        lives = r.state.in_((ScopeState.ACTIVE, ScopeState.CANDIDATE))
        columns = (r.tree_id, r.domain, r.centroid, r.time_start, r.time_end, r.root_id, r.leaf_count, r.cold_at)
        own = sa.select(*columns, r.begun_at).where(*scene, lives, which).order_by(r.time_end.desc(), r.tree_id)
        found = self._db.execute(own.limit(most)).all()
        # A scene without a tree has as many facts as members.
        waiting = self.evidence([TreeId(row.tree_id) for row in found if row.root_id is None])
        return [
            Scene(
                TreeId(row.tree_id),
                row.domain,
                from_bytes(row.centroid),
                row.leaf_count if row.root_id is not None else waiting.get(TreeId(row.tree_id), NO_EVIDENCE)[0],
                micros(row.time_start),
                micros(row.time_end),
                cold=row.cold_at is not None,
                begun=row.begun_at is not None,
            )
            for row in found
        ]

    def matched(self, cells: Sequence[CellId]) -> dict[tuple[SessionId, int], TreeId]:
        """The topics of those turns (session, ordinal) of these cells that ``append`` gave to one."""
        found = self._run(_MATCHED, cells=list(cells))
        return {(SessionId(row.session_id), row.ordinal): TreeId(row.tree_id) for row in found}

    def assign(self, cells: Sequence[CellId]) -> None:
        """Give the other turns of these cells their topics; the caller has locked the forest."""
        self._run(ASSIGN, cells=list(cells))

    def move_turns(self, absorbed: TreeId, target: TreeId) -> None:
        """The turns of a scene whose tree has ended become those of the target."""
        move_turns(self._db, self._tenant, absorbed, target)

    def tags(self, scenes: Sequence[TreeId]) -> dict[TreeId, str]:
        """The tags of those of these scenes that have some."""
        r = m.Tree
        own = (r.tenant_id == self._tenant, among(r.tree_id, scenes), r.tags.is_not(None))
        return {TreeId(row.tree_id): row.tags for row in self._db.execute(sa.select(r.tree_id, r.tags).where(*own))}

    def set_tags(self, scene: TreeId, tags: str | None) -> None:
        """Set a scene's tags."""
        r = m.Tree
        own = sa.update(r).where(r.tenant_id == self._tenant, r.tree_id == scene)
        self._db.execute(own.values(tags=tags))

    def last_scene(self, forest: ForestId) -> int:
        """The highest number that a scene of the forest has had; the caller has locked the forest."""
        f = m.Forest
        own = sa.select(f.scene_seq).where(f.tenant_id == self._tenant, f.forest_id == forest)
        return int(self._db.scalar(own) or 0)

    def set_last_scene(self, forest: ForestId, number: int) -> None:
        """Store the highest number that a scene of the forest has had."""
        f = m.Forest
        own = sa.update(f).where(f.tenant_id == self._tenant, f.forest_id == forest)
        self._db.execute(own.values(scene_seq=number))

    def open_scopes(self, forest: ForestId, drafts: Sequence[ScopeDraft]) -> dict[TreeId, ScopeHead]:
        """Create those of the scopes that are new, as candidates, and give people their newest label; all as they were
        stored, new ones without a tree. Rows that are there already are not locked, but for a new label."""
        stored = self.scopes([draft.id for draft in drafts])
        self._add_scopes(forest, [draft for draft in drafts if draft.id not in stored])
        called = {one.id: one.label for one in drafts if one.person and one.id in stored}
        renamed = {id_: label for id_, label in called.items() if label != stored[id_].label}
        if renamed:
            lock_trees(self._db, self._tenant, list(renamed))
            labels = {"label": list(renamed.values())}
            self._db.execute(change_rows("tree", self._tenant, {"tree_id": renamed}, labels))
        return {one.id: ScopeHead(one.kind, one.label, None) for one in drafts} | stored

    def _add_scopes(self, forest: ForestId, drafts: Sequence[ScopeDraft]) -> None:
        if not drafts:
            return
        spans = [draft.span for draft in drafts]
        new: dict[str, list[Any]] = columns_of(drafts, "label", "k", "session_id", "domain") | {
            "tree_id": [draft.id for draft in drafts],
            "forest_id": [forest] * len(drafts),
            "kind": [draft.kind.value for draft in drafts],
            "scope_key": [draft.key for draft in drafts],
            "state": [ScopeState.CANDIDATE.value] * len(drafts),
            "centroid": [to_bytes(span.centroid) if span is not None else None for span in spans],
            "time_start": [span.start if span is not None else None for span in spans],
            "time_end": [span.end if span is not None else None for span in spans],
        }
        self._db.execute(adding("tree", tuple(new)), given_to("tree", self._tenant, {}, new))

    def set_spans(self, spans: Mapping[TreeId, SceneSpan]) -> None:
        """Set the spans of scenes that have no tree yet; those of others come with ``write_trees``."""
        set_spans(self._db, self._tenant, spans)

    def name_people(self, forest: ForestId, names: Mapping[str, str]) -> None:
        """Give the trees of speakers (by their keys) the names that the speakers have now."""
        if not names:
            return
        r = m.Tree
        own = sa.update(r).where(r.tenant_id == self._tenant, r.forest_id == forest, r.kind == TreeKind.ENTITY)
        name = sa.bindparam("name", type_=sa.Text())
        renaming = own.where(r.scope_key == sa.bindparam("key"), r.label != name).values(label=name)
        self._db.execute(renaming, [{"key": key, "name": name} for key, name in sorted(names.items())])

    def add_members(self, members: Sequence[Member]) -> None:
        """Note which facts scopes hold that get no tree: of a tree its leaves say it."""
        if members:
            self._run(
                _ADD_MEMBERS,
                trees=[member.tree_id for member in members],
                payloads=[member.payload_id for member in members],
                sessions=[member.session_id for member in members],
            )

    def evidence(self, ids: Sequence[TreeId]) -> dict[TreeId, tuple[int, frozenset[SessionId]]]:
        """How many facts, from which sessions, are placed in each of these scopes that has any."""
        if not ids:
            return {}
        found = self._run(_EVIDENCE, ids=list(ids))
        return {TreeId(row.tree_id): (row.facts, frozenset(map(SessionId, row.sessions))) for row in found}

    def members(self, ids: Sequence[TreeId]) -> dict[TreeId, list[tuple[PayloadId, Key, int, int]]]:
        """The facts placed in each scope that are in no leaf: payload, leaf key, start and end in microseconds."""
        if not ids:
            return {}
        found: dict[TreeId, list[tuple[PayloadId, Key, int, int]]] = defaultdict(list)
        for row in self._run(_MEMBERS, ids=list(ids)):
            key, start = Key(row.key_time, row.key_ordinal, row.key_item, row.fact_id.hex), row.start
            found[TreeId(row.tree_id)].append(
                (PayloadId(row.fact_id), key, micros(start), micros(row.time_end or start))
            )
        return found

    def move_members(self, absorbed: TreeId, target: TreeId) -> None:
        """The members of a scope are placed in the target, which has none of them yet; its tree ends, and the target's
        takes them, with ``write_trees``."""
        self._run(_MOVE_MEMBERS, absorbed=absorbed, target=target)
        p = m.Placement
        self._db.execute(sa.delete(p).where(p.tenant_id == self._tenant, p.tree_id == absorbed))


_REVIVE = sa.text("""
    UPDATE memforest.fact x SET superseded_by = NULL, superseded_at = NULL
      FROM unnest(CAST(:facts AS uuid[]), CAST(:said AS timestamptz[])) AS u(fact, said)
     WHERE x.tenant_id = :t AND x.fact_id = u.fact AND x.superseded_at < u.said
    RETURNING x.fact_id
    """)


class ReduceRows(RemovalRows):
    """All rows of one reducing transaction."""

    def __init__(self, connection: sa.Connection, tenant: TenantId) -> None:
        super().__init__(connection, tenant)
        self.queue = ReduceQueueRows(connection, tenant)
        self.canon = FactRows(connection, tenant)
        self.scopes = ScopeRows(connection, tenant)

    def lock_forest(self, forest: ForestId, *, wait: bool = True) -> str | None:
        """Become the forest's only writer; its state, None when it does not exist or, without ``wait``, is locked."""
        return lock_forest(self._db, self._tenant, forest, wait=wait)

    def store_vectors(self, model: str, vectors: Mapping[OwnText, Vectors], call: CallRecord, forest: ForestId) -> None:
        """Store vectors, and the call that made them; the caller has locked the forest."""
        self._texts.put_vectors(model, vectors)
        record_calls(self._db, self._tenant, [call], forest, None)

    def warm(self, scenes: Sequence[TreeId]) -> None:
        """Have the facts of these scenes in the vector index; the caller has locked the forest."""
        set_temperature(self._db, self._tenant, scenes, cold=False)

    def revive(self, said: Mapping[FactId, datetime]) -> None:
        """Facts were said again, at these times last: what was said after a correction is superseded no longer."""
        if said:
            revived = self._run(_REVIVE, facts=list(said), said=list(said.values())).scalars().all()
            if revived:
                self.mark_payloads(revived)
