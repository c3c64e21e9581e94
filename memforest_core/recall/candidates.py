"""Reads the candidates of a recall from the store: cells, their turns and facts, and the session trees above them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from heapq import nlargest
from uuid import UUID

from memforest_core.domain.ids import FactId, TenantId, TreeKind
from memforest_core.domain.scoring import Scores, Weights, floor_of, fused
from memforest_core.domain.text import terms
from memforest_core.domain.turns import Role
from memforest_core.index.vector_index import PointKind
from memforest_core.recall.browse import Browsed
from memforest_core.recall.index_search import IndexSearch
from memforest_core.recall.question import Question
from memforest_core.recall.records import Above, CellRef, FactHead, Link, States, TextsById, TurnHead, TurnKey
from memforest_core.recall.request import ALWAYS, Bounds, Request, touches
from memforest_core.recall.rows.recall_rows import RecallRows
from memforest_core.recall.signal_table import Candidate
from memforest_core.store.owners import ForestRef

OCCURRENCES_PER_FACT = 4
"""Of a fact that was said often, as many of the cells that said it last become candidates."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """The candidates of one recall in one forest."""

    cells: Mapping[UUID, CellRef]
    turns: Mapping[TurnKey, TurnHead]
    links: Collection[Link]
    """Occurrences of facts that are not known to be wrong."""
    heads: Mapping[FactId, FactHead]
    sentences: bool
    """Whether facts are delivered as evidence items; else each only points to its turn."""
    sessions: Mapping[UUID, tuple[UUID, UUID]] = field(default_factory=dict)
    """By cell, the lowest node above it in its session's tree and that tree's root."""
    corrections: Mapping[TurnKey, tuple[FactId, ...]] = field(default_factory=dict)
    """The facts that correct what each turn says."""

    def facts_by_turn(self) -> dict[TurnKey, list[FactId]]:
        """Which facts each turn says."""
        said: dict[TurnKey, list[FactId]] = defaultdict(list)
        for link in self.links:
            for ordinal in link.turn_ordinals:
                facts = said[link.session_id, ordinal]
                if link.fact_id not in facts:
                    facts.append(link.fact_id)
        return said

    def writes(self, fact: FactId) -> bool:
        """Whether a model wrote the fact's sentence: then it is delivered as an evidence item of its own."""
        head = self.heads.get(fact)
        return self.sentences and head is not None and not head.pointer

    def voters(self) -> dict[UUID, PointKind]:
        """Every point whose score counts for some candidate, with its kind."""
        voters: dict[UUID, PointKind] = dict.fromkeys(self.cells, PointKind.CELL)
        voters.update((link.fact_id, PointKind.FACT) for link in self.links)
        voters.update((node, PointKind.NODE) for nodes in self.sessions.values() for node in nodes)
        return voters


@dataclass(slots=True)
class Scope:
    """A forest of a recall: the bounds of the evidence, and what each stage found in it."""

    tenant: TenantId
    forest: ForestRef
    bounds: Bounds
    degraded: list[str] = field(default_factory=list)
    unindexed: TextsById = field(default_factory=dict)
    """The latest cells that are not indexed yet, at most one more than ``RAW_LIMIT``."""
    unsure: bool = False
    """Whether more may be missing in the index: after it was lost or restored, until it was compared."""
    cold: str | None = None
    """An id of the set of cold topics; None when nothing is out of the index because its topics are cold."""
    states: States = field(default_factory=States)
    """The states that the question is about, which are current or were before."""
    search: IndexSearch = field(init=False)
    candidates: Candidates = field(init=False)
    browsed: Browsed = field(default_factory=Browsed)
    above: list[Above] = field(default_factory=list)
    """What is above the hits of the flat search."""
    links: list[Link] = field(default_factory=list)
    """Where the facts among the hits were said."""
    outside_cells: Mapping[UUID, float] = field(default_factory=dict)
    """Cells that are not in the index, too new or cold, with how much of the question each has, in (0, 1]."""
    outside_facts: Mapping[UUID, float] = field(default_factory=dict)
    """The same of facts of cold topics."""
    near: Mapping[FactId, float] = field(default_factory=dict)
    """How near facts are to a question about a series of statements; empty for most questions."""
    texts: dict[UUID, str] = field(default_factory=dict)
    """The texts of the best cell and the best fact by words."""

    def held(self, question: Question) -> float:
        """How much of the question's words the best hit by words has, from 0 to 1."""
        most = max((len(question.held(terms(text))) for text in self.texts.values()), default=0)
        return most / max(1, len(question.wanted))


def read_candidates(
    rows: RecallRows,
    forest: ForestRef,
    request: Request,
    bounds: Bounds,
    cells: Iterable[UUID],
    said: Sequence[Link],
    above: Iterable[Above],
    *,
    sentences: bool,
    session_trees: bool,
) -> Candidates:
    """Read the cells, those in which facts are ``said``, all their facts, and what is above them in the trees of their
    sessions as far as that is not known from ``above``."""
    until = bounds.said_until
    wanted = list(dict.fromkeys([*cells, *(link.cell_id for link in said)]))
    placed = [each for each in above if session_trees and each.kind is TreeKind.SESSION]
    missing = set(wanted).difference(each.payload for each in placed) if session_trees else ()
    (known, heads_of_turns), occurrences, others = rows.together(
        rows.cells(forest.id, wanted),
        rows.links_of_cells(wanted, until),
        rows.lowest_above([cell for cell in wanted if cell in missing], frozenset({TreeKind.SESSION})),
    )
    found: dict[UUID, CellRef] = {cell.id: cell for cell in known}
    if len(found) < len(wanted):
        occurrences = [link for link in occurrences if link.cell_id in found]
    links = [link for link in occurrences if link.superseded_by is None]
    timed = bounds.between != ALWAYS or bounds.about != ALWAYS
    heads = rows.fact_heads(list(dict.fromkeys(link.fact_id for link in links))) if sentences or timed else []
    turns: Mapping[TurnKey, TurnHead] = {(turn.session_id, turn.ordinal): turn for turn in heads_of_turns}
    if (test := request.metadata) is not None:
        noted = rows.one(rows.metadata(list(turns)))
        turns = {key: turn for key, turn in turns.items() if key in noted and test(noted[key].merged)}
    return Candidates(
        cells=found,
        turns=turns,
        links=links,
        heads={head.id: head for head in heads},
        sentences=sentences,
        sessions={each.payload: (each.lowest, each.root) for each in (*placed, *others) if each.payload in found},
        corrections=_corrections(occurrences),
    )


def shortlist(
    most: int,
    cells: Collection[UUID],
    said: Sequence[Link],
    scores: tuple[Scores, Scores],
    weights: Weights,
    always: Collection[UUID],
) -> list[UUID]:
    """At most ``most`` of the cells, and of those in which facts are ``said``: the best by the ``scores`` of cells and
    facts, and those of ``always`` (cells and facts), which have no scores or must be there.

    A cell has its own score and that of its best fact, as it will when all signals vote. Nodes above it and neighbours
    lift it later by less than the cells that are left out are behind.
    """
    floor = floor_of([*scores[0].dense.values(), *scores[1].dense.values()])
    own, of_facts = (fused(each, weights, floor=floor) for each in scores)
    total = {cell: weights["cell"] * own.get(cell, 0.0) for cell in cells}
    best: dict[UUID, float] = {}
    required: dict[UUID, None] = {cell: None for cell in total if cell in always}
    for link in said:
        best[link.cell_id] = max(best.get(link.cell_id, 0.0), of_facts.get(link.fact_id, 0.0))
        if link.fact_id in always:
            required[link.cell_id] = None
    for cell, score in best.items():
        total[cell] = total.get(cell, 0.0) + weights["fact"] * score
    if len(total) <= most:
        return list(total)
    return list(dict.fromkeys([*required, *nlargest(most, total, key=total.__getitem__)]))


def table_rows(
    candidates: Candidates, scope: int, question: Question, owner: str, bounds: Bounds, given: Mapping[UUID, int]
) -> list[Candidate]:
    """The candidates of a forest within the bounds, as rows of the table; ``given`` are the positions that a chat model
    gave to cells and facts, 0 the best.

    A turn competes with its own text; in addition each sentence that a model wrote about it competes for itself.
    """
    said = candidates.facts_by_turn()
    named: dict[tuple[str, str], bool] = {}
    timed, limited = bounds.between != ALWAYS or bounds.about != ALWAYS, bounds.limited
    found: dict[tuple[UUID | None, tuple[UUID, int, int]], Candidate] = {}
    for cell in candidates.cells.values():
        interval, root = candidates.sessions.get(cell.id, (None, None))
        for key in cell_turns(cell):
            head = candidates.turns.get(key)
            if head is None or (limited and not bounds.allow(head)):
                continue
            facts = said.get(key, [])
            written = [fact for fact in facts if candidates.writes(fact)] if candidates.sentences else []
            pointing = [fact for fact in facts if not candidates.writes(fact)] if written else facts
            who = (head.speaker_id, head.name)
            if who not in named:
                named[who] = (question.first_person and head.speaker_id == owner) or question.names(head.name)
            place = (cell.session_id, key[1], cell.char_start or 0)
            before = candidates.turns.get((cell.session_id, key[1] - 1))
            answers = before is not None and before.is_question and before.speaker_id != head.speaker_id
            for fact, voices in ((None, pointing), *((fact, [fact]) for fact in written)):
                spans = list(_spans(head, [candidates.heads.get(voice) for voice in voices])) if timed else []
                if timed and not touches(spans, bounds.between):
                    continue
                found[fact, place] = Candidate(
                    scope=scope,
                    place=place,
                    cell=cell.id,
                    facts=tuple(voices),
                    turn=head,
                    interval=interval,
                    root=root,
                    named_speaker=named[who],
                    in_time=bounds.about != ALWAYS and touches(spans, bounds.about),
                    position=_position(given, (cell.id, *voices)) if given else None,
                    fact=fact,
                    answers=answers,
                    unread=fact is None and not written and (head.role == Role.TOOL or cell.char_start is not None),
                )
    return list(found.values())


def cell_turns(cell: CellRef) -> list[TurnKey]:
    """The turns of a cell."""
    return [(cell.session_id, ordinal) for ordinal in range(cell.first_turn, cell.last_turn + 1)]


def _position(given: Mapping[UUID, int], points: Iterable[UUID]) -> int | None:
    return min((given[id_] for id_ in points if id_ in given), default=None)


def _spans(head: TurnHead, facts: Sequence[FactHead | None]) -> Iterator[tuple[datetime, datetime]]:
    """When a turn was said, and when what its facts say happened."""
    yield head.occurred_at, head.occurred_at
    for fact in facts:
        if fact is not None and fact.time_start is not None and fact.time_end is not None:
            yield fact.time_start, fact.time_end


def _corrections(occurrences: Iterable[Link]) -> dict[TurnKey, tuple[FactId, ...]]:
    """The facts that correct wrong facts, by the turn that says the wrong ones."""
    found: dict[TurnKey, dict[FactId, None]] = defaultdict(dict)
    for link in occurrences:
        right = link.superseded_by or (link.fact_id if link.corrected else None)
        if right is not None:
            for ordinal in link.turn_ordinals:
                found[link.session_id, ordinal][right] = None
    return {turn: tuple(facts) for turn, facts in found.items()}
