"""A context as callers get it: as text, as messages, or as parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from memforest_core.assistant.context.records import ContextPart, Omission, Section
from memforest_core.assistant.context.rendering import body_tokens, frame_tokens, messages, sections
from memforest_core.domain.documents import plain
from memforest_core.domain.ids import FactId, NodeId


@dataclass(frozen=True)
class Context:
    """What goes into the prompt of one chat turn. It is false when there is nothing at all."""

    owner: str
    about: str
    """Whom the profile is about, by name."""
    session_id: str
    """The caller's id of the session whose window is shown; empty without one."""
    question: str
    """What was looked for; empty when nothing was."""
    parts: tuple[ContextPart, ...]
    """In the order in which they are shown."""
    max_tokens: int
    left_out: tuple[Omission, ...] = ()
    degraded: tuple[str, ...] = ()
    """One sentence for each unavailable part and what was done without it."""
    owner_known: bool = True
    """False when the owner has no memory yet."""

    def __bool__(self) -> bool:
        return bool(self.parts)

    def section(self, section: Section | str) -> tuple[ContextPart, ...]:
        """The parts of one section. Raises ValueError for a name that is none."""
        wanted = Section(section)
        return tuple(part for part in self.parts if part.section is wanted)

    @cached_property
    def section_tokens(self) -> Mapping[Section, int]:
        """Estimated tokens of each section that is there, with its tags."""
        found = {}
        for section in Section:
            own = self.section(section)
            if own:
                found[section] = body_tokens(own) + frame_tokens(section, self._names.get(section, ""))
        return found

    @property
    def tokens(self) -> int:
        """Estimated tokens of ``text``, at most ``max_tokens``."""
        return sum(self.section_tokens.values())

    @property
    def fact_ids(self) -> tuple[FactId, ...]:
        """The facts that went in, each once."""
        return tuple(dict.fromkeys(fact for part in self.parts for fact in part.fact_ids))

    @property
    def turn_ids(self) -> tuple[tuple[str, str], ...]:
        """The turns that went in, as the caller's ids of session and turn, each once."""
        return tuple(dict.fromkeys((part.session_id, turn) for part in self.parts for turn in part.turn_ids))

    @property
    def node_ids(self) -> tuple[NodeId, ...]:
        """The nodes whose summaries went in, each once."""
        return tuple(dict.fromkeys(node for part in self.parts for node in part.node_ids))

    @property
    def digest_ids(self) -> tuple[str, ...]:
        """The digests of days that went in."""
        return tuple(part.digest_id for part in self.parts if part.digest_id)

    @property
    def text(self) -> str:
        """All sections between tags, their content escaped; empty when there is nothing."""
        return sections(self.parts, self._names)

    def messages(self) -> list[dict[str, str]]:
        """A system message with what is remembered, then the window's turns as messages: role and content.

        Put the message that you answer behind them, unless it is a turn of the session already.
        """
        return messages(self.parts, self._names)

    @property
    def _names(self) -> dict[Section, str]:
        return {Section.PROFILE: self.about, Section.WINDOW: self.session_id}

    def to_dict(self) -> dict[str, Any]:
        """The context as JSON values, by the names of the fields, with ``text``, ids and tokens."""
        return {
            **plain(self),
            "text": self.text,
            "tokens": self.tokens,
            "section_tokens": plain(self.section_tokens),
            "fact_ids": plain(self.fact_ids),
            "turn_ids": plain(self.turn_ids),
            "node_ids": plain(self.node_ids),
            "digest_ids": plain(self.digest_ids),
        }
