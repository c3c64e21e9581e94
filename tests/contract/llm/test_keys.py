"""An error says that a key is missing or wrong; it is not taken for an unavailable server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from memforest_core.errors import ModelAuthFailed
from memforest_core.models.accounting import StepSettings
from memforest_core.models.calls import ChatRequest, Message, Step
from memforest_core.models.litellm_chat import LitellmChat
from tests.harness.litellm_warm import warm_up
from tests.harness.model_server import ModelServer


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    warm_up()
    with ModelServer(answer=lambda body: "yes") as running:
        yield running


def ask(settings: StepSettings) -> str:
    return LitellmChat({Step.ANSWER: settings}).complete(ChatRequest(Step.ANSWER, (Message("user", "hi"),))).text


@pytest.mark.parametrize("value", ["", "  "])
@pytest.mark.parametrize(
    ("model", "variable"),
    [
        ("openai/gpt-4o-mini", "OPENAI_API_KEY"),
        ("gpt-4o-mini", "OPENAI_API_KEY"),
        ("anthropic/claude-3-haiku-20240307", "ANTHROPIC_API_KEY"),
        ("together_ai/some-model", "TOGETHERAI_API_KEY"),
    ],
)
def test_a_variable_that_is_set_but_empty_is_a_missing_key(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch, model: str, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    monkeypatch.delenv("ANTHROPIC_AUTH_TOKEN", raising=False)
    with pytest.raises(ModelAuthFailed, match="needs a key and none is set: set MEMFOREST_LLM__API_KEY") as caught:
        ask(StepSettings(model))
    assert caught.value.call is None


def test_so_is_an_empty_key_that_is_given(server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "")
    with pytest.raises(ModelAuthFailed, match="MEMFOREST_LLM__API_KEY"):
        ask(StepSettings("openai/gpt-4o-mini", api_key=" "))


def test_a_server_of_ones_own_needs_no_key(server: ModelServer) -> None:
    assert ask(StepSettings("openai/local", api_base=server.url, api_key="")) == "yes"


def test_a_key_that_cannot_be_sent_says_so(server: ModelServer) -> None:
    with pytest.raises(ModelAuthFailed, match="line break") as caught:
        ask(StepSettings("openai/local", api_base=server.url, api_key="sk-one\nsk-two"))
    assert "sk-" not in caught.value.message
