"""What is read of the embedded engine beyond searches: the contents of points, and what it raises as our errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import assert_never
from uuid import UUID

import numpy as np
import qdrant_edge as engine

from memforest_core.domain.known_ids import KNOWN_IDS
from memforest_core.errors import IndexUnavailable, InvalidSettings
from memforest_core.index.qdrant import conditions as c
from memforest_core.index.qdrant import schema
from memforest_core.index.qdrant.ids import point_ids
from memforest_core.index.qdrant.points import uuid_of
from memforest_core.index.qdrant.postings import Worded
from memforest_core.index.vector_index import DenseVector, IndexFilter, PointKind, SparseVector

PAGE = 2_000
"""Points read at once of a whole forest; each page looks through the forest's ids anew."""
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
        for page in self._pages(wanted, [schema.ROW], schema.DENSE):
            yield {_row(record): _dense(record) for record in page}

    def words(self, wanted: IndexFilter) -> Iterator[Mapping[UUID, Worded]]:
        """The words of the points of a filter without ids, by their rows, in pages."""
        for page in self._pages(wanted, [schema.ROW, *_WHAT], schema.TERMS):
            yield {_row(record): _worded(record) for record in page}

    def vectors_of(self, wanted: IndexFilter, rows: Sequence[UUID]) -> dict[UUID, DenseVector]:
        """The vectors of those of these points that exist and are of the filter's kind and, if it asks for roots, some
        of its trees."""
        points = point_ids(wanted.tenant, wanted.forest_id, rows)
        records = self._retrieved(points, _WHAT, schema.DENSE)
        return {points[uuid_of(record.id)]: _dense(record) for record in records if _meant(record, wanted)}

    def words_of(self, wanted: IndexFilter, rows: Sequence[UUID]) -> dict[UUID, Worded]:
        """The words of those of these points that exist."""
        points = point_ids(wanted.tenant, wanted.forest_id, rows)
        records = self._retrieved(points, _WHAT, schema.TERMS)
        return {points[uuid_of(record.id)]: _worded(record) for record in records}

    def _retrieved(self, points: Mapping[UUID, UUID], fields: list[str], vector: str) -> list[engine.Record]:
        with engine_failures("the vector index refused a read"):
            return self._opened().retrieve(list(points), fields, [vector])

    def _pages(self, wanted: IndexFilter, fields: list[str], vector: str) -> Iterator[list[engine.Record]]:
        chosen, at = engine_filter(c.conditions(wanted, None)), None
        while True:
            request = engine.ScrollRequest(
                offset=at, limit=PAGE, filter=chosen, with_payload=fields, with_vector=[vector]
            )
            with engine_failures("the vector index refused a scan"):
                records, at = self._opened().scroll(request)
            yield records
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


@contextmanager
def engine_failures(what: str) -> Iterator[None]:
    """Turns what the engine raises into our errors; ``what`` failed, in words for messages.

    The engine raises ``Exception`` itself for everything, with no class of its own, so exactly that
    class is taken here; its subclasses are our own errors or bugs and pass unchanged.
    """
    try:
        yield
    except Exception as error:
        if type(error) is not Exception:
            raise
        text = str(error)
        if "Incompatible config" in text or "dimension error" in text:
            raise InvalidSettings(
                f"{what}: it was built for another embedding model or dimension ({text}); "
                "set the model that built it, or remove the directory and rebuild the index"
            ) from error
        reason = "another process has it open" if "init WAL" in text else text
        raise IndexUnavailable(f"{what}: {reason}") from error


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
