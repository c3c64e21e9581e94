"""What the index sees of a cell or a fact: its text with date and speaker, and the counts of its terms."""

from __future__ import annotations

import hashlib
import re
import struct
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

from memforest_core.domain.languages import ENGLISH, month_name, text_languages
from memforest_core.domain.text import terms


@lru_cache(maxsize=131_072)
def term_index(term: str) -> int:
    """A stable uint32 for a term; two terms share one about once in four billion pairs."""
    return int.from_bytes(hashlib.blake2b(term.encode(), digest_size=4).digest(), "big")


MAX_NODE_TERMS = 4_096
"""Distinct terms of a node; the rarest of a very long session are dropped first."""

K1 = 1.2
B = 0.75
"""BM25's usual constants (Robertson and Zaragoza, 2009)."""

_MONTH_NAMES = "January February March April May June July August September October November December"
_MONTHS = _MONTH_NAMES.split()
_HEADER = re.compile(rf"(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day \d+ ({'|'.join(_MONTHS)}) \d+\n")
_NUMBERS_MONTHS = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7a3]")
"""Signs of Chinese, Japanese and Korean, which call May the fifth month."""

LEAF_LENGTH = 40.0
"""Terms in a typical two-turn cell: what lengths are measured against."""


def day_words(moment: datetime) -> str:
    """A date as people ask for it, such as "Monday 8 May 2023"."""
    return f"{moment:%A} {moment.day} {moment:%B} {moment.year}"


def cell_text(text: str, started: datetime) -> str:
    """What is embedded and searched of a cell: its dialogue under its date."""
    return f"{day_words(started)}\n{text}"


def fact_terms_text(text: str, speaker: str, mentioned: datetime) -> str:
    """What is searched of a fact: its sentence with speaker under its date."""
    return f"{day_words(mentioned)}\n{speaker}: {text}"


@dataclass(frozen=True, slots=True)
class TermCounts:
    """How often each term (as an index) occurs; counts add up along a tree."""

    counts: tuple[tuple[int, float], ...]

    @property
    def length(self) -> float:
        """All occurrences."""
        return sum(count for _, count in self.counts)


def count_terms(text: str) -> TermCounts:
    """The term counts of a text, each line in its own language.

    A date above the text counts in English and, by the name of its month, in the languages of the text too, so that
    "im Mai 2023" finds what was said in German on Monday 8 May 2023.
    """
    counted = Counter(term_index(term) for term in _with_date(text))
    return TermCounts(tuple(sorted((index, float(n)) for index, n in counted.items())))


def _with_date(text: str) -> list[str]:
    header = _HEADER.match(text)
    if header is None:
        return terms(text)
    said = text[header.end() :]
    dated = terms(header[0], ENGLISH)
    month = 1 + _MONTHS.index(header[1])
    for language in text_languages(said):
        dated += [term for term in terms(month_name(month, language), language) if term not in dated]
    if _NUMBERS_MONTHS.search(said):
        dated.append(str(month))
    return dated + terms(said)


def add_counts(parts: Iterable[TermCounts]) -> TermCounts:
    """The counts of several texts together, at most MAX_NODE_TERMS distinct terms."""
    total: Counter[int] = Counter()
    for part in parts:
        for index, count in part.counts:
            total[index] += count  # type: ignore[assignment]
    common = total.most_common(MAX_NODE_TERMS) if len(total) > MAX_NODE_TERMS else total.items()
    return TermCounts(tuple(sorted((index, float(count)) for index, count in common)))


def bm25_weights(counts: TermCounts, leaves: int) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Sparse vector of a text that covers ``leaves`` leaves; IDF is applied by the index.

    Length is measured against that of a typical leaf times the square root of the leaves, so that long sessions
    neither vanish nor win by their size.
    """
    norm = K1 * (1 - B + B * counts.length / (LEAF_LENGTH * max(1, leaves) ** 0.5))
    indices = tuple(index for index, _ in counts.counts)
    values = tuple(count * (K1 + 1) / (count + norm) for _, count in counts.counts)
    return indices, values


def pack_counts(counts: TermCounts) -> bytes:
    """Bytes for storage: little-endian uint32 index and float32 count, in turn."""
    flat: list[float] = [part for pair in counts.counts for part in pair]
    return struct.pack("<" + "If" * len(counts.counts), *flat)


def unpack_counts(raw: bytes) -> TermCounts:
    """The counts of ``pack_counts``."""
    return TermCounts(tuple((int(index), float(n)) for index, n in struct.iter_unpack("<If", raw)))
