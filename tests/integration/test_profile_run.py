"""The profile of a conversation: every stage has its own time, calls and statements, on a real node and model server."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from memforest_core.cli.program import app
from memforest_core.domain.ids import TenantId
from memforest_core.models.calls import CallRecord, Step
from memforest_core.observe.profiling import STAGES, Profile
from tests.harness.model_server import ModelServer

SECRET = "marzipan-4711"


@pytest.fixture
def talk(tmp_path: Path) -> Path:
    """Three sessions of one owner."""
    texts = ("I moved to Miami.", "I adopted a dog named Rex.", f"My locker code is {SECRET}.")
    lines = [
        {"owner": "bob", "session_id": f"s{n}", "turns": [{"role": "user", "name": "Bob", "content": text}]}
        for n, text in enumerate(texts)
    ]
    path = tmp_path / "talk.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


def profiled(*arguments: str) -> dict[str, Any]:
    done = CliRunner().invoke(app, ["profile-run", *arguments, "--json"])
    assert done.exit_code == 0, done.output
    assert SECRET not in done.output
    return dict(json.loads(done.stdout))


def test_each_stage_has_its_time_calls_and_statements(talk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Given a file and a slow model, when it is profiled, then its calls and tokens are those that the server saw."""
    with ModelServer(latency_s=0.3) as server:
        settings = {"MODEL": "openai/test-model", "API_BASE": server.url, "API_KEY": "test"}
        for name, value in settings.items():
            monkeypatch.setenv(f"MEMFOREST_LLM__{name}", value)
        found = profiled(str(talk), "--question", "Where do I live?", "--question", "What is my dog called?")
        calls = len([one for one in server.requests if one.path.endswith("/chat/completions")])
    stages = found["stages"]
    assert list(stages) == [*STAGES, "elsewhere"]
    assert (found["sessions"], found["turns"], found["recalls"]) == (3, 3, 2)
    assert (stages["accept"]["spans"], stages["recall"]["spans"], found["slowest"]) == (3, 2, "extract")
    for name in STAGES:
        assert stages[name]["spans"] and stages[name]["statements"]
        assert stages[name]["wall_s"] >= stages[name]["cpu_s"] > 0
        assert stages[name]["wall_s"] * 1_000 >= stages[name]["slowest_ms"] / 2 > 0
    assert stages["extract"]["slowest_ms"] >= 300
    assert stages["extract"]["prompt_tokens"] > stages["extract"]["completion_tokens"] > 0
    assert sum(each["model_calls"] for each in stages.values()) == calls >= 3
    assert found["recall_p50_ms"]["total"] > 0


def test_people_see_a_table_and_a_file_without_words_is_refused(tmp_path: Path) -> None:
    shown = CliRunner().invoke(app, ["profile-run", "--question", "Where does Bob live?"])
    assert shown.exit_code == 0
    assert all(f"\n{name} " in shown.stdout for name in STAGES) and "The slowest stage is " in shown.stdout
    empty = tmp_path / "empty.jsonl"
    empty.write_text("")
    assert CliRunner().invoke(app, ["profile-run", str(empty)]).exit_code == 2


def test_nested_spans_are_counted_once() -> None:
    """A span within another stage is taken out of it; within its own stage it is a part of it."""
    profile, call = Profile(), CallRecord(Step.EXTRACT, "m", 5, 2, 0, 0.0, 1.0, "ok")
    with profile.span("reduce", None), profile.span("reduce", "another") as trace:
        time.sleep(0.02)
        with profile.span("index"):
            time.sleep(0.05)
            profile.called(TenantId("t"), [call, CallRecord(Step.EMBED, "m", 9, 0, 0, 0.0, 1.0, "ok")])
    reduce, index = profile.numbers()["reduce"], profile.numbers()["index"]
    assert trace == "another"
    assert (reduce["spans"], reduce["model_calls"], index["spans"]) == (1, 0, 1)
    assert (index["model_calls"], index["prompt_tokens"], index["completion_tokens"]) == (1, 5, 2)
    assert 0.02 <= reduce["wall_s"] < 0.05 <= index["wall_s"] < reduce["slowest_ms"] / 1_000
