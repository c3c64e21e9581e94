"""Which texts of a bundle have vectors, and the hashes under which the store keeps them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from memforest_core.domain.indexed import cell_text
from memforest_core.domain.times import from_micros
from memforest_core.lifecycle.bundle.checking import statement_of
from memforest_core.lifecycle.bundle.records import CANDIDATE, CELL, FACT, BundleTable, Row
from memforest_core.models.statement_vectors import Parts, parts_of
from memforest_core.store.vectors import text_hash

WITH_TEXTS = (CELL, CANDIDATE, FACT)

_TEXT, _START, _FACT_TEXT = CELL.at("text"), CELL.at("time_start"), FACT.at("text")


def embedded_cell(row: Row) -> str:
    """What is embedded of a cell."""
    return cell_text(str(row[_TEXT]), from_micros(int(row[_START] or 0)))


def texts_of(table: BundleTable, rows: Sequence[Row]) -> Iterator[str]:
    """The texts of these rows that have vectors. Raises InvalidInput."""
    for row in rows:
        if table is CELL:
            yield embedded_cell(row)
        elif table is FACT:
            yield str(row[_FACT_TEXT])
        elif table is CANDIDATE:
            said = statement_of(CANDIDATE, row)
            yield said.text
            yield said.routing_text


def routing_parts(table: BundleTable, rows: Sequence[Row]) -> Parts:
    """What the routing texts among ``texts_of`` are made of. Raises InvalidInput."""
    return parts_of(statement_of(CANDIDATE, row) for row in rows) if table is CANDIDATE else {}


def hashes_of(table: BundleTable, row: Row) -> tuple[bytes, ...]:
    """The hashes that the store keeps with a row."""
    return tuple(text_hash(text) for text in texts_of(table, [row]))
