"""Reads the candidates of a forest from the store: cells, their turns and facts, and the roots of their sessions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import nlargest
from uuid import UUID

from memforest_core.domain.ids import FactId, SessionId, TenantId
from memforest_core.domain.scoring import Scores, Weights, floor_of, fused
from memforest_core.domain.text import terms
from memforest_core.index.vector_index import PointKind
from memforest_core.recall.browse import Browsed
from memforest_core.recall.index_search import IndexSearch
from memforest_core.recall.passages import NEAR
from memforest_core.recall.question import Question
from memforest_core.recall.records import (
    CellRef,
    CellTokens,
    FactHead,
    Link,
    Said,
    States,
    TextsById,
    TurnHead,
    TurnKey,
)
from memforest_core.recall.request import ALWAYS, Bounds, Request
from memforest_core.recall.rows.recall_rows import RecallRows
from memforest_core.store.owners import ForestRef

MOST_TOKENS = 120
"""Cells whose token vectors are read with them; of more, those of the best candidates."""
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
    roots: Mapping[SessionId, UUID] = field(default_factory=dict)
    """The roots of the trees of sessions."""
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
        voters.update((root, PointKind.NODE) for root in self.roots.values())
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
    outside_cells: Mapping[UUID, float] = field(default_factory=dict)
    """Cells that are not in the index, too new or cold, with how much of the question each has, in (0, 1]."""
    outside_facts: Mapping[UUID, float] = field(default_factory=dict)
    """The same of facts of cold topics."""
    near: Mapping[FactId, float] = field(default_factory=dict)
    """How near facts are to a question about a series of statements; empty for most questions."""
    texts: TextsById = field(default_factory=dict)
    """The texts of the best cell and the best fact by words, where something is compared with them."""
    said: dict[TurnKey, str] = field(default_factory=dict)
    """The contents of turns that were read."""
    tokens_of: str = ""
    """The embedding model whose token vectors are compared with the question's; empty for none."""
    tokens: Mapping[UUID, CellTokens] | None = None
    """Those of all candidates; None until they are read."""

    def held(self, question: Question) -> float:
        """How much of the question's words the best hit by words has, from 0 to 1."""
        most = max((len(question.held(terms(text))) for text in self.texts.values()), default=0)
        return most / max(1, len(question.wanted))

    def read_turns(self, rows: RecallRows, keys: Iterable[TurnKey]) -> Mapping[TurnKey, str]:
        """The contents of these turns and of those read before; each is read once."""
        if missing := [key for key in dict.fromkeys(keys) if key not in self.said]:
            found = rows.one(rows.turn_texts(missing))
            self.said |= found
        return self.said


def read_candidates(
    rows: RecallRows,
    scope: Scope,
    request: Request,
    cells: Iterable[UUID],
    said: Sequence[Said],
    topics: Sequence[UUID] = (),
    *,
    sentences: bool,
) -> Candidates:
    """Read the cells, those in which facts are ``said``, those shortly behind the ``topics``, all facts of the first
    two, and the roots of their sessions' trees."""
    bounds = scope.bounds
    wanted = list(dict.fromkeys([*cells, *(cell for _, cell in said)]))
    # Of few cells one wait for all.
    few = wanted if scope.tokens_of and len(wanted) <= MOST_TOKENS and not request.owners else []
    (known, heads_of_turns), occurrences, tokens = rows.together(
        rows.cells(scope.forest.id, wanted, topics, NEAR),
        rows.links_of_cells(wanted, bounds.said_until),
        rows.tokens(scope.forest.id, scope.tokens_of, few),
    )
    scope.tokens = tokens if few else None
    found: dict[UUID, CellRef] = {cell.id: cell for cell in known}
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
        roots={cell.session_id: cell.root for cell in known if cell.root is not None} if request.session_trees else {},
        corrections=_corrections(occurrences),
    )


def shortlist(
    most: int,
    cells: Collection[UUID],
    said: Sequence[Said],
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
    for fact, cell in said:
        best[cell] = max(best.get(cell, 0.0), of_facts.get(fact, 0.0))
        if fact in always:
            required[cell] = None
    for cell, score in best.items():
        total[cell] = total.get(cell, 0.0) + weights["fact"] * score
    if len(total) <= most:
        return list(total)
    return list(dict.fromkeys([*required, *nlargest(most, total, key=total.__getitem__)]))


def _corrections(occurrences: Iterable[Link]) -> dict[TurnKey, tuple[FactId, ...]]:
    """The facts that correct wrong facts, by the turn that says the wrong ones."""
    found: dict[TurnKey, dict[FactId, None]] = defaultdict(dict)
    for link in occurrences:
        right = link.superseded_by or (link.fact_id if link.corrected else None)
        if right is not None:
            for ordinal in link.turn_ordinals:
                found[link.session_id, ordinal][right] = None
    return {turn: tuple(facts) for turn, facts in found.items()}
