"""One recall over several forests: evidence says whose it is and compares on one scale; bounds count over all."""

from __future__ import annotations

from uuid import UUID

import pytest

from memforest_core.domain.evidence import Mode, RecallResult
from memforest_core.domain.ids import ForestId
from memforest_core.index.vector_index import PointKind
from memforest_core.recall.service import RecallService
from memforest_core.settings import RecallSettings
from tests.unit.recall.memory import TENANT, Forest, Grove, GroveIndex, OneVector, ScriptedIndex, named

CELL, FACT = PointKind.CELL, PointKind.FACT


class World:
    """Two owners: Bob has talked of his move, Carol talks of much else."""

    def __init__(self) -> None:
        self.forests = {
            owner: Forest(owner=owner, forest_id=ForestId(UUID(int=number + 1)))
            for number, owner in enumerate(("bob", "carol"))
        }
        self.indexes = {each.forest_id: ScriptedIndex(forest_id=each.forest_id) for each in self.forests.values()}
        self.tell("bob", "move", "I moved to Davis in May.", lexical=0.3, dense=0.8)
        for number in range(6):
            self.tell("carol", f"talk{number}", f"I read book number {number}.", lexical=6.0 - number, dense=0.2)

    def tell(self, owner: str, session: str, text: str, *, lexical: float, dense: float) -> None:
        forest = self.forests[owner]
        forest.session(session, (owner, text))
        self.indexes[forest.forest_id].points[named(f"{session}/0")] = (CELL, lexical, dense)

    @property
    def service(self) -> RecallService:
        grove = Grove(list(self.forests.values()))
        index = GroveIndex(self.indexes)
        return RecallService(grove, index, OneVector(), RecallSettings())  # type: ignore[arg-type]

    def recall(self, question: str = "Where did she move in May?", **options: object) -> RecallResult:
        options.setdefault("owners", ["bob", "carol"])
        return self.service.recall(TENANT, None, question, **options)  # type: ignore[arg-type]


def test_evidence_says_whose_it_is_and_a_weak_forest_does_not_go_first() -> None:
    """Given a forest whose BM25 sums are twenty times those of another and whose hits hold no word of the question,
    then the hit of the other is first: a forest's words count as much as they hold of the question."""
    found = World().recall()

    assert [piece.owner for piece in found.evidence[:2]] == ["bob", "carol"]
    assert {piece.owner for piece in found.evidence} == {"bob", "carol"}
    assert (found.owner_known, found.owners_unknown, found.degraded) == (True, (), ())
    best, second = found.evidence[:2]
    assert best.score > 2 * second.score


def test_a_forest_in_which_nobody_speaks_of_it_lifts_no_small_talk() -> None:
    world = World()
    for owner, text, near in (("bob", "I live in Davis.", 0.9), ("carol", "I tread water.", 0.3)):
        world.tell(owner, f"{owner}'s", text, lexical=1.0, dense=near)
        forest = world.forests[owner]
        world.indexes[forest.forest_id].points[forest.fact(f"{owner}: {text}", f"{owner}'s", 0)] = (FACT, 1.0, near)
    found = world.recall("Where do I live now?").evidence
    assert {piece.text for piece in found if "series" in piece.signals} == {"bob: I live in Davis."}


def test_one_owner_in_a_list_is_scored_as_alone() -> None:
    world = World()
    alone = world.service.recall(TENANT, "carol", "Which book?")
    assert world.recall("Which book?", owners=["carol"]).evidence == alone.evidence
    assert {piece.owner for piece in alone.evidence} == {"carol"}


def test_each_forest_costs_what_a_recall_of_its_own_costs() -> None:
    world = World()
    alone = [world.service.recall(TENANT, owner, "Which book?").round_trips for owner in ("bob", "carol")]
    assert world.recall("Which book?").round_trips == sum(alone)


def test_an_index_that_failed_is_not_queried_for_the_next_forest() -> None:
    world = World()
    for index in world.indexes.values():
        index.unavailable_after = 0
    found = world.recall("Which book, or what about Davis?")
    assert found.round_trips == 1
    assert {piece.owner for piece in found.evidence} == {"bob", "carol"}
    assert len(found.degraded) == 1


def test_headers_say_whose_the_evidence_is() -> None:
    text = World().recall(k=8).text()
    assert text.count("[bob, ") == 1
    assert text.count("[carol, ") == 6


@pytest.mark.parametrize("mode", ["flat", "embedding"])
def test_every_mode_goes_over_all(mode: str) -> None:
    assert World().recall(mode=mode).mode is Mode(mode)


@pytest.mark.parametrize("owners", [["bob", "carol"], ["carol", "bob"]])
def test_what_is_raised_to_the_best_score_is_before_it_in_whichever_forest_it_is(owners: list[str]) -> None:
    """Given a turn that has the question's code and nothing else, then it goes before the best of another forest."""
    world = World()
    world.indexes = {each.forest_id: ScriptedIndex(forest_id=each.forest_id) for each in world.forests.values()}
    world.tell("bob", "ticket", "The ticket is in the list of tickets.", lexical=5.0, dense=0.8)
    world.tell("carol", "code", "It was PRX-4711.", lexical=0.0, dense=0.0)
    first, second = world.recall("Which ticket is PRX-4711?", owners=owners).evidence
    assert first.score == second.score
    assert (first.owner, second.owner) == ("carol", "bob")
