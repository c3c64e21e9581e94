"""Finds which facts the target has, and copies one source in one transaction: sessions, cells, candidates, facts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from uuid import UUID

import numpy as np

from memforest_core.domain.facts import CORRECTED_ITEM
from memforest_core.domain.ids import CellId, FactId, ForestId, PayloadId, SessionId, cell_id, session_id
from memforest_core.errors import RetryableError
from memforest_core.ingest.reduce.canonical import NEAR_LIMIT, identify, mergeable
from memforest_core.lifecycle.hidden_forest_rows import StoredForest
from memforest_core.lifecycle.merge.records import (
    NAMED,
    CellCopy,
    Counted,
    FactCopy,
    ItemCopy,
    Meeting,
    Overlap,
    SessionPlan,
    StoredCell,
    StoredFact,
    StoredItem,
    StoredSession,
    Tally,
)
from memforest_core.lifecycle.merge.rows.merge_forests import MergeRows
from memforest_core.lifecycle.merge.transplanting import Successor
from memforest_core.lifecycle.merge.tree_union import Uniting
from memforest_core.memtree import Key
from memforest_core.models.calls import Vectors
from memforest_core.settings import Settings

PAGE = 2_000
"""Facts of each forest compared at once. The index does not help: what was just merged is not indexed yet."""


def near_duplicates(
    rows: MergeRows, model: str, source: ForestId, target: ForestId, threshold: float
) -> dict[FactId, FactId]:
    """For facts of the source the closest mergeable fact of the target, at least as close as ``threshold`` (cosine)."""
    twins: dict[FactId, FactId] = {}
    for ids, vectors in rows.vector_pages(source, model, PAGE):
        close: list[list[tuple[float, FactId]]] = [[] for _ in ids]
        for others, known in rows.vector_pages(target, model, PAGE):
            if known.shape[1] == vectors.shape[1]:
                note_nearest(close, vectors, others, known, threshold)
        some = [id_ for id_, found in zip(ids, close, strict=True) if found]
        said = rows.statements([*some, *{other for found in close for _, other in found}])
        for id_, found in zip(ids, close, strict=True):
            alike = (other for _, other in found if {id_, other} <= said.keys() and mergeable(said[other], said[id_]))
            if (twin := next(alike, None)) is not None:
                twins[id_] = twin
    return twins


def note_nearest(
    close: list[list[tuple[float, FactId]]],
    vectors: Vectors,
    others: Sequence[FactId],
    known: Vectors,
    threshold: float,
) -> None:
    """Put the nearest of these other facts among the ``NEAR_LIMIT`` that are ``close`` to each vector, best first as
    (negative cosine, id): of equally near ones the lower id, in whatever order they come."""
    # By id, so that of equal columns the first is the one wanted.
    order = sorted(range(len(others)), key=others.__getitem__)
    scores = vectors @ known[order].T
    least = scores.shape[1] - min(NEAR_LIMIT, scores.shape[1])
    hits = scores >= np.maximum(np.partition(scores, least, axis=1)[:, least, None], threshold)
    for row in np.flatnonzero(hits.any(axis=1)).tolist():
        columns = np.flatnonzero(hits[row])
        best = columns[np.argsort(-scores[row, columns], kind="stable")[:NEAR_LIMIT]].tolist()
        close[row] = sorted([*close[row], *((-float(scores[row, at]), others[order[at]]) for at in best)])[:NEAR_LIMIT]


@dataclass(frozen=True, slots=True)
class Reconciled:
    """The target's fact for each of the source's; the missing ones, with the fact that each is copied from."""

    facts: Mapping[FactId, FactId]
    missing: Mapping[FactId, StoredFact]
    exact: frozenset[FactId]
    near: frozenset[FactId]
    """Facts of the source that the target has in the same words, and in nearly the same."""


def reconcile(
    facts: Sequence[StoredFact], own: Mapping[FactId, FactId], there: frozenset[FactId], near: Mapping[FactId, FactId]
) -> Reconciled:
    """Match facts with the target's: by their own id first, else by a near duplicate that is still ``there``."""
    found: dict[FactId, FactId] = {}
    missing: dict[FactId, StoredFact] = {}
    exact: set[FactId] = set()
    alike: set[FactId] = set()
    for fact in facts:
        mine, twin = own[fact.id], near.get(fact.id)
        if mine in there:
            exact.add(fact.id)
        elif mine not in missing and twin is not None and twin in there and not fact.superseded:
            alike.add(fact.id)
            mine = twin
        else:
            missing.setdefault(mine, fact)
        found[fact.id] = mine
    return Reconciled(found, missing, frozenset(exact), frozenset(alike))


def names(external_id: str, owner: str) -> Iterator[str]:
    """The ids to try for a session: its own, then ones that say where it came from."""
    yield external_id
    yield f"{external_id}@{owner}"
    for number in count(2):
        yield f"{external_id}@{owner}#{number}"


def named(target: ForestId, session: StoredSession, name: str) -> SessionPlan:
    """A session of the source as a new one of the target, under this name."""
    return SessionPlan(session, session_id(target, name), name)


def meet(plan: SessionPlan, overlap: Overlap | None) -> SessionPlan | None:
    """What a session becomes under its name in the target; None when the target has other turns there."""
    if overlap is None:
        return plan
    if overlap.differs:
        return None
    longer = plan.source.turns > overlap.turns
    return replace(
        plan,
        meeting=Meeting.LONGER if longer else Meeting.SAME,
        first_turn=overlap.turns if longer else plan.source.turns,
        first_cell=overlap.cells,
    )


def place_cells(plans: Sequence[SessionPlan], cells: Sequence[StoredCell]) -> list[CellCopy]:
    """The cells to copy: all of new sessions, of longer ones the cells with turns that are missing in the target.

    ``cells`` are the source's, by session and ordinal.
    """
    by_session: dict[SessionId, list[StoredCell]] = defaultdict(list)
    for cell in cells:
        by_session[cell.session_id].append(cell)
    copies: list[CellCopy] = []
    for plan in plans:
        if plan.meeting is Meeting.SAME:
            continue
        later = [cell for cell in by_session[plan.source.id] if cell.last_turn >= plan.first_turn]
        for cell in later:
            head = max(cell.window, later[0].ordinal)
            shift = plan.first_cell - later[0].ordinal
            copies.append(
                CellCopy(
                    source=cell,
                    cell_id=cell_id(plan.target, cell.ordinal + shift),
                    session_id=plan.target,
                    ordinal=cell.ordinal + shift,
                    window_ordinal=head + shift,
                    first_turn=max(cell.first_turn, plan.first_turn),
                    cut=cell.first_turn < plan.first_turn,
                )
            )
    return copies


def place_items(
    items: Sequence[StoredItem],
    copies: Mapping[CellId, CellCopy],
    homes: Mapping[CellId, Sequence[StoredCell]],
    facts: Mapping[FactId, FactId],
    missing: Container[FactId],
) -> list[ItemCopy]:
    """Where the candidates of a source go.

    Those of copied cells stay with them. Of what both forests have read, only candidates of facts that are
    ``missing`` in the target (its ids in ``facts``) are copied: to the target's cell with their turns. ``homes``
    are the cells of the target's session for each source cell that is not copied whole.
    """
    taken: dict[tuple[CellId, bool], int] = {}
    placed: list[ItemCopy] = []
    for item in items:
        copy = copies.get(item.cell_id)
        fact = None if item.fact_id is None else facts[item.fact_id]
        if copy is not None and (not copy.cut or max(item.turns, default=-1) >= copy.first_turn):
            placed.append(ItemCopy(item.cell_id, item.item, copy.cell_id, item.item, copy.session_id, fact))
            continue
        if fact is None or fact not in missing or item.item < 0:
            continue
        home = _home(item, homes.get(item.cell_id, ()))
        if home is not None:
            correction = item.item >= CORRECTED_ITEM
            number = taken.get((home.id, correction), home.next_correction if correction else home.next_item)
            taken[home.id, correction] = number + 1
            placed.append(ItemCopy(item.cell_id, item.item, home.id, number, home.session_id, fact))
    return placed


def _home(item: StoredItem, cells: Sequence[StoredCell]) -> StoredCell | None:
    """The first settled cell with one of the item's turns, the last one by preference."""
    for turn in sorted(item.turns, reverse=True):
        for cell in cells:
            if cell.settled and cell.first_turn <= turn <= cell.last_turn:
                return cell
    return None


CORRECTED_S = 1.0
"""Seconds until the next check for a correction that waits for the reducer."""


@dataclass(slots=True)
class Switched:
    """What one switch did: the counts, and for people which sessions and facts met."""

    tally: Tally = field(default_factory=Counter)
    renamed: list[SessionPlan] = field(default_factory=list)
    exact: list[str] = field(default_factory=list)
    near: list[tuple[FactId, FactId]] = field(default_factory=list)


@dataclass(slots=True)
class Switching:
    """Copies one source into the target; the caller has locked both."""

    rows: MergeRows
    source: StoredForest
    target: StoredForest
    near: Mapping[FactId, FactId]
    settings: Settings
    done: Switched = field(default_factory=Switched)

    def run(self) -> Switched:
        """Copy everything; a constant number of statements, but for sessions of one id that contradict each other."""
        rows = self.rows.content
        rows.lock_cells(self.source.id)
        plans = self._sessions()
        self.rows.copy_speakers(self.source.id, self.target.id)
        rows.take_name(self.source.id, self.target.id)
        cells = rows.cells(self.source.id)
        copies = {copy.source.id: copy for copy in place_cells(plans, cells)}
        cut = self._turns_and_cells(plans, list(copies.values()))
        stored = rows.facts(self.source.id)
        reconciled, there = self._reconcile(stored)
        waiting = rows.items(self.source.id)
        items = self._items(waiting, plans, cells, copies, reconciled)
        attached = {item.fact_id for item in items if item.fact_id is not None}
        corrected = self._facts(stored, reconciled, waiting, attached)
        rows.add_items(items)
        successors = _cell_successors(copies.values(), cut) | self._fact_successors(stored, reconciled, there, attached)
        uniting = Uniting(self.rows, self.source, self.target, self.settings, self.done.tally)
        nodes = uniting.run({plan.source.id: plan for plan in plans}, successors)
        renamed: dict[UUID, UUID] = {id_: copy.cell_id for id_, copy in copies.items()}
        renamed |= {id_: fact for id_, fact in reconciled.facts.items() if fact in attached or fact in there}
        rows.take_corrections(corrected)
        rows.copy_vectors(self.source.id, self.target.id)
        self.rows.copy_visits(self.source.id, self.target.id, (renamed | dict(nodes)).items())
        return self.done

    def _sessions(self) -> list[SessionPlan]:
        """Find each session's place under its own id, or under one that says where it came from."""
        waiting = {
            session.id: (session, names(session.external_id, self.source.owner))
            for session in self.rows.content.sessions(self.source.id)
        }
        plans: list[SessionPlan] = []
        while waiting:
            tried = [named(self.target.id, session, next(ways)) for session, ways in waiting.values()]
            made = self.rows.content.add_sessions(self.source.owner, self.target.id, tried)
            overlaps = self.rows.content.overlaps([plan for plan in tried if plan.target not in made])
            met = [plan for each in tried if (plan := meet(each, overlaps.get(each.source.id))) is not None]
            plans += met
            for plan in met:
                del waiting[plan.source.id]
        self.done.renamed = [plan for plan in plans if plan.renamed]
        new = sum(plan.meeting is Meeting.NEW for plan in plans)
        self.done.tally[Counted.SESSIONS] += new
        self.done.tally[Counted.SESSIONS_SAME] += len(plans) - new
        self.done.tally[Counted.SESSIONS_CONFLICTING] += len(self.done.renamed)
        return sorted(plans, key=lambda plan: str(plan.target))

    def _turns_and_cells(
        self, plans: Sequence[SessionPlan], copies: Sequence[CellCopy]
    ) -> Mapping[CellId, tuple[int, int]]:
        """Copy what was said; what is left of cells that were cut."""
        rows = self.rows.content
        growing = [plan for plan in plans if plan.meeting is not Meeting.SAME]
        rows.add_turns(growing)
        rows.take_pins([plan for plan in plans if plan.meeting is not Meeting.NEW])
        added = Counter(copy.session_id for copy in copies)
        rows.lengthen(
            [(plan.source.id, plan.target, added[plan.target]) for plan in growing if plan.meeting is Meeting.LONGER]
        )
        rows.add_cells(self.target.id, copies)
        return rows.cut_texts([copy for copy in copies if copy.cut])

    def _reconcile(self, stored: Sequence[StoredFact]) -> tuple[Reconciled, dict[FactId, StoredFact]]:
        own = {fact.id: identify(self.target.id, fact.statement)[0] for fact in stored}
        found = self.rows.content.facts_of([*own.values(), *self.near.values()])
        there = {fact.id: fact for fact in found}
        reconciled = reconcile(stored, own, frozenset(there), self.near)
        self.done.exact = [fact.statement.text for fact in stored if fact.id in reconciled.exact][:NAMED]
        self.done.near = [(id_, reconciled.facts[id_]) for id_ in sorted(reconciled.near, key=str)[:NAMED]]
        self.done.tally[Counted.FACTS_EXACT] += len(reconciled.exact)
        self.done.tally[Counted.FACTS_NEAR] += len(reconciled.near)
        return reconciled, there

    def _items(
        self,
        waiting: Sequence[StoredItem],
        plans: Sequence[SessionPlan],
        cells: Sequence[StoredCell],
        copies: Mapping[CellId, CellCopy],
        reconciled: Reconciled,
    ) -> list[ItemCopy]:
        shared = {plan.source.id: plan.target for plan in plans if plan.meeting is not Meeting.NEW}
        theirs: dict[SessionId, list[StoredCell]] = defaultdict(list)
        for cell in self.rows.content.cells_of(list(shared.values())):
            theirs[cell.session_id].append(cell)
        homes = {cell.id: theirs[shared[cell.session_id]] for cell in cells if cell.session_id in shared}
        if any(item.pending is not None and item.cell_id in homes for item in waiting):
            # Once it is placed, it is a fact like others.
            raise RetryableError("A correction of the source is not placed yet.", retry_after=CORRECTED_S)
        return place_items(waiting, copies, homes, reconciled.facts, frozenset(reconciled.missing))

    def _facts(
        self, stored: Sequence[StoredFact], reconciled: Reconciled, waiting: Sequence[StoredItem], attached: set[FactId]
    ) -> list[FactCopy]:
        """Copy the missing facts; a fact without a candidate in the target is not copied."""
        became = dict(reconciled.facts)
        for item in waiting:
            # The successor of a corrected fact may not be placed yet.
            if item.pending is not None:
                became[identify(self.source.id, item.pending)[0]] = identify(self.target.id, item.pending)[0]

        def copied(fact: StoredFact) -> FactCopy:
            by = fact.superseded_by
            return FactCopy(fact.id, reconciled.facts[fact.id], None if by is None else became.get(by, by))

        copies = [copied(fact) for id_, fact in reconciled.missing.items() if id_ in attached]
        self.rows.content.copy_facts(self.target.id, copies)
        self.done.tally[Counted.FACTS] += len(copies)
        return [copied(fact) for fact in stored if fact.id in reconciled.exact and fact.superseded]

    def _fact_successors(
        self,
        stored: Sequence[StoredFact],
        reconciled: Reconciled,
        there: Mapping[FactId, StoredFact],
        attached: set[FactId],
    ) -> dict[PayloadId, Successor]:
        pinned = [
            reconciled.facts[fact.id]
            for fact in stored
            if fact.pinned and (twin := there.get(reconciled.facts[fact.id])) is not None and not twin.pinned
        ]
        self.rows.content.pin(pinned)
        successors: dict[PayloadId, Successor] = {}
        for fact in stored:
            id_ = reconciled.facts[fact.id]
            holder = there.get(id_) or (reconciled.missing[id_] if id_ in attached else None)
            if holder is not None:
                successors[PayloadId(fact.id)] = _successor(fact, holder, id_)
        return successors


def _successor(fact: StoredFact, holder: StoredFact, id_: FactId) -> Successor:
    key = Key(holder.key.time, holder.key.ordinal, holder.key.item, id_.hex)
    same = (fact.key[:3], fact.start, fact.end, fact.text_hash) == (
        holder.key[:3],
        holder.start,
        holder.end,
        holder.text_hash,
    )
    return Successor(PayloadId(id_), key, holder.start, holder.end, same)


def _cell_successors(copies: Collection[CellCopy], cut: Mapping[CellId, tuple[int, int]]) -> dict[PayloadId, Successor]:
    successors: dict[PayloadId, Successor] = {}
    for copy in copies:
        start, end = cut.get(copy.cell_id, (copy.source.start, copy.source.end))
        key = Key(0, copy.first_turn, copy.source.char_start, copy.cell_id.hex)
        successor = Successor(PayloadId(copy.cell_id), key, start, end, not copy.cut)
        successors[PayloadId(copy.source.id)] = successor
    return successors
