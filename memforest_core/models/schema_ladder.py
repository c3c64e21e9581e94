"""How a schema is requested, and what to fall back to where a provider refuses to hear of it."""

from __future__ import annotations

import json
import logging
import threading
from enum import IntEnum
from typing import Any

from memforest_core.models.calls import ChatRequest
from memforest_core.models.litellm_runtime import litellm_module
from memforest_core.models.step_settings import StepSettings

log = logging.getLogger(__name__)


class Rung(IntEnum):
    """From the strongest way of requesting to the weakest."""

    JSON_SCHEMA = 0
    JSON_OBJECT = 1
    PROMPT = 2


class SchemaLadder:
    """Remembers per model and server the strongest way that was not refused."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str | None], Rung] = {}

    def rung(self, settings: StepSettings) -> Rung:
        """How to ask next."""
        if settings.schema_mode != "auto":
            return Rung[settings.schema_mode.upper()]
        key = (settings.model, settings.api_base)
        with self._lock:
            if key not in self._known:
                self._known[key] = _first_rung(settings.model)
            return self._known[key]

    def step_down(self, settings: StepSettings, refused: Rung) -> bool:
        """Notes a refusal; False if there is nothing to fall back to."""
        if settings.schema_mode != "auto" or refused is Rung.PROMPT:
            return False
        key = (settings.model, settings.api_base)
        with self._lock:
            if self._known.get(key, refused) <= refused:
                self._known[key] = Rung(refused + 1)
                log.warning(
                    "model_refuses_response_format",
                    extra={
                        "model": settings.model,
                        "refused": refused.name.lower(),
                        "used_from_now_on": self._known[key].name.lower(),
                    },
                )
        return True


def _first_rung(model: str) -> Rung:
    # Known from litellm's tables, without a request; where it cannot tell, the provider decides.
    litellm = litellm_module()
    try:
        name, provider, *_ = litellm.get_llm_provider(model)
    except litellm.BadRequestError:
        return Rung.JSON_SCHEMA
    supported = litellm.get_supported_openai_params(name, provider)
    if supported is not None and "response_format" not in supported:
        return Rung.PROMPT
    return Rung.JSON_SCHEMA


def response_format(request: ChatRequest, rung: Rung) -> dict[str, Any] | None:
    """The ``response_format`` of a request on a rung; None on the last one and without a schema."""
    if request.schema is None or rung is Rung.PROMPT:
        return None
    if rung is Rung.JSON_OBJECT:
        return {"type": "json_object"}
    # Not strict: strict mode forbids optional fields and length limits; the caller validates.
    schema = {"name": request.schema_name, "schema": dict(request.schema), "strict": False}
    return {"type": "json_schema", "json_schema": schema}


def messages(request: ChatRequest, rung: Rung) -> list[dict[str, str]]:
    """The messages to send; below json_schema the schema ends the first system message, so that
    the fixed beginning of a prompt stays the same from call to call."""
    sent = [{"role": message.role, "content": message.content} for message in request.messages]
    if request.schema is None or rung is Rung.JSON_SCHEMA:
        return sent
    schema = json.dumps(request.schema, separators=(",", ":"), sort_keys=True)
    demand = f"Answer with one JSON object that follows this JSON schema, and nothing else:\n{schema}"
    system = next((message for message in sent if message["role"] == "system"), None)
    if system is None:
        return [{"role": "system", "content": demand}, *sent]
    system["content"] += "\n\n" + demand
    return sent
