"""Which fields of a chatbot's own history have what: the usual names, or those that the caller says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from memforest_core.domain.chat_messages import TurnInput, turn_fields
from memforest_core.errors import InvalidInput
from memforest_core.ingest.formats.file_items import bad_item, name_of, turns_of

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
