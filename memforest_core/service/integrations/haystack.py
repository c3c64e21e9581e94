"""Haystack: a component that puts earlier conversations before a prompt, and one that stores what was said.

Written against ``haystack.component`` of haystack-ai 3.4. Owner and session are inputs of a run, so one pipeline serves
all users; asynchronous runs call both in threads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memforest_core.domain.extras import needed
from memforest_core.service.integrations.conversation import MAX_TOKENS, Conversation, as_turn

with needed("haystack-ai"):
    from haystack import component
    from haystack.dataclasses import ChatMessage

if TYPE_CHECKING:
    from memforest_core.service.integrations.conversation import Memory


@component
class MemForestRetriever:
    """``messages`` with a system message before them: what other sessions say about the user's last one."""

    def __init__(self, memory: Any, *, max_tokens: int = MAX_TOKENS) -> None:
        """``memory`` is a MemForest or a RemoteMemForest."""
        self._memory: Memory = memory
        self._max_tokens = max_tokens

    @component.output_types(messages=list[ChatMessage])  # type: ignore[untyped-decorator]
    def run(self, messages: list[ChatMessage], owner: str, session_id: str) -> dict[str, list[ChatMessage]]:
        """Raises as ``MemForest.recall``."""
        last = next((one.text for one in reversed(messages) if one.is_from("user")), None)
        found = Conversation(self._memory, owner, session_id, "haystack", self._max_tokens).earlier(last or "")
        return {"messages": [*([ChatMessage.from_system(found)] if found else []), *messages]}


@component
class MemForestWriter:
    """Stores an exchange: of ``messages`` those from the user's last one on, then ``replies``."""

    def __init__(self, memory: Any) -> None:
        """``memory`` is a MemForest or a RemoteMemForest."""
        self._memory: Memory = memory

    @component.output_types(written=int)  # type: ignore[untyped-decorator]
    def run(
        self, messages: list[ChatMessage], owner: str, session_id: str, replies: list[ChatMessage] | None = None
    ) -> dict[str, int]:
        """Each message is durable when this returns. Raises as ``MemForest.append``."""
        first = next((at for at in reversed(range(len(messages))) if messages[at].is_from("user")), len(messages))
        said = [one for one in [*messages[first:], *(replies or [])] if not one.is_from("system")]
        turns = [as_turn(one.to_openai_dict_format(require_tool_call_ids=False)) for one in said]
        Conversation(self._memory, owner, session_id, "haystack").add(turns)
        return {"written": len(turns)}
