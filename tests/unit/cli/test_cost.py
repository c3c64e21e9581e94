"""What spending looks like, and which times its options take."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from io import StringIO

import pytest
from rich.console import Console

from memforest_core.errors import InvalidInput
from memforest_core.observe.cli.cost import json_of, moment, table_of
from memforest_core.observe.inspection import summed
from memforest_core.observe.records import CallFilter, CostBy, Costs, Spent, SpentOn

CHAT = SpentOn("chat-1", "bob", Spent(3, 1, 12_000, 400, 6_000, 1.25))
NOTES = SpentOn("notes\x1b[31m", "ann", Spent(1, 0, 10, 5, 0, 0.0004))
NONE = SpentOn("", "", Spent(2, 0, 100, 0, 0, 0.0))


def costs(by: CostBy, *rows: SpentOn) -> Costs:
    return Costs(by, rows, summed([row.spent for row in rows]))


def lines(shown: Costs) -> list[str]:
    out = Console(file=StringIO(), width=100, highlight=False, markup=False)
    with out.capture() as captured:
        out.print(table_of(shown))
    return [line.rstrip() for line in captured.get().splitlines()]


def test_sessions_are_named_with_their_owners() -> None:
    """Given sessions, then each row has its name and owner, calls of no session have none, the last row is a sum."""
    assert lines(costs(CostBy.SESSION, CHAT, NOTES, NONE)) == [
        "session     owner  calls  failed  prompt  cached  completion  dollars",
        "chat-1      bob        3       1  12,000   6,000         400    $1.25",
        "notes�[31m  ann        1       0      10       0           5  $0.0004",
        "(none)                 2       0     100       0           0    $0.00",
        "total                  6       1  12,110   6,000         405    $1.25",
    ]


def test_programs_find_rows_by_what_they_are_summed_by() -> None:
    found = json_of(costs(CostBy.SESSION, CHAT), CallFilter(owner="bob"))
    assert found["rows"] == [
        {
            "session": "chat-1",
            "owner": "bob",
            "calls": 3,
            "failed": 1,
            "prompt_tokens": 12_000,
            "completion_tokens": 400,
            "cached_tokens": 6_000,
            "cost_usd": 1.25,
        }
    ]
    assert (found["by"], found["owner"], found["total"]) == ("session", "bob", CHAT.spent)


@pytest.mark.parametrize(
    "text, end, expected",
    [
        ("2024-05-06", False, datetime(2024, 5, 6, tzinfo=UTC)),
        ("2024-05-06", True, datetime(2024, 5, 7, tzinfo=UTC)),
        ("2024-05-06T07:00", True, datetime(2024, 5, 6, 7, tzinfo=UTC)),
        ("2024-05-06T07:00+02:00", False, datetime(2024, 5, 6, 7, tzinfo=timezone(timedelta(hours=2)))),
    ],
)
def test_a_day_is_meant_whole(text: str, end: bool, expected: datetime) -> None:
    assert moment("--since", text, end=end) == expected


@pytest.mark.parametrize("text", ["", "yesterday", "2024-13-01", "9999-12-31"])
def test_a_time_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        moment("--until", text, end=True)
    assert refused.value.code == "invalid_time"
    assert "--until" in refused.value.message
