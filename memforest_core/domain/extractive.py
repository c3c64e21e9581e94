"""Summaries picked from the texts themselves: what a node says while no model writes for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from memforest_core.domain.text import sentences, terms


def summarize(texts: Sequence[str], budget_chars: int) -> str:
    """At most ``budget_chars`` characters of the texts' most telling distinct sentences, in their order.

    A sentence is worth the shares of texts that its terms occur in, of which each counts once over the whole summary;
    the first and the last text are preferred, because they say where an interval begins and ends.
    """
    lines = _lines(texts)
    if not lines:
        return ""
    spread = Counter(term for _, term in {(origin, term) for origin, _, words in lines for term in words})
    chosen: set[int] = set()
    covered: set[str] = set()
    left = budget_chars
    while True:
        best, best_worth = -1, 0.0
        for position, (origin, line, words) in enumerate(lines):
            if position in chosen or len(line) + 1 > left:
                continue
            fresh = words - covered
            worth = sum(spread[term] for term in fresh) / (8 + len(words))
            if origin in (0, len(texts) - 1):
                worth *= 1.25
            if worth > best_worth:
                best, best_worth = position, worth
        if best < 0:
            break
        chosen.add(best)
        covered |= lines[best][2]
        left -= len(lines[best][1]) + 1
    if not chosen:
        return lines[0][1][:budget_chars].rstrip()
    return "\n".join(lines[position][1] for position in sorted(chosen))


def _lines(texts: Sequence[str]) -> list[tuple[int, str, frozenset[str]]]:
    """Distinct sentences with the position of their text and their terms."""
    seen: set[frozenset[str]] = set()
    found = []
    for origin, text in enumerate(texts):
        for line in sentences(text):
            words = frozenset(terms(line))
            if words and words not in seen:
                seen.add(words)
                found.append((origin, line, words))
    return found
