"""A turn that says it in another word of the same meaning is found by words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from memforest_core.domain.evidence import Evidence
from tests.harness.sayings import said
from tests.harness.stack import Stack

QUESTION = "Where is the bicycle?"
GIVEN = "My bike stands behind the shed."
OTHERS = [f"Number {number} of the letters is about the garden of the {number}th house." for number in range(60)]


def tell(stack: Stack) -> None:
    stack.memory.ingest("ann", "letters", said(*OTHERS[:30], GIVEN, *OTHERS[30:]), wait="none", backfill=True)


def reported(stack: Stack, **weights: float) -> list[Evidence]:
    """The items with the answer among the first five."""
    service = stack.services.recall
    changed = replace(
        service, settings=service.settings.model_copy(update={"weights": service.settings.weights | weights})
    )
    return [piece for piece in changed.recall(stack.tenant, "ann", QUESTION, 5, "flat").evidence if GIVEN in piece.text]


def test_a_relative_of_a_word_finds_the_turn(grown_once: Stack) -> None:
    """Given one turn with the answer, in another word, then words alone find it, through related words."""
    assert reported(grown_once, dense=0.0)
    assert not reported(grown_once, dense=0.0, related=0.0)


def test_a_relative_lifts_what_vectors_found(grown_once: Stack) -> None:
    [lifted], [plain] = reported(grown_once), reported(grown_once, related=0.0)
    assert lifted.score > plain.score


def test_what_related_words_gave_is_a_signal_of_its_own(grown_once: Stack) -> None:
    """Given a turn that has only a relative of the question's words, when a recall explains itself, then all that words
    gave its cell is theirs, and nothing else differs."""
    service = grown_once.services.recall
    [plain], [explained] = (
        [
            piece
            for piece in replace(service, explains=explains).recall(grown_once.tenant, "ann", QUESTION, 5).evidence
            if GIVEN in piece.text
        ]
        for explains in (False, True)
    )
    assert "related" not in plain.signals
    assert explained.signals["related"] > 0.1
    assert explained.score == plain.score
    rest = {name: value for name, value in explained.signals.items() if name not in {"cell", "fact", "related"}}
    assert rest == {name: value for name, value in plain.signals.items() if name not in {"cell", "fact"}}
    assert sum(explained.signals.values()) == pytest.approx(sum(plain.signals.values()))
    settings = service.settings.model_copy(update={"weights": service.settings.weights | {"related": 0.0}})
    without = replace(service, settings=settings, explains=True)
    assert all(
        "related" not in piece.signals for piece in without.recall(grown_once.tenant, "ann", QUESTION, 5).evidence
    )
