"""Runs of a sentence encoder: states of tokens become a text's vector and its token vectors.

A text's vector is the same to the last bit whatever it is embedded together with: vectors go into
caches and are compared with ones made later. So a text is padded to a length of its own (its
token count, rounded up), never to that of its neighbours, and each run has one thread.

Its states, one for each token, become token vectors, along directions that come with the package: eigenvectors of the
second moments of token states over own talk, without the first for e5, which all texts share. They cost 1% of a run.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from importlib import resources
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from memforest_core.models.calls import Vectors
from memforest_core.models.embedders.batching import Batches, Ids, Read, padded
from memforest_core.models.onnx_model import OnnxModel
from memforest_core.models.token_vectors import Packed, TokenVectors, pack

ROUNDING = 4
"""Token counts are rounded up to a multiple of this, so that short calls still fill batches."""
_BATCH_TOKENS = 512
"""Bounds the memory of a run, which the engine reuses for later ones: the widest activation is 1,536 floats a token.
With two threads a process grows by 50 MB, by 245 with 4,096 tokens, for 0 to 15 % more CPU by the length of texts (ADR
29)."""


def _give_back() -> None:
    """Give freed memory back to the system, where the C library can: weights become float32 and are copied, and 60 MB
    of the 123 that this takes are free afterwards, none of the other graph's 20 (measured)."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


class Encoded(NamedTuple):
    """Token ids of a text, with those that the model adds: ``before`` the text's own, and one behind them."""

    ids: Ids
    starts: Sequence[int]
    """Where the text's own begin in it."""
    before: int


class Encoder:
    """The session and the threads of one process; ``batch_size`` bounds the texts of one run, ``threads`` the runs at
    once."""

    def __init__(self, model: OnnxModel, directions: str, threads: int, batch_size: int) -> None:
        """``directions``: the packaged file of an array of shape (dimension, token_vectors.WIDTH)."""
        self._model = model
        self.dimension = int(model.width)
        with (resources.files(__package__) / directions).open("rb") as file:
            self._directions: NDArray[np.float32] = np.load(file).astype(np.float32)
        _give_back()
        self._batches = Batches(
            self._run, rounding=ROUNDING, threads=threads, batch_size=batch_size, batch_tokens=_BATCH_TOKENS
        )

    def encoded(self, text: str, *, query: bool) -> Encoded:
        """Raises ModelRejected for text that is not Unicode."""
        raise NotImplementedError

    def read(self, texts: Sequence[str], *, query: bool) -> list[Read]:
        """As Engine says; the tokens that the model adds count, and have no token vectors."""
        encoded = [self.encoded(text, query=query) for text in texts]
        rows = self._batches.rows([each.ids for each in encoded], urgent=query)
        return [
            Read(vector, len(each.ids), TokenVectors(tokens[each.before : -1], each.starts))
            for each, (vector, tokens) in zip(encoded, rows, strict=True)
        ]

    def _run(self, batch: Sequence[Ids]) -> list[tuple[Vectors, Packed]]:
        """Mean of the token vectors, scaled to unit length; all of one padded length."""
        states: NDArray[np.float32]
        states, mask = self._model.run(batch, padded(len(batch[0]), ROUNDING))
        sums = np.einsum("rtd,rt->rd", states, mask.astype(np.float32))
        unit: Vectors = sums / np.linalg.norm(sums, axis=1, keepdims=True)
        tokens = pack(states, self._directions)
        # Copies: a row must not keep its batch.
        return [(unit[row].copy(), tokens[row, : len(ids)].copy()) for row, ids in enumerate(batch)]
