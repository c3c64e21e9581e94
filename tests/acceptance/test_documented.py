"""The commands that a reader of docs/ is to run, run exactly as they are written."""

from __future__ import annotations

import json
import re
import shlex
import sqlite3
import zipfile
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from starlette.testclient import TestClient
from typer.testing import CliRunner

from memforest_core import MemForest
from memforest_core.cli.program import app

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: str, language: str) -> list[str]:
    """The blocks of code of a page in one language."""
    found = BLOCK.findall((DOCS / page).read_text(encoding="utf-8"))
    return [text for kind, text in found if kind == language]


def run_python(page: str, monkeypatch: pytest.MonkeyPatch, folder: Path, **names: object) -> dict[str, Any]:
    """Run a page's Python, which may use ``names``, from its first block to its last; the names that it leaves."""
    monkeypatch.chdir(folder)
    scope: dict[str, Any] = names
    for text in blocks(page, "python"):
        exec(compile(text, page, "exec"), scope)
    return scope


def run_commands(page: str, monkeypatch: pytest.MonkeyPatch, folder: Path) -> list[str]:
    """Run a page's ``memforest`` commands that work on a directory; what each printed."""
    monkeypatch.chdir(folder)
    lines = [line.removeprefix("$ ") for text in blocks(page, "console") for line in text.splitlines()]
    printed = []
    for line in lines:
        program, *arguments = shlex.split(line, comments=True)
        assert program == "memforest" and {"--data", "--dry-run"} & set(arguments), line
        done = CliRunner().invoke(app, arguments)
        assert done.exit_code == 0, (line, done.output)
        printed.append(done.stdout)
    return printed


def test_the_quick_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    run_python("quickstart.md", monkeypatch, tmp_path)

    assert "Davis" in capsys.readouterr().out


def test_the_cheat_sheet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Given its calls in their order, then what they changed is as they say."""
    scope = run_python("howto/cheatsheet.md", monkeypatch, tmp_path)

    assert (tmp_path / "bob.memforest").stat().st_size > 0
    with MemForest.embedded(tmp_path / "cheatsheet-data") as memory:
        texts = [fact.text for fact in memory.facts("bob-all").items]
    assert "Bob lives in Austin." in texts and not any("Pip" in text for text in texts)
    assert scope["fact"]


def test_the_chatbot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    run_python("howto/chatbot.md", monkeypatch, tmp_path)

    shown = capsys.readouterr().out
    assert "Lisbon" in shown and "Kiwi" in shown


def test_the_web_app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Given the FastAPI page's app, when somebody chats, then the next request finds what was said."""
    scope = run_python("howto/fastapi.md", monkeypatch, tmp_path)

    with TestClient(scope["app"]) as client:
        said = client.post("/chat/alice", json={"text": "I moved to Lisbon in May."})
        assert said.json() == {"reply": "(an answer to 1 messages)"}, said.text
        found = client.get("/memory/alice", params={"question": "Where did I move to?"}).json()["evidence"]
    assert any("Lisbon" in each["text"] for each in found)


def test_the_app_s_transaction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Given an order and its conversation stored together, then a block that raises stores neither."""
    page, orders = "howto/transaction.md", sa.Table("orders", sa.MetaData(), sa.Column("id"), sa.Column("item"))
    with MemForest.embedded(tmp_path / "data") as memory:
        for variable, url in (("DATABASE", memory.settings.database.url), ("BROKER", memory.settings.broker.url)):
            monkeypatch.setenv(f"MEMFOREST_{variable}__URL", url.get_secret_value())
        owner = memory.settings.database.migration_url
        assert owner is not None
        engine = sa.create_engine(owner.get_secret_value())
        with engine.begin() as connection:
            connection.execute(sa.text("CREATE TABLE public.orders (id int PRIMARY KEY, item text)"))
        run_python(page, monkeypatch, tmp_path, engine=engine, orders=orders)
        with pytest.raises(sa.exc.IntegrityError):  # the same order again
            run_python(page, monkeypatch, tmp_path, engine=engine, orders=orders)
        with engine.connect() as connection:
            assert connection.scalar(sa.text("SELECT count(*) FROM public.orders")) == 1
        engine.dispose()
        assert [turn.content for turn in memory.turns("alice", "order-7").items] == ["Send the anchor to Bergen."]


def test_the_group_chat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    run_python("howto/group-chat.md", monkeypatch, tmp_path)

    profile, _, rest = capsys.readouterr().out.partition("gruzilkin\n")
    assert "Annecy" in profile and "Lyon" not in profile
    assert "great cook" in rest


def test_forgetting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    run_python("howto/forget.md", monkeypatch, tmp_path)

    lines = capsys.readouterr().out.splitlines()
    assert "bank" in lines[0]
    assert lines[1:3] == ["True True", "True"]
    assert lines[-1] == "False"


def test_importing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (line,) = blocks("howto/import.md", "json")
    (tmp_path / "chats.jsonl").write_text(line)
    exported = {"mapping": {}, "id": "c1", "title": "Empty", "create_time": 1.0}
    (tmp_path / "conversations.json").write_text(json.dumps([exported]))
    with zipfile.ZipFile(tmp_path / "WhatsApp Chat with Bob.zip", "w") as archive:
        archive.writestr("_chat.txt", "[13/04/24, 09:15:00] Alice: I row.\n[13/04/24, 09:16:00] Bob: I sail.")
    with sqlite3.connect(tmp_path / "crew.db") as database:
        database.execute("CREATE TABLE log (session_id TEXT, role TEXT, body TEXT)")
        database.execute("INSERT INTO log VALUES ('r1', 'user', 'The anchor is new.')")
    database.close()

    with MemForest.embedded(tmp_path / "memory-data"):
        printed = run_commands("howto/import.md", monkeypatch, tmp_path)
    run_python("howto/import.md", monkeypatch, tmp_path)

    assert "Lisbon" in printed[1]
    assert "3 km" in capsys.readouterr().out


def test_monitoring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Given a node that runs, then each command of the page says something about it."""
    with MemForest.embedded(tmp_path / "memory-data") as memory:
        memory.ingest("bob", "s1", [{"role": "user", "content": "I have a dog."}], wait="facts")
        status, doctor, metrics, *_, verified = run_commands("howto/monitor.md", monkeypatch, tmp_path)

    assert "extract" in status and "ok" in doctor and "memforest_store_up 1" in metrics
    assert "No violation" in verified
