"""What a ranking is worth: pure measures over the items that a method puts first and the text that is delivered."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any, Protocol

from memforest_core.domain.delivery import Deliverable, deliver, header
from memforest_core.domain.text import clean, sentences
from memforest_core.domain.times import TimeSpan

NAME = "bert-base-uncased wordpiece"
_VOCABULARY = "bert-base-uncased-vocab.txt"


@lru_cache(maxsize=1)
def _tokenizer() -> Any:
    tokenizers: Any = importlib.import_module("tokenizers")
    with resources.as_file(resources.files("memforest_core.models.embedders") / _VOCABULARY) as path:
        return tokenizers.BertWordPieceTokenizer(str(path), lowercase=True)


@lru_cache(maxsize=65_536)
def count_tokens(text: str) -> int:
    """Tokens of a text, without those that mark its beginning and end."""
    return len(_tokenizer().encode(text, add_special_tokens=False).ids)


BUDGETS = (500, 2_000)
"""Tokens of delivered text."""
HALF = 0.5
"""A sentence counts as its turn from this share of the turn's length."""
RUN = 40
"""Characters in a row that are the same count as delivered: longer than what different turns share by chance."""

CountTokens = Callable[[str], int]
"""Tokens of one line of text."""


class Item(Deliverable, Protocol):
    """A piece of evidence that says which turns it quotes."""

    @property
    def turn_ids(self) -> tuple[str, ...]: ...


@dataclass(frozen=True, slots=True)
class Quote:
    """A piece that a baseline delivers; it has the form of the project's own evidence."""

    text: str
    time: TimeSpan
    time_label: str
    session_id: str
    ordinal: int
    turn_ids: tuple[str, ...]
    whose: str = ""


def packed(items: Iterable[Item], max_tokens: int, count: CountTokens) -> list[Item]:
    """The items whose text fits, best first; one that is too long leaves room for shorter ones after it.

    All of the text counts, with one header for each session and day. Tokens of lines add up to those of the text,
    because no token spans a line end.
    """
    taken: list[Item] = []
    groups: set[tuple[str, str]] = set()
    left = max_tokens
    for item in items:
        group = (item.session_id, item.time_label)
        cost = count(item.text) + (0 if group in groups else count(header(item)))
        if cost <= left:
            left -= cost
            groups.add(group)
            taken.append(item)
    return taken


def delivered(items: Iterable[Item], max_tokens: int, count: CountTokens) -> str:
    """The text that a reader gets within a budget; the same packing for every method."""
    return deliver(packed(items, max_tokens, count))


def flat(text: str) -> str:
    """A text as it is compared: cleaned as when it is stored, its white space made single spaces."""
    return " ".join(clean(text).split())


def signs(text: str) -> tuple[str, ...]:
    """What shows that a turn was delivered: all of it, or one of its sentences of at least half its length."""
    whole = flat(text)
    long = [flat(sentence) for sentence in sentences(text)]
    return tuple(dict.fromkeys([whole, *(one for one in long if len(one) >= HALF * len(whole))]))


def found(gold: Sequence[str], text: str) -> list[bool]:
    """For each gold turn's text whether the delivered text contains it: pointing at a turn does not count."""
    there = flat(text)
    return [any(sign in there for sign in signs(one)) for one in gold]


def fractions(gold: Sequence[str], text: str) -> list[float]:
    """For each gold turn's text the share of its characters that the delivered text contains.

    A character counts when it is in a run of at least 40 that the text has letter by letter, white space ignored;
    of a shorter turn all of it has to be there. So a chunk that cuts a long turn counts with its part, once.
    """
    there = flat(text)
    held: set[str] | None = None
    found = []
    for one in map(flat, gold):
        if one in there:
            found.append(1.0)
        elif len(one) <= RUN:
            found.append(0.0)
        else:
            held = held or {there[start : start + RUN] for start in range(len(there) - RUN + 1)}
            found.append(_covered(one, held) / len(one))
    return found


def _covered(one: str, held: Collection[str]) -> int:
    """How many characters lie in a run that is held."""
    count = end = 0
    for start in range(len(one) - RUN + 1):
        if one[start : start + RUN] in held:
            count += start + RUN - max(start, end)
            end = start + RUN
    return count


Ranks = tuple[int | None, ...]
"""For each of some turns the rank (from 1) of the first item that quotes it; None when none does."""


def ranked(turns: Sequence[str], items: Sequence[Item]) -> Ranks:
    """Where some turns (ids) are among the items, by the turns that an item quotes."""
    place: dict[str, int] = {}
    for rank, item in enumerate(items, 1):
        for turn in item.turn_ids:
            place.setdefault(turn, rank)
    return tuple(place.get(turn) for turn in turns)


def within(ranks: Ranks, k: int) -> float:
    """The share of the turns that the first ``k`` items quote; ``ranks`` are at least one."""
    return mean([rank is not None and rank <= k for rank in ranks])


def earliest(ranks: Ranks) -> float:
    """The best rank; infinite when no item quotes any."""
    return min((rank for rank in ranks if rank is not None), default=math.inf)


def ndcg(ranks: Ranks, k: int = 10) -> float:
    """Each turn gains 1 / log2(1 + rank) at the first item that quotes it; the ideal has one turn an item, and an item
    that quotes several cannot be better than that (Järvelin and Kekäläinen, 2002, with gains of 0 and 1)."""
    ideal = sum(1 / math.log2(1 + rank) for rank in range(1, min(len(ranks), k) + 1))
    return min(1.0, sum(1 / math.log2(1 + rank) for rank in ranks if rank is not None and rank <= k) / ideal)


def mean(values: Collection[float]) -> float:
    """The mean; 0.0 of nothing."""
    return sum(values) / len(values) if values else 0.0


def percent(values: Collection[float]) -> float:
    """The mean of shares, as a percentage with one decimal."""
    return round(100 * mean(values), 1)


def quantile(values: Collection[float], share: float) -> float:
    """The value below which ``share`` of the values lie, the nearest one; 0.0 of nothing."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0
