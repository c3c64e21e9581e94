"""Memories exported from mem0."""

from __future__ import annotations

import pytest

from memforest_core.ingest.formats.datasets import MEM0_UNDATED, mem0
from memforest_core.ingest.formats.file_items import Converted, Refused, Value, bad_item


def memory(id_: str, text: str, at: str | None = "2024-03-01T10:00:00+00:00", **more: object) -> dict[str, object]:
    return {"id": id_, "memory": text, "user_id": "ann", "created_at": at, **more}


def values(*raw: object) -> list[Value]:
    return [Value(number, one) for number, one in enumerate(raw, 1)]


def test_a_users_memories_of_a_day_are_a_session() -> None:
    """Given memories in any order and zone, then each day in UTC has them in the order in which they were made."""
    found = list(
        mem0(
            values(
                memory("m3", "Ann sails.", "2024-03-02T08:00:00Z", categories=["hobbies"], metadata={"by": "app"}),
                memory("m2", "Ann moved to Oslo.", "2024-03-01T12:30:00-07:00"),
                memory("m1", "Ann is vegan.", "2024-03-01T09:00:00"),
                memory("b1", "Bo has a cat.", user_id="bo"),
                memory("b1", "Bo has a cat.", user_id="bo"),
            ),
            None,
        )
    )
    assert found == [
        Converted(
            3,
            "ann",
            "mem0-2024-03-01",
            [
                {
                    "role": "user",
                    "content": "Ann is vegan.",
                    "id": "m1",
                    "timestamp": "2024-03-01T09:00:00+00:00",
                    "metadata": {"mem0_id": "m1"},
                },
                {
                    "role": "user",
                    "content": "Ann moved to Oslo.",
                    "id": "m2",
                    "timestamp": "2024-03-01T19:30:00+00:00",
                    "metadata": {"mem0_id": "m2"},
                },
            ],
        ),
        Converted(
            1,
            "ann",
            "mem0-2024-03-02",
            [
                {
                    "role": "user",
                    "content": "Ann sails.",
                    "id": "m3",
                    "timestamp": "2024-03-02T08:00:00+00:00",
                    "metadata": {"mem0_id": "m3", "categories": ["hobbies"], "metadata": {"by": "app"}},
                }
            ],
        ),
        Converted(
            4,
            "bo",
            "mem0-2024-03-01",
            [
                {
                    "role": "user",
                    "content": "Bo has a cat.",
                    "id": "b1",
                    "timestamp": "2024-03-01T10:00:00+00:00",
                    "metadata": {"mem0_id": "b1"},
                }
            ],
        ),
    ]


def test_another_order_of_the_file_gives_the_same_sessions() -> None:
    raw = [memory(f"m{number}", f"Ann has {number} hens.") for number in range(5)]
    forth, back = list(mem0(values(*raw), None)), list(mem0(values(*raw[::-1]), None))
    assert isinstance(forth[0], Converted) and isinstance(back[0], Converted)
    assert forth[0].turns == back[0].turns


def test_an_owner_is_the_user_the_agent_or_the_given_one() -> None:
    raw = values(memory("m1", "A."), memory("m2", "B.", user_id=None, agent_id="bot"), memory("m3", "C.", user_id=None))
    assert [one.owner for one in mem0(raw, "zoe") if isinstance(one, Converted)] == ["ann", "bot", "zoe"]


def test_undated_memories_stay_in_the_files_order() -> None:
    (found,) = mem0(values(memory("m2", "B.", None), memory("m1", "A.", None)), None)
    assert isinstance(found, Converted) and found.session_id == MEM0_UNDATED
    assert [turn["id"] for turn in found.turns if isinstance(turn, dict)] == ["m2", "m1"]
    assert all("timestamp" not in turn for turn in found.turns if isinstance(turn, dict))


@pytest.mark.parametrize(
    "raw, hint",
    [
        ("text", "object"),
        (memory("m1", ""), "no text"),
        (memory("", "A."), "no id"),
        (memory("m1", "A.", user_id=None), "give --owner"),
        (memory("m1", "A.", "someday"), "created_at"),
        (memory("m1", "A.", "0001-01-01T00:00:00Z"), "created_at"),
    ],
)
def test_what_is_malformed_is_refused(raw: object, hint: str) -> None:
    bad, good = mem0(values(raw, memory("m9", "Ann rows.")), None)
    assert isinstance(bad, Refused) and bad.position == 1
    assert hint in bad.error.message
    assert isinstance(good, Converted) and len(good.turns) == 1


def test_what_could_not_be_read_stays_refused() -> None:
    unread = Refused(1, bad_item("No."))
    assert list(mem0([unread], None)) == [unread]
