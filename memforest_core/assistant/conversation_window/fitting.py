"""What of a window fits its budget: the last turns first, then summaries, other turns, and items."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from memforest_core.assistant.conversation_window.records import HeldItem, LeftOut, PartKind, Reason, WindowPart
from memforest_core.domain.delivery import CHARS_PER_TOKEN
from memforest_core.domain.text import clipped


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
        part = _item(item)
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
    if item.own and item.turn_ids in there:
        return Reason.REPEATED
    return None if fits else Reason.BUDGET


def _item(item: HeldItem) -> WindowPart:
    return WindowPart(
        kind=PartKind.ITEM,
        text=item.text,
        session_id=item.session_id,
        turn_ids=item.turn_ids,
        first=item.ordinal,
        last=item.ordinal,
        turns=len(item.turn_ids),
        fact_id=item.fact_id,
    )


def _left_out(part: WindowPart, reason: Reason) -> LeftOut:
    return LeftOut(part.kind, reason, part.session_id, part.turn_ids, part.turns, part.tokens, part.fact_id)
