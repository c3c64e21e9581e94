"""Exit codes, JSON values and what may reach a terminal."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest

from memforest_core.cli.toolkit.output import (
    Exit,
    exit_code,
    plain,
    print_json,
    print_lines,
    printable,
    report_message,
    this_program,
)
from memforest_core.client.embedded.directory import DataDirectoryInUse
from memforest_core.domain.times import Precision, TimeSpan
from memforest_core.errors import (
    BrokerUnavailable,
    IndexUnavailable,
    InvalidInput,
    InvalidSettings,
    InvariantViolated,
    MemForestError,
    ModelAuthFailed,
    ModelRateLimited,
    ModelUnavailable,
    QuotaExceeded,
    SessionConflict,
    StoreUnavailable,
)
from memforest_core.work.waiting import WaitTimeout

WHEN = datetime(2024, 5, 6, 7, 8, tzinfo=UTC)


@pytest.mark.parametrize(
    "error, code",
    [
        (InvalidInput("."), Exit.REFUSED),
        (SessionConflict("."), Exit.REFUSED),
        (InvalidSettings("."), Exit.REFUSED),
        (DataDirectoryInUse("."), Exit.REFUSED),
        (StoreUnavailable("."), Exit.REFUSED),
        (BrokerUnavailable("."), Exit.REFUSED),
        (IndexUnavailable("."), Exit.REFUSED),
        (ModelUnavailable("."), Exit.REFUSED),
        (ModelAuthFailed("."), Exit.REFUSED),
        (ModelRateLimited("."), Exit.LATER),
        (QuotaExceeded(".", retry_after=1.0), Exit.LATER),
        (WaitTimeout("."), Exit.LATER),
        (InvariantViolated("."), Exit.FAILED),
    ],
)
def test_each_kind_of_error_has_its_exit_code(error: MemForestError, code: Exit) -> None:
    assert exit_code(error) is code


@dataclass(frozen=True)
class Thing:
    id: UUID
    span: TimeSpan
    path: Path
    counts: dict[str, int]


def test_dataclasses_become_json() -> None:
    thing = Thing(UUID(int=7), TimeSpan(WHEN, WHEN, Precision.DAY), Path("/data"), {"ready": 2})
    assert json.loads(json.dumps(plain(thing))) == {
        "id": "00000000-0000-0000-0000-000000000007",
        "span": {"start": "2024-05-06T07:08:00+00:00", "end": "2024-05-06T07:08:00+00:00", "precision": "day"},
        "path": "/data",
        "counts": {"ready": 2},
    }


def test_stored_text_cannot_steer_a_terminal() -> None:
    assert printable("red \x1b[31m\x07alert\r\nnext\tline") == "red �[31m�alert next line"


def test_lines_stay_lines_and_what_goes_on_stays_indented(capsys: pytest.CaptureFixture[str]) -> None:
    print_lines("Ann: I sing.\n  Bob: I lie.\u2028Cara: I paid.")
    assert capsys.readouterr().out == "Ann: I sing.\n  Bob: I lie. Cara: I paid.\n"


STEERING = "\x1b\x9b\u202e\u2066\x7f\x08\x07\u2028\u2029\x85\ufeff"


def test_json_steers_no_terminal_and_loses_no_character(capsys: pytest.CaptureFixture[str]) -> None:
    """Given stored text with control characters, then they are escaped, and readers get them back."""
    text = f"Zoë {STEERING} 🌲"

    print_json({"a": text})
    report_message("bad", text, as_json=True)

    written = capsys.readouterr()
    assert not set(written.out + written.err) & set(STEERING)
    assert "Zoë" in written.out and "🌲" in written.out
    assert json.loads(written.out) == {"a": text}
    assert json.loads(written.err)["error"]["message"] == text


@pytest.mark.parametrize(("on_path", "shown"), [(True, "memforest"), (False, "bin/memforest")])
def test_this_program_is_named_as_a_shell_finds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_path: bool, shown: str
) -> None:
    own = tmp_path / "bin" / "memforest"
    own.parent.mkdir()
    own.touch(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", [str(own)])
    monkeypatch.setenv("PATH", str(own.parent) if on_path else "")
    assert this_program() == shown
