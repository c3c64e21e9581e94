"""Recall's reads in Postgres: ids in, rows out, a fixed number of index-using statements for any number of ids."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import groupby
from operator import itemgetter
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from memforest_core.domain.ids import CellId, FactId, ForestId, NodeId, PayloadId, SessionId, TenantId, TreeId
from memforest_core.domain.scopes import TreeKind
from memforest_core.domain.text import beginnings, signs
from memforest_core.models.calls import CallRecord
from memforest_core.recall.records import (
    Above,
    Around,
    Below,
    CellRef,
    FactHead,
    FactText,
    FoundText,
    Link,
    Metadata,
    PlacedNode,
    SaidTurn,
    TreeChild,
    TreeRoot,
    TurnHead,
    TurnKey,
)
from memforest_core.recall.rows import sql
from memforest_core.recall.rows.priorities import PriorityRows
from memforest_core.store.calls import record_calls
from memforest_core.store.copying import literal
from memforest_core.store.engine import tenant_transaction
from memforest_core.store.owners import ForestRef, find_forest
from memforest_core.store.people import speakers_of
from memforest_core.store.statements import from_document

MAX_SIGNS = 64
"""Pieces of a question in a script without spaces that are looked for."""

KEPT_IDS = 200_000
"""Of one process, at some 300 bytes each."""

_KINDS = {kind.value: kind for kind in TreeKind}


class _Ids(dict[str, UUID]):
    """Ids by their text: what rows share, or an earlier recall has met, is made once. Equal ids then are one object,
    which is what comparing them looks at first."""

    def __missing__(self, text: str) -> UUID:
        if len(self) >= KEPT_IDS:
            self.clear()
        made = self[text] = UUID(text)
        return made


_IDS = _Ids()


class RecallRows:
    """Rows of one read transaction. Ids of other forests and of rows that are gone find nothing."""

    def __init__(self, connection: sa.Connection, tenant: TenantId) -> None:
        self._db = connection
        self._tenant = tenant

    def forest(self, owner: str) -> ForestRef | None:
        """The owner's forest, if it exists."""
        return find_forest(self._db, self._tenant, owner)

    def speakers(self, forest: ForestId) -> list[tuple[str, str]]:
        """The id and each name of everybody who has spoken, the newest names first."""
        return speakers_of(self._db, self._tenant, forest)

    def entity_roots(self, forest: ForestId, keys: Sequence[str]) -> list[NodeId]:
        """Roots of the entity trees under these scope keys."""
        if not keys:
            return []
        values = {"t": self._tenant, "f": forest, "keys": list(keys)}
        return [NodeId(root) for root in self._db.scalars(sql.ENTITY_ROOTS, values)]

    def cells(self, forest: ForestId, ids: Sequence[UUID]) -> list[CellRef]:
        """Those of the cells that exist."""
        return [
            CellRef(CellId(_IDS[cell]), SessionId(_IDS[session]), *rest)
            for cell, session, *rest in self._by_ids(sql.CELLS, ids, f=forest)
        ]

    def links_of_facts(self, facts: Sequence[UUID], limit: int, until: datetime | None = None) -> list[Link]:
        """For each fact its latest occurrences, at most ``limit`` of each, in cells that began by ``until``.

        Corrections made after ``until`` are none yet.
        """
        return [
            Link(FactId(facts[at - 1]), CellId(_IDS[cell]), SessionId(_IDS[session]), tuple(ordinals), corrected, wrong)
            for at, cell, session, ordinals, corrected, wrong in self._by_ids(
                sql.LINKS_OF_FACTS, facts, n=limit, until=until
            )
        ]

    def links_of_cells(self, cells: Sequence[UUID], until: datetime | None = None) -> list[Link]:
        """All occurrences in these cells, as far as corrections are known by ``until``."""
        return [
            Link(
                FactId(_IDS[fact]),
                CellId(_IDS[cell]),
                SessionId(_IDS[session]),
                tuple(ordinals),
                corrected,
                wrong,
            )
            for fact, cell, session, ordinals, corrected, wrong in self._by_ids(sql.LINKS_OF_CELLS, cells, until=until)
        ]

    def chains(
        self, forest: ForestId, facts: Sequence[UUID], n: int, until: datetime | None = None
    ) -> list[tuple[FactId, FactId]]:
        """Each fact that states an attribute, with the ``n`` states before and after it of the same subject that are
        not known by ``until`` to be wrong."""
        rows = self._by_ids(sql.CHAINS, facts, f=forest, n=n, until=until)
        return [(FactId(row.fact_id), FactId(row.linked)) for row in rows]

    def fact_heads(self, ids: Sequence[UUID]) -> list[FactHead]:
        """Those of the facts that exist, without their texts."""
        return [
            FactHead(
                id=FactId(row.fact_id),
                pointer=row.pointer,
                time_start=row.time_start.astimezone(UTC) if row.time_start else None,
                time_end=row.time_end.astimezone(UTC) if row.time_end else None,
            )
            for row in self._by_ids(sql.FACT_HEADS, ids)
        ]

    def roots_above(self, payloads: Sequence[UUID], kinds: Collection[TreeKind]) -> list[tuple[PayloadId, NodeId]]:
        """Each payload with the root of each tree of these families that holds it."""
        rows = self._by_ids(sql.ROOTS_ABOVE, payloads, kinds=[kind.value for kind in kinds])
        return [(PayloadId(_IDS[payload]), NodeId(_IDS[root])) for payload, root in rows]

    def facts(self, forest: ForestId, ids: Sequence[UUID], until: datetime | None = None) -> list[FactText]:
        """Those of the facts that exist, as far as corrections are known by ``until``."""
        found = []
        for row in self._by_ids(sql.FACTS, ids, f=forest, until=until):
            statement = from_document(row.statement)
            found.append(
                FactText(
                    id=FactId(row.fact_id),
                    text=statement.text,
                    speaker=statement.speaker,
                    time=statement.time,
                    mentioned_at=statement.mentioned_at,
                    pinned=row.pinned,
                    superseded_by=FactId(row.superseded_by) if row.superseded_by else None,
                )
            )
        return found

    def lowest_above(self, payloads: Sequence[UUID], kinds: Collection[TreeKind]) -> list[Above]:
        """What is above each leaf that holds one of the payloads in trees of these families."""
        rows = self._by_ids(sql.LOWEST_ABOVE, payloads, kinds=[kind.value for kind in kinds])
        return [
            Above(PayloadId(_IDS[payload]), NodeId(_IDS[lowest]), NodeId(_IDS[root]), _KINDS[kind])
            for payload, lowest, root, kind in rows
        ]

    def paths(self, payloads: Sequence[UUID]) -> list[PlacedNode]:
        """The leaves that hold these payloads, in all trees, and all their ancestors, each once."""
        return [_placed(row) for row in self._by_ids(sql.PATHS, payloads)]

    def tree_roots(self, roots: Sequence[UUID]) -> list[TreeRoot]:
        """Those of these roots that exist, in their order."""
        found = {
            id_: TreeRoot(NodeId(id_), version, TreeId(tree), _KINDS[kind], label)
            for id_, version, tree, kind, label in self._by_ids(sql.TREE_ROOTS, roots)
        }
        return [found[root] for root in roots if root in found]

    def children(self, nodes: Sequence[UUID]) -> list[Below]:
        """The children of those of these nodes that have any."""
        found = []
        for (parent, version), rows in groupby(self._by_ids(sql.CHILDREN, nodes), itemgetter(0, 1)):
            above = NodeId(_IDS[parent])
            children = tuple(
                TreeChild(
                    NodeId(_IDS[id_]),
                    TreeId(_IDS[tree]),
                    above,
                    own,
                    None if payload is None else PayloadId(_IDS[payload]),
                    _IDS[payload or id_],
                    start,
                    end,
                )
                for _, _, tree, id_, own, payload, start, end in rows
            )
            found.append(Below(above, version, children))
        return found

    def summaries(self, nodes: Sequence[UUID], chars: int) -> dict[NodeId, str]:
        """The beginning of each node's text, where it has one."""
        rows = self._by_ids(sql.SUMMARIES, nodes, chars=chars)
        return {NodeId(row.node_id): row.text for row in rows}

    def turns(self, keys: Sequence[TurnKey]) -> list[TurnHead]:
        """Those of the turns that exist."""
        return [
            TurnHead(session, ordinal, turn, outside, speaker, name, said.astimezone(UTC), dated, role, origin, channel)
            for at, turn, outside, speaker, name, said, dated, role, origin, channel in self._by_turns(sql.TURNS, keys)
            for session, ordinal in (keys[at - 1],)
        ]

    def metadata(self, keys: Sequence[TurnKey]) -> dict[TurnKey, Metadata]:
        """The metadata of turns and of their sessions."""
        rows = self._by_turns(sql.METADATA, keys)
        return {(SessionId(row.session_id), row.ordinal): Metadata(row.metadata, row.of_session) for row in rows}

    def last_said(self, forest: ForestId) -> datetime | None:
        """When the latest turn was said; None for an empty forest."""
        last: datetime | None = self._db.scalar(sql.LAST_SAID, {"t": self._tenant, "f": forest})
        return last.astimezone(UTC) if last is not None else None

    def sessions(self, forest: ForestId, names: Sequence[str]) -> list[SessionId]:
        """Those of the caller's sessions that exist."""
        values = {"t": self._tenant, "f": forest, "names": list(names)}
        return [SessionId(id_) for id_ in self._db.scalars(sql.SESSIONS, values)]

    def sessions_in(
        self, forest: ForestId, channels: Sequence[str], names: Sequence[str], limit: int
    ) -> list[SessionId]:
        """At most ``limit`` sessions that took place in these channels, the newest first; of the caller's names only,
        if there are any."""
        values = {"t": self._tenant, "f": forest, "channels": list(channels), "names": list(names) or None, "n": limit}
        return [SessionId(id_) for id_ in self._db.scalars(sql.SESSIONS_IN_CHANNELS, values)]

    def turn_texts(self, keys: Sequence[TurnKey]) -> dict[TurnKey, str]:
        """The contents of turns."""
        rows = self._by_turns(sql.TURN_TEXTS, keys)
        return {(SessionId(row.session_id), row.ordinal): row.content for row in rows}

    def around(self, leaves: Sequence[UUID], n: int) -> Mapping[NodeId, Around]:
        """The ``n`` leaves before and after each of these leaves in its tree."""
        before: dict[NodeId, list[PayloadId]] = defaultdict(list)
        after: dict[NodeId, list[PayloadId]] = defaultdict(list)
        for row in self._by_ids(sql.AROUND, leaves, n=n):
            side = before if row.side < 0 else after
            side[NodeId(row.leaf)].append(PayloadId(row.payload_id))
        return {
            leaf: Around(tuple(reversed(before[leaf])), tuple(after[leaf]))
            for leaf in [*before.keys(), *(key for key in after if key not in before)]
        }

    def full_text(
        self, forest: ForestId, words: Sequence[str], limit: int, until: datetime | None = None
    ) -> tuple[list[FoundText], list[FoundText]]:
        """Cells, and facts not known by ``until`` to be wrong, that hold any of the words, best first, by Postgres full
        text."""
        values = _wording(words)
        if values is None:
            return [], []
        values |= {"t": self._tenant, "f": forest, "n": limit, "until": until}
        cells, facts = (
            [FoundText(row.id, row.text) for row in self._db.execute(statement, values)]
            for statement in (sql.TEXT_OF_CELLS, sql.TEXT_OF_FACTS)
        )
        return cells, facts

    def cold_text(
        self, forest: ForestId, words: Sequence[str], limit: int, until: datetime | None = None
    ) -> tuple[list[FoundText], list[FoundText]]:
        """The same among the cells and facts that are out of the index because their topics are cold."""
        values = _wording(words)
        if values is None:
            return [], []
        found = self._db.execute(
            sql.TEXT_OF_COLD, values | {"t": self._tenant, "f": forest, "n": limit, "until": until}
        ).all()
        cells, facts = ([FoundText(row.id, row.text) for row in found if row.kind == kind] for kind in ("cell", "fact"))
        return cells, facts

    def any_cold(self, forest: ForestId) -> bool:
        """Whether anything is out of the index because its topics are cold."""
        return bool(self._db.scalar(sql.ANY_COLD, {"t": self._tenant, "f": forest}))

    def index_unsure(self) -> bool:
        """Whether the index may lack what its rows say: after it was lost or restored, until both were compared."""
        return bool(self._db.scalar(sql.INDEX_UNSURE, {"t": self._tenant}))

    def not_indexed(self, forest: ForestId, limit: int) -> list[FoundText]:
        """Cells that the vector index has not seen yet, latest first."""
        rows = self._db.execute(sql.NOT_INDEXED, {"t": self._tenant, "f": forest, "n": limit})
        return [FoundText(row.id, row.text) for row in rows]

    def nodes(self, ids: Sequence[UUID]) -> list[PlacedNode]:
        """Those of the nodes that exist."""
        return [_placed(row) for row in self._by_ids(sql.NODES, ids)]

    def texts(self, payloads: Sequence[UUID], chars: int) -> dict[UUID, str]:
        """The beginning of each cell's and each fact's text."""
        return {row.id: row.text for row in self._by_ids(sql.TEXTS, payloads, chars=chars)}

    def last_turns(self, forest: ForestId, session_external_id: str, n: int) -> list[SaidTurn]:
        """The last ``n`` turns of one of the caller's sessions, in order; none when it does not exist."""
        rows = self._by_ids(sql.LAST_TURNS, self.sessions(forest, [session_external_id]), n=n)
        return [SaidTurn(row.name, row.content, row.occurred_at.astimezone(UTC)) for row in rows]

    def _by_ids(
        self, statement: sa.TextClause, ids: Sequence[UUID], **values: object
    ) -> Sequence[sa.Row[*tuple[Any, ...]]]:
        if not ids:
            return []
        return self._db.execute(statement, {"t": self._tenant, "ids": literal(ids), **values}).all()

    def _by_turns(
        self, statement: sa.TextClause, keys: Sequence[TurnKey], **values: object
    ) -> Sequence[sa.Row[*tuple[Any, ...]]]:
        if not keys:
            return []
        named = {
            "t": self._tenant,
            "sessions": literal([session for session, _ in keys]),
            "ordinals": [ordinal for _, ordinal in keys],
        }
        return self._db.execute(statement, named | values).all()


def _wording(words: Sequence[str]) -> dict[str, object] | None:
    """What full text looks for: the values ``q`` and ``signs``; None for no words."""
    starts = beginnings([word for word in words if word.isalnum()])
    lexemes = [*starts, *(f"{start}:*" for each in starts.values() for start in sorted(each))]
    pieces = signs(words)[:MAX_SIGNS]
    return {"q": " | ".join(lexemes), "signs": pieces, "near": _near(starts)} if lexemes or pieces else None


def _near(words: Iterable[str]) -> str:
    """A regular expression for any text that holds the beginning of a word's stem; for no words one that finds none."""
    stems = {word[: max(2, min(3, len(word) - 1))] for word in words}
    return "|".join(sorted(stems)) or "$^."


def _placed(row: sa.Row[*tuple[Any, ...]]) -> PlacedNode:
    id_, tree, parent, level, payload, start, end, stale, kind, label = row
    return PlacedNode(id_, tree, parent, level, payload, start, end, stale, _KINDS[kind], label)


class RecallStore:
    """Opens read transactions."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    @contextmanager
    def recalling(self, tenant: TenantId) -> Iterator[RecallRows]:
        """One read transaction of a tenant. Raises StoreUnavailable."""
        with tenant_transaction(self._engine, tenant) as connection:
            yield RecallRows(connection, tenant)

    @contextmanager
    def prioritizing(self, tenant: TenantId) -> Iterator[PriorityRows]:
        """Topics in one read transaction of a tenant. Raises StoreUnavailable."""
        with PriorityRows.opened(self._engine, tenant) as rows:
            yield rows


class AnswerCalls:
    """What answering needs: an owner's forest, and the ledger of model calls. Raises StoreUnavailable."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def forest(self, tenant: TenantId, owner: str) -> ForestRef | None:
        """The forest and its time zone; None for an owner without one."""
        with tenant_transaction(self._engine, tenant) as connection:
            return find_forest(connection, tenant, owner)

    def record(self, tenant: TenantId, forest: ForestId | None, calls: Sequence[CallRecord]) -> None:
        """Keep what calls cost, failed ones included; without a ``forest`` those that were made for several."""
        with tenant_transaction(self._engine, tenant) as connection:
            record_calls(connection, tenant, calls, forest, None)
