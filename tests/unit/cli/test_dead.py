"""``memforest dead``: what is printed, and what is refused before anything is opened."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from uuid import UUID

import pytest
import typer
from typer.testing import CliRunner, Result

from memforest_core.cli.commands import Commands
from memforest_core.cli.toolkit import operating
from memforest_core.store.cli import tenants
from memforest_core.work import cli
from memforest_core.work.records import Acted, DeadDetail, DeadKind, DeadLetter, DeadRef

ID = UUID("11111111-aaaa-4000-8000-000000000001")
LETTER = DeadLetter(
    kind=DeadKind.CELL,
    id=ID,
    step="extract",
    owner="bob\x1b[31m",
    session="s1",
    code="crashed",
    text="Its extraction crashed.",
    attempts=5,
    lost_leases=2,
    since=datetime(2024, 5, 8, 12, tzinfo=UTC),
)


def run(*arguments: str, answer: str | None = None) -> Result:
    program = typer.Typer(cls=Commands, pretty_exceptions_enable=False)
    program.add_typer(cli.dead_app)
    program.add_typer(tenants.app)
    return CliRunner().invoke(program, arguments, input=answer)


def test_a_letter_is_one_line_with_its_error_attempts_and_time(capsys: pytest.CaptureFixture[str]) -> None:
    cli._print_letters([LETTER], more=True)
    header, line, total = capsys.readouterr().out.splitlines()
    assert header.split() == ["kind", "id", "step", "owner", "session", "tries", "lost", "since", "error"]
    assert line.split() == [
        *("cell", str(ID), "extract", "bob\N{REPLACEMENT CHARACTER}[31m", "s1", "5", "2", "2024-05-08", "12:00:00"),
        *("Its", "extraction", "crashed.", "[crashed]"),
    ]
    assert total == "1 dead, and more: raise --limit."


def test_a_detail_shows_where_it_is_and_texts_without_steering_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    cli._print_detail(DeadDetail(LETTER, {"first_turn": 4, "window": 2}, ("Bob: Hi.\nAnn: \x1b[2JHello.",)))
    shown = capsys.readouterr().out
    assert "first turn   4" in shown and "window       2" in shown
    assert shown.endswith("  Bob: Hi.\n  Ann: \N{REPLACEMENT CHARACTER}[2JHello.\n")
    cli._print_detail(DeadDetail(LETTER, {}, None))
    assert "Hi." not in capsys.readouterr().out


def test_what_was_not_changed_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    acted = Acted(changed=(DeadRef(DeadKind.CELL, ID),))
    cli._print_acted("tried again", acted, named=3, as_json=False)
    assert capsys.readouterr().out == "1 tried again, 2 left as they are (no longer dead, or under way).\n"
    cli._print_acted("tried again", acted, named=3, as_json=True)
    assert json.loads(capsys.readouterr().out) == {"changed": [{"kind": "cell", "id": str(ID)}], "unchanged": 2}


@pytest.mark.parametrize(
    "arguments, says",
    [
        (["retry"], "give --all"),
        (["retry", "11111111", "--all"], "give --all"),
        (["retry", "11111111", "--code", "crashed"], "go with --all"),
        (["discard", "11111111", "--json"], "Say --yes"),
    ],
)
def test_what_is_not_clear_is_refused_before_anything_is_opened(arguments: list[str], says: str) -> None:
    result = run("dead", *arguments)
    assert (result.exit_code, says in result.stderr) == (2, True)


@pytest.mark.parametrize("answer, goes_on", [("y\n", True), ("n\n", False), ("\n", False)])
def test_a_person_has_to_confirm(monkeypatch: pytest.MonkeyPatch, answer: str, goes_on: bool) -> None:
    monkeypatch.setattr("sys.stdin", _Terminal(answer))
    if goes_on:
        operating.Run(yes=False, as_json=False).confirm("Go on?")
        return
    with pytest.raises(typer.Exit) as left:
        operating.Run(yes=False, as_json=False).confirm("Go on?")
    assert left.value.exit_code == 1


class _Terminal:
    """A keyboard with one answer typed."""

    def __init__(self, answer: str) -> None:
        self._answer = answer

    def isatty(self) -> bool:
        return True

    def readline(self, *_: int) -> str:
        return self._answer


@pytest.mark.parametrize("given, value", [("none", None), (" None ", None), ("7", 7), (None, None)])
def test_a_limit_as_it_is_typed(given: str | None, value: int | None) -> None:
    assert tenants._number(given, "--max-turns-per-day") == value
