"""A turn that says it in another word of the same meaning is found by words."""

from __future__ import annotations

from dataclasses import replace

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
