"""Candidates of several forests, and of sources beside them, on one scale: each list is scaled by its best of all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

from memforest_core.domain.asked_order import Order, order_of
from memforest_core.domain.attributes import answering_terms
from memforest_core.domain.codes import codes
from memforest_core.domain.ordering import Moment
from memforest_core.domain.scoring import Item, Scores, Voted, Weights, best_first, coverage, vote
from memforest_core.domain.text import terms
from memforest_core.index.vector_index import PointKind
from memforest_core.models.token_vectors import Unit
from memforest_core.recall.current import Current, current_first
from memforest_core.recall.exact import exact_first, names
from memforest_core.recall.gathering import Gathered, Place, RawHits, covering
from memforest_core.recall.index_search import best_of_words
from memforest_core.recall.items import ALWAYS, Bounds, items
from memforest_core.recall.late_interaction import LOOKED_AT, nearer_first
from memforest_core.recall.ordering import in_order
from memforest_core.recall.question import Question
from memforest_core.recall.records import CellTokens, FoundText
from memforest_core.recall.related.shares import told_apart
from memforest_core.recall.rows.reading import RecallStore
from memforest_core.recall.series import Place as PieceKey
from memforest_core.recall.series import Placed, certain, dated_first, in_series
from memforest_core.recall.sources import SourcePiece

NOT_APART = "The vector index is away: what related words gave is not told apart."

LEAST = 0.2
"""Share of their weight that words keep, however little of the question the best hit holds."""


@dataclass(frozen=True, slots=True)
class Part:
    """What one forest has for a question."""

    place: Place
    gathered: Gathered
    current: Current

    def held(self, question: Question) -> float:
        """How much of the question's words the best hit by words holds, from 0 to 1."""
        most = max((len(question.held(terms(text))) for text in self.gathered.told.values()), default=0)
        return most / max(1, len(question.wanted))

    def held_outside(self) -> float:
        """The same of what is not in the index: cells that are too new, and those of cold topics."""
        beside = (self.gathered.raw, self.gathered.cold)
        return max((share for each in beside for share in each.coverage.values()), default=0.0)


@dataclass(frozen=True, slots=True)
class Pool:
    """All that competes in one recall: parts of forests, and pieces of sources with their bounds."""

    parts: Sequence[Part]
    pieces: Sequence[SourcePiece] = ()
    bounds: Bounds = field(default_factory=Bounds)

    def voted(self, question: Question, weights: Weights, enough_words: float = 0.0) -> list[Voted]:
        """Every candidate with its votes, the best first. One forest alone is scored as if there were no others."""
        cells, facts, nodes = self._lists(question)
        found: list[Item] = []
        for part in self.parts:
            found += self.items(part, question)
        found += [piece.item(self.bounds) for piece in self.pieces]
        return vote(found, cells, facts, nodes, self._weights(question, weights, enough_words))

    def items(self, part: Part, question: Question) -> list[Item]:
        """The pieces that a part's candidates can be delivered as."""
        place, gathered = part.place, part.gathered
        return items(gathered.candidates, question, place.forest.owner, place.bounds, gathered.leaves.positions)

    def related_apart(
        self, voted: Sequence[Voted], first: int, question: Question, weights: Weights, enough_words: float
    ) -> list[Voted]:
        """The candidates, the ``first`` of them with what related words gave them as a signal of its own."""
        shares: dict[UUID, float] = {}
        for part, own in self.shares(voted[:first]) if self.parts else ():
            search, points = part.gathered.search, dict.fromkeys((one.item.cell for one in own), PointKind.CELL)
            was_there = search.failure is None
            shares |= search.related_shares(points | {fact: PointKind.FACT for one in own for fact in one.item.facts})
            if was_there and search.failure is not None:
                part.gathered.degraded.append(NOT_APART)
        if not shares:
            return list(voted)
        cells, facts, _ = self._lists(question)
        return told_apart(voted, shares, cells, facts, self._weights(question, weights, enough_words))

    def _lists(self, question: Question) -> tuple[Scores, Scores, Scores]:
        """The scores of all cells, facts and nodes on one scale."""
        cells, facts, nodes = (_united(lists) for lists in zip(*self._scores(question), strict=True))
        beside = [each for part in self.parts for each in (part.gathered.raw, part.gathered.cold)]
        unseen = {id_: share for each in beside for id_, share in each.coverage.items()}
        RawHits(unseen, (), {id_: share for each in beside for id_, share in each.facts.items()}).join(cells, facts)
        self._add_pieces(question, cells, facts)
        return cells, facts, nodes

    def _weights(self, question: Question, weights: Weights, enough_words: float) -> Weights:
        """The weights for this question."""
        weights = replace(weights, lexical=weights.lexical * self._trusted(question, enough_words))
        if order_of(question.text).order is Order.NONE:
            return weights
        # One state is asked for: what stands between two tellings of others is no better for it.
        return replace(weights, next_but_one=0.0)

    def nearer_first(
        self, store: RecallStore, voted: list[Voted], model: str, tokens: Unit, weight: float
    ) -> list[Voted]:
        """The candidates as their tokens come near to those of the question, whose best one of all forests gets
        ``weight`` times the best score."""
        if not voted:
            return voted
        cells: dict[UUID, CellTokens] = {}
        for part, own in self.shares(voted[:LOOKED_AT]) if self.parts else ():
            with store.recalling(part.place.tenant) as rows:
                wanted = list(dict.fromkeys(one.item.cell for one in own))
                found = rows.one(rows.tokens(part.place.forest.id, model, wanted))
            cells |= found
        return nearer_first(voted, cells, tokens, weight * voted[0].score)

    def ordered(self, store: RecallStore, voted: list[Voted], question: Question, weight: float) -> list[Voted]:
        """The candidates as the question's order of time lifts them, within each forest."""
        if weight <= 0 or order_of(question.text).order is Order.NONE:
            return voted
        lifted: list[Voted] = []
        wordless = not answering_terms(question.terms, question.spoken)
        for part, own in self.shares(voted):
            if wordless and part.gathered.near:
                lifted += own
                continue
            with store.recalling(part.place.tenant) as rows:
                lifted += in_order(rows, part.gathered.candidates, own, question, weight)
        return self._with_pieces(lifted, voted)

    def in_series(self, store: RecallStore, voted: list[Voted], question: Question, weight: float) -> Placed:
        """The candidates, those lifted that tell what the question asks for of a series, within each forest."""
        if weight <= 0 or not any(part.gathered.near for part in self.parts):
            return Placed(voted)
        lifted: list[Voted] = []
        near: dict[PieceKey, tuple[float, Moment]] = {}
        for part, own in self.shares(voted):
            if part.held_outside() > part.held(question):
                # The order of what the index holds says nothing of what it lacks, and that tells more.
                lifted += own
                continue
            with store.recalling(part.place.tenant) as rows:
                gathered, owner = part.gathered, part.place.forest.owner
                placed = in_series(rows, gathered.candidates, gathered.near, own, question, owner, weight)
            lifted += placed.voted
            near |= placed.near if not gathered.candidates.sentences else {}
        return Placed(self._with_pieces(lifted, voted), near)

    def dated_first(self, voted: list[Voted], question: Question, weight: float) -> list[Voted]:
        """The candidates, those first that lie in the time that the question asks for, if it asks for nothing else:
        they get ``weight`` times the best score of all forests."""
        if weight <= 0 or self.bounds.about == ALWAYS or not voted:
            return voted
        most, lifted = weight * voted[0].score, list[Voted]()
        for part, own in self.shares(voted):
            lifted += dated_first(part.gathered.candidates, own, question, part.place.forest.owner, most)
        return self._with_pieces(lifted, voted)

    def exact_first(self, store: RecallStore, voted: list[Voted], question: Question, weight: float) -> list[Voted]:
        """The candidates, those first whose own turns hold the codes that the question has; of most it has none. They
        get ``weight`` times the best score of all forests. Who speaks is no code: "What did user-17 say?"."""
        wanted = codes(question.text)
        if weight <= 0 or not wanted or not voted:
            return voted
        lifted: list[Voted] = []
        for part, own in self.shares(voted):
            things = wanted - names(part.gathered.candidates.turns.values())
            if not things:
                lifted += own
                continue
            with store.recalling(part.place.tenant) as rows:
                lifted += exact_first(rows, own, things, weight * voted[0].score)
        return self._with_pieces(lifted, voted)

    def _with_pieces(self, lifted: Iterable[Voted], voted: Sequence[Voted]) -> list[Voted]:
        """What forests have, lifted, and the pieces of sources, best first."""
        ids = self.by_id
        return best_first([*lifted, *(one for one in voted if one.item.cell in ids)])

    def current_first(self, placed: Placed, weight: float) -> list[Voted]:
        """The candidates, those first that tell the states that the question asks for, of all forests."""
        states = tuple(told for part in self.parts for told in part.current.states)
        read = frozenset(fact for part in self.parts for fact in part.current.read)
        signal = next((part.current.signal for part in self.parts if part.current.states), Current().signal)
        return current_first(placed.voted, certain(Current(states, signal, read), placed.voted, placed.near), weight)

    def shares(self, voted: Sequence[Voted]) -> list[tuple[Part, list[Voted]]]:
        """Each part with its own of these candidates, in their order."""
        if self.alone:
            return [(self.parts[0], list(voted))]
        return [
            (part, [one for one in voted if one.item.cell in part.gathered.candidates.cells]) for part in self.parts
        ]

    @property
    def alone(self) -> bool:
        """Whether there is one forest and nothing beside it."""
        return len(self.parts) == 1 and not self.pieces

    @property
    def by_id(self) -> Mapping[UUID, SourcePiece]:
        """The pieces of sources, by the ids that they compete under."""
        return {piece.id: piece for piece in self.pieces}

    def _scores(self, question: Question) -> list[tuple[Scores, Scores, Scores]]:
        """The scores of cells, facts and nodes of each part; three empty ones without a part.

        Cosines compare between forests. BM25 does not: a term is rarer in a larger forest. So of several forests each
        one's list is scaled until its best hit has as much as it holds of the question, by terms that are rare among
        the best hits of all.
        """
        searches = [part.gathered.search for part in self.parts]
        lists = [(search.cells, search.facts, search.nodes) for search in searches]
        if len(lists) < 2:
            return lists or [(Scores(), Scores(), Scores())]
        texts = {id_: question.held(terms(text)) for part in self.parts for id_, text in part.gathered.told.items()}
        shares = dict(zip(texts, coverage(question.wanted, list(texts.values())), strict=True))
        compared = []
        for cells, facts, nodes in lists:
            of_cells = _factor(cells, shares)
            compared.append((_times(cells, of_cells), _times(facts, _factor(facts, shares)), _times(nodes, of_cells)))
        return compared

    def _trusted(self, question: Question, enough: float) -> float:
        """The share of their weight that words have: all of it where the best hit by words holds the share ``enough``
        of the question's words, less where it holds less. Every list is divided by its best, so that one word in common
        would otherwise count as much as all of them.
        """
        shares = [part.held(question) for part in self.parts if part.gathered.told]
        shares += [share for part in self.parts if (share := part.held_outside()) > 0.0]
        if not shares or enough <= 0.0:
            return 1.0
        return min(1.0, max(LEAST, max(shares) / enough))

    def _add_pieces(self, question: Question, cells: Scores, facts: Scores) -> None:
        """Give the pieces of sources their cosines, and for their words what a text gets that the index has not seen:
        full coverage of the question equals the best hit."""
        held = covering(question, [FoundText(piece.id, piece.text) for piece in self.pieces])
        for scores in (cells, facts) if self.pieces else ():
            best = max(scores.lexical.values(), default=1.0)
            scores.lexical |= {id_: share * best for id_, share in held.items()}
            scores.dense |= {piece.id: piece.cosine for piece in self.pieces}


def _united(lists: Iterable[Scores]) -> Scores:
    united = Scores()
    for scores in lists:
        united = united | scores
    return united


def _factor(scores: Scores, shares: Mapping[UUID, float]) -> float:
    """By what a list's scores by words are to be multiplied, so that its best one has its share of the question."""
    best = best_of_words(scores)
    top = 0.0 if best is None else scores.lexical[best]
    return shares.get(best, 0.0) / top if best is not None and top > 0.0 else 1.0


def _times(scores: Scores, factor: float) -> Scores:
    return Scores({id_: factor * score for id_, score in scores.lexical.items()}, scores.dense)
