"""What is accepted from a caller, what it becomes, and the one sentence that answers anything else."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from memforest_core.domain.turns import (
    MAX_METADATA_DEPTH,
    Role,
    SessionFrame,
    Turn,
    TurnLimits,
    checked_messages,
    checked_zone,
    parse_timestamp,
    parse_turns,
)
from memforest_core.errors import InvalidInput
from tests.harness.builders import NOON, turn
from tests.harness.tables import cases

FRAME = SessionFrame("alice", ZoneInfo("UTC"), NOON)
LIMITS = TurnLimits()
PARIS = ZoneInfo("Europe/Paris")


def parsed(*raw: object, frame: SessionFrame = FRAME, limits: TurnLimits = LIMITS) -> list[Turn]:
    return parse_turns(checked_messages(raw), frame, limits)


def user(**fields: object) -> dict[str, object]:
    return {"role": "user", "content": "I live in Davis.", **fields}


def test_a_turn_has_what_was_sent() -> None:
    [found] = parsed(
        user(id="m1", timestamp="2023-05-08T10:00:00Z", speaker_id="u7", name="Bob", metadata={"channel": 3})
    )

    assert found == Turn(
        ordinal=0,
        id="m1",
        role=Role.USER,
        content="I live in Davis.",
        occurred_at=datetime(2023, 5, 8, 10, tzinfo=UTC),
        dated=True,
        speaker_id="u7",
        name="Bob",
        metadata={"channel": 3},
    )


@pytest.mark.parametrize(
    ("given", "speaker_id", "name"),
    [
        ({"role": "user"}, "alice", "alice"),
        ({"role": "assistant"}, "assistant", "assistant"),
        ({"role": "tool"}, "tool", "tool"),
        ({"role": "user", "name": "Bob"}, "Bob", "Bob"),
        ({"role": "user", "speaker_id": "u7"}, "u7", "u7"),
        ({"role": "assistant", "speaker_id": "a1", "name": "Ada"}, "a1", "Ada"),
    ],
)
def test_a_speaker_is_the_one_given_or_the_owner_for_users_and_the_role_for_others(
    given: dict[str, object], speaker_id: str, name: str
) -> None:
    [found] = parsed({"content": "Hello there.", **given})

    assert (found.speaker_id, found.name) == (speaker_id, name)


def test_a_turn_without_a_time_takes_that_of_the_turn_before_it_and_the_first_the_sessions_start() -> None:
    later = NOON + timedelta(hours=3)

    found = parsed(user(), user(timestamp=later), user())

    assert [each.occurred_at for each in found] == [NOON, later, later]
    assert [each.dated for each in found] == [False, True, False]


@pytest.mark.parametrize(
    ("value", "moment"),
    [
        ("2023-05-08T10:00:00Z", datetime(2023, 5, 8, 10, tzinfo=UTC)),
        (" 2023-05-08T12:00:00+02:00 ", datetime(2023, 5, 8, 10, tzinfo=UTC)),
        ("2023-05-08 10:00", datetime(2023, 5, 8, 8, tzinfo=UTC)),
        ("2023-05-08", datetime(2023, 5, 7, 22, tzinfo=UTC)),
        ("2023-12-08T10:00", datetime(2023, 12, 8, 9, tzinfo=UTC)),
        (1_683_540_000, datetime(2023, 5, 8, 10, tzinfo=UTC)),
        (1_683_540_000.5, datetime(2023, 5, 8, 10, 0, 0, 500_000, tzinfo=UTC)),
        (1_683_540_000_000, datetime(2023, 5, 8, 10, tzinfo=UTC)),
        (0, datetime(1970, 1, 1, tzinfo=UTC)),
        (-86_400, datetime(1969, 12, 31, tzinfo=UTC)),
        (datetime(2023, 5, 8, 10), datetime(2023, 5, 8, 8, tzinfo=UTC)),
        (datetime(2023, 5, 8, 10, tzinfo=timezone(timedelta(hours=-5))), datetime(2023, 5, 8, 15, tzinfo=UTC)),
    ],
)
def test_times_are_iso_8601_or_unix_and_naive_ones_are_read_in_the_zone(value: object, moment: datetime) -> None:
    found = parse_timestamp(value, PARIS, "Turn 1")

    assert found == moment
    assert found.tzinfo is UTC


@pytest.mark.parametrize(
    "value",
    [
        *cases("""
yesterday | 2023-13-01 | 2023-02-30T10:00:00 | 0001-01-01T00:00:00+23:00 | 9999-12-31T23:59:59-12:00
0999-12-31T23:59:59Z | 3000-01-01T00:00:00Z
"""),
        "",
        datetime(1, 1, 1),
        1e300,
        10**400,
        float("nan"),
        float("inf"),
        True,
        [2023, 5, 8],
        {"seconds": 1},
        "\ud800",
    ],
)
def test_an_impossible_time_is_refused(value: object) -> None:
    with pytest.raises(InvalidInput, match="ISO 8601") as refused:
        parse_timestamp(value, PARIS, "Turn 4")

    assert refused.value.code == "invalid_timestamp"
    assert refused.value.message.startswith("Turn 4: ")


@pytest.mark.parametrize(
    ("metadata", "code"),
    [
        ("text", "invalid_metadata"),
        ({1: "x"}, "invalid_metadata"),
        ({"at": NOON}, "invalid_metadata"),
        ({"deep": {"k\x00": 1}}, "nul_character"),
        ({"blob": "x" * 300_000}, "metadata_too_long"),
    ],
)
def test_bad_metadata_is_refused_with_its_position(metadata: object, code: str) -> None:
    """Other bad input is refused in tests/integration/test_bad_input.py."""
    with pytest.raises(InvalidInput) as refused:
        parsed(user(), user(metadata=metadata))

    assert refused.value.code == code
    assert refused.value.message.startswith("Turn 2")


def test_metadata_may_talk_about_nul_and_hold_any_json() -> None:
    metadata = {"text": "\\u0000 is NUL", "n": 1.5, "ok": True, "none": None, "list": [{"é": "🌲"}]}

    [found] = parsed(user(metadata=metadata))

    assert found.metadata == metadata


def test_a_message_does_not_repeat_the_conversation() -> None:
    with pytest.raises(InvalidInput) as refused:
        parsed(user(content="my secret \x00"))

    assert "secret" not in refused.value.message


def test_the_number_of_turns_is_counted_from_the_sessions_beginning() -> None:
    limits = TurnLimits(max_turns=3)
    ahead = SessionFrame("alice", ZoneInfo("UTC"), NOON, first_ordinal=3)

    assert len(parsed(user(), user(), user(), limits=limits)) == 3
    for frame, count in ((FRAME, 4), (ahead, 1)):
        with pytest.raises(InvalidInput, match="at most 3 turns") as refused:
            parsed(*[user()] * count, frame=frame, limits=limits)
        assert refused.value.code == "too_many_turns"


def test_a_turns_size_is_counted_in_bytes() -> None:
    limits = TurnLimits(max_turn_bytes=8)

    assert parsed(user(content="é" * 4), limits=limits)[0].content == "éééé"
    with pytest.raises(InvalidInput, match=r"8 bytes \(it has 9\)") as refused:
        parsed(user(content="é" * 4 + "x"), limits=limits)
    assert refused.value.code == "turn_too_long"


def test_the_same_turn_again_says_the_same() -> None:
    stored = turn(3)
    undated = Turn(3, stored.id, stored.role, stored.content, NOON + timedelta(days=9), False, "bob", "Bob")

    assert stored.same_as(turn(3, metadata={"seen": 2}))
    assert stored.same_as(undated)
    assert undated.same_as(stored)


@pytest.mark.parametrize(
    "other",
    [
        turn(3, "I live in Miami."),
        turn(3, role=Role.ASSISTANT),
        turn(3, name="Eve"),
        turn(3, at=NOON),
        turn(4, at=NOON + timedelta(minutes=3)),
    ],
    ids=["content", "role", "speaker", "time", "id"],
)
def test_a_turn_that_differs_in_anything_said_is_another_turn(other: Turn) -> None:
    assert not turn(3).same_as(other)


def nested(levels: int) -> dict[str, object]:
    """Metadata that is so many levels deep."""
    value: object = 1
    for _ in range(levels - 2):
        value = [value]
    return {"a": value}


def test_metadata_is_taken_up_to_a_depth_that_everybody_can_read() -> None:
    """Given JSON that Python could still write, when it is too deep to be read far down a stack, then it is refused."""
    [found] = parsed(user(metadata=nested(MAX_METADATA_DEPTH)))
    assert found.metadata == nested(MAX_METADATA_DEPTH)

    bottomless: list[object] = []
    bottomless.append(bottomless)
    for metadata in ({"deep": bottomless}, *map(nested, (MAX_METADATA_DEPTH + 1, 900, 100_000))):
        with pytest.raises(InvalidInput) as refused:
            parsed(user(metadata=metadata))
        assert refused.value.code == "invalid_metadata"


def test_an_id_like_a_generated_one_is_refused() -> None:
    with pytest.raises(InvalidInput) as refused:
        parsed(user(id="turn@7"))

    assert refused.value.code == "reserved_turn_id"
    assert [each.id for each in parsed(user(id="turn-1"), user(id="turn@x"), user())] == ["turn-1", "turn@x", "turn@2"]


def test_an_owner_with_a_display_name_speaks_under_it() -> None:
    frame = SessionFrame("0f8b-77", ZoneInfo("UTC"), NOON, display_name="Eva")

    plain, own, named, assistant = parsed(
        user(), user(speaker_id="0f8b-77"), user(name="Ann"), {"role": "assistant", "content": "Hi."}, frame=frame
    )

    assert [(each.speaker_id, each.name) for each in (plain, own, named, assistant)] == [
        ("0f8b-77", "Eva"),
        ("0f8b-77", "Eva"),
        ("Ann", "Ann"),
        ("assistant", "assistant"),
    ]


def test_a_turn_sent_again_is_the_same_whatever_its_owner_is_called_by_now() -> None:
    [before], [after] = (
        parsed(user(), frame=SessionFrame("0f8b-77", ZoneInfo("UTC"), NOON, display_name=name))
        for name in (None, "Eva")
    )

    assert before.same_as(after) and replace(before, named=True).same_as(after)
    assert not replace(before, named=True).same_as(replace(after, named=True))


@pytest.mark.parametrize(
    ("stamp", "minutes"),
    [
        ("2025-03-01T01:00:00+09:00", 540),
        ("2025-03-01T01:00:00-03:30", -210),
        (datetime(2025, 3, 1, 1, tzinfo=PARIS), 60),
        ("2025-03-01T01:00:00Z", None),
        ("2025-03-01T01:00:00+00:00", None),
        ("2025-03-01T01:00:00", None),
        (1_740_790_800, None),
    ],
)
def test_an_offset_from_utc_is_the_senders_clock(stamp: object, minutes: int | None) -> None:
    [found] = parsed(user(timestamp=stamp))

    assert found.utc_offset == minutes


def test_turns_without_a_time_go_on_by_the_clock_of_the_one_before() -> None:
    found = parsed(user(), user(timestamp="2025-03-01T01:00:00+09:00"), user(), user(timestamp=1_740_790_800))

    assert [turn.utc_offset for turn in found] == [None, 540, 540, None]


def test_outside_the_owners_zone_each_turn_has_the_offset_of_its_day() -> None:
    """Given a session in Paris of an owner elsewhere, when clocks change, then the offsets of turns change with them."""
    winter, summer = "2025-03-29T12:00:00", "2025-03-30T12:00:00"
    frame = SessionFrame("alice", PARIS, NOON, elsewhere=True)

    found = parsed(user(timestamp=winter), user(timestamp=summer), frame=frame)

    assert [turn.utc_offset for turn in found] == [60, 120]


@pytest.mark.parametrize("name", ["Mars/Olympus", "", "+09:00", "/etc/localtime", 9])
def test_a_time_zone_that_is_not_known_is_refused_in_one_sentence(name: object) -> None:
    with pytest.raises(InvalidInput, match="IANA name such as Europe/Paris") as refused:
        checked_zone(name)

    assert refused.value.code == "invalid_time_zone"
