"""A bundle's rows for people and other programs: views of its SQLite file, and the same rows as JSON lines.

Both forms carry every row of the bundle and its head, so an import reads them as the bundle that they are.
"""

from __future__ import annotations

import json
import sqlite3
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from itertools import chain, groupby
from operator import itemgetter
from typing import Any, BinaryIO

from memforest_core.domain.times import from_micros, micros
from memforest_core.errors import InvalidInput
from memforest_core.lifecycle.bundle.checking import damaged
from memforest_core.lifecycle.bundle.records import (
    APPLICATION_ID,
    CREATE_META,
    TABLES,
    BundleTable,
    Column,
    create,
    document,
)
from memforest_core.store.copying import ValueKind

BEGINNING = b'{"memforest": '
"""With this a file of JSON lines begins: the first line is the head."""
LONGEST_LINE = 16 << 20
"""Bytes of a line, many times what a turn may have."""

_SESSION = "(SELECT s.external_id FROM session s WHERE s.session_id = x.session_id)"
_NODE = "FROM node n WHERE n.node_id = x.node_id)"
_SIBLING = """(SELECT p.node_id FROM node n
      JOIN node p ON p.n = n.n {} 1 AND p.tree_id = n.tree_id AND p.level = n.level
     WHERE n.node_id = x.node_id)"""
_TIME = "strftime('%Y-%m-%dT%H:%M:%SZ', {} / 1000000, 'unixepoch')"

EXTRAS: Mapping[str, Mapping[str, str]] = {
    "turn": {
        "session": _SESSION,
        "topic": """(SELECT coalesce(r.title, r.label) FROM turn_topic o JOIN scope r ON r.tree_id = o.tree_id
             WHERE o.session_id = x.session_id AND o.ordinal = x.ordinal)""",
    },
    "cell": {"session": _SESSION},
    "fact": {
        **{name: f"json_extract(x.statement, '$.{name}')" for name in ("speaker", "subject", "value")},
        "sources": """(SELECT json_group_array(json(a.said)) FROM (
            SELECT json_object('session', s.external_id, 'turns', json((
                   SELECT json_group_array(t.external_id) FROM json_each(o.turn_ordinals) j
                    CROSS JOIN turn t ON t.session_id = o.session_id AND t.ordinal = j.value))) AS said
              FROM occurrence o CROSS JOIN session s ON s.session_id = o.session_id
             WHERE o.fact_id = x.fact_id ORDER BY s.started_at, s.external_id, o.n) a)""",
    },
    "scope": {"session": _SESSION, "summary": "(SELECT s.text FROM summary s WHERE s.node_id = x.root_id)"},
    "summary": {
        "about": f"(SELECT (SELECT coalesce(r.title, r.label) FROM scope r WHERE r.tree_id = n.tree_id) {_NODE}",  # noqa: S608
        **{name: f"(SELECT n.{name} {_NODE}" for name in ("tree_id", "level")},
        **{name: f"(SELECT {_TIME.format(f'n.{name}')} {_NODE}" for name in ("time_start", "time_end")},
        "parent": f"(SELECT n.parent_id {_NODE}",
        "children": """(SELECT json_group_array(coalesce(c.payload_id, c.node_id))
              FROM (SELECT * FROM node n WHERE n.parent_id = x.node_id ORDER BY n.n) c)""",
        "previous": _SIBLING.format("-"),
        "next": _SIBLING.format("+"),
    },
}
"""What a table's rows have besides their columns, from other rows: the caller's ids, and the order of summaries. The
children of a summary are nodes or, above the leaves, facts and cells."""
_LISTS = frozenset({"sources", "children"})
_VIEWS = {
    "sessions": "session",
    "turns": "turn",
    "facts": "fact",
    "names": "speaker",
    "trees": "scope",
    "summaries": "summary",
}
_INDEXES = (
    *("session (session_id)", "turn (session_id, ordinal)", "turn_topic (session_id, ordinal)", "scope (tree_id)"),
    *("occurrence (fact_id)", "node (node_id)", "node (parent_id)", "summary (node_id)"),
)


def readable(tables: Mapping[str, BundleTable]) -> dict[tuple[str, str], str]:
    """The statements that make these tables readable, by kind and name: views, and indexes for what they look up.

    Their times are ISO 8601; vectors are left out.
    """
    made = {("index", f"lookup_{n}"): f"CREATE INDEX lookup_{n} ON {each}" for n, each in enumerate(_INDEXES)}
    for view, name in _VIEWS.items():
        shown = {
            each.name: _TIME.format(f"x.{each.name}") if each.kind is ValueKind.MOMENT else f"x.{each.name}"
            for each in tables[name].columns
            if each.kind is not ValueKind.BYTES
        }
        columns = ", ".join(f"{sql} AS {column}" for column, sql in {**shown, **EXTRAS.get(name, {})}.items())
        made["view", view] = f"CREATE VIEW {view} AS SELECT {columns} FROM {name} x"  # noqa: S608 - constants
    return made | {("view", "topics"): "CREATE VIEW topics AS SELECT * FROM trees WHERE kind = 'scene'"}


def written_lines(bundle: sqlite3.Connection) -> Iterator[bytes]:
    """A whole, readable bundle as JSON lines: its head, then its rows in the order of their tables."""
    head = {name: json.loads(value) for name, value in bundle.execute("SELECT name, value FROM meta")}
    yield _text({"memforest": head | {"created_at": _iso(head["created_at"])}}).encode() + b"\n"
    for table in TABLES:
        extras = EXTRAS.get(table.name, {})
        columns = ", ".join([*(f"x.{each.name}" for each in table.columns), *extras.values()])
        for row in bundle.execute(f"SELECT {columns} FROM {table.name} x ORDER BY x.n"):  # noqa: S608 - constants
            shown = {
                each.name: _converted(each, value, read=False) for each, value in zip(table.columns, row, strict=False)
            }
            more = zip(extras, row[len(table.columns) :], strict=True)
            more_shown = {name: json.loads(value) if name in _LISTS else value for name, value in more}
            yield _text({"table": table.name, **shown, **more_shown}).encode() + b"\n"


def read_lines(file: BinaryIO, bundle: sqlite3.Connection) -> None:
    """Make an empty database the bundle that untrusted JSON lines have, for a reader to check. Raises InvalidInput.

    A column that may be NULL can be missing, as in an export from before it was added.
    """
    number = 0

    def rows() -> Iterator[dict[str, Any]]:
        nonlocal number
        while text := file.readline(LONGEST_LINE):
            number += 1
            yield json.loads(text)

    lines, tables = rows(), {table.name: table for table in TABLES}
    try:
        head = next(lines)["memforest"]
        head["created_at"] = micros(datetime.fromisoformat(head["created_at"]))
        bundle.execute("PRAGMA journal_mode = OFF")
        bundle.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        bundle.execute(f"PRAGMA user_version = {min(int(head['format']), 2**31 - 1)}")
        bundle.execute(CREATE_META)
        bundle.executemany("INSERT INTO meta VALUES (?, ?)", ((name, document(head[name])) for name in head))
        for name, some in groupby(lines, itemgetter("table")):
            table, first = tables.pop(name), next(some)
            stored = [each for each in table.columns if each.name in first or not each.null]
            bundle.execute(create(replace(table, columns=tuple(stored))))
            names, marks = ", ".join(each.name for each in stored), ", ".join("?" * len(stored))
            bundle.executemany(
                f"INSERT INTO {name} ({names}) VALUES ({marks})",  # noqa: S608 - constants of the format
                ([_converted(each, row[each.name], read=True) for each in stored] for row in chain([first], some)),
            )
        for table in tables.values():
            bundle.execute(create(table))
        bundle.commit()
    except sqlite3.OperationalError as error:  # of this machine, such as a full disk
        raise InvalidInput(f"The lines can't be read: {error}.", code="file_not_readable") from None
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError, sqlite3.Error):
        raise damaged(f"line {number}") from None


def _iso(moment: int) -> str:
    return from_micros(moment).isoformat().replace("+00:00", "Z")


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _parsed(text: str) -> Any:
    """A document as it is, unless its text would not come back from that."""
    value = json.loads(text)
    return value if _text(value) == text else text


_FORMS: Mapping[ValueKind, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    ValueKind.MOMENT: (_iso, lambda value: micros(datetime.fromisoformat(value))),
    ValueKind.TRUTH: (bool, int),
    ValueKind.BYTES: (lambda value: b64encode(value).decode(), lambda value: b64decode(value, validate=True)),
    ValueKind.DOCUMENT: (_parsed, _text),
    ValueKind.NUMBERS: (_parsed, _text),
}
"""How values of a bundle are in JSON lines, where not as they are, and how they are read from there."""


def _converted(column: Column, value: Any, read: bool) -> Any:
    return value if value is None or column.kind not in _FORMS else _FORMS[column.kind][read](value)
