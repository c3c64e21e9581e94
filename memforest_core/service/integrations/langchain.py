"""LangChain: the history of a chat as a session of the memory, and a retriever over all of it.

Written against langchain-core 1.7 (``langchain_core.chat_history``, ``langchain_core.retrievers``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pydantic import Field

from memforest_core.domain.extras import needed
from memforest_core.domain.rendering import block
from memforest_core.domain.turns import Role, Turn
from memforest_core.service.integrations.conversation import Conversation, as_turn, evidence_fields, said

with needed("langchain-core"):
    from langchain_core.callbacks import CallbackManagerForRetrieverRun
    from langchain_core.chat_history import BaseChatMessageHistory
    from langchain_core.documents import Document
    from langchain_core.messages import (
        AIMessage,
        BaseMessage,
        HumanMessage,
        SystemMessage,
        ToolMessage,
        messages_from_dict,
    )
    from langchain_core.retrievers import BaseRetriever

if TYPE_CHECKING:
    from memforest_core.domain.chat_messages import TurnInput
    from memforest_core.domain.evidence import Evidence
    from memforest_core.service.integrations.conversation import Memory

STORED_AS = "langchain"
"""The metadata that stores a message whose turn does not have all of it."""
_IN_TURN = {"type", "content", "id", "name"}
"""Fields of a message that a turn has."""
_PLAIN = {"human", "ai", "system"}


class MemForestChatMessageHistory(BaseChatMessageHistory):
    """A session of an owner as a chat history. Any MemForest session can be read and continued so."""

    def __init__(self, memory: Memory, owner: str, session_id: str) -> None:
        """``memory`` is a MemForest or a RemoteMemForest."""
        self._conversation = Conversation(memory, owner, session_id, STORED_AS)

    @property
    def messages(self) -> list[BaseMessage]:
        """All messages in order, as they were given."""
        return [_message(turn) for turn in self._conversation.turns()]

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Store messages; a message whose id is stored already is left out when it says the same.

        Raises as ``MemForest.append``.
        """
        self._conversation.add([_turn(message) for message in messages])

    def clear(self) -> None:
        """Delete the session from the memory for good; see ``Conversation.clear``."""
        self._conversation.clear()


class MemForestRetriever(BaseRetriever):
    """Recall as a retriever: a document for each piece of evidence, best first."""

    memory: Any
    """A MemForest or a RemoteMemForest."""
    owner: str
    k: int | None = None
    """Evidence items at most; the memory's default unless given."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Further options of recall, such as ``since`` or ``channels`` (docs/retrieval.md)."""

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        found = self.memory.recall(self.owner, query, self.k, **self.options)
        return [_document(piece) for piece in found.evidence]


def _turn(message: BaseMessage) -> TurnInput:
    fields = message.model_dump(mode="json", exclude_defaults=True)
    whole = message.type in _PLAIN and fields.keys() <= _IN_TURN and isinstance(message.content, str)
    stored = None if whole and message.content.strip() else {STORED_AS: {"type": message.type, "data": fields}}
    return as_turn({**message.model_dump(mode="json"), "type": message.type}, stored)


def _message(turn: Turn) -> BaseMessage:
    stored = turn.metadata.get(STORED_AS)
    if isinstance(stored, dict):
        return messages_from_dict([stored])[0]
    # Who has no name is called by their role, users by the owner's.
    named = turn.named and turn.name != turn.role.value
    own = {"content": said(turn), "id": None if turn.generated else turn.id, "name": turn.name if named else None}
    match turn.role:
        case Role.USER:
            return HumanMessage(**own)
        case Role.ASSISTANT:
            return AIMessage(**own)
        case Role.SYSTEM:
            return SystemMessage(**own)
        case Role.TOOL:
            return ToolMessage(tool_call_id=str(turn.metadata.get("tool_call_id", turn.id)), **own)


def _document(piece: Evidence) -> Document:
    return Document(page_content=block(piece.text), metadata=evidence_fields(piece))
