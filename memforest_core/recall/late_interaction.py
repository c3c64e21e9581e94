"""Late interaction: the best candidates once more, by how near their tokens come to those of the question.

As in ColBERT (Khattab and Zaharia, 2020) each token of the question takes the likeness of the nearest token of a
candidate, and a candidate the mean of these. Here a token counts by how rare it is among the candidates and by how far
the best of them is ahead, and a candidate loses what it owes to its length (docs/adr/0039-late-interaction.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from memforest_core.models.token_vectors import Packed, Unit, unpack
from memforest_core.recall.records import CellTokens
from memforest_core.recall.signal_table import Candidate, Column

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
        texts = [_tokens(rows[at], cells[rows[at].cell]) for at in read]
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


def _tokens(row: Candidate, cell: CellTokens) -> Packed:
    """The token vectors of a candidate: of its turn, or of the whole cell where turns are not separate or empty."""
    date, turns = cell.tokens
    turn = row.place[1] - cell.first_turn
    return turns[turn] if 0 <= turn < len(turns) and len(turns[turn]) else np.concatenate([date, *turns])
