"""A chatbot's own history in a SQLite file: a table of messages, and one of sessions if there is one.

The file is opened for reading only, and only plain tables are read: no view, no virtual table, no function of its
schema runs. LangChain's ``message_store`` (session_id, message) is one of these.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import groupby
from pathlib import Path
from urllib.parse import quote

from memforest_core.errors import InvalidInput
from memforest_core.ingest.formats.file_items import Item, Refused, bad_item, name_of
from memforest_core.ingest.formats.history import TABLES, History, Talk

MAGIC = b"SQLite format 3\x00"
MAX_VALUE_BYTES = 2**26
"""A longer value is refused by SQLite."""


def convert(file: Path, history: History) -> Iterator[Item]:
    """A session for each that messages are of; its messages in the order in which they were inserted.

    Raises InvalidInput for a file that SQLite can't read or whose tables and columns are not found.
    """
    try:
        with closing(_opened(file)) as connection:
            messages, sessions = (_table(connection, history, which) for which in TABLES)
            if messages is None:
                names = ", ".join(sorted(_tables(connection)))
                raise _unreadable(f"no table of messages is among {names or 'none'}: give --map messages=TABLE")
            infos = {} if sessions is None else _infos(connection, history, sessions)
            yield from _sessions(connection, history, messages, infos)
    except sqlite3.Error as error:
        raise _unreadable(str(error)) from None


def _opened(file: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(f"file:{quote(str(file.absolute()))}?mode=ro", uri=True)
    connection.row_factory = sqlite3.Row
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)
    # What a hostile schema could call is not called.
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA query_only = ON")
    return connection


def _tables(connection: sqlite3.Connection) -> list[str]:
    """Plain tables."""
    found = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'")
    return [
        row["name"]
        for row in found
        if not row["name"].startswith("sqlite_") and not (row["sql"] or "").upper().startswith("CREATE VIRTUAL")
    ]


def _table(connection: sqlite3.Connection, history: History, which: str) -> str | None:
    return history.columns.find(which, _tables(connection))


def _columns(connection: sqlite3.Connection, table: str) -> list[str]:
    return [row["name"] for row in connection.execute(f"PRAGMA table_info({_quoted(table)})")]


def _infos(connection: sqlite3.Connection, history: History, table: str) -> dict[str, dict[str, object]]:
    """What the table of sessions says, by the sessions' ids."""
    key = history.columns.find("session.id", _columns(connection, table))
    if key is None:
        raise _unreadable(f"table {table} has no id of sessions: give --map session.id=COLUMN")
    infos: dict[str, dict[str, object]] = {}
    for row in connection.execute(f"SELECT * FROM {_quoted(table)}"):  # noqa: S608 - a quoted name
        name = name_of(row[key])
        if name is not None:
            infos[name] = dict(row)
    return infos


def _sessions(
    connection: sqlite3.Connection, history: History, table: str, infos: dict[str, dict[str, object]]
) -> Iterator[Item]:
    columns = _columns(connection, table)
    session, content = (history.columns.find(what, columns) for what in ("session", "content"))
    for what in ("role", "time", "id", "speaker_id", "name"):
        history.columns.find(what, columns)  # one that the caller named and that is missing is an error
    if session is None or content is None:
        missing = "session" if session is None else "content"
        raise _unreadable(f"table {table} has no column of the {missing}: give --map {missing}=COLUMN")
    order = ", ".join([_quoted(session), *_insertion(connection, table)])
    rows = connection.execute(f"SELECT * FROM {_quoted(table)} ORDER BY {order}")  # noqa: S608 - quoted names
    for number, (key, said) in enumerate(groupby(rows, lambda row: row[session]), start=1):
        name = name_of(key)
        if name is None:
            yield Refused(number, bad_item("Messages without a session: nothing says which conversation they are of."))
            continue
        yield history.converted(Talk(number, name, infos.get(name, {}), [_values(row) for row in said]))


def _insertion(connection: sqlite3.Connection, table: str) -> Sequence[str]:
    """The columns that tell in which order rows were inserted: the row's own number, else the primary key."""
    described = connection.execute(f"PRAGMA table_info({_quoted(table)})").fetchall()
    names = {row["name"].lower() for row in described}
    row = connection.execute("SELECT sql FROM sqlite_master WHERE name = ?", (table,)).fetchone()
    if "WITHOUT ROWID" not in (row["sql"] or "").upper():
        own = next((name for name in ("rowid", "_rowid_", "oid") if name not in names), None)
        if own is not None:
            return [own]
    return [_quoted(row["name"]) for row in sorted(described, key=lambda row: row["pk"]) if row["pk"]]


def _values(row: sqlite3.Row) -> dict[str, object]:
    """A row without its blobs, which are no words."""
    return {name: value for name, value in dict(row).items() if not isinstance(value, bytes)}


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _unreadable(why: str) -> InvalidInput:
    return InvalidInput(f"The SQLite file can't be read: {why}.", code="unreadable_file")
