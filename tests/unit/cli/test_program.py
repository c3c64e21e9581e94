"""The program as a whole: its commands, its start, and how it ends."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from memforest_core import __version__
from memforest_core.cli.commands import Commands, interrupt_behind
from memforest_core.cli.opener import ProgramOpener
from memforest_core.cli.program import COMMANDS, PANELS, app
from memforest_core.cli.toolkit.memory_opening import DATA
from memforest_core.cli.toolkit.output import Terminated
from memforest_core.client.api import MemForest
from memforest_core.errors import MemForestError, NotFound, QuotaExceeded, StoreRefused, StoreUnavailable

HEAVY = ("alembic", "celery", "litellm", "numpy", "onnxruntime", "qdrant_client", "sqlalchemy", "tokenizers")


def failing(error: BaseException) -> typer.Typer:
    """A program with one command that ends with an error."""
    program = typer.Typer(cls=Commands, pretty_exceptions_enable=False)

    @program.command()
    def fail(as_json: bool = typer.Option(False, "--json")) -> None:
        raise error

    @program.command()
    def other() -> None:
        return None

    return program


@pytest.mark.parametrize("command", [name for names in PANELS.values() for name in names.split()])
def test_every_command_has_help(command: str) -> None:
    result = CliRunner().invoke(app, [command, "--help"])
    assert result.exit_code == 0
    assert "Usage" in result.output


def test_version_is_the_packages() -> None:
    assert CliRunner().invoke(app, ["--version"]).stdout == f"{__version__}\n"


def test_starting_loads_nothing_heavy() -> None:
    """Given a fresh interpreter, when the program is loaded and prints its help, then no big library is loaded."""
    script = (
        "import sys\nfrom memforest_core.cli.program import app\n"
        "try:\n    app(['recall', '--help'])\nexcept SystemExit:\n    pass\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


@pytest.mark.parametrize(
    "error, code",
    [
        (NotFound("No such owner."), 2),
        (QuotaExceeded("Too much.", retry_after=3.0), 75),
        (MemForestError("Broken."), 1),
        (KeyboardInterrupt(), 130),
        (Terminated(), 143),
    ],
)
def test_errors_become_exit_codes(error: BaseException, code: int) -> None:
    result = CliRunner().invoke(failing(error), ["fail"])
    assert result.exit_code == code
    assert "Traceback" not in result.output
    assert result.stdout == ""


def test_an_error_is_one_sentence_for_people() -> None:
    result = CliRunner().invoke(failing(NotFound("No such owner.")), ["fail"])
    assert result.stderr == "memforest: No such owner.\n"


def test_an_error_is_one_object_for_programs() -> None:
    result = CliRunner().invoke(failing(NotFound("No such owner.")), ["fail", "--json"])
    assert json.loads(result.stderr) == {"error": {"code": "not_found", "message": "No such owner."}}


def test_wrong_usage_is_an_object_too() -> None:
    result = CliRunner().invoke(app, ["recall", "Where?", "--json"])
    assert result.exit_code == 2
    error = json.loads(result.stderr)["error"]
    assert error["code"] == "usage"
    assert "--owner" in error["message"]


def test_an_interrupt_is_found_behind_what_it_became() -> None:
    """Given an interrupt while an extension was imported, then the ImportError it became counts as one."""
    interrupt = Terminated()
    became = ImportError("initialization failed")
    became.__cause__ = interrupt
    assert interrupt_behind(became) is interrupt
    assert interrupt_behind(ImportError("no such module")) is None
    assert interrupt_behind(None) is None


def test_each_command_is_in_a_panel_of_help() -> None:
    """In the order in which a user meets them: one that is in no panel fails when the program is imported."""
    entries = [*app.registered_commands, *app.registered_groups]
    assert len(entries) == len(COMMANDS)
    shown = CliRunner().invoke(app, ["--help"]).output
    panels = [shown.index(f"─ {panel} ─") for panel in PANELS]
    assert panels == sorted(panels)


def test_without_a_command_the_next_steps_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    first = CliRunner().invoke(app, [])
    (tmp_path / DATA).mkdir()
    after = CliRunner().invoke(app, [])
    assert first.exit_code == after.exit_code == 0
    assert "memforest demo" in first.output and "memforest recall" not in first.output
    assert f"memforest recall --data {DATA}" in after.output


def test_where_no_services_were_named_the_node_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise StoreUnavailable("Postgres can't be reached.")

    def message() -> str:
        with (
            pytest.raises(StoreUnavailable) as refused,
            ProgramOpener().memory(None, create=False, concurrency=1, alone=False),
        ):
            pass
        return refused.value.message

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(MemForest, "connect", fail)
    assert message().endswith(f"memforest up makes one, --data {DATA} works on the node in that directory.")
    monkeypatch.setenv("MEMFOREST_DATABASE__URL", "postgresql+psycopg://app@db.example/memforest")
    assert message() == "Postgres can't be reached."


def test_a_server_that_refuses_is_reported_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given a server that answers, then nothing is said of a node in its place."""

    def refuse() -> None:
        raise StoreRefused("Postgres refuses the password.")

    monkeypatch.setattr(MemForest, "connect", refuse)
    opened = ProgramOpener().memory(None, create=False, concurrency=1, alone=False)
    with pytest.raises(StoreRefused, match=r"^Postgres refuses the password\.$"), opened:
        pass
