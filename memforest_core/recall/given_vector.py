"""A vector that a caller gives instead of a question: checked, and what recall does without words."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real

import numpy as np

from memforest_core.domain.evidence import Mode
from memforest_core.errors import InvalidInput
from memforest_core.index.vector_index import DenseVector
from memforest_core.recall.question import Question

WORDLESS = Question("", (), frozenset())
"""The question of a recall by a vector: it has no words, and names nobody and no time."""

BY_VECTOR = (Mode.AUTO, Mode.FLAT, Mode.EMBEDDING)
"""Modes that ask a model nothing."""


def checked_vector(given: object, dimension: int) -> DenseVector:
    """The vector in what a caller sent: a list, a tuple or an array of ``dimension`` finite numbers, not all 0.

    Raises InvalidInput.
    """
    if isinstance(given, np.ndarray):
        given = given.tolist()
    if not isinstance(given, Sequence) or isinstance(given, str | bytes):
        raise _refused(f"Give vector as a list of {dimension} numbers.")
    if len(given) != dimension:
        raise _refused(
            f"Give vector as a list of {dimension} numbers, the dimension of the embedding model (it has {len(given)})."
        )
    if not all(isinstance(each, Real) and not isinstance(each, bool) for each in given):
        raise _refused("Give vector as a list of plain numbers.")
    try:
        with np.errstate(over="ignore"):
            vector = np.array(given, dtype=np.float32)
    except OverflowError:
        raise _refused("Give vector as a list of finite numbers.") from None
    if not bool(np.isfinite(vector).all()):
        raise _refused("Give vector as a list of finite numbers.")
    if not bool(vector.any()):
        raise _refused("Give a vector that is not 0 everywhere: it points nowhere.")
    return vector


def check_wordless(mode: Mode) -> None:
    """Raises InvalidInput for a mode in which a model reads the question."""
    if mode not in BY_VECTOR:
        raise InvalidInput(
            f"Ask a question for mode {mode}: a vector has no words that a model could read. Modes of a vector are"
            f" {', '.join(BY_VECTOR)}.",
            code="invalid_mode",
        )


def _refused(sentence: str) -> InvalidInput:
    return InvalidInput(sentence, code="invalid_vector")
