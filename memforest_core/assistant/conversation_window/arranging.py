"""Which summaries stand for a session's older turns, and what of the window fits its budget."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from memforest_core.assistant.conversation_window.records import (
    HeldItem,
    LeftOut,
    Loaded,
    PartKind,
    Reason,
    StoredSummary,
    TreeSummary,
    WindowPart,
)
from memforest_core.domain.delivery import CHARS_PER_TOKEN
from memforest_core.domain.rendering import turn_line
from memforest_core.domain.text import clipped


@dataclass(frozen=True, slots=True)
class Cover:
    """Summaries for the turns before an end, and the turns between that no summary covers."""

    stored: StoredSummary | None
    summaries: tuple[TreeSummary, ...]
    bare: tuple[int, ...]
    """Ordinals, in order."""

    @property
    def chars(self) -> int:
        """Characters of all summaries."""
        return sum(len(each.text) for each in self.summaries) + (0 if self.stored is None else len(self.stored.text))


def untold(start: int, end: int, summaries: Iterable[TreeSummary], waiting: Iterable[tuple[int, int]]) -> list[int]:
    """The turns from ``start`` to before ``end`` that no summary's range has, or that wait to be placed in the tree
    with one of their cells: its summaries don't know them."""
    covered: set[int] = set()
    for each in summaries:
        covered.update(range(each.first, each.last + 1))
    for first, last in waiting:
        covered.difference_update(range(first, last + 1))
    return [at for at in range(start, end) if at not in covered]


def cover(loaded: Loaded, stored: StoredSummary | None) -> Cover:
    """What covers the turns before the end: the tree alone, or the stored summary and the tree after it."""
    summaries = (loaded.tree or ()) if stored is None else loaded.later
    start = 0 if stored is None else stored.turns
    bare = untold(start, loaded.end, summaries, loaded.waiting)
    return Cover(stored, tuple(summaries), tuple(at for at in bare if at in loaded.turns))


def chosen(loaded: Loaded, max_tokens: int) -> Cover:
    """Of the tree alone and of the stored summary with the tree after it the one that fits better.

    What fits both ways leaves fewer turns without a summary, then takes fewer tokens.
    """
    ways = [] if loaded.tree is None else [cover(loaded, None)]
    if loaded.stored is not None:
        ways.append(cover(loaded, loaded.stored))
    return min(ways, key=lambda way: (overflow(way, loaded, max_tokens), len(way.bare), _tokens(way, loaded)))


def overflow(way: Cover, loaded: Loaded, max_tokens: int) -> int:
    """Tokens that a window has no room for, without its items."""
    return max(0, _tokens(way, loaded) - max_tokens)


def older_parts(way: Cover, loaded: Loaded) -> list[WindowPart]:
    """Summaries and turns before the end as parts, in the session's order."""
    parts = (
        []
        if way.stored is None
        else [_summary(loaded, way.stored.text, way.stored.source.value, 0, way.stored.turns - 1)]
    )
    parts += [_summary(loaded, each.text, each.source, each.first, each.last, each) for each in way.summaries]
    return sorted([*parts, *_turns(loaded, way.bare)], key=lambda part: (part.first, part.last))


def last_parts(loaded: Loaded) -> list[WindowPart]:
    """The turns that stay word for word, in order; one without words is not there."""
    return _turns(loaded, range(loaded.end, loaded.head.turns))


def _tokens(way: Cover, loaded: Loaded) -> int:
    return sum(part.tokens for part in [*older_parts(way, loaded), *last_parts(loaded)])


def _summary(
    loaded: Loaded, text: str, source: str, first: int, last: int, node: TreeSummary | None = None
) -> WindowPart:
    ids = dict.fromkeys(loaded.ids[at] for at in (first, last) if at in loaded.ids)
    return WindowPart(
        kind=PartKind.SUMMARY,
        text=text,
        session_id=loaded.head.external_id,
        turn_ids=tuple(ids),
        first=first,
        last=last,
        turns=last - first + 1,
        source=source,
        node_id=None if node is None else node.node_id,
    )


def _turns(loaded: Loaded, ordinals: Iterable[int]) -> list[WindowPart]:
    return [
        WindowPart(
            kind=PartKind.TURN,
            text=turn_line(turn.name, turn.content),
            session_id=loaded.head.external_id,
            turn_ids=(turn.id,),
            first=at,
            last=at,
            role=turn.role.value,
            speaker=turn.name,
        )
        for at in ordinals
        if (turn := loaded.turns.get(at)) is not None
    ]


def fitted(
    last: Sequence[WindowPart], older: Sequence[WindowPart], items: Sequence[HeldItem], max_tokens: int
) -> tuple[tuple[WindowPart, ...], tuple[LeftOut, ...]]:
    """The parts that fit, items first, then the session in its order; and what is left out.

    ``last`` are the turns that stay word for word: they are taken from the newest on, without a gap. The newest one is
    always there, cut if it alone is longer than the budget. Then summaries and after them the other turns are taken,
    the newest first, then ``items`` in their order.
    """
    left, shown, out = max_tokens, list[WindowPart](), list[LeftOut]()
    for at, part in enumerate(reversed(last)):
        fits = part if at else _cut(part, max_tokens)
        if fits.tokens > left:
            out += [_left_out(each, Reason.BUDGET) for each in last[: len(last) - at]]
            break
        shown.append(fits)
        left -= fits.tokens
    for part in [*_newest(older, PartKind.SUMMARY), *_newest(older, PartKind.TURN)]:
        if part.tokens <= left:
            shown.append(part)
            left -= part.tokens
        else:
            out.append(_left_out(part, Reason.BUDGET))
    there = {part.turn_ids for part in shown if part.kind is PartKind.TURN}
    found: list[WindowPart] = []
    for item in items:
        part = item.part
        reason = _reason(item, there, part.tokens <= left)
        if reason is None:
            found.append(part)
            left -= part.tokens
        else:
            out.append(_left_out(part, reason))
    return (*found, *sorted(shown, key=lambda part: (part.first, part.last))), tuple(out)


def _newest(parts: Sequence[WindowPart], kind: PartKind) -> Iterator[WindowPart]:
    return (part for part in reversed(parts) if part.kind is kind)


def _cut(part: WindowPart, max_tokens: int) -> WindowPart:
    if part.tokens <= max_tokens:
        return part
    return replace(part, text=clipped(part.text, max_tokens * CHARS_PER_TOKEN - 1), cut=True)


def _reason(item: HeldItem, there: set[tuple[str, ...]], fits: bool) -> Reason | None:
    if item.superseded:
        return Reason.SUPERSEDED
    if item.own and item.part.turn_ids in there:
        return Reason.REPEATED
    return None if fits else Reason.BUDGET


def _left_out(part: WindowPart, reason: Reason) -> LeftOut:
    return LeftOut(part.kind, reason, part.session_id, part.turn_ids, part.turns, part.tokens, part.fact_id)
