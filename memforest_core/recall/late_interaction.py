"""Late interaction: the best pieces once more, by how near their tokens come to those of the question.

As in ColBERT (Khattab and Zaharia, 2020) each token of the question takes the likeness of the nearest token of a piece,
and a piece the mean of these. Here a token counts by how rare it is among the pieces and by how far the best of them is
ahead, and a piece loses what it owes to its length (docs/adr/0039-late-interaction.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from memforest_core.domain.scoring import Voted, best_first
from memforest_core.models.token_vectors import Packed, Unit, unpack
from memforest_core.recall.records import CellTokens

SIGNAL = "tokens"
LOOKED_AT = 100
"""The best pieces that are looked at: their cells' token vectors are read from Postgres. 300 found no more."""
LONG = 0.06
"""What a piece loses times the logarithm of its tokens: the more there are, the nearer the nearest of them is by
chance. 0.03 to 0.08 do about the same."""


def nearer_first(voted: Sequence[Voted], cells: Mapping[UUID, CellTokens], question: Unit, most: float) -> list[Voted]:
    """The pieces, best first: the one that comes nearest to the question's tokens gets ``most``, others their share.

    What comes no nearer than the median of the pieces gets nothing, and so does a piece without token vectors.
    """
    looked = [at for at, one in enumerate(voted[:LOOKED_AT]) if one.item.cell in cells]
    if not looked or not len(question):
        return list(voted)
    pieces = [_tokens(voted[at], cells[voted[at].item.cell]) for at in looked]
    shares = above_median(likeness(nearest(pieces, question), list(map(len, pieces))))
    found = list(voted)
    for at, share in zip(looked, shares.tolist(), strict=True):
        if share > 0.0:
            found[at] = found[at].raised_by(most * share, SIGNAL)
    return best_first(found)


def nearest(pieces: Sequence[Packed], question: Unit) -> NDArray[np.float32]:
    """The likeness of the nearest token of each piece, of one at least, to each of the question's, shape (pieces,
    tokens); all are compared at once."""
    starts = np.cumsum([0, *map(len, pieces[:-1])])
    found: NDArray[np.float32] = np.maximum.reduceat(unpack(np.concatenate(pieces)) @ question.T, starts, axis=0)
    return found


def likeness(near: NDArray[np.float32], lengths: Sequence[int]) -> NDArray[np.float32]:
    """How near pieces of so many tokens come to a question, of the likeness of their ``nearest`` tokens.

    A token of the question counts by how far the best piece is ahead of the median, times its rarity: BM25's, where a
    piece that comes more than half of that way holds the token.
    """
    best, middle = near.max(axis=0), np.median(near, axis=0)
    holding = (near > (best + middle) / 2).sum(axis=0)
    weights = (best - middle) * np.log(1 + (len(near) - holding + 0.5) / (holding + 0.5))
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
    shares: NDArray[np.float32] = np.clip((scores - middle) / (best - middle), 0.0, 1.0)
    return shares


def _tokens(one: Voted, cell: CellTokens) -> Packed:
    """The token vectors of a piece: of its turn, or of the whole cell where that was not told apart or is empty."""
    date, turns = cell.tokens
    place = one.item.place[1] - cell.first_turn
    return turns[place] if 0 <= place < len(turns) and len(turns[place]) else np.concatenate([date, *turns])
