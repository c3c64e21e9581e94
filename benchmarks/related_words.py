"""``python -m benchmarks.related_words``: makes the list of words that mean nearly the same, which recall reads.

Every plain English word of the embedding model's own vocabulary is embedded alone, and has as relatives those that are
nearest to it. Words with one stem are one entry. Takes a minute; the same model gives the same file.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from memforest_core.domain.languages import ENGLISH
from memforest_core.domain.text import terms
from memforest_core.models.opening import open_embedder
from memforest_core.recall.related import ENGLISH_LIST
from memforest_core.settings import EmbeddingSettings

NEAREST = 24
"""Words that may become relatives of one word."""
FLOOR = 0.5
"""The lowest cosine of relatives; all-MiniLM gives two words that have nothing to do with each other some 0.2."""
A_WORD = 12
"""Relatives of one stem, the nearest."""
_PLAIN = re.compile("[a-z]{3,}")
_AT_ONCE = 512


def vocabulary() -> list[str]:
    """Plain words of at least three letters, without function words."""
    path = files("memforest_core.models.embedders") / "bert-base-uncased-vocab.txt"
    words = (line.strip() for line in path.read_text(encoding="utf-8").splitlines())
    return [word for word in words if _PLAIN.fullmatch(word) and len(terms(word, ENGLISH)) == 1]


def relatives(words: Sequence[str], vectors: NDArray[np.float32]) -> Iterator[tuple[str, dict[str, float]]]:
    """Each stem with the stems nearest to any of its words, and their cosines."""
    stems = [terms(word, ENGLISH)[0] for word in words]
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for start in range(0, len(words), _AT_ONCE):
        cosines = vectors[start : start + _AT_ONCE] @ vectors.T
        for row, stem in zip(cosines, stems[start : start + _AT_ONCE], strict=True):
            for place in np.argsort(-row, kind="stable")[: NEAREST + 1]:
                if round(row[place], 2) >= FLOOR and stems[place] != stem:
                    found[stem][stems[place]] = max(found[stem].get(stems[place], 0.0), float(row[place]))
    return iter(sorted(found.items()))


def line_of(stem: str, near: Mapping[str, float]) -> str:
    """A line of the list."""
    ordered = sorted(near.items(), key=lambda pair: (-round(100 * pair[1]), pair[0]))[:A_WORD]
    return " ".join([stem, *(f"{other}:{round(100 * cosine)}" for other, cosine in ordered)])


def main() -> None:
    """Write the list where recall reads it."""
    words = vocabulary()
    vectors = open_embedder(EmbeddingSettings()).embed(words).vectors
    lines = [line_of(stem, near) for stem, near in relatives(words, vectors) if near]
    path = Path(str(ENGLISH_LIST))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{len(words)} words, {len(lines)} entries, {path.stat().st_size:,} bytes in {path}")


if __name__ == "__main__":
    main()
