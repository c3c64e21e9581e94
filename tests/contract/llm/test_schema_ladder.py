"""A provider that refuses response_format gets a weaker form of request, and the form is remembered."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from memforest_core.errors import ModelRejected
from memforest_core.models.accounting import StepSettings
from memforest_core.models.calls import ChatRequest, Message, Step
from memforest_core.models.litellm_chat import LitellmChat
from tests.harness.model_server import ModelServer

SCHEMA = {"type": "object", "properties": {"items": {"type": "array"}}}
REQUEST = ChatRequest(Step.EXTRACT, (Message("system", "Fixed."), Message("user", "Text.")), SCHEMA, "facts")


def requested(server: ModelServer) -> list[str | None]:
    return [call.body.get("response_format", {}).get("type") for call in server.requests]


def chat(server: ModelServer, **changes: Any) -> LitellmChat:
    return LitellmChat({Step.EXTRACT: StepSettings("openai/m", server.url, "k", **changes)})


def answering(*refused: str) -> ModelServer:
    return ModelServer(answer=lambda body: "{}", refused_formats=frozenset(refused))


def test_a_refused_json_schema_becomes_json_object_once(caplog: pytest.LogCaptureFixture) -> None:
    with answering("json_schema") as server, caplog.at_level(logging.WARNING):
        model = chat(server)
        for _ in range(3):
            assert model.complete(REQUEST).text == "{}"
        assert requested(server) == ["json_schema", "json_object", "json_object", "json_object"]
        reported = [r for r in caplog.records if r.msg == "model_refuses_response_format"]
        assert len(reported) == 1


def test_with_both_refused_the_schema_goes_into_the_prompt() -> None:
    with answering("json_schema", "json_object") as server:
        model = chat(server)
        model.complete(REQUEST)
        model.complete(REQUEST)
        assert requested(server) == ["json_schema", "json_object", None, None]
        system = server.requests[-1].body["messages"][0]["content"]
        assert system.startswith("Fixed.\n")
        assert json.dumps(SCHEMA, separators=(",", ":"), sort_keys=True) in system
        assert server.requests[-1].body["messages"][1]["content"] == "Text."
        # The fixed part stays the same from call to call, for the provider's prefix cache.
        assert server.requests[-2].body["messages"][0]["content"] == system


def test_a_configured_way_is_used_as_it_is() -> None:
    with answering() as server:
        chat(server, schema_mode="prompt").complete(REQUEST)
        chat(server, schema_mode="json_object").complete(REQUEST)
        assert requested(server) == [None, "json_object"]
    with answering("json_schema") as server, pytest.raises(ModelRejected):
        chat(server, schema_mode="json_schema").complete(REQUEST)


def test_without_a_system_message_one_is_made() -> None:
    request = ChatRequest(Step.EXTRACT, (Message("user", "Text."),), SCHEMA)
    with answering() as server:
        chat(server, schema_mode="prompt").complete(request)
        roles = [message["role"] for message in server.requests[0].body["messages"]]
        assert roles == ["system", "user"]
