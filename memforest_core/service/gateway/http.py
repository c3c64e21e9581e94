"""OpenAI's paths: a chat request gets what is remembered, goes to the configured model, and is stored with its answer.

Fields and answers are those of openai 2.54 (``openai.types.chat``). No part of the OpenAPI document.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from http import HTTPStatus
from typing import Annotated, Any
from urllib.parse import quote, unquote

import structlog
from fastapi import APIRouter, Body, FastAPI, Request
from starlette.datastructures import Headers
from starlette.responses import Response, StreamingResponse

from memforest_core.client.async_memory import AsyncMemForest
from memforest_core.client.route_table import ROUTES
from memforest_core.domain.turns import checked_name
from memforest_core.errors import InvalidInput, MemForestError
from memforest_core.models.call_loop import report_by_class
from memforest_core.models.chat_relay import ChatRelay
from memforest_core.service.http.endpoints import JSON, Memories, admission_of, caller_of, check_owners, check_scope
from memforest_core.service.http.problems import OPENAI, Refused, openai_error, problem_of
from memforest_core.service.http.streams import EVENTS
from memforest_core.service.integrations.chat_exchange import Assembled, Exchange, Prepared, run_async
from memforest_core.settings import GatewaySettings

log = structlog.get_logger(__name__)

OWNER, SESSION = "X-MemForest-Owner", "X-MemForest-Session"
"""Headers of a request: whose memory, and which conversation; percent-encoded where they are not ASCII."""
USED, FACTS, TURNS = "X-MemForest-Used", "X-MemForest-Facts", "X-MemForest-Turns"
"""Headers of an answer: how much of the memory was added, and ids of it."""
DEGRADED = "X-MemForest-Degraded"
RETRIES = "X-Stainless-Retry-Count"
"""OpenAI's own clients count the attempts of a request in it."""
MOST_HEADER_CHARS = 3_000
"""Of ids in one header; Node takes 16 KiB of all headers."""
OFF = (
    "Set MEMFOREST_GATEWAY__MODEL to litellm's name of a model, such as openai/gpt-4.1-mini: this path is off without."
)

Given = Annotated[dict[str, Any], Body()]


def register(app: FastAPI, memories: Memories, settings: GatewaySettings) -> None:
    """Serve the paths."""
    router = APIRouter(include_in_schema=False)
    gateway = Gateway(memories, settings)
    router.post(OPENAI + "v1/chat/completions")(gateway.chat)
    router.get(OPENAI + "v1/models")(gateway.models)
    router.api_route(OPENAI + "{rest:path}", methods=["GET", "POST", "PUT", "PATCH", "DELETE"])(not_served)
    app.include_router(router)


async def not_served(request: Request) -> None:
    """Name the paths that are served."""
    sentence = f"Call {OPENAI}v1/chat/completions or {OPENAI}v1/models: {request.url.path!r:.80} is not served."
    raise Refused(HTTPStatus.NOT_FOUND, "not_found", sentence)


class Gateway:
    """Answers requests of OpenAI's clients."""

    def __init__(self, memories: Memories, settings: GatewaySettings) -> None:
        self._memories = memories
        self._settings = settings
        self._relay = ChatRelay(settings) if settings.model else None
        self._checked = False

    async def models(self, request: Request) -> dict[str, Any]:
        """The configured model, by both of its names."""
        self._on()
        listed = [{"id": name, "object": "model", "created": 0, "owned_by": "memforest"} for name in self._names]
        return {"object": "list", "data": listed}

    async def chat(self, request: Request, given: Given) -> Response:
        """The model's answer, with memory. Raises Refused, MemForestError."""
        relay, caller, headers = self._on(), caller_of(request), request.headers
        if given.get("model") not in self._names:
            known = " or ".join(self._names)
            raise Refused(HTTPStatus.NOT_FOUND, "model_not_found", f"Set model to {known}: this server has no other.")
        if not isinstance(given.get("stream"), bool | None):
            raise InvalidInput("Set stream to true or false.", code="invalid_request")
        owner = _named(headers, OWNER) or given.get("user") or caller.only_owner
        if not owner:
            raise InvalidInput(f"Send the header {OWNER}, or user: whose memory is it?", code="owner_missing")
        owner = checked_name(owner, "owner")
        check_scope(caller, ROUTES["append"])
        check_owners(caller, ROUTES["append"], {"owner": owner})
        memory = self._memories.of(caller.tenant)
        if not self._checked:
            await memory.threads.run(relay.check)
            asyncio.get_running_loop().set_exception_handler(report_by_class)
            self._checked = True
        retried = headers.get(RETRIES, "0") != "0"
        tokens = self._settings.context_tokens
        exchange = Exchange(owner, _named(headers, SESSION), given.get("messages") or (), tokens, retried)
        made = await run_async(memory, exchange.prepared())
        sent, during = {**given, "messages": made.messages}, admission_of(request).during
        if given.get("stream"):
            parts = await during(relay.begin(sent))
            events = self._events(request, memory, exchange, made, parts)
            return StreamingResponse(events, media_type=EVENTS, headers=_headers(made))
        answered = await during(relay.complete(sent))
        if len(answered.get("choices", ())) == 1 and not await request.is_disconnected():
            await _store(memory, exchange, made, answered["choices"][0]["message"])
        return Response(_json(answered), headers=_headers(made), media_type=JSON)

    async def _events(
        self,
        request: Request,
        memory: AsyncMemForest,
        exchange: Exchange,
        made: Prepared,
        parts: AsyncGenerator[dict[str, Any]],
    ) -> AsyncIterator[bytes]:
        """The parts as they come. An answer is stored when it is whole, before its end is sent."""
        whole, during = Assembled(), admission_of(request).during
        try:
            async with aclosing(parts):
                while (part := await during(anext(parts, None))) is not None:
                    whole.add(part)
                    yield _event(part)
        except (Refused, MemForestError) as error:
            yield _event(openai_error(problem_of(error)))
            return
        if whole.single:
            await _store(memory, exchange, made, whole.message)
            for sentence in made.degraded:
                yield f": {sentence}\n\n".encode()
        yield b"data: [DONE]\n\n"

    @property
    def _names(self) -> Sequence[str]:
        """The configured model's name, and the name without its provider."""
        name = self._settings.model or ""
        return tuple(dict.fromkeys((name, name.partition("/")[2] or name)))

    def _on(self) -> ChatRelay:
        if self._relay is None:
            raise Refused(HTTPStatus.NOT_FOUND, "gateway_off", OFF)
        return self._relay


async def _store(memory: AsyncMemForest, exchange: Exchange, made: Prepared, message: Mapping[str, Any]) -> None:
    """Store a whole answer, even when the client leaves meanwhile; what prevents it is added to ``degraded``."""
    failed = await asyncio.shield(run_async(memory, exchange.concluded(made, message)))
    if failed is not None:
        log.warning("answer_not_stored", owner=exchange.owner, session=made.session)
        made.degraded.append(failed)


def _json(data: Mapping[str, Any]) -> bytes:
    # A model may write half a character.
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def _event(data: Mapping[str, Any]) -> bytes:
    return b"data: " + _json(data) + b"\n\n"


def _named(headers: Headers, name: str) -> str | None:
    value = headers.get(name)
    try:
        return unquote(value.encode("ascii").decode(), errors="strict") if value else None
    except UnicodeError:  # two names that can't be read must not become one
        raise InvalidInput(f"Percent-encode {name} as UTF-8: Zo%C3%AB.", code="invalid_name") from None


def _headers(made: Prepared) -> dict[str, str]:
    """What was used, and what is missing."""
    found = {SESSION: quote(made.session or "", safe="")}
    if made.context is not None:
        facts = [str(each) for each in made.context.fact_ids]
        turns = ["/".join(quote(part, safe="") for part in pair) for pair in made.context.turn_ids]
        found[USED] = f"facts={len(facts)}, turns={len(turns)}, tokens={made.context.tokens}"
        found |= {FACTS: _listed(facts), TURNS: _listed(turns)}
    if made.degraded:
        found[DEGRADED] = quote(" ".join(made.degraded), safe=" :;,.'()[]/")
    return {name: value for name, value in found.items() if value}


def _listed(ids: Sequence[str]) -> str:
    """As many ids as a header takes."""
    text = ",".join(ids)
    return text if len(text) <= MOST_HEADER_CHARS else text[:MOST_HEADER_CHARS].rpartition(",")[0]
