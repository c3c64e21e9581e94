"""Who speaks in a forest: one statement, by the key of its speakers."""

from __future__ import annotations

import sqlalchemy as sa

from memforest_core.domain.ids import ForestId, TenantId
from memforest_core.domain.people import People
from memforest_core.store import tables as m

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
