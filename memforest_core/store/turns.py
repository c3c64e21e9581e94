"""Turns as rows: what is written of a turn, and what is read back."""

from __future__ import annotations

from datetime import UTC

import sqlalchemy as sa

from memforest_core.domain.turns import Role, Turn


def turn_of(row: sa.RowMapping) -> Turn:
    """A turn from its row."""
    return Turn(
        ordinal=row["ordinal"],
        id=row["external_id"],
        role=Role(row["role"]),
        content=row["content"],
        occurred_at=row["occurred_at"].astimezone(UTC),
        dated=row["dated"],
        speaker_id=row["speaker_id"],
        name=row["name"],
        metadata=row["metadata"],
        erased=row["erased"],
        utc_offset=row["utc_offset"],
    )


def row_of(turn: Turn) -> dict[str, object]:
    """The columns of a turn's row, apart from tenant and session."""
    return {
        "ordinal": turn.ordinal,
        "external_id": turn.id,
        "role": turn.role.value,
        "content": turn.content,
        "occurred_at": turn.occurred_at,
        "dated": turn.dated,
        "speaker_id": turn.speaker_id,
        "name": turn.name,
        "metadata": dict(turn.metadata),
        "utc_offset": turn.utc_offset,
    }
