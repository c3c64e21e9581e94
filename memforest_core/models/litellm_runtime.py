"""The one place that imports litellm (late, silent, without reaching for the network), and limits of a provider's HTTP
answer: so many decoded bytes, from the host that was called."""

from __future__ import annotations

import importlib
import logging
import os
import threading
import warnings
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextvars import ContextVar
from functools import cache
from typing import Any, Concatenate, TypeVar, cast

import httpx

from memforest_core.domain.extras import uncollected
from memforest_core.domain.forks import abandon, in_child

T = TypeVar("T")

BASE_BYTES = 1 << 20
"""Of any answer: headers of JSON, reasoning, usage."""
TOKEN_BYTES = 64
"""Of one token, escaped."""
ROW_BYTES = 1 << 18
"""Of one vector or score: 8,192 numbers in JSON."""
_ENCODINGS = {"gzip": 31, "x-gzip": 31, "deflate": 15}
_PORTS = {"http": 80, "https": 443}
_REDIRECTS = range(300, 400)

_most: ContextVar[int | None] = ContextVar("memforest_answer_bytes", default=None)
"""Set within a call of ours; the application's own calls through the same library have no limit."""


class AnswerRefused(httpx.HTTPError):
    """An answer that is not read; the text is a sentence about it that follows the model's name."""


async def limited(call: Callable[[], Coroutine[Any, Any, T]], most: int) -> T:
    """The result of a call whose answer has at most ``most`` decoded bytes and comes from the host that it names."""
    _most.set(most)
    return await call()


def bounded(
    handle: Callable[Concatenate[Any, httpx.Request, ...], Awaitable[httpx.Response]],
) -> Callable[[Any, httpx.Request], Coroutine[Any, Any, httpx.Response]]:
    """A transport's ``handle_async_request`` that has the limit of the call it is made in."""

    async def handle_async_request(self: Any, request: httpx.Request) -> httpx.Response:
        most = _most.get()
        if most is None:
            return await handle(self, request)
        request.headers["accept-encoding"] = "gzip"
        response = await handle(self, request)
        try:
            return _checked(response, request, most)
        except AnswerRefused:
            await response.aclose()
            raise

    return handle_async_request


def _checked(response: httpx.Response, request: httpx.Request, most: int) -> httpx.Response:
    target = response.headers.get("location")
    if response.status_code in _REDIRECTS and target and not _same_server(request.url, request.url.join(target)):
        raise AnswerRefused("redirects to another server, which is not followed: set its API_BASE to the right address")
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in (*_ENCODINGS, "identity", ""):
        raise AnswerRefused("answered in an encoding that was not requested")
    headers = [pair for pair in response.headers.raw if pair[0].lower() not in (b"content-encoding", b"content-length")]
    stream = cast(httpx.AsyncByteStream, response.stream)
    return httpx.Response(
        response.status_code,
        headers=headers,
        stream=_Bounded(stream, _ENCODINGS.get(encoding), most),
        extensions=response.extensions,
        request=request,
    )


def _same_server(called: httpx.URL, target: httpx.URL) -> bool:
    """Whether a redirect stays on the server; from http to https is allowed on the usual ports."""
    ports = [url.port or _PORTS.get(url.scheme) for url in (called, target)]
    upgraded = (called.scheme, target.scheme) == ("http", "https") and ports == [80, 443]
    return called.host == target.host and ((called.scheme == target.scheme and ports[0] == ports[1]) or upgraded)


class _Bounded(httpx.AsyncByteStream):
    """The decoded bytes of a body. It is decoded here, as httpx decodes a chunk whole, however large it becomes."""

    def __init__(self, stream: httpx.AsyncByteStream, window_bits: int | None, most: int) -> None:
        self._stream = stream
        self._decoder = None if window_bits is None else zlib.decompressobj(window_bits)
        self._left = most
        self._most = most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._stream:
            decoded = chunk if self._decoder is None else self._decoded(self._decoder, chunk)
            self._left -= len(decoded)
            if self._left < 0:
                raise AnswerRefused(f"answered with more than {self._most} bytes, which are not read")
            yield decoded

    def _decoded(self, decoder: Any, chunk: bytes) -> bytes:
        try:
            return bytes(decoder.decompress(chunk, self._left + 1))
        except zlib.error:
            raise AnswerRefused("answered with bytes that can't be decoded") from None

    async def aclose(self) -> None:
        await self._stream.aclose()


_KEYLESS = "none"
_TEXTS = ("text", "output_text")
_import_lock = threading.Lock()


def _leave_clients(litellm: Any) -> None:
    """Give a forked child HTTP clients of its own."""
    abandon(litellm.in_memory_llm_clients_cache)
    litellm.in_memory_llm_clients_cache = type(litellm.in_memory_llm_clients_cache)()


def _in_one(init: Callable[..., None]) -> Callable[..., None]:
    """A message's ``__init__`` that takes a content in parts as one text."""

    def __init__(self: Any, content: object = None, *rest: Any, **named: Any) -> None:  # noqa: N807
        if isinstance(content, list):
            texts = (part for part in content if isinstance(part, dict) and part.get("type") in _TEXTS)
            content = "".join(str(part.get("text") or "") for part in texts)
        init(self, content, *rest, **named)

    return __init__


@cache
def bound_httpx() -> None:
    """Let every answer over httpx keep the limit of the call that it is part of, and log no request."""
    for name in ("httpx", "httpcore"):
        logging.getLogger(name).setLevel(logging.WARNING)
    transport: Any = httpx.AsyncHTTPTransport
    transport.handle_async_request = bounded(transport.handle_async_request)


@cache
def _load() -> Any:
    # litellm fetches a price list from the network while it is imported, and reads a .env file
    # that it finds above its own directory, unless these say otherwise. It offers no other switch.
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    os.environ.setdefault("LITELLM_MODE", "PRODUCTION")
    litellm: Any = importlib.import_module("litellm")
    litellm.suppress_debug_info = True
    litellm.telemetry = False
    litellm.turn_off_message_logging = True
    # Embedding calls read a given max_retries=0 as "not given" and take this default (2).
    litellm.DEFAULT_MAX_RETRIES = 0
    in_child(litellm, _leave_clients)
    # Their debug lines hold whole requests, conversation text included.
    for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    for name in ("openai", "aiohttp"):
        logging.getLogger(name).setLevel(logging.WARNING)
    # Its text has the values of the answer, and Python prints it.
    warnings.filterwarnings("ignore", message="Pydantic serializer warnings")
    transport: Any = importlib.import_module("litellm.llms.custom_httpx.aiohttp_transport").LiteLLMAiohttpTransport
    transport.handle_async_request = bounded(transport.handle_async_request)
    bound_httpx()
    # Its class of messages refuses a content in parts, as some servers write it.
    litellm.Message.__init__ = _in_one(litellm.Message.__init__)
    # Imported by the first call otherwise, as part of its time: half a second, and several on a busy machine.
    importlib.import_module("openai.resources")
    return litellm


def litellm_module() -> Any:
    """litellm, imported at the first use (about 2 s and 155 MB)."""
    with _import_lock, uncollected():
        return _load()


def key_argument(api_key: str | None, api_base: str | None) -> str | None:
    """The key to pass on: a given server without a key gets a placeholder, never a key of another
    provider that litellm would find in the environment."""
    if not _given(api_key):
        return None if api_base is None else _KEYLESS
    return api_key


def _given(api_key: str | None) -> bool:
    return api_key is not None and api_key.strip() != ""


def misses_key(model: str, api_key: str | None, api_base: str | None) -> bool:
    """Whether the provider needs a key that is neither given nor where litellm reads it; empty is not given."""
    if _given(api_key) or api_base is not None:
        return False
    # litellm takes a variable that is set but empty for a key; the call then fails as if the server was unavailable.
    for name in [name for name, value in os.environ.items() if name.endswith("_API_KEY") and not value.strip()]:
        os.environ.pop(name, None)
    missing = litellm_module().validate_environment(model).get("missing_keys") or []
    return any(str(name).endswith("_API_KEY") for name in missing)
