"""``memforest ingest --format``: what is refused before anything is opened, and how a report names positions."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from memforest_core.cli.program import app
from memforest_core.errors import InvalidInput, SessionConflict
from memforest_core.ingest.accept.cli import FORMAT_NAMES, BadItem, Report
from memforest_core.ingest.formats.export_files import File, opened
from memforest_core.ingest.formats.file_items import Converted, Refused
from memforest_core.ingest.formats.formats import FORMATS, HEAD_BYTES, chosen, recognized
from memforest_core.ingest.formats.json_items import read_lines
from tests.harness.exports import file_of

SHARE = '[{"id": "a", "conversations": [{"from": "human", "value": "Hi."}]}]'


@pytest.mark.parametrize(
    "arguments, content, code",
    [
        (["--format", "sharegpt"], SHARE, "missing_owner"),
        (["--format", "auto"], SHARE, "missing_owner"),
        ([], "nonsense", "unknown_format"),
        (["--format", "auto", "--owner", "ann"], "a table, of words", "unknown_format"),
        (["--format", "auto"], "", "unknown_format"),
        (["--format", "paper"], "[]", "unknown_format"),
    ],
)
def test_what_can_not_be_read_opens_nothing(tmp_path: Path, arguments: list[str], content: str, code: str) -> None:
    file, data = tmp_path / "export.json", tmp_path / "data"
    file.write_text(content)
    result = CliRunner().invoke(app, ["ingest", str(file), *arguments, "--data", str(data), "--json"])
    assert result.exit_code == 2
    assert json.loads(result.stderr.splitlines()[-1])["error"]["code"] == code
    assert not data.exists()


TALK = "13/04/24, 9:15 - Ida: Hello.\n13/04/24, 9:16 - Ben: Good morning."
SAID = {
    "author": {"role": "user"},
    "content": {"content_type": "text", "parts": ["Hi."]},
    "create_time": 1737020005.123,
}
CHATGPT = [
    {
        "title": "A",
        "conversation_id": "a",
        "mapping": {"m": {"id": "m", "message": SAID | {"id": "m"}, "parent": None, "children": []}},
        "current_node": "m",
    }
]


@pytest.mark.parametrize(
    ("content", "arguments", "shown", "said"),
    [
        (TALK, [], "2024-04-13 09:15:00 UTC | Ida", "2 times without a zone: taken as UTC"),
        (TALK, ["--time-zone", "Europe/Oslo"], "2024-04-13 07:15:00 UTC | Ida", ""),
        (TALK, [], "From 2024-04-13 09:15 to 2024-04-13 09:16 UTC.", "1 session with 2 turns would be stored"),
        (json.dumps(CHATGPT), [], "| 2025-01-16 09:33:25 UTC |", "--me is not used"),
        (json.dumps(CHATGPT), [], "1 session with 1 turn would be stored, 0 would fail.", ""),
    ],
)
def test_a_dry_run_shows_the_instants_that_would_be_stored(
    tmp_path: Path, content: str, arguments: list[str], shown: str, said: str
) -> None:
    file = tmp_path / ("chat.json" if content.startswith("[") else "chat.txt")
    file.write_text(content)
    result = CliRunner().invoke(app, ["ingest", str(file), "--owner", "ann", "--me", "Ben", "--dry-run", *arguments])
    assert shown in result.output and said in result.output, result.output
    assert bool(arguments) != ("without a zone" in result.output) or content != TALK


def test_help_names_every_format_and_an_error_none() -> None:
    assert FORMAT_NAMES.split(", ") == sorted(FORMATS)
    with pytest.raises(InvalidInput, match=r"did you mean whatsapp\? memforest ingest --help lists the names\.$"):
        chosen([], "watsapp")


CHATS = [{"title": "A", "conversation_id": "a", "create_time": 1.5, "mapping": {}, "current_node": None}]
LOCOMO = [{"sample_id": "s", "qa": [], "conversation": {"speaker_a": "A", "speaker_b": "B"}}]
LONG = [{"question_id": "q", "haystack_sessions": [[]], "haystack_dates": ["2023/05/08 (Mon) 10:00"]}]
MEM0 = {"results": [{"id": "m", "memory": "Likes tea.", "user_id": "ann"}]}
OURS = {"owner": "ann", "session_id": "s", "turns": []}


@pytest.mark.parametrize(
    ("content", "known"),
    [
        (CHATS, "openai"),
        (json.loads(SHARE), "sharegpt"),
        (LOCOMO, "locomo"),
        (LONG, "longmemeval"),
        (MEM0, "mem0"),
        (OURS, "jsonl"),
    ],
)
@pytest.mark.parametrize("indent", [None, 1])
def test_a_file_is_recognized_without_an_option(content: object, known: str, indent: int) -> None:
    """Given no --format, then the file's first keys show its format, and the whole file is still there."""
    raw = json.dumps(content, indent=indent).encode() + b"\n"
    assert recognized(file_of(raw)).name == known


def test_a_broken_first_line_does_not_hide_our_own_lines() -> None:
    assert recognized(file_of(b"nonsense\n" + json.dumps(OURS).encode())).name == "jsonl"


class Pipe(io.BytesIO):
    """Standard input that comes in parts, and fails when more is read than these."""

    def __init__(self, parts: Iterator[bytes]) -> None:
        self.parts = parts
        super().__init__()

    def read1(self, size: int | None = -1) -> bytes:
        return next(self.parts)


def test_of_a_pipe_only_the_beginning_is_read_to_recognize_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given a pipe whose next line has not been written yet, then its format is known, and it is read from its start."""
    parts = iter([json.dumps(OURS).encode() + b"\n"])
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=Pipe(parts)))
    with opened("-") as [file]:
        assert recognized(file).name == "jsonl"
        assert json.loads(next(file.chunks())) == OURS


def test_only_the_beginning_of_a_file_is_held() -> None:
    read = 0

    class Endless(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            nonlocal read
            read += 1_000
            return b'{"x":' * 200

    with pytest.raises(InvalidInput, match="no known format"):
        recognized(File("x.json", 0, Endless))
    assert read <= HEAD_BYTES + 1_000


def test_a_display_name_belongs_to_an_owner(tmp_path: Path) -> None:
    file = tmp_path / "export.json"
    file.write_text("")
    result = CliRunner().invoke(app, ["ingest", str(file), "--display-name", "Eva", "--json"])

    assert (result.exit_code, json.loads(result.stderr)["error"]["code"]) == (2, "missing_owner")


def test_our_own_lines_are_sessions_wherever_the_chunks_end() -> None:
    raw = b'{"owner": "bob", "session_id": "s1", "turns": [], "started_at": 3}\n\nnonsense\n{"session_id": "s2", "turns": []}'
    whole = list(read_lines([raw], "zoe"))
    cut = list(read_lines([raw[at : at + 5] for at in range(0, len(raw), 5)], "zoe"))
    for first, bad, last in (whole, cut):
        assert first == Converted(1, "bob", "s1", [], 3)
        assert isinstance(bad, Refused) and (bad.position, bad.error.code) == (3, "invalid_line")
        assert last == Converted(4, "zoe", "s2", [])


def test_a_number_with_too_many_digits_is_a_bad_line() -> None:
    (bad,) = read_lines([b'{"owner": "bob", "session_id": ' + b"9" * 5_000 + b"}"], None)
    assert isinstance(bad, Refused) and bad.error.code == "invalid_line"


def test_lines_are_named_by_their_number_and_items_by_their_place_and_session() -> None:
    lines, items = Report("jsonl"), Report("openai")
    lines.refuse(3, "s1", InvalidInput("No.", code="bad"))
    items.refuse(3, "s1", SessionConflict("Another."))
    assert lines.errors == [BadItem(3, None, None, "bad", "No.")]
    assert items.errors == [BadItem(None, 3, "s1", "session_conflict", "Another.")]
