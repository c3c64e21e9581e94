"""Google ADK: the memory service of a runner.

Written against ``google.adk.memory.BaseMemoryService`` of google-adk 2.13.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from memforest_core.domain.extras import needed
from memforest_core.domain.rendering import block
from memforest_core.errors import InvalidInput
from memforest_core.service.integrations.conversation import (
    AsyncConversation,
    as_turn,
    evidence_fields,
    joined,
    question_of,
)

with needed("google-adk"):
    from google.adk.events import Event
    from google.adk.memory import BaseMemoryService
    from google.adk.memory.base_memory_service import SearchMemoryResponse
    from google.adk.memory.memory_entry import MemoryEntry
    from google.adk.sessions import Session
    from google.genai.types import Content, Part

if TYPE_CHECKING:
    from memforest_core.domain.chat_messages import TurnInput
    from memforest_core.domain.evidence import Evidence
    from memforest_core.service.integrations.conversation import AsyncMemory


class MemForestMemoryService(BaseMemoryService):
    """``Runner(memory_service=...)`` of one app: its users are the owners, its sessions theirs."""

    def __init__(self, memory: AsyncMemory, app_name: str, *, k: int = 10) -> None:
        """``k`` is how many memories a search returns at most."""
        self._memory = memory
        self._app_name = app_name
        self._k = k

    async def add_session_to_memory(self, session: Session) -> None:
        """Store a session's events but those that are stored already: it can be called after each turn."""
        await self.add_events_to_memory(
            app_name=session.app_name, user_id=session.user_id, session_id=session.id, events=session.events
        )

    async def add_events_to_memory(
        self, *, app_name: str, user_id: str, events: Sequence[Event], session_id: str | None = None, **_: Any
    ) -> None:
        """Store events but those that are stored already. Raises InvalidInput without ``session_id``."""
        self._check(app_name)
        if session_id is None:
            raise InvalidInput("Say which session the events are of: session_id is missing.", code="session_missing")
        turns = [turn for turn in map(_turn, events) if turn is not None]
        await AsyncConversation(self._memory, user_id, session_id, "google-adk").add_missing(turns)

    async def add_memory(self, *, app_name: str, user_id: str, memories: Sequence[MemoryEntry], **_: Any) -> None:
        """Remember statements as notes, searchable at once."""
        self._check(app_name)
        for entry in memories:
            text = joined(part.text for part in entry.content.parts or [])
            await self._memory.remember(user_id, text, at=entry.timestamp, wait="raw")

    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> SearchMemoryResponse:
        """Evidence, best first, as ``load_memory`` and ``preload_memory`` show it: quotes, no instructions."""
        self._check(app_name)
        found = await self._memory.recall(user_id, question_of(query), self._k)
        return SearchMemoryResponse(memories=[_entry(piece) for piece in found.evidence])

    def _check(self, app_name: str) -> None:
        """Another app's user of the same id may be somebody else."""
        if app_name != self._app_name:
            own = f"This memory service is for the app {self._app_name}"
            raise InvalidInput(f"{own}: give {app_name} a service and a tenant of its own.", code="another_app")


def _turn(event: Event) -> TurnInput | None:
    """An event as a turn; None for one without words, such as a change of state, and for what memory itself said."""
    given = (event.content.parts if event.content else None) or []
    parts = [one for one in given if getattr(one.function_call or one.function_response, "name", "") != "load_memory"]
    texts = [part.text for part in parts if part.text and not part.thought]
    texts += ["[file]" for part in parts if part.inline_data or part.file_data]
    results = [part.function_response.response for part in parts if part.function_response]
    texts += [json.dumps(result, ensure_ascii=False, default=str) for result in results]
    calls = [part.function_call.model_dump(include={"name", "args"}) for part in parts if part.function_call]
    if not texts and not calls:
        return None
    by = {"role": "tool" if results else "assistant", "name": event.author}
    said = {"content": joined(texts), "tool_calls": calls, "id": event.id, "timestamp": event.timestamp}
    return as_turn({**({"role": "user"} if event.author == "user" else by), **said})


def _entry(piece: Evidence) -> MemoryEntry:
    fields = evidence_fields(piece)
    content = Content(role="user", parts=[Part(text=block(piece.text))])
    return MemoryEntry(content=content, timestamp=fields["time"], custom_metadata=fields)
