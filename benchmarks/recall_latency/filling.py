"""Forests filled at once: the rows and points that the pipeline leaves behind when it has come to rest."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

import numpy as np

from benchmarks.harness import Database, seeded_ids
from benchmarks.recall_latency.copies import Copies
from benchmarks.recall_latency.scopes import Child, Scope
from benchmarks.recall_latency.world import TENANT, Said, StoredVectors, World, sessions, token_vectors, unit
from memforest_core.domain.cells import CellCut, Cutting, cut_cells, turn_starts
from memforest_core.domain.extractive import summarize
from memforest_core.domain.facts import Fact
from memforest_core.domain.ids import (
    CellId,
    ForestId,
    NodeId,
    PayloadId,
    SessionId,
    TenantId,
    TreeId,
    TreeKind,
    cell_id,
    session_id,
    tree_id,
)
from memforest_core.domain.indexed import add_counts, bm25_weights, cell_text, count_terms, fact_terms_text, pack_counts
from memforest_core.domain.people import People
from memforest_core.domain.text import normalize_name
from memforest_core.domain.times import from_micros, micros
from memforest_core.index.vector_index import Point, PointKind, SparseVector, VectorIndex
from memforest_core.ingest.accept.rows import AcceptRows
from memforest_core.ingest.reduce.canonical import identify
from memforest_core.ingest.reduce.placing import fact_span
from memforest_core.ingest.reduce.routing import entity_scopes
from memforest_core.ingest.refresh.records import SummarySource
from memforest_core.ingest.refresh.summarizer import OFFLINE_MODEL, input_hash
from memforest_core.memtree import Diff, Key, Node, build
from memforest_core.memtree.paths import order
from memforest_core.models.calls import Vectors
from memforest_core.models.token_vectors import to_bytes as tokens_to_bytes
from memforest_core.settings import ReduceSettings, RefreshSettings, TreeSettings
from memforest_core.store.statements import to_document
from memforest_core.store.trees import LOWEST
from memforest_core.store.vectors import cell_hash, text_hash, to_bytes, to_half

BUDGET = RefreshSettings().budget_chars
TREES = TreeSettings()
REDUCE = ReduceSettings()
POINTS_AT_ONCE = 4_096
ROWS_AT_ONCE = 100_000
"""Rows, and points, that are gathered in memory before they are written."""


class Filler:
    """One forest on its way into both stores."""

    def __init__(
        self,
        running: Database,
        index: VectorIndex | None,
        tenant: TenantId,
        forest: ForestId,
        owner: str,
        new_id: Callable[[], NodeId],
    ) -> None:
        self._engine = running.owner
        self._tenant = tenant
        self._index = index
        self._forest = forest
        self._owner = owner
        self._new_id = new_id
        self._rows = Copies(tenant)
        self._points: list[Point] = []
        self._below: dict[PayloadId, Child] = {}
        self._scopes: dict[TreeId, Scope] = {}
        self._scenes: dict[str, Scope] = {}
        self._people: set[str] = set()
        self._speakers = People(self._owner, ())
        self._now = datetime.now().astimezone()

    def session(self, name: str, said: Sequence[Said]) -> None:
        """Accept, extract and place one session: its cells, and one fact a turn."""
        session = session_id(self._forest, name)
        cells = cut_cells([one.turn for one in said], 0, Cutting())
        began = said[0].turn.occurred_at
        self._rows.add("session", session, self._forest, name, "UTC", began, len(said), len(cells))
        for speaker in {one.turn.name for one in said} - self._people:
            self._people.add(speaker)
            self._speakers = People(self._owner, [(name, name) for name in sorted(self._people)])
            self._rows.add("speaker", self._forest, speaker, speaker)
        for one in said:
            turn = one.turn
            self._rows.add(
                "turn",
                session,
                turn.ordinal,
                turn.id,
                turn.role.value,
                turn.content,
                turn.occurred_at,
                True,
                turn.speaker_id,
                turn.name,
            )
        tree = self._scope(TreeKind.SESSION, str(session), name, TREES.session_k, session=session)
        for cell in cells:
            self._cell(tree, session, cell, said[cell.first_turn : cell.last_turn + 1])
        self._flush()

    def _cell(self, tree: Scope, session: SessionId, cell: CellCut, said: Sequence[Said]) -> None:
        id_ = cell_id(session, cell.ordinal)
        hashed = cell_hash(cell.text, cell.time_start)
        self._rows.add(
            "cell",
            id_,
            self._forest,
            session,
            cell.ordinal,
            cell.window,
            cell.first_turn,
            cell.last_turn,
            cell.text,
            hashed,
            cell.time_start,
            cell.time_end,
            True,
            "ok",
            self._now,
            self._now,
            "done",
        )
        searched = cell_text(cell.text, cell.time_start)
        meaning = unit(np.sum([one.vector for one in said], axis=0, dtype=np.float32))
        date = len(searched) - len(cell.text)
        turns = [date + start for start in turn_starts(cell.text, len(said))]
        tokens = tokens_to_bytes(token_vectors(searched), turns)
        self._rows.add("vector", self._forest, StoredVectors.model, hashed, to_half(meaning), tokens)
        below = self._payload(PayloadId(id_), cell.text, meaning, searched)
        span = micros(cell.time_start), micros(cell.time_end)
        tree.take(PayloadId(id_), Key(0, cell.first_turn, 0, id_.hex), span, session)
        self._point(
            id_,
            PointKind.CELL,
            below,
            session_id=session,
            time_start=cell.time_start.timestamp(),
            time_end=cell.time_end.timestamp(),
        )
        for item, one in enumerate(said):
            self._fact(session, id_, cell.ordinal, item, one)

    def _fact(self, session: SessionId, cell: CellId, ordinal: int, item: int, one: Said) -> None:
        statement = one.statement
        id_, normalized = identify(self._forest, statement)
        fact = Fact(id_, statement, normalized, ordinal, item)
        start, end = fact_span(fact)
        key = Key(start, ordinal, item, id_.hex)
        payload = PayloadId(id_)
        document, hashed = json.dumps(to_document(statement)), text_hash(statement.text)
        turns = [one.turn.ordinal]
        self._rows.add("candidate", cell, item, turns, one.turn.content, document, hashed, hashed)
        self._rows.add(
            "fact",
            id_,
            self._forest,
            statement.text,
            normalized,
            hashed,
            statement.time.start,
            statement.time.end,
            statement.mentioned_at,
            normalize_name(statement.subject),
            statement.attribute,
            document,
            start,
            ordinal,
            item,
        )
        self._rows.add("occurrence", cell, item, id_, session, turns)
        searched = fact_terms_text(statement.text, statement.speaker, statement.mentioned_at)
        below = self._payload(payload, statement.text, one.vector, searched)
        self._point(id_, PointKind.FACT, below, time_start=start / 1e6, time_end=end / 1e6)
        for about in entity_scopes(statement, self._speakers):
            entity = self._scope(TreeKind.ENTITY, about.key, about.label, TREES.entity_k, always=False)
            entity.always |= about.person is not None
            entity.take(payload, key, (start, end), session)
        self._scene(statement.domain).take(payload, key, (start, end), session)

    def _payload(self, id_: PayloadId, text: str, meaning: Vectors, searched: str) -> Child:
        below = Child(text, meaning, count_terms(searched), 1)
        self._below[id_] = below
        return below

    def _scope(
        self, kind: TreeKind, key: str, label: str, k: int, *, session: SessionId | None = None, always: bool = True
    ) -> Scope:
        id_ = tree_id(self._forest, kind, key)
        return self._scopes.setdefault(id_, Scope(id_, kind, key, label, k, session, always=always))

    def _scene(self, domain: str) -> Scope:
        """The open scene of a domain: a full one is followed by another."""
        scene = self._scenes.get(domain)
        if scene is None or len(scene.leaves) >= REDUCE.scene_cap:
            id_ = tree_id(self._forest, TreeKind.SCENE, str(len(self._scopes)))
            scene = Scope(id_, TreeKind.SCENE, str(id_), domain, TREES.scene_k, domain=domain, always=True)
            self._scopes[id_] = self._scenes[domain] = scene
        return scene

    def write(self) -> None:
        """Build the trees with their summaries, and write everything."""
        for scope in self._scopes.values():
            diff = None
            if scope.active:
                diff = build(
                    tree_id=scope.id,
                    k=scope.k,
                    root_id=self._new_id(),
                    leaves=scope.leaves.values(),
                    new_id=self._new_id,
                )
            self._tree(scope, diff)
            for payload, session in () if diff else scope.sessions.items():
                self._rows.add("placement", scope.id, payload, session)
            self._flush()
        self._flush(all_=True)

    def _flush(self, *, all_: bool = False) -> None:
        """Write what has gathered, so that a large forest fits into memory."""
        if all_ or self._rows.waiting >= ROWS_AT_ONCE:
            self._rows.write(self._engine)
        if self._index is not None and (all_ or len(self._points) >= ROWS_AT_ONCE):
            for at in range(0, len(self._points), POINTS_AT_ONCE):
                self._index.upsert(self._points[at : at + POINTS_AT_ONCE])
            self._points.clear()

    def _tree(self, scope: Scope, diff: Diff | None) -> None:
        scene = scope.kind is TreeKind.SCENE
        spans = [at for leaf in scope.leaves.values() for at in (leaf.time_start, leaf.time_end) if at is not None]
        pooled: Vectors = np.sum([self._below[payload].pooled for payload in scope.leaves], axis=0, dtype=np.float32)
        self._rows.add(
            "tree",
            scope.id,
            self._forest,
            scope.kind.value,
            scope.key,
            scope.label,
            "active" if diff else "candidate",
            scope.k,
            diff.head.root_id if diff else None,
            diff.head.height if diff else 0,
            diff.head.leaf_count if diff else 0,
            scope.session,
            scope.domain,
            to_bytes(pooled) if scene else None,
            from_micros(min(spans)) if scene else None,
            from_micros(max(spans)) if scene else None,
            1 if diff else 0,
            self._now if diff else None,
        )
        children: dict[NodeId, list[Node]] = defaultdict(list)
        made: dict[NodeId, Child] = {}
        # From the leaves up: what is below is known.
        for node in sorted(diff.inserted if diff else (), key=lambda node: node.level):
            self._node(replace(node, clean_version=node.version))
            if node.payload_id is not None:
                made[node.id] = self._below[node.payload_id]
            else:
                below = [made[child.id] for child in sorted(children[node.id], key=order)]
                made[node.id] = self._summary(scope, node, below)
            if node.parent_id is not None:
                children[node.parent_id].append(node)

    def _node(self, node: Node) -> None:
        key = node.key or LOWEST
        self._rows.add(
            "node",
            node.id,
            node.tree_id,
            node.parent_id,
            node.level,
            *key,
            node.time_start,
            node.time_end,
            node.leaf_count,
            node.version,
            node.clean_version,
            node.payload_id,
        )

    def _summary(self, scope: Scope, node: Node, below: Sequence[Child]) -> Child:
        """As refresh without a model: joined while it fits, else extracted; vectors and terms pooled."""
        texts = [child.text for child in below]
        if len(texts) == 1:
            text, source = texts[0], SummarySource.PASSED
        elif len(joined := "\n".join(texts)) <= BUDGET:
            text, source = joined, SummarySource.JOINED
        else:
            text, source = summarize(texts, BUDGET), SummarySource.EXTRACTIVE
        pooled = unit(np.sum([child.pooled * np.float32(child.leaves) for child in below], axis=0, dtype=np.float32))
        counts = add_counts(child.counts for child in below)
        made = Child(text, pooled, counts, node.leaf_count)
        self._rows.add(
            "node_summary",
            node.id,
            text,
            source.value,
            OFFLINE_MODEL,
            input_hash(OFFLINE_MODEL, BUDGET, texts),
            node.version,
            to_half(pooled),
            StoredVectors.model,
            None,
            pack_counts(counts),
        )
        start, end = (at / 1e6 if at is not None else None for at in (node.time_start, node.time_end))
        self._point(
            node.id,
            PointKind.NODE,
            made,
            tree_id=scope.id,
            tree_kind=scope.kind.value,
            level=node.level,
            is_root=node.parent_id is None,
            session_id=scope.session,
            time_start=start,
            time_end=end,
        )
        return made

    def _point(self, id_: UUID, kind: PointKind, below: Child, **where: Any) -> None:
        self._rows.add("index_row", id_, self._forest, kind.value, 1, 1, "done")
        if self._index is None:
            return
        sparse = SparseVector(*bm25_weights(below.counts, below.leaves))
        self._points.append(Point(id_, self._tenant, self._forest, kind, 1, below.pooled, sparse, **where))


def fill(
    running: Database,
    index: VectorIndex | None,
    world: World,
    owner: str,
    facts: int,
    seed: int,
    tenant: TenantId = TENANT,
) -> list[Said]:
    """Fill a new forest with ``facts`` facts, one said in each turn; what was said. Without an index only Postgres.

    Of the vectors of texts only those of cells are there, for their token vectors: others are for refresh and the
    index, and recall never reads them.
    """
    new_id = seeded_ids(random.Random(seed))
    forest = ForestId(new_id())
    with AcceptRows.opened(running.service, tenant) as rows:
        rows.ensure_forest(owner, forest, "UTC")
    filler = Filler(running, index, tenant, forest, owner, new_id)
    everything: list[Said] = []
    for name, said in sessions(world, owner, facts):
        filler.session(name, said)
        everything.extend(said)
    filler.write()
    return everything
