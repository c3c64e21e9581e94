"""Parts of recall that are switched off one at a time: by a setting, or here alone where the product has none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from typing import assert_never

from memforest_core.domain import scoring, words


class Part(StrEnum):
    """A part that has no setting: nobody would switch it off but to see what it adds."""

    FLOOR = "floor"
    """The floor that cosines in a narrow band count from."""
    WORD_LISTS = "word-lists"
    """The words of other languages than English, by which questions are read (domain/words)."""


SETTINGS: Mapping[str, Mapping[str, object]] = {
    "related": {"related_weight": 0.0},
    "series": {"series_weight": 0.0},
    "exact": {"exact_weight": 0.0},
    "tokens": {"tokens_weight": 0.0},
    "answer": {"answer_weight": 0.0},
    "unread": {"unread_weight": 0.0},
    "enough-words": {"enough_words": 0.0},
    "neighbour": {"neighbour_weight": 0.0},
    "next-but-one": {"next_but_one_weight": 0.0},
    "current": {"current_weight": 0.0},
}
"""The parts that a setting switches off, with what it is set to."""


@contextmanager
def without(part: Part | None) -> Iterator[None]:
    """Recall without a part, in all of this process, until the context is left; None for all parts."""
    match part:
        case None:
            yield
        case Part.FLOOR:
            with _replaced(scoring, "floor_of", lambda _: 0.0):
                yield
        case Part.WORD_LISTS:
            with _replaced(words, "_words_of", lambda _: (words.ENGLISH,)):
                yield
        case _:
            assert_never(part)


@contextmanager
def _replaced(module: object, name: str, value: object) -> Iterator[None]:
    before = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, before)
