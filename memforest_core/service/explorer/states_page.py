"""States as lanes over time: one for each value, with what replaced it and the words that say it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from memforest_core.domain.evidence import day_label
from memforest_core.domain.facts import Change, Modality, Polarity
from memforest_core.domain.ids import FactId
from memforest_core.domain.rendering import PLANNED
from memforest_core.domain.text import normalize_name
from memforest_core.recall.states import TimelineState
from memforest_core.service.explorer.drawing import Axis, Bar
from memforest_core.service.explorer.page_requests import WEEKDAY, Outcome, Shown, Visit, href, known
from memforest_core.service.explorer.ranges import chosen_range

STATES = 500
SUBJECTS = 12
"""Who or what can be chosen by a click: those with most states."""
OPEN = 3
"""Subjects whose states are open at first."""
ROOMY = 30.0
"""A narrower bar has its label next to it."""
EVERYBODY = "*"

Chain = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Drawn:
    """A state as it is drawn."""

    state: TimelineState
    kind: str
    """current, past, planned, unsure, denied, corrected or ended."""
    bar: Bar
    open: bool
    """It goes on beyond the right end of the axis."""
    before: bool
    """It began before the axis."""
    when: str
    replaced_by: TimelineState | None


@dataclass(frozen=True, slots=True)
class Lane:
    """All states with one value."""

    label: str
    items: tuple[Drawn, ...]
    falls: tuple[float, ...] = ()
    """Where lines to later lanes go through, from what was replaced to what replaced it."""
    leaves: tuple[float, ...] = ()
    arrives: tuple[float, ...] = ()

    @property
    def last(self) -> Drawn:
        """Its current state, else the last one to begin."""
        begun = [each for each in self.items if each.kind != "ended"] or self.items
        return next((each for each in begun if each.state.current), begun[-1])

    @property
    def room(self) -> tuple[str, float, float]:
        """Where its label is, and from where on how wide: in its bar, or after or before one that is too narrow."""
        left = min(each.bar.x for each in self.items)
        right = round(max(each.bar.x + each.bar.width for each in self.items), 3)
        own = self.last.bar
        if own.width >= ROOMY and (self.last.open or own.width >= max(left, 100 - right)):
            return "in", own.x, own.width
        return ("after", right, round(100 - right, 3)) if 100 - right >= left else ("before", 0.0, left)


def states(visit: Visit) -> Outcome:
    """The states of everybody, or of who or what was named."""
    owner, entity, cursor = visit.owner("timeline"), visit.parameter("entity") or EVERYBODY, visit.parameter("cursor")
    found = known(owner, visit.memory.timeline(owner, entity=entity, limit=STATES, cursor=cursor))
    values = {"owner": owner, "tab": "/states", "entity": "" if entity == EVERYBODY else entity, "found": found}
    if not found.states:
        return Shown("states.html", {**values, "span": None})
    moments = [at for state in found.states for at in (begun(state), known_until(state))]
    shown = chosen_range(visit, moments)
    groups = _groups(found.states, shown.shown, ZoneInfo(found.time_zone))
    drawn = sum(len(lane.items) for _, chains in groups for _, lanes in chains for lane in lanes)
    counted = Counter(state.subject for state in found.states)
    more = href("/states", owner=owner, entity=entity, cursor=found.cursor) if found.cursor else None
    counts = {"current": sum(state.current for state in found.states), "count": len(found.states), "drawn": drawn}
    people = {"subjects": counted.most_common(SUBJECTS), "open": OPEN}
    return Shown("states.html", {**values, **counts, **people, "groups": groups, "span": shown, "more": more})


def begun(state: TimelineState) -> datetime:
    """When it began, else when it was first said."""
    return (state.time.start or state.mentioned_at).astimezone(UTC)


def known_until(state: TimelineState) -> datetime:
    """When it ended, else its last mention."""
    ended = state.ended.start if state.ended is not None else None
    return (ended or state.last_mentioned_at).astimezone(UTC)


def _groups(
    found: Sequence[TimelineState], axis: Axis, zone: ZoneInfo
) -> list[tuple[str, list[tuple[str, list[Lane]]]]]:
    """Subjects with their attributes, and of each the lanes on the axis; what changed most comes first."""
    by_fact = {fact: state for state in found for fact in state.fact_ids}
    chains: dict[str, dict[str, list[TimelineState]]] = defaultdict(lambda: defaultdict(list))
    for state in found:
        chains[state.subject][state.attribute].append(state)
    groups = []
    for subject, own in sorted(chains.items(), key=lambda each: (-sum(map(len, each[1].values())), each[0].casefold())):
        ordered = sorted(own.items(), key=lambda each: (-len(each[1]), each[0]))
        lanes = [(attribute, lanes_of(states, axis, zone, by_fact)) for attribute, states in ordered]
        groups.append((subject, [(attribute, each) for attribute, each in lanes if each]))
    return [(subject, own) for subject, own in groups if own]


def lanes_of(
    states: Sequence[TimelineState], axis: Axis, zone: ZoneInfo, by_fact: Mapping[FactId, TimelineState]
) -> list[Lane]:
    """A lane for each value of one chain, in the order in which they began."""
    values: dict[str, list[Drawn]] = defaultdict(list)
    for state in states:
        if (drawn := _drawn(state, axis, zone, by_fact)) is not None:
            values[_lane_of(state, by_fact)].append(drawn)
    lanes = [Lane(own[0].state.shown.removesuffix(PLANNED), tuple(own)) for own in values.values()]
    numbers = {fact: at for at, lane in enumerate(lanes) for item in lane.items for fact in item.state.fact_ids}
    lines = [
        (at, numbers[item.replaced_by.fact_id], round(item.bar.x + item.bar.width, 3))
        for at, lane in enumerate(lanes)
        for item in lane.items
        if item.replaced_by is not None and at < numbers.get(item.replaced_by.fact_id, -1)
    ]
    return [
        Lane(
            lane.label,
            lane.items,
            falls=tuple(x for start, end, x in lines if start < at < end),
            leaves=tuple(x for start, _, x in lines if start == at),
            arrives=tuple(x for _, end, x in lines if end == at),
        )
        for at, lane in enumerate(lanes)
    ]


def _lane_of(state: TimelineState, by_fact: Mapping[FactId, TimelineState]) -> str:
    """What its lane is called by: its value, or that it is denied; an end is in the lane of what it ends."""
    ended = [by_fact[fact] for fact in state.supersedes if fact in by_fact]
    named = ended[0] if state.change is Change.STOP and ended else state
    return normalize_name(named.shown.removesuffix(PLANNED)) or named.text


def _drawn(state: TimelineState, axis: Axis, zone: ZoneInfo, by_fact: Mapping[FactId, TimelineState]) -> Drawn | None:
    """A state on the axis; None outside. A plan reaches from its mention to its day."""
    kind, begin, end = _kind(state), begun(state), known_until(state)
    if kind == "planned" and not state.current:
        begin, end = min(begin, state.mentioned_at.astimezone(UTC)), max(begin, end)
    end = max(begin, axis.end if state.current else end)
    if not axis.shows(begin, end):
        return None
    newer = None if state.superseded_by is None else by_fact.get(state.superseded_by)
    replaced_by = newer if newer is not None and newer.change is not Change.STOP else None
    goes_on = state.current or end > axis.end
    return Drawn(state, kind, axis.bar(begin, end), goes_on, begin < axis.start, _when(state, kind, zone), replaced_by)


def _kind(state: TimelineState) -> str:
    if state.corrected_at is not None:
        return "corrected"
    if state.planned or state.modality is Modality.PLANNED:
        return "planned"
    if state.current:
        return "current"
    if state.polarity is Polarity.NEGATIVE:
        return "denied"
    if state.modality is not Modality.ASSERTED:
        return "unsure"
    return "ended" if state.change is Change.STOP else "past"


def _when(state: TimelineState, kind: str, zone: ZoneInfo) -> str:
    """Its times in a few words, in the owner's time zone."""
    known, end = state.time.known, state.ended
    first = state.time_label if known else f"said {state.mentioned_at.astimezone(zone):%-d %B %Y}"
    if kind == "planned" and not state.current:
        first = f"planned for {first}" if known else f"planned, {first}"
    elif kind in ("ended", "corrected"):
        return WEEKDAY.sub("", f"{kind}, {first}")
    elif known and state.current:
        first = f"since {first}"
    until = "" if end is None or not end.known else f", until {day_label(end, zone)}"
    return WEEKDAY.sub("", first + until)
