"""Reading what is stored: sessions, turns, facts, trees and nodes. No models, no index; nothing is changed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from uuid import UUID
from zoneinfo import ZoneInfo

from memforest_core.domain.ids import NodeId, SessionId, TenantId, TreeKind
from memforest_core.domain.pages import Ordinal, Page, checked_id, checked_limit, from_cursor, page_of
from memforest_core.domain.state_names import spellings
from memforest_core.domain.turns import Turn, checked_name, parse_timestamp
from memforest_core.errors import InvalidInput, NotFound
from memforest_core.observe.reading.records import (
    StoredFact,
    StoredNode,
    StoredOwner,
    StoredSession,
    StoredTree,
    TreeNode,
)
from memforest_core.observe.reading.rows import ReadingRows, Row, fact_of, place_of, spanning
from memforest_core.recall.timeline import Speakers
from memforest_core.store.engine import Engine
from memforest_core.store.owners import ForestRef
from memforest_core.store.rows import record_of


@dataclass(frozen=True, slots=True)
class ReadingService:
    """Reads pages, each in one transaction and with a fixed number of statements. Thread-safe."""

    engine: Engine

    def owners(
        self, tenant: TenantId, *, prefix: str = "", limit: int = 100, cursor: str | None = None
    ) -> Page[StoredOwner]:
        """Owners who have a memory and whose ids begin with ``prefix``, in the order of their ids.

        ``limit`` and ``cursor`` as in ``sessions``. Raises InvalidInput, StoreUnavailable.
        """
        limit, after = checked_limit(limit), from_cursor(cursor, str)
        with ReadingRows.opened(self.engine, tenant) as rows:
            found = rows.owners(prefix, after, limit + 1)
        return page_of(found, limit, lambda owner: owner, lambda owner: [owner.owner])

    def sessions(
        self, tenant: TenantId, owner: str, *, limit: int = 100, cursor: str | None = None
    ) -> Page[StoredSession]:
        """An owner's sessions, the newest first.

        ``limit`` is the most items of one page, 1 to 1,000; ``cursor`` is that of the page before. An owner without a
        memory yet has none, and ``owner_known`` is False. Raises InvalidInput, StoreUnavailable.
        """
        limit, after = checked_limit(limit), from_cursor(cursor, datetime, UUID)
        with self._reading(tenant, owner) as (rows, forest):
            if forest is None:
                return Page((), owner_known=False)
            found = rows.sessions(forest.id, after, limit + 1)
        return page_of(found, limit, _session_of, lambda row: [row.started_at, row.session_id])

    def turns(
        self,
        tenant: TenantId,
        owner: str,
        session_id: str,
        *,
        last: int | None = None,
        before: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page[Turn]:
        """A session's turns in order, page by page from the first one; or its ``last`` so many turns.

        ``before`` is a turn's id: only those before it. ``limit`` and ``cursor`` as in ``sessions``. Raises NotFound
        for a session or a turn that the owner does not have, InvalidInput, StoreUnavailable.
        """
        if last is not None and cursor is not None:
            raise InvalidInput("Give last or cursor, not both.", code="invalid_cursor")
        limit = checked_limit(limit) if last is None else checked_limit(last, name="last")
        after = from_cursor(cursor, Ordinal) or (-1,)
        with self._reading(tenant, owner) as (rows, forest):
            if forest is None:
                return Page((), owner_known=False)
            session = _session(rows, forest, session_id)
            end = None if before is None else rows.ordinal(session, checked_name(before, "before"))
            if before is not None and end is None:
                raise NotFound(f"Session {session_id!r:.80} has no turn {before!r:.80}.")
            if last is not None:
                return Page(tuple(rows.turns(session, limit, before=end, newest=True)))
            found = rows.turns(session, limit + 1, after=after[0], before=end)
        return page_of(found, limit, lambda turn: turn, lambda turn: [turn.ordinal])

    def facts(
        self,
        tenant: TenantId,
        owner: str,
        *,
        session_id: str | None = None,
        about: str | None = None,
        attribute: str | None = None,
        since: object | None = None,
        until: object | None = None,
        pinned: bool | None = None,
        superseded: bool | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page[StoredFact]:
        """An owner's facts with the turns that say them, the one that was learned last first.

        ``session_id`` selects what one session says, ``about`` (a name or a speaker's id) what is about somebody,
        ``attribute`` one state ("residence"), ``since`` and ``until`` what happened or, without a date, was mentioned
        from that time to before that time (ISO 8601, unix seconds or datetimes), ``pinned`` and ``superseded`` what is
        (True) or is not (False). ``limit`` and ``cursor`` as in ``sessions``. Raises NotFound for a session that the
        owner does not have, InvalidInput, StoreUnavailable.
        """
        limit, after = checked_limit(limit), from_cursor(cursor, int)
        about = None if about is None else checked_name(about, "about")
        attributes = None if attribute is None else spellings(checked_name(attribute, "attribute"))
        with self._reading(tenant, owner) as (rows, forest):
            if forest is None:
                return Page((), owner_known=False)
            zone = ZoneInfo(forest.time_zone)
            subjects = None
            if about is not None:
                speakers = Speakers(owner, rows.speakers(forest.id))
                subjects = speakers.owner_keys if about == owner else speakers.keys(about)
            found = rows.facts(
                forest.id,
                after,
                limit + 1,
                session=None if session_id is None else _session(rows, forest, session_id),
                subjects=subjects,
                attributes=attributes,
                since=None if since is None else parse_timestamp(since, zone, "since"),
                until=None if until is None else parse_timestamp(until, zone, "until"),
                pinned=pinned,
                superseded=superseded,
            )
            sources = rows.sources([row.fact_id for row in found[:limit]])
        return page_of(found, limit, lambda row: fact_of(row, sources), lambda row: [row.seq])

    def fact(self, tenant: TenantId, owner: str, fact: UUID | str) -> StoredFact:
        """One fact of an owner with the turns that say it. Raises NotFound, InvalidInput, StoreUnavailable."""
        wanted = checked_id(str(fact), "fact")
        with self._reading(tenant, owner) as (rows, forest):
            found = None if forest is None else rows.fact(forest.id, wanted)
            if found is None:
                raise NotFound(f"Owner {owner!r:.80} has no fact {wanted}.")
            return fact_of(found, rows.sources([wanted]))

    def trees(
        self, tenant: TenantId, owner: str, *, kind: str | None = None, limit: int = 100, cursor: str | None = None
    ) -> Page[StoredTree]:
        """An owner's trees with the summaries of their roots, in the order of kind and scope.

        ``kind`` is "session", "entity" or "scene"; all unless given. ``limit`` and ``cursor`` as in ``sessions``.
        Raises InvalidInput, StoreUnavailable.
        """
        limit, after = checked_limit(limit), from_cursor(cursor, str, str)
        if kind is not None and kind not in list(TreeKind):
            raise InvalidInput(f"Set kind to {', '.join(TreeKind)}, not {kind!r:.40}.", code="invalid_kind")
        with self._reading(tenant, owner) as (rows, forest):
            if forest is None:
                return Page((), owner_known=False)
            found = rows.trees(forest.id, None if kind is None else TreeKind(kind), after, limit + 1)
        return page_of(found, limit, partial(spanning, StoredTree), lambda row: [row.kind, row.scope_key])

    def node(self, tenant: TenantId, node_id: UUID | str, *, limit: int = 100, cursor: str | None = None) -> StoredNode:
        """A node of a tree, its parent, its neighbours on its level, and a page of its children.

        ``limit`` and ``cursor`` are those of the children. Raises NotFound, InvalidInput, StoreUnavailable.
        """
        limit, after = checked_limit(limit), from_cursor(cursor, int, int, int, str)
        wanted = NodeId(checked_id(str(node_id), "node_id"))
        with ReadingRows.opened(self.engine, tenant) as rows:
            tree = rows.tree_of(wanted)
            if tree is None:
                raise NotFound(f"There is no node {wanted}: memforest tree lists an owner's trees.")
            own = rows.node(wanted)
            parent = None if own.parent_id is None else rows.node(NodeId(own.parent_id))
            before, later = (rows.neighbour(own, later=which) for which in (False, True))
            children = rows.children(wanted, after, limit + 1)
        shown = partial(spanning, TreeNode)
        return StoredNode(
            node=shown(own),
            tree_id=tree.tree_id,
            kind=TreeKind(tree.kind),
            label=tree.label,
            parent=None if parent is None else shown(parent),
            predecessor=None if before is None else shown(before),
            successor=None if later is None else shown(later),
            children=page_of(children, limit, shown, place_of),
        )

    @contextmanager
    def _reading(self, tenant: TenantId, owner: str) -> Iterator[tuple[ReadingRows, ForestRef | None]]:
        """The rows, and the owner's forest if there is one."""
        owner = checked_name(owner, "owner")
        with ReadingRows.opened(self.engine, tenant) as rows:
            yield rows, rows.find_forest(owner)


def _session(rows: ReadingRows, forest: ForestRef, session_id: str) -> SessionId:
    found = rows.session(forest.id, checked_name(session_id, "session_id"))
    if found is None:
        raise NotFound(f"Owner {forest.owner!r:.80} has no session {session_id!r:.80}.")
    return found


def _session_of(row: Row) -> StoredSession:
    given = {"id": row.external_id, "turns": row.turn_count, "cells": row.cell_count, "origin": row.origin_owner}
    return record_of(StoredSession, row, **given)
