"""Exports and data sets in invented files: what becomes a session, and what is refused alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from memforest_core.errors import InvalidInput
from memforest_core.ingest.formats.datasets import MEM0_UNDATED, chatgpt, locomo, longmemeval, mem0, sharegpt
from memforest_core.ingest.formats.file_items import Converted, Item, Refused, Value, Wordless, bad_item
from memforest_core.ingest.formats.format_table import Found
from memforest_core.ingest.formats.talks import Options

Reader = Callable[[Value, Options], Iterable[Item]]


def items(read: Reader, *raw: object, owner: str | None = None) -> list[Item]:
    found: list[Item] = []
    for number, one in enumerate(raw, 1):
        try:
            found += read(Value(number, one), Options(owner))
        except InvalidInput as error:
            found.append(Refused(number, error))
    return found


def sessions(read: Reader, *raw: object, owner: str | None = None) -> list[Converted]:
    found = items(read, *raw, owner=owner)
    assert all(isinstance(one, Converted) for one in found), found
    return [one for one in found if isinstance(one, Converted)]


def memories(*raw: object, owner: str | None = None) -> list[Found]:
    return list(mem0([Value(number, one) for number, one in enumerate(raw, 1)], Options(owner)))


# LoCoMo

NOON = "12:05 pm on 3 March, 2021"
PICTURE: dict[str, Any] = {"img_url": ["https://pictures.example/1"], "blip_caption": "a photo of a hive"}


def sample(**conversation: object) -> dict[str, Any]:
    return {"sample_id": "pair-1", "qa": [], "conversation": {"speaker_a": "Ida", "speaker_b": "Bo", **conversation}}


def turn(speaker: str, text: str, dia_id: str | None = None, **more: object) -> dict[str, object]:
    return {"speaker": speaker, "text": text, **({"dia_id": dia_id} if dia_id else {}), **more}


def test_each_dated_session_is_one_with_the_sample_as_owner() -> None:
    raw = sample(
        session_10=[turn("Bo", "", **PICTURE)],
        session_10_date_time="1:00 am on 1 May, 2021",
        session_2=[turn("Ida", "I keep bees.", "D2:7"), turn("Bo", "Look!", **PICTURE)],
        session_2_date_time=NOON,
        session_3_date_time=NOON,
    )
    shown = {"role": "user", "id": "D2:2", "name": "Bo", "metadata": PICTURE}
    assert items(locomo, raw) == [
        Converted(
            1,
            "pair-1",
            "session_2",
            [
                {"role": "user", "content": "I keep bees.", "id": "D2:7", "name": "Ida"},
                shown | {"content": "Look! [shares a photo of a hive]"},  # type: ignore[list-item]
            ],
            "2021-03-03T12:05:00",
        ),
        Converted(
            1,
            "pair-1",
            "session_10",
            [shown | {"content": "[shares a photo of a hive]", "id": "D10:1"}],  # type: ignore[list-item]
            "2021-05-01T01:00:00",
        ),
    ]


@pytest.mark.parametrize(
    "session, hint",
    [
        ({"session_2": [turn("Ida", "Hi.")]}, "no session_2_date_time"),
        ({"session_2": [turn("Ida", "Hi.")], "session_2_date_time": "yesterday"}, "no time"),
        ({"session_2": [{"text": "Hi."}], "session_2_date_time": NOON}, "no speaker"),
        ({"session_2": ["Hi."], "session_2_date_time": NOON}, "object"),
        ({"session_2": "Hi.", "session_2_date_time": NOON}, "list"),
    ],
)
def test_a_bad_session_is_refused_and_the_others_go_on(session: dict[str, object], hint: str) -> None:
    good, bad = items(locomo, sample(session_1=[turn("Ida", "Hi.")], session_1_date_time=NOON, **session))
    assert isinstance(good, Converted) and good.session_id == "session_1"
    assert isinstance(bad, Refused) and bad.session_id == "session_2"
    assert hint in bad.error.message


# LongMemEval

BREAD = [
    {"role": "user", "content": "I bake rye bread on Mondays.", "has_answer": True},
    {"role": "assistant", "content": "Lovely."},
]


def question(**changes: object) -> dict[str, Any]:
    return {
        "question_id": "q1",
        "haystack_session_ids": ["bread"],
        "haystack_dates": ["2022/02/01 (Tue) 09:30"],
        "haystack_sessions": [[{"role": "user", "content": " "}, *BREAD]],
    } | changes


def test_a_history_is_the_memory_of_its_question() -> None:
    bakes = {"role": "user", "content": "I bake rye bread on Mondays.", "id": "bread:2"}
    said = bakes | {"metadata": {"has_answer": True}}
    answered = {"role": "assistant", "content": "Lovely.", "id": "bread:3"}
    expected = Converted(1, "q1", "bread", [said, answered], "2022-02-01T09:30:00")  # type: ignore[list-item]
    assert items(longmemeval, question()) == [expected]


def test_sessions_have_names_of_their_own() -> None:
    """Given session ids that are missing or given twice, then each session has a name."""
    twice = {"haystack_sessions": [BREAD, BREAD], "haystack_dates": ["2022/02/01", "2022-02-02"]}
    found = sessions(
        longmemeval,
        question(haystack_session_ids=["bread", "bread"], **twice),
        question(question_id="q2", haystack_session_ids=None, **twice),
    )
    assert [one.session_id for one in found] == ["bread", "bread+", "session-1", "session-2"]


@pytest.mark.parametrize(
    ("read", "raw", "other", "names"),
    [
        (
            locomo,
            sample(session_1=[turn("Ida", "Hello.")], session_1_date_time=NOON),
            {"sample_id": "pair-2"},
            ["pair-1/session_1", "pair-2/session_1"],
        ),
        (longmemeval, question(), {"question_id": "q2"}, ["q1/bread", "q2/bread"]),
    ],
)
def test_samples_of_one_owner_have_separate_sessions(
    read: Reader, raw: dict[str, object], other: dict[str, object], names: list[str]
) -> None:
    found = sessions(read, raw, raw | other, owner="club")
    assert [(one.owner, one.session_id) for one in found] == [("club", name) for name in names]


# ShareGPT

TALK = [{"from": "human", "value": "I row."}, {"from": "gpt", "value": "Alone?"}]


def test_a_conversation_is_a_session_named_by_its_id_or_by_what_was_said() -> None:
    said = [{"role": "user", "content": "I row."}, {"role": "assistant", "content": "Alone?"}]
    named, same, moved, other = sessions(
        sharegpt,
        {"id": 3, "conversations": TALK},
        {"conversations": TALK},
        {"conversations": TALK},
        {"conversations": TALK[:1]},
        owner="ann",
    )
    assert named == Converted(1, "ann", "3", said)  # type: ignore[arg-type]
    assert same.session_id == moved.session_id != other.session_id
    assert same.session_id.startswith("sharegpt-")


@pytest.mark.parametrize(
    "name, role", [("Human", "user"), ("chatgpt", "assistant"), ("system", "system"), ("observation", "tool")]
)
def test_speakers_have_roles(name: str, role: str) -> None:
    (found,) = sessions(sharegpt, {"id": "t", "conversations": [{"from": name, "value": "x"}]}, owner="ann")
    assert found.turns == [{"role": role, "content": "x"}]


# ChatGPT


def message(
    role: str, *parts: object, kind: str = "text", at: float | None = None, **more: object
) -> dict[str, object]:
    content = {"content_type": kind, "parts": list(parts)}
    return {"author": {"role": role}, "create_time": at, "content": content, **more}


def chat(*nodes: tuple[str, str | None, object], current: str | None = "last", **more: object) -> dict[str, Any]:
    """A conversation of (node, parent, message); the last one's name is "last"."""
    mapping = {name: {"id": name, "parent": parent, "message": said} for name, parent, said in nodes}
    shown = {"conversation_id": "c1", "title": "Tea", "create_time": 50.5, "current_node": current, "mapping": mapping}
    return shown | more


def test_the_shown_branch_becomes_a_session() -> None:
    """Given an edited question and a regenerated answer, then only what is shown last is in the session."""
    raw = chat(
        ("root", None, None),
        ("old", "root", message("user", "I drink coffee.", at=51)),
        ("new", "root", message("user", "I drink tea.", at=52.25, id="m-new")),
        ("first", "new", message("assistant", "Noted.", at=53)),
        ("last", "new", message("assistant", "Green or black?", at=54)),
    )
    drinks = {"role": "user", "content": "I drink tea.", "id": "m-new", "timestamp": 52.25}
    answer = {"role": "assistant", "content": "Green or black?", "id": "last", "timestamp": 54}
    titled = drinks | {"metadata": {"title": "Tea"}}
    assert items(chatgpt, raw, owner="ann") == [Converted(1, "ann", "c1", [titled, answer], 50.5)]  # type: ignore[list-item]


def test_without_a_current_node_the_only_branch_is_read() -> None:
    nodes = ("a", None, message("user", "I drink tea.")), ("b", "a", message("assistant", "Green or black?"))
    (found,) = sessions(chatgpt, chat(*nodes, current=None), owner="ann")
    assert [turn["content"] for turn in found.turns] == ["I drink tea.", "Green or black?"]
    forked = chat(*nodes, ("c", "a", message("assistant", "Noted.")), current=None)
    (refused,) = items(chatgpt, forked, owner="ann")
    assert isinstance(refused, Refused) and "several branches" in refused.error.message
    older = chat(("last", None, message("user", "Hi.")), id="c9", conversation_id=None)
    assert [one.session_id for one in sessions(chatgpt, older, owner="ann")] == ["c9"]


def test_calls_of_tools_are_read_and_marks_of_citations_left_out() -> None:
    """Given times that do not follow the tree, then it is read in its order."""
    found = {"author": {"role": "tool", "name": "python"}, "create_time": 9,
             "content": {"content_type": "execution_output", "text": "4"}}  # fmt: skip
    raw = chat(
        ("a", None, message("user", "2+2?", at=10)),
        (
            "b",
            "a",
            {**message("assistant", at=8, recipient="python"), "content": {"content_type": "code", "text": "2+2"}},
        ),
        ("c", "b", found),
        (
            "last",
            "c",
            message("assistant", '4 \ue200entity\ue202["co","Foo"]\ue201.\ue200cite\ue202turn0\ue201', at=12),
        ),
    )
    (session,) = sessions(chatgpt, raw, owner="ann")
    assert [(turn["role"], turn.get("name"), turn["content"]) for turn in session.turns] == [
        ("user", None, "2+2?"), ("assistant", None, "[called python(2+2)]"), ("tool", "python", "4"),
        ("assistant", None, "4 Foo."),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "left_out",
    [
        message("system", "Be kind."),
        message("user", " \n"),
        message("user"),
        message("user", "About me.", kind="user_editable_context"),
        message("assistant", "print(1)", kind="code"),
        message("assistant", "Hm.", channel="analysis"),
        message("assistant", "Nothing.", weight=0.0),
        message("user", "Hidden.", metadata={"is_visually_hidden_from_conversation": True}),
        message("user", "Custom.", metadata={"is_user_system_message": True}),
        {"author": {"role": "assistant"}, "content": None},
    ],
)
def test_what_is_not_shown_is_left_out(left_out: object) -> None:
    raw = chat(("a", None, message("user", "Hello.")), ("b", "a", left_out), ("last", "b", message("assistant", "Hi.")))
    (found,) = sessions(chatgpt, raw, owner="ann")
    assert [each.get("content") for each in found.turns] == ["Hello.", "Hi."]


def test_speech_is_text_pictures_are_noted_and_what_is_stored_nowhere_is_taken_out() -> None:
    spoken = {"content_type": "audio_transcription", "text": "Tell\x00 \ud83dme."}
    parts = ({"content_type": "image_asset_pointer"}, "What is it?", spoken)
    raw = chat(("last", None, message("user", *parts, kind="multimodal_text")), title="")
    (found,) = sessions(chatgpt, raw, owner="a")
    assert found.turns == [{"role": "user", "content": "What is it?\nTell me.\n[image]", "id": "last"}]


# mem0


def memory(id_: str, text: str, at: str | None = "2024-03-01T10:00:00+00:00", **more: object) -> dict[str, object]:
    return {"id": id_, "memory": text, "user_id": "ann", "created_at": at, **more}


def made(id_: str, text: str, at: str, **more: object) -> dict[str, object]:
    return {"role": "user", "content": text, "id": id_, "timestamp": at, "metadata": {"mem0_id": id_, **more}}


def test_a_users_memories_of_a_day_are_a_session() -> None:
    """Given memories in any order and zone, then each day in UTC has them in the order in which they were made."""
    more: dict[str, Any] = {"categories": ["hobbies"], "metadata": {"by": "app"}}
    raw = [
        memory("m3", "Ann sails.", "2024-03-02T08:00:00Z", **more),
        memory("m2", "Ann moved to Oslo.", "2024-03-01T12:30:00-07:00"),
        memory("m1", "Ann is vegan.", "2024-03-01T09:00:00"),
        memory("b1", "Bo has a cat.", user_id="bo"),
        memory("b1", "Bo has a cat.", user_id="bo"),
    ]
    expected = [
        ("ann", "mem0-2024-03-01", [
            made("m1", "Ann is vegan.", "2024-03-01T09:00:00+00:00"),
            made("m2", "Ann moved to Oslo.", "2024-03-01T19:30:00+00:00"),
        ]),
        ("ann", "mem0-2024-03-02", [made("m3", "Ann sails.", "2024-03-02T08:00:00+00:00", **more)]),
        ("bo", "mem0-2024-03-01", [made("b1", "Bo has a cat.", "2024-03-01T10:00:00+00:00")]),
    ]  # fmt: skip
    for given in (raw, raw[::-1]):
        found = [(one.owner, one.session_id, one.turns) for one in memories(*given) if isinstance(one, Converted)]
        assert found == expected


def test_an_owner_is_the_user_the_agent_or_the_given_one_and_undated_memories_stay_in_order() -> None:
    raw = (memory("m1", "A."), memory("m2", "B.", user_id=None, agent_id="bot"), memory("m3", "C.", user_id=None))
    assert [one.owner for one in memories(*raw, owner="zoe") if isinstance(one, Converted)] == ["ann", "bot", "zoe"]
    (found,) = memories(memory("m2", "B.", None), memory("m1", "A.", None))
    assert isinstance(found, Converted) and found.session_id == MEM0_UNDATED
    assert [(each.get("id"), each.get("timestamp")) for each in found.turns] == [("m2", None), ("m1", None)]


# All of them


@pytest.mark.parametrize(
    ("read", "raw", "name"),
    [
        (locomo, sample(session_1=[], session_1_date_time=NOON), "session_1"),
        (locomo, sample(session_1=[turn("Bo", " ")]), "session_1"),
        (longmemeval, question(haystack_sessions=[[]]), "bread"),
        (sharegpt, {"id": "t", "conversations": [{"from": "human", "value": ""}]}, "t"),
        (chatgpt, chat(("last", None, message("user", " ", kind="multimodal_text"))), "c1"),
        (chatgpt, chat(current=None), "c1"),
    ],
)
def test_a_session_without_words_is_none(read: Reader, raw: object, name: str) -> None:
    owner = "ann" if read is chatgpt or read is sharegpt else None
    assert items(read, raw, owner=owner) == [Wordless(1, name)]


HI = message("user", "Hi.")
GOOD: list[tuple[Reader, object]] = [
    (locomo, sample(session_1=[turn("Ida", "Hi.")], session_1_date_time=NOON)),
    (longmemeval, question()),
    (sharegpt, {"conversations": TALK}),
    (chatgpt, chat(("last", None, HI))),
]


@pytest.mark.parametrize(
    ("read", "raw", "session", "hint"),
    [
        (locomo, [], None, "object"),
        (locomo, {"sample_id": "x"}, None, "conversation"),
        (locomo, {"sample_id": "x", "conversation": 3}, None, "object"),
        (longmemeval, question(question_id=None), None, "question_id"),
        (longmemeval, question(haystack_sessions=None), None, "haystack_sessions"),
        (longmemeval, question(haystack_dates=[]), None, "1 sessions, 0 dates"),
        (longmemeval, question(haystack_dates=["soon"]), "bread", "no time"),
        (longmemeval, question(haystack_sessions=["text"]), "bread", "list"),
        (longmemeval, question(haystack_sessions=[["text"]]), "bread", "object"),
        (longmemeval, question(haystack_sessions=[[{"role": "narrator", "content": "x"}]]), "bread", "whose words"),
        (longmemeval, question(haystack_sessions=[[{"role": "user", "content": 3}]]), "bread", "text"),
        (sharegpt, [], None, "object"),
        (sharegpt, {"id": "t"}, None, "conversations"),
        (sharegpt, {"conversations": ["x"]}, None, "Turn 1"),
        (sharegpt, {"conversations": [{"from": "narrator", "value": "x"}]}, None, "whose words"),
        (sharegpt, {"conversations": [{"value": "x"}]}, None, "whose words"),
        (sharegpt, {"conversations": [{"from": "human", "value": 3}]}, None, "no text"),
        (chatgpt, "text", None, "object"),
        (chatgpt, chat(("last", None, HI), conversation_id=None), None, "no id"),
        (chatgpt, chat(mapping=None), None, "mapping"),
        (chatgpt, chat(("last", None, HI), current="gone"), None, "current_node"),
        (chatgpt, chat(("a", "last", HI), ("last", "a", HI)), None, "circle"),
        (chatgpt, chat(("last", None, {"content": {}})), None, "author"),
        (chatgpt, chat(("last", None, message("user", "Hi.", metadata=3))), None, "metadata"),
        (chatgpt, chat(("last", None, HI | {"content": {"content_type": "text", "parts": "Hi."}})), None, "parts"),
    ],
)
def test_what_is_malformed_is_refused_alone(read: Reader, raw: object, session: str | None, hint: str) -> None:
    bad, good = items(read, raw, next(each for one, each in GOOD if one is read), owner="ann")
    name = session and f"q1/{session}"
    assert isinstance(bad, Refused) and (bad.position, bad.session_id) == (1, name)
    assert hint in bad.error.message
    assert isinstance(good, Converted)
    if read is locomo:
        [unnamed] = items(read, {"conversation": {}})
        assert isinstance(unnamed, Refused) and "sample_id" in unnamed.error.message


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
def test_a_malformed_memory_is_refused_alone(raw: object, hint: str) -> None:
    unread = Refused(7, bad_item("No."))
    unchanged, bad, good = mem0([unread, Value(1, raw), Value(2, memory("m9", "Ann rows."))], Options())
    assert unchanged is unread
    assert isinstance(bad, Refused) and bad.position == 1 and hint in bad.error.message
    assert isinstance(good, Converted) and len(good.turns) == 1
