"""How recall asks chat models: a document in, a checked shape out, and failures in words."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, tzinfo
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from memforest_core.domain.times import from_micros
from memforest_core.errors import ContentFault, ModelRejected, ModelUnavailable
from memforest_core.models.calls import ChatModel, ChatRequest, Message, Step

Shape = TypeVar("Shape", bound=BaseModel)

MODEL_FAILURES = (ModelUnavailable, ModelRejected, ContentFault)
"""How a call can fail without ending the recall: no answer, a refusal, or an unusable answer."""

_WORDS = {
    "model_unavailable": "the model was away or too slow",
    "model_paused": "the model is left alone for a while, because it failed",
    "model_rate_limited": "the model's rate limit was reached",
    "model_auth_failed": "the model's key was refused",
    "context_too_long": "the texts were too long for the model",
    "content_refused": "the provider refused the content",
    "model_rejected": "the provider refused the request",
    "content_fault": "the answer was of no use",
}


def asked(
    chat: ChatModel, step: Step, system: str, document: Mapping[str, object], shape: type[Shape], name: str
) -> Shape:
    """One call that shows ``document`` as JSON; the answer in its shape, whose schema is called ``name``.

    Raises what ``MODEL_FAILURES`` lists.
    """
    messages = (Message("system", system), Message("user", json.dumps(document, ensure_ascii=False)))
    return parsed(chat.complete(ChatRequest(step, messages, shape.model_json_schema(), name)).text, shape)


def days(start: int | None, end: int | None, zone: tzinfo | None) -> str:
    """The days between two times (microseconds since 1970) as a model is shown them; in UTC without a zone."""
    if start is None or end is None:
        return "unknown"
    first, last = (from_micros(at).astimezone(zone or UTC).date() for at in (start, end))
    return f"{first}" if first == last else f"{first} to {last}"


def parsed(text: str, shape: type[Shape]) -> Shape:
    """The first JSON object in a model's text, fenced or not, in the shape asked for. Raises ContentFault."""
    start = text.find("{")
    if start < 0:
        raise ContentFault("the answer holds no JSON object")
    try:
        document, _ = json.JSONDecoder().raw_decode(text, start)
        return shape.model_validate(document)
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(str(part) for part in fault['loc'])}: {fault['msg']}"
            for fault in error.errors(include_url=False, include_input=False)[:5]
        )
        raise ContentFault(f"the JSON does not fit the schema: {faults}") from None
    except ValueError as error:
        raise ContentFault(f"the JSON is malformed or cut off: {error}") from None
    except RecursionError:
        raise ContentFault("the JSON is nested too deeply") from None


def in_words(code: str) -> str:
    """Why a call failed, by its error's code, for people; names nothing of the question or of the memory."""
    return _WORDS.get(code, code)
