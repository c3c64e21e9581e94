"""Finding an owner's forest and locking forests. A forest that is hidden or being deleted belongs to no owner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TypeVar

import sqlalchemy as sa

from memforest_core.domain.ids import ForestId, TenantId
from memforest_core.domain.people import People
from memforest_core.errors import NotFound
from memforest_core.store import tables as m
from memforest_core.store.rows import TenantRows

_SPEAKER = m.Speaker
NEWEST_FIRST = (_SPEAKER.since.desc().nulls_last(), _SPEAKER.speaker_id, _SPEAKER.name)


def speakers_of(connection: sa.Connection, tenant: TenantId, forest: ForestId) -> list[tuple[str, str]]:
    """The id and each name of everybody who has spoken, the newest names first."""
    rows = connection.execute(
        sa.select(_SPEAKER.speaker_id, _SPEAKER.name)
        .where(_SPEAKER.tenant_id == tenant, _SPEAKER.forest_id == forest)
        .order_by(*NEWEST_FIRST)
    )
    return [(row.speaker_id, row.name) for row in rows]


def people_of(connection: sa.Connection, tenant: TenantId, forest: ForestId) -> People:
    """Everybody who has spoken in a forest, and its owner, in one statement; the forest exists."""
    f = m.Forest
    spoken = sa.and_(_SPEAKER.tenant_id == tenant, _SPEAKER.forest_id == f.forest_id)
    rows = connection.execute(
        sa.select(f.owner, f.display_name, _SPEAKER.speaker_id, _SPEAKER.name)
        .outerjoin_from(f, _SPEAKER, spoken)
        .where(f.tenant_id == tenant, f.forest_id == forest)
        .order_by(*NEWEST_FIRST)
    ).all()
    speakers = [(row.speaker_id, row.name) for row in rows if row.speaker_id is not None]
    return People(rows[0].owner, speakers, rows[0].display_name)


Found = TypeVar("Found")

VISIBLE = ("live", "frozen")
"""States of a forest in which it is its owner's memory."""
NO_MEMORY = "Owner {!r:.80} has no memory yet: enqueue a session first."
NO_OWNER = "No owner {!r:.80}: enqueue a session first."


@dataclass(frozen=True, slots=True)
class ForestRef:
    """A forest and the zone its naive times are read in."""

    id: ForestId
    owner: str
    time_zone: str
    frozen: bool = False
    """It takes no new sessions: it is being merged into another."""
    display_name: str | None = None
    """The owner's name, if one was given."""


def visible() -> sa.ColumnElement[bool]:
    """That a forest is its owner's memory, as a condition."""
    return m.Forest.state.in_(VISIBLE)


def known(found: Found | None, owner: str, sentence: str = NO_MEMORY) -> Found:
    """What was found of an owner. Raises NotFound with the ``sentence`` when nothing was: the owner is unknown."""
    if found is None:
        raise NotFound(sentence.format(owner))
    return found


def find_forest(connection: sa.Connection, tenant: TenantId, owner: str, *, locked: bool = False) -> ForestRef | None:
    """The owner's forest; with ``locked`` no other transaction freezes or deletes it before this one ends."""
    statement = sa.select(m.Forest.forest_id, m.Forest.time_zone, m.Forest.state, m.Forest.display_name).where(
        m.Forest.tenant_id == tenant, m.Forest.owner == owner, visible()
    )
    if locked:
        # Enqueueing takes this lock anyway, by its foreign keys; a merge that freezes the forest waits for it.
        statement = statement.with_for_update(read=True, key_share=True)
    row = connection.execute(statement).first()
    if row is None:
        return None
    return ForestRef(ForestId(row.forest_id), owner, row.time_zone, row.state == "frozen", row.display_name)


def forest_id(connection: sa.Connection, tenant: TenantId, owner: str) -> ForestId | None:
    """The id of the owner's forest."""
    found = find_forest(connection, tenant, owner)
    return found.id if found is not None else None


def lock_forests(
    connection: sa.Connection,
    tenant: TenantId,
    forests: Sequence[ForestId],
    *,
    changing: bool = False,
    wait: bool = True,
) -> dict[ForestId, str]:
    """Become the only writer of these forests; the states of those that exist.

    Waits for other writers in the order of ids; without ``wait`` leaves out the forests that they have locked. A caller
    that will change the state of more than one forest passes ``changing``: it then waits for transactions that add
    sessions or vectors, too, in that same order. Raises StoreUnavailable past the lock time-out.
    """
    rows = connection.execute(
        sa.select(m.Forest.forest_id, m.Forest.state)
        .where(m.Forest.tenant_id == tenant, m.Forest.forest_id.in_(forests))
        .order_by(m.Forest.forest_id)
        .with_for_update(key_share=not changing, skip_locked=not wait)
    )
    return {ForestId(row.forest_id): str(row.state) for row in rows}


def lock_forest(connection: sa.Connection, tenant: TenantId, forest: ForestId, *, wait: bool = True) -> str | None:
    """Become the only writer of a forest; its state, None when it does not exist or, without ``wait``, is locked."""
    return lock_forests(connection, tenant, [forest], wait=wait).get(forest)


def set_forest_state(connection: sa.Connection, tenant: TenantId, forest: ForestId, state: str) -> bool:
    """Change a forest's state once no session is being accepted into it; whether the forest exists."""
    found = connection.execute(
        sa.select(m.Forest.forest_id)
        .where(m.Forest.tenant_id == tenant, m.Forest.forest_id == forest)
        .with_for_update()
    ).first()
    if found is None:
        return False
    connection.execute(
        sa.update(m.Forest).where(m.Forest.tenant_id == tenant, m.Forest.forest_id == forest).values(state=state)
    )
    return True


MAX_NAMES_READ = 1_000
"""Newest owners among whom one with a similar name is searched for."""


class ForestRows(TenantRows):
    """The forests of a tenant, in one open transaction."""

    def similar_owner(self, owner: str) -> str | None:
        """The owner whose name is most like an unknown one, among the newest; None when none is."""
        forest = m.Forest
        names = (
            sa.select(forest.owner)
            .where(forest.tenant_id == self._tenant, visible())
            .order_by(forest.created_at.desc())
            .limit(MAX_NAMES_READ)
        )
        near = {name.casefold(): name for name in self._db.execute(names).scalars() if name != owner}
        return next((near[name] for name in get_close_matches(owner.casefold(), near, 1)), None)

    def find_forest(self, owner: str) -> ForestRef | None:
        """The owner's forest."""
        return find_forest(self._db, self._tenant, owner)

    def speakers(self, forest: ForestId) -> Sequence[tuple[str, str]]:
        """The id and each name of everybody who has spoken, the newest names first."""
        return speakers_of(self._db, self._tenant, forest)

    def lock_forest(self, forest: ForestId) -> str | None:
        """Become the forest's only writer, waiting for the one before; its state, None when it does not exist.

        Raises StoreUnavailable past the lock time-out.
        """
        return lock_forest(self._db, self._tenant, forest)

    def set_forest_state(self, forest: ForestId, state: str) -> None:
        """Change a forest's state once no session is being accepted into it."""
        set_forest_state(self._db, self._tenant, forest, state)
