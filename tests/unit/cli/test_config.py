"""The printed settings: complete, explained, and without secrets."""

from __future__ import annotations

import json

import pytest
from pydantic import BaseModel
from typer.testing import CliRunner

from memforest_core.cli.config import masked, walk
from memforest_core.cli.program import app
from memforest_core.settings import Settings, load_settings


def settings_of(**environment: str) -> dict[str, dict[str, object]]:
    result = CliRunner().invoke(app, ["config", "--json"], env=environment)
    assert result.exit_code == 0, result.output
    return {setting["name"]: setting for setting in json.loads(result.stdout)["settings"]}


def fields(group: type[BaseModel]) -> int:
    """How many settings a group has, its groups included."""
    count = 0
    for field in group.model_fields.values():
        nested = field.annotation
        is_group = isinstance(nested, type) and issubclass(nested, BaseModel)
        count += fields(nested) if is_group else 1  # type: ignore[arg-type]
    return count


def test_every_setting_is_there_once() -> None:
    names = [setting.name for setting in walk(load_settings())]
    assert len(names) == len(set(names)) == fields(Settings)


def test_a_setting_says_all_about_itself() -> None:
    assert settings_of()["worker.poll_s"] == {
        "name": "worker.poll_s",
        "variable": "MEMFOREST_WORKER__POLL_S",
        "value": 1.0,
        "default": 1.0,
        "changed": False,
        "description": "How often a worker polls for due trees.",
        "group": "Worker processes.",
    }


def test_each_variable_sets_its_setting() -> None:
    """Given the variable that is printed, when it is set, then that setting has its value and is marked."""
    variable = str(settings_of()["llm.extract.timeout_s"]["variable"])
    changed = [setting for setting in settings_of(**{variable: "7.5"}).values() if setting["changed"]]
    assert [(setting["name"], setting["value"], setting["default"]) for setting in changed] == [
        ("llm.extract.timeout_s", 7.5, None)
    ]


def test_secrets_stay_secret() -> None:
    shown = (
        CliRunner()
        .invoke(
            app,
            ["config"],
            env={
                "MEMFOREST_DATABASE__URL": "postgresql+psycopg://app:pa55@db.example/memory",
                "MEMFOREST_BROKER__URL": "redis://:pa55@cache.example:6379/0",
                "MEMFOREST_LLM__API_KEY": "sk-pa55",
                "MEMFOREST_LLM__EXTRACT__API_KEY": "sk-pa55",
                "MEMFOREST_EMBEDDING__API_KEY": "sk-pa55",
                "MEMFOREST_INDEX__API_KEY": "sk-pa55",
                "MEMFOREST_INDEX__URL": "https://me:pa55@qdrant.example:6333",
                "MEMFOREST_LLM__API_BASE": "https://pa55@llm.example/v1",
                "MEMFOREST_LLM__EXTRACT__API_BASE": "https://me:pa55@llm.example/v1",
                "MEMFOREST_EMBEDDING__API_BASE": "https://llm.example/v1?key=pa55",
                "MEMFOREST_RECALL__RERANK__API_BASE": "https://me:pa55@llm.example",
                "MEMFOREST_OBSERVE__OTLP_ENDPOINT": "https://me:pa55@otlp.example",
                "MEMFOREST_LLM__PARAMETERS": '{"aws_secret_access_key": "pa55"}',
                "MEMFOREST_LLM__EXTRACT__PARAMETERS": '{"aws_session_token": "pa55"}',
            },
        )
        .output
    )
    assert "pa55" not in shown
    assert "postgresql+psycopg://app:***@db.example/memory" in shown
    assert "redis://:***@cache.example:6379/0" in shown


@pytest.mark.parametrize(
    "secret, harmless",
    [
        ("", ""),
        ("sk-123", "***"),
        ("redis://localhost:6379/0", "redis://localhost:6379/0"),
        ("postgresql://app@/db?host=/run/pg&port=5432", "postgresql://app@/db?host=/run/pg&port=5432"),
        ("postgresql://app@/db?host=/run/pg&password=x", "postgresql://app@/db?host=***&password=***"),
        ("postgresql://app:p%40s@[::1]:5/db#frag", "postgresql://app:***@[::1]:5/db"),
        ("https://token@qdrant.example:6333/a", "https://***@qdrant.example:6333/a"),
        ("http://user:pa55@proxy:1/v1?key=x", "http://user:***@proxy:1/v1?key=***"),
        ("redis+socket:///run/valkey.sock", "redis+socket:///run/valkey.sock"),
    ],
)
def test_of_an_address_only_what_is_secret_is_masked(secret: str, harmless: str) -> None:
    assert masked(secret) == harmless


def test_people_see_what_differs_from_the_default() -> None:
    shown = CliRunner().invoke(app, ["config"], env={"MEMFOREST_RECALL__K": "25"}).output
    line = next(line for line in shown.splitlines() if "MEMFOREST_RECALL__K " in line)
    assert line.startswith("*")
    assert "25" in line
    assert "(default: 10)" in line
