"""Sessions in languages that rules and embedding model do not know: said at ingest and wherever the system is seen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from memforest_core.ingest.accept import cli as ingest_command
from memforest_core.observe.cli.status import status as status_command
from tests.harness.sayings import said
from tests.harness.stack import Stack

GERMAN = (
    "Ich wohne jetzt in Graz und arbeite in einer kleinen Buchbinderei.",
    "Meine Schwester hat einen Hund, er heißt Bello.",
)
SPANISH = ("Vivo en Sevilla con mi hermana y trabajo en una librería del centro.", "Me gusta mucho el mar.")
CHINESE = ("我上个月搬到了杭州，住在西湖旁边。", "我妹妹养了一只橘猫，叫小虎。")
ENGLISH = ("I live in Oslo and work at a bakery.", "My cousin Ana Maria los Santos visits on Sunday.")
SETTINGS = ("MEMFOREST_LLM__MODEL", "MEMFOREST_EMBEDDING__MODEL=multilingual-e5-small-4bit")


def tell(running: Stack) -> None:
    for owner, words in (("lena", GERMAN), ("sol", SPANISH), ("wei", CHINESE), ("kim", ENGLISH)):
        running.memory.ingest(owner, "s1", said(*words, name=owner.title()))


@pytest.fixture
def program(grown_once: Stack, monkeypatch: pytest.MonkeyPatch) -> typer.Typer:
    monkeypatch.setenv("MEMFOREST_DATABASE__URL", grown_once.settings.database.url.get_secret_value())
    monkeypatch.setenv("MEMFOREST_BROKER__URL", grown_once.settings.broker.url.get_secret_value())
    made = typer.Typer()
    made.callback()(lambda: None)
    made.command()(ingest_command.ingest)
    made.command()(status_command)
    return made


def test_status_counts_them_and_names_what_to_set(grown_once: Stack, program: typer.Typer) -> None:
    printed = " ".join(CliRunner().invoke(program, ["status"]).stdout.split())
    assert "3 of the latest 4 sessions are not in English" in printed
    assert all(setting in printed for setting in SETTINGS)
    (warning,) = json.loads(CliRunner().invoke(program, ["status", "--json"]).stdout)["warnings"]
    assert "71.7 / 97.5 instead of 86.7 / 100 percent of the turns found within 500 / 2,000 tokens" in warning
    assert not any(word in warning for word in ("Graz", "Sevilla"))


def test_an_owners_own_sessions_are_counted(grown_once: Stack) -> None:
    inspection = grown_once.services.inspection
    assert "1 of the latest 1 sessions" in inspection.forest(grown_once.tenant, "lena").warnings[0]
    assert inspection.forest(grown_once.tenant, "kim").warnings == ()


def test_ingest_says_it(grown_once: Stack, program: typer.Typer, tmp_path: Path) -> None:
    file = tmp_path / "lena.jsonl"
    turns = [{"role": "user", "content": text} for text in GERMAN]
    file.write_text(json.dumps({"owner": "mia", "session_id": "s9", "turns": turns}))
    printed = CliRunner().invoke(program, ["ingest", str(file)])
    assert printed.exit_code == 0 and "Warning: 1 of the latest 1 sessions" in printed.stderr
    repeated = CliRunner().invoke(program, ["ingest", str(file)])
    assert "Warning" not in repeated.stderr
    english = [{"role": "user", "content": text} for text in ENGLISH]
    file.write_text(json.dumps({"owner": "joe", "session_id": "s1", "turns": english}))
    assert "Warning" not in CliRunner().invoke(program, ["ingest", str(file)]).stderr
