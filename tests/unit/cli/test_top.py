"""One frame of top: what it shows, in a fixed width, and how depths change between two frames."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import cast

import pytest
from rich.console import Console

from memforest_core.domain.ids import TenantId
from memforest_core.errors import StoreUnavailable
from memforest_core.observe.cli.status import age, frame, next_frame, rates
from memforest_core.observe.inspection import InspectionService
from memforest_core.observe.records import Overview, QueueDepth, Spent, WorkerBeat

NOON = datetime(2024, 5, 6, 12, 0, tzinfo=UTC)
NOTHING = Spent(0, 0, 0, 0, 0, 0.0)


def depth(kind: str, state: str, items: int, oldest_s: float = 1.0) -> QueueDepth:
    return QueueDepth(TenantId("acme"), kind, state, items, oldest_s)


def overview(*queues: QueueDepth, at: datetime = NOON, workers: tuple[WorkerBeat, ...] = ()) -> Overview:
    return Overview(at, queues, workers, NOTHING, Spent(1_200, 3, 45_000, 6_000, 1_000, 0.0123))


def lines(now: Overview, before: Overview | None = None, width: int = 80) -> list[str]:
    out = Console(file=StringIO(), width=width, highlight=False, markup=False)
    with out.capture() as captured:
        out.print(frame(now, before))
    return [line.rstrip() for line in captured.get().splitlines()]


def test_a_frame_has_queues_calls_and_workers() -> None:
    workers = (
        WorkerBeat("host:12", ("extract", "reduce"), "0.1.0", 2.0, True),
        WorkerBeat("host:13", ("refresh",), "0.1.0", 75.0, False),
    )
    now = overview(
        depth("extract", "ready", 12_345, 90.0),
        depth("extract", "dead", 2, 7_200.0),
        depth("refresh", "ready", 7, 4.0),
        depth("index_fact", "ready", 9, 3.0),
        workers=workers,
    )
    assert lines(now) == [
        "2024-05-06 12:00:00 UTC   workers 1 alive, 1 silent   dirty nodes 7   dead 2",
        "behind: summaries 4 s, index 3 s",
        "work        state   items      oldest  per minute",
        "extract     ready  12,345  1 min 30 s",
        "extract     dead        2   2 h 0 min",
        "refresh     ready       7         4 s",
        "index_fact  ready       9         3 s",
        "",
        "model calls  calls  failed  prompt  cached  completion  dollars",
        "last minute      0       0       0       0           0    $0.00",
        "today (UTC)  1,200       3  45,000   1,000       6,000  $0.0123",
        "",
        "worker   queues           version       heartbeat",
        "host:12  extract, reduce  0.1.0           2 s ago",
        "host:13  refresh          0.1.0    1 min 15 s ago",
    ]


def test_depths_change_per_minute() -> None:
    """Given a second poll 30 s later, a depth that fell by 60 falls by 120 a minute; new and gone ones count."""
    before = overview(depth("extract", "ready", 100), depth("reduce", "ready", 5))
    now = overview(depth("extract", "ready", 40), depth("refresh", "ready", 3), at=NOON + timedelta(seconds=30))
    assert rates(now, before) == {("extract", "ready"): -120.0, ("reduce", "ready"): -10.0, ("refresh", "ready"): 6.0}
    assert rates(now, None) == {}
    assert [line.split()[-1] for line in lines(now, before)[3:5]] == ["-120", "+6"]


class Inspection:
    """Poll n finds n cells waiting; the second finds no database."""

    polls = 0

    def overview(self, tenant: TenantId) -> Overview:
        self.polls += 1
        if self.polls == 2:
            raise StoreUnavailable("Postgres can't be reached.")
        return overview(depth("extract", "ready", self.polls), at=NOON + timedelta(minutes=self.polls))


def test_watching_goes_on_while_the_database_is_unavailable() -> None:
    """Given a database that is unavailable at the second poll, then that frame says so, and rates span the gap."""
    inspection, tenant = cast(InspectionService, Inspection()), TenantId("acme")
    _, first = next_frame(inspection, tenant, None)
    gap, seen = next_frame(inspection, tenant, first)
    assert (str(gap), seen) == ("Postgres can't be reached.", first)
    _, third = next_frame(inspection, tenant, seen)
    assert third is not None
    assert rates(third, seen) == {("extract", "ready"): 1.0}


def test_a_database_that_was_never_there_is_an_error() -> None:
    inspection = Inspection()
    inspection.polls = 1
    with pytest.raises(StoreUnavailable):
        next_frame(cast(InspectionService, inspection), TenantId("acme"), None)


def test_what_others_named_cannot_steer_the_terminal() -> None:
    shown = lines(overview(workers=(WorkerBeat("h\x1b[31m", ("extract",), "0.1.0", 2.0, True),)))
    assert not any("\x1b[31m" in line for line in shown)


def test_programs_get_what_people_see() -> None:
    found = overview(depth("extract", "dead", 2), depth("refresh", "ready", 7, 4.0)).to_dict()
    assert (found["dead"], found["dirty_nodes"], found["summaries_stale_s"], found["index_stale_s"]) == (2, 7, 4.0, 0.0)
    assert found["at"] == NOON.isoformat()
    assert found["queues"] == [
        {"tenant": "acme", "kind": "extract", "state": "dead", "items": 2, "oldest_s": 1.0},
        {"tenant": "acme", "kind": "refresh", "state": "ready", "items": 7, "oldest_s": 4.0},
    ]


@pytest.mark.parametrize(
    "seconds, shown",
    [(0.4, "0 s"), (59.4, "59 s"), (61.0, "1 min 1 s"), (3_725.0, "1 h 2 min"), (200_000.0, "2 d 7 h")],
)
def test_ages_have_two_units(seconds: float, shown: str) -> None:
    assert age(seconds) == shown
