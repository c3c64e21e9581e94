"""Erasing in Postgres: each batch holds the forest, works in sets, and commits its progress with its rows."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from memforest_core.domain.cells import speech
from memforest_core.domain.ids import CellId, FactId, ForestId, NodeId, SessionId, TenantId, TreeId, tree_id
from memforest_core.domain.scopes import TreeKind
from memforest_core.erase.records import HeldCell, ItemKey, Path, Removed, Scope, Target, TouchedFact, TurnKey
from memforest_core.erase.rows import left as search
from memforest_core.erase.rows import sql as q
from memforest_core.erase.rows.clearing import PostgresClearing
from memforest_core.index.wanted_rows import want_indexed
from memforest_core.reduce.rows import ReduceRows
from memforest_core.store import tables as m
from memforest_core.store.engine import tenant_transaction
from memforest_core.store.owners import ForestRef, find_forest, lock_forests, set_forest_state
from memforest_core.store.trees import bury_points, lock_nodes, lock_trees
from memforest_core.store.vectors import cell_hash
from memforest_core.work.records import MaintenanceTask, Numbers, TaskId
from memforest_core.work.rows.operations import OperationRows

_FIRST = UUID(int=0)
STEPS = "steps"
"""How many steps a task has committed: tells which of two progresses is further."""


class ErasureRows(PostgresClearing, ReduceRows):
    """Rows of one erasing transaction."""

    def _ids(self, statement: sa.TextClause, ids: Sequence[Any], **values: object) -> sa.CursorResult[*tuple[Any, ...]]:
        return self._db.execute(statement, {"t": self._tenant, "ids": list(ids)} | values)

    def _turns(
        self, statement: sa.TextClause, turns: Sequence[TurnKey], **values: object
    ) -> sa.CursorResult[*tuple[Any, ...]]:
        return self._db.execute(statement, {"t": self._tenant, **_turn_arrays(turns)} | values)

    def _items(self, statement: sa.TextClause, items: Sequence[ItemKey]) -> sa.CursorResult[*tuple[Any, ...]]:
        return self._db.execute(statement, {"t": self._tenant, **_item_arrays(items)})

    def hold_forest(self, forest: ForestId) -> str | None:
        """Become the forest's only writer, waiting for whoever is; its state, None when it is not there.

        Raises StoreUnavailable when that takes too long.
        """
        return lock_forests(self._db, self._tenant, [forest]).get(forest)

    def ahead(self, task: TaskId, progress: Numbers) -> Numbers:
        """The progress that a step of this task has committed with its rows, if it is further than ``progress``."""
        stored: Mapping[str, Any] = (
            self._db.scalar(
                sa.select(m.Maintenance.progress).where(
                    m.Maintenance.tenant_id == self._tenant, m.Maintenance.task_id == task
                )
            )
            or {}
        )
        return stored if int(stored.get(STEPS, 0)) > int(progress.get(STEPS, 0)) else progress

    @property
    def tasks(self) -> OperationRows:
        """Task rows of the same transaction."""
        return OperationRows(self._db, self._tenant)

    def forests_of(self, owner: str) -> list[ForestId]:
        """An owner's forest, and those that are hidden."""
        found = self._db.scalars(q.FORESTS_OF, {"t": self._tenant, "owner": owner})
        return [ForestId(forest) for forest in found]

    def cancel_imports(self, forests: Sequence[ForestId], actor: str) -> None:
        """Have the imports undone that fill these forests."""
        for task in self._ids(q.IMPORTS_INTO, forests).scalars().all():
            self.tasks.cancel(TaskId(task), actor)

    def drop_copies(self, task: TaskId, forest: ForestId) -> None:
        """Give up what is being built anew of a forest; that, and what older ones have left, is the deletion's."""
        values = {"t": self._tenant, "task": task, "f": forest}
        copies = self._db.scalars(q.COPIES_OF, values).all()
        for each in sorted({forest, *copies}):
            # A rebuild looks for deletions with its source locked.
            if each == forest:
                lock_forests(self._db, self._tenant, [forest])
            else:
                _let_go(self._db, self._tenant, ForestId(each))
        self._db.execute(q.TOUCH_UNSEEN, values)

    def all_asked_for(self, forest: ForestId) -> bool:
        """Whether the deletion of the whole forest was asked for."""
        return bool(self._db.scalar(q.ALL_ASKED_FOR, {"t": self._tenant, "f": forest}))

    def keep(self, task: TaskId, progress: Numbers) -> None:
        """Commit progress together with what this transaction removes."""
        self._db.execute(
            sa.update(m.Maintenance)
            .where(m.Maintenance.tenant_id == self._tenant, m.Maintenance.task_id == task)
            .values(progress=dict(progress))
        )

    def doomed_turns(self, scope: Scope, after: SessionId | None, cells: int) -> list[TurnKey]:
        """The next turns of a target that still have words, in order, about ``cells`` cells of them; from the session
        ``after`` on."""
        values: dict[str, object] = {"t": self._tenant, "most": 2 * cells}
        match scope.target:
            case Target.TURNS:
                values |= {"session": scope.session, "ordinals": list(scope.ordinals)}
            case Target.RANGE:
                values |= {"f": scope.forest, "after": after or _FIRST, "since": scope.since, "until": scope.until}
            case Target.SPEAKER:
                values |= {"f": scope.forest, "after": after or _FIRST, "speaker": scope.speaker}
            case _:
                return []
        return [
            TurnKey(SessionId(row.session_id), row.ordinal) for row in self._db.execute(q.DOOMED[scope.target], values)
        ]

    def tail_turns(self, session: SessionId, cells: int) -> list[TurnKey] | None:
        """The last turns of a session, those of its last ``cells`` cells; None when the session is not there."""
        rows = self._db.execute(q.TAIL, {"t": self._tenant, "session": session, "most": cells}).all()
        if not rows:
            return None
        return [TurnKey(session, row.ordinal) for row in rows if row.ordinal is not None]

    def turns_of(self, cells: Sequence[CellId]) -> list[TurnKey]:
        """The turns of these cells that have words."""
        return [TurnKey(SessionId(row.session_id), row.ordinal) for row in self._ids(q.TURNS_OF, cells)]

    def hold_cells(self, turns: Sequence[TurnKey]) -> list[HeldCell]:
        """Hold the sessions of these turns against writers, then all cells that hold any of them."""
        held = _sessions(turns)
        self._ids(q.HOLD_SESSIONS, held)
        self._turns(q.LOCK_CELLS, turns, held=held)
        cells = self._turns(q.HOLD_CELLS, turns, held=held).all()
        kept: dict[UUID, list[tuple[int, str, str]]] = defaultdict(list)
        for row in self._turns(q.KEPT, turns, ids=[cell.cell_id for cell in cells]):
            kept[row.cell_id].append((row.ordinal, row.name, row.content))
        return [
            HeldCell(CellId(row.cell_id), SessionId(row.session_id), row.ordinal, tuple(kept[row.cell_id]))
            for row in cells
        ]

    def doomed_items(self, turns: Sequence[TurnKey], gone: Sequence[CellId]) -> list[ItemKey]:
        """Candidates that rest on any of these turns, and all of cells that are gone."""
        found = self._turns(q.DOOMED_ITEMS, turns, held=_sessions(turns), ids=list(gone))
        return [ItemKey(CellId(row.cell_id), row.item) for row in found]

    def items_of(self, facts: Sequence[FactId]) -> list[ItemKey]:
        """The candidates that these facts rest on."""
        return [ItemKey(CellId(row.cell_id), row.item) for row in self._ids(q.ITEMS_OF, facts)]

    def hashes_of(self, cells: Sequence[CellId], items: Sequence[ItemKey], facts: Sequence[FactId]) -> frozenset[bytes]:
        """Under which hashes the vectors of the texts of these rows are kept."""
        told = sa.select(m.Cell.text_hash).where(m.Cell.tenant_id == self._tenant, m.Cell.cell_id.in_(cells))
        hashes = {bytes(found) for found in self._db.scalars(told)}
        hashes |= {bytes(row.hash) for row in self._items(q.ITEM_HASHES, items)}
        own = sa.select(m.FactRow.text_hash).where(m.FactRow.tenant_id == self._tenant, m.FactRow.fact_id.in_(facts))
        return frozenset(hashes | {bytes(found) for found in self._db.scalars(own)})

    def path(self, payloads: Sequence[UUID]) -> Path:
        """All internal nodes above the leaves of these cells and facts."""
        nodes = [NodeId(row.node_id) for row in self._ids(q.ABOVE, payloads)]
        return Path(tuple(nodes), tuple(TreeId(row.tree_id) for row in self._ids(q.SCOPES, payloads)))

    def hold_path(self, nodes: Sequence[NodeId], payloads: Sequence[UUID]) -> int:
        """Hold nodes, then the index rows of nodes and payloads, in the one order; how many points there are.

        An indexer that is writing one of them now keeps its lease, and takes away what it wrote.
        """
        lock_nodes(self._db, self._tenant, nodes)
        rows = self._ids(q.HOLD_POINTS, [*nodes, *payloads]).all()
        return sum(not row.deleted for row in rows)

    def owner_of(self, forest: ForestId) -> str:
        """Whose forest it is."""
        named = sa.select(m.Forest.owner).where(m.Forest.tenant_id == self._tenant, m.Forest.forest_id == forest)
        return str(self._db.scalar(named))

    def sessions_of(self, cells: Sequence[CellId]) -> list[SessionId]:
        """The sessions of these cells."""
        own = sa.select(m.Cell.session_id).where(m.Cell.tenant_id == self._tenant, m.Cell.cell_id.in_(cells))
        return [SessionId(found) for found in self._db.scalars(own.distinct())]

    def detach(self, items: Sequence[ItemKey]) -> tuple[int, list[TouchedFact]]:
        """Drop the occurrences of these candidates; how many, and the facts that lost them."""
        routing: dict[UUID, bytes] = {}
        for row in self._items(q.LOSING, items):
            routing.setdefault(row.fact_id, bytes(row.routing_hash))
        lost = self._items(q.DETACH, items).rowcount
        touched = self._ids(q.TOUCHED, list(routing)).all()
        others: dict[UUID, list[ItemKey]] = defaultdict(list)
        for row in self._ids(q.OTHERS, [row.fact_id for row in touched if not row.told]):
            others[row.fact_id].append(ItemKey(CellId(row.cell_id), row.item))
        return lost, [
            TouchedFact(
                id=FactId(row.fact_id),
                routing_hash=routing[row.fact_id],
                told=row.told,
                others=tuple(others[row.fact_id]),
                pinned=row.pinned,
                superseded_by=FactId(row.superseded_by) if row.superseded_by else None,
                superseded_at=row.superseded_at,
            )
            for row in touched
        ]

    def free(self, facts: Sequence[FactId]) -> None:
        """Drop all occurrences of these facts: their candidates are to be attached anew."""
        self._ids(q.FREE, facts)

    def drop_items(self, items: Sequence[ItemKey]) -> int:
        """Drop candidates; how many. A reducer that has read them finds that their cells say something else now."""
        return self._items(q.DROP_ITEMS, items).rowcount

    def quiet(self, cells: Sequence[CellId]) -> None:
        """Cells that were kept word by word are not extracted again by themselves."""
        self._ids(q.HOLD_TELLING, cells)
        self._ids(q.QUIET, cells)

    def drop_cells(self, cells: Sequence[CellId]) -> dict[TreeId, list[NodeId]]:
        """Drop cells, their placements and points; the leaves they leave behind, by tree."""
        leaves: dict[TreeId, list[NodeId]] = defaultdict(list)
        for row in self._ids(q.UNPLACE, cells):
            if row.leaf_id is not None:
                leaves[TreeId(row.tree_id)].append(NodeId(row.leaf_id))
        self._ids(q.DROP_CELLS, cells)
        bury_points(self._db, self._tenant, cells)
        return dict(leaves)

    def rewrite_cells(self, forest: ForestId, cells: Sequence[HeldCell]) -> None:
        """Cells say less now, from the first turn they keep to the last: no summary, a new point; a tail that waits
        for a turn is closed."""
        texts = ["\n".join(speech(name, content) for _, name, content in cell.kept) for cell in cells]
        starts = {row.cell_id: row.time_start for row in self._ids(q.STARTS, [cell.id for cell in cells])}
        values = {
            "texts": texts,
            "hashes": [cell_hash(text, starts[cell.id]) for cell, text in zip(cells, texts, strict=True)],
            "firsts": [cell.kept[0][0] for cell in cells],
            "lasts": [cell.kept[-1][0] for cell in cells],
        }
        ids = [cell.id for cell in cells]
        for statement in q.REWRITE:
            self._ids(statement, ids, **values)
        self._ids(q.TAINT, ids)
        want_indexed(self._db, self._tenant, forest, "cell", ids)

    def fence(self, turns: Sequence[TurnKey]) -> int:
        """End the leases of extractions that read any of these turns; how many cells they held."""
        return self._turns(q.FENCE, turns, held=_sessions(turns)).rowcount

    def rehead(self, sessions: Sequence[SessionId]) -> None:
        """See that every window of these sessions has a first cell that it can be claimed by."""
        for statement in q.REHEAD:
            self._ids(statement, sessions)

    def blank_turns(self, forest: ForestId, turns: Sequence[TurnKey]) -> int:
        """Leave place-holders of turns, and drop speakers that no turn backs any more; how many turns had words."""
        voices = self._turns(q.VOICES, turns).all()
        blanked = self._turns(q.BLANK, turns).rowcount
        self._silence(forest, voices)
        return blanked

    def cut_tail(self, forest: ForestId, turns: Sequence[TurnKey]) -> int:
        """Drop the last turns of a session, count anew, and drop speakers as ``blank_turns``; how many turns."""
        voices = self._turns(q.VOICES, turns).all()
        dropped = self._turns(q.CUT, turns).rowcount
        self._ids(q.COUNT, _sessions(turns))
        self._silence(forest, voices)
        return dropped

    def _silence(self, forest: ForestId, voices: Sequence[sa.Row[Any]]) -> None:
        if voices:
            speakers, names = [row.speaker_id for row in voices], [row.name for row in voices]
            self._db.execute(q.SILENT, {"t": self._tenant, "f": forest, "speakers": speakers, "names": names})

    def drop_session(self, session: SessionId) -> int:
        """Drop a session that has no turn left; whether it had none."""
        return self._db.execute(q.DROP_SESSION, {"t": self._tenant, "session": session}).rowcount

    def carry_over(self, forest: ForestId, facts: Sequence[TouchedFact]) -> None:
        """Pins and supersessions of facts that were made anew go to the facts that their candidates have now."""
        links = [(fact.id, item) for fact in facts for item in fact.others]
        if not links:
            return
        values = {"olds": [old for old, _ in links]} | _item_arrays([item for _, item in links])
        found = {row.old: row.fact_id for row in self._db.execute(q.SUCCESSORS, {"t": self._tenant} | values)}
        carried = [fact for fact in facts if fact.id in found]
        self._db.execute(
            q.CARRY,
            {
                "t": self._tenant,
                "news": [found[fact.id] for fact in carried],
                "pins": [fact.pinned for fact in carried],
                "bys": [fact.superseded_by for fact in carried],
                "ats": [fact.superseded_at for fact in carried],
            },
        )
        pairs = {"olds": list(found), "news": list(found.values())}
        self._db.execute(q.REPOINT, {"t": self._tenant, "f": forest} | pairs)

    def unpoint(self, forest: ForestId, facts: Sequence[FactId]) -> None:
        """Facts that were superseded by ones that are gone are not superseded any more."""
        self._ids(q.UNPOINT, facts, f=forest)

    def drop_scopes(self, trees: Sequence[TreeId]) -> int:
        """Drop scopes that hold nothing any more; how many."""
        return self._ids(q.DROP_SCOPES, trees).rowcount

    def mask(self, nodes: Sequence[NodeId]) -> list[bytes]:
        """Take the summaries and points of these nodes; the hashes of the texts that went, one for each summary."""
        hashes = [bytes(row.hash) for row in self._ids(q.MASK, nodes)]
        bury_points(self._db, self._tenant, nodes)
        return hashes

    def mark(self, path: Path) -> list[NodeId]:
        """Make those of the nodes dirty that are still there, and their trees due; which nodes.

        No summary that was read before can be saved any more.
        """
        marked = [NodeId(row.node_id) for row in self._ids(q.MARK, path.nodes)]
        lock_trees(self._db, self._tenant, path.trees)
        self._ids(q.DUE, path.trees)
        return marked

    def forget_visits(self, ids: Sequence[UUID]) -> int:
        """Drop the visits of what is gone."""
        return self._ids(q.FORGET_VISITS, ids).rowcount

    def drop_caches(self, forest: ForestId, sessions: Sequence[SessionId], trees: Sequence[TreeId]) -> int:
        """Drop answers and summaries that were paid for in these sessions and trees, and in merged scenes."""
        values = {"t": self._tenant, "f": forest, "trees": list(trees), "sessions": list(sessions)}
        return sum(self._db.execute(statement, values).rowcount for statement in (q.DROP_ANSWERS, q.DROP_PAID))

    def left(self, forest: ForestId, removed: Removed) -> Mapping[str, int]:
        """References to what was removed, by table.column: all 0 unless something is wrong."""
        payloads = [*removed.cells, *removed.facts]
        rows = self._turns(
            search.LEFT,
            removed.turns,
            cells=list(removed.cells),
            facts=list(removed.facts),
            of=[item.cell_id for item in removed.items],
            items=[item.item for item in removed.items],
            payloads=payloads,
            nodes=list(removed.nodes),
            masked=[*removed.nodes, *removed.masked],
            points=[*payloads, *removed.nodes],
            held=_sessions(removed.turns),
            trees=list(removed.trees),
            hashes=list(removed.hashes),
            f=forest,
        )
        found = {str(row[0]): int(row[1]) for row in rows}
        return found | {"candidate.turn_ordinals": len(self.doomed_items(removed.turns, ()))}

    def left_of(self, scope: Scope, task: TaskId) -> Mapping[str, int]:
        """What of a target and of the copies of its forest is still there, by table.column, derived from what names
        them: all 0."""
        left = Counter(self._left_of(scope))
        for forest in self.touched(task):
            if forest != scope.forest:
                left.update(self.left_of_forest(forest))
        return left

    def _left_of(self, scope: Scope) -> Mapping[str, int]:
        values: dict[str, object] = {"t": self._tenant, "f": scope.forest}
        match scope.target:
            case Target.SESSION:
                own = tree_id(scope.forest, TreeKind.SESSION, str(scope.session))
                rows = self._db.execute(search.LEFT_OF_SESSION, values | {"session": scope.session, "tree": own})
            case Target.FACT:
                rows = self._db.execute(search.LEFT_OF_FACT, values | {"fact": scope.fact})
            case Target.OWNER:
                return self.left_of_forest(scope.forest)
            case _:
                return self._unused(scope.forest) | {"turn.content": len(self.doomed_turns(scope, None, 1))}
        return self._unused(scope.forest) | {str(row[0]): int(row[1]) for row in rows}

    def _unused(self, forest: ForestId) -> dict[str, int]:
        return {"vector.text_hash": int(self._db.scalar(search.UNUSED_VECTORS, {"t": self._tenant, "f": forest}) or 0)}

    def point_mark(self) -> int:
        """A version that is newer than that of every point erased so far, and older than of any erased from now on."""
        return int(self._db.scalar(q.NOW) or 0)

    def erased_points(self, forest: ForestId, mark: int, after: UUID | None, limit: int) -> dict[UUID, int]:
        """The next points of a forest, in the order of ids, that may hold what was erased before the mark and that no
        indexer is writing now, with the versions of their rows."""
        values = {"t": self._tenant, "f": forest, "mark": mark, "after": after or _FIRST, "n": limit}
        return {row.point_id: row.version for row in self._db.execute(q.ERASED, values)}

    def still_erased(self, forest: ForestId, mark: int) -> bool:
        """Whether a point may hold what was erased before the mark."""
        return bool(self._db.scalar(q.STILL_ERASED, {"t": self._tenant, "f": forest, "mark": mark}))

    def still_written(self, forest: ForestId, mark: int) -> bool:
        """Whether an indexer that began before such an erasure may still write what was erased."""
        return bool(self._db.scalar(q.STILL_WRITTEN, {"t": self._tenant, "f": forest, "mark": mark}))

    def confirm(self, points: Mapping[UUID, int], mark: int) -> frozenset[UUID]:
        """The index has dropped these points: forget the rows of tombstones. Which of the others live, and are written
        again."""
        self._ids(q.HOLD_POINTS, list(points))
        self._ids(q.CONFIRM, list(points), versions=list(points.values()))
        return frozenset(row.point_id for row in self._ids(q.REVIVE, list(points), mark=mark))


def _let_go(connection: sa.Connection, tenant: TenantId, forest: ForestId) -> None:
    """Make a forest nobody's, and stop its work; it has to be cleared."""
    state = sa.select(m.Forest.state).where(m.Forest.tenant_id == tenant, m.Forest.forest_id == forest)
    if connection.scalar(state) in (None, "gone"):
        return
    set_forest_state(connection, tenant, forest, "gone")
    for statement in q.PARK:
        connection.execute(statement, {"t": tenant, "f": forest})


def _sessions(turns: Sequence[TurnKey]) -> list[SessionId]:
    return sorted({turn.session_id for turn in turns}, key=str)


def _turn_arrays(turns: Sequence[TurnKey]) -> dict[str, list[Any]]:
    return {"sessions": [turn.session_id for turn in turns], "ordinals": [turn.ordinal for turn in turns]}


def _item_arrays(items: Sequence[ItemKey]) -> dict[str, list[Any]]:
    return {"cells": [item.cell_id for item in items], "items": [item.item for item in items]}


class ErasureStore:
    """Opens erasing transactions, and resolves what callers name."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    @contextmanager
    def erasing(self, tenant: TenantId) -> Iterator[ErasureRows]:
        """One transaction of a tenant."""
        with tenant_transaction(self._engine, tenant) as connection:
            yield ErasureRows(connection, tenant)

    @contextmanager
    def rehearsing(self, tenant: TenantId) -> Iterator[ErasureRows]:
        """One transaction of a tenant that leaves no trace."""
        with tenant_transaction(self._engine, tenant) as connection:
            undone = connection.begin_nested()
            try:
                yield ErasureRows(connection, tenant)
            finally:
                undone.rollback()

    def hide(self, tenant: TenantId, task: TaskId) -> None:
        """Make the forests of a deletion, and copies that are being built of them, nobody's; their work stops.

        Does nothing while a merge that was asked for before is at one of them.
        """
        with tenant_transaction(self._engine, tenant) as connection:
            values = {"t": tenant, "task": task}
            if connection.scalar(q.MERGED_BEFORE, values):
                return
            connection.execute(q.TOUCH_UNSEEN, values)
            for forest in connection.scalars(q.TO_HIDE, values).all():
                _let_go(connection, tenant, ForestId(forest))

    def let_go(self, tenant: TenantId, forest: ForestId) -> None:
        """Make one forest nobody's."""
        with tenant_transaction(self._engine, tenant) as connection:
            _let_go(connection, tenant, forest)

    def owner(self, tenant: TenantId, owner: str) -> ForestRef | None:
        """The owner's forest."""
        with tenant_transaction(self._engine, tenant) as connection:
            return find_forest(connection, tenant, owner)

    def session(self, tenant: TenantId, forest: ForestId, external_id: str) -> SessionId | None:
        """A session by the caller's id."""
        statement = sa.select(m.Session.session_id).where(
            m.Session.tenant_id == tenant, m.Session.forest_id == forest, m.Session.external_id == external_id
        )
        with tenant_transaction(self._engine, tenant) as connection:
            found = connection.scalar(statement)
        return SessionId(found) if found is not None else None

    def ordinals(self, tenant: TenantId, session: SessionId, turn_ids: Sequence[str]) -> Mapping[str, int]:
        """The ordinals of turns by the caller's ids."""
        statement = sa.select(m.TurnRow.external_id, m.TurnRow.ordinal).where(
            m.TurnRow.tenant_id == tenant,
            m.TurnRow.session_id == session,
            m.TurnRow.external_id == sa.any_(sa.cast(list(turn_ids), sa.ARRAY(sa.Text))),
        )
        with tenant_transaction(self._engine, tenant) as connection:
            return {row.external_id: row.ordinal for row in connection.execute(statement)}

    def speaks(self, tenant: TenantId, forest: ForestId, speaker_id: str) -> bool:
        """Whether a forest has words of a speaker."""
        with tenant_transaction(self._engine, tenant) as connection:
            return bool(connection.scalar(q.SPEAKS, {"t": tenant, "f": forest, "speaker": speaker_id}))

    def speaker_digest(self, forest: ForestId, speaker_id: str) -> str:
        """What a task row keeps of a speaker's id: it can be compared with, and not be read back."""
        return hashlib.sha256(f"{forest}\x1f{speaker_id}".encode()).hexdigest()

    def has_fact(self, tenant: TenantId, forest: ForestId, fact: FactId) -> bool:
        """Whether a fact is in a forest."""
        statement = sa.select(m.FactRow.fact_id).where(
            m.FactRow.tenant_id == tenant, m.FactRow.forest_id == forest, m.FactRow.fact_id == fact
        )
        with tenant_transaction(self._engine, tenant) as connection:
            return connection.scalar(statement) is not None

    def task(self, tenant: TenantId, task: TaskId) -> MaintenanceTask | None:
        """One task."""
        with tenant_transaction(self._engine, tenant) as connection:
            return OperationRows(connection, tenant).get(task)
