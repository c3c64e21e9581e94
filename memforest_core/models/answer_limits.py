"""What a provider's HTTP answer may be: at most so many decoded bytes, and from the host that was called."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextvars import ContextVar
from typing import Any, Concatenate, TypeVar, cast

import httpx

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
