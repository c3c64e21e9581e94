"""Whose day "yesterday" is counted from: the sender's clock, the session's zone, the owner's; over every face alike."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import uuid4
from zoneinfo import ZoneInfo

import pytest

from memforest_core.client.api import MemForest
from memforest_core.errors import InvalidInput

VISIT = {"role": "user", "content": "I visited Kyoto yesterday."}
TOKYO = "2025-03-01T01:00:00+09:00"
SAME_MOMENT = "2025-02-28T16:00:00Z"
NAIVE = "2025-03-01T01:00:00"


@pytest.fixture
def owner() -> str:
    return f"ann-{uuid4()}"


def visited(memory: MemForest, owner: str, zone: str = "UTC") -> str:
    """The day of the last fact by the calendar of a zone; it begins and ends at midnight there."""
    fact = memory.facts(owner).items[0]
    start, end = fact.statement.time.start, fact.statement.time.end
    assert start is not None
    assert end is not None
    local = start.astimezone(ZoneInfo(zone))
    assert (local.hour, end - start) == (0, timedelta(days=1))
    return local.date().isoformat()


def test_yesterday_is_counted_from_the_day_that_the_senders_clock_showed(memory: MemForest, owner: str) -> None:
    memory.enqueue(owner, "s", [VISIT | {"timestamp": TOKYO}], wait="facts")

    assert visited(memory, owner) == "2025-02-28"


def test_the_clock_of_a_sessions_start_is_that_of_its_undated_turns(memory: MemForest, owner: str) -> None:
    memory.enqueue(owner, "s", [VISIT], started_at=TOKYO, wait="facts")

    assert visited(memory, owner) == "2025-02-28"


def test_a_moment_in_utc_says_nothing_of_the_senders_clock(memory: MemForest, owner: str) -> None:
    memory.enqueue(owner, "s", [VISIT | {"timestamp": SAME_MOMENT}], wait="facts")

    assert visited(memory, owner) == "2025-02-27"


@pytest.mark.parametrize("stamp", [SAME_MOMENT, NAIVE])
def test_a_new_owner_is_where_the_first_session_is(memory: MemForest, owner: str, stamp: str) -> None:
    """Given an owner whose first session has a zone, when a later one has none, then its days are of that zone too."""
    memory.enqueue(owner, "first", [{"role": "user", "content": "Hello there."}], time_zone="Asia/Tokyo")
    memory.enqueue(owner, "s", [VISIT | {"timestamp": stamp}], wait="facts")

    assert visited(memory, owner, "Asia/Tokyo") == "2025-02-28"
    assert memory.timeline(owner).time_zone == "Asia/Tokyo"


@pytest.mark.parametrize("stamp", [SAME_MOMENT, NAIVE])
def test_a_session_may_be_in_another_zone_than_its_owner(memory: MemForest, owner: str, stamp: str) -> None:
    """Given an owner at home in UTC, when a session is in Tokyo, then its "yesterday" is Tokyo's and the days are UTC's."""
    memory.enqueue(owner, "home", [{"role": "user", "content": "Hello there."}])
    memory.enqueue(owner, "s", [VISIT | {"timestamp": stamp}], time_zone="Asia/Tokyo", wait="facts")

    assert visited(memory, owner) == "2025-02-28"
    assert memory.timeline(owner).time_zone == "UTC"
    turn = memory.turns(owner, "s").items[0]
    assert turn.occurred_at == datetime(2025, 2, 28, 16, tzinfo=UTC)


def test_a_session_stays_in_its_zone_until_another_is_given(memory: MemForest, owner: str) -> None:
    """Given a running session in Tokyo, when turns follow without and with a zone, then each is read in the right one."""
    memory.enqueue(owner, "home", [{"role": "user", "content": "Hello there."}])
    memory.append(owner, "s", {"role": "user", "content": "Hello.", "timestamp": NAIVE}, time_zone="Asia/Tokyo")
    memory.append(owner, "s", VISIT | {"timestamp": NAIVE})
    memory.append(owner, "s", VISIT | {"timestamp": NAIVE}, time_zone="America/New_York")

    said = [turn.occurred_at for turn in memory.turns(owner, "s").items]
    assert said == [datetime(2025, 2, 28, 16, tzinfo=UTC)] * 2 + [datetime(2025, 3, 1, 6, tzinfo=UTC)]


@pytest.mark.parametrize("zone", ["Mars/Olympus", "", "../etc/passwd", "+09:00"])
def test_a_zone_that_does_not_exist_is_refused_in_a_sentence(memory: MemForest, owner: str, zone: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        memory.enqueue(owner, "s", [VISIT], time_zone=zone)

    assert refused.value.code == "invalid_time_zone"
    assert "time_zone must be an IANA name such as Europe/Paris" in refused.value.message
    assert not memory.timeline(owner).owner_known
