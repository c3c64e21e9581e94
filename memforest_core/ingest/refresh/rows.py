"""Refresh's statements: ready nodes are claimed with SKIP LOCKED, and older summaries never replace newer ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC
from typing import Any
from uuid import UUID, uuid4

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from memforest_core.domain.ids import ForestId, LeaseToken, NodeId, TenantId, TreeId, WorkerId
from memforest_core.domain.indexed import (
    TermCounts,
    cell_text,
    count_terms,
    fact_terms_text,
    pack_counts,
    unpack_counts,
)
from memforest_core.index.records import PointLease
from memforest_core.index.rows import want_indexed_in
from memforest_core.ingest.refresh.records import (
    ChildText,
    NodeArtifact,
    ReadyNode,
    StoredSummary,
    SummarySource,
    Title,
    TitleSource,
)
from memforest_core.store import tables as m
from memforest_core.store.owners import lock_forests
from memforest_core.store.repeating import repeated
from memforest_core.store.rows import among, record_of, seconds_from_now
from memforest_core.store.trees import lock_nodes, lock_trees, with_ancestors
from memforest_core.store.vectors import VectorRows, from_bytes, pooled_half, text_hash, to_half

MAX_CHILD_CHARS = 1_200
"""A leaf's text as its parent's summary sees it."""

# Whether a node is ready depends on its children. A statement sees them as they were when it began, but locks the node
# as it is now: a writer that commits in between raises the version of both. So candidates are locked first, and
# ``_LEASE``, whose snapshot is newer than the locks, decides again and reads the version. No writer makes a child dirty
# without raising the version of its parent, for which it waits now.
_STALE = """EXISTS (SELECT 1 FROM memforest.node child WHERE child.tenant_id = :t AND child.parent_id = n.node_id
                       AND child.version > child.clean_version AND NOT child.dead)"""

_OURS = "(r.title IS NULL OR r.title_source IN ('model', 'terms', 'degraded'))"
"""Whether refresh makes a tree's title."""

_OVERDUE = "r.first_mark_at < clock_timestamp() - make_interval(secs => 2 * :stale)"

_CLAIM = sa.text(f"""
    SELECT n.node_id
      FROM memforest.tree r
      JOIN memforest.node n ON n.tenant_id = :t AND n.tree_id = r.tree_id
     WHERE r.tenant_id = :t AND r.due_at <= clock_timestamp() AND n.version > n.clean_version
       AND n.lease_token IS NULL AND NOT n.dead AND n.available_at <= clock_timestamp()
       AND n.attempts BETWEEN :tried AND :most AND ({_OVERDUE} OR NOT {_STALE})
     ORDER BY n.level, r.due_at LIMIT :n FOR NO KEY UPDATE OF n SKIP LOCKED
    """)  # noqa: S608 - constants of this module

_LEASE = sa.text(f"""
    UPDATE memforest.node n
       SET lease_token = :token, worker_id = :worker, attempts = least(n.attempts + 1, 1000),
           lease_until = clock_timestamp() + make_interval(secs => :lease)
      FROM memforest.tree r
     WHERE n.tenant_id = :t AND n.node_id = ANY(CAST(:ids AS uuid[])) AND r.tenant_id = :t AND r.tree_id = n.tree_id
       AND r.due_at <= clock_timestamp() AND ({_OVERDUE} OR NOT {_STALE})
    RETURNING n.node_id AS id, n.tree_id, r.forest_id, r.kind, r.label, n.level, n.version, n.attempts,
              {_STALE} AS stale, r.kind = 'scene' AND r.root_id = n.node_id AND {_OURS} AS titled,
              r.title, r.title_size, r.title_source,
              (SELECT s.trace FROM memforest.session s WHERE s.tenant_id = :t AND s.session_id = r.session_id) AS trace
    """)  # noqa: S608 - constants of this module

# Only the version decides: a summary whose children were read before a deletion or a newer save is dropped. A summary
# made from stale children stays one version behind, so that its node stays dirty.
_SAVE = sa.text("""
    UPDATE memforest.node n
       SET clean_version = greatest(n.clean_version, u.version - u.behind), lease_token = NULL, lease_until = NULL,
           worker_id = NULL, attempts = 0, lost_leases = 0, error_code = NULL, error_text = NULL
      FROM unnest(CAST(:ids AS uuid[]), CAST(:versions AS bigint[]), CAST(:behind AS int[])) AS u(id, version, behind)
     WHERE n.tenant_id = :t AND n.node_id = u.id AND n.lease_token = :token
       AND u.version > n.clean_version AND u.version > n.erased_version
    RETURNING n.node_id
    """)

_PUT_SUMMARIES = sa.text("""
    INSERT INTO memforest.node_summary AS s (tenant_id, node_id, text, source, model, input_hash, version, vector,
                vector_model, pooled, terms)
    SELECT :t, u.node, u.text, u.source, u.model, u.hash, u.version, u.vector, :vector_model, u.pooled, u.terms
      FROM unnest(CAST(:nodes AS uuid[]), CAST(:texts AS text[]), CAST(:sources AS text[]), CAST(:models AS text[]),
                  CAST(:hashes AS bytea[]), CAST(:versions AS bigint[]), CAST(:vectors AS bytea[]),
                  CAST(:pooled AS bytea[]), CAST(:terms AS bytea[]))
           AS u(node, text, source, model, hash, version, vector, pooled, terms)
    ON CONFLICT (tenant_id, node_id) DO UPDATE
       SET text = excluded.text, source = excluded.source, model = excluded.model, input_hash = excluded.input_hash,
           version = excluded.version, vector = excluded.vector, vector_model = excluded.vector_model,
           pooled = excluded.pooled, terms = excluded.terms, redo_at = NULL, created_at = clock_timestamp()
    """)

_SETTLE = sa.text("""
    UPDATE memforest.tree r SET due_at = NULL, first_mark_at = NULL
      FROM unnest(CAST(:trees AS uuid[]), CAST(:marks AS bigint[])) AS u(tree, marks)
     WHERE r.tenant_id = :t AND r.tree_id = u.tree AND r.marks = u.marks
       AND NOT EXISTS (SELECT 1 FROM memforest.node n WHERE n.tenant_id = :t AND n.tree_id = r.tree_id
                          AND n.version > n.clean_version AND NOT n.dead)
    RETURNING r.tree_id
    """)

_IDLE = sa.text("""
    SELECT r.tree_id FROM memforest.tree r
     WHERE r.tenant_id = :t AND r.due_at <= clock_timestamp()
       AND NOT EXISTS (SELECT 1 FROM memforest.node n WHERE n.tenant_id = :t AND n.tree_id = r.tree_id
                          AND n.version > n.clean_version AND NOT n.dead)
     ORDER BY r.due_at LIMIT :n
    """)

_REDO_PICK = sa.text("""
    SELECT s.node_id, n.tree_id, r.forest_id FROM memforest.node_summary s
      JOIN memforest.node n ON n.tenant_id = :t AND n.node_id = s.node_id
      JOIN memforest.tree r ON r.tenant_id = :t AND r.tree_id = n.tree_id
     WHERE s.tenant_id = :t AND s.redo_at <= clock_timestamp() ORDER BY s.redo_at LIMIT :n
    """)

_MARK_TREES = sa.text("""
    UPDATE memforest.tree SET marks = marks + 1, last_mark_at = now(),
           first_mark_at = coalesce(first_mark_at, now()), due_at = now()
     WHERE tenant_id = :t AND tree_id = ANY(CAST(:trees AS uuid[]))
    """)


# In the order of an index, so that a forest of many scenes costs no more than one of few.
_OTHER_SCENES = sa.text("""
    SELECT f.id AS forest_id, s.terms
      FROM unnest(CAST(:forests AS uuid[])) AS f(id)
     CROSS JOIN LATERAL (
           SELECT r.root_id FROM memforest.tree r
            WHERE r.tenant_id = :t AND r.forest_id = f.id AND r.kind = 'scene' AND r.root_id IS NOT NULL
            ORDER BY r.scope_key LIMIT :n) r
      JOIN memforest.node_summary s ON s.tenant_id = :t AND s.node_id = r.root_id
    """)

# As a summary: words that were read before a deletion are not saved.
_TITLE = sa.text(f"""
    UPDATE memforest.tree r SET title = u.title, title_size = u.size, title_source = u.source
      FROM memforest.node n
      JOIN unnest(CAST(:trees AS uuid[]), CAST(:nodes AS uuid[]), CAST(:versions AS bigint[]), CAST(:titles AS text[]),
                  CAST(:sizes AS int[]), CAST(:sources AS text[])) AS u(tree, node, version, title, size, source)
        ON n.node_id = u.node
     WHERE n.tenant_id = :t AND r.tenant_id = :t AND r.tree_id = u.tree AND r.root_id = n.node_id
       AND n.erased_version < u.version AND {_OURS}
    """)  # noqa: S608 - a constant of this module


_POOLED = sa.func.coalesce(m.NodeSummary.pooled, m.NodeSummary.vector).label("pooled")

_RELEASED: dict[str, Any] = {"attempts": sa.func.greatest(m.NodeRow.attempts - 1, 0)}
"""A try that does not count."""


class RefreshRows(VectorRows):
    """Rows of one refreshing transaction."""

    def claim_ready(
        self, worker: WorkerId, limit: int, lease_s: float, stale_s: float
    ) -> tuple[LeaseToken, list[ReadyNode]]:
        """Take nodes of due trees that are dirty and have no dirty child, the lowest level first. Their inputs are read
        in a transaction of their own: until the end of this one writers of their trees wait. A node whose refresh has
        failed before comes alone. In a tree first marked more than twice ``stale_s`` ago, dirty children do not hold a
        node back."""
        token = LeaseToken(uuid4())
        leased = {"token": token, "worker": worker, "lease": lease_s}
        rows = self._lease(leased | {"stale": stale_s, "n": limit, "tried": 0, "most": 0})
        if not rows:
            # A node that failed before is refreshed alone, so that it fails alone.
            rows = self._lease(leased | {"stale": stale_s, "n": 1, "tried": 1, "most": 1_000})
        return token, [record_of(ReadyNode, row, title=_title(row) if row.titled else None) for row in rows]

    def _lease(self, values: dict[str, Any]) -> Sequence[sa.Row[*tuple[Any, ...]]]:
        """Lock candidates, then lease those that are ready still."""
        ids = self._run(_CLAIM, **values).scalars().all()
        return self._run(_LEASE, ids=ids, **values).all() if ids else []

    def children_of(self, parents: Sequence[UUID], model: str) -> dict[UUID, list[ChildText]]:
        """Children in key order; leaves bring their payload's text and vector, nodes their own."""
        n, s = m.NodeRow, m.NodeSummary
        nodes = self._db.execute(
            sa.select(n.parent_id, n.leaf_count, n.payload_id, s.text_, s.terms, _POOLED)
            .outerjoin(s, sa.and_(s.tenant_id == self._tenant, s.node_id == n.node_id))
            .where(n.tenant_id == self._tenant, among(n.parent_id, parents))
            .order_by(n.parent_id, n.key_time, n.key_ordinal, n.key_item, n.key_id)
        ).all()
        payloads = self._payloads([row.payload_id for row in nodes if row.payload_id], model)
        children: dict[UUID, list[ChildText]] = defaultdict(list)
        for row in nodes:
            if row.payload_id is not None:
                if row.payload_id in payloads:
                    children[row.parent_id].append(payloads[row.payload_id])
            elif row.terms is not None:
                pooled, counts = from_bytes(row.pooled), unpack_counts(row.terms)
                children[row.parent_id].append(ChildText(row.text, pooled, counts, row.leaf_count))
        return children

    def _payloads(self, ids: Sequence[UUID], model: str) -> dict[UUID, ChildText]:
        """Leaf payloads: a cell's own summary (or its dialogue), a fact's sentence; superseded facts are left out."""
        if not ids:
            return {}
        drafts: dict[UUID, tuple[ForestId, str, str, str]] = {}
        c = m.Cell
        cells = sa.select(c.cell_id, c.forest_id, c.text, c.summary, c.time_start)
        for cell in self._db.execute(cells.where(c.tenant_id == self._tenant, among(c.cell_id, ids))):
            indexed = cell_text(cell.text, cell.time_start.astimezone(UTC))
            shown = (cell.summary or cell.text)[:MAX_CHILD_CHARS]
            drafts[cell.cell_id] = (ForestId(cell.forest_id), shown, indexed, indexed)
        x = m.FactRow
        speaker = x.statement["speaker"].astext.label("speaker")
        found = sa.select(x.fact_id, x.forest_id, x.text, x.mentioned_at, speaker)
        current = found.where(x.tenant_id == self._tenant, among(x.fact_id, ids), x.superseded_at.is_(None))
        for fact in self._db.execute(current):
            searched = fact_terms_text(fact.text, fact.speaker, fact.mentioned_at.astimezone(UTC))
            drafts[fact.fact_id] = (ForestId(fact.forest_id), fact.text[:MAX_CHILD_CHARS], fact.text, searched)
        vectors = self.vectors_by_hash(model, [(forest, text_hash(text)) for forest, _, text, _ in drafts.values()])
        return {
            id_: ChildText(shown, vectors.get((forest, text_hash(embedded))), count_terms(searched), 1, embedded)
            for id_, (forest, shown, embedded, searched) in drafts.items()
        }

    def stored_summaries(self, nodes: Sequence[NodeId]) -> dict[UUID, StoredSummary]:
        s = m.NodeSummary
        own = (s.tenant_id == self._tenant, among(s.node_id, nodes))
        found = self._db.execute(sa.select(s.node_id, s.input_hash, s.text_, s.source).where(*own))
        return {row[0]: StoredSummary(bytes(row[1]), row[2], SummarySource(row[3])) for row in found}

    def paid_summaries(self, hashes: Sequence[bytes]) -> dict[bytes, str]:
        """Summaries already made from the same inputs."""
        paid = m.Summary
        own = (paid.tenant_id == self._tenant, among(paid.input_hash, hashes))
        found = sa.select(paid.input_hash, paid.text).where(*own)
        return {bytes(row.input_hash): row.text for row in self._db.execute(found)}

    def save(
        self,
        token: LeaseToken,
        artifacts: Sequence[NodeArtifact],
        vector_model: str,
        redo_after_s: float,
        lease: PointLease | None = None,
    ) -> Sequence[NodeArtifact]:
        """Keep what is newer than what each node has, end the leases, and mark the nodes for indexing, under a
        ``lease`` if the caller indexes them. Waits for a node that another transaction has locked only if it is the
        only one given: else the node is returned with its lease, to be saved in a transaction of its own."""
        own = self._take(token, [artifact.node.id for artifact in artifacts], wait=len(artifacts) == 1)
        ordered = sorted((each for each in artifacts if each.node.id in own), key=lambda each: str(each.node.id))
        newer = set(
            self._run(
                _SAVE,
                token=token,
                ids=[artifact.node.id for artifact in ordered],
                versions=[artifact.node.version for artifact in ordered],
                behind=[1 if artifact.node.stale else 0 for artifact in ordered],
            ).scalars()
        )
        saved = [artifact for artifact in ordered if artifact.node.id in newer]
        self._let_go([node for node in own if node not in newer], _RELEASED | {"available_at": seconds_from_now(0.0)})
        if saved:
            self._write_summaries(saved, vector_model, redo_after_s)
            forests = {each.node.id: each.node.forest_id for each in saved}
            want_indexed_in(self._db, self._tenant, forests, "node", lease=lease)
        left = self._under(token, [artifact.node.id for artifact in artifacts])
        return [artifact for artifact in artifacts if artifact.node.id in left]

    def _write_summaries(self, saved: Sequence[NodeArtifact], vector_model: str, redo_after_s: float) -> None:
        self._run(
            _PUT_SUMMARIES,
            nodes=[artifact.node.id for artifact in saved],
            texts=[artifact.text for artifact in saved],
            sources=[artifact.source.value for artifact in saved],
            models=[artifact.model for artifact in saved],
            hashes=[artifact.input_hash for artifact in saved],
            versions=[artifact.node.version for artifact in saved],
            vectors=[to_half(artifact.vector) for artifact in saved],
            pooled=[pooled_half(artifact.pooled, artifact.vector) for artifact in saved],
            terms=[pack_counts(artifact.counts) for artifact in saved],
            vector_model=vector_model,
        )
        degraded = [a.node.id for a in saved if a.source is SummarySource.DEGRADED or _is_missed(a.title)]
        if degraded:
            s = m.NodeSummary
            later = sa.update(s).where(s.tenant_id == self._tenant, among(s.node_id, degraded))
            self._db.execute(later.values(redo_at=seconds_from_now(redo_after_s)))
        paid = sorted((each.paid, each.node.forest_id, each.node.tree_id) for each in saved if each.paid is not None)
        if paid:
            self._db.execute(
                insert(m.Summary).on_conflict_do_nothing(),
                [
                    {"tenant_id": self._tenant, "input_hash": key, "text": text, "forest_id": forest, "tree_id": tree}
                    for (key, text), forest, tree in paid
                ],
            )

    def release(self, token: LeaseToken, nodes: Sequence[NodeId], delay_s: float) -> Collection[NodeId]:
        """Give nodes that are still under this lease back for a later try, which they did not fail. Returns those that
        other transactions have locked: for a single one this waits."""
        return self._give_back(token, nodes, _RELEASED | {"available_at": seconds_from_now(delay_s)})

    def fail(
        self, token: LeaseToken, nodes: Sequence[NodeId], max_attempts: int, delay_s: float, code: str, text: str
    ) -> Collection[NodeId]:
        """Give nodes that are still under this lease back as failed; after so many attempts they are dead, and those
        above them are made without their text. Returns as ``release``."""
        dead = m.NodeRow.attempts >= max_attempts
        values = {"available_at": seconds_from_now(delay_s), "dead": dead, "error_code": code, "error_text": text}
        return self._give_back(token, nodes, values)

    def _give_back(self, token: LeaseToken, nodes: Sequence[NodeId], values: Mapping[str, Any]) -> Collection[NodeId]:
        self._let_go(self._take(token, nodes, wait=len(nodes) == 1), values)
        return self._under(token, nodes)

    def _under(self, token: LeaseToken, nodes: Sequence[NodeId]) -> Collection[NodeId]:
        """Those of the nodes that are under this lease, which no index knows."""
        n = m.NodeRow
        held = (n.tenant_id == self._tenant, among(n.node_id, nodes), n.lease_token == token)
        return {NodeId(id_) for id_ in self._db.scalars(sa.select(n.node_id).where(*held))}

    def _take(self, token: LeaseToken, nodes: Sequence[NodeId], *, wait: bool) -> set[NodeId]:
        """Lock those of the nodes that are under this lease and, unless it may ``wait``, not locked otherwise."""
        n = m.NodeRow
        held = (n.tenant_id == self._tenant, among(n.node_id, nodes), n.lease_token == token)
        own = sa.select(n.node_id).where(*held).order_by(n.node_id)
        locked = self._db.scalars(own.with_for_update(key_share=True, skip_locked=not wait))
        return {NodeId(id_) for id_ in locked}

    def _let_go(self, nodes: Collection[NodeId], values: Mapping[str, Any]) -> None:
        """End the lease of nodes that are locked."""
        if nodes:
            n = m.NodeRow
            change = sa.update(n).where(n.tenant_id == self._tenant, among(n.node_id, nodes))
            self._db.execute(change.values(lease_token=None, lease_until=None, worker_id=None, **values))

    def settle(self, trees: Sequence[TreeId]) -> list[float]:
        """Trees without dirty nodes are no longer due, called after the saves were committed; for each how many seconds
        ago it was first marked."""
        # The marks are read first: a writer that marks the tree in between changes them, and the tree stays due.
        r = m.Tree
        age = sa.func.extract("epoch", sa.func.clock_timestamp() - r.first_mark_at).label("age")
        found = sa.select(r.tree_id, r.marks, age).where(r.tenant_id == self._tenant, among(r.tree_id, trees))
        seen = self._db.execute(found.order_by(r.tree_id)).all()
        # A tree that is being marked now stays due, and is settled after its next node, or as an idle one.
        held = lock_trees(self._db, self._tenant, [row.tree_id for row in seen], wait=False)
        mine = [row for row in seen if row.tree_id in held]
        settling = self._run(_SETTLE, trees=[row.tree_id for row in mine], marks=[row.marks for row in mine])
        settled = set(settling.scalars())
        return [float(row.age) for row in seen if row.tree_id in settled and row.age is not None]

    def settle_idle(self, limit: int) -> list[float]:
        """Settle due trees without dirty nodes, which a worker that died between saving and settling left behind."""
        idle = [TreeId(tree) for tree in self._run(_IDLE, n=limit).scalars()]
        return self.settle(idle) if idle else []

    def terms_of_scenes(self, forests: Collection[ForestId], limit: int) -> dict[ForestId, list[TermCounts]]:
        """The terms of at most ``limit`` scenes of each forest."""
        found: dict[ForestId, list[TermCounts]] = defaultdict(list)
        for row in self._run(_OTHER_SCENES, forests=sorted(forests), n=limit) if forests else ():
            found[ForestId(row.forest_id)].append(unpack_counts(row.terms))
        return found

    def put_titles(self, titles: Sequence[tuple[ReadyNode, Title]]) -> list[tuple[ReadyNode, Title]]:
        """Give scenes titles, where nothing was deleted since the texts that these were made from were read. Waits for
        a scene that another transaction has locked only if it is the only one given: others are returned."""
        # Locked first: the next statement then sees what their last writers left.
        held = lock_trees(self._db, self._tenant, [node.tree_id for node, _ in titles], wait=len(titles) == 1)
        mine = [(node, title) for node, title in titles if node.tree_id in held]
        self._run(
            _TITLE,
            trees=[node.tree_id for node, _ in mine],
            nodes=[node.id for node, _ in mine],
            versions=[node.version for node, _ in mine],
            titles=[title.text for _, title in mine],
            sizes=[title.size for _, title in mine],
            sources=[title.source.value for _, title in mine],
        )
        return [each for each in titles if each[0].tree_id not in held]

    def redo(self, limit: int) -> int:
        """Mark nodes with a degraded summary, whose time has come, dirty again; how many."""
        rows = self._run(_REDO_PICK, n=limit).all()
        held = lock_forests(self._db, self._tenant, list({ForestId(row.forest_id) for row in rows}), wait=False)
        mine = [row for row in rows if row.forest_id in held]
        if not mine:
            return 0
        ids = [row.node_id for row in mine]
        paths = [NodeId(row.node_id) for row in with_ancestors(self._db, self._tenant, ids)]
        lock_nodes(self._db, self._tenant, paths)
        n, s = m.NodeRow, m.NodeSummary
        above = sa.update(n).where(n.tenant_id == self._tenant, among(n.node_id, paths))
        self._db.execute(above.values(version=n.version + 1))
        trees = [TreeId(row.tree_id) for row in mine]
        lock_trees(self._db, self._tenant, trees)
        self._run(_MARK_TREES, trees=trees)
        done = sa.update(s).where(s.tenant_id == self._tenant, among(s.node_id, ids))
        self._db.execute(done.values(redo_at=None))
        return len(mine)


def _title(row: sa.Row[*tuple[Any, ...]]) -> Title | None:
    return None if row.title is None else Title(row.title, row.title_size or 0, TitleSource(row.title_source))


def _is_missed(title: Title | None) -> bool:
    """Whether the model was unavailable when this title was made."""
    return title is not None and title.source is TitleSource.DEGRADED and title.size == 0


@repeated
def redo(engine: sa.Engine, tenant: TenantId, limit: int) -> int:
    """Mark a tenant's nodes with a degraded summary, whose time has come, dirty again; returns how many."""
    with RefreshRows.opened(engine, tenant) as rows:
        return rows.redo(limit)
