"""A chatbot's own history as JSON or SQLite: conversations with their messages, or rows of messages that name theirs.

Messages have a role and a content under usual names or those of ``--map`` (``Columns``), or one of LangChain's forms.
A file is a list, one object a line, one conversation (``{"messages": [...]}``), two tables
(``{"sessions": [...], "messages": [...]}``), or the bare messages of one conversation, which ``--session`` names.

LangChain: https://python.langchain.com/api_reference/core/messages.html (``messages_to_dict`` makes objects of ``type``
and ``data``, ``model_dump`` flat ones with ``type``) and https://python.langchain.com/docs/how_to/serialization/
(``dumpd`` makes objects of ``lc``, ``type``, ``id`` and ``kwargs``, the last part of ``id`` being the class). A
class of streamed parts ends with Chunk. Messages have no time; many programs put one into ``additional_kwargs``.

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

_TYPES = ("human", "ai", "system", "tool", "function")
"""LangChain's types of messages, in addition to chat, which has a role."""
_REMOVED = "remove"
"""A mark that a message was taken out: it says nothing."""
ROLES = {
    **dict.fromkeys(("user", "human", "customer", "member", "client"), "user"),
    **dict.fromkeys(("assistant", "ai", "bot", "chatbot", "agent", "model", "gpt"), "assistant"),
    **dict.fromkeys(("system", "developer"), "system"),
    **dict.fromkeys(("tool", "function"), "tool"),
}
_ROLE = "role:"
NAMES: Mapping[str, tuple[str, ...]] = {
    "id": ("id", "message_id", "uuid"),
    "session": ("session_id", "session", "conversation_id", "chat_id", "thread_id", "channel_id"),
    "role": ("role", "sender_role", "sender", "type"),
    "content": ("content", "text", "message", "body"),
    "time": ("timestamp", "created_at", "sent_at", "time", "date"),
    "speaker_id": ("speaker_id", "author_id", "sender_id", "user_id"),
    "name": ("name", "speaker", "author", "display_name", "username"),
    "session.id": ("id", "session_id", "conversation_id", "chat_id", "thread_id", "channel_id"),
    "session.owner": ("owner", "user_id"),
    "session.started": ("started_at", "created_at", "start_time", "timestamp"),
    "session.title": ("title", "topic"),
    "messages": ("messages", "message", "chat_messages", "message_store", "chat_history", "history", "turns"),
    "sessions": ("sessions", "session", "conversations", "conversation", "chats", "threads"),
}
"""What a message, a session and a database have, and the names it is looked for under, in this order."""

_OF_MESSAGES = ("id", "session", "role", "content", "time", "speaker_id", "name")


def is_message(value: object) -> bool:
    """Whether an object is a message in one of LangChain's own forms: with ``data``, ``kwargs``, or ``type``."""
    if not isinstance(value, Mapping):
        return False
    if isinstance(value.get("data"), Mapping) and isinstance(value.get("type"), str):
        return True
    if "lc" in value and isinstance(value.get("kwargs"), Mapping):
        return True
    return "role" not in value and "content" in value and _kind(value.get("type")) in {*_TYPES, "chat", _REMOVED}


def message_turns(raw: Mapping[str, object], where: str) -> list[TurnInput]:
    """The turns of a message: none for one without words, several for a very long one. Raises InvalidInput."""
    kind, fields = raw.get("type"), raw
    if "lc" in raw and "kwargs" in raw:
        fields, path = mapping_of(raw["kwargs"], f"{where}: kwargs"), raw.get("id")
        kind = path[-1] if isinstance(path, list) and path else fields.get("type")
    elif isinstance(raw.get("data"), Mapping):
        fields = mapping_of(raw["data"], f"{where}: data")
    kind = _kind(kind)
    if kind == _REMOVED:
        return []
    named = str(fields.get("role") if kind == "chat" else kind).strip().lower()
    if named not in {*_TYPES, "user", "assistant", "developer"}:
        raise bad_item(f"{where}: {named!r:.40} is none of {', '.join([*_TYPES, 'chat'])}.")
    more = mapping_of(fields.get("additional_kwargs") or {}, f"{where}: additional_kwargs")
    read = {name: fields.get(name) for name in ("content", "tool_call_id", "tool_calls") if fields.get(name)}
    read |= {name: more[name] for name in ("tool_calls", "function_call") if name not in read and more.get(name)}
    turn = turn_fields({"role": ROLES[named], **read}, where)
    metadata, content = turn.get("metadata"), turn.get("content") or ""
    if not isinstance(content, str):
        raise bad_item(f"{where}: the content must be text or a list of parts.")
    times = (place.get(name) for place in (fields, more) for name in ("timestamp", "created_at", "time"))
    return turns_of(
        ROLES[named],
        content,
        id=name_of(fields.get("id")),
        name=name_of(fields.get("name")),
        metadata=metadata if isinstance(metadata, Mapping) else None,
        timestamp=next((value for value in times if value and isinstance(value, str | int | float)), None),
    )


def _kind(named: object) -> str:
    """A type by its name or its class: AIMessageChunk is ai."""
    return str(named).strip().removesuffix("Chunk").removesuffix("Message").lower()


@dataclass(frozen=True, slots=True)
class Columns:
    """Names as the caller gave them; what is not given is looked for under the usual ones."""

    names: Mapping[str, str] = field(default_factory=dict)
    roles: Mapping[str, str] = field(default_factory=dict)
    """What a value of the role column means, in addition to the usual ones."""

    def find(self, what: str, given: Iterable[str], *, needed: bool = True) -> str | None:
        """The name of ``what`` among ``given``; None without one. Raises InvalidInput for a ``needed`` one that the
        caller named and that is missing."""
        there = {name.lower(): name for name in given}
        wanted = self.names.get(what)
        if wanted is None:
            return next((there[name] for name in NAMES[what] if name in there), None)
        if needed and wanted.lower() not in there:
            raise bad_item(f"There is no {wanted!r:.80}, which --map names for {what}.")
        return there.get(wanted.lower())

    def value(self, what: str, row: Mapping[str, object]) -> object | None:
        """The value of ``what`` in a row."""
        name = self.find(what, row, needed=False)
        return None if name is None else row[name]

    def turns(self, row: Mapping[str, object], where: str) -> list[TurnInput]:
        """The turns of a message: none for one without words, several for a very long one. Raises InvalidInput."""
        named = self.value("role", row)
        given = "user" if named is None else str(named).strip()
        role = self.roles.get(given.lower()) or ROLES.get(given.lower())
        if role is None:
            raise bad_item(f"{where}: nothing says what role {given!r:.40} is: give --map 'role:{given[:40]}=user'.")
        content = self.value("content", row)
        if isinstance(content, list):
            content = turn_fields({"role": role, "content": content}, where).get("content")
        if content is not None and not isinstance(content, str):
            raise bad_item(f"{where}: the content must be text or a list of parts.")
        at = self.value("time", row)
        if isinstance(at, str):  # digits in a text are unix time
            at = float(at) if at.strip().replace(".", "", 1).isdigit() else at.strip() or None
        identity, name = name_of(self.value("id", row)), name_of(self.value("name", row))
        made = turns_of(role, content or "", id=identity, name=name, timestamp=at)
        speaker = name_of(self.value("speaker_id", row))
        if role != "user" and "speaker_id" not in self.names and not row.get("speaker_id"):
            speaker = None  # in most histories user_id says whose conversation it is, the assistant's messages too
        return made if speaker is None else [{**turn, "speaker_id": speaker} for turn in made]


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
        elif what in NAMES:
            names[what] = name
        else:
            known = ", ".join([*NAMES, "role:VALUE"])
            raise InvalidInput(f"--map knows no {what!r:.40}: it maps {known}.", code="invalid_map")
    return Columns(names, roles)


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
        """A session for each conversation. Rows of messages are held until the end: they come in any order. Raises
        InvalidInput for bare messages whose session nobody names."""
        rows: dict[str, Talk] = {}
        for value in values:
            if isinstance(value, Refused):
                yield value
                continue
            try:
                talks = self._talks(value, rows)
            except InvalidInput as error:
                if error.code == "missing_session":
                    raise
                yield Refused(value.position, error)
                continue
            yield from map(self.converted, talks)
        yield from map(self.converted, rows.values())

    def _talks(self, value: Value, rows: dict[str, Talk]) -> list[Talk]:
        """The conversations of an item; a message goes to its session in ``rows``."""
        item = mapping_of(value.content, "An item")
        if not isinstance(item.get("sessions"), list):
            if isinstance(item.get("messages"), list):
                return [self._conversation(value.position, item)]
            self._add(item, rows, value.position)
            return []
        sessions = (mapping_of(each, "A session") for each in list_of(item["sessions"], "sessions"))
        talks = {talk.session_id: talk for talk in (self._conversation(value.position, info) for info in sessions)}
        for raw in list_of(item.get("messages") or [], "messages"):
            self._add(mapping_of(raw, "A message"), talks, value.position)
        return list(talks.values())

    def _conversation(self, position: int, info: Mapping[str, object]) -> Talk:
        name = name_of(self.columns.value("session.id", info)) or self.session
        if name is None:
            raise bad_item("The conversation has no id: say which field is it with --map session.id=NAME.")
        rest = {key: value for key, value in info.items() if key != "messages"}
        return Talk(position, name, rest, list_of(info.get("messages") or [], "messages"))

    def _add(self, message: Mapping[str, object], talks: dict[str, Talk], position: int) -> None:
        """Put a message into the session that it names."""
        name = name_of(self.columns.value("session", message)) or self.session
        if name is None:
            raise InvalidInput(
                "Give --session: these are messages that do not say which conversation they are of.",
                code="missing_session",
            )
        talks.setdefault(name, Talk(position, name)).messages.append(message)

    def converted(self, talk: Talk) -> Item:
        """A talk as a session; one that can't be converted is refused as a whole."""
        turns: list[TurnInput] = []
        try:
            for number, raw in enumerate(talk.messages, start=1):
                where = f"Message {number}"
                message = mapping_of(raw, where)
                inner = self._inner(message)
                turns += self.columns.turns(message, where) if inner is None else message_turns(inner, where)
            title = self.columns.value("session.title", talk.info)
            if turns and isinstance(title, str) and title:
                turns[0] = {**turns[0], "metadata": {**turns[0].get("metadata", {}), "title": title}}
            owner = self.owner or name_of(self.columns.value("session.owner", talk.info))
            started = self.columns.value("session.started", talk.info)
            return session_of(talk.position, owner, talk.session_id, turns, started or None)
        except InvalidInput as error:
            return Refused(talk.position, error, talk.session_id)

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
    """A session for each that messages are of; its messages in the order in which they were inserted. Raises
    InvalidInput for a file that SQLite can't read or whose tables and columns are not found."""
    try:
        with closing(sqlite3.connect(f"file:{quote(str(file.absolute()))}?mode=ro", uri=True)) as connection:
            connection.row_factory = sqlite3.Row
            connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)
            # What a hostile schema could call is not called.
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute("PRAGMA query_only = ON")
            yield from _database_sessions(connection, history)
    except sqlite3.Error as error:
        raise _unreadable(str(error)) from None


def _database_sessions(connection: sqlite3.Connection, history: History) -> Iterator[Item]:
    schema = connection.execute("SELECT name, upper(sql) AS sql FROM sqlite_master WHERE type = 'table'").fetchall()
    plain = {
        row["name"]: row["sql"] or ""
        for row in schema
        if not row["name"].startswith("sqlite_") and not (row["sql"] or "").startswith("CREATE VIRTUAL")
    }
    table, sessions = (history.columns.find(which, plain) for which in ("messages", "sessions"))
    if table is None:
        names = ", ".join(sorted(plain)) or "none"
        raise _unreadable(f"no table of messages is among {names}: give --map messages=TABLE")
    infos: dict[str | None, dict[str, object]] = {}
    if sessions is not None:
        key = history.columns.find("session.id", _columns(connection, sessions))
        if key is None:
            raise _unreadable(f"table {sessions} has no id of sessions: give --map session.id=COLUMN")
        found = connection.execute(f"SELECT * FROM {_quoted(sessions)}")  # noqa: S608 - a quoted name
        infos = {name_of(row[key]): dict(row) for row in found}
    columns = _columns(connection, table)
    # One that the caller named and that is missing is an error.
    known = {what: history.columns.find(what, columns) for what in _OF_MESSAGES}
    for what in ("session", "content"):
        if known[what] is None:
            raise _unreadable(f"table {table} has no column of the {what}: give --map {what}=COLUMN")
    session = known["session"] or ""
    order = ", ".join([_quoted(session), *_insertion(columns, plain[table])])
    rows = connection.execute(f"SELECT * FROM {_quoted(table)} ORDER BY {order}")  # noqa: S608 - quoted names
    for number, (value, said) in enumerate(groupby(rows, lambda row: row[session]), start=1):
        name = name_of(value)
        if name is None:
            yield Refused(number, bad_item("Messages without a session: nothing says which conversation they are of."))
            continue
        # Blobs are no words.
        messages = [{key: each for key, each in dict(row).items() if not isinstance(each, bytes)} for row in said]
        yield history.converted(Talk(number, name, infos.get(name, {}), list(messages)))


def _columns(connection: sqlite3.Connection, table: str) -> dict[str, int]:
    """The columns of a table, each with its place in the primary key (0: none)."""
    return {row["name"]: row["pk"] for row in connection.execute(f"PRAGMA table_info({_quoted(table)})")}


def _insertion(columns: Mapping[str, int], schema: str) -> Sequence[str]:
    """The columns that tell in which order rows were inserted: the row's own number, else the primary key."""
    taken = {name.lower() for name in columns}
    own = next((name for name in ("rowid", "_rowid_", "oid") if name not in taken), None)
    if own is not None and "WITHOUT ROWID" not in schema:
        return [own]
    return [_quoted(name) for name in sorted(columns, key=columns.__getitem__) if columns[name]]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _unreadable(why: str) -> InvalidInput:
    return InvalidInput(f"The SQLite file can't be read: {why}.", code="unreadable_file")
