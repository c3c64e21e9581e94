"""Turns for ``enqueue`` from text of elsewhere, which may hold what is not accepted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from memforest_core.domain.text import clean
from memforest_core.domain.turns import TurnLimits

MAX_BYTES = TurnLimits().max_turn_bytes
"""Longer texts become several turns."""
_MAX_CHARS = MAX_BYTES // 4
"""A character has at most four bytes in UTF-8."""


def turns_of(
    role: str,
    content: str,
    *,
    id: str | None = None,
    metadata: Mapping[str, object] | None = None,
    **others: object,
) -> list[dict[str, object]]:
    """One turn, several for a text beyond 256 KiB ("id", "id#2", ...), none for one without words.

    NUL and lone surrogates are left out. ``others`` are further keys of a turn; those with None are left out.
    """
    made: list[dict[str, object]] = []
    for number, piece in enumerate(_pieces(clean(content).strip()), start=1):
        turn: dict[str, object] = {"role": role, "content": piece}
        if id is not None:
            turn["id"] = id if number == 1 else f"{id}#{number}"
        turn |= {key: value for key, value in others.items() if value is not None}
        if metadata:
            turn["metadata"] = dict(metadata)
        made.append(turn)
    return made


def _pieces(text: str) -> Iterator[str]:
    """The text in parts that fit, cut at the last white space of each where there is one."""
    while len(text) > _MAX_CHARS and len(text.encode()) > MAX_BYTES:
        head = text[:_MAX_CHARS]
        words = head.rsplit(maxsplit=1)
        kept = words[0] if len(words) == 2 and words[0].strip() else head
        yield kept.strip()
        text = text[len(kept) :].strip()
    if text:
        yield text
