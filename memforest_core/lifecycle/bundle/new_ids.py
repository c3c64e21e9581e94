"""The ids that an imported forest gets: its own again, or new ones that follow from the new forest and the old ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID, uuid5

from memforest_core.domain.ids import ForestId, SessionId, TreeId, cell_id, leaf_id, session_id, tree_id
from memforest_core.domain.scopes import TreeKind
from memforest_core.ingest.reduce.identity import identify
from memforest_core.lifecycle.bundle.checking import damaged, statement_of
from memforest_core.lifecycle.bundle.ids import IdTable
from memforest_core.lifecycle.bundle.reader import BundleReader
from memforest_core.lifecycle.bundle.records import (
    CANDIDATE,
    CELL,
    FACT,
    NODE,
    SCOPE,
    SESSION,
    VISIT,
    BundleTable,
    IdKind,
    Row,
    Value,
)

_SOFT = {(FACT.name, "superseded_by"), (VISIT.name, "item_id")}
"""Columns that may name a missing row: a successor that waits for the reducer, or a visited item that was deleted."""

PAGE = 1_000


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
        """Whether ids change."""
        return self._old != self._new

    def learn(self, table: BundleTable, rows: Sequence[Row]) -> None:
        """Take in what rows are named, tables in the order of the format. Raises InvalidInput for a name used twice."""
        kind = table.identity
        if kind is None:
            return
        olds = [UUID(str(row[0])) for row in rows]
        news = self._news(table, rows, olds) if self.renamed else olds
        if not self._ids.add(kind, list(zip(olds, news, strict=True))):
            raise damaged(f"{table.name}: an id is used twice")

    def apply(self, table: BundleTable, rows: Sequence[Row]) -> list[Row]:
        """Rows under their new ids. Raises InvalidInput for a row that names what is not in the bundle."""
        places = [
            (place, column.refs or (table.identity,), (table.name, column.name) in _SOFT)
            for place, column in enumerate(table.columns)
            if column.refs or (table.identity is not None and place == 0)
        ]
        if not places:
            return list(rows)
        known = self._ids.find(UUID(str(row[place])) for row in rows for place, *_ in places if row[place] is not None)
        named: list[Row] = []
        for row in rows:
            values: list[Value] = list(row)
            for place, kinds, soft in places:
                old = row[place]
                if old is None:
                    continue
                kind, new = known.get(UUID(str(old)), (None, None))
                if kind in kinds:
                    values[place] = str(new)
                elif soft and table is FACT:
                    values[place] = str(self._successor(UUID(str(old))))
                elif soft:
                    values[place] = None
                else:
                    raise damaged(f"{table.name}.{table.columns[place].name} names a row that is not there")
            if table is VISIT and values[0] is None:
                continue
            named.append(self._keys(table, values) if self.renamed else tuple(values))
        return named

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

    def _keys(self, table: BundleTable, values: list[Value]) -> Row:
        """Keys that are made of ids."""
        if table is SCOPE:
            kind, key = values[SCOPE.at("kind")], SCOPE.at("scope_key")
            if kind == TreeKind.SESSION:
                values[key] = values[SCOPE.at("session_id")] or ""
            elif kind == TreeKind.SCENE:
                values[key] = values[0]
        elif table is NODE and values[NODE.at("payload_id")] is not None:
            values[NODE.at("key_id")] = str(values[NODE.at("payload_id")]).replace("-", "")
        return tuple(values)

    def _news(self, table: BundleTable, rows: Sequence[Row], olds: Sequence[UUID]) -> list[UUID]:
        if table is SESSION:
            name = SESSION.at("external_id")
            return [session_id(self._new, str(row[name])) for row in rows]
        if table is FACT:
            return [self._fact(old, row) for old, row in zip(olds, rows, strict=True)]
        known = self._named(table, rows)
        if table is CELL:
            session, ordinal = CELL.at("session_id"), CELL.at("ordinal")
            return [cell_id(SessionId(_known(known, row[session])), int(row[ordinal] or 0)) for row in rows]
        if table is SCOPE:
            return [self._scope(old, row) for old, row in zip(olds, rows, strict=True)]
        return [self._node(old, row, known) for old, row in zip(olds, rows, strict=True)]

    def _named(self, table: BundleTable, rows: Sequence[Row]) -> Mapping[UUID, tuple[IdKind, UUID]]:
        places = {CELL.name: ("session_id",), NODE.name: ("tree_id", "payload_id")}.get(table.name, ())
        return self._ids.find(
            UUID(str(row[table.at(place)])) for row in rows for place in places if row[table.at(place)] is not None
        )

    def _fact(self, old: UUID, row: Row) -> UUID:
        statement = statement_of(FACT, row)
        if identify(self._old, statement)[0] == old:
            return identify(self._new, statement)[0]
        return uuid5(self._new, str(old))

    def _scope(self, old: UUID, row: Row) -> UUID:
        kind, key = str(row[SCOPE.at("kind")]), str(row[SCOPE.at("scope_key")])
        if tree_id(self._old, kind, key) != old:
            return uuid5(self._new, str(old))
        if kind == TreeKind.SESSION:
            session = self._ids.find([UUID(str(row[SCOPE.at("session_id")]))]) if row[SCOPE.at("session_id")] else {}
            key = str(next((new for _, new in session.values()), old))
        return tree_id(self._new, kind, key)

    def _node(self, old: UUID, row: Row, known: Mapping[UUID, tuple[IdKind, UUID]]) -> UUID:
        payload, tree = row[NODE.at("payload_id")], row[NODE.at("tree_id")]
        if payload is None or leaf_id(TreeId(UUID(str(tree))), UUID(str(payload))) != old:
            return uuid5(self._new, str(old))
        return leaf_id(TreeId(_known(known, tree)), _known(known, payload))


def _known(known: Mapping[UUID, tuple[IdKind, UUID]], old: Value) -> UUID:
    found = known.get(UUID(str(old)))
    if found is None:
        raise damaged("a row names a row that is not there")
    return found[1]
