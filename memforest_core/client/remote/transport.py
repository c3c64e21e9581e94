"""Requests over httpx, in the caller's thread or on an event loop."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import httpx

from memforest_core.client.remote.exchange import Ask, Exchange, Told
from memforest_core.domain.forks import renewed_in_child
from memforest_core.errors import InvalidInput, RetryableError

T = TypeVar("T")

TIMEOUT_S = 60.0
"""For one answer, beside what the call itself waits."""
CONNECT_S = 5.0
LIMITS = httpx.Limits(max_connections=64)
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

    def _request(self, ask: Ask) -> dict[str, Any]:
        """The arguments of httpx for a request; ``content`` is left to who opens the file."""
        traced = {} if ask.trace is None else {"traceparent": ask.trace}
        return {
            "method": ask.verb,
            "url": self.address + ask.path,
            "params": ask.query,
            "headers": {**self._headers, **traced},
            "timeout": httpx.Timeout(TIMEOUT_S + ask.waits_s, connect=CONNECT_S),
            **({"json": ask.body} if ask.body is not None else {}),
        }

    def _away(self, error: httpx.TransportError) -> RetryableError:
        told = f"The MemForest server at {self.address} can't be reached ({type(error).__name__})."
        return RetryableError(told, code="server_unavailable")


@renewed_in_child
class Transport(_Address):
    """Sends requests and waits for their answers. Thread-safe."""

    def __init__(self, address: str, key: str, client: httpx.Client | None = None) -> None:
        super().__init__(address, key)
        self._client = client or httpx.Client(limits=LIMITS)

    def run(self, exchange: Exchange[T]) -> T:
        """The result of a call."""
        try:
            ask = next(exchange)
            while True:
                ask = exchange.send(self._told(ask))
        except StopIteration as ended:
            result: T = ended.value
            return result

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _told(self, ask: Ask) -> Told:
        request = self._request(ask)
        try:
            with contextlib.ExitStack() as opened:
                if ask.send is not None:
                    request["content"] = opened.enter_context(ask.send.open("rb"))
                answer = opened.enter_context(self._client.stream(**request))
                if ask.keep is None or answer.status_code >= HTTPStatus.BAD_REQUEST:
                    return Told(answer.status_code, answer.read(), answer.headers)
                with _beside(ask.keep) as part, part.open("wb") as file:
                    for chunk in answer.iter_bytes(CHUNK):
                        file.write(chunk)
                return Told(answer.status_code, b"", answer.headers)
        except httpx.TransportError as error:
            raise self._away(error) from error


@renewed_in_child
class AsyncTransport(_Address):
    """The same for asyncio programs: no thread waits."""

    def __init__(self, address: str, key: str, client: httpx.AsyncClient | None = None) -> None:
        super().__init__(address, key)
        self._client = client or httpx.AsyncClient(limits=LIMITS)

    async def run(self, exchange: Exchange[T]) -> T:
        """The result of a call."""
        try:
            ask = next(exchange)
            while True:
                ask = exchange.send(await self._told(ask))
        except StopIteration as ended:
            result: T = ended.value
            return result

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _told(self, ask: Ask) -> Told:
        request = self._request(ask)
        if ask.send is not None:
            request["content"] = _chunks(ask.send)
        try:
            async with self._client.stream(**request) as answer:
                if ask.keep is None or answer.status_code >= HTTPStatus.BAD_REQUEST:
                    return Told(answer.status_code, await answer.aread(), answer.headers)
                with _beside(ask.keep) as part, part.open("wb") as file:
                    async for chunk in answer.aiter_bytes(CHUNK):
                        file.write(chunk)
                return Told(answer.status_code, b"", answer.headers)
        except httpx.TransportError as error:
            raise self._away(error) from error


async def _chunks(path: Path) -> AsyncIterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            yield chunk


@contextlib.contextmanager
def _beside(target: Path) -> Iterator[Path]:
    """A file beside the target that takes its place at the end, or is gone."""
    part = target.with_name(f".{target.name}.{uuid4().hex}")
    try:
        yield part
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
