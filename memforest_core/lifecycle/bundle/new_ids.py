"""Rows of a bundle as an import writes them: under their own ids, or under new ids made of the new forest."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from uuid import UUID, uuid5

from memforest_core.domain.ids import ForestId, SessionId, TreeId, TreeKind, cell_id, leaf_id, session_id, tree_id
from memforest_core.ingest.reduce.canonical import identify
from memforest_core.lifecycle.bundle.bundle_file import BundleReader
from memforest_core.lifecycle.bundle.checking import damaged, hashes_of, statement_of
from memforest_core.lifecycle.bundle.records import (
    CANDIDATE,
    CELL,
    FACT,
    NAMED,
    NODE,
    PLACEMENT,
    SCOPE,
    SUMMARY,
    VECTOR,
    VISIT,
    BundleTable,
    IdKind,
    Row,
    Value,
)
from memforest_core.memtree import MIN_BRANCHING


class IdTable:
    """Old ids and what they become, and hashes of texts, on disk: a forest may have more than fit into memory."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._db = database
        for statement in (
            "PRAGMA journal_mode = OFF",
            "PRAGMA synchronous = OFF",
            "CREATE TABLE ids (old BLOB PRIMARY KEY, new BLOB NOT NULL UNIQUE, kind TEXT NOT NULL) WITHOUT ROWID",
            "CREATE TABLE texts (text_hash BLOB PRIMARY KEY) WITHOUT ROWID",
        ):
            database.execute(statement)

    def add(self, kind: IdKind, pairs: Sequence[tuple[UUID, UUID]]) -> bool:
        """Add (old, new) pairs; False when an old id or a new one is there already."""
        try:
            self._db.executemany("INSERT INTO ids VALUES (?, ?, ?)", ((o.bytes, n.bytes, kind) for o, n in pairs))
        except sqlite3.IntegrityError:
            return False
        return True

    def find(self, ids: Iterable[UUID]) -> dict[UUID, tuple[IdKind, UUID]]:
        """Kind and new id of those that are known."""
        found: dict[UUID, tuple[IdKind, UUID]] = {}
        for id_ in set(ids):
            for new, kind in self._db.execute("SELECT new, kind FROM ids WHERE old = ?", (id_.bytes,)):
                found[id_] = (IdKind(kind), UUID(bytes=new))
        return found

    def want(self, hashes: Iterable[bytes]) -> None:
        self._db.executemany("INSERT OR IGNORE INTO texts VALUES (?)", ((each,) for each in hashes))

    def drop(self, hashes: Sequence[bytes]) -> int:
        """Forget hashes of texts; how many of them were remembered."""
        return self._db.executemany("DELETE FROM texts WHERE text_hash = ?", ((each,) for each in hashes)).rowcount

    def wanted(self) -> int:
        """How many hashes are remembered."""
        return int(self._db.execute("SELECT count(*) FROM texts").fetchone()[0])

    def clear(self) -> None:
        self._db.execute("DELETE FROM ids")


@contextmanager
def id_table() -> Iterator[IdTable]:
    """A temporary table of ids."""
    # An empty name is SQLite's for a private database in a temporary file.
    with closing(sqlite3.connect("")) as database:
        yield IdTable(database)


_SOFT = {(FACT.name, "superseded_by"), (VISIT.name, "item_id")}
"""Columns that may name a missing row: a successor that waits for the reducer, or a visited item that was deleted."""

_MADE_OF = {CELL.name: ("session_id",), SCOPE.name: ("session_id",), NODE.name: ("tree_id", "payload_id")}
"""Columns whose ids a row's own id is made of."""

PAGE = 1_000

MAX_BRANCHING = 64
"""What the settings allow: each child's text is read for its parent's summary."""


class NewIds:
    """New ids of one import. With ``old`` and ``new`` forest the same, every id stays."""

    def __init__(self, reader: BundleReader, new: ForestId, ids: IdTable) -> None:
        self._reader = reader
        self._old = reader.head.forest.forest_id
        self._new = new
        self._ids = ids
        self._waiting: dict[UUID, UUID] | None = None

    @property
    def renamed(self) -> bool:
        return self._old != self._new

    def relearn(self, page: int) -> None:
        """Give everything in the bundle its new id, if it gets one."""
        if self.renamed:
            self._ids.clear()
            for table in NAMED.values():
                for rows in self._reader.rows(table, 0, page):
                    self.learn(table, rows)

    def learn(self, table: BundleTable, rows: Sequence[Row]) -> None:
        """Take in what rows are named, tables in the order of the format. Raises InvalidInput for a name used twice."""
        kind = table.identity
        if kind is None:
            return
        olds = [UUID(str(row[0])) for row in rows]
        news = self._news(table, rows, olds) if self.renamed else olds
        if not self._ids.add(kind, list(zip(olds, news, strict=True))):
            raise damaged(f"{table.name}: an id is used twice")

    def apply(self, table: BundleTable, rows: Sequence[Row]) -> Iterator[dict[str, Value]]:
        """Rows under their new ids. Raises InvalidInput for a row that names what is not in the bundle."""
        referring = {
            column.name: column.refs or (table.identity,)
            for place, column in enumerate(table.columns)
            if column.refs or (table.identity is not None and place == 0)
        }
        named = [dict(zip((column.name for column in table.columns), row, strict=True)) for row in rows]
        known = self._ids.find(UUID(str(row[name])) for row in named for name in referring if row[name] is not None)
        for row in named:
            for name, kinds in referring.items():
                if row[name] is None:
                    continue
                old = UUID(str(row[name]))
                kind, new = known.get(old, (None, None))
                if kind in kinds:
                    row[name] = str(new)
                elif (table.name, name) not in _SOFT:
                    raise damaged(f"{table.name}.{name} names a row that is not there")
                else:
                    row[name] = str(self._successor(old)) if table is FACT else None
            if table is not VISIT or row["item_id"] is not None:
                if self.renamed:
                    self._set_keys(table, row)
                yield row

    def _successor(self, old: UUID) -> UUID:
        """The id that a fact will have which the reducer has not placed yet."""
        if not self.renamed:
            return old
        if self._waiting is None:
            self._waiting = {}
            for page in self._reader.rows(CANDIDATE, 0, PAGE):
                said = [statement_of(CANDIDATE, row) for row in page]
                ids = {identify(self._old, statement)[0]: statement for statement in said}
                placed = self._ids.find(ids)
                self._waiting |= {
                    id_: identify(self._new, statement)[0] for id_, statement in ids.items() if id_ not in placed
                }
        return self._waiting.get(old, old)

    @staticmethod
    def _set_keys(table: BundleTable, row: dict[str, Value]) -> None:
        """Keys that are made of ids."""
        if table is SCOPE and row["kind"] != TreeKind.ENTITY:
            row["scope_key"] = row["session_id"] or "" if row["kind"] == TreeKind.SESSION else row["tree_id"]
        elif table is NODE and row["payload_id"] is not None:
            row["key_id"] = str(row["payload_id"]).replace("-", "")

    def _news(self, table: BundleTable, rows: Sequence[Row], olds: Sequence[UUID]) -> list[UUID]:
        names = [column.name for column in table.columns]
        made_of = [table.at(name) for name in _MADE_OF.get(table.name, ())]
        found = self._ids.find(UUID(str(row[place])) for row in rows for place in made_of if row[place] is not None)

        def known(old: Value) -> UUID:
            if (named := found.get(UUID(str(old)))) is None:
                raise damaged("a row names a row that is not there")
            return named[1]

        return [
            self._new_id(table, old, dict(zip(names, row, strict=True)), known)
            for old, row in zip(olds, rows, strict=True)
        ]

    def _new_id(self, table: BundleTable, old: UUID, row: dict[str, Value], known: Callable[[Value], UUID]) -> UUID:
        """The id of a row; one that was not made of what the row says now is made of itself."""
        match table.identity:
            case IdKind.SESSION:
                return session_id(self._new, str(row["external_id"]))
            case IdKind.CELL:
                return cell_id(SessionId(known(row["session_id"])), int(row["ordinal"] or 0))
            case IdKind.FACT:
                statement = statement_of(FACT, tuple(row.values()))
                if identify(self._old, statement)[0] == old:
                    return identify(self._new, statement)[0]
            case IdKind.SCOPE:
                kind, key, session = str(row["kind"]), str(row["scope_key"]), row["session_id"]
                if tree_id(self._old, kind, key) == old:
                    if kind == TreeKind.SESSION:
                        key = str(known(session) if session else old)
                    return tree_id(self._new, kind, key)
            case IdKind.NODE:
                tree, payload = row["tree_id"], row["payload_id"]
                if payload is not None and leaf_id(TreeId(UUID(str(tree))), UUID(str(payload))) == old:
                    return leaf_id(TreeId(known(tree)), known(payload))
        return uuid5(self._new, str(old))


class PreparedRows:
    """Rows under their new ids and with their hashes, for the store.

    Without vectors or summaries every inner node is dirty, so that refresh makes what is missing.
    """

    def __init__(self, new: NewIds, with_vectors: bool, with_summaries: bool, dimension: int) -> None:
        """``dimension`` is that of this memory's embedding model."""
        self._new = new
        self._with_vectors = with_vectors
        self._dirty = not (with_vectors and with_summaries)
        self._nothing = bytes(4 * dimension)

    def prepared(self, table: BundleTable, rows: Sequence[Row]) -> list[Row]:
        """The rows to insert, hashes behind. Raises InvalidInput."""
        if table is VECTOR and not self._with_vectors:
            return []
        prepared: list[Row] = []
        for row in self._new.apply(table, rows):
            if table is PLACEMENT and row["leaf_id"] is not None:
                continue
            if table is NODE:
                self._node(row)
            elif table is SUMMARY and not self._with_vectors:
                # The text stays, which saves the call; refresh pools the vectors before anybody compares with them.
                row["vector"] = row["pooled"] = self._nothing
            elif table is SUMMARY and None in (row["vector"], row["pooled"]):
                raise damaged("summary.vector")
            elif table is SCOPE:
                self._scope(row)
            values = tuple(row.values())
            prepared.append((*values, *hashes_of(table, values)) if table.derived else values)
        return prepared

    def _node(self, row: dict[str, Value]) -> None:
        version, clean = int(row["version"] or 0), int(row["clean_version"] or 0)
        if not 1 <= version < 2**62 or not 0 <= clean <= version:
            raise damaged("node.version")
        if row["level"] == 0:
            row["clean_version"] = version
        elif self._dirty:
            row["clean_version"] = min(clean, version - 1)

    @staticmethod
    def _scope(row: dict[str, Value]) -> None:
        if not MIN_BRANCHING <= int(row["k"] or 0) <= MAX_BRANCHING:
            raise damaged("scope.k")
        if row["kind"] != TreeKind.SCENE:
            row["centroid"] = None
        elif row["centroid"] is None:
            raise damaged("scope.centroid")
