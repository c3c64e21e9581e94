"""What a question gets back when a model answers it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from memforest_core.domain.documents import plain
from memforest_core.domain.evidence import RecallResult

NOT_IN_MEMORY = "This is not in memory."
"""The text of an answer that nothing supports."""


@dataclass(frozen=True, slots=True)
class Citation:
    """A piece of evidence that supports the answer."""

    number: int
    """Its place in ``evidence.evidence``, from 1."""
    turn_ids: tuple[str, ...]
    """The caller's ids of the source turns, in order."""
    session_id: str
    text: str
    """The piece as it was found; of a very long one the model has read the beginning."""
    time_label: str


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer and what it rests on.

    ``text`` is empty when no model could answer: ``degraded`` says why then, and the evidence is still there.
    """

    text: str
    supported: bool
    """Whether the model says that the evidence supports the answer, and cites evidence items that exist."""
    citations: tuple[Citation, ...]
    """In the order the model gave them; none unless supported."""
    not_in_memory: bool
    """Nothing that was found supports an answer; ``text`` is NOT_IN_MEMORY."""
    evidence: RecallResult
    model: str
    calls: int
    """Calls made to the model: none without evidence, two when the first answer could not be used."""
    degraded: tuple[str, ...] = ()
    """One sentence for each part that was unavailable, of the recall and of the answer."""

    def to_dict(self) -> dict[str, Any]:
        """The answer as JSON values, by the names of the fields."""
        made: dict[str, Any] = plain(self)
        return made
