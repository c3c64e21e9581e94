"""Cells and windows: how turns are cut into units of provenance, and what one extraction call reads."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from memforest_core.domain.delivery import CHARS_PER_TOKEN
from memforest_core.domain.pasted import Pasted
from memforest_core.domain.people import People
from memforest_core.domain.rendering import speech
from memforest_core.domain.turns import Role, Turn


@dataclass(frozen=True, slots=True)
class WindowTurn:
    """A turn, or the part of a long turn that a cell has, as an extraction call sees it."""

    number: int
    """1-based number in the prompt; context turns count down from 0 (0, -1) and are never extracted."""
    cell: int
    """1-based number of its cell in the window; 0 for context turns."""
    ordinal: int
    """The turn's ordinal in its session."""
    role: Role
    speaker: str
    """Display name of the speaker."""
    text: str
    occurred_at: datetime
    """Aware, by the sender's clock."""
    pasted: tuple[Pasted, ...] = ()
    """The parts of ``text`` that say nothing of the speaker."""


@dataclass(frozen=True, slots=True)
class Window:
    """The consecutive cells of one extraction call, with up to two preceding turns as context."""

    owner: str
    """Display name of the owner of the memory."""
    time_zone: str
    """The owner's: an IANA name, for when days begin."""
    context: tuple[WindowTurn, ...]
    turns: tuple[WindowTurn, ...]
    cells: int
    people: People | None = None
    """Everybody who speaks in the memory, if that is known: whom mentions and nicknames mean."""


TOPIC_MARKER = "new_topic"
"""Metadata key with which a caller says that a turn starts something new (a hard topic marker)."""

TEXT_MARKERS = ("--- topic", "--- session", "new topic:", "switching gears")
"""Beginnings of a line that say that a turn starts something new (artifact, which finds them anywhere in the text)."""

MAX_WINDOW_TURNS = 64
"""A window has at most so many turns, so no more cells, and a candidate rests on no later turn."""


@dataclass(frozen=True, slots=True)
class Cutting:
    """Where cells and windows close (artifact: 2 turns, 8,000 characters, also of a single turn, 6 hours)."""

    cell_turns: int = 2
    cell_chars: int = 8_000
    part_chars: int = 800
    """A longer turn becomes several cells, each a part of it: an embedding model reads some 1,000 characters, and what
    is found is delivered without the rest of the turn."""
    tool_part_chars: int = 400
    """The same for a tool's turn: JSON and logs have twice the tokens of prose, and a question is about one record."""
    gap: timedelta = timedelta(hours=6)
    window_turns: int = MAX_WINDOW_TURNS
    window_chars: int = 1_200 * CHARS_PER_TOKEN
    markers: tuple[str, ...] = TEXT_MARKERS
    """Beginnings of a line that close the cell before their turn; upper and lower case are the same."""

    def whole_chars(self, turn: Turn) -> int:
        """How long a turn such as this may be to stay in one cell."""
        return min(self.cell_chars, self.tool_part_chars if turn.role is Role.TOOL else self.part_chars)


@dataclass(frozen=True, slots=True)
class CellCut:
    """A cell: turns ``first_turn``..``last_turn`` (ordinals, inclusive) of one session.

    ``char_start``/``char_end`` are set when the cell is a piece of one long turn. ``window`` is the ordinal of the
    first cell that its extraction call reads.
    """

    ordinal: int
    window: int
    first_turn: int
    last_turn: int
    char_start: int | None
    char_end: int | None
    text: str
    time_start: datetime
    time_end: datetime
    full: bool
    """False when another turn could still join it."""

    @property
    def turns(self) -> int:
        """How many turns it spans."""
        return self.last_turn - self.first_turn + 1


_MARGIN = re.compile(r"^(?! )", re.MULTILINE)


def turn_starts(text: str, turns: int) -> tuple[int, ...]:
    """Where the turns of a cell's text begin, in characters: its lines at the margin; (0,) where these are not as many
    as its ``turns``, of which one may be erased."""
    starts = tuple(line.start() for line in _MARGIN.finditer(text))
    return starts if len(starts) == turns else (0,)


BORDERS = (("\n\n",), ("\n",), ("}, ", "},"), (". ", "! ", "? ", "。", "！", "？"), (" ",), (",",))
"""Where a long text is cut, the best border first: between paragraphs, lines (of a log, a list, JSON), records of JSON
in one line, sentences, words, values."""


def parts_of(content: str, limit: int) -> Iterator[tuple[int, int]]:
    """Cut a text into consecutive [start, end) parts of at most ``limit`` characters and of like size, each at the best
    border in its second half where there is one, at the last of equal ones."""
    start = 0
    while (left := len(content) - start) > limit:
        even = math.ceil(left / math.ceil(left / limit))
        window = content[start : start + min(limit, even + even // 4)]
        cut = _border(window, even // 2) or even
        yield start, start + cut
        start += cut
    yield start, len(content)


def _border(window: str, floor: int) -> int:
    """How many characters come before the best border behind ``floor``; 0 when there is none."""
    for marks in BORDERS:
        cut = max((at + len(mark) for mark in marks if (at := window.rfind(mark, floor)) >= 0), default=0)
        if cut > floor:
            return cut
    return 0


def starts_topic(turn: Turn, markers: Sequence[str]) -> bool:
    """Whether a turn says that it starts something new: by its metadata, or by a line of its text."""
    if turn.metadata.get(TOPIC_MARKER) is True:
        return True
    if not markers:
        return False
    beginnings = tuple(marker.casefold() for marker in markers)
    return any(line.lstrip().startswith(beginnings) for line in turn.content.casefold().splitlines())


def _joins(cell: Sequence[Turn], turn: Turn, cutting: Cutting) -> bool:
    """Whether a turn may join the open cell."""
    if len(cell) >= cutting.cell_turns:
        return False
    if turn.role is Role.SYSTEM or Role.TOOL in (turn.role, cell[-1].role) or starts_topic(turn, cutting.markers):
        return False
    if abs(turn.occurred_at - cell[-1].occurred_at) > cutting.gap:
        return False
    return sum(len(t.content) for t in cell) + len(turn.content) <= cutting.cell_chars


def _cell(ordinal: int, turns: Sequence[Turn], cutting: Cutting, part: tuple[int, int] | None = None) -> CellCut:
    """A cell of these turns, or of a ``part`` of the one."""
    moments = [turn.occurred_at for turn in turns]
    start, end = part or (None, None)
    return CellCut(
        ordinal=ordinal,
        window=ordinal,
        first_turn=turns[0].ordinal,
        last_turn=turns[-1].ordinal,
        char_start=start,
        char_end=end,
        text="\n".join(speech(turn.name, turn.content[start:end]) for turn in turns),
        time_start=min(moments),
        time_end=max(moments),
        full=part is not None or len(turns) >= cutting.cell_turns,
    )


def cut_cells(turns: Sequence[Turn], first_ordinal: int, cutting: Cutting) -> list[CellCut]:
    """Cut consecutive turns into cells numbered from ``first_ordinal``. A turn above ``part_chars`` becomes several
    cells that keep their offsets; a tool's turn shares no cell, so that its words don't dilute the talk."""
    cells: list[CellCut] = []
    open_turns: list[Turn] = []

    def close() -> None:
        if open_turns:
            cells.append(_cell(first_ordinal + len(cells), open_turns, cutting))
            open_turns.clear()

    for turn in turns:
        if len(turn.content) > (whole := cutting.whole_chars(turn)):
            close()
            for part in parts_of(turn.content, whole):
                cells.append(_cell(first_ordinal + len(cells), [turn], cutting, part))
            continue
        if open_turns and not _joins(open_turns, turn, cutting):
            close()
        open_turns.append(turn)
    close()
    return cells


def assign_windows(cells: Sequence[CellCut], cutting: Cutting) -> list[CellCut]:
    """Group consecutive new cells into extraction windows: the same cells always group alike."""
    grouped: list[CellCut] = []
    head, turns, chars = 0, 0, 0
    for cell in cells:
        gap = bool(grouped) and cell.time_start - grouped[-1].time_end > cutting.gap
        too_much = turns + cell.turns > cutting.window_turns or chars + len(cell.text) > cutting.window_chars
        if not grouped or gap or too_much:
            head, turns, chars = cell.ordinal, 0, 0
        turns += cell.turns
        chars += len(cell.text)
        grouped.append(replace(cell, window=head))
    return grouped
