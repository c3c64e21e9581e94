"""Where each sentence of a summary comes from: the leaf below it that says the same."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from memforest_core.service.explorer.rows import Leaf, SaidTurn

ENOUGH = 0.5
"""The share of a sentence's words that a leaf must have to be named as where it comes from."""
_SENTENCE = re.compile(r"(?<=[.!?…])\s+|\n+")
_WORD = re.compile(r"\w{3,}")


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of a summary and the leaf it comes from, None when none says enough of it."""

    text: str
    leaf: Leaf | None
    turns: tuple[SaidTurn, ...]
    """The turns of the leaf that say it: of several in one cell the one that has most of its words."""
    verbatim: bool
    """The leaf, or a turn that it rests on, has it word for word; else it has most of its words."""


def sentences(summary: str, leaves: Sequence[Leaf]) -> list[Sentence]:
    """Each sentence of a summary with the leaf that has it, or else the leaf that has most of its words."""
    texts = [(leaf, _plain("\n".join((leaf.text, *(turn.text for turn in leaf.turns))))) for leaf in leaves]
    words = [(leaf, frozenset(_WORD.findall(text))) for leaf, text in texts]
    return [_found(part.strip(), texts, words) for part in _SENTENCE.split(summary) if part.strip()]


def _found(text: str, texts: Sequence[tuple[Leaf, str]], words: Sequence[tuple[Leaf, frozenset[str]]]) -> Sentence:
    plain = _plain(text)
    wanted = frozenset(_WORD.findall(plain))
    for leaf, said in texts:
        if plain in said:
            return Sentence(text, leaf, _telling(leaf, wanted), True)
    if not wanted or not words:
        return Sentence(text, None, (), False)
    best, shared = max(((leaf, len(wanted & own) / len(wanted)) for leaf, own in words), key=lambda each: each[1])
    if shared < ENOUGH:
        return Sentence(text, None, (), False)
    return Sentence(text, best, _telling(best, wanted), False)


def _telling(leaf: Leaf, wanted: frozenset[str]) -> tuple[SaidTurn, ...]:
    """All turns of a fact; of a cell's the one that has most of these words."""
    if leaf.fact_id is not None or len(leaf.turns) < 2:
        return leaf.turns
    return (max(leaf.turns, key=lambda turn: len(wanted & frozenset(_WORD.findall(_plain(turn.text))))),)


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
