"""Attaching a batch of candidates to facts: exact duplicates by id, near ones by cosine and content."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from memforest_core.domain.facts import CORRECTED_ITEM, Candidate, Fact, Statement
from memforest_core.domain.ids import FactId, ForestId
from memforest_core.ingest.reduce.identity import identify, mergeable
from memforest_core.models.calls import Vectors


@dataclass(frozen=True, slots=True)
class Incoming:
    """A candidate with the vector of its text and the ordinal of its cell."""

    candidate: Candidate
    vector: Vectors
    cell_ordinal: int


@dataclass(frozen=True, slots=True)
class Known:
    """A stored fact that could be a near duplicate, with the vector of its text."""

    id: FactId
    statement: Statement
    vector: Vectors


@dataclass(frozen=True, slots=True)
class Attached:
    """Which fact each candidate belongs to (in order), and the facts that are new."""

    facts: tuple[FactId, ...]
    new: tuple[Fact, ...]


def attach(
    forest: ForestId,
    incoming: Sequence[Incoming],
    stored: frozenset[FactId],
    near: Sequence[Known],
    threshold: float,
) -> Attached:
    """Attach candidates to facts; never rewrites one.

    ``stored`` are the exact ids that exist already; ``near`` are facts to compare with, and so are the batch's own
    new ones. Near duplicates are best effort: they need cosine >= ``threshold`` and equal content.
    """
    if not incoming:
        return Attached((), ())
    facts: dict[FactId, Fact] = {}
    owners: list[FactId] = []
    compared = list(near)
    matrix = np.zeros((len(near) + len(incoming), incoming[0].vector.shape[0]), np.float32)
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
        matrix[len(compared)] = item.vector
        compared.append(Known(exact, statement, item.vector))
        facts[exact] = Fact(exact, statement, normalized, item.cell_ordinal, item.candidate.item)
        owners.append(exact)
    return Attached(tuple(owners), tuple(facts.values()))


def _twin(item: Incoming, compared: Sequence[Known], matrix: Vectors, threshold: float) -> FactId | None:
    """The closest mergeable near duplicate, if there is one; ``matrix`` has a row for each compared fact."""
    if not compared:
        return None
    scores = matrix @ item.vector
    order: list[int] = np.argsort(-scores, kind="stable").tolist()
    for row in order:
        if scores[row] < threshold:
            return None
        known = compared[row]
        if mergeable(known.statement, item.candidate.statement):
            return known.id
    return None


def exact_ids(forest: ForestId, incoming: Sequence[Incoming]) -> list[FactId]:
    """The ids that the candidates would have as facts of their own."""
    return [identify(forest, item.candidate.statement)[0] for item in incoming]


def distinct(known: Mapping[FactId, Known]) -> list[Known]:
    """Comparison facts in a stable order, so that a batch merges alike each time."""
    return [known[key] for key in sorted(known, key=str)]
