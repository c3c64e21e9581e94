"""Recall's reads in Postgres: ids in, rows out, a fixed number of index-using statements for any number of ids."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar
from uuid import UUID

import sqlalchemy as sa

from memforest_core.domain.ids import KNOWN_IDS, FactId, ForestId, NodeId, PayloadId, SessionId, TenantId, TreeKind
from memforest_core.domain.text import beginnings, signs
from memforest_core.models.calls import CallRecord
from memforest_core.models.token_vectors import from_bytes
from memforest_core.recall.records import (
    Around,
    CellRef,
    CellTokens,
    FactHead,
    FactText,
    Link,
    Metadata,
    PlacedNode,
    Said,
    SaidTurn,
    TextsById,
    TreeChild,
    TreeRoot,
    TurnHead,
    TurnKey,
)
from memforest_core.recall.rows import sql
from memforest_core.recall.rows.chains import TimelineRows
from memforest_core.store.call_ledger import record_calls
from memforest_core.store.copying import literal
from memforest_core.store.engine import tenant_transaction
from memforest_core.store.owners import ForestRef
from memforest_core.store.packs import Texts
from memforest_core.store.reads import Read, Reader, Rows
from memforest_core.store.statements import from_document

MAX_SIGNS = 64
"""Parts of a question in a script without spaces that are looked for."""

T = TypeVar("T")

_KINDS = {kind.value: kind for kind in TreeKind}
# Calls of CellId and the like are Python's; a recall would make a thousand.
_ids: Any = KNOWN_IDS


class RecallRows:
    """What reads find. Ids of other forests and of rows that are gone find nothing.

    What is read together with something else comes as a ``Read``, for ``one`` or ``together``.
    """

    def __init__(self, engine: sa.Engine, tenant: TenantId) -> None:
        reader = Reader(engine, tenant, by_ids=True)
        self.one = reader.one
        self.together = reader.together
        # A search through a whole forest is planned for its size.
        self._through = Reader(engine, tenant)
        self._tenant = tenant

    def forest(self, owner: str) -> Read[ForestRef | None]:
        """The owner's forest, if it exists."""

        def made(rows: Rows) -> ForestRef | None:
            found = (ForestRef(ForestId(id_), owner, zone, state == "frozen", name) for id_, zone, state, name in rows)
            return next(found, None)

        return Read(sql.FOREST, {"t": self._tenant, "owner": owner}, made)

    def speakers(self, forest: ForestId) -> Read[list[tuple[str, str]]]:
        """The id and each name of everybody who has spoken, the newest names first."""
        return Read(sql.SPEAKERS, {"t": self._tenant, "f": forest}, lambda rows: [(one, other) for one, other in rows])

    def entity_roots(self, forest: ForestId, keys: Sequence[str], chars: int) -> Read[list[TreeRoot]]:
        """Roots of the entity trees under these scope keys, with the beginning of each text."""
        values = {"t": self._tenant, "f": forest, "keys": list(keys), "chars": chars}
        return Read(sql.ENTITY_ROOTS if keys else None, values, _roots)

    def cells(
        self, forest: ForestId, ids: Sequence[UUID], topics: Sequence[UUID] = (), behind: int = 0
    ) -> Read[tuple[list[CellRef], list[TurnHead]]]:
        """Those of the cells that exist, with as many ``behind`` each of the ``topics`` in its session, and their
        turns; a turn comes with each of its parts."""
        return self._of_ids(sql.CELLS, ids, _cells, f=forest, topics=literal(topics), behind=behind)

    def tokens(self, forest: ForestId, model: str, cells: Sequence[UUID]) -> Read[dict[UUID, CellTokens]]:
        """The token vectors of those of these cells that have some of this embedding model."""
        return self._of_ids(
            sql.TOKENS,
            cells,
            lambda rows: {KNOWN_IDS[cell]: CellTokens(first_turn, from_bytes(raw)) for cell, first_turn, raw in rows},
            f=forest,
            m=model,
        )

    def cells_of_facts(self, facts: Sequence[UUID], limit: int, until: datetime | None = None) -> Read[list[Said]]:
        """Each fact with the cells that said it last, at most ``limit`` of each, and that began by ``until``.

        Corrections made after ``until`` are none yet.
        """
        return self._of_ids(
            sql.CELLS_OF_FACTS,
            facts,
            lambda rows: [(KNOWN_IDS[fact], KNOWN_IDS[cell]) for fact, cell in rows],
            n=limit,
            until=until,
        )

    def links_of_cells(self, cells: Sequence[UUID], until: datetime | None = None) -> Read[list[Link]]:
        """All occurrences in these cells, as far as corrections are known by ``until``."""
        return self._of_ids(sql.LINKS_OF_CELLS, cells, _links, until=until)

    def fact_heads(self, ids: Sequence[UUID]) -> list[FactHead]:
        """Those of the facts that exist, without their texts."""
        return [
            FactHead(
                id=FactId(fact),
                pointer=pointer,
                time_start=start.astimezone(UTC) if start else None,
                time_end=end.astimezone(UTC) if end else None,
            )
            for fact, pointer, start, end in self._by_ids(sql.FACT_HEADS, ids)
        ]

    def facts(self, forest: ForestId, ids: Sequence[UUID], until: datetime | None = None) -> Read[list[FactText]]:
        """Those of the facts that exist, as far as corrections are known by ``until``."""
        return self._of_ids(sql.FACTS, ids, _facts, f=forest, until=until)

    def roots_above(self, payloads: Sequence[UUID], kinds: Collection[TreeKind]) -> Read[list[tuple[UUID, UUID]]]:
        """Each payload with the root of a tree of these families that has it in a leaf."""
        return self._of_ids(
            sql.ROOTS_ABOVE,
            payloads,
            lambda rows: [(KNOWN_IDS[payload], KNOWN_IDS[root]) for payload, root in rows],
            kinds=[kind.value for kind in kinds],
        )

    def paths(self, payloads: Sequence[UUID], chars: int) -> Read[list[PlacedNode]]:
        """The leaves that hold these payloads, in all trees, and all their ancestors, each once, with the beginning of
        its text."""
        return self._of_ids(
            sql.PATHS,
            payloads,
            lambda rows: [PlacedNode._make((*node, _KINDS[kind], label, text)) for *node, kind, label, text in rows],
            chars=chars,
        )

    def tree_roots(self, roots: Sequence[UUID], chars: int) -> Read[list[TreeRoot]]:
        """Those of these roots that exist, in their order, with the beginning of each text."""

        def in_order(rows: Rows) -> list[TreeRoot]:
            found = {root.id: root for root in _roots(rows)}
            return [found[NodeId(root)] for root in roots if root in found]

        return self._of_ids(sql.TREE_ROOTS, roots, in_order, chars=chars)

    def children(self, nodes: Sequence[UUID], chars: int) -> Read[list[TreeChild]]:
        """The children of these nodes, in their order, with the beginning of each text."""
        return self._of_ids(sql.CHILDREN, nodes, lambda rows: list(map(TreeChild._make, rows)), chars=chars)

    def turns(self, keys: Sequence[TurnKey]) -> list[TurnHead]:
        """Those of the turns that exist."""
        return [
            TurnHead(session, ordinal, turn, outside, speaker, name, said.astimezone(UTC), dated, role, origin, channel)
            for at, turn, outside, speaker, name, said, dated, role, origin, channel in self.one(
                self._of_turns(sql.TURNS, keys, _as_they_are)
            )
            for session, ordinal in (keys[at - 1],)
        ]

    def metadata(self, keys: Sequence[TurnKey]) -> Read[dict[TurnKey, Metadata]]:
        """The metadata of turns that are not deleted, and of their sessions."""
        return self._of_turns(sql.METADATA, keys, _metadata)

    def last_said(self, forest: ForestId) -> datetime | None:
        """When the latest turn was said; None for an empty forest."""
        [(last,)] = self._rows(sql.LAST_SAID, f=forest)
        said: datetime | None = last
        return said.astimezone(UTC) if said is not None else None

    def sessions(self, forest: ForestId, names: Sequence[str]) -> list[SessionId]:
        """Those of the caller's sessions that exist."""
        return [SessionId(id_) for (id_,) in self._rows(sql.SESSIONS, f=forest, names=list(names))]

    def sessions_in(
        self, forest: ForestId, channels: Sequence[str], names: Sequence[str], limit: int
    ) -> list[SessionId]:
        """At most ``limit`` sessions that took place in these channels, the newest first; of the caller's names only,
        if there are any."""
        values = {"f": forest, "channels": list(channels), "names": list(names) or None, "n": limit}
        return [SessionId(id_) for (id_,) in self._rows(sql.SESSIONS_IN_CHANNELS, **values)]

    def turn_texts(self, keys: Sequence[TurnKey]) -> Read[dict[TurnKey, str]]:
        """The contents of turns."""
        return self._of_turns(sql.TURN_TEXTS, keys, _said)

    def around(self, leaves: Sequence[UUID], n: int) -> Mapping[NodeId, Around]:
        """The ``n`` leaves before and after each of these leaves in its tree."""
        found: dict[NodeId, Around] = defaultdict(lambda: ([], []))
        for leaf, payload, side in self._by_ids(sql.AROUND, leaves, n=n):
            found[NodeId(leaf)][side > 0].append(PayloadId(payload))
        for before, _ in found.values():
            before.reverse()
        return found

    def full_text(
        self, forest: ForestId, words: Sequence[str], limit: int, until: datetime | None = None
    ) -> tuple[TextsById, TextsById]:
        """Cells, and facts not known by ``until`` to be wrong, that hold any of the words, best first, by Postgres full
        text."""
        values = _wording(words)
        if values is None:
            return {}, {}
        values |= {"t": self._tenant, "f": forest, "n": limit, "until": until}
        cells: Read[TextsById] = Read(sql.TEXT_OF_CELLS, values, dict)
        facts: Read[TextsById] = Read(sql.TEXT_OF_FACTS, values, dict)
        return self._through.together(cells, facts)

    def cold_text(
        self, forest: ForestId, words: Sequence[str], limit: int, until: datetime | None = None
    ) -> Read[tuple[TextsById, TextsById]]:
        """The same among the cells and facts that are out of the index because their topics are cold."""
        values = _wording(words)
        bounds = {"t": self._tenant, "f": forest, "n": limit, "until": until}
        return Read(sql.TEXT_OF_COLD if values else None, bounds | (values or {}), _cold)

    def cold_topics(self, owner: str) -> Read[str | None]:
        """An id of the set of the owner's cold topics, another one once one became cold or warm; None when nothing is
        out of the index because its topics are cold."""
        return Read(sql.COLD_TOPICS, {"t": self._tenant, "owner": owner}, lambda rows: rows[0][0] if rows else None)

    def index_unsure(self) -> Read[bool]:
        """Whether the index may lack what its rows say: after it was lost or restored, until both were compared."""
        return Read(sql.INDEX_UNSURE, {"t": self._tenant}, lambda rows: bool(rows[0][0]))

    def not_indexed(self, owner: str, limit: int) -> Read[TextsById]:
        """Cells of the owner that the vector index has not seen yet, latest first."""
        return Read(sql.NOT_INDEXED, {"t": self._tenant, "owner": owner, "n": limit}, dict)

    def texts(self, payloads: Sequence[UUID], chars: int) -> Read[dict[UUID, str]]:
        """The beginning of each cell's and each fact's text."""
        return self._of_ids(sql.TEXTS, payloads, dict, chars=chars)

    def last_turns(self, forest: ForestId, session_external_id: str, n: int) -> list[SaidTurn]:
        """The last ``n`` turns of one of the caller's sessions, in order; none when it does not exist."""
        rows = self._by_ids(sql.LAST_TURNS, self.sessions(forest, [session_external_id]), n=n)
        texts = Texts()
        return [SaidTurn(name, texts(*said), at.astimezone(UTC)) for name, *said, at in rows]

    def _rows(self, statement: sa.TextClause, **values: object) -> Rows:
        return self.one(Read(statement, {"t": self._tenant, **values}, _as_they_are))

    def _by_ids(self, statement: sa.TextClause, ids: Sequence[UUID], **values: object) -> Rows:
        return self.one(self._of_ids(statement, ids, _as_they_are, **values))

    def _of_ids(
        self, statement: sa.TextClause, ids: Sequence[UUID], made: Callable[[Rows], T], **values: object
    ) -> Read[T]:
        return Read(statement if ids else None, {"t": self._tenant, "ids": literal(ids), **values}, made)

    def _of_turns(self, statement: sa.TextClause, keys: Sequence[TurnKey], made: Callable[[Rows], T]) -> Read[T]:
        sessions, ordinals = literal([session for session, _ in keys]), [ordinal for _, ordinal in keys]
        return Read(statement if keys else None, {"t": self._tenant, "sessions": sessions, "ordinals": ordinals}, made)


def _as_they_are(rows: Rows) -> Rows:
    return rows


def _said(rows: Rows) -> dict[TurnKey, str]:
    texts = Texts()
    return {(SessionId(session), ordinal): texts(*said) for session, ordinal, *said in rows}


def _roots(rows: Rows) -> list[TreeRoot]:
    return [TreeRoot(id_, tree, _KINDS[kind], *rest) for id_, tree, kind, *rest in rows]


def _cold(rows: Rows) -> tuple[TextsById, TextsById]:
    cells, facts = ({id_: text for of, id_, text in rows if of == kind} for kind in ("cell", "fact"))
    return cells, facts


def _cells(rows: Rows) -> tuple[list[CellRef], list[TurnHead]]:
    cells, heads = {}, []
    for cell, session, first, last, start, end, placed, root, ordinal, turn, outside, speaker, name, at, *rest in rows:
        of = _ids[session]
        if cell not in cells:
            above = None if root is None else _ids[root]
            cells[cell] = CellRef(_ids[cell], of, first, last, start, end, placed, above)
        if ordinal is not None:
            heads.append(TurnHead(of, ordinal, turn, outside, speaker, name, at.astimezone(UTC), *rest))
    return list(cells.values()), heads


def _links(rows: Rows) -> list[Link]:
    return [Link(_ids[fact], _ids[cell], _ids[of], tuple(turns), *rest) for fact, cell, of, turns, *rest in rows]


def _facts(rows: Rows) -> list[FactText]:
    return [
        FactText(FactId(id_), from_document(document), pinned, FactId(superseded_by) if superseded_by else None)
        for id_, document, pinned, superseded_by in rows
    ]


def _metadata(rows: Rows) -> dict[TurnKey, Metadata]:
    return {(SessionId(session), ordinal): Metadata(own, of_session) for session, ordinal, own, of_session in rows}


def _wording(words: Sequence[str]) -> dict[str, object] | None:
    """What full text searches for: the values ``q`` and ``signs``; None for no words."""
    starts = beginnings([word for word in words if word.isalnum()])
    lexemes = [*starts, *(f"{start}:*" for each in starts.values() for start in sorted(each))]
    parts = signs(words)[:MAX_SIGNS]
    return {"q": " | ".join(lexemes), "signs": parts, "near": _near(starts)} if lexemes or parts else None


def _near(words: Iterable[str]) -> str:
    """A regular expression for any text with the beginning of a word's stem; for no words one that finds none."""
    stems = {word[: max(2, min(3, len(word) - 1))] for word in words}
    return "|".join(sorted(stems)) or "$^."


class RecallStore:
    """Where recall, timelines and answers read, and where the costs of their calls are recorded. All raise
    StoreUnavailable."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine
        self.reading = partial(TimelineRows.opened, engine)
        """One read transaction of a tenant's states."""

    @contextmanager
    def recalling(self, tenant: TenantId) -> Iterator[RecallRows]:
        """Reads of a tenant."""
        yield RecallRows(self._engine, tenant)

    def forest(self, tenant: TenantId, owner: str) -> ForestRef | None:
        """The owner's forest and its time zone, if it exists."""
        with self.reading(tenant) as rows:
            return rows.find_forest(owner)

    def record(self, tenant: TenantId, forest: ForestId | None, calls: Sequence[CallRecord]) -> None:
        """Keep what calls cost, failed ones included; without a ``forest`` those that were made for several."""
        with tenant_transaction(self._engine, tenant) as connection:
            record_calls(connection, tenant, calls, forest, None)
