"""An answer that says nothing of what it is about gets a share of the question that it answers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from memforest_core.domain.chat_messages import TurnInput
from memforest_core.domain.evidence import Evidence
from tests.harness.sayings import said
from tests.harness.stack import Stack

ANSWER = "Three times a week, and twice when it rains."
RUNNING = "How often do you go running in the park"


def dialogue(*turns: tuple[str, str]) -> list[TurnInput]:
    made: list[TurnInput] = []
    for number, (name, text) in enumerate(turns):
        made += said(text, name=name, start=1_700_000_000 + 60 * number)
    return made


def recalled(stack: Stack, weight: float = 0.15) -> dict[str, Evidence]:
    """The evidence items by their texts."""
    service = stack.services.recall
    changed = replace(
        service, settings=service.settings.model_copy(update={"weights": service.settings.weights | {"answer": weight}})
    )
    result = changed.recall(stack.tenant, "ann", "How often does Ann go running in the park?", 20)
    return {piece.text.split(": ", 1)[1]: piece for piece in result.evidence}


@pytest.mark.parametrize("ending", ["?", "? ", "?\n", "? \U0001f60a", '?"', "!?", "?!", "\uff1f", "\u061f"])
def test_an_answer_gets_a_share_of_its_question(pipeline: Stack, ending: str) -> None:
    """Given a question of somebody else, however it ends, then the turn after it is lifted by the question's score."""
    pipeline.memory.ingest("ann", "park", dialogue(("Tom", RUNNING + ending), ("Ann", ANSWER)))
    lifted, plain = recalled(pipeline)[ANSWER], recalled(pipeline, 0.0)[ANSWER]
    assert lifted.signals["answer"] > 0
    assert lifted.score > plain.score
    assert "answer" not in plain.signals


@pytest.mark.parametrize(
    "turns",
    [
        (("Tom", "I go running in the park often."), ("Ann", ANSWER)),
        (("Tom", f"{RUNNING}? I do."), ("Ann", ANSWER)),
        (("Ann", f"{RUNNING}?"), ("Ann", ANSWER)),
        (("Tom", f"{RUNNING}?"), ("Tom", "Or in the wood."), ("Ann", ANSWER)),
    ],
    ids=["no question", "a question that goes on", "one's own question", "not the next turn"],
)
def test_what_answers_no_question_gets_nothing(pipeline: Stack, turns: tuple[tuple[str, str], ...]) -> None:
    pipeline.memory.ingest("ann", "park", dialogue(*turns))
    assert "answer" not in recalled(pipeline)[ANSWER].signals
