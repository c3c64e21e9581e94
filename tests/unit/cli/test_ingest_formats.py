"""``memforest ingest --format``: what is refused before anything is opened, and how a report names positions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from memforest_core.cli.program import app
from memforest_core.errors import InvalidInput, SessionConflict
from memforest_core.ingest.accept.cli import BadItem, Report, _recognized
from memforest_core.ingest.formats.file_items import Converted, Refused
from memforest_core.ingest.formats.formats import HEAD_BYTES
from memforest_core.ingest.formats.json_items import read_lines


@pytest.mark.parametrize(
    "arguments, content, code",
    [
        (["--format", "openai"], "[]", "missing_owner"),
        (["--format", "sharegpt"], "[]", "missing_owner"),
        (["--format", "auto"], '[{"conversations": []}]', "missing_owner"),
        (["--format", "auto", "--owner", "ann"], "a table, of words", "unknown_format"),
        (["--format", "auto"], "", "unknown_format"),
        (["--format", "csv"], "[]", "usage"),
    ],
)
def test_what_can_not_be_read_opens_nothing(tmp_path: Path, arguments: list[str], content: str, code: str) -> None:
    file, data = tmp_path / "export.json", tmp_path / "data"
    file.write_text(content)
    result = CliRunner().invoke(app, ["ingest", str(file), *arguments, "--data", str(data), "--json"])
    assert result.exit_code == 2
    assert json.loads(result.stderr.splitlines()[-1])["error"]["code"] == code
    assert not data.exists()


CHATS = [{"title": "A", "conversation_id": "a", "create_time": 1.5, "mapping": {}, "current_node": None}]
SHARE = [{"id": "a", "conversations": [{"from": "human", "value": "Hi."}]}]
LOCOMO = [{"sample_id": "s", "qa": [], "conversation": {"speaker_a": "A", "speaker_b": "B"}}]
LONG = [{"question_id": "q", "haystack_sessions": [[]], "haystack_dates": ["2023/05/08 (Mon) 10:00"]}]
MEM0 = {"results": [{"id": "m", "memory": "Likes tea.", "user_id": "ann"}]}
OURS = {"owner": "ann", "session_id": "s", "turns": []}


@pytest.mark.parametrize(
    ("content", "known"),
    [(CHATS, "openai"), (SHARE, "sharegpt"), (LOCOMO, "locomo"), (LONG, "longmemeval"), (MEM0, "mem0"), (OURS, None)],
)
@pytest.mark.parametrize("size", [10, 10_000], ids=["in pieces", "at once"])
@pytest.mark.parametrize("indent", [None, 1])
def test_a_file_is_recognized_without_an_option(content: object, known: str | None, size: int, indent: int) -> None:
    """Given no --format, then the file's first keys show its format, and the whole file is still there."""
    raw = json.dumps(content, indent=indent).encode() + b"\n"
    parts = [raw[at : at + size] for at in range(0, len(raw), size)]

    found, chunks = _recognized(None, iter(parts), as_json=True)

    assert (found, b"".join(chunks)) == (known, raw)


def test_a_file_of_no_known_format_is_read_as_our_own_lines() -> None:
    """Given a file whose first line is broken, then it is read by lines, which are refused one by one."""
    for raw in (b"", b"nonsense\n" + json.dumps(OURS).encode()):
        assert _recognized(None, iter([raw]), as_json=True)[0] is None


def test_only_the_beginning_is_held_to_recognize_a_file() -> None:
    """Given a file without an end whose keys tell nothing, then so much of it is read and no more."""
    read = 0

    def endless() -> Iterator[bytes]:
        nonlocal read
        while True:
            read += 1_000
            yield b'{"x":' * 200

    assert _recognized(None, endless(), as_json=True)[0] is None
    assert read <= HEAD_BYTES + 1_000


def test_lines_of_a_pipe_are_recognized_as_soon_as_the_first_has_come() -> None:
    def pipe() -> Iterator[bytes]:
        yield json.dumps(OURS).encode() + b"\n"
        raise AssertionError("the next line has not been written yet")

    found, chunks = _recognized(None, pipe(), as_json=True)

    assert found is None
    assert json.loads(next(chunks)) == OURS


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
