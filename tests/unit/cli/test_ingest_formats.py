"""``memforest ingest --format``: what is refused before anything is opened, and how a report names places."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from memforest_core.cli import app
from memforest_core.cli.ingest import BadItem, Report
from memforest_core.cli.session_lines import read_lines
from memforest_core.contexts.converting.items import Converted, Refused
from memforest_core.errors import InvalidInput, SessionConflict


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
