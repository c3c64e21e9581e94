"""Builders with defaults: a test names only what it is about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID

from memforest_core.domain.cells import Window, WindowTurn
from memforest_core.domain.facts import Candidate, Change, Modality, Origin, Polarity, Statement
from memforest_core.domain.ids import CellId, ForestId
from memforest_core.domain.times import UNKNOWN_TIME, Precision, TimeSpan
from memforest_core.domain.turns import Role, Turn

NOON = datetime(2023, 5, 8, 12, tzinfo=UTC)
"""A Monday."""

FOREST = ForestId(UUID(int=1))


def turn(
    ordinal: int = 0,
    content: str = "I live in Davis.",
    *,
    role: Role = Role.USER,
    at: datetime | None = None,
    name: str = "Bob",
    metadata: Mapping[str, object] | None = None,
) -> Turn:
    """A turn, a minute after the one before it."""
    return Turn(
        ordinal=ordinal,
        id=f"turn@{ordinal}",
        role=role,
        content=content,
        occurred_at=at or NOON + timedelta(minutes=ordinal),
        dated=True,
        speaker_id=name.lower(),
        name=name,
        metadata=metadata or {},
    )


def window_turn(
    number: int = 1,
    text: str = "I live in Davis.",
    *,
    cell: int = 1,
    role: Role = Role.USER,
    speaker: str = "Bob",
    at: datetime = NOON,
) -> WindowTurn:
    """A turn as an extraction call sees it; ordinals follow the numbers."""
    return WindowTurn(number, cell, number + 9, role, speaker, text, at)


def window(*turns: WindowTurn, context: Sequence[WindowTurn] = (), zone: str = "UTC") -> Window:
    """A window of these turns, two by default."""
    shown = turns or (window_turn(1), window_turn(2, "And you?", role=Role.ASSISTANT, speaker="assistant"))
    return Window("bob", zone, tuple(context), shown, max(each.cell for each in shown))


def cells_of(shown: Window) -> dict[int, CellId]:
    """Ids for the cells of a window."""
    return {number: CellId(UUID(int=number)) for number in range(1, shown.cells + 1)}


def day(year: int, month: int, of_month: int) -> TimeSpan:
    """A whole day."""
    start = datetime(year, month, of_month, tzinfo=UTC)
    return TimeSpan(start, start + timedelta(days=1), Precision.DAY)


def statement(
    text: str = "Bob lives in Davis.",
    *,
    time: TimeSpan = UNKNOWN_TIME,
    mentioned_at: datetime = NOON,
    speaker: str = "Bob",
    subject: str = "Bob",
    attribute: str = "residence",
    value: str = "Davis",
    change: Change = Change.NONE,
    polarity: Polarity = Polarity.POSITIVE,
    modality: Modality = Modality.ASSERTED,
    entities: tuple[str, ...] = ("Davis",),
    scene: str = "home/residence",
    verbatim: bool = False,
) -> Statement:
    """What a fact says."""
    return Statement(
        text=text,
        time=time,
        mentioned_at=mentioned_at,
        speaker=speaker,
        subject=subject,
        attribute=attribute,
        value=value,
        previous_value="",
        change=change,
        polarity=polarity,
        modality=modality,
        entities=entities,
        scene=scene,
        origin=Origin.USER,
        verbatim=verbatim,
    )


def candidate(said: Statement, item: int = 0, cell: int = 1) -> Candidate:
    """An item of the call that read a cell."""
    return Candidate(CellId(UUID(int=cell)), item, (0,), "", said)
