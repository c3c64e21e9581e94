"""A chatbot's own history as JSON or SQLite: conversations with their messages, or rows of messages that name theirs.

Messages have a role and a content under usual names or those of ``--map`` (``Columns``), or one of LangChain's forms.
A file is a list, one object a line, one conversation (``{"messages": [...]}``), two tables
(``{"sessions": [...], "messages": [...]}``), or the bare messages of one conversation, which ``--session`` names.

LangChain: https://python.langchain.com/api_reference/core/messages.html (``messages_to_dict`` makes objects of ``type``
and ``data``, ``model_dump`` flat ones with ``type``) and https://python.langchain.com/docs/how_to/serialization/
(``dumpd`` makes objects of ``lc``, ``type``, ``id`` and ``kwargs``, the last part of ``id`` being the class). Types are
human, ai, system, tool, function and chat (which has a ``role``); a class of streamed parts ends with Chunk. Messages
have no time; many programs put one into ``additional_kwargs``.

A SQLite file has a table of messages, and one of sessions if there is one. It is opened for reading only, and only
plain tables are read: no view, no virtual table, no function of its schema runs. LangChain's ``message_store``
(session_id, message) is one of these.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from urllib.parse import quote

from memforest_core.domain.chat_messages import TurnInput, turn_fields
from memforest_core.errors import InvalidInput
from memforest_core.ingest.formats.file_items import (
    Item,
    Refused,
    Value,
    bad_item,
    list_of,
    mapping_of,
    name_of,
    session_of,
    turns_of,
)

LANGCHAIN_ROLES = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool", "function": "tool"}
_OTHERS = {"user": "user", "assistant": "assistant", "developer": "system"}
_REMOVED = "remove"
"""A mark that a message was taken out: it says nothing."""
_TIMES = ("timestamp", "created_at", "time")


def is_message(value: object) -> bool:
    """Whether an object is a message in one of LangChain's own forms: with ``data``, ``kwargs``, or ``type``."""
    if not isinstance(value, Mapping):
        return False
    if isinstance(value.get("data"), Mapping) and isinstance(value.get("type"), str):
        return True
    if "lc" in value and isinstance(value.get("kwargs"), Mapping):
        return True
    return (
        "role" not in value and "content" in value and _kind(value.get("type")) in {*LANGCHAIN_ROLES, "chat", _REMOVED}
    )


def message_turns(raw: Mapping[str, object], where: str) -> list[TurnInput]:
    """The turns of a message: none for one without words, several for a very long one. Raises InvalidInput."""
    kind, fields = _opened(raw, where)
    if kind == _REMOVED:
        return []
    named = fields.get("role") if kind == "chat" else kind
    role = (LANGCHAIN_ROLES | _OTHERS).get(str(named).strip().lower())
    if role is None:
        raise bad_item(f"{where}: {str(named)!r:.40} is none of {', '.join([*LANGCHAIN_ROLES, 'chat'])}.")
    more = mapping_of(fields.get("additional_kwargs") or {}, f"{where}: additional_kwargs")
    read = {name: fields.get(name) for name in ("content", "tool_call_id", "tool_calls") if fields.get(name)}
    for name in ("tool_calls", "function_call"):
        if name not in read and more.get(name):
            read[name] = more[name]
    turn = turn_fields({"role": role, **read}, where)
    content = turn.get("content") or ""
    if not isinstance(content, str):
        raise bad_item(f"{where}: the content must be text or a list of parts.")
    metadata = turn.get("metadata")
    return turns_of(
        role,
        content,
        id=name_of(fields.get("id")),
        name=name_of(fields.get("name")),
        metadata=metadata if isinstance(metadata, Mapping) else None,
        timestamp=_time_of(fields, more),
    )


def _opened(raw: Mapping[str, object], where: str) -> tuple[str, Mapping[str, object]]:
    """A message's type, and its fields."""
    if "lc" in raw and "kwargs" in raw:
        fields = mapping_of(raw["kwargs"], f"{where}: kwargs")
        path = raw.get("id")
        named = path[-1] if isinstance(path, list) and path else fields.get("type")
        return _kind(named), fields
    if isinstance(raw.get("data"), Mapping):
        return _kind(raw.get("type")), mapping_of(raw["data"], f"{where}: data")
    return _kind(raw.get("type")), raw


def _kind(named: object) -> str:
    """A type by its name or its class: AIMessageChunk is ai."""
    return str(named).strip().removesuffix("Chunk").removesuffix("Message").lower()


def _time_of(fields: Mapping[str, object], more: Mapping[str, object]) -> object | None:
    found = (place[name] for place in (fields, more) for name in _TIMES if place.get(name))
    return next((value for value in found if isinstance(value, str | int | float)), None)


MESSAGE: Mapping[str, tuple[str, ...]] = {
    "id": ("id", "message_id", "uuid"),
    "session": ("session_id", "session", "conversation_id", "chat_id", "thread_id", "channel_id"),
    "role": ("role", "sender_role", "sender", "type"),
    "content": ("content", "text", "message", "body"),
    "time": ("timestamp", "created_at", "sent_at", "time", "date"),
    "speaker_id": ("speaker_id", "author_id", "sender_id", "user_id"),
    "name": ("name", "speaker", "author", "display_name", "username"),
}
"""What a message has, and the names it is looked for under, in this order."""
SESSION: Mapping[str, tuple[str, ...]] = {
    "session.id": ("id", "session_id", "conversation_id", "chat_id", "thread_id", "channel_id"),
    "session.owner": ("owner", "user_id"),
    "session.started": ("started_at", "created_at", "start_time", "timestamp"),
    "session.title": ("title", "topic"),
}
TABLES: Mapping[str, tuple[str, ...]] = {
    "messages": ("messages", "message", "chat_messages", "message_store", "chat_history", "history", "turns"),
    "sessions": ("sessions", "session", "conversations", "conversation", "chats", "threads"),
}
ROLES = {
    **dict.fromkeys(("user", "human", "customer", "member", "client"), "user"),
    **dict.fromkeys(("assistant", "ai", "bot", "chatbot", "agent", "model", "gpt"), "assistant"),
    **dict.fromkeys(("system", "developer"), "system"),
    **dict.fromkeys(("tool", "function"), "tool"),
}
_ROLE = "role:"


@dataclass(frozen=True, slots=True)
class Columns:
    """Names as the caller gave them; what is not given is looked for under the usual ones."""

    names: Mapping[str, str] = field(default_factory=dict)
    roles: Mapping[str, str] = field(default_factory=dict)
    """What a value of the role column means, in addition to the usual ones."""

    def find(self, what: str, given: Iterable[str]) -> str | None:
        """The name of ``what`` among ``given``; None without one. Raises InvalidInput for a missing one that the caller
        named."""
        there = {name.lower(): name for name in given}
        wanted = self.names.get(what)
        if wanted is not None:
            if wanted.lower() not in there:
                raise bad_item(f"There is no {wanted!r:.80}, which --map names for {what}.")
            return there[wanted.lower()]
        usual = {**MESSAGE, **SESSION, **TABLES}[what]
        return next((there[name] for name in usual if name in there), None)

    def value(self, what: str, row: Mapping[str, object]) -> object | None:
        """The value of ``what`` in a row."""
        name = self.find(what, row) if what not in self.names or self._has(what, row) else None
        return None if name is None else row[name]

    def turns(self, row: Mapping[str, object], where: str) -> list[TurnInput]:
        """The turns of a message: none for one without words, several for a very long one. Raises InvalidInput."""
        role = self._role(self.value("role", row), where)
        content = self.value("content", row)
        if isinstance(content, list):
            content = turn_fields({"role": role, "content": content}, where).get("content")
        if content is not None and not isinstance(content, str):
            raise bad_item(f"{where}: the content must be text or a list of parts.")
        speaker = name_of(self.value("speaker_id", row))
        if role != "user" and "speaker_id" not in self.names and not row.get("speaker_id"):
            speaker = None  # in most histories user_id says whose conversation it is, the assistant's messages too
        made = turns_of(
            role,
            content or "",
            id=name_of(self.value("id", row)),
            name=name_of(self.value("name", row)),
            timestamp=_time(self.value("time", row)),
        )
        return made if speaker is None else [{**turn, "speaker_id": speaker} for turn in made]

    def _has(self, what: str, row: Mapping[str, object]) -> bool:
        wanted = self.names[what].lower()
        return any(name.lower() == wanted for name in row)

    def _role(self, value: object, where: str) -> str:
        if value is None:
            return "user"
        given = str(value).strip()
        role = self.roles.get(given.lower()) or ROLES.get(given.lower())
        if role is None:
            raise bad_item(f"{where}: nothing says what role {given!r:.40} is: give --map 'role:{given[:40]}=user'.")
        return role


def parse_columns(given: Iterable[str]) -> Columns:
    """Columns from WHAT=NAME and role:VALUE=ROLE. Raises InvalidInput."""
    names: dict[str, str] = {}
    roles: dict[str, str] = {}
    for entry in given:
        what, separator, name = (part.strip() for part in entry.partition("="))
        if not separator or not name:
            raise InvalidInput(f"Give --map as WHAT=NAME, not {entry!r:.80}.", code="invalid_map")
        if what.startswith(_ROLE):
            if name not in ROLES.values():
                raise InvalidInput("Map a role to user, assistant, system or tool.", code="invalid_map")
            roles[what.removeprefix(_ROLE).strip().lower()] = name
        elif what in MESSAGE or what in SESSION or what in TABLES:
            names[what] = name
        else:
            known = ", ".join([*MESSAGE, *SESSION, *TABLES, "role:VALUE"])
            raise InvalidInput(f"--map knows no {what!r:.40}: it maps {known}.", code="invalid_map")
    return Columns(names, roles)


def _time(value: object) -> object | None:
    """A time as ``enqueue`` takes it; digits in a text are unix time."""
    if isinstance(value, str):
        text = value.strip()
        return float(text) if text.replace(".", "", 1).isdigit() else text or None
    return value


@dataclass(slots=True)
class Talk:
    """One session: what is known of it, and its messages in order."""

    position: int
    session_id: str
    info: Mapping[str, object] = field(default_factory=dict)
    messages: list[object] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class History:
    """How a history is read: under which names, whose it is, and how a conversation without an id is called."""

    columns: Columns
    owner: str | None
    session: str | None = None

    def convert(self, values: Iterable[Value | Refused]) -> Iterator[Item]:
        """A session for each conversation. Rows of messages are held until the end: they come in any order.

        Raises InvalidInput for bare messages whose session nobody names.
        """
        rows: dict[str, Talk] = {}
        for value in values:
            if isinstance(value, Refused):
                yield value
                continue
            try:
                talks = list(self._talks(value, rows))
            except InvalidInput as error:
                if error.code == "missing_session":
                    raise
                yield Refused(value.position, error)
                continue
            yield from map(self.converted, talks)
        yield from map(self.converted, rows.values())

    def _talks(self, value: Value, rows: dict[str, Talk]) -> Iterator[Talk]:
        """The conversations of an item; a message goes to its session in ``rows``."""
        item = mapping_of(value.content, "An item")
        if isinstance(item.get("sessions"), list):
            yield from self._tables(value, item)
        elif isinstance(item.get("messages"), list):
            yield self._conversation(value.position, item)
        else:
            name = self._session_of(item)
            rows.setdefault(name, Talk(value.position, name)).messages.append(item)

    def _tables(self, value: Value, item: Mapping[str, object]) -> Iterator[Talk]:
        talks: dict[str, Talk] = {}
        for info in list_of(item["sessions"], "sessions"):
            session = mapping_of(info, "A session")
            talk = self._conversation(value.position, session)
            talks[talk.session_id] = talk
        for raw in list_of(item.get("messages") or [], "messages"):
            message = mapping_of(raw, "A message")
            name = self._session_of(message)
            talks.setdefault(name, Talk(value.position, name)).messages.append(message)
        yield from talks.values()

    def _conversation(self, position: int, info: Mapping[str, object]) -> Talk:
        name = name_of(self.columns.value("session.id", info)) or self.session
        if name is None:
            raise bad_item("The conversation has no id: say which field is it with --map session.id=NAME.")
        rest = {key: value for key, value in info.items() if key != "messages"}
        return Talk(position, name, rest, list_of(info.get("messages") or [], "messages"))

    def _session_of(self, message: Mapping[str, object]) -> str:
        name = name_of(self.columns.value("session", message)) or self.session
        if name is None:
            raise InvalidInput(
                "Give --session: these are messages that do not say which conversation they are of.",
                code="missing_session",
            )
        return name

    def converted(self, talk: Talk) -> Item:
        """A talk as a session; one that can't be converted is refused as a whole."""
        try:
            turns = self._turns(talk.messages)
            title = self.columns.value("session.title", talk.info)
            if turns and isinstance(title, str) and title:
                turns[0] = {**turns[0], "metadata": {**turns[0].get("metadata", {}), "title": title}}
            owner = self.owner or name_of(self.columns.value("session.owner", talk.info))
            started = self.columns.value("session.started", talk.info)
            return session_of(talk.position, owner, talk.session_id, turns, started or None)
        except InvalidInput as error:
            return Refused(talk.position, error, talk.session_id)

    def _turns(self, messages: Sequence[object]) -> list[TurnInput]:
        turns: list[TurnInput] = []
        for number, raw in enumerate(messages, start=1):
            where = f"Message {number}"
            message = mapping_of(raw, where)
            inner = self._inner(message)
            turns += self.columns.turns(message, where) if inner is None else message_turns(inner, where)
        return turns

    def _inner(self, message: Mapping[str, object]) -> Mapping[str, object] | None:
        """The message in LangChain's form: itself, or the content of a row of its own tables."""
        if is_message(message):
            return message
        inner = self.columns.value("content", message)
        if isinstance(inner, str) and inner.lstrip().startswith("{") and self.columns.value("role", message) is None:
            try:
                inner = json.loads(inner)
            except (ValueError, RecursionError):
                return None
        return inner if isinstance(inner, Mapping) and is_message(inner) else None


MAGIC = b"SQLite format 3\x00"
MAX_VALUE_BYTES = 2**26
"""A longer value is refused by SQLite."""


def from_sqlite(file: Path, history: History) -> Iterator[Item]:
    """A session for each that messages are of; its messages in the order in which they were inserted.

    Raises InvalidInput for a file that SQLite can't read or whose tables and columns are not found.
    """
    try:
        with closing(_connection(file)) as connection:
            messages, sessions = (_table(connection, history, which) for which in TABLES)
            if messages is None:
                names = ", ".join(sorted(_tables(connection)))
                raise _unreadable(f"no table of messages is among {names or 'none'}: give --map messages=TABLE")
            infos = {} if sessions is None else _infos(connection, history, sessions)
            yield from _sessions(connection, history, messages, infos)
    except sqlite3.Error as error:
        raise _unreadable(str(error)) from None


def _connection(file: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(f"file:{quote(str(file.absolute()))}?mode=ro", uri=True)
    connection.row_factory = sqlite3.Row
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)
    # What a hostile schema could call is not called.
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA query_only = ON")
    return connection


def _tables(connection: sqlite3.Connection) -> list[str]:
    """Plain tables."""
    found = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'")
    return [
        row["name"]
        for row in found
        if not row["name"].startswith("sqlite_") and not (row["sql"] or "").upper().startswith("CREATE VIRTUAL")
    ]


def _table(connection: sqlite3.Connection, history: History, which: str) -> str | None:
    return history.columns.find(which, _tables(connection))


def _columns(connection: sqlite3.Connection, table: str) -> list[str]:
    return [row["name"] for row in connection.execute(f"PRAGMA table_info({_quoted(table)})")]


def _infos(connection: sqlite3.Connection, history: History, table: str) -> dict[str, dict[str, object]]:
    """What the table of sessions says, by the sessions' ids."""
    key = history.columns.find("session.id", _columns(connection, table))
    if key is None:
        raise _unreadable(f"table {table} has no id of sessions: give --map session.id=COLUMN")
    infos: dict[str, dict[str, object]] = {}
    for row in connection.execute(f"SELECT * FROM {_quoted(table)}"):  # noqa: S608 - a quoted name
        name = name_of(row[key])
        if name is not None:
            infos[name] = dict(row)
    return infos


def _sessions(
    connection: sqlite3.Connection, history: History, table: str, infos: dict[str, dict[str, object]]
) -> Iterator[Item]:
    columns = _columns(connection, table)
    session, content = (history.columns.find(what, columns) for what in ("session", "content"))
    for what in ("role", "time", "id", "speaker_id", "name"):
        history.columns.find(what, columns)  # one that the caller named and that is missing is an error
    if session is None or content is None:
        missing = "session" if session is None else "content"
        raise _unreadable(f"table {table} has no column of the {missing}: give --map {missing}=COLUMN")
    order = ", ".join([_quoted(session), *_insertion(connection, table)])
    rows = connection.execute(f"SELECT * FROM {_quoted(table)} ORDER BY {order}")  # noqa: S608 - quoted names
    for number, (key, said) in enumerate(groupby(rows, lambda row: row[session]), start=1):
        name = name_of(key)
        if name is None:
            yield Refused(number, bad_item("Messages without a session: nothing says which conversation they are of."))
            continue
        yield history.converted(Talk(number, name, infos.get(name, {}), [_values(row) for row in said]))


def _insertion(connection: sqlite3.Connection, table: str) -> Sequence[str]:
    """The columns that tell in which order rows were inserted: the row's own number, else the primary key."""
    described = connection.execute(f"PRAGMA table_info({_quoted(table)})").fetchall()
    names = {row["name"].lower() for row in described}
    row = connection.execute("SELECT sql FROM sqlite_master WHERE name = ?", (table,)).fetchone()
    if "WITHOUT ROWID" not in (row["sql"] or "").upper():
        own = next((name for name in ("rowid", "_rowid_", "oid") if name not in names), None)
        if own is not None:
            return [own]
    return [_quoted(row["name"]) for row in sorted(described, key=lambda row: row["pk"]) if row["pk"]]


def _values(row: sqlite3.Row) -> dict[str, object]:
    """A row without its blobs, which are no words."""
    return {name: value for name, value in dict(row).items() if not isinstance(value, bytes)}


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _unreadable(why: str) -> InvalidInput:
    return InvalidInput(f"The SQLite file can't be read: {why}.", code="unreadable_file")
