"""A chatbot's own history as JSON or SQLite: conversations with their messages, or rows of messages that name theirs.

Messages have a role and a content under usual names or those of ``--map`` (``Fields``), or one of LangChain's forms.
A file is a list, one object a line, one conversation (``{"messages": [...]}``), two tables
(``{"sessions": [...], "messages": [...]}``), or the bare messages of one conversation, which ``--session`` names.

A SQLite file has a table of messages, and one of sessions if there is one. It is opened for reading only, and only
plain tables are read: no view, no virtual table, no function of its schema runs. LangChain's ``message_store``
(session_id, message) is one of these.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from urllib.parse import quote

from memforest_core.errors import InvalidInput
from memforest_core.ingest.formats.api_messages import Conversation
from memforest_core.ingest.formats.fields import one_name, value_of
from memforest_core.ingest.formats.file_items import Item, Refused, Value, bad_item, list_of, mapping_of, name_of
from memforest_core.ingest.formats.format_table import read_each
from memforest_core.ingest.formats.talks import MAPPED, ROLES, USUAL, Message, Options, Talk

_ROLE = "role:"
_SESSION_IDS = "session_id conversation_id chat_id thread_id channel_id"
NAMES: Mapping[str, str] = {
    "session": f"{_SESSION_IDS} session conversation thread room",
    "session.id": f"id uuid {_SESSION_IDS}",
    "session.owner": "owner user_id",
    "session.started": "started_at created_at create_time start_time timestamp created date",
    "session.title": "title topic name subject",
    "messages": "messages chat_messages message_list chat_history history turns",
    "sessions": "sessions conversations chats threads",
}
"""What a conversation and a file have, and the names it is looked for under, in this order."""
TABLES: Mapping[str, str] = {
    "messages": "messages message chat_messages message_store chat_history history turns",
    "sessions": "sessions session conversations conversation chats threads",
}
_OF_MESSAGES: Mapping[str, str] = {
    "session": NAMES["session"],
    **{what: str(getattr(USUAL, what)) for what in ("id", "role", "text", "time", "speaker_id", "speaker")},
}


def parse_map(given: Iterable[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Names and roles of ``--map``: WHAT=NAME and role:VALUE=ROLE. Raises InvalidInput."""
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
            continue
        what = {"content": "text", "name": "speaker"}.get(what, what)
        if what not in {*MAPPED, *NAMES}:
            known = ", ".join(["content", *MAPPED[1:], *NAMES, "role:VALUE"])
            raise InvalidInput(f"--map knows no {what!r:.40}: it maps {known}.", code="invalid_map")
        names[what] = name
    return names, roles


@dataclass(frozen=True, slots=True)
class History:
    """How a history is read: the names and roles of the caller go before the usual ones."""

    options: Options

    def read(self, values: Iterable[Value | Refused]) -> Iterator[Talk | Item]:
        """A conversation for each. Rows of messages are held until the end: they come in any order."""
        rows: dict[str, Talk] = {}
        yield from read_each(values, lambda value: self._talks(value, rows))
        yield from rows.values()

    def found(self, what: str, value: object) -> object | None:
        """What a conversation or a file has under its usual names, or that of --map."""
        mapped = self.options.names.get(what)
        return value_of(value, NAMES[what] if mapped is None else one_name(mapped))

    def _talks(self, value: Value, rows: dict[str, Talk]) -> Iterator[Talk | Item]:
        """The conversations of an item; a message goes to its session in ``rows``."""
        item = mapping_of(value.content, "An item")
        sessions = self.found("sessions", item)
        if isinstance(sessions, list):
            talks: dict[str, Talk] = {}
            for info in sessions:
                made = self.conversation(value.position, mapping_of(info, "A session"))
                if isinstance(made, Talk):
                    talks[made.session or ""] = made
                else:
                    yield made
            for raw in list_of(self.found("messages", item) or [], "messages"):
                self._add(mapping_of(raw, "A message"), talks, value.position)
            yield from talks.values()
        elif isinstance(self.found("messages", item), list):
            yield self.conversation(value.position, item)
        else:
            self._add(item, rows, value.position)

    def conversation(
        self,
        position: int,
        info: Mapping[str, object],
        messages: Sequence[object] | None = None,
        name: str | None = None,
    ) -> Talk | Refused:
        """A conversation of these fields; one with a message that can't be read is refused as a whole."""
        name = name or name_of(self.found("session.id", info))
        title = self.found("session.title", info)
        said = list_of(self.found("messages", info) or [], "messages") if messages is None else messages
        try:
            read = [self.messages(mapping_of(raw, f"Message {at}"), f"Message {at}") for at, raw in enumerate(said, 1)]
        except InvalidInput as error:
            return Refused(position, error, name)
        return Talk(
            position,
            name,
            [message for made in read for message in made],
            title if isinstance(title, str) else None,
            started=self.found("session.started", info),
            owner=name_of(self.found("session.owner", info)),
        )

    def _add(self, raw: Mapping[str, object], talks: dict[str, Talk], position: int) -> None:
        """Put a message into the session that it names."""
        name = name_of(self.found("session", raw))
        talk = talks.setdefault(name or "", Talk(position, name, []))
        talk.messages += self.messages(raw, f"Message {position}")

    def messages(self, raw: Mapping[str, object], where: str) -> list[Message]:
        """A message of the usual fields; one in a form of a chat API, also as JSON in the content of a row, is read as
        such: a tool's result is a message of its own. Raises InvalidInput."""
        fields = USUAL.mapped(self.options.names)
        inner = value_of(raw, fields.text)
        if isinstance(inner, str) and inner.lstrip().startswith("{") and value_of(raw, "role") is None:
            try:
                inner = json.loads(inner)
            except (ValueError, RecursionError):
                inner = None
        if isinstance(inner, Mapping) and _of_api(inner):
            raw = inner
        if "text" in self.options.names or not _of_api(raw):
            return [fields.message(raw, self.options.roles, where)]
        said = Conversation()
        said.add(raw, where)
        unsaid = {name: value for name, value in raw.items() if name not in _SAID}
        outer = fields.message(unsaid, self.options.roles, where)
        for message in said.messages:
            message.role = message.role or outer.role
            message.time = outer.time if message.time is None else message.time
            if message.role == outer.role:
                message.speaker, message.speaker_id = message.speaker or outer.speaker, outer.speaker_id
        return said.messages


_SAID = ("content", "data", "kwargs", "parts", "tool_calls", "message")


def _of_api(raw: Mapping[str, object]) -> bool:
    """Whether a message is in a form of a chat API that is more than a role and a text."""
    structured = isinstance(raw.get("content"), list | dict) or isinstance(raw.get("parts"), list)
    called = any(
        raw.get(name) for name in ("tool_calls", "function_call", "toolInvocations", "additional_kwargs", "refusal")
    )
    wrapped = isinstance(raw.get("data"), dict) or isinstance(raw.get("kwargs"), dict)
    typed = "role" not in raw and isinstance(raw.get("type"), str) and "content" in raw
    return structured or called or wrapped or typed


MAGIC = b"SQLite format 3\x00"
MAX_VALUE_BYTES = 2**26
"""A longer value is refused by SQLite."""


def from_sqlite(file: Path, history: History) -> Iterator[Talk | Item]:
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


def _database_sessions(connection: sqlite3.Connection, history: History) -> Iterator[Talk | Item]:
    schema = connection.execute("SELECT name, upper(sql) AS sql FROM sqlite_master WHERE type = 'table'").fetchall()
    plain = {
        row["name"]: row["sql"] or ""
        for row in schema
        if not row["name"].startswith("sqlite_") and not (row["sql"] or "").startswith("CREATE VIRTUAL")
    }
    mapped = history.options.names
    table, sessions = (_column(which, TABLES[which], mapped, plain) for which in TABLES)
    if table is None:
        names = ", ".join(sorted(plain)) or "none"
        raise _unreadable(f"no table of messages is among {names}: give --map messages=TABLE")
    infos: dict[str | None, dict[str, object]] = {}
    if sessions is not None:
        key = _column("session.id", NAMES["session.id"], mapped, _columns(connection, sessions))
        if key is None:
            raise _unreadable(f"table {sessions} has no id of sessions: give --map session.id=COLUMN")
        found = connection.execute(f"SELECT * FROM {_quoted(sessions)}")  # noqa: S608 - a quoted name
        infos = {name_of(row[key]): dict(row) for row in found}
    columns = _columns(connection, table)
    # One that the caller named and that is missing is an error.
    known = {what: _column(what, names, mapped, columns) for what, names in _OF_MESSAGES.items()}
    for what, option in (("session", "session"), ("text", "content")):
        if known[what] is None:
            raise _unreadable(f"table {table} has no column of the {option}: give --map {option}=COLUMN")
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
        yield history.conversation(number, infos.get(name, {}), messages, name)


def _column(what: str, usual: str, mapped: Mapping[str, str], given: Iterable[str]) -> str | None:
    """The name of a table or column; None without one. Raises InvalidInput for a mapped one that is missing."""
    there = {name.lower(): name for name in given}
    wanted = mapped.get(what)
    if wanted is None:
        return next((there[name] for name in usual.split() if name in there), None)
    if wanted.lower() not in there:
        raise bad_item(f"There is no {wanted!r:.80}, which --map names for {what}.")
    return there[wanted.lower()]


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
