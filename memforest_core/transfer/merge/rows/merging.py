"""Merging forests in Postgres: a constant number of set-based statements for each source."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import UUID, uuid4

import numpy as np
import sqlalchemy as sa

from memforest_core.domain.cells import speech
from memforest_core.domain.facts import Statement
from memforest_core.domain.ids import CellId, FactId, ForestId, SessionId, TenantId
from memforest_core.domain.times import from_micros
from memforest_core.index.wanted_rows import want_indexed
from memforest_core.memtree import Key
from memforest_core.models.calls import Vectors
from memforest_core.store import tables as m
from memforest_core.store.engine import tenant_transaction
from memforest_core.store.owners import forest_id, lock_forests, set_forest_state
from memforest_core.store.statements import from_document
from memforest_core.store.vectors import cell_hash, from_bytes
from memforest_core.transfer.merge.records import (
    CellCopy,
    CutText,
    FactCopy,
    ItemCopy,
    MergeForest,
    NamedSession,
    Overlap,
    StoredCell,
    StoredFact,
    StoredItem,
    StoredSession,
    ValueConflict,
)
from memforest_core.transfer.merge.rows import sql as q
from memforest_core.transfer.merge.rows.trees import PostgresMergeTrees, literal
from memforest_core.work.records import Numbers, TaskId
from memforest_core.work.rows.operations import OperationRows

_UNHURRIED = ("statement_timeout", "idle_in_transaction_session_timeout")


class MergeRows(PostgresMergeTrees):
    """Rows of one transaction of a merge."""

    def unhurried(self) -> None:
        """Let the statements of this transaction take as long as their rows need."""
        for setting in _UNHURRIED:
            self._db.execute(sa.text(f"SET LOCAL {setting} = 0"))

    def undo(self) -> None:
        """End the transaction as if nothing had been written."""
        transaction = self._db.get_transaction()
        if transaction is not None:
            transaction.rollback()

    def lock_all(self, forests: Sequence[ForestId], *, changing: bool = False) -> Mapping[ForestId, MergeForest]:
        """Become the only writer of these forests, in the order of ids; those that are there. ``changing`` is for who
        is going to change their states."""
        states = lock_forests(self._db, self._tenant, forests, changing=changing)
        return {forest.id: forest for forest in self.forests(list(states))}

    def forests(self, ids: Sequence[ForestId]) -> Sequence[MergeForest]:
        """These forests, as far as they exist, in the order of ids."""
        rows = self._db.execute(q.FORESTS, {"t": self._tenant, "ids": list(ids)})
        return [MergeForest(ForestId(row.forest_id), row.owner, row.state, row.rules, row.facts) for row in rows]

    def found(self, owner: str, like: ForestId) -> ForestId:
        """A new hidden forest of an owner, in another one's time zone and with its rules; that of an unfinished merge
        again, if there is one."""
        values: dict[str, Any] = {"t": self._tenant, "owner": owner, "like": like}
        begun = self._db.scalar(q.UNFINISHED, values)
        if begun is not None:
            return ForestId(begun)
        new = ForestId(uuid4())
        self._db.execute(q.FOUND, values | {"id": new})
        return new

    @property
    def tasks(self) -> OperationRows:
        """Task rows of the same transaction."""
        return OperationRows(self._db, self._tenant)

    def visible(self, owner: str) -> ForestId | None:
        """The forest that is an owner's memory."""
        return forest_id(self._db, self._tenant, owner)

    def set_state(self, forest: ForestId, state: str) -> None:
        """Change a forest's state once no session is being accepted into it."""
        set_forest_state(self._db, self._tenant, forest, state)

    def contended(self, task: TaskId, sources: Sequence[ForestId], target: ForestId) -> bool:
        """Whether another merge has begun that moves one of these forests, or moves into one of the sources, or one of
        them is being built anew."""
        every = [str(id_) for id_ in (*sources, target)]
        values = {"t": self._tenant, "task": task, "sources": list(sources), "all": every}
        return bool(self._db.scalar(q.CONTENDED, values))

    def progress(self, task: TaskId) -> Numbers:
        """How far a task has come, locked until this transaction ends. Empty for a task that is not stored."""
        found: Numbers | None = self._db.scalar(
            sa.select(m.Maintenance.progress)
            .where(m.Maintenance.tenant_id == self._tenant, m.Maintenance.task_id == task)
            .with_for_update(key_share=True)
        )
        return found or {}

    def advance(self, task: TaskId, progress: Numbers) -> None:
        """Note how far a task has come, in this transaction."""
        self._db.execute(
            sa.update(m.Maintenance)
            .where(m.Maintenance.tenant_id == self._tenant, m.Maintenance.task_id == task)
            .values(progress=dict(progress))
        )

    def hold_cells(self, source: ForestId) -> None:
        """Keep workers from claiming or ending the extraction of a forest's cells until the transaction ends."""
        self._db.execute(q.HOLD_CELLS, {"t": self._tenant, "f": source})

    def sessions(self, forest: ForestId) -> Sequence[StoredSession]:
        """All sessions of a forest, by the caller's id."""
        rows = self._db.execute(
            sa.select(m.Session.session_id, m.Session.external_id, m.Session.turn_count, m.Session.cell_count)
            .where(m.Session.tenant_id == self._tenant, m.Session.forest_id == forest)
            .order_by(m.Session.external_id)
        )
        return [
            StoredSession(SessionId(row.session_id), row.external_id, row.turn_count, row.cell_count) for row in rows
        ]

    def add_sessions(
        self, source: MergeForest, target: ForestId, names: Sequence[NamedSession]
    ) -> frozenset[SessionId]:
        """Copy session rows; the new ones among these, the others were there already."""
        values = _names(names) | {"t": self._tenant, "target": target, "owner": source.owner}
        return frozenset(SessionId(id_) for id_ in self._db.scalars(q.ADD_SESSIONS, values))

    def overlaps(self, names: Sequence[NamedSession]) -> Sequence[Overlap]:
        """The target's sessions of these names, locked, compared turn by turn."""
        if not names:
            return []
        values = _names(names) | {"t": self._tenant}
        there = {row.session_id: row for row in self._db.execute(q.LOCK_SESSIONS, values | {"ids": values["new"]})}
        differ = set(self._db.scalars(q.DIFFER, values))
        return [
            Overlap(
                each.source,
                each.target,
                there[each.target].turn_count,
                there[each.target].cell_count,
                each.source in differ,
            )
            for each in names
        ]

    def add_turns(self, firsts: Sequence[tuple[SessionId, SessionId, int]]) -> None:
        """Copy the turns of sessions (source, target) from an ordinal on."""
        if firsts:
            old, new, first = (list(column) for column in zip(*firsts, strict=True))
            self._db.execute(q.ADD_TURNS, {"t": self._tenant, "old": old, "new": new, "firsts": first})

    def lengthen(self, sessions: Sequence[tuple[SessionId, SessionId, int]]) -> None:
        """Set the turn count of sessions (source, target) to the source's, and add so many cells; what was held open in
        the target is closed."""
        if sessions:
            old, new, cells = (list(column) for column in zip(*sessions, strict=True))
            for statement in q.LENGTHEN:
                self._db.execute(statement, {"t": self._tenant, "old": old, "new": new, "cells": cells})

    def add_speakers(self, source: ForestId, target: ForestId) -> None:
        """Copy who has spoken."""
        for statement in (q.ADD_SPEAKERS, q.TAKE_NAME):
            self._db.execute(statement, {"t": self._tenant, "source": source, "target": target})

    def cells(self, forest: ForestId) -> Sequence[StoredCell]:
        """All cells of a forest, by session and ordinal."""
        return [_cell(row) for row in self._db.execute(q.CELLS, {"t": self._tenant, "f": forest}).all()]

    def cells_of(self, sessions: Sequence[SessionId]) -> Sequence[StoredCell]:
        """All cells of these sessions, by session and ordinal, locked."""
        if not sessions:
            return []
        return [_cell(row) for row in self._db.execute(q.CELLS_OF, {"t": self._tenant, "ids": list(sessions)})]

    def add_cells(self, target: ForestId, copies: Sequence[CellCopy]) -> None:
        """Copy cells with their state; one that is being worked on waits again. They are marked for indexing."""
        if not copies:
            return
        new = [copy.target for copy in copies]
        self._db.execute(
            q.ADD_CELLS,
            {
                "t": self._tenant,
                "target": target,
                "old": literal(copy.source.id for copy in copies),
                "new": literal(new),
                "sessions": literal(copy.session_id for copy in copies),
                "ordinals": literal(copy.ordinal for copy in copies),
                "heads": literal(copy.window for copy in copies),
                "firsts": literal(copy.first_turn for copy in copies),
            },
        )
        want_indexed(self._db, self._tenant, target, "cell", new, lane=1)

    def cut_texts(self, copies: Sequence[CellCopy]) -> Sequence[CutText]:
        """The texts of copied cells from their first turn on."""
        rows = self._db.execute(
            q.CUT_TURNS,
            {
                "t": self._tenant,
                "cells": [copy.target for copy in copies],
                "sessions": [copy.session_id for copy in copies],
                "firsts": [copy.first_turn for copy in copies],
                "lasts": [copy.source.last_turn for copy in copies],
            },
        )
        turns: dict[UUID, list[sa.Row[Any]]] = defaultdict(list)
        for row in rows:
            turns[row.cell].append(row)
        return [
            CutText(
                CellId(cell),
                "\n".join(speech(row.name, row.content) for row in said),
                min(row.at for row in said),
                max(row.at for row in said),
            )
            for cell, said in turns.items()
        ]

    def set_texts(self, texts: Sequence[CutText]) -> None:
        """Give cells another text."""
        if texts:
            self._db.execute(
                q.SET_TEXTS,
                {
                    "t": self._tenant,
                    "cells": [each.cell for each in texts],
                    "texts": [each.text for each in texts],
                    "hashes": [cell_hash(each.text, from_micros(each.start)) for each in texts],
                    "starts": [each.start for each in texts],
                    "ends": [each.end for each in texts],
                },
            )

    def items(self, forest: ForestId) -> Sequence[StoredItem]:
        """All candidates of a forest, by cell and item."""
        rows = self._db.execute(q.ITEMS, {"t": self._tenant, "f": forest}).all()
        return [
            StoredItem(
                CellId(row.cell_id),
                row.item,
                tuple(row.turn_ordinals),
                FactId(row.fact_id) if row.fact_id else None,
                from_document(row.pending) if row.pending else None,
            )
            for row in rows
        ]

    def add_items(self, copies: Sequence[ItemCopy]) -> None:
        """Copy candidates, and attach those that have a fact."""
        if not copies:
            return
        values = {
            "t": self._tenant,
            "old": literal(copy.cell_id for copy in copies),
            "new": literal(copy.new_cell for copy in copies),
            "items": literal(copy.item for copy in copies),
            "numbers": literal(copy.new_item for copy in copies),
            "facts": literal(copy.fact_id for copy in copies),
            "sessions": literal(copy.session_id for copy in copies),
        }
        for statement in q.ADD_ITEMS:
            self._db.execute(statement, values)

    def facts(self, forest: ForestId) -> Sequence[StoredFact]:
        """All facts of a forest, in the order in which they were made."""
        return [_fact(row) for row in self._db.execute(q.FACTS, {"t": self._tenant, "f": forest}).all()]

    def facts_of(self, ids: Sequence[FactId]) -> Sequence[StoredFact]:
        """Those of these facts that exist."""
        return [_fact(row) for row in self._db.execute(q.FACTS_OF, {"t": self._tenant, "ids": literal(ids)}).all()]

    def copy_facts(self, target: ForestId, copies: Sequence[FactCopy]) -> None:
        """Copy facts under their new ids, and mark them for indexing."""
        if not copies:
            return
        new = [copy.target for copy in copies]
        self._db.execute(
            q.COPY_FACTS,
            {
                "t": self._tenant,
                "target": target,
                "old": literal(copy.source for copy in copies),
                "new": literal(new),
                "by": literal(copy.superseded_by for copy in copies),
            },
        )
        want_indexed(self._db, self._tenant, target, "fact", new, lane=1)

    def take_corrections(self, copies: Sequence[FactCopy]) -> None:
        """Supersede facts of the target (``target``) that the source has in the same words and has corrected since they
        were last said, if their successors are there and hold; what is above them is to be summarized again."""
        if not copies:
            return
        values = {
            "t": self._tenant,
            "old": literal(copy.source for copy in copies),
            "new": literal(copy.target for copy in copies),
            "by": literal(copy.superseded_by for copy in copies),
        }
        superseded = self._db.scalars(q.TAKE_CORRECTIONS, values).all()
        if superseded:
            self.mark_payloads(superseded)

    def pin(self, facts: Sequence[FactId]) -> None:
        """Pin facts."""
        if facts:
            self._db.execute(q.PIN, {"t": self._tenant, "ids": list(facts)})

    def value_conflicts(self, source: ForestId, target: ForestId, limit: int) -> tuple[int, Sequence[ValueConflict]]:
        """How many pairs of facts give one attribute of one subject different values for the same time; some of them.

        A state without a time of its own holds from when it was said until the next one of its chain in its forest.
        """
        values = {"t": self._tenant, "source": source, "target": target, "both": [source, target], "n": max(1, limit)}
        rows = self._db.execute(q.VALUE_CONFLICTS, values).all()
        if not rows:
            return 0, []
        return int(rows[0].conflicts), [
            ValueConflict(
                subject=row.subject_key,
                attribute=row.attribute,
                source_fact=FactId(row.fact_id),
                source_text=row.text,
                source_value=row.value,
                target_fact=FactId(row.other_id),
                target_text=row.other_text,
                target_value=row.other_value,
                since=row.since,
            )
            for row in rows[:limit]
        ]

    def copy_vectors(self, source: ForestId, target: ForestId) -> None:
        """Give the target the vectors of what it has taken over from the source; its own stay."""
        self._db.execute(q.COPY_VECTORS, {"t": self._tenant, "source": source, "target": target})

    def copy_visits(self, source: ForestId, target: ForestId, renamed: Mapping[UUID, UUID]) -> None:
        """Add what was counted of items to what they became."""
        values = {"t": self._tenant, "source": source, "target": target}
        self._db.execute(q.COPY_VISITS, values | {"old": literal(renamed), "new": literal(renamed.values())})

    def vector_pages(self, forest: ForestId, model: str, size: int) -> Iterator[tuple[Sequence[FactId], Vectors]]:
        """Pages of a forest's live facts that have a vector, and those as rows of a matrix."""
        after = -1
        while True:
            values = {"t": self._tenant, "f": forest, "m": model, "after": after, "n": size}
            rows = self._db.execute(q.VECTORS, values).all()
            if not rows:
                return
            after = rows[-1].seq
            found = [row for row in rows if row.vector is not None]
            if found:
                yield [FactId(row.fact_id) for row in found], np.stack([from_bytes(row.vector) for row in found])

    def fact_count(self, forest: ForestId) -> int:
        """How many facts a forest has."""
        return sum(found.facts for found in self.forests([forest]))

    def statements(self, ids: Sequence[FactId]) -> Mapping[FactId, Statement]:
        """What these facts say, as far as they exist and are not superseded."""
        if not ids:
            return {}
        rows = self._db.execute(
            sa.select(m.FactRow.fact_id, m.FactRow.statement).where(
                m.FactRow.tenant_id == self._tenant,
                m.FactRow.fact_id.in_(list(dict.fromkeys(ids))),
                m.FactRow.superseded_at.is_(None),
            )
        )
        return {FactId(row.fact_id): from_document(row.statement) for row in rows}


def _names(names: Sequence[NamedSession]) -> dict[str, Any]:
    return {
        "old": [each.source for each in names],
        "new": [each.target for each in names],
        "names": [each.name for each in names],
    }


def _cell(row: sa.Row[Any]) -> StoredCell:
    return StoredCell(
        id=CellId(row.cell_id),
        session_id=SessionId(row.session_id),
        ordinal=row.ordinal,
        window=row.window_ordinal,
        first_turn=row.first_turn,
        last_turn=row.last_turn,
        char_start=row.char_start,
        start=row.start,
        end=row.end,
        settled=row.settled,
        next_item=row.next_item,
        next_correction=row.next_correction,
    )


def _fact(row: sa.Row[Any]) -> StoredFact:
    return StoredFact(
        id=FactId(row.fact_id),
        statement=from_document(row.statement),
        text_hash=bytes(row.text_hash),
        key=Key(row.key_time, row.key_ordinal, row.key_item, row.fact_id.hex),
        start=row.start,
        end=row.end,
        pinned=row.pinned,
        superseded=row.superseded,
        superseded_by=FactId(row.superseded_by) if row.superseded_by else None,
    )


class MergeStore:
    """Opens transactions of merges."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    @contextmanager
    def merging(self, tenant: TenantId) -> Iterator[MergeRows]:
        """One transaction of a tenant."""
        with tenant_transaction(self._engine, tenant) as connection:
            yield MergeRows(connection, tenant)
