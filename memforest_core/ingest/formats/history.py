"""A chatbot's own history as JSON: conversations with their messages, or rows of messages that name their session.

Messages have a role and a content under usual names or those of ``--map`` (``columns.py``), or one of LangChain's forms
(``langchain.py``). A file is a list, one object a line, one conversation (``{"messages": [...]}``), two tables
(``{"sessions": [...], "messages": [...]}``), or the bare messages of one conversation, which ``--session`` names.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from memforest_core.domain.chat_messages import TurnInput
from memforest_core.errors import InvalidInput
from memforest_core.ingest.formats.columns import Columns
from memforest_core.ingest.formats.file_items import (
    Item,
    Refused,
    Value,
    bad_item,
    list_of,
    mapping_of,
    name_of,
    session_of,
)
from memforest_core.ingest.formats.langchain_messages import is_message, message_turns


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
