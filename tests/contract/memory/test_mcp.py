"""The tools of agents, by the official client over both transports."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import uuid4

import httpx2
import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from tests.contract.memory.conftest import Node

TOOLS = {"remember", "recall", "context", "timeline", "profile", "forget", "sessions"}


def over_http(node: Node, key: str, use: Callable[[Client], Awaitable[None]]) -> None:
    async def run() -> None:
        async with (
            httpx2.AsyncClient(headers={"Authorization": f"Bearer {key}"}, timeout=60) as http,
            Client(streamable_http_client(f"{node.address}/mcp", http_client=http)) as client,
        ):
            await use(client)

    asyncio.run(run())


def over_stdio(node: Node, key: str, use: Callable[[Client], Awaitable[None]], *options: str) -> None:
    async def run() -> None:
        command = StdioServerParameters(
            command=sys.executable,
            args=["-m", "memforest_core.cli", "mcp", "--server", node.address, *options],
            env={"MEMFOREST_KEY": key},
        )
        async with Client(stdio_client(command)) as client:
            await use(client)

    asyncio.run(run())


def text_of(result: Any) -> str:
    return "\n".join(part.text for part in result.content)


@pytest.mark.parametrize("transport", [over_http, over_stdio])
def test_an_agent_remembers_recalls_and_forgets(node: Node, transport: Callable[..., None]) -> None:
    """Given an agent's client, when it remembers a fact, then all tools show it; when it forgets it, it is gone."""
    owner = f"agent-{uuid4()}"

    async def use(client: Client) -> None:
        assert {tool.name for tool in (await client.list_tools()).tools} == TOOLS
        stored = await client.call_tool("remember", {"text": "I moved to Lisbon in May 2026.", "owner": owner})
        assert "Stored" in text_of(stored)
        node.memory.flush(owner)
        found = await client.call_tool("recall", {"question": "Where do I live?", "owner": owner})
        assert "Lisbon" in text_of(found)
        for name, arguments in (
            ("context", {"question": "Where do I live?"}),
            ("timeline", {"attribute": "residence"}),
            ("profile", {}),
        ):
            shown = text_of(await client.call_tool(name, {**arguments, "owner": owner}))
            assert "Lisbon" in shown and "Found by rules" in shown, name
        listed = text_of(await client.call_tool("sessions", {"owner": owner}))
        session = next(word for word in listed.split() if word.startswith("note-"))
        read = await client.read_resource(f"memforest://{owner}/sessions/{session}")
        assert "Lisbon" in read.contents[0].text  # type: ignore[union-attr]
        trees = await client.read_resource(f"memforest://{owner}/trees")
        assert "entity" in trees.contents[0].text  # type: ignore[union-attr]
        would = text_of(await client.call_tool("forget", {"words": "where I live", "owner": owner}))
        assert "Would be forgotten" in would
        await client.call_tool("forget", {"words": "where I live", "dry_run": False, "owner": owner})
        node.memory.flush(owner)
        gone = text_of(await client.call_tool("recall", {"question": "Where do I live?", "owner": owner}))
        assert "Lisbon" not in gone
        prompt = await client.get_prompt("use_memory")
        assert "recall" in prompt.messages[0].content.text  # type: ignore[union-attr]

    transport(node, node.key(), use)


def test_errors_are_sentences_for_the_agent(node: Node) -> None:
    async def use(client: Client) -> None:
        nobody = await client.call_tool("recall", {"question": "Where?"})
        assert nobody.is_error
        assert "Name the owner" in text_of(nobody)

    over_http(node, node.key(), use)


def test_a_key_of_one_owner_needs_no_name_and_reaches_no_other(node: Node) -> None:
    """Given a reading key for one owner, when tools are called, then that owner is meant, and nothing is written."""
    owner = f"only-{uuid4()}"
    node.memory.remember(owner, "I moved to Lisbon in May 2026.", wait="raw")

    async def use(client: Client) -> None:
        assert "Lisbon" in text_of(await client.call_tool("recall", {"question": "Where do I live?"}))
        other = await client.call_tool("recall", {"question": "Where?", "owner": "somebody"})
        assert other.is_error
        written = await client.call_tool("remember", {"text": "I moved to Rome."})
        assert written.is_error

    over_http(node, node.key(owners=owner, scope="read"), use)


def test_no_key_no_tools(node: Node) -> None:
    answer = httpx2.post(f"{node.address}/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"})

    assert answer.status_code == 401


def test_results_fit_their_budget(node: Node) -> None:
    owner = f"long-{uuid4()}"
    turns = [{"role": "user", "content": f"Trip {n}: we went to the lake and stayed {n} days. " * 8} for n in range(40)]
    node.memory.enqueue(owner, "trips", turns, wait="raw")  # type: ignore[arg-type]

    async def use(client: Client) -> None:
        found = await client.call_tool("recall", {"question": "Which trips?", "max_tokens": 100, "owner": owner})
        assert 0 < len(text_of(found)) <= 4 * 100

    over_http(node, node.key(), use)


def test_a_deletion_by_an_agent_names_its_key_in_the_audit(node: Node) -> None:
    owner = f"agent-{uuid4()}"

    async def use(client: Client) -> None:
        await client.call_tool("remember", {"text": "I moved to Lisbon in May 2026.", "owner": owner})
        node.memory.flush(owner)
        reported = await client.call_tool(
            "forget", {"words": "that I moved to Lisbon", "dry_run": False, "owner": owner}
        )
        assert "forgotten" in text_of(reported)

    over_http(node, node.key(), use)
    actors = {entry.actor for entry in node.memory.lifecycle.audit(owner, action="erase")}
    assert actors == {"test: mcp"}
