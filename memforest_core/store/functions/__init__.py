"""The current definition of each SQL function and its triggers, one file each."""

from __future__ import annotations

from importlib.resources import files

import sqlalchemy as sa


def install(connection: sa.Connection) -> None:
    """Create or replace all functions and triggers in the caller's transaction; owners and rights stay as they are.

    A migration that changes a function changes its file and calls this. An upgrade from an older revision therefore
    meets a function whose tables come with a later migration: bodies are not checked here.
    """
    cursor = connection.connection.cursor()
    cursor.execute("SET LOCAL check_function_bodies = off")
    for file in sorted(files(__name__).iterdir(), key=lambda file: file.name):
        if file.name.endswith(".sql"):
            cursor.execute(file.read_text(encoding="utf-8"))
    cursor.execute("SET LOCAL check_function_bodies = on")
