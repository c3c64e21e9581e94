"""AG2: a plugin that gives an agent earlier conversations before each turn, stores the turn, and adds the tools.

Written against ``ag2.Plugin`` and ``ag2.middleware.BaseMiddleware`` of ag2 1.2, which has no ``add_to_agent`` any more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memforest_core.domain.extras import needed
from memforest_core.service.integrations.agent_tools import agent_tools
from memforest_core.service.integrations.conversation import MAX_TOKENS, AsyncConversation, joined
from memforest_core.service.mcp.tools import INSTRUCTIONS

with needed("ag2>=1"):
    from ag2 import Context, Plugin
    from ag2.events import BaseEvent, ModelRequest, ModelResponse, TextInput
    from ag2.middleware import AgentTurn, BaseMiddleware, Middleware

if TYPE_CHECKING:
    from memforest_core.service.integrations.conversation import AsyncMemory


class MemForestPlugin(Plugin):
    """One of an agent's ``plugins=[...]``, for one owner; ``session_id`` is the running conversation."""

    def __init__(self, memory: AsyncMemory, owner: str, session_id: str, *, max_tokens: int = MAX_TOKENS) -> None:
        conversation = AsyncConversation(memory, owner, session_id, "ag2", max_tokens)
        # AG2 shows its model the traceback of what a tool raises: so a tool returns the sentence.
        tools = agent_tools(memory, owner, str)
        turns = Middleware(_Remembering, conversation=conversation)
        super().__init__(prompt=INSTRUCTIONS, tools=tools, middleware=[turns])


class _Remembering(BaseMiddleware):
    """One turn of an agent."""

    def __init__(self, event: BaseEvent, context: Context, *, conversation: AsyncConversation) -> None:
        super().__init__(event, context)
        self._conversation = conversation

    async def on_turn(self, call_next: AgentTurn, event: BaseEvent, context: Context) -> ModelResponse:
        parts = event.parts if isinstance(event, ModelRequest) else []
        message = joined(part.content for part in parts if isinstance(part, TextInput))
        await self._conversation.say("user", message)
        found, prompt = await self._conversation.earlier(message), context.prompt
        context.prompt = [*prompt, found] if found else prompt
        try:
            response = await call_next(event, context)
        finally:
            context.prompt = prompt
        await self._conversation.say("assistant", response.content)
        return response
