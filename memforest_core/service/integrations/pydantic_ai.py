"""Pydantic AI: the tools that agents get over MCP, as a toolset in the process.

Written against ``pydantic_ai.FunctionToolset`` of pydantic-ai-slim 2.68.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memforest_core.domain.extras import needed
from memforest_core.service.integrations.agent_tools import agent_tools
from memforest_core.service.mcp.tools import INSTRUCTIONS

with needed("pydantic-ai-slim"):
    from pydantic_ai import FunctionToolset, ModelRetry

if TYPE_CHECKING:
    from memforest_core.service.integrations.conversation import AsyncMemory


class MemForestToolset(FunctionToolset[Any]):
    """remember, recall, context, timeline, profile, sessions and forget for one owner, with how to use them."""

    def __init__(self, memory: AsyncMemory, owner: str, *, id: str = "memforest") -> None:
        super().__init__(agent_tools(memory, owner, ModelRetry), id=id, instructions=INSTRUCTIONS)
