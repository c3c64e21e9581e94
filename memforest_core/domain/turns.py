"""Turns: what a caller may send, checked and normalized once, at the door."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from memforest_core.domain.chat_messages import TURN_KEYS, message_turns
from memforest_core.domain.times import EARLIEST, LATEST
from memforest_core.errors import InvalidInput

LATEST_SESSION = "LATEST"
"""In place of a session's id: the session that runs; without one, the session that got a turn last."""


class Role(StrEnum):
    """Who produced a turn."""

    USER = "user"
    ASSISTANT = "assistant"
    SYSTEM = "system"
    TOOL = "tool"


@dataclass(frozen=True, slots=True)
class Turn:
    """One timestamped utterance, normalized.

    ``ordinal`` counts from 0 inside its session. ``id`` is the caller's, or ``generated_id``, unique in the session.
    ``occurred_at`` is aware; ``dated`` says whether the caller gave the time (else it is the session's). ``named`` says
    whether the caller gave the name (else it is the owner's, which can change).
    """

    ordinal: int
    id: str
    role: Role
    content: str
    occurred_at: datetime
    dated: bool
    speaker_id: str
    name: str
    metadata: Mapping[str, object] = field(default_factory=dict)
    erased: bool = False
    """Its words are deleted; what is left has its place."""
    named: bool = True
    utc_offset: int | None = None
    """Minutes by which the sender's clock was ahead of UTC, where it is not that of the owner's zone."""

    @property
    def generated(self) -> bool:
        """Whether the caller gave it no id."""
        return self.id == generated_id(self.ordinal)

    def same_as(self, other: Turn) -> bool:
        """Whether a turn that was sent again says the same. An undated time is not compared, nor what an erased turn
        said."""
        if self.id != other.id:
            return False
        if self.erased or other.erased:
            return True
        if self.dated and other.dated and self.occurred_at != other.occurred_at:
            return False
        if self.named and other.named and self.name != other.name:
            return False
        return (self.role, self.content, self.speaker_id) == (other.role, other.content, other.speaker_id)


@dataclass(frozen=True, slots=True)
class TurnLimits:
    """What is accepted."""

    max_turns: int = 20_000
    max_turn_bytes: int = 262_144


_ROLES = {"developer": "system", "function": "tool", "human": "user", "ai": "assistant", "model": "assistant"}
"""What others call our roles: OpenAI (developer, function), LangChain (human, ai) and Gemini (model)."""
_GENERATED = "turn@"
"""Begins the ids of turns that came without one; no caller may give such an id, so that none is taken for another."""
_GENERATED_ID = re.compile(rf"{_GENERATED}\d+", re.ASCII)
MAX_METADATA_DEPTH = 64
"""Deeper JSON would reach Python's recursion limit when it is read far down a caller's stack."""
MAX_CHANNEL_CHARS = 200
MAX_ID = 512
_MAX_ID_BYTES = 1_024
"""Two of them and a tenant fit an index entry of Postgres (2,704 bytes)."""
_MILLISECONDS_FROM = 1e11
"""Unix times at or above this are milliseconds: as seconds they would lie past the year 5000."""


def generated_id(ordinal: int) -> str:
    """The id of a turn that came without one."""
    return f"{_GENERATED}{ordinal}"


def checked_text(text: str, where: str) -> str:
    """A text that can be stored: without NUL, and valid Unicode. Raises InvalidInput."""
    if "\x00" in text:
        raise InvalidInput(f"{where}: remove the NUL characters.", code="nul_character")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise InvalidInput(
            f"{where}: replace the unpaired surrogate characters; the text is not valid Unicode.",
            code="invalid_unicode",
        ) from None
    return text


def checked_name(value: object, what: str) -> str:
    """An id or name given by a caller: a non-empty string of at most 512 characters and 1,024 bytes."""
    if not isinstance(value, str) or not value.strip():
        raise InvalidInput(f"{what} must be a non-empty string.", code="invalid_name")
    if len(value) > MAX_ID:
        raise InvalidInput(f"{what} must have at most {MAX_ID} characters.", code="invalid_name")
    if len(checked_text(value, what).encode()) > _MAX_ID_BYTES:
        raise InvalidInput(f"{what} must have at most {_MAX_ID_BYTES} bytes in UTF-8.", code="invalid_name")
    return value


def checked_actor(value: object) -> str:
    """Who acts, as the audit and its listings name them: a name on one line."""
    name = checked_name(value, "actor")
    if not name.isprintable():
        raise InvalidInput("actor must have no line breaks and no control characters.", code="invalid_name")
    return name


def checked_channel(value: object) -> str:
    """Where a session takes place, as a caller names it: a non-empty string of at most 200 characters."""
    name = checked_name(value, "channel")
    if len(name) > MAX_CHANNEL_CHARS:
        raise InvalidInput(f"channel must have at most {MAX_CHANNEL_CHARS} characters.", code="invalid_channel")
    return name


def checked_zone(value: object) -> ZoneInfo:
    """A time zone by its IANA name."""
    try:
        return ZoneInfo(str(value))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidInput(
            f"time_zone must be an IANA name such as Europe/Paris; {value!r:.60} is not known.",
            code="invalid_time_zone",
        ) from None


def utc_offset(value: object) -> int | None:
    """The minutes by which a timestamp that can be parsed says to be ahead of UTC; None for UTC itself, which may be no
    sender's clock, and for a time without a zone."""
    moment = datetime.fromisoformat(value.strip()) if isinstance(value, str) else value
    offset = moment.utcoffset() if isinstance(moment, datetime) else None
    return int(offset.total_seconds() // 60) or None if offset else None


def parse_timestamp(value: object, zone: ZoneInfo, where: str) -> datetime:
    """An aware UTC datetime from ISO 8601, unix seconds or milliseconds, or a datetime; a naive time is read in
    ``zone``. Raises InvalidInput."""
    moment: datetime | None = None
    try:
        if isinstance(value, datetime):
            moment = value
        elif isinstance(value, str):
            moment = datetime.fromisoformat(value.strip())
        elif isinstance(value, int | float) and not isinstance(value, bool):
            seconds = value / 1000 if abs(value) >= _MILLISECONDS_FROM else value
            moment = datetime.fromtimestamp(seconds, UTC)
        if moment is not None:
            aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=zone)
            moment = aware.astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        moment = None
    if moment is None or not EARLIEST <= moment < LATEST:
        raise InvalidInput(
            f"{where}: give the timestamp as ISO 8601 or unix seconds, between the years 1000 and 3000.",
            code="invalid_timestamp",
        )
    return moment


@dataclass(frozen=True, slots=True)
class SessionFrame:
    """What the turns of a session fall back on: its owner, its zone, its start, and where it goes on."""

    owner: str
    zone: ZoneInfo
    started_at: datetime
    first_ordinal: int = 0
    display_name: str | None = None
    """What the owner is called."""
    utc_offset: int | None = None
    """What its start says of the sender's clock."""
    elsewhere: bool = False
    """Its zone is not the owner's."""


def _content(raw: Mapping[str, object], where: str, limits: TurnLimits) -> str:
    content = raw.get("content")
    if not isinstance(content, str) or not content.strip():
        raise InvalidInput(f"{where}: give a non-empty content string.", code="missing_content")
    checked_text(content, f"{where} content")
    size = len(content.encode())
    if size > limits.max_turn_bytes:
        raise InvalidInput(
            f"{where}: shorten the content to {limits.max_turn_bytes} bytes (it has {size}), or split the turn.",
            code="turn_too_long",
        )
    return content


def _role(raw: Mapping[str, object], where: str) -> Role:
    given = str(raw.get("role"))
    try:
        return Role(_ROLES.get(given, given))
    except ValueError:
        known = ", ".join([*Role, *_ROLES])
        raise InvalidInput(f"{where}: set role to one of {known}.", code="unknown_role") from None


def checked_metadata(metadata: object, where: str, limits: TurnLimits) -> dict[str, object]:
    """The caller's own fields as plain JSON values, as they will be read back. Raises InvalidInput naming ``where``."""
    if metadata is None:
        return {}
    if not isinstance(metadata, Mapping) or not all(isinstance(key, str) for key in metadata):
        raise InvalidInput(f"{where}: metadata must be an object with string keys.", code="invalid_metadata")
    try:
        written = json.dumps(dict(metadata), ensure_ascii=False, allow_nan=False)
        # Written out, a NUL is six characters, the same as somebody's text about one; so it is read back.
        plain: dict[str, object] = json.loads(checked_text(written, f"{where} metadata"))
    except RecursionError:
        raise _too_deep(where) from None
    except (TypeError, ValueError):
        raise InvalidInput(
            f"{where}: metadata must hold JSON values only (text, finite numbers, booleans, null, lists, objects).",
            code="invalid_metadata",
        ) from None
    for level, values in enumerate(levels_of(plain)):
        if level >= MAX_METADATA_DEPTH:
            raise _too_deep(where)
        for text in values:
            if isinstance(text, str):
                checked_text(text, f"{where} metadata")
    size = len(written.encode())
    if size > limits.max_turn_bytes:
        raise InvalidInput(
            f"{where}: shorten the metadata to {limits.max_turn_bytes} bytes (it has {size}).", code="metadata_too_long"
        )
    return plain


def _too_deep(where: str) -> InvalidInput:
    return InvalidInput(
        f"{where}: nest the metadata at most {MAX_METADATA_DEPTH} levels deep.", code="invalid_metadata"
    )


def levels_of(value: object) -> Iterator[list[object]]:
    """A JSON value level by level, keys among the values: first itself, then what it contains, and so on."""
    level = [value]
    while level:
        yield level
        inner: list[object] = []
        for part in level:
            if isinstance(part, dict):
                inner += [*part.keys(), *part.values()]
            elif isinstance(part, list):
                inner += part
        level = inner


def checked_messages(raw_turns: Sequence[object]) -> list[Mapping[str, object]]:
    """The fields of each turn in what a caller sent, in whichever form of a chat API; none when nobody says anything.
    Raises InvalidInput."""
    if isinstance(raw_turns, str | bytes | Mapping) or not isinstance(raw_turns, Sequence):
        raise InvalidInput("Send turns as a list of objects with role and content.", code="invalid_turns")
    if not raw_turns:
        raise InvalidInput("Send at least one turn; the session is empty.", code="empty_session")
    return [turn for number, raw in enumerate(raw_turns, start=1) for turn in message_turns(raw, f"Turn {number}")]


def timestamp_of(message: Mapping[str, object], frame: SessionFrame) -> datetime:
    """When the first turn of a session was said: its own timestamp, else the session's start. Raises InvalidInput."""
    stamp = message.get("timestamp")
    return frame.started_at if stamp is None else parse_timestamp(stamp, frame.zone, "Turn 1")


def parse_turns(messages: Sequence[Mapping[str, object]], frame: SessionFrame, limits: TurnLimits) -> list[Turn]:
    """Check and normalize ``checked_messages``; a turn without a timestamp takes that of the turn before it, the first
    one the session's start. Raises InvalidInput with the turn's position."""
    if frame.first_ordinal + len(messages) > limits.max_turns:
        raise InvalidInput(
            f"A session has at most {limits.max_turns} turns; split it into several sessions.", code="too_many_turns"
        )
    turns: list[Turn] = []
    seen: set[str] = set()
    moment, ahead = frame.started_at, frame.utc_offset
    for ordinal, raw in enumerate(messages, start=frame.first_ordinal):
        where = f"Turn {ordinal + 1}"
        unknown = sorted(str(key) for key in raw if key not in TURN_KEYS)
        if unknown:
            raise InvalidInput(
                f"{where}: move the unknown field {unknown[0]!r:.80} into metadata.", code="unknown_field"
            )
        role = _role(raw, where)
        content = _content(raw, where, limits)
        stamp = raw.get("timestamp")
        if stamp is not None:
            moment, ahead = parse_timestamp(stamp, frame.zone, where), utc_offset(stamp)
        turn_id = _id(raw.get("id"), ordinal, where)
        if turn_id in seen:
            raise InvalidInput(f"{where}: its id is used twice in this session.", code="duplicate_turn_id")
        seen.add(turn_id)
        speaker, name = _speaker(raw, role, frame, where)
        turns.append(
            Turn(
                ordinal=ordinal,
                id=turn_id,
                role=role,
                content=content,
                occurred_at=moment,
                dated=stamp is not None,
                speaker_id=speaker,
                name=name,
                metadata=checked_metadata(raw.get("metadata"), where, limits),
                named=raw.get("name") is not None,
                utc_offset=utc_offset(moment.astimezone(frame.zone)) if ahead is None and frame.elsewhere else ahead,
            )
        )
    return turns


def _id(given: object, ordinal: int, where: str) -> str:
    if given is None:
        return generated_id(ordinal)
    name = checked_name(given, f"{where} id")
    if _GENERATED_ID.fullmatch(name):
        raise InvalidInput(
            f"{where}: leave the id out or choose another; ids like {generated_id(0)} are for turns without one.",
            code="reserved_turn_id",
        )
    return name


def _speaker(raw: Mapping[str, object], role: Role, frame: SessionFrame, where: str) -> tuple[str, str]:
    """Speaker id and display name: given, or the owner for a user turn and the role otherwise."""
    given_id, given_name = raw.get("speaker_id"), raw.get("name")
    if given_name is None and role is Role.USER and given_id in (None, frame.owner):
        return frame.owner, frame.display_name or frame.owner
    if given_id is None and given_name is None:
        return role.value, role.value
    if given_id is None:
        name = checked_name(given_name, f"{where} name")
        return name, name
    speaker = checked_name(given_id, f"{where} speaker_id")
    return speaker, speaker if given_name is None else checked_name(given_name, f"{where} name")
