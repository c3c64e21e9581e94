"""A chatbot's own history, as JSON and as a SQLite file, in usual names, mapped ones and LangChain's forms."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from memforest_core.errors import InvalidInput
from memforest_core.ingest.formats.export_files import File
from memforest_core.ingest.formats.file_items import Converted, Item, Refused, Wordless
from memforest_core.ingest.formats.formats import FORMATS, Chosen, checked, chosen, formats_of, sessions
from memforest_core.ingest.formats.history import parse_map
from memforest_core.ingest.formats.talks import Findings, Options
from tests.harness.exports import file_of, read_file

ANN = {"role": "user", "content": "I row.", "created_at": "2024-05-06T07:00:00Z", "id": 1}
BOT = {"role": "bot", "content": "Where?", "created_at": "1714978801", "id": 2}
TOOL = {"role": "tool", "metadata": {"tool_call_id": "c1"}}
TURNS = [
    {"role": "user", "content": "I row.", "id": "1", "timestamp": "2024-05-06T07:00:00+00:00"},
    {"role": "assistant", "content": "Where?", "id": "2", "timestamp": "2024-05-06T07:00:01+00:00"},
]


def read(content: object, *mapped: str, owner: str | None = "ann", session: str | None = None) -> list[Item]:
    raw = json.dumps(content).encode()
    assert formats_of(raw)[0].name in ("history", "langchain")
    return read_file(raw, None, *mapped, owner=owner, session=session)


def check(content: object, *mapped: str, **given: Any) -> tuple[int, list[str]]:
    """The sessions that a file would make, and the warnings."""
    options = Options("ann", None, None, *parse_map(mapped), **given)
    seen = checked(chosen([file_of(json.dumps(content).encode(), "chat.json")], None), options)
    return seen.findings.sessions, list(seen.warnings)


def one(items: Iterable[Item]) -> Converted:
    [item] = items
    assert isinstance(item, Converted), item
    return item


@pytest.mark.parametrize(
    "content",
    [
        {"session_id": "s1", "messages": [ANN, BOT]},
        [{"id": "s1", "messages": [ANN, BOT]}],
        [ANN | {"session_id": "s1"}, BOT | {"session_id": "s1"}],
        {"sessions": [{"id": "s1"}], "messages": [ANN | {"session_id": "s1"}, BOT | {"session_id": "s1"}]},
        {"sessions": [{"id": "s1", "messages": [ANN, BOT]}]},
    ],
)
def test_each_shape_is_recognized_and_read(content: object) -> None:
    found = one(read(content))
    assert (found.owner, found.session_id, found.started_at) == ("ann", "s1", None)
    assert list(found.turns) == TURNS


def test_langchain_messages_stand_in_conversations_in_rows_and_alone() -> None:
    human, ai = ({"type": kind, "data": {"content": f"I am {kind}."}} for kind in ("human", "ai"))
    said = [("user", "I am human."), ("assistant", "I am ai.")]
    for content, session, name in (
        ([human, ai], "alone", "alone"),
        ({"thread_id": "s1", "messages": [human, ai]}, None, "s1"),
        ([{"session_id": "s1", "message": human}, {"session_id": "s1", "message": json.dumps(ai)}], None, "s1"),
    ):
        found = one(read(content, session=session))
        assert [(turn["role"], turn["content"]) for turn in found.turns] == said
        assert found.session_id == name


def test_bare_messages_need_a_session() -> None:
    with pytest.raises(InvalidInput, match="--session") as refused:
        read([ANN, BOT])
    assert refused.value.code == "missing_session"
    assert one(read([ANN, BOT], session="mine")).session_id == "mine"


def test_sessions_say_whose_they_are_when_they_began_and_what_about() -> None:
    info = {"id": 7, "user_id": "zoe", "started_at": "2024-05-06", "title": "Boats", "messages": [ANN]}
    found = one(read([info], owner=None))
    assert (found.owner, found.session_id, found.started_at) == ("zoe", "7", "2024-05-06T00:00:00")
    assert found.turns[0]["metadata"] == {"title": "Boats"}
    assert one(read([info], owner="club")).owner == "club"
    with pytest.raises(InvalidInput, match="--owner"):
        read([{"id": 7, "messages": [ANN]}], owner=None)


def test_the_newest_first_is_turned_also_when_a_time_is_missing() -> None:
    said = [
        {"sender": "Ida", "text": f"{at}", "date": f"2025-03-01T10:0{at}:00Z" if at != 2 else "soon"}
        for at in (3, 2, 1)
    ]
    assert [turn["content"] for turn in one(read({"messages": said}, session="s")).turns] == ["1", "2", "3"]


def test_speakers_of_a_group_have_ids_and_names_and_the_bot_is_not_its_user() -> None:
    rows = [
        {"session_id": "g", "user_id": "111", "username": "gruz", "content": "I cook."},
        {"session_id": "g", "user_id": "111", "role": "assistant", "content": "Yum."},
        {"session_id": "g", "speaker_id": "b1", "role": "assistant", "content": [{"type": "text", "text": "More?"}]},
    ]
    turns = one(read(rows)).turns
    assert [(turn["role"], turn.get("speaker_id"), turn.get("name"), turn["content"]) for turn in turns] == [
        ("user", "111", "gruz", "I cook."),
        ("assistant", None, None, "Yum."),
        ("assistant", "b1", None, "More?"),
    ]


def test_names_and_roles_are_mapped() -> None:
    rows = [
        {"room": "s1", "who": "captain", "body": "I row.", "content": "x", "key": "k1"},
        {"room": "s1", "who": "ship", "body": "Splash.", "content": "x", "key": "k2"},
    ]
    mapped = ("content=body", "session=room", "role=who", "id=KEY", "role:captain=user", "role:ship=tool")
    found = one(read(rows, *mapped))
    assert [(turn["id"], turn["role"], turn["content"]) for turn in found.turns] == [
        ("k1", "user", "I row."),
        ("k2", "tool", "Splash."),
    ]
    with pytest.raises(InvalidInput, match=r"1 of 2 messages have no sender .* 'role:ship=user'"):
        check(rows, *mapped[:-1])


@pytest.mark.parametrize("role", [0, "", None])
def test_a_message_without_a_known_role_is_nobodys(role: object) -> None:
    rows = [{"session_id": "s1", "role": role, "content": "I row."}]
    with pytest.raises(InvalidInput, match="1 of 1 messages have no sender"):
        check(rows)
    assert check(rows, skip_unread=True)[0] == 0
    named = "" if role is None else role
    assert one(read(rows, f"role:{named}=assistant")).turns == [{"role": "assistant", "content": "I row."}]


@pytest.mark.parametrize("given", ["content", "content=", "colour=red", "role:x=captain"])
def test_a_mapping_that_says_nothing_is_refused(given: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_map([given])
    assert refused.value.code == "invalid_map"


def test_wordless_sessions_are_counted_and_unread_bodies_refuse_the_file() -> None:
    empty = {"id": "empty", "messages": [{"role": "user", "content": " "}]}
    found = read([empty, {"messages": [ANN]}, {"id": "good", "messages": [ANN]}], session="unnamed")
    assert [type(item) for item in found] == [Wordless, Converted, Converted]
    with pytest.raises(InvalidInput, match=r"1 of 2 messages have no body .*try --map content=content"):
        check([{"id": "bad", "messages": [{"role": "user", "content": 7}]}, {"id": "good", "messages": [ANN]}])


def database(path: Path, script: str) -> Path:
    connection = sqlite3.connect(path)
    connection.executescript(script)
    connection.commit()
    connection.close()
    return path


def tables(path: Path, *mapped: str, owner: str | None = "ann") -> list[Item]:
    head = path.read_bytes()[:100]
    assert [each.name for each in formats_of(head)] == ["sqlite"]
    file = File(path.name, 0, lambda: path.open("rb"), path)
    return list(sessions(Chosen(FORMATS["sqlite"], [file]), Options(owner, None, None, *parse_map(mapped)), Findings()))


def test_tables_of_sessions_and_messages_are_read_in_the_order_of_insertion(tmp_path: Path) -> None:
    path = database(
        tmp_path / "chat 100%?.db",
        """
        CREATE TABLE sessions (id TEXT PRIMARY KEY, user_id TEXT, created_at TEXT, title TEXT);
        CREATE TABLE messages (
          id TEXT PRIMARY KEY, session_id TEXT, role TEXT, content TEXT, created_at REAL, face BLOB);
        INSERT INTO sessions VALUES ('s2', 'zoe', '2024-05-06', 'Boats');
        INSERT INTO messages VALUES
          ('z', 's2', 'user', 'I row.', 1714978800, x'00'), ('b', 's1', 'user', 'Tea.', NULL, NULL),
          ('a', 's2', 'assistant', 'Where?', 1714978801.5, NULL), ('c', NULL, 'user', 'Lost.', NULL, NULL);
        """,
    )
    lost, first, second = tables(path)
    assert isinstance(lost, Refused)
    assert isinstance(first, Converted) and isinstance(second, Converted)
    assert (second.owner, second.session_id, second.started_at) == ("ann", "s2", "2024-05-06T00:00:00")
    assert [(turn["id"], turn["content"], turn["timestamp"]) for turn in second.turns] == [
        ("z", "I row.", "2024-05-06T07:00:00+00:00"),
        ("a", "Where?", "2024-05-06T07:00:01.500000+00:00"),
    ]
    assert [item.session_id for item in tables(path) if isinstance(item, Converted)] == ["s1", "s2"]


def test_tables_and_columns_are_mapped(tmp_path: Path) -> None:
    path = database(
        tmp_path / "odd.db",
        """
        CREATE TABLE "chat ""log"" of us" (room INTEGER, body TEXT, pos INTEGER, PRIMARY KEY (room, pos)) WITHOUT ROWID;
        INSERT INTO "chat ""log"" of us" VALUES (1, 'second', 2), (1, 'first', 1);
        """,
    )
    found = one(tables(path, 'messages=chat "log" of us', "session=room", "content=body", "role:=user"))
    assert (found.session_id, [turn["content"] for turn in found.turns]) == ("1", ["first", "second"])


@pytest.mark.parametrize(
    "script, mapped, said",
    [
        ("CREATE TABLE notes (id)", (), "messages=TABLE"),
        ("CREATE TABLE notes (id)", ("messages=gone",), "'gone'"),
        ("CREATE TABLE messages (id, content)", (), "session=COLUMN"),
        ("CREATE TABLE messages (id, session_id)", (), "content=COLUMN"),
        ("CREATE TABLE messages (session_id, content)", ("time=when",), "'when'"),
        ("CREATE TABLE notes (session_id, content); CREATE VIEW messages AS SELECT * FROM notes", (), "messages=TABLE"),
    ],
)
def test_what_is_not_there_is_named(tmp_path: Path, script: str, mapped: tuple[str, ...], said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        tables(database(tmp_path / "a.db", script), *mapped)
    assert said in refused.value.message


def test_a_broken_file_and_a_pipe_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "broken.db"
    path.write_bytes(b"SQLite format 3\x00" + b"x" * 200)
    with pytest.raises(InvalidInput) as refused:
        tables(path)
    assert refused.value.code == "unreadable_file"
    with pytest.raises(InvalidInput, match="pipe"):
        read_file(b"", "sqlite")


def test_reading_writes_nothing_and_sees_what_a_running_program_wrote(tmp_path: Path) -> None:
    """Given a program that has the file open and its last messages in the write-ahead log, then they are read."""
    path = database(tmp_path / "live.db", "PRAGMA journal_mode=WAL; CREATE TABLE messages (session_id, content)")
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("INSERT INTO messages VALUES ('s1', 'I row.')")
    before = path.read_bytes()
    assert [turn["content"] for turn in one(tables(path, "role:=user")).turns] == ["I row."]
    assert path.read_bytes() == before
    writer.close()


def data(kind: str, content: object, **more: object) -> dict[str, object]:
    return {"type": kind, "data": {"content": content, "additional_kwargs": {}, "type": kind, **more}}


def constructor(kind: str, content: object, **more: object) -> dict[str, object]:
    path = ["langchain", "schema", "messages", kind]
    return {"lc": 1, "type": "constructor", "id": path, "kwargs": {"content": content, **more}}


@pytest.mark.parametrize(
    "raw, role",
    [
        (data("human", "Hi."), "user"),
        (data("ai", "Hi."), "assistant"),
        (data("tool", "Hi.", tool_call_id="c1"), "tool"),
        (data("system", "Hi."), "system"),
        (data("function", "Hi."), "tool"),
        (data("chat", "Hi.", role="user"), "user"),
        (data("AIMessageChunk", "Hi."), "assistant"),
        (constructor("HumanMessage", "Hi."), "user"),
        (constructor("AIMessageChunk", "Hi."), "assistant"),
        (constructor("ToolMessage", "Hi."), "tool"),
        (constructor("ChatMessage", "Hi.", role="assistant"), "assistant"),
        ({"type": "human", "content": "Hi.", "id": None, "example": False}, "user"),
        ({"type": "ai", "content": [{"type": "text", "text": "Hi."}], "tool_calls": []}, "assistant"),
    ],
)
def test_each_form_is_recognized_and_becomes_a_turn(raw: dict[str, object], role: str) -> None:
    assert one(read([raw], session="s")).turns == [
        TOOL | {"content": "Hi."} if role == "tool" and "c1" in str(raw) else {"role": role, "content": "Hi."}
    ]


def test_ids_names_times_calls_and_tools_are_taken_over() -> None:
    timed = {"additional_kwargs": {"timestamp": "2024-05-06T07:00:00Z"}}
    older = {"function_call": {"name": "look", "arguments": "{}"}}
    said = [
        data("human", "Hi.", id="m1", name="Ann", **timed),
        data("ai", "", tool_calls=[{"name": "look", "args": {"at": "boats"}, "id": "c1"}]),
        data("tool", "3 boats", tool_call_id="c1"),
        data("ai", "", additional_kwargs=older),
    ]
    assert one(read(said, session="s")).turns == [
        {"role": "user", "content": "Hi.", "id": "m1", "name": "Ann", "timestamp": "2024-05-06T07:00:00+00:00"},
        {"role": "assistant", "content": '[called look({"at": "boats"})]'},
        TOOL | {"content": "3 boats"},
        {"role": "assistant", "content": "[called look({})]"},
    ]


@pytest.mark.parametrize(
    ("raw", "missing"),
    [
        (data("alien", "Hi."), "sender"),
        (data("chat", "Hi."), "sender"),
        (data("human", {"a": "Hi."}), "body"),
        (constructor("HumanMessage", 7), "body"),
    ],
)
def test_what_is_no_message_is_refused(raw: dict[str, object], missing: str) -> None:
    with pytest.raises(InvalidInput, match=f"1 of 1 messages have no {missing}"):
        check([raw])
