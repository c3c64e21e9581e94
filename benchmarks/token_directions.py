"""``python -m benchmarks.token_directions``: makes the file of directions along which the built-in model's token
vectors are made (``models/token_vectors.py``).

They are the eigenvectors of the second moments of the states of all tokens in the conversations that ship, those of the
largest eigenvalues first: in few numbers they keep the most of what tells tokens apart. Takes half a minute. Another
processor's states differ in their last digits, so that a new file is another one: all cells need new token vectors
then.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.eval import locomo
from benchmarks.eval.__main__ import DOCUMENTS, OWN
from benchmarks.languages import conversations
from memforest_core.domain.rendering import speech
from memforest_core.models.embedders import minilm
from memforest_core.models.token_vectors import WIDTH

FILE = Path(minilm.__file__).with_name("minilm_directions.npy")


def texts() -> list[str]:
    """The turns of the conversations that ship for other ends than to measure what this changes, in four languages."""
    data = (*locomo.load(OWN), *locomo.load(DOCUMENTS), *conversations())
    return [speech(turn.speaker, turn.text) for conversation in data for _, turn in conversation.turns()]


def moments(said: Sequence[str]) -> NDArray[np.float64]:
    """The second moments of the states of these texts' tokens as unit vectors, shape (dimension, dimension)."""
    engine = minilm.Engine(threads=1, batch_size=1)
    total = np.zeros((engine.dimension, engine.dimension))
    for text in said:
        states, mask = engine.states([engine.ids(text)])
        rows = states[mask > 0][1:-1].astype(np.float64)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        total += rows.T @ rows
    whole: NDArray[np.float64] = total / np.trace(total)
    return whole


def directions(of: NDArray[np.float64]) -> NDArray[np.float16]:
    """The first ``WIDTH`` eigenvectors, shape (dimension, WIDTH)."""
    _, vectors = np.linalg.eigh(of)
    first: NDArray[np.float16] = vectors[:, ::-1][:, :WIDTH].astype(np.float16)
    return first


def kept(of: NDArray[np.float64], along: NDArray[np.float16]) -> float:
    """The share of the states' squares that directions keep."""
    exact = along.astype(np.float64)
    return float(np.trace(exact.T @ of @ exact))


def main() -> None:
    """Write the file where the model reads it."""
    said = texts()
    found = moments(said)
    made = directions(found)
    np.save(FILE, made)
    print(f"{len(said)} turns, {kept(found, made):.1%} of the squares, {FILE.stat().st_size:,} bytes in {FILE}")


if __name__ == "__main__":
    main()
