"""Time axes and bars: everything is on the axis, can be seen, and is in its order."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from memforest_core.service.explorer.drawing import NARROWEST, TICKS, Axis, stacked

START = datetime(2023, 3, 14, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    "span",
    [
        timedelta(seconds=1),
        timedelta(minutes=13),
        timedelta(hours=5),
        timedelta(days=3),
        timedelta(days=40),
        timedelta(days=800),
        timedelta(days=7_000),
        timedelta(days=340_000),
    ],
)
def test_an_axis_names_few_dates_in_order_and_inside(span: timedelta) -> None:
    ticks = Axis.over([START, START + span]).ticks

    assert len(ticks) <= TICKS + 1
    assert len({tick.label for tick in ticks}) == len(ticks)
    assert [tick.x for tick in ticks] == sorted(tick.x for tick in ticks)
    assert all(0 <= tick.x <= 100 for tick in ticks)


def test_years_and_quarters_begin_where_the_calendar_says() -> None:
    labels = [tick.label for tick in Axis.over([START, START + timedelta(days=800)]).ticks]

    assert labels == ["Jul 2023", "Jan 2024", "Jul 2024", "Jan 2025"]


def test_the_end_of_time_has_an_axis() -> None:
    last = datetime(2999, 12, 31, tzinfo=UTC)

    assert Axis.over([last - timedelta(days=900), last]).ticks


def test_an_instant_can_be_seen_and_stays_on_the_axis() -> None:
    axis = Axis.over([START, START + timedelta(days=100)])
    last = axis.bar(axis.end, axis.end)

    assert last.width == NARROWEST
    assert last.x + last.width == pytest.approx(100)


def test_what_begins_before_the_axis_is_cut_at_its_edge() -> None:
    axis = Axis.over([START, START + timedelta(days=10)])
    bar = axis.bar(START - timedelta(days=5), START + timedelta(days=5))

    assert (bar.x, bar.width) == (0.0, 50.0)


def test_parts_of_the_best_fill_the_width_the_largest_first() -> None:
    slices = stacked({"cell": 1.0, "fact": 3.0}, 4.0)

    assert [(each.name, each.x, each.width) for each in slices] == [("fact", 0.0, 75.0), ("cell", 75.0, 25.0)]
