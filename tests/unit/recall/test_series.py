"""Statements near a question about a series are found and ordered; a list may grow; an outage changes nothing."""

from __future__ import annotations

from uuid import UUID

import pytest

from memforest_core.domain.evidence import RecallResult
from memforest_core.domain.ids import ForestId, SessionId
from memforest_core.index.vector_index import PointKind
from memforest_core.recall.service import RecallService
from memforest_core.recall.temporal import SERIES as SIGNAL
from memforest_core.settings import RecallSettings
from tests.unit.recall.memory import TENANT, Forest, OneVector, ScriptedIndex, named

CELL, FACT = PointKind.CELL, PointKind.FACT
OLD, NEW = "I drive a rusty Corsa.", "Picked up a small blue Zoe."
OTHER = "I like sandals."
SESSION = SessionId(UUID(int=1))


class Given(Forest):
    """A forest that knows who speaks in it."""

    def speakers(self, forest: ForestId) -> list[tuple[str, str]]:
        return [("rhea", "Rhea"), ("ann", "Ann")]


class World:
    """Rhea's three turns: the old car by the words of the question, the new one near it, and something else."""

    def __init__(self, weights: dict[str, float] | None = None, *more: tuple[str, float]) -> None:
        self.forest, self.index, self.embedder = Given(), ScriptedIndex(), OneVector()
        self.settings = RecallSettings(weights=weights or {})
        cars = (("old", OLD, 9.0, 0.9), ("new", NEW, 1.0, 0.89), ("other", OTHER, 3.0, 0.1))
        for days, (session, text, words, near) in enumerate([*cars, *((text, text, 1.0, near) for text, near in more)]):
            self.forest.session(session, ("Rhea", text), ("Ann", "Nice."), days=days)
            fact = self.forest.fact(f"Rhea: {text}", session, 0)
            self.index.points |= {fact: (FACT, words, near), named(f"{session}/0"): (CELL, words, near)}

    def recall(self, question: str, **options: object) -> RecallResult:
        service = RecallService(self.forest, self.index, self.embedder, self.settings)  # type: ignore[arg-type]
        return service.recall(TENANT, "alice", question, **options)  # type: ignore[arg-type]


def first(result: RecallResult) -> str:
    return result.evidence[0].text.removeprefix("Rhea: ")


def test_the_last_of_what_is_near_is_current_though_another_has_the_words() -> None:
    result = World().recall("What does Rhea drive now?", mode="flat")
    assert first(result) == NEW
    assert result.evidence[0].signals[SIGNAL] > 0
    assert all(SIGNAL not in piece.signals for piece in result.evidence if OTHER in piece.text)


def test_the_first_of_it_came_first() -> None:
    assert first(World().recall("What did Rhea drive originally?", mode="flat")) == OLD


def test_the_first_of_it_is_not_the_nearest() -> None:
    world = World()
    for session, text, words, near in (("old", OLD, 3.0, 0.72), ("new", NEW, 4.0, 0.9)):
        world.index.points |= {named(f"Rhea: {text}"): (FACT, words, near), named(f"{session}/0"): (CELL, words, near)}
    assert first(world.recall("What did Rhea drive originally?", mode="flat")) == OLD


def test_sessions_do_not_vote_for_a_list() -> None:
    world = World()
    world.index.points[named("old#root")] = (PointKind.NODE, 1.0, 0.5)
    both = [world.recall(question).evidence for question in ("What did Rhea drive?", "Name all the cars of Rhea")]
    assert [any("session" in piece.signals for piece in found) for found in both] == [True, False]


@pytest.mark.parametrize("text", ["does Rhea drive a Tesla", "Rhea drives what now?", "jk, a tank"])
def test_a_question_alone_and_a_joke_are_not_current(text: str) -> None:
    result = World(None, (text, 0.95)).recall("What does Rhea drive now?", mode="flat")
    assert first(result) == NEW
    assert all(SIGNAL not in piece.signals for piece in result.evidence if text in piece.text)


def test_a_plan_was_not_the_first_but_may_have_come_by_now() -> None:
    plan = "Booked a drive in a Porsche."
    world = World(None, (plan, 0.95))
    lifted = [
        {
            piece.text.removeprefix("Rhea: ")
            for piece in world.recall(question, mode="flat").evidence
            if SIGNAL in piece.signals
        }
        for question in (
            "What did Rhea drive first?",
            "What does Rhea drive now?",
            "What does Rhea plan to drive first?",
        )
    ]
    assert [plan in texts for texts in lifted] == [False, True, True]


def test_a_sentence_of_a_chat_model_is_judged_by_itself() -> None:
    world = World(None, ("lol jk. Swapped the Zoe for a tram pass.", 0.95))
    said = "Rhea rides a tram now."
    fact = world.forest.fact(said, "lol jk. Swapped the Zoe for a tram pass.", 0, written=True)
    world.index.points[fact] = (FACT, 1.0, 0.95)
    service = RecallService(world.forest, world.index, world.embedder, world.settings, pointers=False)  # type: ignore[arg-type]
    found = service.recall(TENANT, "alice", "What does Rhea drive now?", mode="flat").evidence
    assert (found[0].text, SIGNAL in found[0].signals) == (said, True)


def test_a_weight_of_nothing_switches_it_off_with_its_searches() -> None:
    world = World({"series": 0.0})
    result = world.recall("What does Rhea drive now?", mode="flat")
    assert first(result) == OLD
    assert all(SIGNAL not in piece.signals for piece in result.evidence)
    assert result.round_trips == World({"series": 0.0}).recall("When did Rhea drive?", mode="flat").round_trips


def test_other_questions_cost_nothing_more() -> None:
    world = World()
    assert world.recall("Why does Rhea drive?", mode="flat").round_trips == 1
    assert world.recall("What does Rhea drive now?", mode="flat").round_trips == 3


@pytest.mark.parametrize("answered", [0, 1, 2])
def test_recall_still_answers_when_the_index_fails_half_way(answered: int) -> None:
    world = World()
    world.index.unavailable_after = answered
    result = world.recall("What does Rhea drive now?", mode="flat")
    assert result.degraded
    assert result.evidence or not answered
