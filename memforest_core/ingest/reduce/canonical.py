"""When two statements are one fact, and attaching a batch of candidates to facts: exact duplicates by id, near ones by
cosine and content."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice

import numpy as np

from memforest_core.domain.facts import CORRECTED_ITEM, Change, Fact, Statement
from memforest_core.domain.ids import FactId, ForestId, TenantId, fact_id
from memforest_core.domain.text import normalize_name, normalize_statement
from memforest_core.domain.times import Precision, TimeSpan
from memforest_core.domain.wording import same_wording
from memforest_core.errors import IndexUnavailable, InvariantViolated
from memforest_core.index.vector_index import IndexFilter, IndexQuery, PointKind, VectorIndex
from memforest_core.ingest.reduce.records import ReduceBatch, WaitingCandidate
from memforest_core.models.calls import Vectors
from memforest_core.settings import ReduceSettings

SCENE_NEIGHBOURS = 24
"""Nearest facts whose scenes a candidate is compared with, however many scenes the forest has."""
NEAR_LIMIT = 8
"""Nearest facts of a candidate that are compared with it."""


def near_facts(
    index: VectorIndex, tenant: TenantId, batch: ReduceBatch, rules: ReduceSettings
) -> tuple[list[FactId], list[FactId]] | None:
    """Stored facts that may be the same as a candidate, and those whose scenes it may join; None when the index is
    unavailable."""
    where = IndexFilter(tenant, batch.forest_id, kinds=(PointKind.FACT,))
    most = max(NEAR_LIMIT, SCENE_NEIGHBOURS)
    vectors = [item.vector for cell in batch.cells for item in cell.candidates if item.vector is not None]
    if not vectors:
        return [], []
    try:
        found = index.search([IndexQuery(vector, where, most) for vector in vectors])
    except IndexUnavailable:
        return None
    likely = [hit.id for hits in found for hit in islice(hits, NEAR_LIMIT) if hit.score >= rules.near_duplicate]
    neighbours = [row for hits in found for row in hits.ids[:SCENE_NEIGHBOURS]]
    return [*dict.fromkeys(map(FactId, likely))], [*dict.fromkeys(map(FactId, neighbours))]


def identity_span(statement: Statement) -> TimeSpan:
    """The interval that is part of a fact's identity. The event's own where one was resolved. An undated event happened
    around the day of its turn (Monday's gym is not Tuesday's); an undated state has none, so that it is the same fact
    whenever it is repeated."""
    if statement.time.known:
        return statement.time
    if statement.attribute and statement.change is Change.NONE:
        return statement.time
    day = statement.mentioned_at.replace(hour=0, minute=0, second=0, microsecond=0)
    return TimeSpan(day, day + timedelta(days=1), Precision.DAY)


def identify(forest: ForestId, statement: Statement) -> tuple[FactId, str]:
    """The canonical fact's id and the normalized text behind it."""
    normalized = normalize_statement(statement.text)
    span = identity_span(statement)
    ends = [moment.isoformat() if moment else "" for moment in (span.start, span.end)]
    return fact_id(forest, normalized, ends[0], ends[1]), normalized


def mergeable(one: Statement, other: Statement) -> bool:
    """Whether two statements are one fact: they say the same of the same, at the same time."""
    if identity_span(one) != identity_span(other):
        return False
    if (one.polarity, one.modality, one.verbatim) != (other.polarity, other.modality, other.verbatim):
        return False
    if one.change is not other.change or normalize_name(one.speaker) != normalize_name(other.speaker):
        return False
    if not (_alike(one.attribute, other.attribute) and _alike(one.value, other.value)):
        return False
    if one.attribute and not _alike(one.subject, other.subject):
        return False
    mine, theirs = _names(one), _names(other)
    # Without a state a name may be left out of the list where the sentence has it, never where it has a pronoun.
    if mine != theirs and (one.attribute or not (_has(one.text, mine - theirs) and _has(other.text, theirs - mine))):
        return False
    texts = (said.text.removeprefix(f"{said.speaker} said: ") for said in (one, other))
    return same_wording(*texts)


def _alike(one: str, other: str) -> bool:
    return normalize_name(one) == normalize_name(other) or same_wording(one, other)


def _names(said: Statement) -> frozenset[str]:
    return frozenset(map(normalize_name, said.entities if said.attribute else (said.subject, *said.entities)))


def _has(text: str, names: frozenset[str]) -> bool:
    return all(f" {name} " in f" {normalize_name(text)} " for name in names if name)


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
    ``stored`` are the exact ids that exist already; ``near`` are facts to compare with, and so are the batch's own new
    ones. Near duplicates are best effort: they need cosine >= ``threshold`` and equal content."""
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
