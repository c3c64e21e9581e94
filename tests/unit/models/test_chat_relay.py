"""What of an app's request reaches a provider that does not speak OpenAI's protocol."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from memforest_core.errors import InvalidInput, ModelAuthFailed, ModelRejected
from memforest_core.models.chat_relay import ChatRelay
from memforest_core.settings import GatewaySettings

REQUEST = {
    "model": "app",
    "messages": [{"role": "user", "content": "Hi."}],
    "stop": ["END"],
    "max_tokens": 5,
    "top_k": 3,
}


@pytest.mark.parametrize("field", ["api_base", "mock_response", "metadata"])
def test_another_provider_gets_no_field_that_is_not_translated(field: str) -> None:
    relay = ChatRelay(GatewaySettings(model="anthropic/claude-3-5-sonnet-20241022", api_key="k"))
    with pytest.raises(InvalidInput, match=f"Leave out '{field}'"):
        asyncio.run(relay.complete({**REQUEST, field: "forged"}))


@pytest.mark.parametrize(
    "given,error", [({"model": "tiny"}, ModelRejected), ({"model": "openai/tiny"}, ModelAuthFailed)]
)
def test_a_model_that_can_not_be_called_is_said(
    given: dict[str, Any], error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(error, match="set MEMFOREST_GATEWAY__"):
        ChatRelay(GatewaySettings(**given)).check()
