"""CrewAI: the memory of a crew or an agent.

Written against ``crewai.Memory`` of crewai 1.15. Its storages search by vector alone, so the methods are replaced, and
not the storage; no model is called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import Field

from memforest_core.domain.extras import needed
from memforest_core.domain.rendering import block
from memforest_core.errors import InvalidInput
from memforest_core.service.integrations.conversation import Conversation, as_turn, question_of

with needed("crewai"):
    from crewai import Memory
    from crewai.memory.types import MemoryMatch, MemoryRecord

if TYPE_CHECKING:
    from memforest_core.domain.evidence import Evidence

HIDING = ("scope", "categories", "private")
"""Options that would hide a memory from others: refused, because it would be found all the same."""


class MemForestMemory(Memory):
    """``Crew(memory=...)`` or ``Agent(memory=...)`` for one owner; results of tasks are turns of the session."""

    memory: Any = Field(exclude=True, description="A MemForest or a RemoteMemForest.")
    owner: str
    session_id: str
    storage: Any = Field(default=None, exclude=True)

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> MemForestMemory:
        return self

    def extract_memories(self, content: str) -> list[str]:
        """The content as it is: MemForest extracts facts in the background."""
        return [content]

    def remember(self, content: str, **options: Any) -> MemoryRecord | None:
        """Remember a statement as a note, searchable at once. Raises InvalidInput for ``HIDING`` options."""
        _check(options)
        if self.read_only:
            return None
        note = self.memory.remember(self.owner, content, metadata=options.get("metadata"), wait="raw")
        return MemoryRecord(id=note.session_id, content=content)

    def remember_many(self, contents: list[str], **options: Any) -> list[MemoryRecord]:
        """Store results of tasks as turns of the session. Raises as ``remember``."""
        _check(options)
        if not self.read_only:
            said = {"role": "assistant", "name": options.get("agent_role"), "metadata": options.get("metadata")}
            self._conversation.add([as_turn({**said, "content": content}) for content in contents])
        return []

    def recall(self, query: str, *, limit: int = 10, **options: Any) -> list[MemoryMatch]:
        """Evidence of all sessions, best first: quotes with their dates, no instructions. Raises as ``remember``."""
        _check(options)
        return [_match(piece) for piece in self.memory.recall(self.owner, question_of(query), limit).evidence]

    def reset(self, scope: str | None = None) -> None:
        """Delete the session from the memory for good; notes and other sessions stay."""
        _check({"scope": scope})
        self._conversation.clear()

    reset_all = reset

    def _elsewhere(self, *_: Any, **__: Any) -> Any:
        raise InvalidInput("MemForest's memory in CrewAI has neither scopes nor records: use MemForest.", code="crewai")

    scope = slice = forget = update = list_scopes = list_records = info = tree = list_categories = _elsewhere

    @property
    def _conversation(self) -> Conversation:
        return Conversation(self.memory, self.owner, self.session_id, "crewai")


def _check(options: dict[str, Any]) -> None:
    for name in HIDING:
        if options.get(name) not in (None, False, "/", []):
            own = f"MemForest has no {name} in CrewAI"
            raise InvalidInput(f"{own}: make a MemForestMemory of another owner instead.", code="crewai")


def _match(piece: Evidence) -> MemoryMatch:
    content = f"[{piece.time_label}] {block(piece.text)}"
    record = MemoryRecord(id=f"{piece.session_id}/{'/'.join(piece.turn_ids)}", content=content)
    return MemoryMatch(record=record, score=piece.score)
