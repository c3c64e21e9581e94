"""A drawn tree: intervals, summaries, dirty marks, leaves."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

from memforest_core.cli.toolkit.output import console
from memforest_core.domain.ids import NodeId, TreeId, TreeKind
from memforest_core.observe.cli.tree import drawn, interval, state
from memforest_core.observe.records import DrawnNode, TreeOverview

MAY = datetime(2024, 5, 1, tzinfo=UTC)
DAY = timedelta(days=1)


def overview(*, dirty: int = 0, due: datetime | None = None) -> TreeOverview:
    root = NodeId(UUID(int=10))
    tree = (TreeId(UUID(int=1)), TreeKind.ENTITY, "Bob", 2, 1, 8, root, MAY, MAY + 3 * DAY, "")
    return TreeOverview(*tree, dirty_nodes=dirty, due_at=due)


def node(number: int, parent: int | None, level: int, text: str, **values: object) -> DrawnNode:
    fields: dict[str, object] = {
        "id": NodeId(UUID(int=number)),
        "parent_id": None if parent is None else NodeId(UUID(int=parent)),
        "level": level,
        "start": MAY,
        "end": MAY + DAY,
        "leaves": 1,
        "dirty": False,
        "fresh": True,
        "fact_id": None,
        "text": text,
        "source": "fact",
        "session_id": "",
    }
    return DrawnNode(**(fields | values))  # type: ignore[arg-type]


def lines(overview: TreeOverview, *nodes: DrawnNode) -> list[str]:
    out = console()
    with out.capture() as captured:
        out.print(drawn(overview, nodes))
    return captured.get().splitlines()


def test_a_tree_is_drawn_from_its_root_in_key_order() -> None:
    nodes = (
        node(10, None, 1, "Bob moved twice.", source="model", leaves=2, dirty=True, end=MAY + 3 * DAY),
        node(11, 10, 0, "Bob moved to Davis."),
        node(12, 10, 0, "Bob moved to\x1b[31m Miami.", start=MAY + 2 * DAY, end=MAY + 3 * DAY),
    )
    assert [line.rstrip() for line in lines(overview(dirty=1), *nodes)] == [
        "entity Bob  2 leaves, height 1, k = 8, 1 dirty",
        "└── 2024-05-01 … 2024-05-03  2 leaves  ● dirty  Bob moved twice.  (model)",
        "    ├── 2024-05-01  Bob moved to Davis.  (fact)",
        "    └── 2024-05-03  Bob moved to�[31m Miami.  (fact)",
    ]


def test_a_node_before_its_first_refresh_says_so() -> None:
    assert lines(overview(), node(10, None, 1, "", source="", leaves=2))[1].endswith("no summary yet")


def test_intervals_end_where_their_last_day_does() -> None:
    assert interval(None, None) == "no date"
    assert interval(MAY, None) == "2024-05-01"
    assert interval(MAY, MAY) == "2024-05-01"
    assert interval(MAY, MAY + DAY) == "2024-05-01"
    assert interval(MAY, MAY + 31 * DAY) == "2024-05-01 … 2024-05-31"


def test_a_dirty_tree_says_when_it_is_due() -> None:
    assert state(overview()) == "clean"
    assert state(overview(dirty=2, due=MAY)) == "2 dirty, due now"
    assert state(overview(dirty=2, due=datetime.now(UTC) + timedelta(seconds=90))).startswith("2 dirty, due in ")
