"""A context while it is being made: its parts, and a share of the budget for each section."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from memforest_core.assistant.context.records import ContextPart, Omission, Section, Why
from memforest_core.assistant.context.result import Context, frame_tokens
from memforest_core.errors import StoreUnavailable
from memforest_core.models.answers import in_words
from memforest_core.settings import ContextSettings

ORDER = (Section.WINDOW, Section.EVIDENCE, Section.PROFILE, Section.TODAY, Section.WEEK)
"""Who may take what others leave, first to last."""


def section_tokens(settings: ContextSettings, max_tokens: int) -> dict[Section, int]:
    """The tokens of each section. Shares count relative to their sum, so that a section that is switched off (0) leaves
    its part to the others."""
    weights = {section: _share(settings, section) for section in Section}
    whole = sum(weights.values())
    return {section: int(max_tokens * weight / whole) for section, weight in weights.items()}


def is_on(settings: ContextSettings, section: Section) -> bool:
    """Whether a section has a share."""
    return _share(settings, section) > 0


def _share(settings: ContextSettings, section: Section) -> float:
    return float(getattr(settings, f"{section.value}_share"))


@dataclass(slots=True)
class Budget:
    """How many tokens each section may take, as it becomes known what the others need."""

    max_tokens: int
    section_tokens: Mapping[Section, int]
    _reserved: dict[Section, int] = field(default_factory=dict)

    def needs(self, section: Section, tokens: int) -> None:
        """A section needs at most so many tokens: of its share the rest is free for others."""
        self._reserved[section] = min(tokens, self.section_tokens[section])

    def took(self, section: Section, tokens: int) -> None:
        """A section is done, with so many tokens."""
        self._reserved[section] = tokens

    def sure(self, section: Section) -> int:
        """What a section can take whatever the others take."""
        return self._reserved.get(section, self.section_tokens[section])

    def free(self, section: Section) -> int:
        """What a section may take now: all that the others have not taken or reserved."""
        others = sum(
            self._reserved.get(other, share) for other, share in self.section_tokens.items() if other is not section
        )
        return max(0, self.max_tokens - others)


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
