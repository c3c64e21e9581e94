"""The shape of an extraction answer, from whichever model: untrusted until ``candidates`` checked it."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field, StringConstraints

from memforest_core.domain.cells import MAX_WINDOW_TURNS
from memforest_core.domain.facts import Change, Modality, Origin, Polarity

MAX_ITEMS = 4 * MAX_WINDOW_TURNS
"""Facts of one answer: a window may say four in each of its turns."""

MAX_TURNS = 16
"""Of one item."""

SELF_QUOTED_CHARS = 200
"""A turn of so many characters is short enough to be the quote of what it says."""

MAX_SHORT_CHARS = 400
"""Of a quote, a value or the phrase of a date."""

Short = Annotated[str, StringConstraints(max_length=MAX_SHORT_CHARS)]
Label = Annotated[str, StringConstraints(max_length=200)]


class Item(BaseModel):
    """One fact as the model states it."""

    text: Annotated[str, StringConstraints(min_length=1, max_length=2000)]
    """Self-contained sentence, third person, with names, dates and amounts inside."""
    turns: list[int] = Field(max_length=MAX_TURNS)
    """Numbers of the source turns, as the prompt numbers them; see ``candidates.sourced``."""
    quote: Short = ""
    """A verbatim piece of one of those turns: all of it, or its first and last words with "..." between them. A model
    leaves it out where the turns are short."""
    speaker: Label = ""
    """Who said it; left out by a model, it is the speaker of the first of those turns."""
    subject: Label = ""
    """Whom or what it is about; left out by a model, it is the speaker."""
    attribute: Label = ""
    value: Short = ""
    previous_value: Short = ""
    change: Change = Change.NONE
    polarity: Polarity = Polarity.POSITIVE
    modality: Modality = Modality.ASSERTED
    when: Short = ""
    """The event's date phrase, verbatim; code resolves it."""
    entities: list[Label] = Field(default_factory=list, max_length=24)
    scene: Label = ""
    origin: Origin = Origin.USER


class CellSummary(BaseModel):
    """One or two sentences on what a cell is about."""

    cell: int
    text: Annotated[str, StringConstraints(max_length=1200)]


class ExtractionAnswer(BaseModel):
    """Everything one extraction call says about its window."""

    items: list[Item] = Field(max_length=MAX_ITEMS)
    summaries: list[CellSummary] = Field(default_factory=list, max_length=MAX_WINDOW_TURNS)
