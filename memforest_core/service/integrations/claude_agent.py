"""Claude Agent SDK: hooks that give each prompt earlier conversations and store the exchange, and the tools.

Written against claude-agent-sdk 0.2: its hooks UserPromptSubmit and Stop, and ``create_sdk_mcp_server``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from pydantic import TypeAdapter

from memforest_core import __version__
from memforest_core.domain.extras import needed
from memforest_core.errors import InvalidInput
from memforest_core.service.integrations.agent_tools import agent_tools
from memforest_core.service.integrations.conversation import MAX_TOKENS, AsyncConversation
from memforest_core.service.mcp.tools import TOOLS, Tool

with needed("claude-agent-sdk"):
    from claude_agent_sdk import ClaudeAgentOptions, HookMatcher, SdkMcpTool, create_sdk_mcp_server, tool

if TYPE_CHECKING:
    from memforest_core.service.integrations.conversation import AsyncMemory

SERVER = "memforest"


def with_memory(
    options: ClaudeAgentOptions, memory: AsyncMemory, owner: str, *, max_tokens: int = MAX_TOKENS
) -> ClaudeAgentOptions:
    """The options with hooks and tools for one owner; Claude's own session id is the session's.

    All tools are allowed but ``forget``, which the permission mode decides on. Raises InvalidInput for options whose
    ``mcp_servers`` are a file.
    """
    if not isinstance(options.mcp_servers, dict):
        raise InvalidInput("Give mcp_servers as a dict: another server can't be added to a file.", code="mcp_servers")

    def conversation(given: Any) -> AsyncConversation:
        return AsyncConversation(memory, owner, given["session_id"], "claude-agent-sdk", max_tokens)

    async def prompted(given: Any, *_: Any) -> Any:
        await conversation(given).say("user", given["prompt"])
        found = await conversation(given).earlier(given["prompt"])
        shown = {"hookEventName": "UserPromptSubmit", "additionalContext": found}
        return {"hookSpecificOutput": shown} if found else {}

    async def stopped(given: Any, *_: Any) -> Any:
        await conversation(given).say("assistant", given.get("last_assistant_message"))
        return {}

    hooks: dict[Any, list[HookMatcher]] = dict(options.hooks or {})
    for event, hook in (("UserPromptSubmit", prompted), ("Stop", stopped)):
        hooks[event] = [*hooks.get(event, []), HookMatcher(hooks=[hook])]
    tools = [
        _tool(each, hints) for each, hints in zip(agent_tools(memory, owner, InvalidInput), TOOLS.values(), strict=True)
    ]
    servers = {**options.mcp_servers, SERVER: create_sdk_mcp_server(SERVER, __version__, tools)}
    safe = [f"mcp__{SERVER}__{each.__name__}" for each, hints in TOOLS.items() if not hints.destructive_hint]
    return replace(options, hooks=hooks, mcp_servers=servers, allowed_tools=[*options.allowed_tools, *safe])


def _tool(called: Tool, hints: object) -> SdkMcpTool[Any]:
    async def answer(given: dict[str, Any]) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": await called(**given)}]}

    described = tool(called.__name__, called.__doc__ or "", TypeAdapter(cast("Any", called)).json_schema(), hints)
    return described(answer)
