"""LlamaIndex: a chat memory that is a session, with what other conversations said about the question before it.

Written against ``llama_index.core.memory.BaseMemory`` of llama-index-core 0.14. Its ``Memory`` hands messages to blocks
only when they leave its own short history; here each is stored at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import dropwhile
from typing import TYPE_CHECKING, Any

from memforest_core.domain.extras import needed
from memforest_core.domain.turns import Role, Turn
from memforest_core.service.integrations.conversation import MAX_TOKENS, Conversation, as_turn, said

with needed("llama-index-core"):
    from llama_index.core.base.llms.types import ChatMessage, MessageRole, TextBlock
    from llama_index.core.bridge.pydantic import Field
    from llama_index.core.memory import BaseMemory

if TYPE_CHECKING:
    from memforest_core.domain.chat_messages import TurnInput

STORED_AS = "llamaindex"
"""The metadata that stores a message whose turn does not have all of it."""
_ROLES = {"chatbot": "assistant", "model": "assistant"}
"""What it calls our roles in addition to OpenAI's names."""


class MemForestMemory(BaseMemory):
    """A session of an owner as the ``memory`` of an agent or a chat engine."""

    memory: Any = Field(exclude=True, description="A MemForest or a RemoteMemForest.")
    owner: str
    session_id: str
    max_tokens: int = Field(default=MAX_TOKENS, description="Of what other conversations said; 0 leaves that out.")
    last: int = Field(default=100, description="Messages of the session that get returns at most, the newest.")

    @classmethod
    def class_name(cls) -> str:
        """The name under which LlamaIndex knows it."""
        return "MemForestMemory"

    @classmethod
    def from_defaults(cls, **kwargs: Any) -> MemForestMemory:
        """As the constructor: ``memory``, ``owner``, ``session_id``, maybe ``max_tokens`` and ``last``."""
        return cls(**kwargs)

    def get(self, input: str | None = None, **kwargs: Any) -> list[ChatMessage]:
        """The session's last messages, from a user's on; before them what other sessions say about ``input``, or about
        what the user said last."""
        messages = self.get_all()
        if len(messages) > self.last:
            # An answer without its question, or a tool's output without its call, is refused by models.
            messages = list(dropwhile(lambda one: one.role != MessageRole.USER, messages[-self.last :]))
        last = next((one.content for one in reversed(messages) if one.role == MessageRole.USER), None)
        found = self._conversation.earlier(input or last or "")
        return [*([ChatMessage(role=MessageRole.SYSTEM, content=found)] if found else []), *messages]

    def get_all(self) -> list[ChatMessage]:
        """All messages of the session in order, as they were given."""
        return [_message(turn) for turn in self._conversation.turns()]

    def put(self, message: ChatMessage) -> None:
        """Store a message; it is durable when this returns. Raises as ``MemForest.append``."""
        self._conversation.add([_turn(message)])

    def set(self, messages: list[ChatMessage]) -> None:
        """Make these the session's messages: those that are new are added; any other change deletes the session first.

        Raises as ``MemForest.append`` and ``Conversation.clear``.
        """
        stored = self.get_all()
        if messages[: len(stored)] != stored:
            self.reset()
            stored = []
        self.put_messages(messages[len(stored) :])

    def reset(self) -> None:
        """Delete the session from the memory for good; see ``Conversation.clear``."""
        self._conversation.clear()

    @property
    def _conversation(self) -> Conversation:
        return Conversation(self.memory, self.owner, self.session_id, STORED_AS, self.max_tokens)


def _turn(message: ChatMessage) -> TurnInput:
    role = _ROLES.get(message.role.value, message.role.value)
    text = message.content or ""
    blocks: Sequence[object] = message.blocks
    whole = len(blocks) == 1 and isinstance(blocks[0], TextBlock) and not message.additional_kwargs
    plain = whole and text.strip() and role in (Role.USER, Role.ASSISTANT, Role.SYSTEM)
    marks = "\n".join(f"[{block.block_type}]" for block in message.blocks)
    stored = None if plain and role == message.role.value else {STORED_AS: message.model_dump(mode="json")}
    return as_turn({"role": role, "content": text or marks}, stored)


def _message(turn: Turn) -> ChatMessage:
    stored = turn.metadata.get(STORED_AS)
    if stored is not None:
        return ChatMessage.model_validate(stored)
    return ChatMessage(role=MessageRole(turn.role.value), content=said(turn))
