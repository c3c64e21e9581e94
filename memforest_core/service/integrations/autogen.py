"""AutoGen: a memory that puts earlier conversations into an agent's model context, and stores what was said.

Written against ``autogen_core.memory.Memory`` of autogen-core 0.7 and the messages of autogen-agentchat 0.7.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from memforest_core.domain.extras import needed
from memforest_core.domain.rendering import block
from memforest_core.errors import InvalidInput
from memforest_core.service.integrations.conversation import (
    MAX_TOKENS,
    AsyncConversation,
    as_turn,
    evidence_fields,
    joined,
    question_of,
)

with needed("autogen-agentchat"):
    from autogen_agentchat.messages import BaseAgentEvent, BaseChatMessage
    from autogen_core import CancellationToken
    from autogen_core.memory import Memory, MemoryContent, MemoryMimeType, MemoryQueryResult, UpdateContextResult
    from autogen_core.model_context import ChatCompletionContext
    from autogen_core.models import SystemMessage, UserMessage

if TYPE_CHECKING:
    from memforest_core.domain.chat_messages import TurnInput
    from memforest_core.service.integrations.conversation import AsyncMemory


class MemForestMemory(Memory):
    """One of an agent's ``memory=[...]``, for one owner; ``session_id`` is the running conversation."""

    def __init__(self, memory: AsyncMemory, owner: str, session_id: str, *, max_tokens: int = MAX_TOKENS) -> None:
        self._conversation = AsyncConversation(memory, owner, session_id, "autogen", max_tokens)

    async def update_context(self, model_context: ChatCompletionContext) -> UpdateContextResult:
        """Add a system message with what other sessions say about the user's last message."""
        said = [one.content for one in await model_context.get_messages() if isinstance(one, UserMessage)]
        found = await self._conversation.earlier(_text(said[-1]) if said else "")
        if found:
            await model_context.add_message(SystemMessage(content=found))
        return UpdateContextResult(memories=_result([(found, {})] if found else []))

    async def query(
        self, query: str | MemoryContent, cancellation_token: CancellationToken | None = None, **options: Any
    ) -> MemoryQueryResult:
        """Evidence, best first: quotes, no instructions. ``options`` are those of recall."""
        question = question_of(query if isinstance(query, str) else _note(query))
        found = await self._conversation.memory.recall(self._conversation.owner, question, **options)
        return _result([(block(piece.text), evidence_fields(piece)) for piece in found.evidence])

    async def add(self, content: MemoryContent, cancellation_token: CancellationToken | None = None) -> None:
        """Remember a statement as a note, searchable at once. Raises InvalidInput for bytes and images."""
        await self._conversation.memory.remember(self._conversation.owner, _note(content), wait="raw")

    async def store(self, messages: Sequence[BaseChatMessage | BaseAgentEvent]) -> None:
        """Store the chat messages of a run (``result.messages``) in the session; those that it has are left out."""
        await self._conversation.add_missing([_turn(each) for each in messages if isinstance(each, BaseChatMessage)])

    async def clear(self) -> None:
        """Delete the session from the memory for good; notes and other sessions stay."""
        await self._conversation.forget()

    async def close(self) -> None:
        """Nothing: the program that opened the memory closes it."""


def _result(contents: Sequence[tuple[str, dict[str, Any]]]) -> MemoryQueryResult:
    kind = MemoryMimeType.TEXT
    return MemoryQueryResult(results=[MemoryContent(content=text, mime_type=kind, metadata=m) for text, m in contents])


def _turn(message: BaseChatMessage) -> TurnInput:
    by = {"role": "user"} if message.source == "user" else {"role": "assistant", "name": message.source}
    return as_turn({**by, "content": message.to_model_text(), "id": message.id, "timestamp": message.created_at})


def _text(content: str | list[Any]) -> str:
    return content if isinstance(content, str) else joined(part for part in content if isinstance(part, str))


def _note(content: MemoryContent) -> str:
    if isinstance(content.content, dict):
        return json.dumps(content.content, ensure_ascii=False)
    if not isinstance(content.content, str):
        raise InvalidInput("Give the memory text or JSON: it takes no bytes and images.", code="invalid_content")
    return content.content
