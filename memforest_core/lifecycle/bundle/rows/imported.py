"""Writes an imported forest while it is hidden, and makes it its owner's memory when all checks have passed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy import exc
from sqlalchemy.dialects.postgresql import insert

from memforest_core.domain.ids import ForestId, NodeId, TenantId, TreeId
from memforest_core.domain.operation_rules import OperationKind, Role
from memforest_core.lifecycle.bundle.checking import damaged
from memforest_core.lifecycle.bundle.records import VECTOR, BundleTable, ForestHead, Row
from memforest_core.lifecycle.bundle.rows.values import FOREVER, written
from memforest_core.lifecycle.hidden_forest_rows import HiddenForestRows
from memforest_core.lifecycle.verify.rows.checks import DIRTY
from memforest_core.memtree import Diff, Node, TreeHead, leaf
from memforest_core.store import tables as m
from memforest_core.store.copying import adding, delete_rows, given_to, stored_table
from memforest_core.store.owners import lock_forests
from memforest_core.store.trees import BURY, TreeChange, TreeRows, node_of
from memforest_core.work.records import CANCELLED, PHASE, Numbers, OperationTask, TaskId
from memforest_core.work.rows.operation_rows import OperationRows

RUN = "run"
"""In a record's progress: which run may change it; a process that takes over raises it by 1."""

REFUSED = "refused"
"""The outcome in the audit of a record that ended with an error: its process heard it, and nothing is left to do."""

_TAKE = sa.text("""
    UPDATE memforest.maintenance
       SET progress = progress || jsonb_build_object('run', coalesce((progress ->> 'run')::int, 0) + 1)
     WHERE tenant_id = :t AND task_id = :id AND state = 'held'
    """)

LONGEST_WINDOW = 16
"""Cells that one extraction call reads at most; a longer window was not made by this program."""

PROGRAM_LIMIT = "54"
"""SQL states for values that Postgres can't index or process."""

# A window is claimed by its first cell: what waits in it has to be led by one that waits. One pass over the cells: rows
# are not counted yet, and the planner would join by guesses.
_WINDOWS = sa.text("""
    UPDATE memforest.cell c SET window_ordinal = w.head
      FROM (SELECT cell_id, window_ordinal,
                   CASE WHEN count(*) OVER g > :most THEN ordinal ELSE min(ordinal) OVER g END AS head
              FROM memforest.cell WHERE tenant_id = :t AND forest_id = :f AND state = 'ready'
            WINDOW g AS (PARTITION BY session_id, window_ordinal)) w
     WHERE c.tenant_id = :t AND c.cell_id = w.cell_id AND w.head <> w.window_ordinal
    """)

_HEIGHT = sa.text("SELECT coalesce(max(height), 0) FROM memforest.tree WHERE tenant_id = :t AND forest_id = :f")

# The keys of leaves end with their payload's id. Where ids have changed, a separator becomes the key of the first leaf
# beneath; the leftmost of a level has none.
_SEPARATORS = sa.text("""
    UPDATE memforest.node n
       SET key_time = c.key_time, key_ordinal = c.key_ordinal, key_item = c.key_item, key_id = c.key_id
      FROM memforest.tree r
      JOIN memforest.node o ON o.tenant_id = :t AND o.tree_id = r.tree_id AND o.level = :level AND o.key_id <> ''
     CROSS JOIN LATERAL (
        SELECT k.* FROM memforest.node k WHERE k.tenant_id = :t AND k.parent_id = o.node_id
         ORDER BY k.key_time, k.key_ordinal, k.key_item, k.key_id LIMIT 1) c
     WHERE r.tenant_id = :t AND r.forest_id = :f AND n.tenant_id = :t AND n.node_id = o.node_id
    """)

_SHOW = [
    sa.text(statement)
    for statement in (
        """UPDATE memforest.forest SET reduce_available_at = clock_timestamp()
            WHERE tenant_id = :t AND forest_id = :f""",
        """UPDATE memforest.cell SET available_at = clock_timestamp()
             WHERE tenant_id = :t AND forest_id = :f AND available_at = :forever""",
        """UPDATE memforest.cell SET retry_at = clock_timestamp()
             WHERE tenant_id = :t AND forest_id = :f AND retry_at = :forever""",
        """UPDATE memforest.node_summary s SET redo_at = clock_timestamp()
              FROM memforest.node n, memforest.tree r
             WHERE s.tenant_id = :t AND s.redo_at = :forever AND n.tenant_id = :t AND n.node_id = s.node_id
               AND r.tenant_id = :t AND r.tree_id = n.tree_id AND r.forest_id = :f""",
        f"""UPDATE memforest.tree r SET marks = marks + 1, first_mark_at = now(), last_mark_at = now(), due_at = now()
             WHERE r.tenant_id = :t AND r.forest_id = :f AND {DIRTY}""",  # noqa: S608 - a constant
        """INSERT INTO memforest.index_row AS i (tenant_id, point_id, forest_id, kind, lane)
           SELECT :t, u.id, :f, u.kind, 1 FROM (
                SELECT cell_id AS id, 'cell' AS kind FROM memforest.cell WHERE tenant_id = :t AND forest_id = :f
                UNION ALL
                SELECT fact_id, 'fact' FROM memforest.fact WHERE tenant_id = :t AND forest_id = :f
                UNION ALL
                SELECT n.node_id, 'node' FROM memforest.tree r
                  JOIN memforest.node n ON n.tenant_id = :t AND n.tree_id = r.tree_id
                  JOIN memforest.node_summary s ON s.tenant_id = :t AND s.node_id = n.node_id
                 WHERE r.tenant_id = :t AND r.forest_id = :f) u ORDER BY u.id
           ON CONFLICT (tenant_id, point_id) DO UPDATE
              SET forest_id = excluded.forest_id, kind = excluded.kind,
                  version = greatest(i.version + 1, excluded.version), attempts = 0, deleted = false,
                  state = CASE i.state WHEN 'running' THEN 'running' ELSE 'ready' END,
                  available_at = clock_timestamp()""",
    )
]

_BURY_FOREST = sa.text(f"{BURY} i.forest_id = :f")


@contextmanager
def _refused(what: str) -> Iterator[None]:
    """Rows that the schema refuses mean a damaged bundle; the message names tables, never data."""
    try:
        yield
    except (exc.IntegrityError, exc.DataError):
        raise damaged(f"{what}: rows that contradict each other") from None
    except exc.OperationalError as error:
        if not str(getattr(error.orig, "sqlstate", "")).startswith(PROGRAM_LIMIT):
            raise
        raise damaged(f"{what}: a value that is too large") from None


class ImportRows(HiddenForestRows):
    """Rows of a hidden forest and records of exports and imports, in one transaction of a tenant.

    The process that has the file works on a record, so records are held: workers never claim them. A process that
    takes a record over gets a higher run; the process before can no longer change it. Raises InvalidInput where rows
    contradict the schema.
    """

    def __init__(self, connection: sa.Connection, tenant: TenantId) -> None:
        super().__init__(connection, tenant)
        self.tasks = OperationRows(connection, tenant)
        self._trees = TreeRows(connection, tenant)

    def used(self, table: str, ids: Sequence[UUID]) -> bool:
        """Whether a row of a table has one of these ids, whatever its state."""
        stored = stored_table(table)
        own = (stored.c.tenant_id == self._tenant, list(stored.primary_key)[-1].in_(ids))
        return bool(self._db.scalar(sa.select(sa.exists().where(*own))))

    def hide(self, forest: ForestId, owner: str, head: ForestHead) -> None:
        """Make a hidden forest that no worker touches."""
        self._db.execute(insert(m.Tenant).values(tenant_id=self._tenant).on_conflict_do_nothing())
        with _refused("forest"):
            self._db.execute(
                sa.insert(m.Forest).values(
                    tenant_id=self._tenant,
                    forest_id=forest,
                    owner=owner,
                    time_zone=head.time_zone,
                    display_name=head.display_name,
                    scene_seq=head.scene_seq,
                    rules=dict(head.rules),
                    state="hidden",
                    reduce_available_at=FOREVER,
                )
            )

    def put(self, table: BundleTable, forest: ForestId, model: str, rows: Sequence[Row]) -> None:
        """Insert rows, whose derived hashes follow their columns."""
        if rows:
            new = written(table, forest, model, rows)
            statement = adding(table.stored, tuple(new))
            with _refused(table.name):
                self._db.execute(
                    statement.on_conflict_do_nothing() if table is VECTOR else statement,
                    given_to(table.stored, self._tenant, {}, new),
                )

    def settle(self, forest: ForestId, renamed: bool) -> None:
        """Make windows claimable and, after ids have changed, separators those of their leaves."""
        self.unhurried()
        self._run(_WINDOWS, f=forest, most=LONGEST_WINDOW)
        if renamed:
            for level in range(1, self._run(_HEIGHT, f=forest).scalar_one() + 1):
                self._run(_SEPARATORS, f=forest, level=level)

    def leaves(self, tree: TreeId) -> tuple[TreeHead, Sequence[Node]] | None:
        """A tree's head and leaves; None when it has no root."""
        head = self._db.execute(self._select(m.Tree.root_id, m.Tree.k).where(m.Tree.tree_id == tree)).one()
        if head.root_id is None or head.k < 3:
            return None
        rows = self._db.execute(
            self._select(m.NodeRow.__table__).where(m.NodeRow.tree_id == tree, m.NodeRow.level == 0)
        )
        nodes = [node_of(row) for row in rows]
        leaves = [
            leaf(tree, node.payload_id, node.key, node.time_start, node.time_end, node.id)
            for node in nodes
            if node.key is not None and node.payload_id is not None
        ]
        return TreeHead(tree, NodeId(head.root_id), head.k, 1, 0), leaves

    def rebuild(self, tree: TreeId, diff: Diff) -> None:
        """Replace all nodes of a tree."""
        self._run(sa.text("DELETE FROM memforest.node WHERE tenant_id = :t AND tree_id = :r"), r=tree)
        self._trees.write_trees([TreeChange(diff)], lambda _leaves: 0.0, 0.0)
        # Nothing is due before the forest is shown.
        own = self._update_rows(m.Tree).where(m.Tree.tree_id == tree)
        self._db.execute(own.values(due_at=None, first_mark_at=None))

    def trees_of(self, nodes: Sequence[UUID]) -> Sequence[TreeId]:
        found = self._db.scalars(
            self._select(m.NodeRow.tree_id).distinct().where(m.NodeRow.node_id.in_(nodes)).order_by(m.NodeRow.tree_id)
        )
        return [TreeId(each) for each in found]

    def show(self, forest: ForestId, owner: str) -> bool:
        """Make it its owner's memory, with all its work waiting; False when the owner has another by now."""
        self.unhurried()
        if self.find_forest(owner) is not None:
            return False
        try:
            with self._db.begin_nested():
                self.set_forest_state(forest, "live")
        except exc.IntegrityError:
            return False
        for statement in _SHOW:
            self._run(statement, f=forest, forever=FOREVER)
        return True

    def clear(self, forest: ForestId) -> None:
        """Delete a hidden forest and all that is in it."""
        self.unhurried()
        if lock_forests(self._db, self._tenant, [forest], changing=True).get(forest) == "hidden":
            self._run(_BURY_FOREST, f=forest)
            delete_rows(self._db, self._tenant, "forest", [forest])

    def hold(
        self, kind: OperationKind, subject: str, arguments: Numbers, forest: ForestId | None, actor: str
    ) -> TaskId:
        """A record for this kind and subject: the unfinished one, or a new one. Raises ForestChanged."""
        touches = {forest: Role(kind.value)} if forest is not None else {}
        return self.tasks.enqueue(kind, subject, arguments, forest=forest, actor=actor, touches=touches, held=True)

    def last_import(self, subject: str, state: str, forest: ForestId | None = None) -> OperationTask | None:
        """The newest import of this subject in a state: held while it is unfinished, done; into a forest, or any."""
        o = m.OperationRow
        own = [o.tenant_id == self._tenant, o.kind == "import", o.subject == subject, o.state == state]
        own += [o.forest_id == forest] if forest is not None else []
        found = self._db.scalar(sa.select(o.task_id).where(*own).order_by(o.finished_at.desc()).limit(1))
        return self.tasks.get(TaskId(found)) if found is not None else None

    def take(self, task: TaskId) -> OperationTask | None:
        """Begin a new run; None when it has ended."""
        taken = self._run(_TAKE, id=task)
        return self.tasks.get(task) if taken.rowcount else None

    def store_progress(self, task: TaskId, progress: Numbers) -> bool:
        """Store progress, if its run is the newest; False when another process has taken over."""
        changed = self._db.execute(
            self._update_rows(m.OperationRow)
            .where(
                m.OperationRow.task_id == task,
                m.OperationRow.state == "held",
                m.OperationRow.progress[RUN].as_integer() == progress[RUN],
            )
            .values(progress=dict(progress))
        )
        return changed.rowcount == 1

    def end(self, task: TaskId, progress: Numbers, error: tuple[str, str] | None = None) -> bool:
        """The record is done, or undone with a code and a sentence; False as in ``store_progress``."""
        if not self.store_progress(task, progress if error is None else {**progress, PHASE: CANCELLED}):
            return False
        code, text = error or (None, None)
        record = self._update_rows(m.OperationRow).where(m.OperationRow.task_id == task)
        # A held row reaches its end by the states between: triggers allow no other way.
        for state in ("ready", "running"):
            self._db.execute(record.values(state=state))
        ended = record.values(state="done", finished_at=sa.func.clock_timestamp(), error_code=code, error_text=text)
        self._db.execute(ended)
        return True
