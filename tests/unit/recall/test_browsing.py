"""Browsing with a ranker: what it chooses is followed, scores decide where it is silent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from uuid import UUID

import numpy as np
import pytest

from memforest_core.domain.ids import NodeId, PayloadId, TreeKind
from memforest_core.index.vector_index import IndexFilter, PointKind, SparseVector
from memforest_core.recall import browse as browsing
from memforest_core.recall.browse import Browsed, TreeCache, browse
from memforest_core.recall.index_search import IndexSearch
from memforest_core.recall.ranking import Siblings, Tally
from memforest_core.recall.rows.recall_rows import RecallRows
from tests.harness.weights import weights
from tests.unit.recall.memory import FOREST, TENANT, Forest, ScriptedIndex, named

CELL, FACT, NODE = PointKind.CELL, PointKind.FACT, PointKind.NODE


@dataclass
class ByName:
    """Ranks by texts: those that hold a wanted word, in the order of the words; fails for some parents."""

    wanted: Sequence[str] = ()
    failing: frozenset[UUID] = frozenset()
    seen: list[Siblings] = field(default_factory=list)
    levels: list[int] = field(default_factory=list)

    def rank(self, families: Sequence[Siblings], tally: Tally) -> Mapping[UUID, Mapping[UUID, int]]:
        self.levels.append(len(families))
        self.seen += families
        tally.calls += len(families)
        ranked: dict[UUID, dict[UUID, int]] = {}
        for family in families:
            if family.parent in self.failing:
                tally.fallen["model_unavailable"] += 1
                continue
            found = [child.id for word in self.wanted for child in family.children if word in child.text]
            ranked[family.parent] = {id_: at for at, id_ in enumerate(dict.fromkeys(found))}
        return ranked


class World:
    """Bob's talk of six cells in two nodes of three, each cell scored lower than the one before."""

    def __init__(self) -> None:
        self.forest = Forest()
        self.index = ScriptedIndex()
        self.forest.session("talk", *((("Bob", f"word{at}") if at % 2 == 0 else ("Ann", "Yes.")) for at in range(12)))
        self.forest.summaries_by_node |= {NodeId(named("talk#0")): "first half", NodeId(named("talk#1")): "second half"}
        self.index.points = {named(f"talk/{at}"): (CELL, 0.0, 0.9 - at / 10) for at in range(6)}
        self.index.points |= {named("talk#0"): (NODE, 0.0, 0.9), named("talk#1"): (NODE, 0.0, 0.1)}
        self.roots: list[UUID] = [named("talk#root")]
        self.stored = TreeCache()

    def search(self) -> IndexSearch:
        dense = np.array([1.0, 0.0], dtype=np.float32)
        return IndexSearch(self.index, IndexFilter(TENANT, FOREST), dense, SparseVector((), ()))

    def browse(self, ranker: ByName | None = None, *, beam: int = 10, search: IndexSearch | None = None) -> Browsed:
        def reading() -> AbstractContextManager[RecallRows]:
            return self.forest.recalling(TENANT)

        questions = dict.fromkeys(self.roots, "Which word?")
        return browse(
            reading,
            search or self.search(),
            self.forest.tree_roots(self.roots),
            beam,
            weights(),
            self.stored,
            ranker,
            questions if ranker else None,
        )

    def cells(self, *numbers: int) -> set[UUID]:
        return {named(f"talk/{number}") for number in numbers}


@pytest.fixture
def world() -> World:
    return World()


class TestByScores:
    def test_one_read_and_one_vector_call_per_level(self, world: World) -> None:
        browsed = world.browse(beam=2)
        assert browsed.levels == len(world.index.calls) == world.forest.transactions == 2
        assert browsed.cells == world.cells(0, 1)
        assert (browsed.calls, browsed.degraded, browsed.positions) == (0, [], {})

    def test_what_has_not_changed_is_not_read_again(self, world: World) -> None:
        first = world.browse(beam=2)
        read = world.forest.transactions
        assert world.browse(beam=2) == first
        assert world.forest.transactions == read

    def test_cached_levels_below_the_roots_are_scored_in_one_vector_call(self, world: World) -> None:
        """Given trees that were browsed before, then all levels are scored in one call, as long as they are small."""
        first = world.browse(beam=1)
        world.browse(beam=9)
        world.index.calls.clear()
        search = world.search()
        assert world.browse(beam=1, search=search) == first
        [queries] = world.index.calls
        named_points = {id_ for query in queries for id_ in query.filter.ids or ()}
        assert named_points == world.index.points.keys()
        assert search.cells.dense.keys() == world.cells(0, 1, 2)

    def test_cached_levels_of_large_trees_are_scored_level_by_level(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(browsing, "AHEAD", 7)
        first = world.browse(beam=9)
        world.index.calls.clear()
        assert world.browse(beam=9) == first
        assert len(world.index.calls) == 2

    def test_it_stops_when_the_index_is_unavailable(self, world: World) -> None:
        world.index.unavailable_after = 1
        browsed = world.browse()
        assert (browsed.levels, browsed.cells, browsed.degraded) == (1, set(), [])


class TestByARanker:
    def test_what_it_chooses_is_followed_against_the_scores(self, world: World) -> None:
        ranker = ByName(["second", "word10", "word6"])
        browsed = world.browse(ranker)
        assert browsed.cells == world.cells(5, 3)
        assert browsed.positions == {named("talk/5"): 0, named("talk/3"): 1}
        assert (browsed.levels, browsed.calls, browsed.degraded) == (2, 2, [])

    def test_each_level_is_one_read_one_vector_call_and_one_round_of_ranking(self, world: World) -> None:
        ranker = ByName(["half", "word"])
        search = world.search()
        browsed = world.browse(ranker, search=search)
        assert ranker.levels == [1, 2]
        assert browsed.levels == len(world.index.calls) == world.forest.transactions == 2
        assert search.cells.dense.keys() >= world.cells(0, 1, 2, 3, 4, 5)

    def test_it_is_shown_summaries_above_and_texts_of_leaves_below(self, world: World) -> None:
        ranker = ByName(["first", "word0"])
        world.browse(ranker)
        above, below = ranker.seen
        assert [child.text for child in above.children] == ["first half", "second half"]
        assert below.children[0].text == "Bob: word0\nAnn: Yes."
        assert (above.question, above.tree, below.question) == ("Which word?", "talk", "Which word?")

    def test_the_beam_takes_the_first_of_each_node_then_the_second(self, world: World) -> None:
        """Given a beam of three over two nodes, then both bests are in it, and of the two seconds the better scored."""
        ranker = ByName(["half", "word4", "word10", "word2", "word8"])
        browsed = world.browse(ranker, beam=3)
        assert browsed.cells == world.cells(2, 5, 1)

    def test_none_relevant_ends_the_way(self, world: World) -> None:
        browsed = world.browse(ByName(["second"]))
        assert browsed.cells == set()
        assert browsed.degraded == []

    def test_facts_are_ranked_by_their_sentences(self, world: World) -> None:
        facts = [world.forest.fact(f"Bob's word {at}", "talk", at * 2) for at in range(3)]
        world.forest.tree("bob", TreeKind.ENTITY, [PayloadId(fact) for fact in facts])
        world.roots = [named("bob#root")]
        ranker = ByName(["Bob's word 2"])
        assert world.browse(ranker).facts == {facts[2]}
        assert [len(family.children) for family in ranker.seen] == [3]  # the root's only child needs no ranking

    def test_each_tree_has_its_question_and_one_without_goes_by_scores(self, world: World) -> None:
        world.forest.session("other", ("Bob", "word7"), ("Ann", "Yes."), ("Bob", "word9"), days=3)
        world.roots = [named("talk#root"), named("other#root")]
        ranker = ByName(["half", "word8"])
        browsed = browse(
            lambda: world.forest.recalling(TENANT),
            world.search(),
            world.forest.tree_roots(world.roots),
            10,
            weights(),
            world.stored,
            ranker,
            {named("talk#root"): "What was the fourth?"},
        )
        assert {family.question for family in ranker.seen} == {"What was the fourth?"}
        assert browsed.cells == world.cells(4) | {named("other/0"), named("other/1")}
        assert browsed.positions == {named("talk/4"): 0}


class TestWhatTheRankerCannotDo:
    def test_a_node_that_fails_goes_by_scores_and_the_others_do_not(self, world: World) -> None:
        """Given a failure below the first half, when the rest is ranked, then the first half has its scores' order."""
        ranker = ByName(["half", "word10"], failing=frozenset({named("talk#0")}))
        browsed = world.browse(ranker, beam=3)
        assert browsed.cells == world.cells(5, 0, 1)
        assert browsed.positions == {named("talk/5"): 0}
        assert browsed.degraded == [
            "The children of 1 of 3 tree nodes were ranked by scores, not by the model"
            " (1: the model was unavailable or too slow)."
        ]

    def test_failing_everywhere_it_finds_what_scores_find(self, world: World) -> None:
        every = frozenset(node.id for node in world.forest.placed)
        for beam in (1, 2, 4, 10):
            browsed = world.browse(ByName(["word10"], failing=every), beam=beam)
            assert browsed.cells == world.browse(beam=beam).cells
            assert len(browsed.degraded) == 1

    def test_children_without_a_summary_yet_are_not_judged(self, world: World) -> None:
        """Given one summary of two, then there is nothing to compare: both are followed by their scores."""
        del world.forest.summaries_by_node[NodeId(named("talk#1"))]
        browsed = world.browse(ByName(["word10"]))
        assert browsed.cells == world.cells(5)
        assert browsed.degraded == [
            "The children of 1 of 3 tree nodes were ranked by scores, not by the model (1: no summaries yet)."
        ]

    def test_a_child_without_a_text_stays_where_its_score_puts_it(self, world: World) -> None:
        third = named("talk/2")
        world.forest.cell_rows.pop(third)
        browsed = world.browse(ByName(["first", "word2"]))
        assert browsed.cells == {named("talk/1"), third}

    def test_it_goes_on_alone_while_the_index_is_unavailable(self, world: World) -> None:
        world.index.unavailable_after = 0
        browsed = world.browse(ByName(["half", "word10", "word0"], failing=frozenset({named("talk#0")})))
        assert browsed.cells == world.cells(5)
        assert browsed.degraded == [
            "The children of 1 of 3 tree nodes were not followed (1: the model was unavailable or too slow)."
        ]

    def test_what_lies_outside_the_requested_time_is_not_shown(self, world: World) -> None:
        ranker = ByName(["half", "word"])
        search = world.search()
        search.scope = IndexFilter(TENANT, FOREST, overlaps=(0.0, 1.0))
        assert world.browse(ranker, search=search).cells == set()
        assert ranker.seen == []


def test_reasons_are_counted_together() -> None:
    tally = Tally(nodes=5, fallen=Counter({"content_fault": 1, "model_rate_limited": 2}))
    assert tally.sentence("left out") == (
        "The children of 3 of 5 tree nodes were left out"
        " (2: the model's rate limit was reached, 1: the answer was of no use)."
    )
