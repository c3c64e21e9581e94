"""Lanes of states, the time that is shown, and the layout of the graph: what is drawn is what the timeline says."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from itertools import combinations
from types import SimpleNamespace
from typing import Any, cast
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from memforest_core.domain.facts import Change, Modality, Polarity
from memforest_core.domain.ids import FactId
from memforest_core.domain.times import UNKNOWN_TIME, Precision, TimeSpan
from memforest_core.errors import InvalidInput
from memforest_core.recall.states import TimelineState
from memforest_core.service import explorer
from memforest_core.service.explorer import ask_page
from memforest_core.service.explorer.drawing import Axis
from memforest_core.service.explorer.graph_page import laid_out
from memforest_core.service.explorer.page_requests import Visit
from memforest_core.service.explorer.ranges import Range, chosen_range
from memforest_core.service.explorer.states_page import Lane, lanes_of

START = datetime(2024, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
AXIS = Axis(START, START + 100 * DAY)


def state(value: str, begins: int, ends: int | None = None, by: str = "", **given: Any) -> TimelineState:
    """A residence that was said on a day, is current until ``ends``, and was replaced ``by`` another."""
    at = START + begins * DAY
    ended = None if ends is None else TimeSpan(START + ends * DAY, START + (ends + 1) * DAY, Precision.DAY)
    values: dict[str, Any] = {
        "subject": "Bob",
        "attribute": "residence",
        "previous_value": "",
        "text": f"Bob lives in {value}.",
        "change": Change.NONE,
        "polarity": Polarity.POSITIVE,
        "modality": Modality.ASSERTED,
        "time": UNKNOWN_TIME,
        "time_label": "",
        "mentioned_at": at,
        "last_mentioned_at": at,
        "known_since": at,
        "supersedes": (),
        "superseded_by": FactId(by) if by else None,
        "current": ends is None,
        "mentions": 1,
        "evidence": (),  # type: ignore[arg-type]
        "fact_id": value,
        "fact_ids": (value,),
        "value": value,
        "ended": ended,
        **given,
    }
    return TimelineState(**values)


def lanes(*states: TimelineState, axis: Axis = AXIS) -> list[Lane]:
    return lanes_of(states, axis, ZoneInfo("UTC"), {fact: each for each in states for fact in each.fact_ids})


def test_a_value_has_a_lane_and_a_line_leads_to_what_replaced_it() -> None:
    """Given three homes one after another, then each has a lane, and only the current one goes on to the right."""
    drawn = lanes(state("Rome", 0, 40, "Oslo"), state("Oslo", 40, 80, "Bonn"), state("Bonn", 80))

    assert [lane.label for lane in drawn] == ["Rome", "Oslo", "Bonn"]
    assert [lane.last.open for lane in drawn] == [False, False, True]
    assert [(lane.leaves, lane.arrives) for lane in drawn] == [((40.0,), ()), ((80.0,), (40.0,)), ((), (80.0,))]
    assert drawn[0].last.when == "said 1 January 2024, until 10 February 2024"
    assert [lane.room[0] for lane in drawn] == ["after", "in", "before"]


@pytest.mark.parametrize(
    ("given", "kind", "goes_on"),
    [
        ({}, "current", True),
        ({"planned": True}, "planned", True),
        ({"current": False, "modality": Modality.PLANNED}, "planned", False),
        ({"current": False, "modality": Modality.HEARSAY}, "unsure", False),
        ({"current": False, "polarity": Polarity.NEGATIVE}, "denied", False),
        ({"current": False, "corrected_at": START}, "corrected", False),
        ({"current": False, "change": Change.STOP}, "ended", False),
    ],
)
def test_a_bar_goes_on_exactly_when_its_state_is_current(given: dict[str, Any], kind: str, goes_on: bool) -> None:
    (lane,) = lanes(state("Rome", 10, **given))

    assert (lane.last.kind, lane.last.open) == (kind, goes_on)
    assert (lane.last.bar.x + lane.last.bar.width == 100) == goes_on


def test_an_end_is_in_the_lane_of_what_it_ends_and_outside_states_are_none() -> None:
    stop = state("the flat in Rome", 50, 50, change=Change.STOP, current=False, supersedes=(FactId("Rome"),))  # type: ignore[arg-type]
    (lane,) = lanes(state("Rome", 0, 50, "the flat in Rome"), stop)

    assert (lane.label, lane.last.state.value, [each.kind for each in lane.items]) == (
        "Rome",
        "Rome",
        ["past", "ended"],
    )
    assert lanes(state("Rome", 0, 40, "Oslo"), axis=Axis(START + 60 * DAY, START + 90 * DAY)) == []


def test_a_value_that_is_current_is_not_in_the_lane_of_its_denial() -> None:
    denied = state("Rome", 0, 10, current=False, polarity=Polarity.NEGATIVE, fact_id="no", fact_ids=("no",))
    drawn = lanes(denied, state("Rome", 20, 30, current=False, planned=False), state("rome", 40, fact_ids=("again",)))

    assert [(lane.label, lane.last.kind, len(lane.items)) for lane in drawn] == [
        ("not Rome", "denied", 1),
        ("Rome", "current", 2),
    ]


def test_no_two_signals_have_nearly_the_same_colour() -> None:
    """Given the colours of signals, then any two differ by what an eye sees at once, in the light and in the dark."""
    found = re.findall(r"--c(\d+): #(\w{6})", (files(explorer) / "static" / "explorer.css").read_text())
    light, dark = found[: ask_page.COLOURS], found[ask_page.COLOURS :]

    assert len(ask_page.SIGNALS) <= ask_page.COLOURS
    for theme in (light, dark):
        assert [int(number) for number, _ in theme] == list(range(1, ask_page.COLOURS + 1))
        assert min(math.dist(seen(one), seen(other)) for (_, one), (_, other) in combinations(theme, 2)) > 0.1


def seen(colour: str) -> np.ndarray:
    """A colour in Oklab, where equal distances look equal."""
    parts = np.array([int(colour[at : at + 2], 16) for at in (0, 2, 4)]) / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    cones = [[0.4122, 0.5363, 0.0514], [0.2119, 0.6807, 0.1074], [0.0883, 0.2817, 0.6300]]
    lightness = [[0.2105, 0.7936, -0.0041], [1.9780, -2.4286, 0.4506], [0.0259, 0.7828, -0.8087]]
    found: np.ndarray = lightness @ np.cbrt(cones @ linear)
    return found


def chosen(moments: list[datetime], **query: str) -> Range:
    return chosen_range(cast(Visit, SimpleNamespace(parameter=query.get)), moments)


def test_the_time_that_is_shown_first_is_where_most_happens() -> None:
    """Given one state of 1970 and many of a spring, then the spring is shown, and everything can be chosen."""
    spring = [START + number * DAY for number in range(60)]
    shown = chosen([datetime(1970, 1, 1, tzinfo=UTC), *spring])

    assert timedelta() <= spring[0] - shown.shown.start < 5 * DAY
    assert shown.choices[0].label == "all"
    assert chosen([datetime(1970, 1, 1, tzinfo=UTC), *spring], all="1").shown.start.year < 1970
    assert chosen(spring).shown.start < spring[0] and chosen(spring).shown.end > spring[-1]
    day = chosen(spring, since="2024-01-05", until="2024-01-05")
    assert (day.shown.end - day.shown.start, day.since, day.until) == (DAY, day.until, day.since)
    assert chosen([START]).columns
    assert chosen([*spring, datetime(2990, 1, 1, tzinfo=UTC)]).shown.end < spring[-1] + 5 * DAY
    plan = START.replace(year=2990)
    assert chosen([START, plan]).shown.end > plan
    assert chosen([START, *[plan + number * DAY for number in range(40)]]).shown.end > plan
    ancient = chosen([datetime(1000, 1, 1, tzinfo=UTC), datetime(2999, 12, 31, tzinfo=UTC)], all="1").shown
    assert [tick.label for tick in ancient.ticks] == ["1000", "1500", "2000", "2500"]


@pytest.mark.parametrize(
    "query",
    [
        {"since": "soon"},
        {"since": "2024-02-01", "until": "2024-01-01"},
        {"since": "0001-01-01"},
        {"until": "9999-12-31"},
    ],
)
def test_days_that_are_none_are_refused(query: dict[str, str]) -> None:
    with pytest.raises(InvalidInput):
        chosen([START, START + DAY], **query)


def test_a_layout_is_the_same_each_time_inside_and_has_linked_ones_nearer() -> None:
    linked = [(0, number, 3) for number in range(1, 6)] + [(6, number, 3) for number in range(7, 12)]
    points = laid_out(12, linked)

    def far(one: int, other: int) -> float:
        return abs(complex(*points[one]) - complex(*points[other]))

    assert points == laid_out(12, linked)
    assert all(0 <= each <= 100 for point in points for each in point)
    assert len({(round(x), round(y)) for x, y in points}) == 12
    assert max(far(0, each) for each in range(1, 6)) < min(far(0, each) for each in range(6, 12))
    assert [laid_out(count, []) for count in (0, 1)] == [[], [(50.0, 50.0)]]
