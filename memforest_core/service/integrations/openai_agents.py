"""OpenAI Agents SDK: a session whose items are turns of the memory, and the tools that recall from all of it.

Written against the protocol ``agents.memory.Session`` of openai-agents 0.20.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from memforest_core.domain.extras import needed
from memforest_core.domain.turns import Turn
from memforest_core.service.integrations.agent_tools import agent_tools
from memforest_core.service.integrations.conversation import AsyncConversation, as_turn, said

with needed("openai-agents"):
    from agents import FunctionTool, ModelBehaviorError, function_tool
    from agents.memory import Session, SessionSettings

if TYPE_CHECKING:
    from agents.items import TResponseInputItem

    from memforest_core.domain.chat_messages import TurnInput
    from memforest_core.service.integrations.conversation import AsyncMemory

STORED_AS = "openai"
"""The metadata that stores an item whose turn does not have all of it."""
_PLAIN = {"user", "assistant", "system"}


class MemForestSession(Session):
    """A session of an owner for ``Runner.run(agent, input, session=...)``: any session can be continued so."""

    def __init__(
        self, memory: AsyncMemory, owner: str, session_id: str, session_settings: SessionSettings | None = None
    ) -> None:
        self.session_id = session_id
        self.session_settings = session_settings
        self._conversation = AsyncConversation(memory, owner, session_id, STORED_AS)

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """The newest ``limit`` items in order; all unless given here or in the session's settings."""
        if limit is None and self.session_settings is not None:
            limit = self.session_settings.limit
        found: list[TResponseInputItem] = []
        if limit is None or limit > 0:
            async for turn in self._conversation.newest_first():
                found.append(_item(turn))
                if len(found) == limit:
                    break
        return found[::-1]

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Store items; each is durable when this returns. Raises as ``MemForest.append``."""
        await self._conversation.add([_turn(cast("Mapping[str, Any]", item)) for item in items])

    async def pop_item(self) -> TResponseInputItem | None:
        """Delete the newest item from the memory for good and return it; waits until that is done."""
        async for turn in self._conversation.newest_first():
            await self._conversation.forget([turn.id])
            return _item(turn)
        return None

    async def clear_session(self) -> None:
        """Delete the session for good, with the facts that were said nowhere else; waits until that is done."""
        await self._conversation.forget()


def memforest_tools(memory: AsyncMemory, owner: str) -> list[FunctionTool]:
    """remember, recall, context, timeline, profile, sessions and forget for one owner: ``Agent(tools=...)``.

    The model gets a sentence when something goes wrong.
    """
    return [function_tool(tool, strict_mode=False) for tool in agent_tools(memory, owner, ModelBehaviorError)]


def _turn(item: Mapping[str, Any]) -> TurnInput:
    kind = item.get("type", "message")
    if item.get("role") and kind == "message":
        content = item.get("content")
        whole = item.keys() == {"role", "content"} and item["role"] in _PLAIN and isinstance(content, str)
        whole = whole and bool(str(content).strip())
        return as_turn({"role": item["role"], "content": content}, None if whole else {STORED_AS: dict(item)})
    match kind:
        case "function_call":
            called = {"name": item.get("name"), "arguments": item.get("arguments")}
            message = {"role": "assistant", "content": None, "function_call": called}
        case "function_call_output":
            output = item.get("output")
            text = output if isinstance(output, str) else json.dumps(output, ensure_ascii=False, default=str)
            message = {"role": "tool", "content": text}
        case _:
            message = {"role": "assistant", "content": f"[{kind}]"}
    return as_turn(message, {STORED_AS: dict(item)})


def _item(turn: Turn) -> TResponseInputItem:
    stored = turn.metadata.get(STORED_AS)
    # The API takes a tool's output with its call only: without one it becomes a developer's words.
    role = "developer" if turn.role.value == "tool" else turn.role.value
    item = dict(stored) if isinstance(stored, Mapping) else {"role": role, "content": said(turn)}
    return cast("TResponseInputItem", item)
