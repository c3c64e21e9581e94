"""A share of the budget for each section; what one leaves goes to the others in a fixed order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from memforest_core.assistant.context.records import Section
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
