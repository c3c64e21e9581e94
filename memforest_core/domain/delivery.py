"""Delivery: the pieces that fit a budget of text, grouped under one date header per session and day."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Protocol, TypeVar

from memforest_core.domain.rendering import block, one_line
from memforest_core.domain.times import LATEST, TimeSpan

CHARS_PER_TOKEN = 4
"""A usual estimate for English; a caller with a tokenizer of its own can cut more finely."""


class Deliverable(Protocol):
    """What is needed of a piece to deliver it."""

    @property
    def text(self) -> str: ...
    @property
    def time(self) -> TimeSpan: ...
    @property
    def time_label(self) -> str: ...
    @property
    def session_id(self) -> str: ...
    @property
    def ordinal(self) -> int: ...
    @property
    def whose(self) -> str: ...


Piece = TypeVar("Piece", bound=Deliverable)


def estimated_tokens(text: str) -> int:
    """Tokens of a text, rounded up."""
    return math.ceil(len(text) / CHARS_PER_TOKEN)


Group = tuple[str, str, str]
"""Whose pieces they are, their session, and their day."""


def header(piece: Deliverable, *, several: bool = False) -> str:
    """The line above the pieces of one session and day; where there are those of ``several`` memories, whose."""
    return f"[{one_line(piece.whose)}, {piece.time_label}]" if several else f"[{piece.time_label}]"


def of_several(pieces: Iterable[Deliverable]) -> bool:
    """Whether pieces are from more than one memory or source."""
    return len({piece.whose for piece in pieces}) > 1


def fitting(pieces: Iterable[Piece], max_chars: int, *, several: bool = False) -> list[Piece]:
    """The pieces that fit, taken best first; one that is too long leaves room for shorter ones after it. Headers say
    whose they are where ``several`` memories were asked."""
    taken: list[Piece] = []
    groups: set[Group] = set()
    left = max_chars
    for piece in pieces:
        group = _group(piece)
        cost = len(block(piece.text)) + 1
        if group not in groups:
            cost += len(header(piece, several=several)) + 1
        if cost <= left:
            left -= cost
            groups.add(group)
            taken.append(piece)
    return taken


def deliver(pieces: Sequence[Deliverable], max_tokens: int | None = None, *, several: bool = False) -> str:
    """The text of the best pieces within a budget, oldest group first; groups in the order of their first piece.
    ``several`` as in ``fitting``."""
    kept = list(pieces) if max_tokens is None else fitting(pieces, max_tokens * CHARS_PER_TOKEN, several=several)
    groups: dict[Group, list[Deliverable]] = {}
    for piece in kept:
        groups.setdefault(_group(piece), []).append(piece)
    ordered = sorted(groups.values(), key=lambda group: min(_moment(piece) for piece in group))
    lines: list[str] = []
    for group in ordered:
        lines.append(header(group[0], several=several))
        lines.extend(block(piece.text) for piece in sorted(group, key=lambda piece: piece.ordinal))
    return "\n".join(lines)


def _group(piece: Deliverable) -> Group:
    return piece.whose, piece.session_id, piece.time_label


def _moment(piece: Deliverable) -> datetime:
    """When a piece lies in time; undated ones come last."""
    return piece.time.start or LATEST
