"""The list of related words is what the built-in model says of them."""

from __future__ import annotations

import random

import numpy as np

from benchmarks.related_words import relatives, vocabulary
from memforest_core.domain.text import terms
from memforest_core.models.opening import open_embedder
from memforest_core.recall.related import ENGLISH_LIST
from memforest_core.settings import EmbeddingSettings

SAMPLE = 60
TOLERANCE = 0.08
"""Of a cosine of single words: machines multiply in whole numbers or in float32, and the list has hundredths."""


def test_the_model_finds_the_relatives_that_the_list_has() -> None:
    """Given some stems, when their words and those of their relatives are embedded, then their cosines are the list's."""
    lines = {line.split(" ", 1)[0]: line for line in ENGLISH_LIST.read_text(encoding="utf-8").splitlines()}
    chosen = random.Random(7).sample(sorted(lines), SAMPLE)
    listed = {stem: dict(pair.rsplit(":", 1) for pair in lines[stem].split(" ")[1:]) for stem in chosen}
    wanted = {stem for stem, near in listed.items()} | {other for near in listed.values() for other in near}
    words = [word for word in vocabulary() if terms(word)[0] in wanted]
    vectors = open_embedder(EmbeddingSettings()).embed(words).vectors
    found = dict(relatives(words, vectors))
    pairs = [(stem, other, int(cosine) / 100) for stem, near in listed.items() for other, cosine in near.items()]
    off = [abs(found.get(stem, {}).get(other, 0.0) - cosine) for stem, other, cosine in pairs]
    assert len(pairs) > 3 * SAMPLE
    assert np.mean([each <= TOLERANCE for each in off]) > 0.97
