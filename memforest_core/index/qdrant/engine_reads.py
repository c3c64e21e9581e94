"""What is read of the embedded engine beyond searches: the contents of points, and what it raises as our errors."""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar, assert_never
from uuid import UUID

import numpy as np
import qdrant_edge as engine

from memforest_core.domain.known_ids import KNOWN_IDS
from memforest_core.errors import IndexUnavailable
from memforest_core.index.qdrant import conditions as c
from memforest_core.index.qdrant import schema
from memforest_core.index.qdrant.ids import point_ids
from memforest_core.index.qdrant.points import uuid_of
from memforest_core.index.qdrant.postings import Worded
from memforest_core.index.vector_index import DenseVector, IndexFilter, PointKind, SparseVector

PAGE = 2_000
"""Points read at once of a whole forest; each page looks through the forest's ids anew."""
LENGTH_ERROR = 0.01
"""By how much a stored vector may be longer or shorter than 1."""
Content = TypeVar("Content")
_WHAT = [schema.KIND, schema.ROOT, schema.TREE_KIND]


class EngineReads:
    """Reads of one shard, which ``opened`` gives. All raise IndexUnavailable."""

    def __init__(self, opened: Callable[[], engine.EdgeShard]) -> None:
        self._opened = opened

    def counted(self, wanted: IndexFilter) -> int:
        """How many points there are of a filter without ids."""
        with engine_failures("the vector index refused a count"):
            asked = engine.CountRequest(exact=True, filter=engine_filter(c.conditions(wanted, None)))
            return self._opened().count(asked)

    def vectors(self, wanted: IndexFilter) -> Iterator[Mapping[UUID, DenseVector]]:
        """The vectors of the points of a filter without ids, by their rows, in pages; the engine keeps them at length
        1."""
        return self._pages(wanted, [schema.ROW], schema.DENSE, _dense)

    def words(self, wanted: IndexFilter) -> Iterator[Mapping[UUID, Worded]]:
        """The words of the points of a filter without ids, by their rows, in pages."""
        return self._pages(wanted, [schema.ROW, *_WHAT], schema.TERMS, _worded)

    def vectors_of(self, wanted: IndexFilter, rows: Sequence[UUID]) -> dict[UUID, DenseVector]:
        """The vectors of those of these points that exist and are of the filter's kind and, if it asks for roots, some
        of its trees."""
        points = point_ids(wanted.tenant, wanted.forest_id, rows)
        with engine_failures("the vector index refused a read"):
            records = self._opened().retrieve(list(points), _WHAT, [schema.DENSE])
            return {points[uuid_of(record.id)]: _dense(record) for record in records if _meant(record, wanted)}

    def words_of(self, wanted: IndexFilter, rows: Sequence[UUID]) -> dict[UUID, Worded]:
        """The words of those of these points that exist."""
        points = point_ids(wanted.tenant, wanted.forest_id, rows)
        with engine_failures("the vector index refused a read"):
            records = self._opened().retrieve(list(points), _WHAT, [schema.TERMS])
            return {points[uuid_of(record.id)]: _worded(record) for record in records}

    def _pages(
        self, wanted: IndexFilter, fields: list[str], vector: str, content: Callable[[engine.Record], Content]
    ) -> Iterator[Mapping[UUID, Content]]:
        chosen, at = engine_filter(c.conditions(wanted, None)), None
        while True:
            request = engine.ScrollRequest(
                offset=at, limit=PAGE, filter=chosen, with_payload=fields, with_vector=[vector]
            )
            with engine_failures("the vector index refused a scan"):
                records, at = self._opened().scroll(request)
                page = {_row(record): content(record) for record in records}
            yield page
            if at is None:
                return


def _row(record: engine.Record) -> UUID:
    return KNOWN_IDS[str((record.payload or {})[schema.ROW])]


def _meant(record: engine.Record, wanted: IndexFilter) -> bool:
    told = record.payload or {}
    kinds = [kind.value for kind in wanted.kinds]
    of_tree = not wanted.tree_kinds or told.get(schema.TREE_KIND) in wanted.tree_kinds
    return told[schema.KIND] in kinds and (not wanted.roots_only or bool(told[schema.ROOT])) and of_tree


def _vectors(record: engine.Record) -> Mapping[str, object]:
    # The engine makes a list of a record's numbers each time it is asked for them.
    vector = record.vector
    return vector if isinstance(vector, dict) else {}


def _dense(record: engine.Record) -> DenseVector:
    return np.array(_vectors(record)[schema.DENSE], np.float32)


def _worded(record: engine.Record) -> Worded:
    told = record.payload or {}
    terms = _vectors(record).get(schema.TERMS)
    vector = SparseVector((), ())
    if isinstance(terms, engine.SparseVector):
        vector = SparseVector(tuple(terms.indices), tuple(terms.values))
    return Worded(
        PointKind(str(told[schema.KIND])), vector, bool(told[schema.ROOT]), str(told.get(schema.TREE_KIND, ""))
    )


class IndexDamaged(IndexUnavailable):
    """The files of the embedded index can't be used as they are: it sets them aside and is filled from rows."""

    code = "index_damaged"


ASIDE = ".damaged"
"""What the name of a directory that was set aside ends with."""

_OS_ERROR = re.compile(r"os error (\d+)")
_OF_MACHINE = frozenset(
    {errno.EPERM, errno.EIO, errno.ENOMEM, errno.EACCES, errno.ENFILE, errno.EMFILE, errno.ENOSPC, errno.EROFS}
)
"""What no other directory would change."""


@contextmanager
def engine_failures(what: str) -> Iterator[None]:
    """Turns what the engine raises into our errors; ``what`` failed, in words for messages.

    The engine raises ``Exception`` itself for everything, with no class of its own, and a panic of its own as a
    ``BaseException``; fields of damaged payload are missing or have other values. What else is raised are our own
    errors or bugs and passes unchanged. Raises IndexDamaged, but IndexUnavailable for what is missing on the machine.
    """
    try:
        yield
    except OSError as error:
        raise IndexUnavailable(f"{what}: {error}") from error
    except (KeyError, ValueError) as error:
        raise IndexDamaged(f"{what}: a stored point can't be read ({type(error).__name__})") from error
    except BaseException as error:
        if type(error) is not Exception and type(error).__name__ != "PanicException":
            raise
        text = str(error)
        if "WouldBlock" in text:
            raise IndexUnavailable(f"{what}: another process has it open") from error
        number = _OS_ERROR.search(text)
        if number is not None and int(number[1]) in _OF_MACHINE:
            raise IndexUnavailable(f"{what}: {text}") from error
        raise IndexDamaged(f"{what}: {text}") from error


def read_all(directory: Path) -> int:
    """Read the points of a shard that no process has open; how many. Raises IndexDamaged, IndexUnavailable."""
    with engine_failures(f"{directory} can't be read: the node sets it aside and rebuilds the index when it starts"):
        shard, points, at = engine.EdgeShard.load(str(directory)), 0, None
        rows = engine.Filter(must_not=[engine.HasIdCondition({schema.MARK_ID})])
        while True:
            request = engine.ScrollRequest(offset=at, limit=PAGE, filter=rows, with_payload=True, with_vector=True)
            records, at = shard.scroll(request)
            if any(abs(float(np.linalg.norm(_dense(record))) - 1) > LENGTH_ERROR for record in records):
                raise ValueError("a vector of another length")
            points += len(records)
            if at is None:
                shard.close()
                return points


def engine_filter(wanted: Sequence[c.Condition]) -> engine.Filter:
    """Conditions, all of which must hold, as the engine's filter."""
    return engine.Filter(must=[engine_condition(condition) for condition in wanted])


def engine_condition(condition: c.Condition) -> engine.ConditionType:
    """One of them."""
    match condition:
        case c.AnyOf(field, (only,)):
            return engine.FieldCondition(field, match=engine.MatchValue(only))
        case c.AnyOf(field, values):
            return engine.FieldCondition(field, match=engine.MatchAny(list(map(str, values))))
        case c.Within(field, least, most):
            return engine.FieldCondition(field, range=engine.RangeFloat(gte=least, lte=most))
        case c.Among(ids):
            return engine.HasIdCondition(set(ids))
        case _:
            assert_never(condition)
