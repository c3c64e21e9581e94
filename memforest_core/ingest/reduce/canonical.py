"""Attaching a batch of candidates to facts: exact duplicates by id, near ones by cosine and content."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from memforest_core.domain.facts import CORRECTED_ITEM, Fact, Statement
from memforest_core.domain.ids import FactId, ForestId
from memforest_core.errors import InvariantViolated
from memforest_core.ingest.reduce.identity import identify, mergeable
from memforest_core.ingest.reduce.records import WaitingCandidate
from memforest_core.models.calls import Vectors


@dataclass(frozen=True, slots=True)
class Known:
    """A stored fact that could be a near duplicate, with the vector of its text."""

    id: FactId
    statement: Statement
    vector: Vectors


def present(vector: Vectors | None) -> Vectors:
    """The vector, which the caller has completed. Raises InvariantViolated when it is missing."""
    if vector is None:
        raise InvariantViolated("A candidate is placed without its vectors: embed its texts first.")
    return vector


def attach(
    forest: ForestId,
    incoming: Sequence[WaitingCandidate],
    stored: frozenset[FactId],
    near: Sequence[Known],
    threshold: float,
) -> tuple[list[FactId], list[Fact]]:
    """Attach candidates to facts; never rewrites one. The fact of each candidate, in order, and the facts that are new.

    ``stored`` are the exact ids that exist already; ``near`` are facts to compare with, and so are the batch's own
    new ones. Near duplicates are best effort: they need cosine >= ``threshold`` and equal content.
    """
    if not incoming:
        return [], []
    facts: dict[FactId, Fact] = {}
    owners: list[FactId] = []
    compared = list(near)
    matrix = np.zeros((len(near) + len(incoming), present(incoming[0].vector).shape[0]), np.float32)
    for row, known in enumerate(near):
        matrix[row] = known.vector
    for item in incoming:
        statement = item.candidate.statement
        exact, normalized = identify(forest, statement)
        if exact in stored or exact in facts:
            owners.append(exact)
            continue
        # A correction is never merged with a near duplicate, which may be the fact that it corrects.
        corrects = item.candidate.item >= CORRECTED_ITEM
        twin = None if corrects else _twin(item, compared, matrix[: len(compared)], threshold)
        if twin is not None:
            owners.append(twin)
            continue
        matrix[len(compared)] = present(item.vector)
        compared.append(Known(exact, statement, present(item.vector)))
        facts[exact] = Fact(exact, statement, normalized, item.cell_ordinal, item.candidate.item)
        owners.append(exact)
    return owners, list(facts.values())


def _twin(item: WaitingCandidate, compared: Sequence[Known], matrix: Vectors, threshold: float) -> FactId | None:
    """The closest mergeable near duplicate, if there is one; ``matrix`` has a row for each compared fact."""
    if not compared:
        return None
    scores = matrix @ present(item.vector)
    order: list[int] = np.argsort(-scores, kind="stable").tolist()
    for row in order:
        if scores[row] < threshold:
            return None
        known = compared[row]
        if mergeable(known.statement, item.candidate.statement):
            return known.id
    return None


def exact_ids(forest: ForestId, incoming: Sequence[WaitingCandidate]) -> list[FactId]:
    """The ids that the candidates would have as facts of their own."""
    return [identify(forest, item.candidate.statement)[0] for item in incoming]


def distinct(known: Mapping[FactId, Known]) -> list[Known]:
    """Comparison facts in a stable order, so that a batch merges alike each time."""
    return [known[key] for key in sorted(known, key=str)]
