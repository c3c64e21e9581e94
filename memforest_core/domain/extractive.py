"""Extractive summaries: the lines that stand for the rest, when no model writes a text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import log, sqrt

from memforest_core.domain.rendering import INDENT
from memforest_core.domain.text import clipped, numbers, sentences, terms

_MAX_LINES = 400
"""Lines that are weighed; of longer inputs every text has its first ones."""
_LINE_SHARE = 2
"""A single line takes at most this part (one half) of the budget, so that one text does not crowd out the others."""


_HEAD = re.compile(r'(?:"[^"]+"|[^:]{1,80}): ')
_FULL_TERMS = 3
"""A line with fewer terms is small talk more often than not, and a question states nothing."""


@dataclass(frozen=True, slots=True)
class _Line:
    position: int
    text: str
    terms: frozenset[str]
    weight: float
    """For its place and its numbers; its terms are weighed separately."""
    item: int
    head: str
    """Whose words its item has, as it begins."""


def summarize(texts: Sequence[str], budget_chars: int, newest_chars: int = 0) -> str:
    """The most informative distinct lines of ``texts``, in their order, in at most ``budget_chars`` characters.

    A line is worth what its terms are shared with other lines and have not been covered yet (centrality and
    coverage); lines with numbers and the first and last text gain, so that a state and its latest change both stay.
    With ``newest_chars`` the last lines are among them whatever they are worth: as many as fit into so many characters,
    but at least one. The same input gives the same summary.
    """
    if budget_chars <= 0:
        return ""
    # A text may begin with the rest of a turn, which is indented.
    whole = "\n".join(dict.fromkeys(text.strip("\n").rstrip() for text in texts if text.strip()))
    if len(whole) <= budget_chars:
        return whole
    lines = _lines(texts, min(budget_chars, max(20, budget_chars // _LINE_SHARE)))
    chosen = _chosen(lines, budget_chars, _newest(lines, newest_chars))
    if not chosen:
        return clipped(whole.replace("\n", " "), budget_chars)
    return _joined(sorted(chosen, key=lambda line: line.position), budget_chars)


def _joined(lines: Sequence[_Line], budget: int) -> str:
    """The lines, each said to be whose it is: the rest of an item whose beginning is left out begins as that does."""
    spare = budget - sum(len(line.text) + 1 for line in lines) + 1
    shown: list[str] = []
    for before, line in zip((None, *lines), lines, strict=False):
        text = line.text
        if text.startswith(INDENT) and (before is None or before.item != line.item):
            if line.head:
                text = clipped(line.head + text.strip(), len(text) + spare)
            elif before is not None and before.head and not _HEAD.match(text):
                text = text.strip()
        spare += len(line.text) - len(text)
        shown.append(text)
    return "\n".join(shown)


def _lines(texts: Sequence[str], longest: int) -> list[_Line]:
    """Distinct sentences with what speaks for them."""
    per_text = max(1, _MAX_LINES // max(1, len(texts)))
    seen: set[str] = set()
    lines: list[_Line] = []
    item = 0
    for index, text in enumerate(texts):
        edge = index in {0, len(texts) - 1}
        item, head = item + 1, ""
        for indent, sentence in _sentences(text)[:per_text]:
            if not indent:
                found_head = _HEAD.match(sentence)
                item, head = item + 1, "" if found_head is None else found_head.group()
            line = indent + clipped(" ".join(sentence.split()), longest - len(indent))
            key = line.strip().casefold()
            if not key or key in seen:
                continue
            seen.add(key)
            found = frozenset(terms(line))
            weight = 1.0 + (0.3 if edge else 0.0) + (0.2 if numbers(line) else 0.0)
            if len(found) < _FULL_TERMS or line.endswith("?"):
                weight *= 0.3
            lines.append(_Line(len(lines), line, found, weight, item, head))
    return lines


def _sentences(text: str) -> list[tuple[str, str]]:
    """Sentences with their indentation: only one that begins a line at the margin says whose words follow."""
    return [
        (INDENT if at or line.startswith(" ") else "", sentence)
        for line in text.splitlines()
        for at, sentence in enumerate(sentences(line))
    ]


def _newest(lines: Sequence[_Line], chars: int) -> list[_Line]:
    """The last lines that fit into so many characters, at least one where any are wanted."""
    newest = list(lines[-1:]) if chars else []
    left = chars - sum(len(line.text) for line in newest)
    for line in reversed(lines[:-1]):
        left -= len(line.text) + 1
        if left < 0:
            break
        newest.append(line)
    return newest


def _chosen(lines: Sequence[_Line], budget: int, certain: Sequence[_Line]) -> list[_Line]:
    """The certain lines, then a greedy cover: the line with most uncovered weight per square root of its length, while
    the budget lasts."""
    shared = Counter(term for line in lines for term in line.terms)
    worth = {term: log(1 + count) + 0.5 for term, count in shared.items()}
    covered = {term for line in certain for term in line.terms}
    chosen = list(certain)
    left = budget - sum(len(line.text) + 1 for line in certain) + bool(certain)
    open_lines = [line for line in lines if line not in certain]
    while open_lines:
        open_lines = [line for line in open_lines if len(line.text) + bool(chosen) <= left]
        if not open_lines:
            break
        best = max(open_lines, key=lambda line: (_gain(line, covered, worth), -line.position))
        left -= len(best.text) + bool(chosen)
        chosen.append(best)
        covered |= best.terms
        open_lines.remove(best)
        if _gain(best, set(), worth) > 0:
            open_lines = [line for line in open_lines if not line.terms <= covered]
    return chosen


def _gain(line: _Line, covered: set[str], worth: dict[str, float]) -> float:
    # Summed in a fixed order: the order of a set changes between processes, and so would the last bit.
    fresh = sum(sorted(worth[term] for term in line.terms if term not in covered))
    return line.weight * fresh / sqrt(len(line.text))
