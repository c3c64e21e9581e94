"""Delivery: the evidence that fits a budget of text, grouped under one date header per session and day."""

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
    """What is needed of a item to deliver it."""

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


Item = TypeVar("Item", bound=Deliverable)


def estimated_tokens(text: str) -> int:
    """Tokens of a text, rounded up."""
    return math.ceil(len(text) / CHARS_PER_TOKEN)


Group = tuple[str, str, str]
"""Whose items they are, their session, and their day."""


def header(item: Deliverable, *, several: bool = False) -> str:
    """The line above the items of one session and day; where there are those of ``several`` memories, whose."""
    return f"[{one_line(item.whose)}, {item.time_label}]" if several else f"[{item.time_label}]"


def of_several(items: Iterable[Deliverable]) -> bool:
    """Whether items are from more than one memory or source."""
    return len({item.whose for item in items}) > 1


def fitting(items: Iterable[Item], max_chars: int, *, several: bool = False) -> list[Item]:
    """The items that fit, taken best first; one that is too long leaves room for shorter ones after it. Headers say
    whose they are where ``several`` memories were searched."""
    taken: list[Item] = []
    groups: set[Group] = set()
    left = max_chars
    for item in items:
        group = _group(item)
        cost = len(block(item.text)) + 1
        if group not in groups:
            cost += len(header(item, several=several)) + 1
        if cost <= left:
            left -= cost
            groups.add(group)
            taken.append(item)
    return taken


def deliver(items: Sequence[Deliverable], max_tokens: int | None = None, *, several: bool = False) -> str:
    """The text of the best items within a budget, oldest group first; groups in the order of their first item.
    ``several`` as in ``fitting``."""
    fitted = list(items) if max_tokens is None else fitting(items, max_tokens * CHARS_PER_TOKEN, several=several)
    groups: dict[Group, list[Deliverable]] = {}
    for item in fitted:
        groups.setdefault(_group(item), []).append(item)
    ordered = sorted(groups.values(), key=lambda group: min(_moment(item) for item in group))
    lines: list[str] = []
    for group in ordered:
        lines.append(header(group[0], several=several))
        lines.extend(block(item.text) for item in sorted(group, key=lambda item: item.ordinal))
    return "\n".join(lines)


def _group(item: Deliverable) -> Group:
    return item.whose, item.session_id, item.time_label


def _moment(item: Deliverable) -> datetime:
    """When a item lies in time; undated ones come last."""
    return item.time.start or LATEST
