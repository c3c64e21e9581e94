"""Rows of a bundle ready for the store: with their new ids and hashes, and dirty where something is missing."""

from __future__ import annotations

from collections.abc import Sequence

from memforest_core.lifecycle.bundle.checking import damaged
from memforest_core.lifecycle.bundle.embedded_texts import hashes_of
from memforest_core.lifecycle.bundle.inspecting import Seen
from memforest_core.lifecycle.bundle.new_ids import NewIds
from memforest_core.lifecycle.bundle.records import NODE, SCOPE, SUMMARY, VECTOR, BundleTable, Row, Value
from memforest_core.memtree import MIN_BRANCHING

_LEVEL, _VERSION, _CLEAN = NODE.at("level"), NODE.at("version"), NODE.at("clean_version")
_VECTOR, _POOLED = SUMMARY.at("vector"), SUMMARY.at("pooled")
_KIND, _CENTROID, _K = SCOPE.at("kind"), SCOPE.at("centroid"), SCOPE.at("k")

MAX_BRANCHING = 64
"""What the settings allow: each child's text is read for its parent's summary."""


class PreparedRows:
    """Prepares rows. Without vectors or summaries every inner node is dirty, so that refresh makes what is missing."""

    def __init__(self, seen: Seen, new: NewIds, dimension: int) -> None:
        """``dimension`` is that of this memory's embedding model."""
        self._seen = seen
        self._new = new
        self._dirty = not (seen.with_vectors and seen.reader.head.with_summaries)
        self._nothing = bytes(4 * dimension)

    def prepared(self, table: BundleTable, rows: Sequence[Row]) -> list[Row]:
        """The rows to insert, hashes behind. Raises InvalidInput."""
        if table is VECTOR and not self._seen.with_vectors:
            return []
        named = self._new.apply(table, rows)
        if table is NODE:
            named = [self._node(list(row)) for row in named]
        elif table is SUMMARY:
            named = [self._summary(list(row)) for row in named]
        elif table is SCOPE:
            named = [self._scope(list(row)) for row in named]
        if not table.derived:
            return named
        return [(*row, *hashes_of(table, row)) for row in named]

    def _node(self, row: list[Value]) -> Row:
        version, clean = int(row[_VERSION] or 0), int(row[_CLEAN] or 0)
        if not 1 <= version < 2**62 or not 0 <= clean <= version:
            raise damaged("node.version")
        if int(row[_LEVEL] or 0) == 0:
            row[_CLEAN] = version
        elif self._dirty:
            row[_CLEAN] = min(clean, version - 1)
        return tuple(row)

    def _summary(self, row: list[Value]) -> Row:
        # The text is kept, which saves the call; refresh pools the vectors before anybody compares with them.
        if not self._seen.with_vectors:
            row[_VECTOR] = row[_POOLED] = self._nothing
        elif row[_VECTOR] is None or row[_POOLED] is None:
            raise damaged("summary.vector")
        return tuple(row)

    def _scope(self, row: list[Value]) -> Row:
        if not MIN_BRANCHING <= int(row[_K] or 0) <= MAX_BRANCHING:
            raise damaged("scope.k")
        if row[_KIND] != "scene":
            row[_CENTROID] = None
        elif row[_CENTROID] is None:
            raise damaged("scope.centroid")
        return tuple(row)
