"""Dead letters in Postgres: seen through partial indexes, changed in sets, and only while they are still dead."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy import exc

from memforest_core.domain.ids import ForestId, NodeId, TreeId
from memforest_core.errors import StoreUnavailable
from memforest_core.store import tables as m
from memforest_core.store.owners import NO_OWNER, forest_id, known, lock_forests
from memforest_core.store.rows import TenantRows, record_of
from memforest_core.store.trees import lock_nodes, lock_trees
from memforest_core.store.vectors import VectorRows
from memforest_core.work.jobs import WorkState
from memforest_core.work.records import Acted, DeadDetail, DeadKind, DeadLetter, DeadRef
from memforest_core.work.rows.operation_rows import take_turn

_TRIES = 3
"""How often to try when an equal operation is requested at the same time."""

# What the reducer gave up was extracted and is not in the trees.
_REDUCED = "(c.extracted_at IS NOT NULL AND NOT c.placed)"

# What the model alone could not read: it is in the trees word by word, and tried again by itself.
_WORD_BY_WORD = """(c.state = 'done' AND c.placed AND c.retry_at IS NOT NULL AND c.outcome = 'verbatim'
       AND c.error_code IN ('model_unavailable', 'model_timeout', 'model_rejected', 'model_auth_failed'))"""

_GIVEN_UP = f"(c.state = 'dead' OR {_WORD_BY_WORD})"

_DEAD = f"""
    SELECT 'cell' AS kind, c.cell_id AS id, CASE WHEN {_REDUCED} THEN 'reduce' ELSE 'extract' END AS step,
           f.owner, s.external_id AS session, coalesce(c.error_code, '') AS code,
           coalesce(c.error_text, '') AS text, c.attempts, c.lost_leases,
           least(clock_timestamp(), greatest(c.available_at, c.extracted_at)) AS since
      FROM memforest.cell c
      JOIN memforest.forest f ON f.tenant_id = :t AND f.forest_id = c.forest_id
      JOIN memforest.session s ON s.tenant_id = :t AND s.session_id = c.session_id
     WHERE c.tenant_id = :t AND {_GIVEN_UP}
    UNION ALL
    SELECT 'node', n.node_id, 'refresh', f.owner, s.external_id, coalesce(n.error_code, ''),
           coalesce(n.error_text, ''), n.attempts, n.lost_leases,
           least(clock_timestamp(), n.available_at)
      FROM memforest.node n
      JOIN memforest.tree r ON r.tenant_id = :t AND r.tree_id = n.tree_id
      JOIN memforest.forest f ON f.tenant_id = :t AND f.forest_id = r.forest_id
      LEFT JOIN memforest.session s ON s.tenant_id = :t AND s.session_id = r.session_id
     WHERE n.tenant_id = :t AND n.dead
    UNION ALL
    SELECT 'task', k.task_id, k.kind, f.owner, NULL, coalesce(k.error_code, ''),
           coalesce(k.error_text, ''), k.attempts, k.lost_leases, k.finished_at
      FROM memforest.maintenance k
      LEFT JOIN memforest.forest f ON f.tenant_id = :t AND f.forest_id = k.forest_id
     WHERE k.tenant_id = :t AND k.state = 'dead'"""  # noqa: S608 - a constant of this module

_MEANT = """kind = ANY(CAST(:kinds AS text[])) AND (CAST(:owner AS text) IS NULL OR owner = :owner)
       AND (CAST(:code AS text) IS NULL OR code = :code)"""

_LIST = sa.text(
    f"SELECT * FROM ({_DEAD}) d WHERE {_MEANT}"  # noqa: S608 - constants of this module
    " ORDER BY kind, owner NULLS LAST, session NULLS LAST, since, id LIMIT CAST(:n AS bigint)"
)

_ONE = sa.text(f"SELECT * FROM ({_DEAD}) d WHERE kind = :kind AND id = :id")  # noqa: S608 - the same

_STARTING = sa.text(f"""
    SELECT kind, id FROM (
        SELECT 'cell' AS kind, cell_id AS id FROM memforest.cell c WHERE tenant_id = :t AND {_GIVEN_UP}
        UNION ALL SELECT 'node', node_id FROM memforest.node WHERE tenant_id = :t AND dead
        UNION ALL SELECT 'task', task_id FROM memforest.maintenance WHERE tenant_id = :t AND state = 'dead') d
     WHERE replace(id::text, '-', '') LIKE ANY (CAST(:patterns AS text[])) ORDER BY id
    """)  # noqa: S608 - constants of this module

_ABOUT = {
    DeadKind.CELL: sa.text("""
        SELECT c.session_id, c.ordinal AS cell, c.first_turn, c.last_turn, c.window_ordinal AS window, c.lane,
               length(c.text) AS characters, c.agains,
               (SELECT count(*) FROM memforest.candidate k
                 WHERE k.tenant_id = :t AND k.cell_id = c.cell_id) AS candidates
          FROM memforest.cell c WHERE c.tenant_id = :t AND c.cell_id = :id
        """),
    DeadKind.NODE: sa.text("""
        SELECT n.tree_id, r.kind AS tree_kind, n.level, n.leaf_count AS leaves, n.version, n.clean_version,
               coalesce(s.source, 'none') AS summary,
               (SELECT count(*) FROM memforest.node child
                 WHERE child.tenant_id = :t AND child.parent_id = n.node_id) AS children
          FROM memforest.node n JOIN memforest.tree r ON r.tenant_id = :t AND r.tree_id = n.tree_id
          LEFT JOIN memforest.node_summary s ON s.tenant_id = :t AND s.node_id = n.node_id
         WHERE n.tenant_id = :t AND n.node_id = :id
        """),
    DeadKind.TASK: sa.text(
        "SELECT kind, subject, created_at, progress FROM memforest.maintenance WHERE tenant_id = :t AND task_id = :id"
    ),
}

_TEXTS = {
    DeadKind.CELL: sa.text("SELECT text FROM memforest.cell WHERE tenant_id = :t AND cell_id = :id"),
    DeadKind.NODE: sa.text("""
        SELECT coalesce(s.text, x.text, nullif(c.summary, ''), c.text, '') AS text
          FROM memforest.node n
          LEFT JOIN memforest.node_summary s ON s.tenant_id = :t AND s.node_id = n.node_id
          LEFT JOIN memforest.fact x ON x.tenant_id = :t AND x.fact_id = n.payload_id
          LEFT JOIN memforest.cell c ON c.tenant_id = :t AND c.cell_id = n.payload_id
         WHERE n.tenant_id = :t AND n.parent_id = :id
         ORDER BY n.key_time, n.key_ordinal, n.key_item, n.key_id
        """),
}

_FORESTS = sa.text("""
    SELECT c.forest_id FROM memforest.cell c WHERE c.tenant_id = :t AND c.cell_id = ANY(CAST(:cells AS uuid[]))
    UNION
    SELECT r.forest_id FROM memforest.node n JOIN memforest.tree r ON r.tenant_id = :t AND r.tree_id = n.tree_id
     WHERE n.tenant_id = :t AND n.node_id = ANY(CAST(:nodes AS uuid[]))
    """)

_CHOSEN = f"""
    WITH chosen AS MATERIALIZED (
        SELECT c.cell_id, c.session_id, c.ordinal, c.window_ordinal, {_REDUCED} AS reduced FROM memforest.cell c
         WHERE c.tenant_id = :t AND c.cell_id = ANY(CAST(:ids AS uuid[])) AND {_GIVEN_UP}
         ORDER BY c.cell_id FOR NO KEY UPDATE)"""  # noqa: S608 - a constant of this module

_STILL_DEAD = sa.text(f"{_CHOSEN} SELECT cell_id FROM chosen")  # noqa: S608 - a constant of this module

# A window is claimed by its first cell; without that, a cell becomes a window of its own. Its earlier outcome follows
# from its candidates.
_RETRY_CELLS = sa.text(f"""{_CHOSEN}
    UPDATE memforest.cell c
       SET state = CASE WHEN d.reduced THEN 'done' ELSE 'ready' END, attempts = 0, lost_leases = 0,
           available_at = clock_timestamp(), retry_at = NULL,
           window_ordinal = CASE WHEN d.reduced OR head.cell_id IS NOT NULL THEN c.window_ordinal ELSE c.ordinal END,
           error_code = CASE WHEN d.reduced THEN NULL ELSE c.error_code END,
           error_text = CASE WHEN d.reduced THEN NULL ELSE c.error_text END,
           outcome = CASE WHEN c.extracted_at IS NULL THEN NULL
                          WHEN said.verbatim THEN 'verbatim' WHEN said.verbatim IS NULL THEN 'empty' ELSE 'ok' END
      FROM chosen d
      LEFT JOIN chosen head ON head.session_id = d.session_id AND head.ordinal = d.window_ordinal AND NOT head.reduced
     CROSS JOIN LATERAL (
           SELECT bool_or((k.statement->>'verbatim')::boolean) AS verbatim FROM memforest.candidate k
            WHERE k.tenant_id = :t AND k.cell_id = d.cell_id AND k.item >= 0) said
     WHERE c.tenant_id = :t AND c.cell_id = d.cell_id
    RETURNING c.cell_id, c.forest_id, c.state, c.ordinal = c.window_ordinal AS head
    """)  # noqa: S608 - constants of this module

# A correction that is not in the trees is discarded: the fact that it superseded is valid again.
_RESTORE_SUPERSEDED = sa.text("""
    UPDATE memforest.fact x SET superseded_by = NULL, superseded_at = NULL
     WHERE x.tenant_id = :t AND x.superseded_by IS NOT NULL
       AND x.fact_id IN (SELECT o.fact_id FROM memforest.occurrence o
                          WHERE o.tenant_id = :t AND o.cell_id = ANY(CAST(:ids AS uuid[])))
       AND NOT EXISTS (SELECT 1 FROM memforest.fact newer
                        WHERE newer.tenant_id = :t AND newer.fact_id = x.superseded_by)
    """)

# Facts that are in the trees stay.
_DROP_CANDIDATES = sa.text("""
    DELETE FROM memforest.candidate k
     WHERE k.tenant_id = :t AND k.cell_id = ANY(CAST(:ids AS uuid[])) AND k.item >= 0
       AND NOT EXISTS (SELECT 1 FROM memforest.occurrence o
                        WHERE o.tenant_id = :t AND o.cell_id = k.cell_id AND o.item = k.item)
    RETURNING k.cell_id, k.text_hash, k.routing_hash
    """)

# Verbatim facts that a later extraction had moved aside come back.
_MOVE_BACK = sa.text("""
    UPDATE memforest.candidate SET item = -1 - item
     WHERE tenant_id = :t AND cell_id = ANY(CAST(:ids AS uuid[])) AND item < 0
    """)

_END_CELLS = sa.text("""
    UPDATE memforest.cell c
       SET state = 'done', placed = facts.placed, outcome = CASE WHEN facts.placed THEN 'verbatim' ELSE 'dead' END,
           extracted_at = coalesce(c.extracted_at, clock_timestamp()), retry_at = NULL
      FROM unnest(CAST(:ids AS uuid[])) AS d(cell_id)
     CROSS JOIN LATERAL (SELECT EXISTS (SELECT 1 FROM memforest.occurrence o
                                         WHERE o.tenant_id = :t AND o.cell_id = d.cell_id) AS placed) facts
     WHERE c.tenant_id = :t AND c.cell_id = d.cell_id
    RETURNING c.cell_id, c.forest_id, c.placed
    """)

# The summaries of a dead node's ancestors lack its text: they are refreshed again too.
_PATHS = sa.text("""
    WITH RECURSIVE path AS (
        SELECT node_id, parent_id, tree_id FROM memforest.node
         WHERE tenant_id = :t AND node_id = ANY(CAST(:ids AS uuid[])) AND dead
        UNION
        SELECT n.node_id, n.parent_id, n.tree_id FROM path CROSS JOIN LATERAL (
               SELECT * FROM memforest.node WHERE tenant_id = :t AND node_id = path.parent_id LIMIT 1) n)
    SELECT node_id, tree_id FROM path
    """)

# Of several tasks of one kind and subject only the newest is retried. None is, while such a task is unfinished, or
# another operation that would have refused it. Deletions and corrections keep their place in the order of tasks; the
# others go to its end.
_RETRY_TASKS = sa.text("""
    UPDATE memforest.maintenance SET state = 'ready', attempts = 0, lost_leases = 0, finished_at = NULL,
           available_at = clock_timestamp()
     WHERE tenant_id = :t AND state = 'dead' AND task_id IN (
        SELECT DISTINCT ON (kind, subject) task_id FROM memforest.maintenance k
         WHERE tenant_id = :t AND state = 'dead' AND task_id = ANY(CAST(:ids AS uuid[]))
           AND NOT EXISTS (SELECT 1 FROM memforest.maintenance other
                            WHERE other.tenant_id = :t AND other.kind = k.kind AND other.subject = k.subject
                              AND other.state IN ('held', 'ready', 'running'))
           AND (kind IN ('erase', 'correct') OR NOT EXISTS (
                           SELECT 1 FROM memforest.maintenance_forest mine
                             JOIN memforest.maintenance_forest theirs
                               ON theirs.tenant_id = :t AND theirs.forest_id = mine.forest_id
                             JOIN memforest.maintenance other
                               ON other.tenant_id = :t AND other.task_id = theirs.task_id
                              AND other.state IN ('held', 'ready', 'running')
                            WHERE mine.tenant_id = :t AND mine.task_id = k.task_id
                              AND memforest.operation_rule(theirs.role, mine.role) = 'refused'))
         ORDER BY kind, subject, created_at DESC)
    RETURNING task_id
    """)

_TO_THE_END = sa.text("""
    UPDATE memforest.maintenance SET sequence = DEFAULT
     WHERE tenant_id = :t AND task_id = ANY(CAST(:ids AS uuid[])) AND kind NOT IN ('erase', 'correct')
    """)

_DISCARD_TASKS = sa.text("""
    UPDATE memforest.maintenance SET state = 'done', finished_at = clock_timestamp()
     WHERE tenant_id = :t AND state = 'dead' AND kind NOT IN ('merge', 'rematerialize')
       AND task_id = ANY(CAST(:ids AS uuid[])) RETURNING task_id
    """)

# Workers undo what was half built, as after a cancel; a merge that has moved a source into a living memory can only be
# tried again.
_UNDO_TASKS = sa.text("""
    UPDATE memforest.maintenance k
       SET state = 'ready', cancelled_by = 'memforest dead discard', attempts = 0, lost_leases = 0, finished_at = NULL,
           subject = subject || ':cancelled:' || task_id, available_at = clock_timestamp()
     WHERE tenant_id = :t AND state = 'dead' AND kind IN ('merge', 'rematerialize')
       AND task_id = ANY(CAST(:ids AS uuid[]))
       AND NOT (kind = 'merge' AND progress ->> 'phase' IN ('merge', 'end') AND (progress ->> 'next')::int > 0
                AND EXISTS (SELECT 1 FROM memforest.forest f
                             WHERE f.tenant_id = :t AND f.forest_id = k.forest_id AND f.state <> 'hidden'))
    RETURNING task_id
    """)


class DeadRows(TenantRows):
    """Dead letters in one transaction of a tenant. What another caller has retried in the meantime stays unchanged."""

    def letters(
        self, owner: str | None, code: str | None, kinds: Sequence[DeadKind], limit: int | None = None
    ) -> Sequence[DeadLetter]:
        """The dead letters of an owner, with an error code, of these kinds (all, where there are none), by kind, owner
        and session; ``limit`` at most, without one all. Raises NotFound."""
        if owner is not None:
            known(forest_id(self._db, self._tenant, owner), owner, NO_OWNER)
        meant = {"owner": owner, "code": code, "kinds": [kind.value for kind in kinds or DeadKind]}
        return [record_of(DeadLetter, row) for row in self._run(_LIST, n=limit, **meant)]

    def starting(self, prefixes: Sequence[str]) -> Sequence[DeadRef]:
        """Dead letters whose id begins with one of these hex digits (without dashes)."""
        found = self._run(_STARTING, patterns=[f"{prefix}%" for prefix in prefixes])
        return [record_of(DeadRef, row) for row in found]

    def detail(self, ref: DeadRef, *, text: bool) -> DeadDetail | None:
        """Everything about one; None when it is not dead anymore."""
        letter = self._run(_ONE, kind=ref.kind.value, id=ref.id).first()
        about = self._run(_ABOUT[ref.kind], id=ref.id).first()
        if letter is None or about is None:
            return None
        rows = self._run(_TEXTS[ref.kind], id=ref.id) if text and ref.kind in _TEXTS else ()
        return DeadDetail(
            record_of(DeadLetter, letter), _about(about), tuple(row.text for row in rows) if text else None
        )

    def retry(self, refs: Sequence[DeadRef]) -> Acted:
        """Make it ready again, as if it had never been tried; its last error stays until it succeeds.

        A cell that the reducer gave up is ready for the reducer again. An operation that is under way again already
        stays as it is.
        """
        by_kind = self._locked(refs)
        cells = self._changed(_RETRY_CELLS, by_kind[DeadKind.CELL])
        reduced = {row.forest_id for row in cells if row.state == WorkState.DONE}
        self._reduce_now(reduced)
        nodes = self._retry_nodes(by_kind[DeadKind.NODE])
        tasks = self._retry_tasks(by_kind[DeadKind.TASK])
        return Acted(
            changed=_refs(cells, nodes, tasks),
            windows=sum(row.state == WorkState.READY and row.head for row in cells),
            forests=len(reduced),
            trees=len({row.tree_id for row in nodes}),
            tasks=len(tasks),
        )

    def discard(self, refs: Sequence[DeadRef]) -> Acted:
        """Go on without it.

        A cell gives up the facts that are not in the trees yet, and its turns go into its session's tree. A node
        has its summary until something below changes. An operation is over, or undone by workers.
        """
        by_kind = self._locked(refs)
        cells = self._discard_cells(by_kind[DeadKind.CELL])
        reduced = {row.forest_id for row in cells if not row.placed}
        self._reduce_now(reduced)
        values = {"clean_version": m.NodeRow.version, "attempts": 0, "lost_leases": 0}
        nodes = self._still_dead_nodes(by_kind[DeadKind.NODE], **values, error_code=None, error_text=None)
        tasks = by_kind[DeadKind.TASK]
        ended = [*self._changed(_DISCARD_TASKS, tasks), *self._changed(_UNDO_TASKS, tasks)]
        return Acted(changed=_refs(cells, nodes, ended), forests=len(reduced))

    def _locked(self, refs: Sequence[DeadRef]) -> dict[DeadKind, list[UUID]]:
        """Ids by kind, with the forests of cells and nodes locked: the reducer and refresh lock them too."""
        by_kind: dict[DeadKind, list[UUID]] = {kind: [] for kind in DeadKind}
        for ref in refs:
            by_kind[ref.kind].append(ref.id)
        cells, nodes = by_kind[DeadKind.CELL], by_kind[DeadKind.NODE]
        if cells or nodes:
            forests = self._run(_FORESTS, cells=cells, nodes=nodes).scalars()
            lock_forests(self._db, self._tenant, [ForestId(forest) for forest in forests])
        return by_kind

    def _discard_cells(self, chosen: Sequence[UUID]) -> Sequence[sa.Row[Any]]:
        ids = [row.cell_id for row in self._changed(_STILL_DEAD, chosen)]
        if not ids:
            return []
        self._run(_RESTORE_SUPERSEDED, ids=ids)
        dropped = self._changed(_DROP_CANDIDATES, ids)
        self._run(_MOVE_BACK, ids=ids)
        cells = self._changed(_END_CELLS, ids)
        hashes = {bytes(key) for row in dropped for key in (row.text_hash, row.routing_hash)}
        vectors = VectorRows(self._db, self._tenant)
        for forest in sorted({row.forest_id for row in cells}, key=str):
            vectors.drop_unused(forest, hashes)
        return cells

    def _reduce_now(self, forests: set[UUID]) -> None:
        table, now = m.Forest, sa.func.clock_timestamp()
        delayed = (table.forest_id.in_(sorted(forests)), table.reduce_available_at > now)
        change = sa.update(table).where(table.tenant_id == self._tenant, *delayed)
        self._db.execute(change.values(reduce_available_at=now))

    def _retry_nodes(self, ids: Sequence[UUID]) -> Sequence[sa.Row[Any]]:
        if not ids:
            return []
        paths = self._changed(_PATHS, ids)
        above = [NodeId(row.node_id) for row in paths]
        lock_nodes(self._db, self._tenant, above)
        n, r = m.NodeRow, m.Tree
        raised = sa.update(n).where(n.tenant_id == self._tenant, n.node_id.in_(above))
        self._db.execute(raised.values(version=n.version + 1))
        nodes = self._still_dead_nodes(ids, attempts=0, lost_leases=0, available_at=sa.func.clock_timestamp())
        trees = sorted({row.tree_id for row in nodes})
        lock_trees(self._db, self._tenant, [TreeId(tree) for tree in trees])
        now = sa.func.now()
        due = sa.update(r).where(r.tenant_id == self._tenant, r.tree_id.in_(trees))
        first = sa.func.coalesce(r.first_mark_at, now)
        self._db.execute(due.values(marks=r.marks + 1, last_mark_at=now, first_mark_at=first, due_at=now))
        return nodes

    def _still_dead_nodes(self, ids: Sequence[UUID], **values: object) -> Sequence[sa.Row[Any]]:
        """Change the nodes that are dead, which they are no longer; their ids and trees."""
        n = m.NodeRow
        dead = sa.update(n).where(n.tenant_id == self._tenant, n.node_id.in_(ids), n.dead)
        change: sa.Executable = dead.values(dead=False, **values).returning(n.node_id, n.tree_id)
        return self._db.execute(change).all()

    def _retry_tasks(self, ids: Sequence[UUID]) -> Sequence[sa.Row[Any]]:
        if not ids:
            return []
        for _ in range(_TRIES):
            try:
                with self._db.begin_nested():
                    take_turn(self._db, self._tenant)
                    tasks = self._changed(_RETRY_TASKS, ids)
                    self._run(_TO_THE_END, ids=[row.task_id for row in tasks])
                    return tasks
            except exc.IntegrityError:
                continue  # an equal operation was requested at this time
        raise StoreUnavailable("Tasks like these are requested faster than they can be tried again.")

    def _changed(self, statement: sa.TextClause, ids: Sequence[UUID]) -> Sequence[sa.Row[Any]]:
        """Run a statement over ids, if there are any; its rows."""
        return self._run(statement, ids=[*ids]).all() if ids else []


def _refs(
    cells: Sequence[sa.Row[Any]], nodes: Sequence[sa.Row[Any]], tasks: Sequence[sa.Row[Any]]
) -> tuple[DeadRef, ...]:
    return (
        *(DeadRef(DeadKind.CELL, row.cell_id) for row in cells),
        *(DeadRef(DeadKind.NODE, row.node_id) for row in nodes),
        *(DeadRef(DeadKind.TASK, row.task_id) for row in tasks),
    )


def _about(row: sa.Row[Any]) -> dict[str, str | int]:
    """Columns under their names; the progress of an operation number by number."""
    about: dict[str, str | int] = {}
    for name, value in row._mapping.items():
        if isinstance(value, dict):
            about.update({f"{name}.{key}": part for key, part in sorted(value.items())})
        else:
            about[name] = value if isinstance(value, int) else str(value)
    return about
