"""Which rows each statement of a transaction has locked, and whether two transactions could wait for each other."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event

from memforest_core.store import tables as m

_LOCKS = re.compile(r"\b(INSERT|UPDATE|DELETE)\b|\bFOR (NO KEY UPDATE|UPDATE|SHARE|KEY SHARE)\b")
_SKIPS = re.compile(r"SKIP LOCKED")
_ORDERED = re.compile(r"ORDER BY")
GUARDS = {
    "candidate": ("cell",),
    "occurrence": ("cell",),
    "node_summary": ("node",),
    "maintenance_forest": ("maintenance",),
    "index_row of cell": ("cell",),
    "index_row of node": ("node",),
}
"""Rows that belong to another one, whose key theirs begins with: who has locked that one meets nobody who has, too."""
GATE = "forest"
"""The transaction that has locked a row of this table is the only writer of what belongs to it."""
_KEYS = {
    table.name: [column.name for column in table.primary_key.columns if column.name != "tenant_id"]
    for table in m.Base.metadata.sorted_tables
    if "tenant_id" in table.primary_key.columns
}
_NAMES = {"index_row": "'index_row of ' || t.kind"}
_HELD = sa.text(
    " UNION ALL ".join(
        f"SELECT {_NAMES.get(table, repr(table))} AS name, concat_ws('/', {', '.join(keys)}) AS id,"
        f" l.modes[array_position(l.pids, :pid)] AS mode"
        f" FROM pgrowlocks('memforest.{table}') l JOIN memforest.{table} t ON t.ctid = l.locked_row"
        f" WHERE :pid = ANY(l.pids)"
        for table, keys in _KEYS.items()
        if keys
    )
)


Row = tuple[str, str]
"""A table and a key."""


_PARKED = sa.text(
    f"SELECT count(*) FROM memforest.{GATE} WHERE state = 'hidden' AND reduce_available_at > timestamptz '8000-01-01'"
    f" AND CAST(forest_id AS text) = ANY(:ids)"
)
"""A forest that an import fills: until it is shown no worker finds anything in it."""


class Mode(IntEnum):
    """How a row is locked, the weakest first."""

    KEY_SHARE = 0
    SHARE = 1
    NO_KEY_UPDATE = 2
    UPDATE = 3

    @classmethod
    def named(cls, name: str) -> Mode:
        """The mode as pgrowlocks names it: of a lock, or of an update that implies it."""
        for part, mode in (("Key Share", 0), ("Share", 1), ("No Key Update", 2)):
            if part in name:
                return cls(mode)
        return cls.UPDATE

    def waits_for(self, other: Mode) -> bool:
        """Whether one of these locks has to wait for the other."""
        return self + other >= 3


@dataclass(frozen=True, slots=True)
class Edge:
    """Somebody who held a row of ``held`` went for one of ``wanted``, and would have waited for it."""

    held: str
    held_as: Mode
    wanted: str
    wanted_as: Mode
    alone: bool
    """As the only writer of its forest."""

    had: Mode | None = None
    """Its own lock on the wanted row, before it went for a stronger one."""
    held_guarded: bool = False
    wanted_guarded: bool = False

    def meets(self, other: Edge) -> bool:
        """Whether this one may have to wait for what the other has locked."""
        return (
            self.wanted == other.held
            and self.wanted_as.waits_for(other.held_as)
            and not (self.had is not None and self.had.waits_for(other.held_as))
            and not (self.wanted_guarded and other.held_guarded)
        )


@dataclass
class _Transaction:
    pid: int
    held: dict[Row, Mode] = field(default_factory=dict)
    guarded: set[Row] = field(default_factory=set)

    @property
    def alone(self) -> bool:
        return any(table == GATE and mode >= Mode.NO_KEY_UPDATE for (table, _), mode in self.held.items())


class LockOrder:
    """Collects edges, each with the first statement that made it."""

    def __init__(self) -> None:
        self.edges: dict[Edge, str] = {}
        self.unordered: dict[Edge, str] = {}
        """Edges within one table, not in the order of ids."""
        self.ordered: dict[Edge, str] = {}
        """Edges within one table, in that order."""
        self.statements = 0

    @contextmanager
    def recording(self, engine: sa.Engine, superuser: sa.Engine) -> Iterator[None]:
        """Look at the locks after each statement on ``engine``, through a connection of a superuser's."""
        open_: dict[int, _Transaction] = {}
        with superuser.connect() as eye:

            def begun(connection: sa.Connection) -> None:
                open_[id(connection.connection.dbapi_connection)] = _Transaction(_pid(connection))

            def executed(connection: sa.Connection, _cursor: Any, statement: str, *_rest: Any) -> None:
                transaction = open_.get(id(connection.connection.dbapi_connection))
                if transaction is not None and _LOCKS.search(statement):
                    self._check(eye, transaction, " ".join(statement.split()))

            listeners = (("begin", begun), ("after_cursor_execute", executed))
            for name, listener in listeners:
                event.listen(engine, name, listener)
            try:
                yield
            finally:
                for name, listener in listeners:
                    event.remove(engine, name, listener)

    def _check(self, eye: sa.Connection, transaction: _Transaction, statement: str) -> None:
        self.statements += 1
        now = {(row.name, row.id): Mode.named(row.mode) for row in eye.execute(_HELD, {"pid": transaction.pid})}
        before, alone = dict(transaction.held), transaction.alone
        # A lock that becomes stronger is one more to wait for.
        new = {row: mode for row, mode in now.items() if mode > before.get(row, -1)}
        transaction.held |= new
        held_guarded = set(transaction.guarded)
        transaction.guarded |= {row for row in new if _guarded(row, transaction.held)}
        gates = [id_ for (table, id_), mode in before.items() if table == GATE and mode >= Mode.NO_KEY_UPDATE]
        if _SKIPS.search(statement) or (gates and eye.scalar(_PARKED, {"ids": gates}) == len(gates)):
            return
        several: dict[str, list[Edge]] = defaultdict(list)
        for row, mode in new.items():
            for other, held_as in before.items():
                edge = Edge(
                    *(other[0], held_as, row[0], mode, alone),
                    before.get(row),
                    other in held_guarded,
                    row in transaction.guarded,
                )
                if other[0] != row[0]:
                    self.edges.setdefault(edge, statement)
                elif other != row:
                    (self.ordered if other < row else self.unordered).setdefault(edge, statement)
            guarded = row in transaction.guarded
            several[row[0]].append(Edge(row[0], mode, row[0], mode, alone, before.get(row), guarded, guarded))
        for edges in several.values():
            for edge in edges if len(edges) > 1 else ():
                (self.ordered if _ORDERED.search(statement) else self.unordered).setdefault(edge, statement)

    def cycles(self) -> list[str]:
        """Each way in which transactions could wait for each other in a circle, with the statements.

        Only writers of forests lock in any order, for one forest has one: so a circle has at most one of them.
        """
        shared = {edge: statement for edge, statement in self.edges.items() if not edge.alone}
        found = [_described(path, self.edges) for edge in shared if (path := _back(edge, list(shared)))]
        found += [
            _described(path, self.edges) for edge in self.edges if edge.alone and (path := _back(edge, list(shared)))
        ]
        within = {**self.ordered, **self.unordered}
        found += [
            _described([edge, other], within)
            for edge in self.unordered
            for other in within
            if edge.held == other.held and edge.meets(other) and other.meets(edge) and not (edge.alone and other.alone)
        ]
        return sorted(set(found))


def _guarded(row: Row, held: dict[Row, Mode]) -> bool:
    table, id_ = row
    guards = ((guard, id_.split("/")[0]) for guard in GUARDS.get(table, ()))
    return any(held.get(guard, Mode.KEY_SHARE) >= Mode.NO_KEY_UPDATE for guard in guards)


def _pid(connection: sa.Connection) -> int:
    dbapi: Any = connection.connection.dbapi_connection
    return int(dbapi.info.backend_pid)


def _back(start: Edge, edges: Sequence[Edge]) -> list[Edge]:
    """The shortest way from what an edge wants back to what it has locked, itself first; empty when there is none."""
    paths, seen = [[start]], {start}
    while paths:
        path = paths.pop(0)
        if len(path) > 1 and path[-1].meets(start):
            return path
        for edge in edges:
            if edge not in seen and path[-1].meets(edge):
                seen.add(edge)
                paths.append([*path, edge])
    return []


def _described(path: Sequence[Edge], statements: dict[Edge, str]) -> str:
    return "\n".join(
        f"holds {edge.held} ({edge.held_as.name}), wants {edge.wanted} ({edge.wanted_as.name})"
        f"{', alone' if edge.alone else ''}: {statements[edge][:300]}"
        for edge in path
    )
