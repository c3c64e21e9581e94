"""A variable that looks like a setting and is none is a mistake, and is named with the one that was meant."""

from __future__ import annotations

import json

import pytest

from memforest_core.errors import InvalidSettings
from memforest_core.models.accounting import UNPRICED, Price
from memforest_core.models.calls import Step
from memforest_core.models.model_opening import step_settings
from memforest_core.settings import WEIGHTS, RefreshSettings, load_settings, unknown_variables


@pytest.mark.parametrize(
    "name, meant",
    [
        ("MEMFOREST_LLM_MODEL", "MEMFOREST_LLM__MODEL"),
        ("MEMFOREST_LLM__MODLE", "MEMFOREST_LLM__MODEL"),
        ("MEMFOREST_DATABSE__URL", "MEMFOREST_DATABASE__URL"),
        ("MEMFOREST_DATABASE_URL", "MEMFOREST_DATABASE__URL"),
        ("MEMFOREST_LLM__EXTRACT__MODLE", "MEMFOREST_LLM__EXTRACT__MODEL"),
        ("memforest_tennant", "MEMFOREST_TENANT"),
    ],
)
def test_an_unknown_variable_is_refused_with_the_nearest(
    monkeypatch: pytest.MonkeyPatch, name: str, meant: str
) -> None:
    monkeypatch.setenv(name, "a value")
    with pytest.raises(InvalidSettings) as refused:
        load_settings()
    assert refused.value.message == f"{name} is no setting: did you mean {meant}?"


@pytest.mark.parametrize(
    "name, value",
    [
        ("MEMFOREST_TENANT", "acme"),
        ("MEMFOREST_LLM", "{}"),
        ("MEMFOREST_RECALL__RERANK__FIRST", "5"),
        ("memforest_llm__model", "offline"),
        ("MEMFOREST_LLM_MODEL", ""),
        ("MEMFOREST_TEST_POSTGRES_URL", "postgresql://localhost"),
        ("MEMFOREST_APP_PASSWORD", "for the compose file"),
        ("MEMFOREST_VERSION", "0.1.0"),
        ("MEMFOREST_SERVICE_HOST", "10.0.0.1"),
        ("MEMFOREST_POSTGRES_SERVICE_PORT", "5432"),
        ("MEMFOREST_POSTGRES_PORT", "tcp://10.0.0.1:5432"),
        ("MEMFOREST_POSTGRES_PORT_5432_TCP_ADDR", "10.0.0.1"),
        ("MEMORY", "1"),
    ],
)
def test_what_is_known_empty_or_made_by_others_is_let_be(name: str, value: str) -> None:
    assert unknown_variables({name: value}) == []


def test_a_port_that_is_no_address_of_kubernetes_is_a_mistake() -> None:
    assert unknown_variables({"MEMFOREST_OBSERVE_METRICS_PORT": "9100"}) == ["MEMFOREST_OBSERVE_METRICS_PORT"]


NOTES = {"url": "http://localhost:6333", "collection": "notes", "text": "body"}


def test_sources_are_given_as_json_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMFOREST_RECALL__SOURCES", json.dumps({"notes": NOTES | {"metadata": ["tag"]}}))
    [(name, source)] = load_settings().recall.sources.items()
    assert (name, source.collection, source.metadata, source.limit, source.timeout_s) == (
        "notes",
        "notes",
        ("tag",),
        20,
        2,
    )


@pytest.mark.parametrize(
    "changed",
    [
        {"url": "ftp://localhost"},
        {"url": "http://me:secret@localhost"},
        {"url": "http://:1"},
        {"url": "http://localhost:99999"},
        {"key_variable": "MEMFOREST_NOTES_KEY"},
        {"key_variable": "A KEY"},
        {"text": ""},
        {"limit": 0},
        {"timeout_s": 0},
        {"colection": "x"},
    ],
)
def test_a_source_that_can_not_be_meant_is_refused(changed: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMFOREST_RECALL__SOURCES", json.dumps({"notes": NOTES | changed}))
    with pytest.raises(InvalidSettings, match=r"Set MEMFOREST_RECALL__SOURCES to a valid value: notes\.\w+: "):
        load_settings()


def test_a_price_is_that_of_the_model_of_a_step() -> None:
    prices = {"openai/own": {"input": 2.0, "cached_input": 0.5, "output": 10.0}}
    llm = load_settings(llm={"model": "openai/own", "plan": {"model": "openai/other"}, "prices": prices}).llm
    assert step_settings(llm, Step.EXTRACT).price == Price(2.0, 10.0, 0.5)
    assert step_settings(llm, Step.PLAN).price == UNPRICED


def test_a_price_of_cached_tokens_alone_would_make_the_others_free() -> None:
    with pytest.raises(
        InvalidSettings, match=r"MEMFOREST_LLM__PRICES to a valid value: openai/own.input: Field required"
    ):
        load_settings(llm={"prices": {"openai/own": {"cached_input": 0.5}}})


def test_weights_that_are_not_given_are_the_usual_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMFOREST_RECALL__WEIGHTS__SPEAKER", "0.5")
    assert load_settings().recall.weights == WEIGHTS | {"speaker": 0.5}
    monkeypatch.setenv("MEMFOREST_RECALL__WEIGHTS__SPAEKER", "0.5")
    with pytest.raises(InvalidSettings, match="did you mean MEMFOREST_RECALL__WEIGHTS__SPEAKER"):
        load_settings()


def test_the_quiet_period_grows_with_each_doubling_of_a_large_tree() -> None:
    settings = RefreshSettings(quiet_s=2.0)
    assert [settings.quiet_of(leaves) for leaves in (0, 1, 64, 128, 1_024)] == [2.0, 2.0, 2.0, 4.0, 10.0]
    assert RefreshSettings(quiet_s=0.0).quiet_of(10_000) == 0.0


def test_cosines_that_are_not_set_are_those_of_the_embedding_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given e5 by its one setting, then facts are compared by cosines of its narrow band; what is set wins."""
    usual = load_settings()
    assert usual.reduce.scene_assign == 0.70
    monkeypatch.setenv("MEMFOREST_EMBEDDING__MODEL", "multilingual-e5-small-4bit")
    monkeypatch.setenv("MEMFOREST_REDUCE__SCENE_WEAK", "0.91")
    e5 = load_settings()
    assert (e5.reduce.scene_assign, e5.reduce.scene_weak) == (0.924, 0.91)
    assert e5.reduce.scene_cap == usual.reduce.scene_cap
