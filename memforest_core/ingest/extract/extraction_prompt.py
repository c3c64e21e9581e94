"""The prompt of an extraction call, whose fixed part never changes its bytes, and the shape of its answer: untrusted
until ``answer_checks`` checked it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from importlib.resources import files
from itertools import groupby
from typing import Annotated

from pydantic import BaseModel, Field, StringConstraints

from memforest_core.domain.cells import MAX_WINDOW_TURNS, Window, WindowTurn
from memforest_core.domain.facts import Change, Modality, Origin, Polarity
from memforest_core.domain.people import KnownPerson, found_in
from memforest_core.domain.turns import Role
from memforest_core.models.answers import bare_schema, instructions_with
from memforest_core.settings import ExtractSettings

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
    """Numbers of the source turns, as the prompt numbers them; see ``answer_checks.sourced``."""
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


PROMPT_VERSION = "extract-3"
MAX_PEOPLE = 32
"""Speakers that a call names."""
MAX_NAMES = 8
"""Other names of each."""
CONTEXT_CHARS = 300
"""Of an earlier turn are shown, its end."""
SUMMARIZED_CHARS = 600
"""A cell of so many characters gets a summary of its own; a shorter one is shown as it is."""


def _parts() -> dict[str, str]:
    """The texts of ``prompt.txt``, by their names; a later one has earlier ones where it says {NAME}."""
    found = {"SELF_QUOTED_CHARS": str(SELF_QUOTED_CHARS)}
    table = files("memforest_core.ingest.extract").joinpath("prompt.txt").read_text(encoding="utf-8")
    for name, text in re.findall(r"^== (\w+)\n(.*?)(?=^== |\Z)", table, re.DOTALL | re.MULTILINE):
        for known, part in found.items():
            text = text.replace(f"{{{known}}}", part.rstrip("\n"))
        found[name] = text
    return found


_PARTS = _parts()
SYSTEM = _PARTS["SYSTEM"]
PEOPLE = _PARTS["PEOPLE"]
"""What is added to the fixed part for a window with such people; after it, so that what comes before stays the same."""
SUMMARIES = _PARTS["SUMMARIES"]
"""What is added for a window with cells long enough for a summary of their own."""
FRAME = _PARTS["FRAME"]
"""What stays where an application brings instructions of its own: all but what is worth storing, and examples."""


def fixed_part(settings: ExtractSettings, own: str | None = None) -> str:
    """The whole fixed part of a deployment: ours (or its ``own`` instructions) first, then what its settings add."""
    parts = [instructions_with(SYSTEM, own, FRAME)]
    if settings.categories:
        known = ", ".join(settings.categories)
        parts.append(f'\nThe domain of a scene is one of: {known}. Leave "scene" empty when none of them fits.\n')
    if settings.instructions.strip():
        parts.append(f"\nWhoever runs this memory adds:\n{settings.instructions.strip()}\n")
    return "".join(parts)


def schema() -> dict[str, object]:
    """The JSON schema of the answer: its shape only. Limits are checked later."""
    return bare_schema(ExtractionAnswer)


def shown_people(window: Window) -> list[str]:
    """The speakers whom a model has to know: those who speak in the window under one of several names, and
    those whom it mentions otherwise than by their name. At most ``MAX_PEOPLE``, in the order in which they come."""
    if window.people is None:
        return []
    found: dict[str, KnownPerson] = {}
    for turn in (*window.context, *window.turns):
        speaker = window.people.who(turn.speaker) if turn.role is Role.USER else None
        if speaker is not None and len(speaker.names) > 1:
            found.setdefault(speaker.id, speaker)
        for one in found_in(turn.text, window.people):
            if not one.plain or len(one.person.names) > 1:
                found.setdefault(one.person.id, one.person)
    return [_one_line(_shown_person(person)) for person in list(found.values())[:MAX_PEOPLE]]


def _shown_person(person: KnownPerson) -> str:
    others = [name for name in person.names if name != person.written][:MAX_NAMES]
    return ", also ".join([f"{person.written} <@{person.id}>", *others])


def _line(turn: WindowTurn, text: str) -> str:
    """A turn on one line, whatever is in it: nobody's words can look like a turn of somebody else."""
    role = "" if turn.role is Role.USER else f"[{turn.role.value}] "
    return f"{role}{_one_line(turn.speaker)}: {_one_line(text)}"


def _one_line(text: str) -> str:
    return "\\n".join(text.splitlines())


def _is_long(turns: Sequence[WindowTurn]) -> bool:
    return sum(len(turn.text) for turn in turns) >= SUMMARIZED_CHARS


def _cells(window: Window) -> Iterator[tuple[int, list[WindowTurn]]]:
    for cell, turns in groupby(window.turns, key=lambda turn: turn.cell):
        yield cell, list(turns)


def system_for(window: Window, fixed: str = SYSTEM) -> str:
    """The fixed part, and what only windows such as this one need."""
    people = PEOPLE if shown_people(window) else ""
    return fixed + people + (SUMMARIES if any(_is_long(turns) for _, turns in _cells(window)) else "")


def _turns(window: Window) -> Iterator[str]:
    """The turns under their days and times; a cell that is to be summarized has a line before it."""
    shown = ""
    for cell, turns in _cells(window):
        if _is_long(turns):
            yield f"[cell {cell}: turns {turns[0].number}-{turns[-1].number}]"
        for turn in turns:
            day = f"{turn.occurred_at:%Y-%m-%d %A}"
            if day != shown:
                yield f"{day} {turn.occurred_at:%H:%M}"
                shown = day
            yield f"{turn.number} {_line(turn, turn.text)}"


def render_window(window: Window, attributes: Sequence[str] = (), *, people: bool = True) -> str:
    """The user message: the same window always renders to the same bytes. Other names of speakers and attribute names,
    which change, come last."""
    lines = [f"Memory of {_one_line(window.owner)}, time zone {window.time_zone}."]
    if window.context:
        lines += ["Before:", *(_line(turn, turn.text[-CONTEXT_CHARS:]) for turn in window.context)]
    lines += _turns(window)
    if shown := shown_people(window) if people else []:
        lines += ["People:", *shown]
    if attributes:
        lines.append(f"Attributes in use, take one where it fits: {', '.join(attributes)}")
    return "\n".join(lines)


def input_hash(window: Window, model: str, system: str = SYSTEM) -> bytes:
    """The key of the extraction cache: prompt version, model, fixed part, and the exact rendered window. Attribute
    names and people are no part of it: they suggest labels and names, which code resolves again, and an answer that was
    paid for stays usable when the forest has learned others."""
    digest = hashlib.sha256()
    for part in (PROMPT_VERSION, model, system, render_window(window, people=False)):
        digest.update(part.encode())
        digest.update(b"\x1f")
    return digest.digest()
