"""Turns from their rows."""

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
    )
