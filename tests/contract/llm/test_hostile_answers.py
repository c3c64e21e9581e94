"""A model server whose answers are hostile: nothing of them is printed, and their size and their redirects are bounded."""

from __future__ import annotations

import gzip
import json
import logging
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from memforest_core.cli.toolkit.logs import configure_logs
from memforest_core.errors import MemForestError, ModelRejected
from memforest_core.models.accounting import StepSettings
from memforest_core.models.calls import ChatRequest, Message, Step
from memforest_core.models.litellm_chat import LitellmChat
from memforest_core.models.litellm_requests import LitellmEmbedder, LitellmReranker
from tests.harness.litellm_warm import warm_up

CANARY = "quibovix-canary"
Answer = tuple[int, Sequence[tuple[str, str]], bytes]


@pytest.fixture(scope="module", autouse=True)
def warm() -> None:
    warm_up()


@contextmanager
def serving(answer: Callable[[str], Answer]) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """The address of a server that answers so, and the headers of the requests it gets."""
    seen: list[dict[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            seen.append(dict(self.headers))
            status, headers, body = answer(self.path)
            self.send_response(status)
            for name, value in (*headers, ("content-length", str(len(body)))):
                self.send_header(name, value)
            self.end_headers()
            try:
                self.wfile.write(body)
            except OSError:
                return

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", seen
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def completion(content: Any, **more: Any) -> bytes:
    message = {"role": "assistant", "content": content, **more}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    document = {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}
    return json.dumps(document).encode()


def ask_chat(url: str) -> object:
    chat = LitellmChat({Step.EXTRACT: StepSettings("openai/m", api_base=url, api_key="key-1", max_tokens=1_000)})
    return chat.complete(ChatRequest(Step.EXTRACT, (Message("user", "Hello"),))).text


def ask_embedder(url: str) -> object:
    return LitellmEmbedder(StepSettings("openai/m", api_base=url, api_key="key-1")).embed(["hello"])


def ask_reranker(url: str) -> object:
    return LitellmReranker(StepSettings("cohere/m", api_base=url, api_key="key-1")).rerank("hello", ["one", "two"])


REQUESTED = pytest.mark.parametrize("ask", [ask_chat, ask_embedder, ask_reranker])
JSON = ("content-type", "application/json")


@REQUESTED
@pytest.mark.parametrize("encoding", ["gzip", "identity"])
def test_an_answer_of_too_many_decoded_bytes_is_not_read(ask: Callable[[str], object], encoding: str) -> None:
    """Given 30 MB for a call of 1,000 tokens, or 30 KB that decode to that, then the call is refused by name."""
    body = b'{"choices": [], "pad": "' + b"a" * 30_000_000 + b'"}'
    sent = gzip.compress(body) if encoding == "gzip" else body
    with (
        serving(lambda _: (200, [JSON, ("content-encoding", encoding)], sent)) as (url, _),
        pytest.raises(ModelRejected, match=r"more than [0-9]+ bytes"),
    ):
        ask(url)


@REQUESTED
@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_to_another_server_is_not_followed(ask: Callable[[str], object], status: int) -> None:
    with (
        serving(lambda _: (200, [JSON], completion("hello"))) as (elsewhere, seen),
        serving(lambda path: (status, [("location", elsewhere + path)], b"")) as (url, _),
        pytest.raises(ModelRejected, match="redirects to another server"),
    ):
        ask(url)
    assert seen == []


def test_a_redirect_on_the_same_server_is_followed() -> None:
    def answer(path: str) -> Answer:
        moved = path.endswith("/new")
        return (200, [JSON], completion("hello")) if moved else (307, [("location", path + "/new")], b"")

    with serving(answer) as (url, _):
        assert ask_chat(url) == "hello"


def test_a_compressed_answer_is_read() -> None:
    body = gzip.compress(completion("hello"))
    with serving(lambda _: (200, [JSON, ("content-encoding", "gzip")], body)) as (url, seen):
        assert ask_chat(url) == "hello"
    assert {name.lower(): value for name, value in seen[0].items()}["accept-encoding"] == "gzip"


SHAPES = (
    completion([{"type": "text", "text": CANARY}]),
    completion({"text": CANARY}),
    completion(7, refusal=CANARY),
    completion(CANARY, tool_calls=[{"id": CANARY}]),
    completion(None, function_call=CANARY, reasoning_content=[CANARY], annotations=CANARY),
    json.dumps({"choices": CANARY, "data": CANARY, "results": CANARY}).encode(),
    json.dumps({"choices": [{"message": CANARY, "finish_reason": [CANARY]}], "usage": CANARY}).encode(),
    json.dumps({"data": [{"embedding": CANARY, "index": CANARY}], "results": [{"index": CANARY}]}).encode(),
    json.dumps({"error": {"message": CANARY, "code": CANARY, "type": [CANARY]}}).encode(),
    CANARY.encode(),
)


STATUSES = (200, 400, 429, 500)


def attacked(url: str) -> None:
    """Every call for every answer, with the logging of a worker, in a process of its own."""
    configure_logs(logging.DEBUG)
    for status in STATUSES:
        for shape in range(len(SHAPES)):
            for ask in (ask_chat, ask_embedder, ask_reranker):
                try:
                    ask(f"{url}/{status}/{shape}")
                except MemForestError as error:
                    print(type(error).__name__, error.message, file=sys.stderr)
    print("asked all", file=sys.stderr)


def test_nothing_of_an_answer_is_printed() -> None:
    def answer(path: str) -> Answer:
        _, _, status, shape, *_ = path.split("/")
        return int(status), [JSON], SHAPES[int(shape)]

    with serving(answer) as (url, seen):
        code = f"from tests.contract.llm.test_hostile_answers import attacked; attacked({url!r})"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)

    assert done.returncode == 0 and "asked all\n" in done.stderr, done.stderr[-2_000:]
    assert len(seen) >= len(STATUSES) * len(SHAPES) * 3
    assert CANARY not in done.stdout + done.stderr
