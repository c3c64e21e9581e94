"""Requests over httpx, in the caller's thread or on an event loop."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import httpx

from memforest_core.client.remote.exchange import Exchange, HttpAnswer, HttpRequest
from memforest_core.domain.forks import renewed_in_child
from memforest_core.errors import InvalidInput, RetryableError

T = TypeVar("T")

TIMEOUT_S = 60.0
"""For one answer, in addition to what the call itself waits."""
CONNECT_S = 5.0
LIMITS = httpx.Limits(max_connections=64, keepalive_expiry=2.5)
"""An idle connection is closed before the server closes it: after five seconds, by uvicorn's default."""
CHUNK = 1 << 16


class _Address:
    """Where requests go, and under which key."""

    def __init__(self, address: str, key: str) -> None:
        """Raises InvalidInput."""
        if not address.startswith(("http://", "https://")):
            raise InvalidInput("Give the server's address as http:// or https://.", code="invalid_address")
        if not key or not key.isascii() or not key.isprintable():
            raise InvalidInput("Give the key that memforest keys create printed.", code="invalid_key")
        self.address = address.rstrip("/")
        self._headers = {"Authorization": f"Bearer {key}"}

    def _arguments(self, request: HttpRequest) -> dict[str, Any]:
        """The arguments of httpx for a request; ``content`` is left to the transport, which opens the file."""
        traced = {} if request.trace is None else {"traceparent": request.trace}
        return {
            "method": request.verb,
            "url": self.address + request.path,
            "params": request.query,
            "headers": {**self._headers, **traced},
            "timeout": httpx.Timeout(TIMEOUT_S + request.waits_s, connect=CONNECT_S),
            **({"json": request.body} if request.body is not None else {}),
        }

    def _unavailable(self, error: httpx.TransportError) -> RetryableError:
        message = f"The MemForest server at {self.address} can't be reached ({type(error).__name__})."
        return RetryableError(message, code="server_unavailable")


@renewed_in_child
class Transport(_Address):
    """Sends requests and waits for their answers. Thread-safe."""

    def __init__(self, address: str, key: str, client: httpx.Client | None = None) -> None:
        super().__init__(address, key)
        self._client = client or httpx.Client(limits=LIMITS)

    def run(self, exchange: Exchange[T]) -> T:
        """The result of a call."""
        try:
            request = next(exchange)
            while True:
                request = exchange.send(self._answer(request))
        except StopIteration as ended:
            result: T = ended.value
            return result

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _answer(self, request: HttpRequest) -> HttpAnswer:
        arguments = self._arguments(request)
        try:
            with contextlib.ExitStack() as opened:
                if request.upload is not None:
                    arguments["content"] = opened.enter_context(request.upload.open("rb"))
                answer = opened.enter_context(self._client.stream(**arguments))
                if request.download is None or answer.status_code >= HTTPStatus.BAD_REQUEST:
                    return HttpAnswer(answer.status_code, answer.read(), answer.headers)
                with _replacing(request.download) as part, part.open("wb") as file:
                    for chunk in answer.iter_bytes(CHUNK):
                        file.write(chunk)
                return HttpAnswer(answer.status_code, b"", answer.headers)
        except httpx.TransportError as error:
            raise self._unavailable(error) from error


@renewed_in_child
class AsyncTransport(_Address):
    """The same for asyncio programs: no thread waits."""

    def __init__(self, address: str, key: str, client: httpx.AsyncClient | None = None) -> None:
        super().__init__(address, key)
        self._client = client or httpx.AsyncClient(limits=LIMITS)

    async def run(self, exchange: Exchange[T]) -> T:
        """The result of a call."""
        try:
            request = next(exchange)
            while True:
                request = exchange.send(await self._answer(request))
        except StopIteration as ended:
            result: T = ended.value
            return result

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _answer(self, request: HttpRequest) -> HttpAnswer:
        arguments = self._arguments(request)
        if request.upload is not None:
            arguments["content"] = _chunks(request.upload)
        try:
            async with self._client.stream(**arguments) as answer:
                if request.download is None or answer.status_code >= HTTPStatus.BAD_REQUEST:
                    return HttpAnswer(answer.status_code, await answer.aread(), answer.headers)
                with _replacing(request.download) as part, part.open("wb") as file:
                    async for chunk in answer.aiter_bytes(CHUNK):
                        file.write(chunk)
                return HttpAnswer(answer.status_code, b"", answer.headers)
        except httpx.TransportError as error:
            raise self._unavailable(error) from error


async def _chunks(path: Path) -> AsyncIterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            yield chunk


@contextlib.contextmanager
def _replacing(target: Path) -> Iterator[Path]:
    """A temporary file that replaces the target at the end, or is deleted."""
    part = target.with_name(f".{target.name}.{uuid4().hex}")
    try:
        yield part
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
