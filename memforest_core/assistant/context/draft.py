"""A context while it is being made: which section has which parts, and how many tokens are left for the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from memforest_core.assistant.context.budget import Budget
from memforest_core.assistant.context.records import ContextPart, Omission, Section, Why
from memforest_core.assistant.context.rendering import frame_tokens
from memforest_core.assistant.context.result import Context
from memforest_core.errors import StoreUnavailable
from memforest_core.models.answers import in_words

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ContextRequest:
    """A checked request."""

    owner: str
    session: str | None
    question: str | None
    speaker: str | None
    channel: str | None
    max_tokens: int


@dataclass(slots=True)
class Draft:
    """A context that is being made."""

    request: ContextRequest
    about: str
    session: str
    budget: Budget
    question: str = ""
    parts: dict[Section, list[ContextPart]] = field(default_factory=dict)
    left_out: list[Omission] = field(default_factory=list)
    degraded: list[str] = field(default_factory=list)

    def room(self, section: Section) -> int:
        """Tokens for a section's lines, without its tags."""
        return self.budget.free(section) - self.frame(section)

    def frame(self, section: Section) -> int:
        """Tokens of its tags."""
        return frame_tokens(section, {Section.PROFILE: self.about, Section.WINDOW: self.session}.get(section, ""))

    def put(self, section: Section, parts: list[ContextPart], tokens: int, out: list[Omission]) -> None:
        """A section is done: its parts, the tokens of their lines, and what is left out of it."""
        self.parts[section] = parts
        self.left_out += out
        self.budget.took(section, tokens + self.frame(section) if parts else 0)

    def without(self, section: Section, why: Why) -> None:
        """A section is not there."""
        self.put(section, [], 0, [Omission(section, why)])

    def tried(self, section: Section, what: str, call: Callable[[], T]) -> T | None:
        """The result; None, with the section left out and a sentence about ``what``, when the store does not answer."""
        try:
            return call()
        except StoreUnavailable as error:
            self.without(section, Why.FAILED)
            self.degraded.append(f"{what} missing: {in_words(error.code)}.")
            return None

    def done(self) -> Context:
        """The context."""
        return Context(
            owner=self.request.owner,
            about=self.about,
            session_id=self.session,
            question=self.question,
            parts=tuple(part for section in Section for part in self.parts.get(section, ())),
            max_tokens=self.request.max_tokens,
            left_out=tuple(self.left_out),
            degraded=tuple(dict.fromkeys(self.degraded)),
        )
