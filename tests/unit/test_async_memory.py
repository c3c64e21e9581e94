"""The async facade has the methods and signatures of the sync one."""

from __future__ import annotations

import asyncio
import inspect
import threading

import pytest

from memforest_core.client.api import MemForest
from memforest_core.client.async_calls import Threads
from memforest_core.client.async_memory import AsyncDeadLetters, AsyncLifecycle, AsyncMemForest, AsyncWebhooks
from memforest_core.client.lifecycle import Lifecycle
from memforest_core.client.producer import MemForestClient
from memforest_core.errors import InvalidInput
from memforest_core.observe.webhooks.service import Webhooks
from memforest_core.work.dead import DeadLetters
from memforest_core.work.waiting import Steps

FACES = [
    (MemForestClient, MemForest),
    (MemForestClient, AsyncMemForest),
    (MemForest, AsyncMemForest),
    (Lifecycle, AsyncLifecycle),
    (DeadLetters, AsyncDeadLetters),
    (Webhooks, AsyncWebhooks),
]


def public(kind: type) -> set[str]:
    """What a caller uses."""
    return {name for name in dir(kind) if not name.startswith("_")}


@pytest.mark.parametrize("sync, face", FACES)
def test_every_method_is_there(sync: type, face: type) -> None:
    assert public(sync) <= public(face)


def test_what_a_waiting_call_returns_is_said_without_its_steps() -> None:
    assert inspect.signature(MemForest.enqueue).return_annotation == "SessionHandle"
    assert inspect.signature(MemForest.enqueue_many).return_annotation == "list[SessionHandle]"


def counting(ended: threading.Event) -> Steps[str]:
    while not ended.is_set():
        yield 0.001
    return "done"


def test_waits_hold_no_thread() -> None:
    """Given one thread and fifty waits, when a call comes, then it runs; when what they wait for is there, they end."""

    async def use() -> list[str]:
        threads, ended = Threads(1), threading.Event()
        waits = [asyncio.create_task(threads.finish(counting(ended))) for _ in range(50)]
        for _ in range(20):
            assert await asyncio.wait_for(threads.run(str, 7), 30) == "7"
        assert not any(wait.done() for wait in waits)
        ended.set()
        return await asyncio.gather(*waits)

    assert asyncio.run(use()) == ["done"] * 50


def test_closing_lets_calls_end_and_ends_waits() -> None:
    async def use() -> tuple[list[str], bool]:
        threads, begun, go_on = Threads(2), threading.Event(), threading.Event()
        order: list[str] = []

        def call() -> str:
            begun.set()
            assert go_on.wait(30)
            order.append("call")
            return "kept"

        called = asyncio.create_task(threads.run(call))
        waiting = asyncio.create_task(threads.finish(counting(threading.Event())))
        await asyncio.to_thread(begun.wait, 30)
        closing = asyncio.create_task(threads.close(lambda: order.append("closed")))
        await asyncio.sleep(0)
        go_on.set()
        await closing
        assert await called == "kept"
        with pytest.raises(InvalidInput, match="closed"):
            await waiting
        with pytest.raises(InvalidInput, match="closed"):
            await threads.run(str, 7)
        return order, True

    assert asyncio.run(use())[0] == ["call", "closed"]
