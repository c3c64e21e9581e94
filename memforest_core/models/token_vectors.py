"""Token vectors: what each token of a text means in its context, in few bits, for late interaction.

A model that pools makes one vector of a text, in which a rare word weighs no more than the others. Its states, one for
each token, are there before that. Of those, ``WIDTH`` numbers are stored, the share of a state in as many directions in
which states of texts differ most, four bits each: 32 bytes a token (docs/adr/0039-late-interaction.md).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

MODELS = frozenset({"all-minilm-l6-v2-int8", "multilingual-e5-small-4bit"})
"""The embedding models that give token vectors: cells are stored with them."""

WIDTH = 64
"""Numbers of a token vector. 96, and 8 bits instead of 4, found no more (docs/evaluation.md)."""
PACKED = WIDTH // 2
"""Bytes of one: the first half of its numbers in the upper four bits of each, the second half in the lower."""
LARGEST = 7
"""Numbers are whole, from -7 to 7, scaled so that the largest of each token is one of these."""

Packed = NDArray[np.uint8]
"""Packed token vectors, shape (tokens, PACKED)."""
Unit = NDArray[np.float32]
"""Token vectors as rows of length one, shape (tokens, WIDTH)."""


class TokenVectors(NamedTuple):
    """The token vectors of a text; ``starts`` are the offsets in it, in characters, where its tokens begin."""

    packed: Packed
    starts: Sequence[int]


class TurnTokens(NamedTuple):
    """The token vectors of each turn of a cell, as row-wise ``Packed``; those of its date belong to every turn."""

    date: Packed
    turns: tuple[Packed, ...]


def pack(states: NDArray[np.float32], directions: NDArray[np.float32]) -> Packed:
    """The token vectors of states, shape (..., tokens, dimension), along ``directions``, shape (dimension, WIDTH)."""
    parts = states @ directions
    largest = np.abs(parts).max(axis=-1, keepdims=True)
    whole = np.rint(parts * (LARGEST / np.maximum(largest, 1e-9))).astype(np.int8) + np.int8(LARGEST + 1)
    bits = whole.view(np.uint8)
    packed: Packed = (bits[..., :PACKED] << 4) | bits[..., PACKED:]
    return packed


def unpack(packed: Packed) -> Unit:
    """Packed token vectors as rows of length one."""
    numbers = np.empty((len(packed), WIDTH), dtype=np.float32)
    numbers[:, :PACKED] = packed >> 4
    numbers[:, PACKED:] = packed & 15
    numbers -= LARGEST + 1
    numbers /= np.maximum(np.sqrt(np.einsum("tw,tw->t", numbers, numbers)), 1e-9)[:, None]
    return numbers


def to_bytes(tokens: TokenVectors, turns: Sequence[int]) -> bytes:
    """What is stored of a cell: how many tokens its date and each of its turns have, and these. ``turns`` are the
    offsets in characters where turns begin; what is before the first is its date."""
    borders = np.searchsorted(np.asarray(tokens.starts, dtype=np.int64), turns)
    counts = np.diff([0, *borders, len(tokens.packed)])
    return struct.pack(f"<B{len(counts)}H", len(counts), *map(int, counts)) + tokens.packed.tobytes()


def from_bytes(raw: bytes) -> TurnTokens:
    """The token vectors of a cell, of what ``to_bytes`` made."""
    [parts] = struct.unpack_from("<B", raw)
    counts = struct.unpack_from(f"<{parts}H", raw, 1)
    packed = np.frombuffer(raw, np.uint8, offset=1 + 2 * parts).reshape(-1, PACKED)
    # numpy's own split takes three times as long.
    date, *turns = (packed[end - count : end] for count, end in zip(counts, accumulate(counts), strict=True))
    return TurnTokens(date, tuple(turns))
