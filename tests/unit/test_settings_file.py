"""A settings file in YAML: what it says counts below the environment, and what it must not say is refused by name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from memforest_core import InvalidSettings, load_default_config, load_settings
from memforest_core.cli.program import app
from memforest_core.client import artifact
from memforest_core.settings import Settings
from memforest_core.settings.file import MAX_BYTES, config_names, read_named


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "memforest.yaml"
    monkeypatch.setenv("MEMFOREST_CONFIG", str(path))
    return path


def refusal(file: Path, text: str) -> str:
    file.write_text(text)
    with pytest.raises(InvalidSettings) as refused:
        load_settings()
    return refused.value.message.removeprefix(f"{file}")


def test_a_file_sets_what_the_environment_does_not(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text(
        "tenant: acme\nllm:\n  model: openai/m\n  extract: {timeout_s: 5}\nextract:\n  categories: [a, b]\n"
    )
    monkeypatch.setenv("MEMFOREST_LLM__EXTRACT__MODEL", "openai/other")
    monkeypatch.setenv("MEMFOREST_TENANT", "shop")
    settings = load_settings(recall={"k": 3})
    assert (settings.tenant, settings.llm.model) == ("shop", "openai/m")
    assert (settings.llm.extract.model, settings.llm.extract.timeout_s) == ("openai/other", 5.0)
    assert settings.extract.categories == ("a", "b")
    assert settings.recall.k == 3
    assert load_settings(tenant="mine").tenant == "mine"


@pytest.mark.parametrize("text", ["", "# nothing\n", "llm:\n", "llm: {}\n"])
def test_an_empty_file_or_group_sets_nothing(file: Path, text: str) -> None:
    file.write_text(text)
    assert load_settings() == Settings()


@pytest.mark.parametrize(
    "text, said",
    [
        ("llm: {modle: x}", ": 'llm.modle' is no setting: did you mean llm.model?"),
        ("lmm: {model: x}", ": 'lmm' is no setting (memforest config lists all)."),
        ("llm.model: x", ": 'llm.model' is no setting: write model below llm."),
        ("llm: offline", ": llm is a group: write its settings below it."),
        ("recall: {k: 0}", ": set recall.k to a valid value: Input should be greater than or equal to 1."),
        ("tenant: 1", ": set tenant to a valid value: Input should be a valid string."),
        ("worker: {heartbeat_s: 60}", ": set worker to a valid value: Value error, worker.dead_after_s must be at least 3 times worker.heartbeat_s."),
        ("tenant: a\ntenant: b", " is no YAML of settings: 'tenant' is there twice in one group."),
        ("llm: &x {model: m}\nextract: *x", " is no YAML of settings: it has an alias: write the value out."),
        ("llm: [", " is no YAML: expected the node content, but found '<stream end>' in line 1."),
        ("tenant: !!python/name:os.system x", " is no YAML: could not determine a constructor for the tag 'tag:yaml.org,2002:python/name:os.system' in line 1."),
        ("- llm", "Write {} as groups and settings, such as llm: with model: below it."),
        ("[" * 5_000, " is no YAML of settings: it nests too deeply."),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_file_is_named(file: Path, text: str, said: str) -> None:
    assert refusal(file, text) == said.format(file)


@pytest.mark.parametrize(
    "text, variable",
    [
        ("llm: {api_key: sk-1}", "MEMFOREST_LLM__API_KEY"),
        ("llm: {extract: {api_key: 12}}", "MEMFOREST_LLM__EXTRACT__API_KEY"),
        ("database: {url: 'postgresql+psycopg://me:pw@host/db'}", "MEMFOREST_DATABASE__URL"),
        ("database: {url: 'postgresql://host/db?password=pw'}", "MEMFOREST_DATABASE__URL"),
        ("broker: {url: 'redis://:pw@host:6379/0'}", "MEMFOREST_BROKER__URL"),
        ("index: {url: 'https://token@qdrant:6333'}", "MEMFOREST_INDEX__URL"),
        ("llm: {parameters: {extra_headers: {Authorization: Bearer x}}}", "MEMFOREST_LLM__PARAMETERS"),
    ],
)
def test_secrets_belong_in_the_environment(file: Path, text: str, variable: str) -> None:
    message = refusal(file, text)
    assert "is a secret" in message
    assert message.endswith(f"set {variable}.")
    assert not {"sk-1", "pw", "token", "Bearer"} & set(message.replace(":", " ").replace("@", " ").split())


def test_addresses_without_a_password_may_stand_in_a_file(file: Path) -> None:
    file.write_text(
        "database: {url: postgresql+psycopg://memforest_app@db/memforest}\n"
        "broker: {url: redis://broker:6379/0}\nindex: {url: http://qdrant:6333, api_key: }\n"
        "llm: {parameters: {reasoning_effort: low, max_completion_tokens: 5}}\n"
    )
    assert load_settings().database.url.get_secret_value() == "postgresql+psycopg://memforest_app@db/memforest"


def test_a_file_that_can_not_be_read_is_refused(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidSettings, match="can't be read"):
        load_settings()
    file.write_bytes(b"tenant: \xff")
    with pytest.raises(InvalidSettings, match="UTF-8"):
        load_settings()
    file.write_text("#" * (MAX_BYTES + 1))
    with pytest.raises(InvalidSettings, match="larger"):
        load_settings()
    monkeypatch.setenv("MEMFOREST_CONFIG", str(tmp_path / "is_a_directory.yaml"))
    (tmp_path / "is_a_directory.yaml").mkdir()
    with pytest.raises(InvalidSettings, match="can't be read"):
        load_settings()


@pytest.mark.parametrize("name", config_names())
def test_each_configuration_that_comes_along_is_valid_and_explained(name: str) -> None:
    settings = load_default_config(name)
    assert (settings == Settings()) == (not read_named(name, Settings) or name == "offline")
    assert name in (load_default_config.__doc__ or "")


def test_configurations_are_chosen_by_name(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Given a name, a file and variables, then each wins over what is named before it."""
    file.write_text("accept: {cell_turns: 3}")
    monkeypatch.setenv("MEMFOREST_ACCEPT__QUIET_S", "1")
    settings = load_default_config("group", tenant="mine")
    assert (settings.accept.window_turns, settings.accept.cell_turns, settings.accept.quiet_s) == (64, 3, 1.0)
    assert settings.tenant == "mine"
    monkeypatch.setenv("MEMFOREST_CONFIG", "group")
    assert load_settings().accept.cell_turns == 4
    monkeypatch.setenv("MEMFOREST_CONFIG", "goup")
    with pytest.raises(InvalidSettings):
        load_settings()


def test_an_unknown_configuration_is_refused_with_the_known_ones() -> None:
    for name in ("qwen3", "../offline", ""):
        with pytest.raises(InvalidSettings) as refused:
            load_default_config(name)
        assert refused.value.message.endswith("take one of chat, default, group, import, offline, paper.")
    assert artifact.load_default_config() == Settings()


def test_config_says_where_settings_come_from(file: Path) -> None:
    file.write_text("tenant: acme")
    reported = json.loads(CliRunner().invoke(app, ["config", "--name", "chat", "--json"]).stdout)
    values = {setting["name"]: setting["value"] for setting in reported["settings"]}
    assert (reported["file"], values["tenant"], values["recall.mode"]) == (str(file), "acme", "auto")
    assert f"Settings file: {file}" in CliRunner().invoke(app, ["config"]).stdout
