"""Where a recall looks: the forests of the owners it asks, and what may be evidence in each of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from uuid import UUID
from zoneinfo import ZoneInfo

from memforest_core.domain.asked_times import asked_period
from memforest_core.domain.ids import ForestId, TenantId
from memforest_core.recall.asking import Asked
from memforest_core.recall.gathering import RAW_LIMIT, Lacking, Place
from memforest_core.recall.items import ALWAYS, Bounds
from memforest_core.recall.records import SaidTurn
from memforest_core.recall.rewriting import LAST_TURNS
from memforest_core.recall.rows.reading import RecallRows
from memforest_core.store.owners import ForestRef

MAX_SESSIONS = 2_000
"""Sessions of channels that the index is told to look in. Of more, turns are left out after the search."""

MANY_SESSIONS = (
    f"The channels have more than {MAX_SESSIONS:,} sessions: they were looked for among what was found everywhere."
)


@dataclass(frozen=True, slots=True)
class Places:
    """The forests that are asked; the last turns of the running session; and the owners without a memory."""

    known: tuple[Place, ...] = ()
    turns: tuple[SaidTurn, ...] = ()
    unknown: tuple[str, ...] = ()


def found_places(
    rows: RecallRows, tenant: TenantId, owners: Sequence[str], asked: Asked, *, times: bool, turns: bool
) -> Places:
    """The forests of these owners, in their order: at most seven statements for each.

    ``times`` says that the time counts which the question names, ``turns`` that a model can use the last turns of the
    running session: those of the first owner who has it. Raises InvalidInput, StoreUnavailable.
    """
    places: list[Place] = []
    said: list[SaidTurn] = []
    unknown: list[str] = []
    for owner in owners:
        # Before the index is searched: in the other order a turn that is indexed between the two would be missed.
        some = 1 if asked.vector is not None else RAW_LIMIT + 1
        forest, cells, unsure, cold = rows.together(
            rows.forest(owner), rows.not_indexed(owner, some), rows.index_unsure(), rows.cold_topics(owner)
        )
        if forest is None:
            unknown.append(owner)
            continue
        if turns and asked.session_id is not None and not said:
            said = rows.last_turns(forest.id, asked.session_id, LAST_TURNS)
        places.append(replace(_place(rows, tenant, forest, asked, times), lacking=Lacking(tuple(cells), unsure, cold)))
    return Places(tuple(places), tuple(said), tuple(unknown))


def _place(rows: RecallRows, tenant: TenantId, forest: ForestRef, asked: Asked, times: bool) -> Place:
    """A forest, what may be evidence in it, and which time the question names."""
    zone = ZoneInfo(forest.time_zone)
    moment = asked.moment(zone)
    about = asked_period(asked.question.text, moment) if times else None
    if about is not None:
        # "In May" asked years after the last conversation means its last May.
        about = asked_period(asked.question.text, moment, known_until=rows.last_said(forest.id))
    sessions, degraded = _sessions(rows, forest.id, asked)
    bounds = Bounds(
        between=asked.between(zone),
        said_until=asked.said_until(zone),
        sessions=sessions,
        excluded=asked.exclude_sessions,
        speakers=asked.speakers,
        roles=asked.roles,
        about=ALWAYS if about is None else (about.first, about.last),
        channels=frozenset(asked.channels),
    )
    return Place(tenant, forest, bounds, degraded)


def _sessions(rows: RecallRows, forest: ForestId, asked: Asked) -> tuple[frozenset[UUID] | None, tuple[str, ...]]:
    """The sessions that evidence may be from, None for all that the other bounds allow; and a sentence when channels
    have more of them than the index can be told."""
    if asked.channels:
        found = rows.sessions_in(forest, asked.channels, asked.sessions, MAX_SESSIONS + 1)
        if len(found) <= MAX_SESSIONS:
            return frozenset(found), ()
    named = frozenset(rows.sessions(forest, asked.sessions)) if asked.sessions else None
    return named, (MANY_SESSIONS,) if asked.channels else ()
