"""Turns as rows: what is written of a turn, and what is read back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from datetime import UTC

import sqlalchemy as sa

from memforest_core.domain.turns import Role, Turn
from memforest_core.store import tables as m
from memforest_core.store.packs import PACKED, Texts, packed_of

COLUMNS = {each.name: "external_id" if each.name == "id" else each.name for each in fields(Turn)}
"""The column of each field of a turn."""
del COLUMNS["named"]


def whole_turns() -> sa.Select[tuple[object, ...]]:
    """All columns of turns, and what ``turns_of`` needs of packed ones."""
    return sa.select(*m.TurnRow.__table__.c, packed_of(m.TurnRow))


def turns_of(rows: Iterable[sa.RowMapping]) -> list[Turn]:
    """Turns from their rows."""
    texts = Texts()
    return [turn_of(row, texts) for row in rows]


def turn_of(row: sa.RowMapping, texts: Texts) -> Turn:
    """A turn from its row."""
    values = {field: row[column] for field, column in COLUMNS.items()}
    said = {"content": texts(row["content"], row["packed"]), "role": Role(values["role"])}
    return Turn(**values | said | {"occurred_at": values["occurred_at"].astimezone(UTC)})


def row_of(turn: Turn) -> dict[str, object]:
    """The columns of a new turn's row, apart from tenant and session."""
    values: dict[str, object] = {column: getattr(turn, field) for field, column in COLUMNS.items() if field != "erased"}
    return values | {"role": turn.role.value, "metadata": dict(turn.metadata)}


def columns_with(**instead: str) -> str:
    """The columns of turns ``t`` that ``turn_of`` reads, as SQL; ``instead`` has another term for some."""
    named = [f"{instead[name]} AS {name}" if name in instead else f"t.{name}" for name in COLUMNS.values()]
    return ", ".join([*named, PACKED])
