"""A session as the list of messages that frameworks hold: read back as it was given, added to, cleared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from memforest_core.domain.chat_messages import TurnInput, turn_fields
from memforest_core.domain.turns import Turn
from memforest_core.errors import NotFound

if TYPE_CHECKING:
    from memforest_core.client.api import MemForest
    from memforest_core.client.remote.remote_memory import RemoteMemForest

    Memory: TypeAlias = MemForest | RemoteMemForest


PAGE = 1_000
"""Turns of one read."""
EMPTY = "[no text]"
"""Content of a turn whose message has no words."""


def as_turn(message: Mapping[str, object], extra: Mapping[str, object] | None = None) -> TurnInput:
    """A message (role, content, maybe id, name, tool calls) as a turn, with ``extra`` metadata.

    Raises InvalidInput for content that is neither text nor parts.
    """
    fields = {name: value for name, value in turn_fields(message, "The message").items() if value is not None}
    content = fields.get("content", "")
    if isinstance(content, str) and not content.strip():
        fields["content"] = EMPTY
    if extra:
        own = fields.get("metadata")
        fields["metadata"] = {**(own if isinstance(own, Mapping) else {}), **extra}
    return fields  # type: ignore[return-value]  # checked when it is stored


def said(turn: Turn) -> str:
    """The text of a turn's message."""
    return "" if turn.content == EMPTY else turn.content


@dataclass(frozen=True, slots=True)
class Conversation:
    """One session of an owner, as a list of turns."""

    memory: Memory
    owner: str
    session_id: str
    actor: str
    """Who deletes, for the audit."""

    def turns(self) -> Sequence[Turn]:
        """Its turns in order, without those whose words are deleted; none of a session that is not there."""
        found: list[Turn] = []
        cursor = None
        with suppress(NotFound):
            while True:
                page = self.memory.turns(self.owner, self.session_id, limit=PAGE, cursor=cursor)
                found += (turn for turn in page.items if not turn.erased)
                if (cursor := page.cursor) is None:
                    break
        return found

    def add(self, turns: Sequence[TurnInput]) -> None:
        """Append turns; each is durable when this returns. Raises as ``MemForest.append``."""
        for turn in turns:
            self.memory.append(self.owner, self.session_id, turn)

    def clear(self) -> None:
        """Delete the session for good, with the facts that were said nowhere else; waits until that is done.

        Raises OperationFailed, WaitTimeout, StoreUnavailable.
        """
        with suppress(NotFound):
            self.memory.lifecycle.forget(self.owner, session=self.session_id, actor=self.actor).wait()
