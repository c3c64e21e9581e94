"""Finding an owner's forest: what is hidden or being deleted is nobody's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from memforest_core.domain.ids import ForestId, TenantId
from memforest_core.store import tables as m

VISIBLE = ("live", "frozen")
"""States of a forest in which it is its owner's memory."""


def visible() -> sa.ColumnElement[bool]:
    """That a forest is its owner's memory, as a condition."""
    return m.Forest.state.in_(VISIBLE)


def find_forest(connection: sa.Connection, tenant: TenantId, owner: str, *, keep: bool = False) -> ForestRef | None:
    """The owner's forest; with ``keep`` nobody freezes or deletes it before this transaction ends."""
    statement = sa.select(m.Forest.forest_id, m.Forest.time_zone, m.Forest.state, m.Forest.display_name).where(
        m.Forest.tenant_id == tenant, m.Forest.owner == owner, visible()
    )
    if keep:
        # Enqueueing takes this lock anyway, by its foreign keys; whoever freezes a forest waits for it.
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
    connection: sa.Connection, tenant: TenantId, forests: Sequence[ForestId], *, changing: bool = False
) -> dict[ForestId, str]:
    """Become the only writer of these forests, waiting for whoever is; the states of those that are there.

    Locks in the order of ids. Who will change the state of more than one says so with ``changing``: it then waits for
    those who add sessions or vectors, too, in that same order. Raises StoreUnavailable past the lock time-out.
    """
    rows = connection.execute(
        sa.select(m.Forest.forest_id, m.Forest.state)
        .where(m.Forest.tenant_id == tenant, m.Forest.forest_id.in_(forests))
        .order_by(m.Forest.forest_id)
        .with_for_update(key_share=not changing)
    )
    return {ForestId(row.forest_id): str(row.state) for row in rows}


def set_forest_state(connection: sa.Connection, tenant: TenantId, forest: ForestId, state: str) -> bool:
    """Change a forest's state once no session is being accepted into it; whether it was there."""
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


@dataclass(frozen=True, slots=True)
class ForestRef:
    """A forest and the zone its naive times are read in."""

    id: ForestId
    owner: str
    time_zone: str
    frozen: bool = False
    """It takes no new sessions for the moment: it is being merged into another."""
    display_name: str | None = None
    """What the owner is called, where somebody said."""
