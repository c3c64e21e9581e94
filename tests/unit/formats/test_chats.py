"""Chats among people in invented files of the products' real formats: who said what, when, and what was left out."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from memforest_core.errors import InvalidInput
from memforest_core.ingest.formats.export_files import opened
from memforest_core.ingest.formats.fields import Dates, when
from memforest_core.ingest.formats.file_items import Converted
from memforest_core.ingest.formats.formats import Checked, checked, chosen, formats_of, sessions
from memforest_core.ingest.formats.history import parse_map
from memforest_core.ingest.formats.talks import Findings, Options

LRM = "\u200e"
ANDROID_DE = """\
31.12.25, 23:58 - Nachrichten sind Ende-zu-Ende-verschlüsselt.
31.12.25, 23:59 - Ida: Prost!
Auf ein gutes Jahr: 2026
01.01.26, 00:03 - Ben: IMG-20260101-WA0001.jpg (Datei angehängt)
Feuerwerk
01.01.26, 00:04 - Ida: <Medien ausgeschlossen>
01.01.26, 00:05 - Ida: Diese Nachricht wurde gelöscht
01.01.26, 00:06 - Ida hat die Gruppe "A: B" erstellt"""
IPHONE_US = f"""\
[3/1/25, 9:15:04\u202fPM] Boat club: {LRM}Messages and calls are end-to-end encrypted.
{LRM}[3/1/25, 9:16:00\u202fPM] Ida: {LRM}video omitted
[3/13/25, 12:05:00\u202fAM] Ben: Tides: https://tides.example {LRM}<This message was edited>
{LRM}[3/13/25, 12:06:00\u202fAM] Ida: {LRM}<attached: 0001-AUDIO.opus>
[3/13/25, 12:07:00\u202fAM] {LRM}Ida added Cy"""
SPANISH = """\
13/5/25, 9:05 p. m. - Ida: Hola
14/5/25, 12:10 a. m. - Ben: <Multimedia omitido>"""
KOREAN = """\
2025. 3. 1. 오후 9:15 - Ida: 안녕
2025. 3. 1. 오전 12:15 - Ben: 네"""
ARABIC = "\u200f١٣\u200f/٣\u200f/٢٠٢٥، ٩:٠٥ م - Ida: مرحبا"
TYPED = """\
[13.03.25, 09:15:00] Ida: You deleted the file, right?
[13.03.25, 09:16:00] Ben: report.pdf (final version)
<3
[13.03.25, 09:17:00] Ida: Die Datei wurde gelöscht: alles weg. I saw the image omitted"""
SWEDISH = "2025-03-01 21:15 - Ida: Hej\n2025-03-02 08:00 - Ben: Hej hej"
ORDERED = "4/5/25, 10:00 - Ida: one\n5/5/25, 11:00 - Ben: two\n1/6/25, 11:00 - Ida: three"


def said(raw: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"id": 1, "type": "message", "date": "2025-03-01T10:00:00", "from": "Ida", "from_id": "user1", **raw, **more}


TELEGRAM = {
    "about": "Here is the data",
    "personal_information": {"user_id": 2, "first_name": "Ben"},
    "chats": {
        "about": "This page lists all chats",
        "list": [
            {
                "name": "Ida",
                "type": "personal_chat",
                "id": 77,
                "messages": [
                    said({"id": 1, "text": ["See ", {"type": "text_link", "text": "this", "href": "https://a.example"}]}),
                    said({"id": 2, "text": "", "file": "(File not included.)", "media_type": "voice_message"}),
                    said({"id": 3, "text": "", "file": "video_files/tide.mp4", "media_type": "video_file"}),
                    said({"id": 4, "text": "", "location_information": {"latitude": 59.9, "longitude": 10.7}}),
                    said({"id": 5, "text": "", "poll": {"question": "When?", "answers": [{"text": "Mon"}, {"text": "Tue"}]}}),
                    said({"id": 6, "type": "service", "action": "phone_call", "text": ""}),
                    said({"id": 7, "text": "Mine.", "reply_to_message_id": 1, "edited": "2025-03-01T10:05:00"},
                         **{"from": "Ben", "from_id": "user2"}),
                ],
            },
            {"type": "saved_messages", "id": 2, "messages": []},
        ],
    },
}  # fmt: skip
SLACK = {
    "users.json": [
        {"id": "U1", "name": "ida", "profile": {"display_name": "Ida", "real_name": "Ida Berg"}},
        {"id": "U2", "name": "ben", "profile": {"display_name": "", "real_name": "Ben Dahl"}},
    ],
    "channels.json": [{"id": "C1", "name": "boats"}],
    "dms.json": [{"id": "D1", "members": ["U1", "U2"]}],
    "D1/2025-03-01.json": [{"type": "message", "user": "U2", "text": "Tea &gt; coffee <mailto:i@a.example|i@a.example>", "ts": "1740823200.000000"}],
    "boats/2025-03-02.json": [
        {"type": "message", "user": "U2", "text": "Late, <@U1>: <https://a.example|tides> in <#C1|boats>",
         "ts": "1740909600.000000", "thread_ts": "1740823200.000000"},
        {"type": "message", "subtype": "bot_message", "bot_id": "B1", "username": "CI", "text": "",
         "attachments": [{"fallback": "Build 7 failed"}], "ts": "1740909700.000000"},
    ],
    "boats/2025-03-01.json": [
        {"type": "message", "subtype": "channel_join", "user": "U1", "text": "<@U1> has joined", "ts": "1740823100.1"},
        {"type": "message", "user": "U1", "text": "Who sails?", "ts": "1740823200.000000", "edited": {"ts": "1.1"},
         "files": [{"name": "map.png", "mimetype": "image/png"}]},
    ],
}  # fmt: skip
AUTHOR = {"id": "9", "name": "ida_b", "nickname": "Ida", "isBot": False}
DISCORD = {
    "guild": {"id": "1", "name": "Harbour"},
    "channel": {"id": "2", "name": "tides"},
    "messages": [
        {"id": "1", "type": "GuildMemberJoin", "timestamp": "2025-03-01T10:00:00+00:00", "content": "Joined.", "author": AUTHOR},
        {"id": "2", "type": "Default", "timestamp": "2025-03-01T10:01:00+00:00", "content": "", "author": AUTHOR,
         "attachments": [{"url": "https://cdn.example/a/tide.mp4?x=1", "fileName": "tide.mp4"}],
         "stickers": [{"name": "Wave"}]},
        {"id": "3", "type": "Reply", "timestamp": "2025-03-01T10:02:00+00:00", "content": "Nice", "timestampEdited": "2025-03-01T10:03:00+00:00",
         "author": {"id": "8", "name": "Ben", "nickname": "Ben"}, "reference": {"messageId": "2"}},
        {"id": "4", "type": "Default", "timestamp": "2025-03-01T10:04:00+00:00", "content": "", "author": {"id": "7", "name": "Tidebot", "isBot": True},
         "embeds": [{"title": "High water", "description": "14:20"}]},
    ],
}  # fmt: skip
META = {
    "participants": [{"name": "Zo\u00c3\u00ab"}, {"name": "Ben"}],
    "messages": [
        {"sender_name": "Ben", "timestamp_ms": 1740823300000, "content": "Reacted \u00e2\u009d\u00a4 to your message "},
        {"sender_name": "Zo\u00c3\u00ab", "timestamp_ms": 1740823200000, "content": "Caf\u00c3\u00a9?",
         "share": {"link": "https://a.example"}, "photos": [{"uri": "x/photos/7.jpg"}]},
        {"sender_name": "Ben", "timestamp_ms": 1740823100000, "call_duration": 7},
        {"sender_name": "Ben", "timestamp_ms": 1740823050000, "content": "Ben named the group Row."},
        {"sender_name": "Ben", "timestamp_ms": 1740823040000, "content": "You left the group early, Jo said."},
    ],
    "title": "Zo\u00c3\u00ab",
    "thread_path": "inbox/zoe_1",
}  # fmt: skip
E2EE = {
    "participants": ["Zoë", "Ben"],
    "threadName": "Zoë_4",
    "messages": [
        {"isUnsent": False, "media": [], "senderName": "Zoë", "text": "Café?", "timestamp": 1740823200000, "type": "text"},
        {"isUnsent": True, "media": [], "senderName": "Ben", "text": "", "timestamp": 1740823250000, "type": "text"},
        {"isUnsent": False, "media": [{"uri": "./media/7.jpeg"}], "senderName": "Ben", "text": "", "timestamp": 1740823300000,
         "type": "media"},
    ],
}  # fmt: skip
TEAMS = {
    "userId": "8:live:ben",
    "exportDate": "2025-04-01",
    "conversations": [
        {
            "id": "19:x",
            "displayName": "Sailing",
            "MessageList": [
                {"id": "2", "originalarrivaltime": "2025-03-01T10:02:00Z", "messagetype": "Text", "content": "Mine", "from": "8:live:ben"},
                {"id": "1", "originalarrivaltime": "2025-03-01T10:00:00Z", "messagetype": "RichText/Html", "displayName": "Ida",
                 "content": "<p>Tides &amp; wind</p><p>at <b>9</b></p>", "from": "8:live:ida"},
                {"id": "3", "originalarrivaltime": "2025-03-01T10:03:00Z", "messagetype": "Text", "content": "", "from": "8:live:ida",
                 "attachments": [{"contentType": "application/vnd.microsoft.card.adaptive",
                                  "content": json.dumps({"body": [{"type": "TextBlock", "text": "Row at 9?"}]})}]},
                {"id": "0", "originalarrivaltime": "2025-03-01T09:00:00Z", "messagetype": "ThreadActivity/AddMember", "content": "<x/>"},
            ],
        }
    ],
}  # fmt: skip
IMESSAGE = """\
Chat Session,Message Date,Edited Date,Service,Type,Sender ID,Sender Name,Replying to,Text,Attachment,Attachment type
Ida,01/03/2025 10:00:00,,iMessage,Incoming,+47,Ida,,"Row?
Now",,
Ida,13/03/2025 10:00:00,,iMessage,Outgoing,,,Row?,Yes,a.heic,Image
Ida,13/03/2025 10:01:00,,,Notification,,,,Ida left,,"""
IMESSAGE_TXT = """\
Mar 01, 2025 10:00:00 AM (Read by you after 9 seconds)
Ida
Row?

    Mar 01, 2025 10:01:00 AM
    Me
    Yes

Mar 01, 2025 10:00:30 AM Ida named the conversation Boats

Mar 01, 2025 10:01:00 AM
Me
Yes
at 9
This message responded to an earlier message.
Tapbacks:
Loved by Ida

Mar 01, 2025 10:02:00 AM
Ida
Mar 01, 2025 10:02:00 AM Fien
Edited 4 seconds later: Fine
/Users/me/Attachments/a.heic

"""
CSV = "Who;Posted On;Body\nIda;Mar 1, 2025 at 9:15 PM;Hello\nBen;March 1, 2025 9:16pm;Hi"
MAR1 = "2025-03-01T10:00:00+00:00"
CASES: list[tuple[str, object, str | None, list[str]]] = [
    ("WhatsApp Chat mit Ida.txt", ANDROID_DE, "Ben", [
        "whatsapp-Ida", "2025-12-31T23:59:00|Ida|Prost!\nAuf ein gutes Jahr: 2026",
        "2026-01-01T00:03:00|me|Feuerwerk\n[image: IMG-20260101-WA0001.jpg]", "2026-01-01T00:04:00|Ida|[file]"]),
    ("boats/_chat.txt", IPHONE_US, "Ben", [
        "whatsapp-boats", "2025-03-01T21:16:00|Ida|[video]", "2025-03-13T00:05:00|me|Tides: https://tides.example",
        "2025-03-13T00:06:00|Ida|[audio: 0001-AUDIO.opus]"]),
    ("a.txt", SPANISH, "Ben", ["whatsapp-a", "2025-05-13T21:05:00|Ida|Hola", "2025-05-14T00:10:00|me|[file]"]),
    ("a.txt", KOREAN, "Ben", ["whatsapp-a", "2025-03-01T00:15:00|me|네", "2025-03-01T21:15:00|Ida|안녕"]),
    ("a.txt", ARABIC, "", ["whatsapp-a", "2025-03-13T21:05:00|Ida|مرحبا"]),
    ("a.txt", TYPED, "", [
        "whatsapp-a", "2025-03-13T09:15:00|Ida|You deleted the file, right?",
        "2025-03-13T09:16:00|Ben|report.pdf (final version)\n<3",
        "2025-03-13T09:17:00|Ida|Die Datei wurde gelöscht: alles weg. I saw the image omitted"]),
    ("a.txt", SWEDISH, "Ben", ["whatsapp-a", "2025-03-01T21:15:00|Ida|Hej", "2025-03-02T08:00:00|me|Hej hej"]),
    ("a.txt", ORDERED, "", ["whatsapp-a", "2025-05-04T10:00:00|Ida|one", "2025-05-05T11:00:00|Ben|two",
                            "2025-06-01T11:00:00|Ida|three"]),
    ("result.json", TELEGRAM, None, [
        "telegram-77", "2025-03-01T10:00:00|Ida|See this\nhttps://a.example", "2025-03-01T10:00:00|Ida|[audio]",
        "2025-03-01T10:00:00|Ida|[video: tide.mp4]", "2025-03-01T10:00:00|Ida|[location: 59.9, 10.7]",
        "2025-03-01T10:00:00|Ida|[poll: When? | Mon | Tue]", "2025-03-01T10:00:00|me|Mine."]),
    ("slack.zip", SLACK, "U2", [
        "slack-D1", f"{MAR1}|me|Tea > coffee i@a.example", "slack-boats", f"{MAR1}|Ida|Who sails?\n[image: map.png]",
        "2025-03-02T10:00:00+00:00|me|Late, @Ida: tides (https://a.example) in #boats",
        "2025-03-02T10:01:40+00:00|CI|Build 7 failed"]),
    ("boats/2025-03-01.json", SLACK["boats/2025-03-01.json"], "", ["slack-boats", f"{MAR1}|U1|Who sails?\n[image: map.png]"]),
    ("tides.json", DISCORD, "ben", [
        "discord-2", "2025-03-01T10:01:00+00:00|Ida|[video: tide.mp4]\n[sticker: Wave]",
        "2025-03-01T10:02:00+00:00|me|Nice", "2025-03-01T10:04:00+00:00|Tidebot|High water\n14:20"]),
    ("messages/inbox/zoe_1/message_1.json", META, "Ben", [
        "zoe_1", "2025-03-01T09:57:20+00:00|me|You left the group early, Jo said.", f"{MAR1}|Zoë|Café?\nhttps://a.example\n[image: 7.jpg]"]),
    ("e2ee.zip", {"messages/Zoë_4.json": E2EE}, "Ben", [
        "Zoë_4", f"{MAR1}|Zoë|Café?", "2025-03-01T10:01:40+00:00|me|[image: 7.jpeg]"]),
    ("messages.json", TEAMS, None, [
        "19:x", f"{MAR1}|Ida|Tides & wind\nat 9", "2025-03-01T10:02:00+00:00|me|Mine", "2025-03-01T10:03:00+00:00|8:live:ida|Row at 9?"]),
    ("Messages.csv", IMESSAGE, None, [
        "imessage-Ida", "2025-03-01T10:00:00|Ida|Row?\nNow", "2025-03-13T10:00:00|me|Yes\n[image: a.heic]"]),
    ("Ida.txt", IMESSAGE_TXT, None, [
        "imessage-Ida", "2025-03-01T10:00:00|Ida|Row?", "2025-03-01T10:01:00|me|Yes\nat 9",
        "2025-03-01T10:02:00|Ida|Fine\n[image: a.heic]"]),
    ("table.csv", CSV, "Ben", ["table", "2025-03-01T21:15:00|Ida|Hello", "2025-03-01T21:16:00|me|Hi"]),
]  # fmt: skip


def written(directory: Path, name: str, content: object) -> Path:
    """A file of this content, in folders of its own when its name has some; a zip of JSON files."""
    path = directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if name.endswith(".zip"):
        assert isinstance(content, dict)
        with zipfile.ZipFile(path, "w") as archive:
            for member, inner in content.items():
                archive.writestr(member, json.dumps(inner))
    else:
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return directory / Path(name).parts[0]


def read(path: Path, *mapped: str, **given: Any) -> tuple[Checked, list[Converted]]:
    options = Options(given.pop("owner", "ben"), None, given.pop("me", None), *parse_map(mapped), **given)
    with opened(str(path)) as files:
        of = chosen(files, None)
        return checked(of, options), [one for one in sessions(of, options, Findings()) if isinstance(one, Converted)]


@pytest.mark.parametrize(
    ("name", "content", "me", "expected"), CASES, ids=lambda value: value[:20] if isinstance(value, str) else ""
)
def test_a_chat_is_read(tmp_path: Path, name: str, content: object, me: str | None, expected: list[str]) -> None:
    """Given an export, and which speaker is the owner where it does not say, then each turn has its words, its speaker
    and its time, oldest first; what the app said is left out."""
    mapped = ("speaker=Who", "time=Posted On") if name == "table.csv" else ()
    _, found = read(written(tmp_path, name, content), *mapped, me=me)
    lines: list[str] = []
    for session in found:
        lines.append(session.session_id)
        for turn in session.turns:
            who = "me" if turn.get("speaker_id") == "ben" else turn.get("name") or turn.get("speaker_id")
            lines.append(f"{turn.get('timestamp')}|{who}|{turn['content']}")
    assert lines == expected


@pytest.mark.parametrize(
    ("stamp", "expected"),
    [
        ("20250301", "2025-03-01T00:00:00"),
        ("20250301101500", "2025-03-01T10:15:00"),
        ("1740824100000", "2025-03-01T10:15:00+00:00"),
        ("45717", None),
        ("31.12.99 23:59", "1999-12-31T23:59:00"),
        ("24.12.31 10:00", None),
        ("(" * 99_999, None),
    ],
)
def test_a_date_is_read_or_missing(stamp: str, expected: str | None) -> None:
    """Given one number, no century, a year first that looks like a day, then no date is wrong."""
    found = when(stamp, Dates())
    assert (None if found is None else found.isoformat()) == expected


def test_replies_edits_titles_and_channels_are_taken_over(tmp_path: Path) -> None:
    _, [found] = read(written(tmp_path, "tides.json", DISCORD), me="Ben")
    assert found.channel == "Harbour / tides"
    metadata = [turn.get("metadata") for turn in found.turns]
    assert metadata[:2] == [{"title": "tides"}, {"reply_to": "2", "edited": "2025-03-01T10:03:00+00:00"}]


@pytest.mark.parametrize(
    ("name", "content", "given", "hint"),
    [
        ("a.txt", "3/4/25, 9:15 - Ida: one\n3/4/25, 9:16 - Ben: two", {"me": "Ben"}, "--dates dmy"),
        ("a.txt", "24/12/30, 9:15 - Ida: one\n24/12/31, 9:16 - Ben: two", {"me": "Ben"}, "--dates ymd"),
        ("a.txt", "1/2/25, " + " " * 99_999, {}, "of no known format"),
        ("a.csv", "who,time,text\nIda,2025-03-01 10:15,Hello, Ben", {}, "Line 2 of a.csv .* more cells than"),
        ("s.zip", {"users.json": [{"id": each, "name": "Ben"} for each in ("U1", "U2")],
                   "a/2025-03-01.json": [{"type": "message", "user": each, "ts": "1740824101.0", "text": each} for each in ("U1", "U2")]},
         {"me": "ben"}, "Several speakers are called 'ben': give --me ID, one of U1, U2"),
        ("a.csv", "who,text\nIda,a\rb", {}, "Line 2 of a.csv is no row"),
        ("a.txt", SPANISH, {}, r"--me NAME \(--me '' for none\): Ben \(1\), Ida \(1\)"),
        ("a.txt", SPANISH, {"me": "Ida Berg"}, "Nobody is called 'Ida Berg': speakers are"),
        ("a.txt", SPANISH, {"me": "Idda"}, r"Nobody is called 'Idda': speakers are Ben \(1\), Ida \(1\)\. Give --me '' for none"),
        ("users.json", SLACK["users.json"], {}, "a part of a Slack export: give the export's folder or zip"),
        ("channels.json", [{"id": "C1", "name": "a", "members": []}], {}, "a part of a Slack export"),
        ("a.json", {"messages": [{"text": "Hi.", "writer": {"nickname": "Ida"}}]}, {},
         r"1 of 1 messages have no sender that I can read: fields are writer.nickname; try --map speaker=writer.nickname"),
        ("a.json", {"guild": {}, "channel": {"id": "1"}, "posts": [{"author": {"nick": "x"}}]}, {}, "nearest to discord .* no "),
        ("a.json", {"nothing": 1}, {}, "a.json is of no known format"),
        ("b.zip", {"../x.json": META}, {}, "names a file outside of it"),
    ],
)  # fmt: skip
def test_what_would_be_wrong_is_refused_in_one_sentence(
    tmp_path: Path, name: str, content: object, given: dict[str, Any], hint: str
) -> None:
    with pytest.raises(InvalidInput, match=hint):
        read(written(tmp_path, name, content), **given)


def test_the_order_of_dates_can_be_given(tmp_path: Path) -> None:
    path = written(tmp_path, "a.txt", "3/4/25, 9:15 - Ida: one")
    for order, expected in (("dmy", "2025-04-03T09:15:00"), ("mdy", "2025-03-04T09:15:00")):
        _, [found] = read(path, me="", dates=Dates(order))
        assert found.turns[0].get("timestamp") == expected


def test_chats_of_a_folder_may_write_dates_in_different_orders(tmp_path: Path) -> None:
    written(tmp_path, "chats/a.txt", "3/13/25, 9:15 - Ida: one")
    _, found = read(written(tmp_path, "chats/b.txt", "13/3/25, 9:15 - Ida: two"), me="")
    assert [(one.session_id, one.turns[0].get("timestamp")) for one in found] == [
        ("whatsapp-a", "2025-03-13T09:15:00"),
        ("whatsapp-b", "2025-03-13T09:15:00"),
    ]


def test_a_nested_field_can_be_mapped(tmp_path: Path) -> None:
    rows = {"messages": [{"text": "Hi.", "writer": {"nickname": "Ida"}, "at": {"$date": "2025-03-01T10:00:00Z"}}]}
    seen, [found] = read(written(tmp_path, "a.json", rows), "speaker=writer.nickname", "time=at")
    assert found.turns == [{"role": "user", "content": "Hi.", "name": "Ida", "timestamp": MAR1}]
    assert seen.warnings == ["Nobody is taken for the owner; --me NAME says which speaker is: Ida (1)."]


def test_conversations_of_one_name_are_said_before(tmp_path: Path) -> None:
    for folder in "ab":
        written(tmp_path / "chats", f"{folder}/WhatsApp Chat mit Ida.txt", ANDROID_DE)
    seen, _ = read(tmp_path / "chats", me="Ben")
    assert seen.warnings == ["2 conversations are called 'whatsapp-Ida': those that differ from the first are refused."]


def test_what_is_written_to_take_long_does_not(tmp_path: Path) -> None:
    """Given blank lines, angle brackets and quotation marks without an end, then each is read at once."""
    long = "\n" * 50_000 + "<" + "edit" * 20_000 + "<details " * 20_000
    path = written(tmp_path, "a.txt", f"13/2/25, 9:15 - Ida: one{long}\n13/2/25, 9:16 - Ben: two")
    began = monotonic()
    _, [found] = read(path, me="Ben")
    formats_of(json.dumps(['"' * 99_999]).encode()[: 2**16])
    assert monotonic() - began < 5
    assert found.turns[-1]["content"] == "two"


@pytest.mark.parametrize("name", ["ben", "Ben Dahl", "U2"])
def test_any_name_in_the_users_of_a_slack_export_is_the_owners(tmp_path: Path, name: str) -> None:
    seen, _ = read(written(tmp_path, "slack.zip", SLACK), me=name)
    assert seen.findings.mine == {"Ben Dahl": 2}


@pytest.mark.parametrize("damage", ["cut", "bomb", "no zip in it", "inside"])
def test_a_zip_that_is_not_whole_or_not_safe_is_one_sentence(tmp_path: Path, damage: str) -> None:
    path = written(tmp_path, "slack.zip", SLACK)
    if damage == "bomb":
        raw = io.BytesIO()
        with zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("big.json", b"0" * (2**26 + 2**20))
        path.write_bytes(raw.getvalue())
    elif damage == "inside":
        inner = path.read_bytes()
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("inner.zip", inner[:300])
    else:
        path.write_bytes(path.read_bytes()[:300] if damage == "cut" else b"PK\x03\x04")
    with pytest.raises(InvalidInput, match="would grow to" if damage == "bomb" else "damaged or not whole"):
        read(path)
