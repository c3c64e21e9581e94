"""One owner: profile and sessions, states over time, topics, days."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime

from memforest_core.recall.timeline.states import TimelineState
from memforest_core.service.explorer.drawing import Axis, Bar
from memforest_core.service.explorer.visits import Outcome, Shown, Visit, href, known

SESSIONS = 50
STATES = 500
TOPICS = 100
DAYS = 30
EVERYBODY = "*"


@dataclass(frozen=True, slots=True)
class DrawnState:
    """A state and where it lies on the axis; ``number`` gives its bar another colour than its neighbours'."""

    state: TimelineState
    bar: Bar
    number: int
    faded: bool
    """Something ended it, or it never held."""


@dataclass(frozen=True, slots=True)
class Chain:
    """The states of one subject and attribute, in the order of time."""

    subject: str
    attribute: str
    states: tuple[DrawnState, ...]

    @property
    def on_top(self) -> list[DrawnState]:
        """As they are drawn: of bars that overlap the narrow ones lie on top."""
        return sorted(self.states, key=lambda drawn: -drawn.bar.width)


def sessions(visit: Visit) -> Outcome:
    """Profile, numbers, and sessions, the newest first."""
    owner, cursor = visit.owner(), visit.parameter("cursor")
    memory = visit.memory
    found = known(owner, memory.sessions(owner, limit=SESSIONS, cursor=cursor))
    return Shown(
        "owner.html",
        {
            "owner": owner,
            "tab": "/owner",
            "profile": memory.services.describer.profile(visit.caller.tenant, owner, write=False),
            "state": memory.services.inspection.forest(visit.caller.tenant, owner),
            "sessions": found,
            "more": href("/owner", owner=owner, cursor=found.cursor) if found.cursor else None,
            "may_forget": visit.may("lifecycle.forget", owner=owner),
        },
    )


def states(visit: Visit) -> Outcome:
    """States as bars over time, a row for each attribute; what was superseded is faded."""
    owner, entity, cursor = visit.owner("timeline"), visit.parameter("entity") or EVERYBODY, visit.parameter("cursor")
    found = known(owner, visit.memory.timeline(owner, entity=entity, limit=STATES, cursor=cursor))
    axis = _axis(found.states)
    chains = [] if axis is None else _chains(found.states, axis)
    return Shown(
        "states.html",
        {
            "owner": owner,
            "tab": "/states",
            "entity": "" if entity == EVERYBODY else entity,
            "chains": chains,
            "found": found.states,
            "axis": axis,
            "time_zone": found.time_zone,
            "current": sum(state.current for state in found.states),
            "count": len(found.states),
            "more": href("/states", owner=owner, entity=entity, cursor=found.cursor) if found.cursor else None,
        },
    )


def topics(visit: Visit) -> Outcome:
    """Topics, the one that reaches furthest in time first."""
    owner, cursor = visit.owner("topics"), visit.parameter("cursor")
    found = known(owner, visit.memory.topics(owner, limit=TOPICS, cursor=cursor))
    more = href("/topics", owner=owner, cursor=found.cursor) if found.cursor else None
    return Shown("topics.html", {"owner": owner, "tab": "/topics", "topics": found, "more": more})


def days(visit: Visit) -> Outcome:
    """Digests of days, the newest first."""
    owner, cursor = visit.owner("days"), visit.parameter("cursor")
    found = known(owner, visit.memory.days(owner, limit=DAYS, cursor=cursor))
    more = href("/days", owner=owner, cursor=found.cursor) if found.cursor else None
    return Shown("days.html", {"owner": owner, "tab": "/days", "days": found, "more": more})


def _axis(found: tuple[TimelineState, ...]) -> Axis | None:
    moments = [moment for state in found for moment in (_begun(state), _known_until(state)) if moment is not None]
    return Axis.over(moments) if moments else None


def _chains(found: tuple[TimelineState, ...], axis: Axis) -> list[Chain]:
    grouped: dict[tuple[str, str], list[TimelineState]] = defaultdict(list)
    for state in found:
        grouped[state.subject, state.attribute].append(state)
    chains = [
        Chain(subject, attribute, tuple(_drawn(state, number, axis) for number, state in enumerate(own)))
        for (subject, attribute), own in grouped.items()
    ]
    # What changed most is what people look for.
    return sorted(chains, key=lambda chain: (-len(chain.states), chain.subject.casefold(), chain.attribute))


def _drawn(state: TimelineState, number: int, axis: Axis) -> DrawnState:
    begun = _begun(state)
    bar = axis.bar(begun, max(begun, axis.end if state.current else _known_until(state) or begun))
    return DrawnState(state, bar, number % 2, not state.current)


def _begun(state: TimelineState) -> datetime:
    return (state.time.start or state.mentioned_at).astimezone(UTC)


def _known_until(state: TimelineState) -> datetime | None:
    """When it ended, else its last occurrence."""
    if state.ended is not None and state.ended.start is not None:
        return state.ended.start.astimezone(UTC)
    return state.last_mentioned_at.astimezone(UTC)
