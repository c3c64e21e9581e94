"""The next version of the program: one more migration, which adds a column and fills it in every tenant's rows."""

from __future__ import annotations

from pathlib import Path

import pytest
from alembic.config import Config

from memforest_core.lifecycle.backup import service
from memforest_core.store import schema

NEXT = "0999"
MIGRATION = '''
"""The forest gets a mood."""

import sqlalchemy as sa
from alembic import op

revision = {revision!r}
down_revision = {follows!r}
compatible = {compatible!r}


def upgrade() -> None:
    op.add_column("forest", sa.Column("mood", sa.Text()), schema="memforest")
    op.execute("ALTER TABLE memforest.forest ALTER mood SET STATISTICS 0")
    op.execute("UPDATE memforest.forest SET mood = 'calm'")


def downgrade() -> None:
    op.drop_column("forest", "mood", schema="memforest")
'''


def become_next_version(monkeypatch: pytest.MonkeyPatch, directory: Path, *, compatible: bool = True) -> None:
    """From here on, until the patches are undone, this process upgrades to ``NEXT`` and needs it."""
    own = Path(schema.__file__).parent / "migrations" / "versions"
    text = MIGRATION.format(revision=NEXT, follows=schema.head_revision(), compatible=compatible)
    (directory / f"{NEXT}_mood.py").write_text(text)
    known = schema._config

    def config(*arguments: object) -> Config:
        found = known(*arguments)  # type: ignore[arg-type]
        found.set_main_option("path_separator", "newline")
        found.set_main_option("version_locations", f"{own}\n{directory}")
        return found

    monkeypatch.setattr(schema, "_config", config)
    for module in (schema, service):
        monkeypatch.setattr(module, "head_revision", lambda: NEXT)
