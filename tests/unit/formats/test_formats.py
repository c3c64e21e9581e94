"""Telling a format by a file's beginning, and reading a file of it."""

from __future__ import annotations

import json

import pytest

from memforest_core.domain.turns import SessionFrame, TurnLimits, checked_messages, parse_turns
from memforest_core.errors import InvalidInput
from memforest_core.ingest.formats.file_items import Converted
from memforest_core.ingest.formats.formats import formats_of, recognized
from tests.harness.builders import NOON
from tests.harness.exports import file_of, read_file

CHAT = {
    "title": "Tea",
    "create_time": 1.7e9,
    "mapping": {
        "m": {
            "parent": None,
            "message": {"author": {"role": "user"}, "content": {"content_type": "text", "parts": ["I drink tea."]}},
        }
    },
    "current_node": "m",
    "id": "c1",
}
SAMPLE = {
    "qa": [{"question": "Who?", "memory": "no", "evidence": ["D1:1"]}],
    "conversation": {
        "session_1": [{"speaker": "Ida", "dia_id": "D1:1", "text": "Hi."}],
        "session_1_date_time": "1:56 pm on 8 May, 2023",
    },
    "sample_id": "s1",
}
QUESTION = {
    "question_id": "q1",
    "haystack_dates": ["2022/02/01 (Tue) 09:30"],
    "haystack_session_ids": ["bread"],
    "haystack_sessions": [[{"role": "user", "content": "I bake."}]],
}
TALK = {"id": "t1", "conversations": [{"from": "human", "value": "I row."}]}
MEMORY = {"id": "m1", "memory": "Ann rows.", "user_id": "ann", "created_at": "2024-03-01T10:00:00Z"}
FILES = [
    ("openai", [CHAT]),
    ("openai", CHAT),
    ("locomo", [SAMPLE]),
    ("locomo", SAMPLE),
    ("longmemeval", [QUESTION]),
    ("sharegpt", [TALK]),
    ("sharegpt", TALK),
    ("mem0", [MEMORY]),
    ("mem0", MEMORY),
    ("mem0", {"count": 1, "next": None, "results": [MEMORY]}),
    ("mem0", {"results": [], "relations": []}),
]


@pytest.mark.parametrize("format_, content", FILES)
@pytest.mark.parametrize("indent", [None, 2])
def test_a_format_is_recognized_and_its_file_is_read(format_: str, content: object, indent: int | None) -> None:
    """Given a file of each format, however it is written, when it is recognized, then its items would be accepted."""
    raw = json.dumps(content, indent=indent).encode("utf-8-sig")
    assert recognized(file_of(raw)).name == format_
    for item in read_file(raw, format_):
        assert isinstance(item, Converted)
        assert parse_turns(checked_messages(item.turns), SessionFrame(item.owner, NOON.tzinfo, NOON), TurnLimits())  # type: ignore[arg-type]


def test_a_long_beginning_is_cut_anywhere() -> None:
    raw = json.dumps([SAMPLE | {"qa": [{"question": 'Is "}" a bracket?'}] * 100}]).encode()
    assert all(formats_of(raw[:end])[0].name == "locomo" for end in range(7, 400))


@pytest.mark.parametrize(
    "raw", [b"", b"[]", b"{}", b'{"a": {"memory": 1}}', b"title, mapping", b'"memory": 1', b"\xff\xfe"]
)
def test_an_unknown_format_is_refused(raw: bytes) -> None:
    with pytest.raises(InvalidInput, match=r"of no (known )?format") as refused:
        recognized(file_of(raw))
    assert refused.value.code == "unknown_format"


def test_a_long_text_becomes_several_turns_that_are_accepted() -> None:
    """Given a text of 700 kB in a chat, then it becomes parts with ids, and none of its words is lost."""
    words = " ".join(f"näkki{number}" for number in range(60_000))
    (item,) = read_file(
        json.dumps([{"id": "t", "conversations": [{"from": "human", "value": words}]}]).encode(), "sharegpt"
    )
    assert isinstance(item, Converted)
    turns = parse_turns(checked_messages(item.turns), SessionFrame("zoe", NOON.tzinfo, NOON), TurnLimits())  # type: ignore[arg-type]
    assert len(turns) > 1
    assert " ".join(turn.content for turn in turns) == words

    unbroken = dict(MEMORY, memory="漢" * 200_000)
    (item,) = read_file(json.dumps(unbroken, ensure_ascii=False).encode(), "mem0")
    assert isinstance(item, Converted)
    turns = parse_turns(checked_messages(item.turns), SessionFrame("ann", NOON.tzinfo, NOON), TurnLimits())  # type: ignore[arg-type]
    assert [turn.id for turn in turns][:2] == ["m1", "m1#2"]
    assert "".join(turn.content for turn in turns) == "漢" * 200_000
