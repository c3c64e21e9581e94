"""The tools that agents get over MCP, as functions that frameworks make tools of."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from memforest_core.domain.extras import needed

with needed("memforest[server]"):
    from memforest_core.service.mcp.tools import TOOLS, Asker, Tool, failing, offered

if TYPE_CHECKING:
    from memforest_core.client.async_memory import AsyncMemForest
    from memforest_core.service.integrations.conversation import AsyncMemory


def agent_tools(memory: AsyncMemory, owner: str, failure: Callable[[str], Exception | str]) -> list[Tool]:
    """remember, recall, context, timeline, profile, sessions and forget for one owner, as coroutine functions.

    ``failure`` makes the exception by which a framework hands its model a sentence; ``str`` returns the sentence.
    """
    # The same methods, as a test of signatures checks.
    asker = Asker(cast("AsyncMemForest", memory), owner=owner)

    def bound(tool: Tool) -> Tool:
        async def called(**given: Any) -> str:
            return await tool(asker, **given)

        return failing(offered(called, tool), failure)

    return [bound(tool) for tool in TOOLS]
