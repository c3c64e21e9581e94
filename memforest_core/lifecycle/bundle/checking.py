"""Which values a bundle may have, and which of its texts have vectors: each is checked before anything is written."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import cast
from uuid import UUID
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np

from memforest_core.domain.facts import Statement
from memforest_core.domain.indexed import cell_text
from memforest_core.domain.times import EARLIEST, LATEST, from_micros, micros
from memforest_core.domain.turns import MAX_METADATA_DEPTH, levels_of
from memforest_core.errors import InvalidInput, InvariantViolated
from memforest_core.ingest.reduce.records import Rules, ruled
from memforest_core.lifecycle.bundle.records import (
    CANDIDATE,
    CELL,
    FACT,
    SESSION,
    TABLES,
    TURN,
    BundleTable,
    Column,
    Row,
    Value,
)
from memforest_core.settings import AcceptSettings, Settings
from memforest_core.store.copying import ValueKind
from memforest_core.store.statements import from_document
from memforest_core.store.vectors import text_hash

MAX_NAME_BYTES = 1_024
"""What enqueue takes as a name; more does not fit into an index entry of Postgres."""
MAX_BLOB_BYTES = 1 << 20
TEXTS_OF_TURNS = 4
"""A text made of turns (a cell, a summary, a statement) is at most this many times as long as the longest turn."""

_NAMES = {
    "external_id", "channel", "speaker_id", "name", "time_zone", "origin_owner", "subject_key", "attribute",
    "scope_key", "key_id", "domain", "model", "error_code",
}  # fmt: skip
_LENGTHS = {"text_hash": 32}
DAY_MINUTES = 24 * 60
_NUMBERS = re.compile(r"\[(?:\d{1,9}(?:, ?\d{1,9})*)?\]")
_FIRST, _LAST = micros(EARLIEST), micros(LATEST)

_Check = Callable[[Value], bool]


def damaged(what: str) -> InvalidInput:
    """The one kind of answer to a bundle that is not what it says; ``what`` names tables and columns, never data."""
    return InvalidInput(f"This bundle is damaged ({what}): export it again.", code="damaged_bundle")


def statement_of(table: BundleTable, row: Row) -> Statement:
    """The statement of a candidate or a fact. Raises InvalidInput."""
    document = json.loads(str(row[table.at("statement")]))
    try:
        statement = from_document(document)
    except InvariantViolated:
        raise damaged(f"{table.name}.statement") from None
    said = (statement.text, statement.speaker, statement.subject, statement.attribute, statement.value)
    more = (statement.previous_value, statement.scene, *statement.entities)
    texts = all(isinstance(text, str) and "\x00" not in text for text in (*said, *more))
    if not texts or not isinstance(statement.verbatim, bool):
        raise damaged(f"{table.name}.statement")
    return statement


class RowChecks:
    """Checks rows of a bundle, each by itself."""

    def __init__(self, limits: AcceptSettings, dimension: int) -> None:
        """``limits`` are those of enqueue; ``dimension`` is that of vectors."""
        self._limits = limits
        self._dimension = dimension
        self._checks = {table.name: [(c.name, c.null, self._check(c)) for c in table.columns] for table in TABLES}
        self._zones: set[str] = set()

    def check(self, table: BundleTable, rows: Sequence[Row]) -> None:
        """Raises InvalidInput at the first value that may not be there."""
        checks = self._checks[table.name]
        for row in rows:
            for value, (name, null, allowed) in zip(row, checks, strict=True):
                if not (null if value is None else allowed(value)):
                    raise damaged(f"{table.name}.{name}")
        if table is TURN:
            self._turns(rows)
        elif table is SESSION:
            for zone in {str(row[table.at("time_zone")]) for row in rows} - self._zones:
                check_zone(zone)
                self._zones.add(zone)

    def _turns(self, rows: Sequence[Row]) -> None:
        ordinal, content, offset = TURN.at("ordinal"), TURN.at("content"), TURN.at("utc_offset")
        for row in rows:
            if not -DAY_MINUTES < int(row[offset] or 0) < DAY_MINUTES:
                raise damaged("turn.utc_offset")
            if not 0 <= int(row[ordinal] or 0) < self._limits.max_turns:
                raise InvalidInput(
                    f"This bundle has a session of more than {self._limits.max_turns} turns: raise"
                    " MEMFOREST_ACCEPT__MAX_TURNS.",
                    code="too_many_turns",
                )
            if len(str(row[content]).encode()) > self._limits.max_turn_bytes:
                raise InvalidInput(
                    f"This bundle has a turn of more than {self._limits.max_turn_bytes} bytes: raise"
                    " MEMFOREST_ACCEPT__MAX_TURN_BYTES.",
                    code="turn_too_long",
                )

    def _check(self, column: Column) -> _Check:
        longest = MAX_NAME_BYTES if column.name in _NAMES else TEXTS_OF_TURNS * self._limits.max_turn_bytes
        match column.kind:
            case ValueKind.TEXT if column.one_of:
                return lambda value: value in column.one_of
            case ValueKind.TEXT:
                return lambda value: _is_text(value, longest)
            case ValueKind.ID:
                return _is_id
            case ValueKind.DOCUMENT:
                return lambda value: _is_text(value, longest) and _is_document(str(value))
            case ValueKind.NUMBERS:
                return lambda value: _is_text(value, longest) and _NUMBERS.fullmatch(str(value)) is not None
            case ValueKind.INTEGER:
                return lambda value: type(value) is int and -(2**63) <= value < 2**63
            case ValueKind.TRUTH:
                return lambda value: type(value) is int and value in (0, 1)
            case ValueKind.MOMENT:
                return lambda value: type(value) is int and _FIRST <= value < _LAST
            case ValueKind.BYTES if column.vector:
                return lambda value: _is_vector(value, self._dimension)
            case ValueKind.BYTES:
                exact = _LENGTHS.get(column.name)
                return lambda value: (
                    isinstance(value, bytes)
                    and (len(value) <= MAX_BLOB_BYTES if exact is None else len(value) == exact)
                    and (column.name != "terms" or len(value) % 8 == 0)
                )


def check_zone(zone: str) -> None:
    """Raises InvalidInput for a time zone that this machine does not know."""
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidInput(f"This bundle has a time zone that is not known here: {zone!r:.40}.") from None


def check_rules(settings: Settings, rules: Mapping[str, object]) -> None:
    """Raises InvalidInput for rules that a forest can't have."""
    numbers = {name: value for name, value in rules.items() if type(value) in (int, float)}
    if len(numbers) != len(rules):
        raise damaged("meta.rules")
    ruled(settings, cast(Rules, numbers))


def _is_text(value: Value, longest: int) -> bool:
    if not isinstance(value, str) or "\x00" in value:
        return False
    return 4 * len(value) <= longest or len(value.encode()) <= longest


def _is_id(value: Value) -> bool:
    if not isinstance(value, str) or len(value) != 36:
        return False
    try:
        return str(UUID(value)) == value
    except ValueError:
        return False


def _no_constant(name: str) -> object:
    raise ValueError(name)


def _is_document(value: str) -> bool:
    try:
        document = json.loads(value, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return False
    return isinstance(document, dict) and sum(1 for _ in levels_of(document)) <= MAX_METADATA_DEPTH


def _is_vector(value: Value, dimension: int) -> bool:
    if not isinstance(value, bytes) or len(value) != 4 * dimension:
        return False
    return bool(np.isfinite(np.frombuffer(value, dtype="<f4")).all())


_TEXT, _START, _FACT_TEXT = CELL.at("text"), CELL.at("time_start"), FACT.at("text")


def texts_of(table: BundleTable, rows: Sequence[Row]) -> Iterator[str]:
    """The texts of these rows that have vectors. Raises InvalidInput."""
    for row in rows:
        if table is CELL:
            yield cell_text(str(row[_TEXT]), from_micros(int(row[_START] or 0)))
        elif table is FACT:
            yield str(row[_FACT_TEXT])
        elif table is CANDIDATE:
            said = statement_of(CANDIDATE, row)
            yield said.text
            yield said.routing_text


def hashes_of(table: BundleTable, row: Row) -> tuple[bytes, ...]:
    """The hashes that the store has with a row."""
    return tuple(text_hash(text) for text in texts_of(table, [row]))
