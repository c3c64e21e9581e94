"""LitellmChat fulfils the ChatModel port's promises against a provider that misbehaves over HTTP."""

from __future__ import annotations

import json
import logging
import time
import traceback
from collections.abc import Iterator
from typing import Any

import pytest

from memforest_core.errors import (
    ContentRefused,
    ContextTooLong,
    InvalidSettings,
    MemForestError,
    ModelAuthFailed,
    ModelRateLimited,
    ModelRejected,
    ModelUnavailable,
)
from memforest_core.models.accounting import Price, StepSettings
from memforest_core.models.calls import CallRecord, ChatRequest, Message, Step
from memforest_core.models.litellm_chat import LitellmChat
from tests.harness.litellm_warm import warm_up
from tests.harness.model_faults import CONTENT_FAULTS, Fault
from tests.harness.model_server import ModelServer
from tests.harness.timing import within

SECRET = "my sister Anna lives in Lisbon"
SCHEMA = {"type": "object", "properties": {"items": {"type": "array"}}, "required": ["items"]}
ANSWER = '{"items": []}'


@pytest.fixture(scope="module")
def warm() -> None:
    warm_up()


@pytest.fixture
def server(warm: None) -> Iterator[ModelServer]:
    with ModelServer(answer=lambda body: ANSWER, cached_tokens=3) as running:
        yield running


def chat(server: ModelServer, **changes: Any) -> LitellmChat:
    settings = {"model": "openai/test-model", "api_base": server.url, "api_key": "key-1"} | changes
    return LitellmChat({Step.EXTRACT: StepSettings(**settings)})


def request(**changes: Any) -> ChatRequest:
    given: dict[str, Any] = {
        "step": Step.EXTRACT,
        "messages": (Message("system", "You extract facts."), Message("user", SECRET)),
        "schema": SCHEMA,
        "schema_name": "facts",
    }
    return ChatRequest(**(given | changes))


def test_an_answer_comes_back_with_what_it_cost(server: ModelServer) -> None:
    server.latency_s = 0.05
    model, started = chat(server, price=Price(2.0, 10.0)), time.monotonic()
    reply = model.complete(request())
    took_s = time.monotonic() - started
    assert reply.text == ANSWER
    record = reply.record
    assert (record.step, record.model, record.outcome) == (Step.EXTRACT, "openai/test-model", "ok")
    assert (record.prompt_tokens, record.completion_tokens, record.cached_tokens) == (12, 3, 3)
    assert record.cost_usd == pytest.approx((12 * 2.0 + 3 * 10.0) / 1e6)
    assert 50 <= record.latency_ms <= 1_000 * took_s + 1


def test_cached_tokens_cost_their_own_price_and_else_as_the_others(server: ModelServer) -> None:
    """Given an answer whose 12 prompt tokens came from the cache, all or 3 of them."""
    own = chat(server, price=Price(2.0, 10.0, 0.5))
    record = own.complete(request()).record
    assert record.cached_tokens == 3
    assert record.cost_usd == pytest.approx((9 * 2.0 + 3 * 0.5 + 3 * 10.0) / 1e6)
    server.cached_tokens = 12
    assert own.complete(request()).record.cost_usd == pytest.approx((12 * 0.5 + 3 * 10.0) / 1e6)
    assert chat(server, price=Price(2.0)).complete(request()).record.cost_usd == pytest.approx(12 * 2.0 / 1e6)


def test_a_model_in_the_price_list_costs_what_the_list_says(server: ModelServer) -> None:
    reply = chat(server, model="openai/gpt-4o-mini").complete(request())
    assert 0 < reply.record.cost_usd < 0.001


def test_the_request_carries_messages_schema_limits_and_headers(server: ModelServer) -> None:
    chat(server, temperature=0.2, parameters={"extra_headers": {"X-Team": "memory"}}).complete(request(max_tokens=77))
    (call,) = server.requests
    assert call.path == "/v1/chat/completions"
    assert call.body["model"] == "test-model"
    assert call.body["messages"] == [
        {"role": "system", "content": "You extract facts."},
        {"role": "user", "content": SECRET},
    ]
    assert call.body["response_format"]["json_schema"]["schema"] == SCHEMA
    assert call.body["response_format"]["json_schema"]["name"] == "facts"
    assert (call.body["max_tokens"], call.body["temperature"]) == (77, 0.2)
    assert call.headers["x-team"] == "memory"


def test_each_step_uses_its_own_model(server: ModelServer) -> None:
    models = LitellmChat(
        {
            Step.EXTRACT: StepSettings("openai/small", server.url, "k"),
            Step.ANSWER: StepSettings("openai/large", server.url, "k"),
        }
    )
    assert models.model_name(Step.ANSWER) == "openai/large"
    models.complete(request(step=Step.ANSWER))
    assert server.requests[0].body["model"] == "large"
    with pytest.raises(InvalidSettings, match="MEMFOREST_LLM__MODEL"):
        models.complete(request(step=Step.PLAN))


@pytest.mark.parametrize(
    ("fault", "expected", "exactly"),
    [
        (Fault.RATE_LIMIT, ModelRateLimited, 7.0),
        (Fault.OVERLOADED, ModelUnavailable, 7.0),
        (Fault.SERVER_ERROR, ModelUnavailable, None),
        (Fault.DISCONNECT, ModelUnavailable, None),
        (Fault.BROKEN_BODY, ModelUnavailable, None),
        (Fault.UNAUTHORIZED, ModelAuthFailed, None),
        (Fault.FORBIDDEN, ModelAuthFailed, None),
        (Fault.UNKNOWN_MODEL, ModelRejected, None),
        (Fault.BAD_REQUEST, ModelRejected, None),
        (Fault.CONTEXT_LENGTH, ContextTooLong, None),
        (Fault.CONTENT_FILTER, ContentRefused, None),
        (Fault.FILTERED_ANSWER, ContentRefused, None),
    ],
)
def test_every_failure_has_its_class_and_is_one_request(
    server: ModelServer, fault: Fault, expected: type[MemForestError], exactly: float | None
) -> None:
    server.script(fault)
    with pytest.raises(MemForestError) as caught:
        chat(server).complete(request())
    assert type(caught.value) is expected
    assert getattr(caught.value, "retry_after", None) == exactly
    assert len(server.requests) == 1
    assert isinstance(caught.value.call, CallRecord)
    assert caught.value.call.outcome == expected.code


@pytest.mark.parametrize("fault", sorted(CONTENT_FAULTS - {Fault.FILTERED_ANSWER}))
def test_what_the_answer_says_never_raises(server: ModelServer, fault: Fault) -> None:
    server.script(fault)
    reply = chat(server).complete(request())
    assert isinstance(reply.text, str)
    assert reply.record.outcome == "ok"
    if fault in (Fault.EMPTY, Fault.NULL, Fault.NO_CHOICES):
        assert reply.text == ""


@pytest.mark.parametrize("fault", [Fault.HANG, Fault.DRIBBLE])
def test_the_deadline_is_hard(server: ModelServer, fault: Fault) -> None:
    model = chat(server, timeout_s=0.8)

    def cut_off() -> None:
        server.script(fault)
        with pytest.raises(ModelUnavailable, match=r"within 0\.8 s"):
            model.complete(request())

    assert within(1.3, cut_off)
    # The abandoned call gave its connection and its slot back.
    assert model.complete(request()).text == ANSWER
    deadline = time.monotonic() + 10
    while server.active and time.monotonic() < deadline:
        time.sleep(0.02)
    assert server.active == 0


def test_calls_one_after_the_other_share_a_connection(server: ModelServer) -> None:
    """Given two clients of the same settings, then they share litellm's pool too: no later call opens a connection."""
    for client in (chat(server), chat(server)):
        for _ in range(3):
            client.complete(request())
    assert len(server.requests) == 6
    assert server.opened == 1


def test_a_server_without_a_key_never_gets_another_providers_key(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-for-you")
    assert chat(server, api_key=None).complete(request()).text == ANSWER
    assert len(server.keys) == 1
    assert "sk-not-for-you" not in server.keys
    assert chat(server, api_key="key-1").complete(request()).text == ANSWER
    assert server.keys[-1] == "key-1"


@pytest.mark.parametrize(
    "fault",
    [
        Fault.BAD_REQUEST,
        Fault.RATE_LIMIT,
        Fault.SERVER_ERROR,
        Fault.UNAUTHORIZED,
        Fault.CONTEXT_LENGTH,
        Fault.BROKEN_BODY,
        Fault.DISCONNECT,
        Fault.HANG,
    ],
)
def test_no_conversation_text_leaves_in_errors_or_logs(
    server: ModelServer, fault: Fault, caplog: pytest.LogCaptureFixture
) -> None:
    server.script(fault)
    with caplog.at_level(logging.DEBUG), pytest.raises(MemForestError) as caught:
        chat(server, timeout_s=0.5).complete(request())
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    printed = "".join(traceback.format_exception(caught.value))
    assert SECRET not in printed
    assert "key-1" not in printed
    assert SECRET not in caplog.text


def test_a_success_prints_and_logs_no_conversation_text(
    server: ModelServer, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    with caplog.at_level(logging.DEBUG):
        chat(server).complete(request())
        time.sleep(0.1)  # litellm's success handlers run behind the call
    printed = caplog.text + "".join(capfd.readouterr())
    assert SECRET not in printed
    assert ANSWER not in printed
    assert "key-1" not in repr(StepSettings("openai/m", api_key="key-1"))


def test_a_model_that_takes_no_temperature_is_not_sent_one(server: ModelServer) -> None:
    chat(server, model="openai/o3-mini").complete(request(max_tokens=99))
    body = server.requests[0].body
    assert "temperature" not in body
    assert body["max_completion_tokens"] == 99


def test_a_url_with_a_password_is_not_repeated_in_errors(server: ModelServer) -> None:
    server.script(Fault.SERVER_ERROR)
    url = server.url.replace("http://", "http://user:hunter2@")
    with pytest.raises(ModelUnavailable) as caught:
        chat(server, api_base=url).complete(request())
    assert "hunter2" not in str(caught.value)


# An error says that a key is missing or wrong; it is not taken for an unavailable server


def replied(settings: StepSettings) -> str:
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
        replied(StepSettings(model))
    assert caught.value.call is None


def test_so_is_an_empty_key_that_is_given(server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "")
    with pytest.raises(ModelAuthFailed, match="MEMFOREST_LLM__API_KEY"):
        replied(StepSettings("openai/gpt-4o-mini", api_key=" "))


def test_a_server_of_ones_own_needs_no_key(server: ModelServer) -> None:
    assert replied(StepSettings("openai/local", api_base=server.url, api_key="")) == ANSWER


def test_a_key_that_cannot_be_sent_says_so(server: ModelServer) -> None:
    with pytest.raises(ModelAuthFailed, match="line break") as caught:
        replied(StepSettings("openai/local", api_base=server.url, api_key="sk-one\nsk-two"))
    assert "sk-" not in caught.value.message


# A provider that refuses response_format gets a weaker form of request, and the form is remembered


FIXED = ChatRequest(Step.EXTRACT, (Message("system", "Fixed."), Message("user", "Text.")), SCHEMA, "facts")


def requested(server: ModelServer) -> list[str | None]:
    return [call.body.get("response_format", {}).get("type") for call in server.requests]


def answering(*refused: str) -> ModelServer:
    return ModelServer(answer=lambda body: "{}", refused_formats=frozenset(refused))


def test_a_refused_json_schema_becomes_json_object_once(caplog: pytest.LogCaptureFixture) -> None:
    with answering("json_schema") as server, caplog.at_level(logging.WARNING):
        model = chat(server)
        for _ in range(3):
            assert model.complete(FIXED).text == "{}"
        assert requested(server) == ["json_schema", "json_object", "json_object", "json_object"]
        reported = [r for r in caplog.records if r.msg == "model_refuses_response_format"]
        assert len(reported) == 1


def test_with_both_refused_the_schema_goes_into_the_prompt() -> None:
    with answering("json_schema", "json_object") as server:
        model = chat(server)
        model.complete(FIXED)
        model.complete(FIXED)
        assert requested(server) == ["json_schema", "json_object", None, None]
        system = server.requests[-1].body["messages"][0]["content"]
        assert system.startswith("Fixed.\n")
        assert json.dumps(SCHEMA, separators=(",", ":"), sort_keys=True) in system
        assert server.requests[-1].body["messages"][1]["content"] == "Text."
        # The fixed part stays the same from call to call, for the provider's prefix cache.
        assert server.requests[-2].body["messages"][0]["content"] == system


def test_a_configured_way_is_used_as_it_is() -> None:
    with answering() as server:
        chat(server, schema_mode="prompt").complete(FIXED)
        chat(server, schema_mode="json_object").complete(FIXED)
        assert requested(server) == [None, "json_object"]
    with answering("json_schema") as server, pytest.raises(ModelRejected):
        chat(server, schema_mode="json_schema").complete(FIXED)


def test_without_a_system_message_one_is_made() -> None:
    with answering() as server:
        chat(server, schema_mode="prompt").complete(ChatRequest(Step.EXTRACT, (Message("user", "Text."),), SCHEMA))
        roles = [message["role"] for message in server.requests[0].body["messages"]]
        assert roles == ["system", "user"]
