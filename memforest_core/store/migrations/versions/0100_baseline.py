"""The first schema, in ``baseline.sql``."""

from __future__ import annotations

from importlib.resources import files

from alembic import op

revision = "0100"
down_revision = None

compatible = False


def upgrade() -> None:
    sql = files("memforest_core.store.migrations").joinpath("baseline.sql").read_text(encoding="utf-8")
    # The driver's cursor takes many statements at once, and no "%" in them for a parameter.
    op.get_bind().connection.cursor().execute(sql)


def downgrade() -> None:
    raise NotImplementedError("Nothing is older than the first schema: drop the schema memforest instead.")
