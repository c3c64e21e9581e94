"""Scores the candidates of all forests and sources of a recall in one table: signals vote, then stages lift rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from memforest_core.domain.codes import codes
from memforest_core.domain.scoring import Scores, Weights, coverage
from memforest_core.domain.temporal_question import Order, order_of
from memforest_core.domain.text import terms
from memforest_core.index.vector_index import PointKind
from memforest_core.models.token_vectors import Packed, Unit, unpack
from memforest_core.recall.candidates import Scope, table_rows
from memforest_core.recall.index_search import best_of_words
from memforest_core.recall.question import Question
from memforest_core.recall.records import CellTokens, TurnKey
from memforest_core.recall.request import Bounds
from memforest_core.recall.retrieve import Clock, covering
from memforest_core.recall.rows.recall_rows import RecallStore
from memforest_core.recall.signal_table import SIGNALS, Candidate, Column, Table, Votes
from memforest_core.recall.sources import SourceItem
from memforest_core.recall.temporal import Texts, lift_in_time, lift_states

LOOKED_AT = 100
"""The best candidates whose cells' token vectors are read. 300 found no more."""
LONG = 0.06
"""What a candidate loses times the logarithm of its tokens: the more there are, the nearer the nearest of them is by
chance. 0.03 to 0.08 do about the same."""


def token_column(rows: Sequence[Candidate], cells: Mapping[UUID, CellTokens], question: Unit) -> Column:
    """How near candidates come to the question's tokens, from 0 to 1 for the nearest.

    What comes no nearer than the median of them has nothing, and so has a candidate without token vectors.
    """
    found: Column = np.zeros(len(rows))
    read = [at for at, row in enumerate(rows) if row.cell in cells]
    if read and len(question):
        texts = [_token_vectors(rows[at], cells[rows[at].cell]) for at in read]
        found[read] = above_median(likeness(nearest(texts, question), list(map(len, texts))))
    return found


def nearest(texts: Sequence[Packed], question: Unit) -> NDArray[np.float32]:
    """The likeness of the nearest token of each text, of one at least, to each of the question's, shape (texts,
    tokens); all are compared at once."""
    starts = np.cumsum([0, *map(len, texts[:-1])])
    found: NDArray[np.float32] = np.maximum.reduceat(unpack(np.concatenate(texts)) @ question.T, starts, axis=0)
    return found


def likeness(near: NDArray[np.float32], lengths: Sequence[int]) -> NDArray[np.float32]:
    """How near texts of so many tokens come to a question, of the likeness of their ``nearest`` tokens.

    A token of the question counts by how far the best text is ahead of the median, times its rarity: BM25's, where a
    text that comes more than half of that way has the token.
    """
    best, middle = near.max(axis=0), np.median(near, axis=0)
    having = (near > (best + middle) / 2).sum(axis=0)
    weights = (best - middle) * np.log(1 + (len(near) - having + 0.5) / (having + 0.5))
    total = weights.sum()
    if total <= 0:
        return np.zeros(len(near), np.float32)
    mean: NDArray[np.float32] = (near @ weights / total - LONG * np.log(lengths)).astype(np.float32)
    return mean


def above_median(scores: NDArray[np.float32]) -> NDArray[np.float32]:
    """Scores from 0 for their median, and for what is below it, to 1 for the best of them."""
    middle, best = np.median(scores), scores.max()
    if best <= middle:
        return np.zeros_like(scores)
    parts: NDArray[np.float32] = np.clip((scores - middle) / (best - middle), 0.0, 1.0)
    return parts


def _token_vectors(row: Candidate, cell: CellTokens) -> Packed:
    """The token vectors of a candidate: of its turn, or of the whole cell where turns are not separate or empty."""
    date, turns = cell.tokens
    turn = row.place[1] - cell.first_turn
    return turns[turn] if 0 <= turn < len(turns) and len(turns[turn]) else np.concatenate([date, *turns])


NOT_EXPLAINED = "The vector index is unavailable: what related words gave is not shown separately."
LEAST = 0.2
"""Part of their weight that words always have, however little of the question the best hit has."""
ENOUGH_WORDS = 0.5
"""Words count less where the best hit has a smaller share of the question's words than this, in a recall without a chat
model and with an embedding model that knows the language of the question."""
CODES_READ = 120
"""The best candidates whose turns are searched for codes: what has a rare word is far ahead by its words already."""


@dataclass(frozen=True, slots=True)
class Pool:
    """All that competes in one recall: forests, and items of sources with their bounds."""

    scopes: Sequence[Scope]
    items: Sequence[SourceItem] = ()
    bounds: Bounds = field(default_factory=Bounds)

    @property
    def alone(self) -> bool:
        """Whether there is one forest and no source."""
        return len(self.scopes) == 1 and not self.items


@dataclass(frozen=True, slots=True)
class Scorer:
    """Scores candidates; ``enough`` is the part of the question's words from which on words have all their weight, and
    ``explained`` the number of best rows in which related words are a signal of their own."""

    store: RecallStore
    weights: Weights
    enough: float
    explained: int

    def score(self, pool: Pool, question: Question, tokens: tuple[str, Unit] | None, clock: Clock) -> Table:
        """The table of all candidates; ``tokens`` are the name of the embedding model and the question's token vectors,
        if the model gives them."""
        with clock.stage("score"):
            table, votes = vote(pool, question, self.weights, self.enough)
        if tokens is not None and self.weights["tokens"] > 0:
            with clock.stage("tokens"):
                self._lift_tokens(table, pool, *tokens)
        with clock.stage("order"):
            near = lift_in_time(
                table, pool.scopes, question, self.weights, [self._texts(scope) for scope in pool.scopes]
            )
            self._lift_codes(table, pool, question)
        lift_states(table, pool.scopes, near, self.weights["current"])
        if self.explained:
            with clock.stage("explain"):
                explain_related(table, votes, pool.scopes, table.ranking()[: self.explained])
        return table

    def _texts(self, scope: Scope) -> Texts:
        """Reads turns of one forest, each once."""
        read: dict[TurnKey, str] = {}

        def texts(keys: Collection[TurnKey]) -> Mapping[TurnKey, str]:
            if missing := [key for key in keys if key not in read]:
                with self.store.recalling(scope.tenant) as rows:
                    found = rows.one(rows.turn_texts(missing))
                read.update(found)
            return read

        return texts

    def _lift_tokens(self, table: Table, pool: Pool, model: str, question: Unit) -> None:
        """Late interaction: lift the best candidates by how near their tokens come to those of the question."""
        first = table.ranking()[:LOOKED_AT]
        cells: dict[UUID, CellTokens] = {}
        for number, scope in enumerate(pool.scopes):
            wanted = dict.fromkeys(table.rows[at].cell for at in first if table.rows[at].scope == number)
            with self.store.recalling(scope.tenant) as rows:
                found = rows.one(rows.tokens(scope.forest.id, model, list(wanted)))
            cells |= found
        column = np.zeros(len(table.rows))
        column[first] = token_column([table.rows[at] for at in first], cells, question)
        table.add("tokens", self.weights["tokens"] * table.best * column, lift=True)

    def _lift_codes(self, table: Table, pool: Pool, question: Question) -> None:
        """Lift the candidates whose own turns, not neighbours that share a cell, have the codes of the question; most
        questions have none. The ids and names of speakers are no codes: "What did user-17 say?"."""
        wanted = codes(question.text)
        if self.weights["exact"] <= 0 or not wanted:
            return
        column, most = np.zeros(len(table.rows)), self.weights["exact"] * table.best
        for number, scope in enumerate(pool.scopes):
            heads = scope.candidates.turns.values()
            things = wanted - codes("\n".join({name for head in heads for name in (head.speaker_id, head.name)}))
            if not things:
                continue
            ranking = table.ranking_of(number)
            found = self._texts(scope)(dict.fromkeys(table.rows[at].key for at in ranking[:CODES_READ]))
            parts = {key: len(things & codes(text)) / len(things) for key, text in found.items()}
            for at in ranking:
                column[at] = most * parts.get(table.rows[at].key, 0.0)
        table.add("exact", column, lift=True)


def vote(pool: Pool, question: Question, weights: Weights, enough: float) -> tuple[Table, Votes]:
    """The table with the columns of all signals. One forest alone is scored as if there were no others."""
    cells, facts, nodes = _united(pool, question)
    rows: list[Candidate] = []
    for number, scope in enumerate(pool.scopes):
        given = scope.browsed.positions
        rows += table_rows(scope.candidates, number, question, scope.forest.owner, scope.bounds, given)
    rows += [item.row(pool.bounds) for item in pool.items]
    table = Table(rows)
    votes = Votes(rows, cells, facts, nodes, weights_for(pool.scopes, question, weights, enough))
    for name, signal in SIGNALS.items():
        table.add(name, signal(table, votes))
    return table, votes


def weights_for(scopes: Sequence[Scope], question: Question, weights: Weights, enough: float) -> Weights:
    """The weights for a question.

    Words have all of their weight where the best hit by words has the part ``enough`` of the question's words, less
    where it has less: every list is divided by its best, so that one word in common would otherwise count as much as
    all of them.
    """
    changed: dict[str, float] = {}
    parts = [scope.held(question) for scope in scopes if scope.texts]
    parts += [best for scope in scopes if (best := max(scope.outside_cells.values(), default=0.0)) > 0.0]
    if parts and enough > 0.0:
        changed["lexical"] = weights["lexical"] * min(1.0, max(LEAST, max(parts) / enough))
    if order_of(question.text).order is not Order.NONE:
        # The question is about one state: what is between two statements of others is no better for it.
        changed["next_but_one"] = 0.0
    return {**weights, **changed}


def explain_related(table: Table, votes: Votes, scopes: Sequence[Scope], first: Sequence[int]) -> None:
    """Show what related words gave some rows as a signal of its own, instead of in "cell" and "fact".

    Scores stay. What nodes of trees have from related words stays theirs.
    """
    parts: dict[UUID, float] = {}
    for number, scope in enumerate(scopes):
        own = [table.rows[at] for at in first if table.rows[at].scope == number]
        points = dict.fromkeys((row.cell for row in own), PointKind.CELL)
        available = scope.search.failure is None
        parts |= scope.search.related_parts(points | {fact: PointKind.FACT for row in own for fact in row.facts})
        if available and scope.search.failure is not None:
            scope.degraded.append(NOT_EXPLAINED)
    cells, facts = votes.raw_cells.lexical, votes.raw_facts.lexical
    lexical = votes.weights["lexical"]
    best_cell = max((cells.get(row.cell, 0.0) for row in table.rows), default=0.0) or 1.0
    best_fact = max((facts.get(fact, 0.0) for row in table.rows for fact in row.facts), default=0.0) or 1.0
    related = np.zeros(len(table.rows))
    for at in first if parts else ():
        row = table.rows[at]
        best = max(row.facts, key=lambda fact: votes.facts.get(fact, 0.0), default=row.cell)
        for name, point, of, top in (("cell", row.cell, cells, best_cell), ("fact", best, facts, best_fact)):
            taken = votes.weights[name] * lexical / top * of.get(point, 0.0) * parts.get(point, 0.0)
            if taken > 0.0 and table.signals[name][at] > 0.0:
                related[at] += taken
                table.signals[name][at] = max(0.0, table.signals[name][at] - taken)
    table.signals["related"] = related


def _united(pool: Pool, question: Question) -> tuple[Scores, Scores, Scores]:
    """The scores of cells, facts and nodes of all forests, and of what is not in their indexes, on one scale.

    Cosines compare between forests. BM25 does not: a term is rarer in a larger forest. So of several forests each one's
    list is scaled until its best hit has as much as it has of the question, by terms that are rare among the best hits
    of all. What the index has not seen, and items of sources, have scores by which full coverage of the question equals
    the best hit; what the index has scored meanwhile stays as it is.
    """
    found: dict[UUID, float] = {}
    if len(pool.scopes) > 1:
        texts = {id_: question.held(terms(text)) for scope in pool.scopes for id_, text in scope.texts.items()}
        found = dict(zip(texts, coverage(question.wanted, list(texts.values())), strict=True))
    cells, facts, nodes = Scores(), Scores(), Scores()
    for scope in pool.scopes:
        search = scope.search
        of_cells, of_facts = (
            _factor(scores, found) if len(pool.scopes) > 1 else None for scores in (search.cells, search.facts)
        )
        cells = cells | _times(search.cells, of_cells)
        facts = facts | _times(search.facts, of_facts)
        nodes = nodes | _times(search.nodes, of_cells)
    for scores, outside in (
        (cells, [scope.outside_cells for scope in pool.scopes]),
        (facts, [scope.outside_facts for scope in pool.scopes]),
    ):
        known = scores.ids()
        parts = {id_: part for each in outside for id_, part in each.items() if id_ not in known}
        for signal in (scores.lexical, scores.dense) if parts else ():
            best = max(signal.values(), default=1.0)
            signal.update({id_: part * best for id_, part in parts.items()})
    held = covering(question, {item.id: item.evidence.text for item in pool.items})
    for scores in (cells, facts) if pool.items else ():
        best = max(scores.lexical.values(), default=1.0)
        scores.lexical |= {id_: part * best for id_, part in held.items()}
        scores.dense |= {item.id: item.cosine for item in pool.items}
    return cells, facts, nodes


def _factor(scores: Scores, parts: Mapping[UUID, float]) -> float:
    """By what a list's scores by words are to be multiplied, so that its best one has its part of the question."""
    best = best_of_words(scores)
    top = 0.0 if best is None else scores.lexical[best]
    return parts.get(best, 0.0) / top if best is not None and top > 0.0 else 1.0


def _times(scores: Scores, factor: float | None) -> Scores:
    if factor is None:
        return scores
    return Scores({id_: factor * score for id_, score in scores.lexical.items()}, scores.dense)
