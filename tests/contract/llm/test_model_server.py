"""The model server that other tests trust: its latency, its faults, its records."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.harness.model_faults import Fault, FaultPlan
from tests.harness.model_server import ModelServer

BODY = {"model": "m", "messages": [{"role": "user", "content": "Bob lives in Davis. " * 30}]}
ROOT = Path(__file__).parents[3]


def ask(server: ModelServer, body: dict[str, Any] | None = None) -> httpx.Response:
    return httpx.post(f"{server.url}/chat/completions", json=body or BODY, timeout=5)


def content(response: httpx.Response) -> Any:
    return response.json()["choices"][0]["message"]["content"]


def test_it_serves_two_hundred_slow_calls_at_once() -> None:
    async def all_at_once(url: str) -> None:
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(limits=limits, timeout=20) as client:
            calls = [client.post(f"{url}/chat/completions", json=BODY) for _ in range(200)]
            assert all(each.status_code == 200 for each in await asyncio.gather(*calls))

    with ModelServer(latency_s=1.5) as server:
        asyncio.run(all_at_once(server.url))
        assert server.peak == 200


def test_a_summary_is_the_beginning_of_the_users_text() -> None:
    with ModelServer() as server:
        assert content(ask(server)) == BODY["messages"][0]["content"][:200]  # type: ignore[index]


def test_requests_are_recorded_without_keys() -> None:
    with ModelServer() as server:
        headers = {"authorization": "Bearer sk-1"}
        httpx.post(f"{server.url}/chat/completions", json=BODY, headers=headers)
        (call,) = server.requests
        assert (call.path, call.body, call.status) == ("/v1/chat/completions", BODY, 200)
        # The answer may be here before the server's own task goes on.
        deadline = time.monotonic() + 10
        while call.ended is None and time.monotonic() < deadline:
            time.sleep(0.01)
        assert call.ended is not None
        assert call.ended >= call.started
        assert "authorization" not in call.headers
        assert server.keys == ["sk-1"]


def test_scripted_faults_come_in_order_and_then_stop() -> None:
    with ModelServer(answer=lambda body: '{"items": [], "summaries": []}') as server:
        server.script(Fault.RATE_LIMIT, None, Fault.TRUNCATED, Fault.WRONG_TYPE)
        limited, fine, cut, wrong, after = (ask(server) for _ in range(5))
        assert (limited.status_code, limited.headers["retry-after"]) == (429, "7")
        assert content(fine) == content(after) == '{"items": [], "summaries": []}'
        with pytest.raises(ValueError, match=r"Expecting|Unterminated"):
            json.loads(content(cut))
        assert json.loads(content(wrong)) == {"items": "seven", "summaries": "seven"}
        assert [call.fault for call in server.requests] == [
            Fault.RATE_LIMIT,
            None,
            Fault.TRUNCATED,
            Fault.WRONG_TYPE,
            None,
        ]


def test_drawn_faults_depend_on_seed_body_and_attempt_but_not_on_order() -> None:
    rates = {Fault.SERVER_ERROR: 0.3, Fault.EMPTY: 0.2}
    bodies = [b"body %d" % n for n in range(400)]
    first, second = FaultPlan(rates, seed=5), FaultPlan(rates, seed=5)
    forward = {body: first.draw(body) for body in bodies}
    backward = {body: second.draw(body) for body in reversed(bodies)}
    assert forward == backward
    share = sum(fault is Fault.SERVER_ERROR for fault in forward.values()) / len(bodies)
    assert 0.2 < share < 0.4
    repeated = {body: first.draw(body) for body in bodies}
    assert repeated != forward
    assert {body: FaultPlan(rates, seed=6).draw(body) for body in bodies} != forward


def test_as_a_process_it_prints_its_url_and_takes_orders_over_http() -> None:
    command = [sys.executable, "-m", "tests.harness.model_server", "--latency", "0.05"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            root = url.removesuffix("/v1")
            assert httpx.post(f"{url}/chat/completions", json=BODY).status_code == 200
            httpx.post(f"{root}/control", json={"script": ["unauthorized"], "latency_s": 0})
            assert httpx.post(f"{url}/chat/completions", json=BODY).status_code == 401
            listed = httpx.get(f"{root}/requests").json()
            assert [call["status"] for call in listed] == [200, 401]
        finally:
            process.kill()


def test_embeddings_can_be_faster_than_chat() -> None:
    with ModelServer(latency_s=0.5, embedding_latency_s=0.0) as server:
        started = time.monotonic()
        httpx.post(f"{server.url}/embeddings", json={"model": "m", "input": ["a"]}, timeout=5)
        embedded = time.monotonic()
        ask(server)
        assert embedded - started < 0.4
        assert time.monotonic() - embedded >= 0.5
