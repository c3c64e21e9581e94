"""Vectors in memory: never those from before a write, and not too many."""

from __future__ import annotations

from uuid import UUID

import numpy as np
import pytest

from memforest_core.domain.ids import ForestId, TenantId
from memforest_core.index.qdrant import kept as module
from memforest_core.index.qdrant.kept import OVERHEAD, Group, KeptVectors
from memforest_core.index.vector_index import DenseVector, PointKey, PointKind

ACME, ALICE, BOB = TenantId("acme"), ForestId(UUID(int=1)), ForestId(UUID(int=2))
FACTS: Group = (ACME, ALICE, PointKind.FACT)
OTHERS: Group = (ACME, BOB, PointKind.FACT)
ONE, TWO, THREE = (UUID(int=number) for number in (11, 12, 13))


def vectors(*rows: UUID) -> dict[UUID, DenseVector]:
    return {row: np.array([float(row.int % 10), 1.0], dtype=np.float32) for row in rows}


def held(kept: KeptVectors, group: Group, *rows: UUID) -> list[bool]:
    return [vector is not None for vector in kept.of(group, rows)[0]]


def filled(*rows: UUID) -> KeptVectors:
    kept = KeptVectors(2)
    kept.keep(FACTS, vectors(*rows), kept.of(FACTS, rows)[1])
    return kept


def test_what_was_read_is_kept_for_its_forest_and_kind() -> None:
    kept = filled(ONE)
    assert held(kept, FACTS, ONE, TWO) == [True, False]
    assert held(kept, OTHERS, ONE) == held(kept, (ACME, ALICE, PointKind.CELL), ONE) == [False]


def test_what_is_written_is_forgotten_whatever_its_kind() -> None:
    kept = filled(ONE, TWO)
    kept.forget([PointKey(ACME, ALICE, ONE), PointKey(ACME, BOB, TWO)])
    assert held(kept, FACTS, ONE, TWO) == [False, True]


def test_what_was_read_before_a_write_is_not_kept_after_it() -> None:
    """Given a reader that has read a point, when the point is written before the reader keeps it, then it is not
    kept: nobody would ever forget it."""
    kept = KeptVectors(2)
    _, moment = kept.of(FACTS, [ONE])
    read = vectors(ONE)
    kept.forget([PointKey(ACME, ALICE, ONE)])
    kept.keep(FACTS, read, moment)
    assert held(kept, FACTS, ONE) == [False]


def test_the_forest_that_was_not_asked_for_longest_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT_BYTES", 4 * (8 + OVERHEAD))
    kept = filled(ONE, TWO, THREE)
    moment = kept.of(OTHERS, [ONE])[1]
    kept.keep(OTHERS, vectors(ONE), moment)
    assert held(kept, FACTS, ONE, TWO, THREE) == [True] * 3
    kept.keep(OTHERS, vectors(TWO), moment)
    assert (held(kept, FACTS, ONE, TWO, THREE), held(kept, OTHERS, ONE, TWO)) == ([False] * 3, [True] * 2)


def test_of_one_forest_that_is_too_large_the_latest_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT_BYTES", 4 * (8 + OVERHEAD))
    kept = KeptVectors(2)
    rows = [UUID(int=number) for number in range(1, 7)]
    for row in rows:
        kept.keep(FACTS, vectors(row), kept.of(FACTS, [row])[1])
    found = held(kept, FACTS, *rows)
    assert found[-1]
    assert 3 <= sum(found) <= 4
    assert not found[0]
