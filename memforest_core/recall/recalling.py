"""Forest recall: which cells and facts are candidates, with the vector index or without it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from memforest_core.domain.ids import ForestId
from memforest_core.domain.scopes import TreeKind
from memforest_core.domain.scoring import Scores, Weights, coverage, fused
from memforest_core.domain.text import terms
from memforest_core.recall.probe import FlatHits, Probe
from memforest_core.recall.question import Question
from memforest_core.recall.records import FoundText, RecallRows

RAW_LIMIT = 64
"""Cells that the index has not seen yet and that one recall reads: the latest. More are asked for by full text."""


@dataclass(frozen=True, slots=True)
class RawHits:
    """Cells that are not in the index yet, and how much of the question each holds, in (0, 1]."""

    coverage: Mapping[UUID, float]
    catching_up: bool = False
    """More may be missing than were read: full text was asked too."""

    def join(self, scores: Scores) -> None:
        """Give them scores on the scale of the indexed cells: full coverage equals the best hit."""
        for signal in (scores.lexical, scores.dense):
            best = max(signal.values(), default=1.0)
            for id_, share in self.coverage.items():
                signal[id_] = share * best


def raw_hits(rows: RecallRows, forest: ForestId, question: Question) -> RawHits:
    """Search what has been accepted but not indexed yet, so that a turn is found at once."""
    latest = rows.not_indexed(forest, RAW_LIMIT + 1)
    covered = _covering(question, latest[:RAW_LIMIT])
    if len(latest) <= RAW_LIMIT and not rows.index_unsure():
        return RawHits(covered)
    cells, _ = rows.full_text(forest, question.words, RAW_LIMIT)
    return RawHits(_covering(question, cells) | covered, catching_up=True)


def full_text_hits(
    rows: RecallRows, forest: ForestId, question: Question, probe: Probe, limit: int, until: datetime | None = None
) -> FlatHits:
    """What Postgres full text finds when the index is away; scores go where the index's would.

    Facts that are known by ``until`` to be wrong are not found.
    """
    cells, facts = rows.full_text(forest, question.words, limit, until)
    probe.cells.lexical |= _covering(question, cells)
    probe.facts.lexical |= _covering(question, facts)
    return FlatHits(frozenset(probe.cells.lexical), frozenset(probe.facts.lexical))


def _covering(question: Question, found: Sequence[FoundText]) -> dict[UUID, float]:
    shares = coverage(question.wanted, [question.held(terms(text.text)) for text in found])
    return {text.id: share for text, share in zip(found, shares, strict=True) if share > 0.0}


def best_roots(probe: Probe, roots: Collection[UUID], limit: int, weights: Weights) -> list[UUID]:
    """The best of the roots that the flat search found."""
    scores = fused(probe.nodes.only(roots), weights)
    return sorted(scores, key=lambda root: (-scores[root], root))[:limit]


def trees_of_hits(
    rows: RecallRows, probe: Probe, hits: FlatHits, weights: Weights, kinds: Collection[TreeKind]
) -> list[UUID]:
    """Roots of the trees of these families where the hits live, those with the best hits first."""
    scores = fused(probe.cells.only(hits.cells), weights) | fused(probe.facts.only(hits.facts), weights)
    votes: dict[UUID, float] = defaultdict(float)
    for payload, root in rows.roots_above(list(scores), kinds):
        votes[root] += scores[payload]
    return sorted(votes, key=lambda root: (-votes[root], root))
