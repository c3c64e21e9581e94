"""The ChatModel port over litellm: one request per call, a hard deadline, errors by class."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Mapping
from enum import IntEnum
from typing import Any

from memforest_core.domain.forks import renewed_in_child
from memforest_core.errors import ContentRefused, InvalidSettings
from memforest_core.models.accounting import StepSettings
from memforest_core.models.calls import ChatReply, ChatRequest, Message, Step
from memforest_core.models.limits.call_limits import CallLimits
from memforest_core.models.limits.limited_models import CHECK_MAX_TOKENS, CHECK_TEXT, QUERY_WAIT_S, WAIT_S, chat_tokens
from memforest_core.models.limits.model_limits import input_name
from memforest_core.models.litellm_failures import Target, check_target, failure, refuses
from memforest_core.models.litellm_requests import LitellmRequests
from memforest_core.models.litellm_runtime import BASE_BYTES, TOKEN_BYTES, litellm_module

log = logging.getLogger(__name__)


_FORMATS = ("response_format", "json_schema", "json_object", "response_schema")


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
                used = self._known[key].name.lower()
                extra = {"model": settings.model, "refused": refused.name.lower(), "used_from_now_on": used}
                log.warning("model_refuses_response_format", extra=extra)
        return True


def _first_rung(model: str) -> Rung:
    # Known from litellm's tables, without a request; where it cannot tell, the provider decides.
    litellm = litellm_module()
    try:
        name, provider, *_ = litellm.get_llm_provider(model)
    except litellm.BadRequestError:
        return Rung.JSON_SCHEMA
    supported = litellm.get_supported_openai_params(name, provider)
    return Rung.PROMPT if supported is not None and "response_format" not in supported else Rung.JSON_SCHEMA


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


@renewed_in_child
class LitellmChat:
    """Chat models by step; a failed call that reached a provider has its record in ``error.call``. Thread-safe."""

    def __init__(
        self, settings: Mapping[Step, StepSettings], limits: CallLimits | None = None, *, wait_s: float = WAIT_S
    ) -> None:
        """``wait_s``: how long a call waits for its permit of the limits."""
        self._settings = dict(settings)
        self._requests = {
            step: LitellmRequests(step, each, "MEMFOREST_LLM", limits, wait_s) for step, each in settings.items()
        }
        self._ladder = SchemaLadder()

    def model_name(self, step: Step) -> str:
        """The configured model of a step. Raises InvalidSettings if the step has none."""
        return self._of(step).model

    def check(self, step: Step) -> None:
        """As ``check_target`` for the step's model."""
        api_key = self._of(step).api_key
        check_target(self._requests[step].target, api_key)

    def complete(self, request: ChatRequest) -> ChatReply:
        """One call of at most ``timeout_s`` seconds, within the limits of its step.

        A provider that refuses ``response_format`` is called again in a weaker way, once per model
        and rung, within the same deadline. Raises as the port says; InvalidSettings for a step
        without a model.
        """
        step, settings = request.step, self._of(request.step)
        named = request.input or input_name(message.content for message in request.messages)
        ask = ChatRequest(step, (Message("user", CHECK_TEXT),), max_tokens=CHECK_MAX_TOKENS)
        check = None if step in QUERY_WAIT_S else lambda: self._complete(ask, settings)
        tokens = chat_tokens(request, settings.max_tokens)
        return self._requests[step].called(named, tokens, lambda: self._complete(request, settings), check)

    def _complete(self, request: ChatRequest, settings: StepSettings) -> ChatReply:
        requests = self._requests[request.step]
        response, record = requests.answered(
            lambda deadline: self._ask(request, settings, requests, deadline),
            lambda response: _refusal(response, requests.target) or response,
        )
        return ChatReply(text=_text(response, thoughts=request.schema is not None), record=record)

    def _of(self, step: Step) -> StepSettings:
        if step not in self._settings:
            raise InvalidSettings(f"No model is set for step {step}: set MEMFOREST_LLM__MODEL.")
        return self._settings[step]

    def _ask(self, request: ChatRequest, settings: StepSettings, requests: LitellmRequests, deadline: float) -> Any:
        """litellm's response, or the error to raise."""
        limit = request.max_tokens or settings.max_tokens
        while True:
            rung = self._ladder.rung(settings) if request.schema is not None else Rung.PROMPT
            arguments: dict[str, Any] = {
                **settings.parameters,
                "messages": messages(request, rung),
                "max_tokens": limit,
                "temperature": settings.temperature if request.temperature is None else request.temperature,
                "response_format": response_format(request, rung),
            }
            done = requests.call("acompletion", BASE_BYTES + TOKEN_BYTES * limit, deadline, **arguments)
            if done.error is None:
                return done.value
            refused = request.schema is not None and refuses(done.error, _FORMATS)
            if not refused or not self._ladder.step_down(settings, rung):
                return failure(done.error, requests.target)


def _refusal(response: Any, target: Target) -> ContentRefused | None:
    filtered = any(choice.finish_reason == "content_filter" for choice in response.choices)
    if filtered and not _text(response):
        return ContentRefused(f"The content policy of {target} withheld the answer.")
    return None


def _text(response: Any, *, thoughts: bool = False) -> str:
    """The text of an answer, else the arguments of a tool call, else, if wanted, what the model thought."""
    if not response.choices:
        return ""
    message = response.choices[0].message
    called = [getattr(call, "function", None) for call in message.tool_calls or ()]
    given = [getattr(each, "arguments", None) for each in (*called, message.function_call)]
    texts = (message.content, *given, getattr(message, "reasoning_content", None) if thoughts else None)
    return next((text for text in texts if isinstance(text, str) and text.strip()), "")
