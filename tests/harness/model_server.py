"""An OpenAI-compatible model server over HTTP, with set latency and set faults.

In process: ``with ModelServer(latency_s=0.3) as server: server.url``; as a process of its own:
``python -m tests.harness.model_server --latency 0.3 --faults '{"rate_limit": 0.1}' --seed 1``,
which prints its url as its first line. One event loop serves it, so hundreds of slow calls are
cheap. ``GET /requests`` lists what was received; ``POST /control`` changes latency and faults.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import re
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from http import HTTPStatus
from typing import Any, Self

import numpy as np

from tests.harness import model_answers
from tests.harness.model_faults import CONTENT_FAULTS, Fault, FaultPlan

Answer = Callable[[Mapping[str, Any]], str | Mapping[str, Any]]
"""Gives the text of a message, or the message."""

_ERRORS = {
    Fault.RATE_LIMIT: (429, "slow down", "rate_limit_exceeded"),
    Fault.SERVER_ERROR: (500, "the server had an error", "server_error"),
    Fault.OVERLOADED: (503, "overloaded", "overloaded"),
    Fault.UNAUTHORIZED: (401, "Incorrect API key provided", "invalid_api_key"),
    Fault.FORBIDDEN: (403, "this key may not use the model", "forbidden"),
    Fault.UNKNOWN_MODEL: (404, "the model does not exist", "model_not_found"),
    Fault.CONTEXT_LENGTH: (400, "This model's maximum context length is 4096 tokens.", "context_length_exceeded"),
    Fault.CONTENT_FILTER: (
        400,
        "The request was rejected as a result of our safety system.",
        "content_policy_violation",
    ),
}
_SECRET_HEADERS = frozenset({"authorization", "api-key", "x-api-key"})
DRIBBLE_S = 0.2
"""Between two bytes of a dribbled body: every byte resets a client's read timeout."""


@dataclass(slots=True)
class Received:
    """One call as the server saw it, in monotonic seconds; ``ended`` is None while under way."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    started: float
    ended: float | None = None
    status: int = 0
    fault: Fault | None = None


@dataclass(frozen=True, slots=True)
class _Response:
    status: int
    document: Any
    headers: Mapping[str, str] = field(default_factory=dict)


def _error(status: int, message: str, code: str, **headers: str) -> _Response:
    kind = "invalid_request_error" if status < 429 else "server_error"
    document = {"error": {"message": message, "type": kind, "param": None, "code": code}}
    return _Response(status, document, {k.replace("_", "-"): v for k, v in headers.items()})


class ModelServer:
    """Serves until left; every attribute may be changed while it runs."""

    def __init__(
        self,
        *,
        latency_s: float = 0.0,
        embedding_latency_s: float | None = None,
        rates: Mapping[Fault, float] | None = None,
        seed: int = 0,
        answer: Answer = model_answers.default_answer,
        embedding: model_answers.EmbeddingKind = "hash",
        retry_after_s: float | None = 7,
        refused_formats: frozenset[str] = frozenset(),
        cached_tokens: int = 0,
        tokens_per_s: float | None = None,
        one_at_a_time: bool = False,
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        self.latency_s = latency_s
        self.embedding_latency_s = embedding_latency_s
        """Of embeddings alone; None: as of all calls."""
        self.faults = FaultPlan(rates, seed=seed)
        self.answer = answer
        self.embedding: model_answers.EmbeddingKind = embedding
        self.retry_after_s = retry_after_s
        self.refused_formats = refused_formats
        self.cached_tokens = cached_tokens
        self.tokens_per_s = tokens_per_s
        """Of a chat answer, after the latency; None: no time. A client that leaves ends its answer."""
        self.part_s = 0.0
        """Between two parts of a stream."""
        self.cut_after: int | None = None
        """A stream ends after so many parts, without its end."""
        self.one_at_a_time = one_at_a_time
        """Whether a chat call waits until the one before it has ended, as on a laptop."""
        self.requests: list[Received] = []
        self.keys: list[str] = []
        """The key that each request came with; not part of what is listed."""
        self.active = 0
        self.peak = 0
        """The most calls that were under way at once."""
        self.opened = 0
        """Connections that clients have opened."""
        self._address = (host, port)
        self._loop = asyncio.new_event_loop()
        self._thread: threading.Thread | None = None
        self._stop = asyncio.Event()
        self._turn = asyncio.Lock()

    @property
    def url(self) -> str:
        """The api_base to configure."""
        return f"http://{self._address[0]}:{self._address[1]}/v1"

    def script(self, *faults: Fault | None) -> None:
        """The next calls meet these faults, in order; None is a call without a fault."""
        self.faults.script(faults)

    def __enter__(self) -> Self:
        ready = threading.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self.serve(ready),), daemon=True)
        self._thread.start()
        if not ready.wait(10):
            raise RuntimeError("the model server did not start")
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        if self._thread is not None:
            self._thread.join(10)
        self._loop.close()

    async def serve(self, ready: threading.Event | None = None) -> None:
        """Listens until stopped; then open calls are cut off."""
        connections: set[asyncio.Task[None]] = set()

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            connections.add(task)
            self.opened += 1
            try:
                await self._connection(reader, writer)
            except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                return
            finally:
                connections.discard(task)
                writer.close()

        server = await asyncio.start_server(connected, *self._address, backlog=1024)
        self._address = server.sockets[0].getsockname()[:2]
        if ready is not None:
            ready.set()
        await self._stop.wait()
        server.close()
        for task in list(connections):
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readuntil(b"\r\n\r\n"):
            request_line, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
            method, path, _ = request_line.split(" ", 2)
            headers = {name.lower(): value.strip() for name, _, value in (h.partition(":") for h in lines)}
            raw = await reader.readexactly(int(headers.get("content-length", "0")))
            if method == "GET" and path == "/requests":
                await self._send(writer, _Response(200, [asdict(r) for r in self.requests]))
            elif method == "POST" and path == "/control":
                await self._send(writer, self._control(json.loads(raw)))
            elif method == "POST":
                await self._call(reader, writer, path, headers, raw)
            else:
                await self._send(writer, _error(404, "no such path", "not_found"))

    def _control(self, document: Mapping[str, Any]) -> _Response:
        self.latency_s = float(document.get("latency_s", self.latency_s))
        if "faults" in document:
            rates = {Fault(k): float(v) for k, v in document["faults"].items()}
            self.faults = FaultPlan(rates, seed=int(document.get("seed", self.faults.seed)))
        self.script(*(None if f is None else Fault(f) for f in document.get("script", [])))
        return _Response(200, {"peak": self.peak, "requests": len(self.requests)})

    async def _call(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        path: str,
        headers: Mapping[str, str],
        raw: bytes,
    ) -> None:
        call = Received(
            path=path,
            headers={k: v for k, v in headers.items() if k not in _SECRET_HEADERS},
            body=json.loads(raw),
            started=time.monotonic(),
        )
        self.requests.append(call)
        self.keys.append(headers.get("authorization", "").removeprefix("Bearer "))
        self.active += 1
        self.peak = max(self.peak, self.active)
        try:
            fault = self.faults.draw(raw)
            if fault in CONTENT_FAULTS and not path.endswith("/chat/completions"):
                fault = None
            call.fault = fault
            if fault is Fault.HANG:
                await reader.read(1)  # until the client gives up
            if fault in (Fault.HANG, Fault.DISCONNECT):
                raise ConnectionError
            if path.endswith("/embeddings") and self.embedding == "minilm":
                response = await asyncio.to_thread(self._respond, path, call.body, fault)
            else:
                response = self._respond(path, call.body, fault)
            left = self._latency(path) - (time.monotonic() - call.started)
            if left > 0:
                await asyncio.sleep(left)
            if self.tokens_per_s is not None and path.endswith("/chat/completions") and response.status == 200:
                await self._write(reader, response.document["usage"]["completion_tokens"] / self.tokens_per_s)
            call.status = response.status
            if call.body.get("stream") and response.status == 200:
                await self._stream(writer, response.document)
            else:
                await self._send(writer, response, fault)
        finally:
            self.active -= 1
            call.ended = time.monotonic()

    async def _write(self, reader: asyncio.StreamReader, seconds: float) -> None:
        """Take so long for an answer. Raises ConnectionError when the client gives up before."""
        gone = asyncio.ensure_future(reader.read(1))
        try:
            async with self._turn if self.one_at_a_time else nullcontext():
                done, _ = await asyncio.wait([gone], timeout=seconds)
        finally:
            gone.cancel()
            await asyncio.wait([gone])
        if done:
            raise ConnectionError

    def _latency(self, path: str) -> float:
        if self.embedding_latency_s is not None and path.endswith("/embeddings"):
            return self.embedding_latency_s
        return self.latency_s

    def _respond(self, path: str, body: Mapping[str, Any], fault: Fault | None) -> _Response:
        wait = {} if self.retry_after_s is None else {"retry_after": f"{self.retry_after_s:g}"}
        if fault in _ERRORS:
            status, message, code = _ERRORS[fault]
            return _error(status, message, code, **(wait if status in (429, 503) else {}))
        if fault is Fault.BAD_REQUEST:
            return _error(400, f"cannot read: {model_answers.last_user_text(body)}", "invalid")
        if path.endswith("/chat/completions"):
            return self._chat(body, fault)
        if path.endswith("/embeddings"):
            return self._embed(body)
        return _error(404, "no such path", "not_found")

    def _chat(self, body: Mapping[str, Any], fault: Fault | None) -> _Response:
        wanted = (body.get("response_format") or {}).get("type")
        if wanted in self.refused_formats:
            return _error(400, f"'response_format' of type '{wanted}' is not supported", "invalid")
        given = self.answer(body)
        text: str | None = given if isinstance(given, str) else None
        finish = "stop"
        match fault:
            case Fault.MALFORMED:
                text = "Sure! Here you go: {items: [" + (text or "")[:20]
            case Fault.TRUNCATED:
                text, finish = (text or "")[: len(text or "") // 2], "length"
            case Fault.EMPTY:
                text = ""
            case Fault.NULL:
                text = None
            case Fault.FILTERED_ANSWER:
                text, finish = None, "content_filter"
            case Fault.WRONG_SCHEMA:
                text = model_answers.wrong_schema()
            case Fault.WRONG_TYPE:
                text = model_answers.wrong_types(text or "")
        prompt = sum(len(part) for _, part in model_answers.messages_of(body)) // 4
        message = {"role": "assistant", "content": text} | ({} if isinstance(given, str) else dict(given))
        choices = [{"index": 0, "message": message, "finish_reason": finish}]
        usage = self._usage(prompt, len(text or "") // 4)
        return _Response(
            200,
            {
                "id": f"chatcmpl-{len(self.requests)}",
                "object": "chat.completion",
                "created": 0,
                "model": body.get("model"),
                "choices": [] if fault is Fault.NO_CHOICES else choices,
                "usage": usage,
            },
        )

    def _usage(self, prompt: int, completion: int) -> dict[str, Any]:
        return {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
            "prompt_tokens_details": {"cached_tokens": self.cached_tokens},
        }

    def _embed(self, body: Mapping[str, Any]) -> _Response:
        texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
        coded = body.get("encoding_format") == "base64"
        if coded and "base64" in self.refused_formats:
            return _error(400, "'encoding_format' must be 'float'", "invalid")
        rows: list[Any] = list(model_answers.vectors(texts, self.embedding))
        if coded and "lists" not in self.refused_formats:
            rows = [base64.b64encode(np.asarray(row, "<f4").tobytes()).decode() for row in rows]
        data = [{"object": "embedding", "index": i, "embedding": v} for i, v in enumerate(rows)]
        tokens = sum(len(text) for text in texts) // 4
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        # Reversed, as a provider may: the index says which text a vector belongs to.
        document = {"object": "list", "data": data[::-1], "model": body.get("model")}
        return _Response(200, document | {"usage": usage})

    async def _stream(self, writer: asyncio.StreamWriter, document: dict[str, Any]) -> None:
        """The answer in parts: words, then each tool call's name and its arguments in parts, then why it ends."""
        head = {**{k: document[k] for k in ("id", "created", "model")}, "object": "chat.completion.chunk"}
        message = document["choices"][0]["message"]
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
        deltas += [{"content": word} for word in re.findall(r"\s*\S+", message.get("content") or "")]
        for index, call in enumerate(message.get("tool_calls") or ()):
            given = call["function"]["arguments"]
            deltas.append({"tool_calls": [{"index": index, **call, "function": {**call["function"], "arguments": ""}}]})
            deltas += [
                {"tool_calls": [{"index": index, "function": {"arguments": given[at : at + 7]}}]}
                for at in range(0, len(given), 7)
            ]
        ends = "tool_calls" if message.get("tool_calls") else "stop"
        parts: list[dict[str, Any]] = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
        parts.append({"index": 0, "delta": {}, "finish_reason": ends})
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        lines = [json.dumps({**head, "choices": [part]}) for part in parts[: self.cut_after]]
        for line in [*lines, *(["[DONE]"] if self.cut_after is None else [])]:
            data = f"data: {line}\n\n".encode()
            writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
            await writer.drain()
            await asyncio.sleep(self.part_s)
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    async def _send(self, writer: asyncio.StreamWriter, response: _Response, fault: Fault | None = None) -> None:
        payload = json.dumps(response.document).encode()
        if fault is Fault.BROKEN_BODY:
            payload = b"<html>gateway</html>"
        lines = [
            f"HTTP/1.1 {response.status} {HTTPStatus(response.status).phrase}",
            "content-type: application/json",
            f"content-length: {len(payload)}",
            *(f"{name}: {value}" for name, value in response.headers.items()),
        ]
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n")
        if fault is Fault.DRIBBLE:
            for byte in payload:
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(DRIBBLE_S)
        else:
            writer.write(payload)
            await writer.drain()


def main() -> None:
    """Serves as a process of its own until it is killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--latency", type=float, default=0.0)
    parser.add_argument("--faults", default="{}", help="JSON object: fault -> rate")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--embedding", choices=["hash", "minilm"], default="hash")
    parser.add_argument("--retry-after", type=float, default=0.1)
    parser.add_argument("--tokens-per-s", type=float, default=None)
    parser.add_argument("--one-at-a-time", action="store_true")
    options = parser.parse_args()
    rates = {Fault(name): float(rate) for name, rate in json.loads(options.faults).items()}
    server = ModelServer(
        latency_s=options.latency,
        rates=rates,
        seed=options.seed,
        embedding=options.embedding,
        retry_after_s=options.retry_after,
        tokens_per_s=options.tokens_per_s,
        one_at_a_time=options.one_at_a_time,
        host=options.host,
        port=options.port,
    )
    with server:
        print(server.url, flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
