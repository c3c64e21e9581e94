"""Which texts of a bundle have vectors, and the hashes under which the store keeps them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from uuid import UUID

from memforest_core.domain.facts import Candidate
from memforest_core.domain.ids import CellId
from memforest_core.domain.indexed import cell_text
from memforest_core.domain.times import from_micros
from memforest_core.extract.service import routing_text
from memforest_core.transfer.bundles.checking import RowChecks
from memforest_core.transfer.bundles.records import CANDIDATE, CELL, FACT, BundleTable, Row

WITH_TEXTS = (CELL, CANDIDATE, FACT)

_NO_CELL = CellId(UUID(int=0))
_TEXT, _START, _FACT_TEXT = CELL.at("text"), CELL.at("time_start"), FACT.at("text")


def hash_of(text: str) -> bytes:
    """The content hash of a text."""
    return hashlib.sha256(text.encode()).digest()


def embedded_cell(row: Row) -> str:
    """What is embedded of a cell."""
    return cell_text(str(row[_TEXT]), from_micros(int(row[_START] or 0)))


class Texts:
    """Reads the texts of rows, and the hashes that the store adds to them."""

    def __init__(self, checks: RowChecks) -> None:
        self._checks = checks

    def of(self, table: BundleTable, rows: Sequence[Row]) -> Iterator[str]:
        """The texts of these rows that have vectors. Raises InvalidInput."""
        for row in rows:
            if table is CELL:
                yield embedded_cell(row)
            elif table is FACT:
                yield str(row[_FACT_TEXT])
            elif table is CANDIDATE:
                yield from self._said(row)

    def derived(self, table: BundleTable, row: Row) -> tuple[bytes, ...]:
        """The hashes that the store keeps with a row."""
        if table is CELL:
            return (hash_of(embedded_cell(row)),)
        if table is FACT:
            return (hash_of(str(row[_FACT_TEXT])),)
        if table is CANDIDATE:
            return tuple(hash_of(text) for text in self._said(row))
        return ()

    def _said(self, row: Row) -> tuple[str, str]:
        statement = self._checks.statement(CANDIDATE, row)
        return statement.text, routing_text(Candidate(_NO_CELL, 0, (), "", statement))
