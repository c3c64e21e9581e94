"""Conversations as a reader finds them, made into sessions; what can't be read of them is counted."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, tzinfo
from pathlib import PurePath
from shlex import quote
from typing import Any

from memforest_core.domain.chat_messages import TurnInput, turn_fields
from memforest_core.domain.times import EARLIEST, LATEST
from memforest_core.domain.turns import MAX_CHANNEL_CHARS, TurnLimits
from memforest_core.errors import InvalidInput
from memforest_core.ingest.formats.fields import Dates, leaves, one_name, squeezed, value_of, when
from memforest_core.ingest.formats.file_items import Converted, Item, Refused, Wordless, bad_item, name_of, turns_of

ROLES = {
    **dict.fromkeys(("user", "human", "customer", "member", "client", "you"), "user"),
    **dict.fromkeys(("assistant", "ai", "bot", "chatbot", "agent", "model", "gpt"), "assistant"),
    **dict.fromkeys(("chatgpt", "bing", "bard"), "assistant"),
    **dict.fromkeys(("system", "developer"), "system"),
    **dict.fromkeys(("tool", "function", "function_call", "observation"), "tool"),
}
"""What the values of a role's field mean, in small letters."""
_MODEL = re.compile(
    r"chatgpt.*|copilot|gemini(?:[- ].*)?|gpt[- ]?[345o].*|claude[- ](?:\d|opus|sonnet|haiku|instant).*|llama[- ]?\d.*"
    r"|(?:mistral|mixtral|deepseek|qwen)[-\d].*"
)
"""Names of models: what speaks under one is an assistant."""
_KINDS = {
    "image": "jpg jpeg png gif webp heic heif bmp tiff svg avif",
    "video": "mp4 mov webm mkv avi 3gp m4v",
    "audio": "opus ogg oga mp3 m4a aac wav amr flac caf",
    "contact": "vcf",
}
_ENDINGS = {ending: kind for kind, endings in _KINDS.items() for ending in endings.split()}


def mark(kind: str | None = None, name: object = None) -> str:
    """An attachment in the text: ``[image: cat.png]``. Without a kind, or given a media type, it is the name's."""
    if isinstance(name, str) and name.startswith("data:"):
        kind, name = kind or name[5:100], None  # the file itself
    kind = (kind or "").partition("/")[0].strip()
    own = PurePath(str(name).partition("?")[0]).name if isinstance(name, str) else ""
    if kind in ("", "application", "text"):
        kind = _ENDINGS.get(own.rpartition(".")[2].lower(), "file")
    return f"[{kind}: {own}]" if own else f"[{kind}]"


@dataclass(slots=True)
class Message:
    """A message as a reader found it."""

    text: str | None
    """None: there is no body that can be read; empty: nothing was said."""
    role: str | None = None
    """user, assistant, system or tool; None: a person, named by the speaker."""
    speaker: str | None = None
    speaker_id: str | None = None
    """A name that stays, and an id that the export's product gave."""
    time: object = None
    """In any form that ``when`` reads."""
    id: str | None = None
    reply: str | None = None
    """The id of the message that it answers."""
    edited: object = None
    """True, or when."""
    mine: bool = False
    """The export says that the account's owner said it."""
    files: Sequence[str] = ()
    """Attachments as ``mark`` writes them."""
    known_as: Sequence[str] = ()
    """Other names of the speaker, by which --me may name the owner."""
    metadata: Mapping[str, object] = field(default_factory=dict)
    raw: object = None
    """The message in the file: names the fields when one can't be read."""


@dataclass(slots=True)
class Talk:
    """A conversation as a reader found it."""

    position: int
    session: str | None
    messages: list[Message]
    title: str | None = None
    channel: str | None = None
    started: object = None
    owner: str | None = None
    """Whose memory it is by the file; --owner wins."""
    me: Sequence[str] = ()
    """Names and ids of the account that exported it, where the export says so."""
    notices: int = 0
    """What the app said (somebody joined, a call, a deleted message): left out, and counted."""
    people: bool = False
    """People talk to each other: the owner must be known by name."""

    def add(self, message: Message | None) -> None:
        """Add what somebody said; None is a notice."""
        if message is None:
            self.notices += 1
        else:
            self.messages.append(message)


@dataclass(frozen=True, slots=True)
class Options:
    """What the caller says of a file."""

    owner: str | None = None
    session: str | None = None
    """The session of a file of one conversation."""
    me: str | None = None
    """The owner's name or id as a speaker; empty: none of them."""
    names: Mapping[str, str] = field(default_factory=dict)
    roles: Mapping[str, str] = field(default_factory=dict)
    """--map: names of fields, and what values of the role mean."""
    dates: Dates = field(default_factory=Dates)
    zone: tzinfo = UTC
    """Of times without one."""
    skip_unread: bool = False
    fallback: str | None = None
    """What conversations are called that have no id: the file's name."""


@dataclass(frozen=True, slots=True)
class Fields:
    """Under which names (as ``value_of`` takes them) a format's messages have what a turn needs."""

    text: str = "content text message body parts contents value"
    speaker: str = (
        "name speaker speaker_name sender_name author_name display_name username author.name author.display_name"
        " author.username author.nickname sender.name sender.display_name user.name user.display_name from.name"
        " from.display_name from.user.display_name from_name author sender from nick nickname user"
    )
    speaker_id: str = "speaker_id author_id sender_id user_id from_id author.id sender.id user.id from.id uid"
    role: str = "role sender_role author.role sender.role message.role sender_type author_type sender author from type"
    time: str = (
        "timestamp timestamp_ms created_at create_time created sent_at send_date send_time date_time sent_time time"
        " date ts datetime created_date date_created occurred_at inserted_at message_time"
    )
    id: str = "id message_id uuid msg_id _id guid"
    reply: str = "reply_to reply_to_message_id reply_to_id in_reply_to parent_message_id reference.message_id quoted_id"
    edited: str = "edited edited_at timestamp_edited edited_timestamp"
    files: str = "attachments files images media"
    mine: str = "is_from_me from_me is_me is_outgoing"
    metadata: str = ""

    def mapped(self, names: Mapping[str, str]) -> Fields:
        """These fields with the names of --map in place of their own."""
        changed: dict[str, Any] = {what: one_name(name) for what, name in names.items() if what in MAPPED}
        return replace(self, **changed) if changed else self

    def message(self, raw: Mapping[str, object], roles: Mapping[str, str], where: str) -> Message:
        """A message of these fields; ``roles`` are the caller's. Raises InvalidInput for content of no known form."""
        named = self._role(raw, roles)
        speaker = value_of(raw, self.speaker)
        if isinstance(speaker, str) and named is not None and squeezed(speaker) in ROLES:
            speaker = None  # the role's name
        person = value_of(raw, self.speaker_id)
        if named not in (None, "user") and self.speaker_id == USUAL.speaker_id and value_of(raw, "speaker_id") is None:
            person = None  # in most histories user_id says whose conversation it is, the assistant's messages too
        content = value_of(raw, self.text)
        return Message(
            text_of(content, named or "user", where) if content is not None else self._empty(raw),
            named,
            name_of(speaker),
            name_of(person),
            value_of(raw, self.time),
            name_of(value_of(raw, self.id)),
            name_of(value_of(raw, self.reply)),
            value_of(raw, self.edited),
            str(value_of(raw, self.mine)).lower() in ("true", "1", "yes"),
            files=marks(value_of(raw, self.files)),
            metadata={name: found for name in self.metadata.split() if (found := value_of(raw, name))},
            raw=raw,
        )

    def _role(self, raw: Mapping[str, object], roles: Mapping[str, str]) -> str | None:
        """What the first field with a known role says."""
        for name in self.role.split():
            given = value_of(raw, name)
            if given is None or isinstance(given, Mapping | list):
                continue
            value = str(given).strip().lower()
            if found := roles.get(value) or ROLES.get(value) or ("assistant" if _MODEL.fullmatch(value) else None):
                return found
        return roles.get("")

    def _empty(self, raw: Mapping[str, object]) -> str | None:
        """Nothing, where a field of the text is there and says nothing."""
        there = {squeezed(str(name)) for name in raw}
        return None if there.isdisjoint(map(squeezed, self.text.split())) else ""


MAPPED = ("text", "speaker", "speaker_id", "role", "time", "id", "reply", "edited", "files")
USUAL = Fields()
NONE = Fields("", "", "", "", time="", id="", reply="", edited="", files="", mine="")
"""To be given the names that a format has, by ``replace``."""


def text_of(content: object, role: str, where: str) -> str | None:
    """The text of a content in any form of a chat API; None where nothing in it can be read. Raises InvalidInput."""
    if isinstance(content, str):
        return content
    if isinstance(content, Mapping):
        inner = value_of(content, "parts text content value body")
        return None if inner is None else text_of(inner, role, where)
    if isinstance(content, list):
        said = turn_fields({"role": role, "content": content}, where).get("content")
        return said if isinstance(said, str) else ""
    return None


def marks(found: object) -> list[str]:
    """Attachments of the usual forms: names, or objects with a name, a file name or an address."""
    items = found if isinstance(found, list) else [found] if found else []
    made: list[str] = []
    for item in items:
        if isinstance(item, str):
            made.append(mark(None, item))
        elif isinstance(item, Mapping):
            kind = value_of(item, "mime_type mimetype media_type content_type file_type contentType type")
            name = value_of(item, "file_name filename name title uri path url")
            made.append(mark(str(kind) if kind else None, name))
    return made


@dataclass(slots=True)
class Findings:
    """What a file has, counted before anything of it is stored."""

    sessions: int = 0
    messages: int = 0
    turns: int = 0
    undated: int = 0
    """Turns that get the time of the import."""
    wordless: int = 0
    notices: int = 0
    """What an app said, which is left out."""
    unread: Counter[str] = field(default_factory=Counter)
    """Messages whose sender, time or body could not be read, of those that readers found."""
    examples: dict[str, Mapping[str, object]] = field(default_factory=dict)
    """A message of each of these."""
    speakers: Counter[str] = field(default_factory=Counter)
    mine: Counter[str] = field(default_factory=Counter)
    """Turns of others by speaker, and those of the owner by the names they speak under."""
    names: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Sessions by owner and id."""
    mine_ids: set[str] = field(default_factory=set)
    """Ids of those who speak under the owner's name."""
    persons: set[str] = field(default_factory=set)
    """Speakers that the owner could be."""
    named: bool = False
    """A message has a speaker's name or id."""
    owns: bool = False
    """A message is the owner's by the export, or by --me."""
    zone: tzinfo = UTC
    zoneless: int = 0
    """Turns whose times have no zone: they are in ``zone``."""
    needs_me: bool = False
    """People talk to each other, and nothing says which speaker is the owner."""
    mapped: set[str] = field(default_factory=set)
    """What of --map is in a message."""
    first: datetime | None = None
    last: datetime | None = None
    shown: list[tuple[str, TurnInput]] = field(default_factory=list)
    """The first turns with their sessions, as they would be stored."""
    refused: list[Refused] = field(default_factory=list)

    def note(self, what: str, raw: object) -> None:
        """Count a message of which this can't be read."""
        self.unread[what] += 1
        if isinstance(raw, Mapping):
            self.examples.setdefault(what, raw)

    def count(self, item: Item) -> None:
        """Count a session with its turns, or what was refused."""
        if isinstance(item, Refused):
            self.refused += [item][: MAX_REFUSED - len(self.refused)]
        elif isinstance(item, Wordless):
            self.wordless += 1
        else:
            self.sessions += 1
            self.names[item.owner, item.session_id] += 1
            for turn in item.turns:
                self._turn(item, turn)

    def _turn(self, item: Converted, turn: TurnInput) -> None:
        self.turns += 1
        if len(self.shown) < SHOWN:
            self.shown.append((item.session_id, turn))
        named = turn.get("name") or turn.get("speaker_id")
        user = turn["role"] == "user"
        mine = user and (turn.get("speaker_id") == item.owner if named else True)
        (self.mine if mine else self.speakers)[named or (item.owner if mine else turn["role"])] += 1
        if user and named and not mine and len(self.persons) < MAX_REFUSED:
            self.persons.add(named)
        moment = when(turn.get("timestamp", item.started_at), Dates("dmy"))
        if moment is None:
            self.undated += 1
        else:
            aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=self.zone)
            self.zoneless += moment.tzinfo is None and item.time_zone is None
            self.first = min(self.first or aware, aware)
            self.last = max(self.last or aware, aware)


SHOWN = 3
MAX_REFUSED = 1_000
_WORDS = re.compile(r"([a-z])(?=[A-Z])")
_WANTED = {
    "sender": ("speaker", r"author|sender|from|user|name|speaker|role|who|nick|(?:^|_)(?:by|as)(?:$|_)"),
    "time": ("time", r"time|date|created|sent|stamp|when|(?:^|_)(?:ts|at|on)(?:$|_)"),
    "body": ("content", r"text|body|content|message|msg|value|markup|said|words"),
}
"""What is requested with --map, and what the names that it is likely under have in them."""


def unread_sentence(findings: Findings, what: str, role_name: str = "role", count: int | None = None) -> str:
    """How many messages have no such thing that can be read, which fields they have, and what to try."""
    option, likely = _WANTED[what]
    example = findings.examples.get(what, {})
    paths = [path for path, leaf in leaves(example) if isinstance(leaf, str | int | float)]
    near = [path for path in paths if re.search(likely, _WORDS.sub(r"\1_", path), re.I)]
    total = max(findings.messages, findings.turns)
    said = f"{count or findings.unread[what]} of {total} messages have no {what} that I can read"
    role = value_of(example, role_name)
    if what == "sender" and isinstance(role, str | int):
        return f"{said}: their role is {str(role)!r:.40}; try --map 'role:{role!s:.40}=user'"
    found = ", ".join((near or (paths if what != "time" else []))[:8])
    tried = quote(f"{option}={near[0] if near else 'FIELD'}")
    return f"{said}: fields are {found}; try --map {tried}" if found else said


class Sessions:
    """Makes sessions of conversations, by one rule for all formats, and counts what it finds."""

    def __init__(self, options: Options, findings: Findings) -> None:
        self._options = options
        self._findings = findings
        findings.zone = options.zone
        self._unnamed = 0

    def made(self, found: Iterable[Talk | Item]) -> Iterator[Item]:
        """The sessions of conversations; items that are sessions already stay as they are. Raises InvalidInput without
        an owner or a session's name."""
        for one in found:
            for item in self._of(one) if isinstance(one, Talk) else [one]:
                self._findings.count(item)
                yield item

    def _of(self, talk: Talk) -> list[Item]:
        self._options.dates.begin(f"{talk.position} {talk.session}")
        self._findings.notices += talk.notices
        name = self._options.session or talk.session
        if name is None and self._options.fallback:
            self._unnamed += 1
            name = self._options.fallback + (f"#{self._unnamed}" if self._unnamed > 1 else "")
        if name is None:
            raise InvalidInput("Give --session: nothing says which conversation this is.", code="missing_session")
        owner = self._options.owner or talk.owner
        if owner is None:
            raise InvalidInput("Give --owner: the file does not say whose memory this is.", code="missing_owner")
        given = talk.me if self._options.me is None else [self._options.me]
        me = {str(each).casefold() for each in given}
        if talk.people and not given and not any(message.mine for message in talk.messages):
            self._findings.needs_me = True
        turns: list[TurnInput] = []
        seen: dict[str, str] = {}
        for message, moment in self._in_order(talk):
            turns += self._turns(message, moment, owner, me, seen)
        if not turns:
            return [Wordless(talk.position, name)]
        if talk.title:
            turns[0]["metadata"] = {"title": talk.title, **turns[0].get("metadata", {})}
        begun = _stamp(self._moment(talk.started))
        channel = talk.channel[:MAX_CHANNEL_CHARS] if talk.channel else None
        most = TurnLimits().max_turns
        parts = {f"{name}#{at // most + 1}" if at else name: turns[at : at + most] for at in range(0, len(turns), most)}
        return [Converted(talk.position, owner, part, said, begun, channel=channel) for part, said in parts.items()]

    def _moment(self, given: object) -> datetime | None:
        """A time that can be stored."""
        moment = when(given, self._options.dates)
        return moment if moment is not None and EARLIEST <= _aware(moment) < LATEST else None

    def _in_order(self, talk: Talk) -> list[tuple[Message, datetime | None]]:
        """The messages with their times, oldest first: those of people by time, others turned when newest first."""
        timed = [(message, self._moment(message.time)) for message in talk.messages]
        dated = [_aware(moment) for _, moment in timed if moment is not None]
        for message, moment in timed:
            if moment is None and (dated or message.time is not None):
                self._findings.note("time", message.raw)
            elif moment is None and talk.started is None and isinstance(message.raw, Mapping):
                self._findings.examples.setdefault("time", message.raw)
        if len(dated) > 1 and dated[0] > dated[-1] and dated == sorted(dated, reverse=True):
            timed.reverse()
            dated.reverse()
        if not talk.people or len(dated) != len(timed):
            return timed
        return [timed[at] for at in sorted(range(len(timed)), key=dated.__getitem__)]

    def _turns(
        self, message: Message, moment: datetime | None, owner: str, me: set[str], seen: dict[str, str]
    ) -> list[TurnInput]:
        findings = self._findings
        findings.messages += 1
        unread = message.text is None and not message.files
        unnamed = not (message.role or message.speaker or message.speaker_id or message.mine)
        for what, missing in (("body", unread), ("sender", unnamed)):
            if missing:
                findings.note(what, message.raw)
        for what, name in self._options.names.items():
            if value_of(message.raw, one_name(name)) is not None:
                findings.mapped.add(what)
        if unread or unnamed:
            return []
        more = {"reply_to": message.reply, "edited": message.edited, **message.metadata}
        metadata = {name: value for name, value in more.items() if value}
        text = "\n".join(part for part in [(message.text or "").strip(), *message.files] if part)
        own = message.id
        if own is not None and own in seen:
            if seen[own] == text:
                return []
            own = f"{own}~{len(seen)}"
        seen[own or ""] = text
        named, speaker = message.speaker, message.speaker_id
        said = {name.casefold() for name in (named, speaker, *message.known_as) if name}
        role = message.role or "user"
        findings.named |= role == "user" and bool(said)
        if role == "user" and (message.mine or said & me):
            findings.owns = True
            if speaker and not message.mine:
                findings.mine_ids.add(speaker)
            named, speaker = named or self._options.me or None, owner
        made = turns_of(role, text, id=own, metadata=metadata, timestamp=_stamp(moment), name=named)
        return made if speaker is None else [{**turn, "speaker_id": speaker} for turn in made]


def _aware(moment: datetime) -> datetime:
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _stamp(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


def _listed(findings: Findings) -> str:
    counts = findings.speakers + findings.mine
    names = sorted(findings.persons | set(findings.mine), key=lambda name: (-counts[name], name))
    more = f" and {len(names) - 20} more" if len(names) > 20 else ""
    return ", ".join(f"{name} ({counts[name]})" for name in names[:20]) + more


ME_UNUSED = "--me is not used: this is no chat among people"


def warnings_of(findings: Findings, options: Options) -> list[str]:
    """Sentences about what would be stored otherwise than it may be meant. Raises InvalidInput in one sentence for
    what must not be stored: nobody known to be the owner, senders or bodies not read, names of --map in no message."""
    if findings.needs_me:
        raise InvalidInput(
            f"Say which speaker is the owner with --me NAME (--me '' for none): {_listed(findings)}.", code="missing_me"
        )
    if options.me and len(findings.mine_ids) > 1:
        ids = ", ".join(sorted(findings.mine_ids)[:20])
        raise InvalidInput(
            f"Several speakers are called {options.me!r:.80}: give --me ID, one of {ids}.", code="unknown_me"
        )
    said: list[str] = []
    (_, name), most = next(iter(findings.names.most_common(1)), (("", ""), 0))
    if most > 1:
        said.append(f"{most} conversations are called {name!r:.80}: those that differ from the first are refused")
    if options.me and findings.turns and not findings.owns:
        if findings.named:
            raise InvalidInput(
                f"Nobody is called {options.me!r:.80}: speakers are {_listed(findings)}. Give --me '' for none of"
                " them.",
                code="unknown_me",
            )
        said.append(ME_UNUSED)
    missing = [what for what in options.names if what in MAPPED and what not in findings.mapped]
    if missing and findings.messages:
        what = missing[0]
        raise bad_item(f"No message has {options.names[what]!r:.80}, which --map names for {what}.")
    role = options.names.get("role", "role")
    said += [unread_sentence(findings, what, role) for what in ("sender", "body") if findings.unread[what]]
    if findings.unread["sender"] + findings.unread["body"] and not options.skip_unread:
        hint = " (role:=user when all without a sender are the owner's)" if findings.unread["sender"] else ""
        raise InvalidInput(f"{'. '.join(said)}{hint}, or leave them out with --skip-unread.", code="unread_messages")
    undated = max(findings.undated, findings.unread["time"])
    if undated:
        said.append(
            unread_sentence(findings, "time", count=undated) + ": they get the time before them, or of the import"
        )
    if options.me is None and findings.persons and not findings.mine:
        said.append(f"Nobody is taken for the owner; --me NAME says which speaker is: {_listed(findings)}")
    return [f"{one}." for one in said]
