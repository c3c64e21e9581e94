"""Readers of chats among people: messengers and chat servers. What the app says of itself is left out, and counted.

WhatsApp ("Export chat", lines of text): phones write the time as their language has it. Telegram Desktop ("Export chat
history", ``result.json``): https://core.telegram.org/import-export. Slack's export:
https://slack.com/help/articles/220556107. Discord: https://github.com/Tyrrrz/DiscordChatExporter, JSON. Instagram and
Messenger ("Download your information", JSON): UTF-8 is written as if each byte was a character. Teams: messages of
Microsoft Graph (https://learn.microsoft.com/graph/api/resources/chatmessage), and the personal export. iMessage: the
table that iMazing writes.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import PurePosixPath

from memforest_core.domain.turns import levels_of
from memforest_core.errors import InvalidInput
from memforest_core.ingest.formats.export_files import File
from memforest_core.ingest.formats.fields import NUMERIC_TIME, plain_html, squeezed, value_of
from memforest_core.ingest.formats.file_items import Refused, Value, bad_item, list_of, mapping_of, name_of
from memforest_core.ingest.formats.format_table import Format, Found, each_value
from memforest_core.ingest.formats.history import History
from memforest_core.ingest.formats.talks import NONE, USUAL, Message, Options, Talk, mark, marks


def _talk(position: int, session: str, title: str | None, channel: str | None, found: Iterable[Message | None]) -> Talk:
    """A conversation among people; None is a notice."""
    talk = Talk(position, session, [], title, channel, people=True)
    for message in found:
        talk.add(message)
    return talk


def _messages(chat: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    return (mapping_of(raw, "A message") for raw in list_of(chat.get("messages") or [], "messages"))


# WhatsApp

_LINE = re.compile(rf"^[\u200e\u200f\ufeff]*(?P<open>\[)?{NUMERIC_TIME}(?(open)\]\s?|\s+[-–—]\s+)(?P<rest>.*)$")
_RTL = re.compile("[\u200f\u202a-\u202e\u2066-\u2069]")
_SENDER = re.compile(r"(?P<name>[^:\n\"“”„«»]{1,100}):(?:\s|$)(?P<text>.*)", re.DOTALL)
_KIND_WORDS = {
    "image": "image bild imagen imagem foto immagine afbeelding obraz изображение 画像 图片 이미지 görsel",
    "video": "video vídeo vidéo видео 動画 视频 동영상",
    "audio": "audio аудио オーディオ 音频 오디오 ses",
    "sticker": "sticker figurinha autocollant стикер ステッカー 스티커 çıkartma",
    "gif": "gif",
    "contact": "contact kontaktkarte contacto contatto",
    "file": "document dokument documento documenten документ ドキュメント 문서 belge",
}
_KIND_OF = {word: kind for kind, words in _KIND_WORDS.items() for word in words.split()}
_OMITTED = re.compile(r"(?:^|\u200e)(?P<kind>image|video|audio|sticker|GIF|document|Contact card) omitted$", re.I)
_ATTACHED = re.compile(r"\u200e?<[^<>:\n]{3,25}\s?:\s(?P<name>[^<>\n]+\.\w{1,5})>")
_FILE = re.compile(
    r"^\u200e?(?P<name>[^\n/<>]+\.\w{2,5}) \([^()\n]*(?:attach|angehängt|adjunt|joint|allegat|anexad|bijgevoegd|vedhæft"
    r"|bifoga|vedlagt|liite|załączon|прикреп|添付|附件|첨부|eklendi)[^()\n]*\)(?:\n|$)",
    re.I,
)
_HIDDEN = re.compile(
    r"<[^<>\n]{0,80}(?:medi|mídia|médi|медиа|multimed|メディア|媒體|媒体|미디어|medya|وسائط)[^<>\n]{0,80}>", re.I
)
_EDITED = re.compile(
    r"\u200e?<[^<>]{0,80}(?:edit|bearbeit|modifi|bewerk|redig|измен|编辑|編集|수정|düzenle)[^<>]{0,80}>$", re.I
)
_DELETED = re.compile(
    r"(?:null|This message was deleted(?: by admin .*)?|You deleted this message(?: as admin)?"
    r"|Waiting for this message.*|Diese Nachricht wurde(?: von .{1,60})? gelöscht"
    r"|Du hast diese Nachricht gelöscht|Se eliminó este mensaje|Eliminaste este mensaje|Este mensaje fue eliminado"
    r"|Ce message a été supprimé|Vous avez supprimé ce message"
    r"|(?:Esta m|Essa m|M)ensagem (?:foi )?apagada|Você apagou esta mensagem|Questo messaggio è stato eliminato"
    r"|Hai eliminato questo messaggio|Dit bericht is verwijderd|(?:Je hebt|U heeft) dit bericht verwijderd"
    r"|Данное сообщение удалено|Вы удалили данное сообщение|Detta meddelande raderades|To wiadomość została usunięta"
    r"|Bu mesaj silindi|此消息已删除|このメッセージは削除されました|삭제된 메시지입니다)\.?",
    re.I,
)
_TITLE = re.compile(r"^WhatsApp[ _-]*Chat(?:[ _-]+(?:with|mit|con|avec|com|met|-))?[ _-]+", re.I)


def _whatsapp(files: Sequence[File], options: Options) -> Iterator[Found]:
    for position, file in enumerate(files, start=1):
        stem = file.stem if file.stem != "_chat" else PurePosixPath(file.folder or file.archive).stem
        title = _TITLE.sub("", stem) or stem
        found = list(_whatsapp_lines(file))
        if not found:
            raise InvalidInput(f"{file.name} has no line that begins with a time.", code="unreadable_file")
        # The group itself is written as the sender of notices, all of which begin with a mark of direction.
        said = {name for _, name, text in found if name and not text.startswith("\u200e")}
        group = {name for _, name, text in found if name and name not in said and not _attachment(text)}
        made = (
            None if name is None or name in group else _whatsapp_message(time, name, text) for time, name, text in found
        )
        yield _talk(position, f"whatsapp-{title}", next(iter(group), title), "whatsapp", made)


def _whatsapp_lines(file: File) -> Iterator[tuple[str, str | None, str]]:
    """Time, sender (None: the app) and text of each message; lines without a time belong to the one before."""
    time, lines = "", list[str]()
    for line in file.lines():
        line = _RTL.sub("", line[:60]) + line[60:]
        found = _LINE.match(line)
        if found is None:
            lines.append(line)
            continue
        if time:
            yield time, *_sender("\n".join(lines))
        begins = found.end("open") if found["open"] else found.start("a")
        time, lines = line[begins : found.start("rest")].strip("] -–—\u200e\u200f"), [found["rest"]]
    if time:
        yield time, *_sender("\n".join(lines))


def _sender(rest: str) -> tuple[str | None, str]:
    found = _SENDER.match(rest)
    if found is None:
        return None, rest
    return re.sub(r"^[\u200e\u200f]*(?:~\s)?", "", found["name"]).strip(), found["text"].strip(" ")


def _attachment(text: str) -> bool:
    first = text.removeprefix("\u200e").split()
    known = any(word.lower().strip(".") in _KIND_OF for word in first) and len(first) <= 5
    return known or bool(_ATTACHED.search(text) or _FILE.match(text) or _OMITTED.search(text))


def _whatsapp_message(time: str, name: str, text: str) -> Message | None:
    """A message with its attachments as marks; None for a notice."""
    plain = _EDITED.sub("", text)
    plain = plain if plain == text else plain.rstrip()
    bare = plain.replace("\u200e", "").strip()
    if _DELETED.fullmatch(bare):
        return None
    files = [mark(None, found["name"]) for found in _ATTACHED.finditer(plain)]
    rest = _ATTACHED.sub("", plain)
    if attached := _FILE.match(rest):
        files, rest = [mark(None, attached["name"])], rest[attached.end() :]
    elif omitted := _OMITTED.search(rest):
        files, rest = [mark(_KIND_OF[omitted["kind"].lower().split()[0]])], rest[: omitted.start()]
    elif _HIDDEN.fullmatch(bare) and not files:
        files, rest = [mark("file")], ""
    elif plain.startswith("\u200e") and not files:
        kinds = [kind for word in bare.split() if (kind := _KIND_OF.get(word.lower()))]
        if len(bare.split()) <= 5 and kinds:
            files, rest = [mark(kinds[0])], ""
        elif "://" not in bare and ":" not in bare:
            return None
    said = rest.replace("\u200e", "").strip()
    return Message(said, speaker=name, time=time, edited=plain != text, files=files)


# Telegram

_TELEGRAM = replace(
    NONE, text="text", speaker="from", speaker_id="from_id", time="date_unixtime date", id="id",
    reply="reply_to_message_id", edited="edited", metadata="forwarded_from",
)  # fmt: skip
_TELEGRAM_MEDIA = {
    "voice_message": "audio", "audio_file": "audio", "video_message": "video", "video_file": "video",
    "animation": "gif", "sticker": "sticker",
}  # fmt: skip


def _telegram(value: Value, options: Options) -> Iterator[Found]:
    chat = mapping_of(value.content, "A chat")
    account = name_of(value_of(value.outer, "personal_information.user_id"))
    title = name_of(chat.get("name")) or str(chat.get("type") or "chat").replace("_", " ")
    session = f"telegram-{name_of(chat.get('id')) or title}"
    talk = _talk(value.position, session, title, "telegram", map(_telegram_message, _messages(chat)))
    talk.me = [f"user{account}"] if account else []
    yield talk


def _telegram_message(raw: Mapping[str, object]) -> Message | None:
    if raw.get("type", "message") != "message":
        return None
    text = raw.get("text")
    parts = [raw] if isinstance(text, str) else text if isinstance(text, list) else []
    said = "".join(part if isinstance(part, str) else str(value_of(part, "text") or "") for part in parts)
    links = [str(found) for part in parts if (found := value_of(part, "href")) and str(found) not in said]
    whole = "\n".join([said, *links]) if parts or text == [] else None
    message = _TELEGRAM.message({**raw, "text": whole}, {}, "A message")
    files: list[str] = []
    if raw.get("photo"):
        files.append(_telegram_file("image", raw["photo"]))
    if raw.get("file") or raw.get("media_type"):
        kind = _TELEGRAM_MEDIA.get(str(raw.get("media_type"))) or str(raw.get("mime_type") or "")
        files.append(_telegram_file(kind, value_of(raw, "file_name file") or raw.get("sticker_emoji")))
    if place := raw.get("location_information"):
        files.append(f"[location: {value_of(place, 'latitude')}, {value_of(place, 'longitude')}]")
    if contact := raw.get("contact_information"):
        named = [str(found) for key in ("first_name", "last_name") if (found := value_of(contact, key))]
        files.append(mark("contact", " ".join(named)))
    if poll := raw.get("poll"):
        answers = value_of(poll, "answers")
        options = [str(value_of(each, "text")) for each in answers] if isinstance(answers, list) else []
        files.append(f"[poll: {' | '.join([str(value_of(poll, 'question')), *options])}]")
    return replace(message, files=files, text=whole if whole is not None or not files else "", raw=raw)


def _telegram_file(kind: str, name: object) -> str:
    return mark(kind, None if str(name).startswith("(File") else name)


# Slack

_SPOKEN = {"", "bot_message", "thread_broadcast", "reply_broadcast", "file_share", "file_comment", "me_message"}
_MARKUP = re.compile(r"<(?P<sign>[@#!]?)(?P<target>[^<>|]*)(?:\|(?P<label>[^<>]*))?>")
SLACK_LISTS = {"users", "channels", "groups", "dms", "mpims"}
_PERSON = "profile.display_name profile.real_name real_name display_name name"
_SLACK = replace(
    NONE, time="ts", id="ts", speaker_id="user bot_id",
    speaker="user_profile.display_name user_profile.real_name username bot_profile.name",
)  # fmt: skip


def _slack(files: Sequence[File], options: Options) -> Iterator[Found]:
    """A conversation for each channel, its days in one; replies of threads name the message that they answer."""
    by_name = {PurePosixPath(file.name).name: file for file in files if file.stem in SLACK_LISTS}
    near = files[0].path.parent.parent / "users.json" if len(files) == 1 and files[0].path else None
    if "users.json" not in by_name and near is not None and near.is_file():
        by_name["users.json"] = File("users.json", 0, lambda: near.open("rb"))
    users = list(_objects(by_name.get("users.json")))
    called = {name_of(raw.get("id")): [name_of(value_of(raw, one)) for one in _PERSON.split()] for raw in users}
    names = {id_: [name for name in each if name] for id_, each in called.items()}
    people = {id_: each[0] for id_, each in names.items() if each}
    titles: dict[str | None, str] = {}
    for raw in (*_objects(by_name.get("dms.json")), *_objects(by_name.get("mpims.json"))):
        members = raw.get("members")
        named = [people.get(str(one), str(one)) for one in members] if isinstance(members, list) else []
        titles[name_of(raw.get("name")) or name_of(raw.get("id"))] = ", ".join(named)
    days = [file for file in files if file.stem not in SLACK_LISTS and file.name.endswith(".json")]
    for position, (folder, of) in enumerate(groupby(sorted(days, key=lambda f: f.name), lambda f: f.folder), start=1):
        found = [raw for file in of for raw in _objects(file) if "ts" in raw]
        path = files[0].path
        channel = PurePosixPath(folder).name or (path.parent.name if path is not None else "slack")
        if found:
            said = (_slack_message(raw, people, names) for raw in found)
            yield _talk(position, f"slack-{channel}", titles.get(channel) or channel, channel, said)


def _objects(file: File | None) -> Iterator[Mapping[str, object]]:
    """The objects of a list in a file. Raises InvalidInput."""
    for value in file.values() if file is not None else ():
        if isinstance(value, Refused):
            raise value.error
        if isinstance(value.content, dict):
            yield value.content


def _slack_message(
    raw: Mapping[str, object], people: Mapping[str | None, str], names: Mapping[str | None, Sequence[str]]
) -> Message | None:
    if str(raw.get("subtype") or "") not in _SPOKEN:
        return None
    user = name_of(raw.get("user"))
    text = raw.get("text")
    if not text and isinstance(raw.get("attachments"), list):
        inner = [value_of(each, "text fallback title") for each in list_of(raw["attachments"], "attachments")]
        text = "\n".join(str(each) for each in inner if each)
    thread, attached = name_of(raw.get("thread_ts")), list_of(raw.get("files") or [], "files")
    message = _SLACK.message(raw, {}, "A message")

    def written(found: re.Match[str]) -> str:
        sign, target, label = found["sign"], found["target"], found["label"]
        if sign == "@":
            return "@" + (people.get(target) or (label or target).lstrip("@"))
        if sign:
            return ("#" if sign == "#" else "@") + (label or target.partition("^")[0]).lstrip("#@")
        target = target.removeprefix("mailto:")
        return f"{label} ({target})" if label and label not in target else target

    return replace(
        message,
        text=html.unescape(_MARKUP.sub(written, text)) if isinstance(text, str) else None,
        speaker=people.get(user) or message.speaker,
        known_as=names.get(user, ()),
        reply=thread if thread != message.id else None,
        edited=raw.get("edited") is not None,
        files=marks([each for each in attached if value_of(each, "mode") != "tombstone"]),
    )


# Discord

_DISCORD = replace(
    NONE, text="content forwarded_message.content", speaker="author.nickname author.name", speaker_id="author.id",
    time="timestamp", id="id", reply="reference.message_id", edited="timestamp_edited", files="attachments",
)  # fmt: skip
_DISCORD_SAID = {"Default", "Reply", "ThreadStarterMessage", "20", "21", "23"}


def _discord(value: Value, options: Options) -> Iterator[Found]:
    export = mapping_of(value.content, "The export")
    name, guild = (name_of(value_of(export, path)) for path in ("channel.name", "guild.name"))
    found = (_discord_message(raw, options, f"Message {at}") for at, raw in enumerate(_messages(export), start=1))
    session = f"discord-{name_of(value_of(export, 'channel.id')) or name}"
    yield _talk(value.position, session, name, f"{guild} / {name}" if guild else name, found)


def _discord_message(raw: Mapping[str, object], options: Options, where: str) -> Message | None:
    if str(raw.get("type", "Default")) not in _DISCORD_SAID:
        return None
    message = _DISCORD.mapped(options.names).message(raw, options.roles, where)
    stickers = [mark("sticker", value_of(each, "name")) for each in list_of(raw.get("stickers") or [], "stickers")]
    embeds = [] if message.text else list_of(raw.get("embeds") or [], "embeds")
    shown = [str(found) for each in embeds for key in ("title", "description") if (found := value_of(each, key))]
    return replace(message, text="\n".join(shown) if shown else message.text, files=[*message.files, *stickers])


# Instagram and Messenger

_META = replace(NONE, text="content text", speaker="sender_name", time="timestamp_ms timestamp")
_META_FILES = {"photos": "image", "videos": "video", "audio_files": "audio", "gifs": "gif", "files": "", "media": ""}
_META_UNSAID = ("Subscribe", "Unsubscribe", "Call", "placeholder")
_META_NOTICE = re.compile(
    r"named the group\b.*|(?:created|left|joined) the group(?: chat)?\.|(?:added|removed) .+ (?:to|from) the group\.?"
    r"|(?:changed|set|cleared|removed) (?:the|your|his|her|their|.{1,60}['’]s) (?:group|chat|nickname|theme|emoji)\b.*"
    r"|(?:started|ended|joined|missed) (?:a|an|the|your) (?:video |audio )?(?:chat|call)\.?|pinned a message\.?"
)
_REACTED = re.compile(r"(?:Reacted .{1,20} to your message|Liked a message)\s*")
_SENT = re.compile(r"^.{1,80} sent (?:an?|\d+) (?:attachment|photo|video|voice message|link|sticker|GIF)s?\.$")


def repaired(value: object) -> object:
    """A JSON value in whose texts each byte of UTF-8 was written as a character."""
    if isinstance(value, str):
        try:
            return value.encode("latin-1").decode()
        except UnicodeError:
            return value
    if isinstance(value, list):
        return [repaired(each) for each in value]
    return {key: repaired(each) for key, each in value.items()} if isinstance(value, dict) else value


def _meta(files: Sequence[File], options: Options) -> Iterator[Found]:
    """A conversation for each folder of ``message_1.json``, ``message_2.json`` ..., or for each file elsewhere."""

    def thread(file: File) -> str:
        return file.folder if re.fullmatch(r"message_\d+", file.stem) and file.folder else file.name

    for position, (name, of) in enumerate(groupby(sorted(files, key=thread), thread), start=1):
        talk = Talk(position, PurePosixPath(name).stem, [], people=True)
        for file in of:
            for raw in _objects(file):
                content = mapping_of(repaired(raw), "A conversation")
                said = content.get("messages")
                if not isinstance(said, list):
                    continue
                for message in _messages(content):
                    talk.add(_meta_message(message))
                path = name_of(content.get("thread_path"))
                talk.session = PurePosixPath(path).name if path else talk.session
                talk.title = name_of(value_of(content, "title thread_name"))
                texts = (text for level in levels_of(said) for text in level if isinstance(text, str))
                place = next((text for text in texts if "_activity/" in text), f"{file.archive}/{name}")
                facebook = "facebook" in place or "threadName" in content
                talk.channel = "messenger" if facebook else "instagram" if "instagram" in place else None
        if talk.messages or talk.notices:
            yield talk


def _meta_message(raw: Mapping[str, object]) -> Message | None:
    unsent = value_of(raw, "is_unsent") is True or raw.get("type") in _META_UNSAID
    said, sender = str(raw.get("content") or ""), str(value_of(raw, "sender_name"))
    whose = f"{sender} ", f"{sender.partition(' ')[0]} ", "You "
    done = next((said[len(who) :] for who in whose if said.startswith(who)), "")
    if unsent or "call_duration" in raw or _META_NOTICE.fullmatch(done) or _REACTED.fullmatch(said):
        return None
    found = [(kind, each) for key, kind in _META_FILES.items() for each in list_of(raw.get(key) or [], key)]
    files = [mark(kind or None, value_of(each, "uri")) for kind, each in found]
    files += [mark("sticker", sticker)] if (sticker := value_of(raw, "sticker.uri")) else []
    shared = [str(one) for key in ("share_text", "link") if (one := value_of(raw.get("share"), key))]
    message = _META.message(raw, {}, "A message")
    own = "" if (files or shared) and _SENT.match(message.text or "") else message.text or ""
    text = "\n".join([part for part in [own, *shared] if part])
    return replace(message, text=text or (message.text and own), files=files)


# Teams

_TEAMS = replace(
    NONE, text="body.content content", speaker_id="from.user.id from.application.id", id="id", reply="reply_to_id",
    speaker="from.user.display_name from.application.display_name imdisplayname display_name",
    time="created_date_time original_arrival_time compose_time", edited="last_edited_date_time",
)  # fmt: skip


def _teams(files: Sequence[File], options: Options) -> Iterator[Found]:
    """A conversation for each chat of Graph's messages, or for each of the personal export."""
    talks: dict[str | None, Talk] = {}
    for file in files:
        for value in file.values("value conversations messages"):
            if isinstance(value, Refused):
                yield value
                continue
            raw = mapping_of(value.content, "A message")
            listed = value_of(raw, "message_list messages")
            chat = raw if isinstance(listed, list) else {}
            name = name_of(value_of(chat, "id") or value_of(raw, "chat_id channel_identity.channel_id"))
            talk = talks.setdefault(name, Talk(value.position, name, [], channel="teams", people=True))
            title = value_of(chat, "display_name topic") or value_of(value.outer, "topic chat.topic display_name")
            talk.title = name_of(title) or talk.title
            talk.me = [found] if (found := name_of(value.outer.get("userId"))) else []
            for each in listed if isinstance(listed, list) else [raw, *list_of(raw.get("replies") or [], "replies")]:
                talk.add(_teams_message(mapping_of(each, "A message"), options))
    yield from talks.values()


def _teams_message(raw: Mapping[str, object], options: Options) -> Message | None:
    kind = str(value_of(raw, "message_type") or "message").lower()
    if not kind.startswith(("message", "text", "richtext")) or raw.get("deletedDateTime"):
        return None
    message = _TEAMS.mapped(options.names).message(raw, options.roles, "A message")
    text, sender = message.text, raw.get("from")
    is_html = str(value_of(raw, "body.content_type")).lower() == "html" or kind.startswith("richtext")
    attached = list_of(raw.get("attachments") or [], "attachments")
    listed = [each for each in attached if value_of(each, "content_type") != "messageReference"]
    cards = [card for each in listed if (card := _card(each)) is not None]
    said = [plain_html(text) if text and is_html else text or "", *cards]
    return replace(
        message,
        text="\n".join(part for part in said if part) if text is not None or cards else None,
        speaker_id=sender if isinstance(sender, str) else message.speaker_id,
        files=[mark(None, value_of(each, "name content_url")) for each in listed if _card(each) is None],
    )


def _card(attachment: object) -> str | None:
    """The texts of a card; None for another attachment. Raises InvalidInput for a card that is no JSON."""
    content = value_of(attachment, "content")
    if "card" not in str(value_of(attachment, "content_type")) or content is None:
        return None
    try:
        whole = json.loads(content) if isinstance(content, str) else content
    except ValueError:
        raise bad_item("A card of a message is no JSON.") from None
    parts = [each for level in levels_of([whole]) for each in level if isinstance(each, dict)]
    shown = [part.get(key) for part in parts for key in ("title", "subtitle", "text", "value")]
    return "\n".join(each for each in shown if isinstance(each, str) and each.strip())


# Tables

_IMAZING = replace(
    NONE, text="text", speaker="sender_name", speaker_id="sender_id", time="message_date", reply="replying_to",
    edited="edited_date",
)  # fmt: skip


def _imessage(files: Sequence[File], options: Options) -> Iterator[Found]:
    talks: dict[str, Talk] = {}
    fields = _IMAZING.mapped(options.names)
    for file in files:
        for number, row in enumerate(file.rows(), start=1):
            name = row.get("Chat Session") or file.stem
            talk = talks.setdefault(name, Talk(number, f"imessage-{name}", [], name, "imessage", people=True))
            if row.get("Type") == "Notification":
                talk.add(None)
                continue
            message = fields.message(row, options.roles, f"Row {number}")
            attached = row.get("Attachment")
            files_ = [mark((row.get("Attachment type") or "").lower(), attached)] if attached else []
            talk.add(replace(message, files=files_, mine=row.get("Type") == "Outgoing"))
    yield from talks.values()


_EXPORTED = re.compile(
    r"(?P<time>[A-Z][a-z]{2} \d{2}, \d{4} [ \d]\d:\d\d:\d\d [AP]M)(?: \((?:Read|Delivered) .*\))?(?P<more> .*)?"
)
_NO_WORDS = re.compile(
    r"This message (?:responded to an earlier|was deleted from the).*|Sent with .*|.+ unsent a message.*"
)
_PATH = re.compile(r"(?:[/~]|attachments/|[\w.-]+/).*\.\w{2,5}")
_LATER = re.compile(r"Edited .* later: (?P<text>.*)")


def _imessage_text(files: Sequence[File], options: Options) -> Iterator[Found]:
    """Time, sender and lines, parted by empty lines; replies are also under their message, indented."""
    for position, file in enumerate(files, start=1):
        talk = Talk(position, f"imessage-{file.stem}", [], file.stem, "imessage", people=True)
        blocks: list[tuple[str, list[str]]] = []
        empty = True
        for line in file.lines():
            found = _EXPORTED.fullmatch(line) if empty else None
            if found and found["more"]:
                talk.add(None)
            elif found:
                blocks.append((found["time"], []))
            elif blocks and not line.startswith("    "):
                blocks[-1][1].append(line)
            empty = not line.strip()
        for time, (sender, *lines) in ((time, lines) for time, lines in blocks if lines):
            tapbacks = next((at for at, line in enumerate(lines) if line.strip() == "Tapbacks:"), len(lines))
            said = [line for line in lines[:tapbacks] if not _NO_WORDS.fullmatch(line) and not _EXPORTED.match(line)]
            later = [found["text"] for line in said if (found := _LATER.fullmatch(line))]
            paths = [line for line in said if _PATH.fullmatch(line)]
            words = later[-1:] or [line for line in said if line not in paths]
            mine, files_ = sender == "Me", [mark(None, path) for path in paths]
            speaker, text = None if mine else sender, "\n".join(words).strip()
            talk.add(Message(text, speaker=speaker, time=time, mine=mine, edited=bool(later), files=files_))
        yield talk


def _csv(files: Sequence[File], options: Options) -> Iterator[Found]:
    """Rows of messages in a table whose columns have usual names, or those of --map."""
    return History(options).read(Value(at, row) for file in files for at, row in enumerate(file.rows(), start=1))


def _columns(text: str) -> set[str]:
    first = text.partition("\n")[0]
    mark_ = max(",;\t|", key=first.count)
    return {squeezed(name.strip().strip('"')) for name in first.split(mark_)} if mark_ in first else set()


def _begins_imessage(text: str) -> bool:
    return {"chatsession", "messagedate"} <= _columns(text)


def _begins_csv(text: str) -> bool:
    named = _columns(text)
    return (
        len(named) > 1 and bool(named & {squeezed(name) for name in USUAL.text.split()}) and not _begins_imessage(text)
    )


_META_FILES_OF = r"(^|/)messages/(?!.*(autofill|secret_conv|device|stickers)).*\.json$"
CHATS = (
    Format("whatsapp", "WhatsApp's exported chat", _whatsapp,
           begins=lambda text: any(_LINE.match(_RTL.sub("", line)) for line in text.splitlines()[:5])),
    Format("telegram", "Telegram Desktop's result.json", each_value(_telegram, "chats.list left_chats.list"),
           ("messages.from_id messages.date messages.type=message name", "messages.date_unixtime messages.from_id",
            "chats.list.messages about", "about personal_information contacts",
            "messages.type=service messages.actor_id")),
    Format("slack", "Slack's export", _slack,
           ("user ts type=message text", "user_profile ts text", "client_msg_id ts", "subtype ts text"),
           has=r"(^|/)users\.json$ (^|/)[^/]+/\d{4}-\d\d-\d\d\.json$",
           files=r"(^|/)(users|channels|groups|dms|mpims|\d{4}-\d\d-\d\d)\.json$"),
    Format("discord", "DiscordChatExporter's JSON", each_value(_discord),
           ("guild channel messages.author.nickname", "guild.id channel.id messages"), maps=True),
    Format("messenger", "Messenger's messages", _meta,
           ("participants messages.senderName messages.isUnsent", "participants messages.senderName threadName"),
           has=rf"(facebook|messenger).*{_META_FILES_OF.removeprefix('(^|/)')}", files=_META_FILES_OF),
    Format("instagram", "Instagram's messages", _meta, ("participants messages.sender_name messages.timestamp_ms",),
           has=r"(^|/)messages/inbox/", files=_META_FILES_OF),
    Format("teams", "messages of Microsoft Teams", _teams,
           ("value.messageType value.body.content", "messageType body.content createdDateTime",
            "messages.messageType messages.body.content messages.createdDateTime",
            "conversations.MessageList.messagetype", "conversations.MessageList userId"), maps=True),
    Format("imessage", "a table of messages by iMazing", _imessage, begins=_begins_imessage, maps=True),
    Format("imessage-txt", "messages by imessage-exporter", _imessage_text,
           begins=lambda text: bool(_EXPORTED.match(text.lstrip()))),
    Format("csv", "a table of messages", _csv, begins=_begins_csv, maps=True),
)  # fmt: skip
