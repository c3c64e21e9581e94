"""Vectors of a given server that speaks OpenAI's protocol, without litellm: its import takes seconds and 130 MB."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import httpx

from memforest_core.domain.forks import renewed_in_child
from memforest_core.models.accounting import StepSettings, listed
from memforest_core.models.litellm_failures import ServerError
from memforest_core.models.litellm_runtime import bound_httpx, key_argument

PREFIX = "openai/"
ONLY_LITELLM = frozenset({"SSL_VERIFY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_CUSTOM_HEADERS"})
"""Variables that only litellm and its client read: who sets one gets them."""
_IDLE_S = 60.0
"""How long an idle connection stays open: minutes can pass between questions."""


@renewed_in_child
class OpenAIVectors:
    """Requests to one server, all from one event loop, with what litellm's ``aembedding`` takes and answers."""

    def __init__(self, settings: StepSettings) -> None:
        self._url = f"{(settings.api_base or '').rstrip('/')}/embeddings"
        self._key = key_argument(settings.api_key, settings.api_base)
        self._name = settings.model.removeprefix(PREFIX)
        self._timeout_s = settings.timeout_s
        self._client: httpx.AsyncClient | None = None

    async def request(self, *, input: list[str], encoding_format: str, **_: object) -> Any:
        """The answer's vectors, tokens and dollars. Raises ServerError, and what httpx raises."""
        if self._client is None:
            bound_httpx()
            limits = httpx.Limits(keepalive_expiry=_IDLE_S)
            self._client = httpx.AsyncClient(timeout=self._timeout_s, limits=limits, follow_redirects=True)
        body = {"model": self._name, "input": input, "encoding_format": encoding_format}
        response = await self._client.post(self._url, json=body, headers={"Authorization": f"Bearer {self._key}"})
        if not response.is_success:
            raise ServerError(response)
        try:
            document = response.json()
        except ValueError as error:
            raise httpx.DecodingError("The answer is no JSON.") from error
        known = document if isinstance(document, dict) else {}
        usage = known["usage"] if isinstance(known.get("usage"), dict) else {}
        tokens = usage.get("prompt_tokens")
        counted = SimpleNamespace(prompt_tokens=tokens if isinstance(tokens, int) else 0)
        hidden = {"response_cost": counted.prompt_tokens * (listed(self._name).get("input_cost_per_token") or 0.0)}
        return SimpleNamespace(data=known.get("data"), usage=counted, _hidden_params=hidden)
