"""litellm with memory: its own calls against a model server, and the callback for calls that an app makes itself."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest

os.environ |= {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_MODE": "PRODUCTION"}  # nothing from the network

from memforest_core import AsyncMemForest, InvalidSettings, MemForest
from memforest_core.errors import NotFound
from memforest_core.models.litellm_runtime import litellm_module
from memforest_core.service.integrations.litellm import MemForestCallback, acompletion, completion
from tests.contract.memory.conftest import Node
from tests.contract.memory.test_gateway import CALL, CALLED, TOOL, knows, says
from tests.harness.model_faults import Fault
from tests.harness.model_server import ModelServer
from tests.harness.timing import until

litellm = litellm_module()


@pytest.fixture
def upstream() -> Iterator[ModelServer]:
    with ModelServer(answer=knows) as server:
        yield server


@pytest.fixture
def options(upstream: ModelServer) -> dict[str, Any]:
    return {"model": "openai/tiny", "api_base": upstream.url, "api_key": "k", "max_retries": 0}


@pytest.fixture
def owner(node: Node) -> str:
    name = f"owner-{uuid4().hex[:12]}"
    node.memory.enqueue(name, "before", [says("I moved to Lisbon last week.")], wait="facts")
    return name


def turns(memory: MemForest, owner: str) -> list[tuple[str, str]]:
    try:
        return [(turn.role.value, turn.content) for turn in memory.turns(owner, "chat").items]
    except NotFound:
        return []


def called(memory: MemForest, **options: Any) -> Any:
    answer = completion(memory, **options)
    return list(answer) if options.get("stream") else answer


def awaited(memory: MemForest, **options: Any) -> Any:
    async def call() -> Any:
        answer = await acompletion(AsyncMemForest(memory, threads=2), **options)
        return [part async for part in answer] if options.get("stream") else answer

    return asyncio.run(call())


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("call", [called, awaited])
def test_a_call_has_memory(
    node: Node, upstream: ModelServer, options: dict[str, Any], owner: str, call: Callable[..., Any], stream: bool
) -> None:
    """Given a fact of another session, then the model is shown it, and the exchange with its tool call is stored once."""
    options |= {"owner": owner, "session": "chat", "stream": stream}
    question = says("Where do I live?")
    answer = call(node.memory, messages=[says("Be brief.", "system"), question], **options)
    text = (
        "".join(part.choices[0].delta.content or "" for part in answer) if stream else answer.choices[0].message.content
    )
    upstream.answer = lambda body: {"content": None, "tool_calls": [CALL]}
    talk = [question, litellm.Message(content=text, role="assistant"), says("And in Bergen?")]
    for _ in range(2):
        call(node.memory, messages=talk, tools=[TOOL], **options)
    upstream.script(Fault.SERVER_ERROR)
    with pytest.raises(litellm.InternalServerError):
        call(node.memory, messages=[*talk, says("Rain.", "assistant"), says("Thanks.")], **options)
    upstream.cut_after = 2
    if stream:
        call(node.memory, messages=[*talk, says("Rain.", "assistant"), says("Thanks.")], **options)

    expected = [
        ("user", "Where do I live?"),
        ("assistant", "In Lisbon."),
        ("user", "And in Bergen?"),
        ("assistant", CALLED),
    ]
    assert turns(node.memory, owner) == [*expected, ("user", "Thanks.")]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_the_callback_stores_calls_that_name_an_owner(
    node: Node,
    upstream: ModelServer,
    options: dict[str, Any],
    owner: str,
    monkeypatch: pytest.MonkeyPatch,
    asynchronous: bool,
    stream: bool,
) -> None:
    """Given an app's own calls, then those with an owner are stored, and asynchronous ones know what is remembered."""
    with pytest.raises(InvalidSettings, match="turn_off_message_logging"):
        MemForestCallback(node.memory)
    monkeypatch.setattr(litellm, "turn_off_message_logging", False)
    monkeypatch.setattr(litellm, "callbacks", [MemForestCallback(node.memory)])
    options |= {"stream": stream, "messages": [says("Where do I live?")]}
    metadata = {"memforest_owner": owner, "memforest_session": "chat"}
    stored = "In Lisbon." if asynchronous else "I do not know."

    async def call(**given: Any) -> None:
        answer = await litellm.acompletion(**options, **given)
        if stream:
            async for _ in answer:
                pass
        # litellm calls back in the background, on this loop.
        while given and len(turns(node.memory, owner)) < 2:
            await asyncio.sleep(0.02)

    for given in ({}, {"metadata": metadata}):
        if asynchronous:
            asyncio.run(call(**given))
        else:
            answer = litellm.completion(**options, **given)
            list(answer if stream else ())
    until(lambda: len(turns(node.memory, owner)) == 2)

    assert turns(node.memory, owner) == [("user", "Where do I live?"), ("assistant", stored)]
