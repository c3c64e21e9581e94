"""Scores the candidates of all forests and sources of a recall in one table: signals vote, then stages lift rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from memforest_core.domain.codes import codes
from memforest_core.domain.scoring import Scores, Weights, coverage
from memforest_core.domain.temporal_question import lists_all
from memforest_core.domain.text import terms
from memforest_core.domain.value_kinds import kind_of
from memforest_core.models.token_vectors import Packed, Unit, unpack
from memforest_core.recall.candidates import Scope
from memforest_core.recall.index_search import best_of_words
from memforest_core.recall.question import Question
from memforest_core.recall.records import CellTokens, TurnKey
from memforest_core.recall.request import ALWAYS, Bounds, touches
from memforest_core.recall.retrieve import Clock, covering
from memforest_core.recall.rows.recall_rows import RecallStore
from memforest_core.recall.sources import SourceItem
from memforest_core.recall.table import SIGNALS, Column, Table, Votes, add_candidates
from memforest_core.recall.temporal import lift_in_time

LOOKED_AT = 100
"""The best candidates whose cells' token vectors are read. 300 found no more."""
LONG = 0.06
"""What a candidate loses times the logarithm of its tokens: the more there are, the nearer the nearest of them is by
chance. 0.03 to 0.08 do about the same."""


def token_column(table: Table, first: Sequence[int], cells: Mapping[UUID, CellTokens], question: Unit) -> Column:
    """How near the ``first`` candidates come to the question's tokens, from 0 to 1 for the nearest.

    What comes no nearer than the median of them has nothing, and so has a candidate without token vectors.
    """
    found = table.zeros()
    read = [at for at in first if table.cell[at] in cells]
    if read and len(question):
        texts = [_token_vectors(table.place[at][1], cells[table.cell[at]]) for at in read]
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
    parts: NDArray[np.float32] = np.clip((scores - middle) / ((best - middle) or 1.0), 0.0, 1.0)
    return parts


def _token_vectors(ordinal: int, cell: CellTokens) -> Packed:
    """The token vectors of a turn of a cell: of the whole cell where turns are not separate or empty."""
    date, turns = cell.tokens
    turn = ordinal - cell.first_turn
    return turns[turn] if 0 <= turn < len(turns) and len(turns[turn]) else np.concatenate([date, *turns])


ANSWERS, BEHIND = 30, 0.999
"""Of the best candidates so many are looked at for answers of few words, and the turn before such a one gets this part
of its score."""
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


def score(
    store: RecallStore, pool: Pool, question: Question, weights: Weights, tokens: Unit | None, clock: Clock
) -> Table:
    """The table of all candidates: signals vote, then stages lift.

    ``tokens`` are the question's token vectors, if the embedding model gives them.
    """
    with clock.stage("score"):
        table = vote(pool, question, weights)
    if tokens is not None:
        with clock.stage("tokens"):
            _lift_tokens(store, table, pool, weights["tokens"], tokens)
    with clock.stage("order"):
        if weights["exact"] > 0 and (wanted := codes(question.text)):
            _lift_codes(store, table, pool, weights["exact"], wanted)
        lift_in_time(store, table, pool.scopes, question, weights)
    if weights["answer"] > 0:
        _lift_questions(table)
    return table


def _lift_questions(table: Table) -> None:
    """Lift the turn of another person before a good answer of few words, to right behind it."""
    wanted: dict[TurnKey, tuple[float, str]] = {}
    for at in table.ranking()[:ANSWERS]:
        (session, ordinal), turn = table.key(at), table.turn[at]
        if turn is not None and turn.short and not turn.is_question and table.fact[at] is None:
            wanted.setdefault((session, ordinal - 1), (BEHIND * float(table.score[at]), turn.speaker_id))
    column = table.zeros()
    # Of a long turn, or one with sentences of a chat model, the best candidate only.
    for at in table.ranking() if wanted else ():
        least, speaker = wanted.pop(table.key(at), (0.0, ""))
        turn = table.turn[at]
        if turn is not None and turn.speaker_id != speaker:
            column[at] = max(0.0, least - table.score[at])
    table.add("answer", column, lift=True)


def _lift_tokens(store: RecallStore, table: Table, pool: Pool, weight: float, question: Unit) -> None:
    """Late interaction: lift the best candidates by how near their tokens come to those of the question."""
    first = table.ranking()[:LOOKED_AT]
    cells: dict[UUID, CellTokens] = {}
    for number, scope in enumerate(pool.scopes):
        own = [at for at in first if table.scope[at] == number]
        if scope.tokens is None:
            with store.recalling(scope.tenant) as rows:
                wanted = list(dict.fromkeys(table.cell[at] for at in own))
                scope.tokens = rows.one(rows.tokens(scope.forest.id, scope.tokens_of, wanted))
        cells |= scope.tokens
    table.add("tokens", weight * table.best * token_column(table, first, cells, question), lift=True)


def _lift_codes(store: RecallStore, table: Table, pool: Pool, weight: float, wanted: frozenset[str]) -> None:
    """Lift the candidates whose own turns, not neighbours that share a cell, have the codes of the question. The ids
    and names of speakers are no codes: "What did user-17 say?"."""
    column, most = table.zeros(), weight * table.best
    for number, scope in enumerate(pool.scopes):
        heads = scope.candidates.turns.values()
        things = wanted - codes("\n".join({name for head in heads for name in (head.speaker_id, head.name)}))
        if not things:
            continue
        first = table.ranking_of(number)[:CODES_READ]
        with store.recalling(scope.tenant) as rows:
            said = scope.read_turns(rows, map(table.key, first))
        for at in first:
            column[at] = most * len(things & codes(said.get(table.key(at), ""))) / len(things)
    table.add("exact", column, lift=True)


def lift_recent(table: Table, weight: float, asked_at: datetime, half_life_days: float) -> None:
    """The signal ``recency``: a part of the score, that halves with each half-life between turn and question."""
    ages = [timedelta.max if turn is None else asked_at - turn.occurred_at for turn in table.turn]
    days = np.array([max(0.0, age / timedelta(days=1)) for age in ages])
    table.add("recency", weight * table.score * np.exp2(-days / half_life_days))


def vote(pool: Pool, question: Question, weights: Weights) -> Table:
    """The table with the columns of all signals that vote. One forest alone is scored as if there were no others."""
    cells, facts, nodes = _united(pool, question)
    table = Table()
    for number, scope in enumerate(pool.scopes):
        add_candidates(table, number, scope, question)
    for item in pool.items:
        in_time = pool.bounds.about != ALWAYS and touches(item.spans, pool.bounds.about)
        table.append(-1, (item.id, 0, 0), item.id, (item.id,), in_time=in_time)
    if lists_all(question.text) and kind_of(question.text) is None:
        # What a list is made of was said in many sessions; one count is often in one turn.
        weights = {**weights, "root": 0.0}
    votes = Votes(table, cells, facts, nodes, weights)
    for name, signal in SIGNALS.items():
        table.add(name, signal(table, votes))
    return table


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
