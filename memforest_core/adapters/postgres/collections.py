"""Which vector collection is live: one row that every process agrees on."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from memforest_core.adapters.postgres import models as m
from memforest_core.adapters.postgres.engine import store_errors
from memforest_core.errors import InvalidSettings


def claim_collection(engine: sa.Engine, name: str, model: str, dimension: int) -> None:
    """Make this the live collection if there is none yet. Raises InvalidSettings when another one is live."""
    with store_errors(), engine.begin() as connection:
        connection.execute(sa.text("LOCK TABLE memforest.collection IN SHARE ROW EXCLUSIVE MODE"))
        live = connection.execute(
            sa.select(m.Collection.name, m.Collection.model, m.Collection.dimension).where(m.Collection.live)
        ).first()
        if live is None:
            connection.execute(insert(m.Collection).values(name=name, model=model, dimension=dimension, live=True))
        elif live.name != name:
            raise InvalidSettings(
                f"Stored vectors come from {live.model} with {live.dimension} dimensions, but the embedding model is"
                f" {model} with {dimension}: set MEMFOREST_EMBEDDING__MODEL={live.model}, or re-materialize."
            )
