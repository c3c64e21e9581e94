"""Recall over a small forest in memory: what is found, how it is scored, and what is done without a service."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

import pytest

from memforest_core.domain.evidence import EvidenceKind, Freshness, Mode, RecallResult
from memforest_core.domain.ids import NodeId, PayloadId, TreeKind
from memforest_core.domain.times import UNKNOWN_TIME, Precision, TimeSpan
from memforest_core.errors import InvalidInput, ModelUnavailable
from memforest_core.index.vector_index import PointKind
from memforest_core.models.calls import CallRecord, Reranked, Reranker, Step
from memforest_core.recall.deliver import AT_ONCE
from memforest_core.recall.service import RecallService
from memforest_core.settings import RecallSettings
from tests.unit.recall.memory import FOREST, START, TENANT, Forest, OneVector, ScriptedIndex, named

CELL, FACT, NODE = PointKind.CELL, PointKind.FACT, PointKind.NODE
MOVE = ("Bob", "I moved to Davis in May."), ("Ann", "How nice!")
PETS = ("Bob", "I have a cat named Max."), ("Ann", "Cute.")


class World:
    """A forest, its index and its embedder."""

    def __init__(self, weights: Mapping[str, float] | None = None, **settings: object) -> None:
        self.forest = Forest()
        self.index = ScriptedIndex()
        self.embedder = OneVector()
        # Words and vectors count alike, so that sums can be done in the head.
        self.settings = RecallSettings.model_validate({"weights": {"dense": 1.0, **(weights or {})}} | settings)

    def recall(self, question: str = "Where does Bob live?", **options: object) -> RecallResult:
        pointers = bool(options.pop("pointers", True))
        reranker: Reranker | None = options.pop("reranker", None)  # type: ignore[assignment]
        service = RecallService(
            self.forest, self.index, self.embedder, self.settings, pointers=pointers, reranker=reranker
        )
        owner = str(options.pop("owner", "alice"))
        return service.recall(TENANT, owner, question, **options)  # type: ignore[arg-type]


@pytest.fixture
def world() -> World:
    """Two sessions, both known to the index, the move scored above the cat."""
    made = World()
    made.forest.session("move", *MOVE)
    made.forest.session("pets", *PETS, days=7)
    made.index.points = {named("move/0"): (CELL, 4.0, 0.6), named("pets/0"): (CELL, 1.0, 0.3)}
    return made


class TestWhatComesBack:
    def test_the_best_come_first_and_at_most_k(self, world: World) -> None:
        result = world.recall(k=3)
        assert [piece.score for piece in result.evidence] == sorted(
            (piece.score for piece in result.evidence), reverse=True
        )
        assert len(result.evidence) == 3

    def test_it_says_why_it_was_found_and_what_it_took(self, world: World) -> None:
        result = world.recall(mode="flat")
        best = result.evidence[0]
        assert best.score == pytest.approx(sum(best.signals.values()))
        assert best.signals == pytest.approx({"cell": 0.85, "speaker": 0.3})
        assert {"embed", "search", "load", "score", "resolve", "total"} <= result.timings_ms.keys()
        assert result.degraded == ()

    def test_the_path_leads_from_the_root_down(self, world: World) -> None:
        world.forest.summaries_by_node[NodeId(named("move#root"))] = "Bob moved."
        best = world.recall().evidence[0]
        assert [(node.level, node.summary) for node in best.path] == [(2, "Bob moved."), (1, "")]
        assert best.path[0].tree_kind is TreeKind.SESSION
        assert best.path[0].label == "move"

    def test_a_fact_that_only_points_delivers_its_turn(self, world: World) -> None:
        fact = world.forest.fact("Bob said he moved to Davis.", "move", 0)
        world.index.points[fact] = (FACT, 5.0, 0.7)
        best = world.recall().evidence[0]
        assert best.text == "Bob: I moved to Davis in May."
        assert best.fact_ids == (fact,)

    def test_a_sentence_that_a_model_wrote_is_delivered_with_its_turns(self, world: World) -> None:
        may = TimeSpan(START - timedelta(days=300), START - timedelta(days=269), Precision.MONTH)
        fact = world.forest.fact("Bob moved to Davis in May 2023.", "move", 0, 1, span=may, written=True)
        world.index.points[fact] = (FACT, 5.0, 0.7)
        best = world.recall(pointers=False).evidence[0]
        assert (best.kind, best.text) == (EvidenceKind.FACT, "Bob moved to Davis in May 2023.")
        assert best.turn_ids == ("move-0", "move-1")
        assert best.time == best.event == may
        assert best.time_label == "May 2023"

    def test_a_repetition_on_the_same_day_comes_once(self) -> None:
        world = World()
        world.forest.session("s", *(("Bob", "I moved to Davis last week."),) * 4)
        world.index.points = {named(f"s/{n}"): (CELL, 1.0, 0.5) for n in range(2)}
        assert [piece.text for piece in world.recall().evidence] == ["Bob: I moved to Davis last week."]

    def test_the_same_words_on_another_day_are_another_event(self) -> None:
        world = World()
        for day in range(2):
            world.forest.session(f"s{day}", ("Bob", "I went to the gym."), days=day)
        world.index.points = {named(f"s{n}/0"): (CELL, 1.0, 0.5) for n in range(2)}
        assert len(world.recall("When did Bob go to the gym?").evidence) == 2

    def test_of_five_that_tell_one_fact_two_come(self) -> None:
        """Given five wordings that were found to say the same, then there is room for others."""
        world = World(k=3)
        said = ("I adore tea", "Tea is my thing", "Nothing beats tea", "Give me tea any time", "Tea, always tea")
        for day, text in enumerate(said):
            world.forest.session(f"s{day}", ("Bob", text), days=day)
            world.forest.fact("Bob loves tea.", f"s{day}", 0)
        world.forest.session("other", ("Bob", "Coffee keeps me awake."), days=9)
        world.index.points = {named(f"s{n}/0"): (CELL, 5.0 - n, 0.9 - n / 10) for n in range(5)}
        world.index.points[named("other/0")] = (CELL, 0.5, 0.1)
        found = [piece.session_id for piece in world.recall("What does Bob drink?").evidence]
        assert found == ["s0", "s1", "other"]

    def test_an_empty_forest_has_no_evidence(self) -> None:
        assert World().recall().evidence == ()


class TestVotes:
    def test_a_session_that_fits_lifts_its_turns(self, world: World) -> None:
        world.index.points[named("pets/0")] = (CELL, 4.0, 0.6)
        world.index.points |= {named("move#root"): (NODE, 0.5, 0.1), named("pets#root"): (NODE, 5.0, 0.9)}
        assert world.recall("What?").evidence[0].session_id == "pets"
        assert world.recall("What?").evidence[0].signals["session"] == pytest.approx(0.5)

    def test_flat_mode_searches_no_tree(self, world: World) -> None:
        world.index.points[named("pets#root")] = (NODE, 9.0, 0.9)
        signals = {name for piece in world.recall(mode="flat").evidence for name in piece.signals}
        assert signals <= {"cell", "fact", "speaker", "next_but_one"}

    def test_the_asker_is_the_owner(self, world: World) -> None:
        world.forest.session("own", ("alice", "I live in Rome."), ("Ann", "Ah."))
        world.index.points[named("own/0")] = (CELL, 4.0, 0.6)
        best = world.recall("Where do I live?").evidence[0]
        assert best.speaker == "alice"
        assert best.signals["speaker"] == pytest.approx(0.3)


class TestCost:
    def long_session(self, turns: int = 40, weights: Mapping[str, float] | None = None, **settings: object) -> World:
        """One session; the index finds its root and, when queried by id, every node."""
        world = World(weights, **settings)
        world.forest.session("long", *((f"P{n}", f"Remark number {n}.") for n in range(turns)))
        world.index.roots = {named("long#root")}
        world.index.points = {named(f"long/{n}"): (CELL, 0.0, 0.01 * n) for n in range(turns // 2)}
        world.index.points |= {named(f"long#{n}"): (NODE, 0.0, 0.1 * n) for n in range(7)}
        world.index.points[named("long#root")] = (NODE, 0.0, 0.5)
        return world

    def test_a_recall_is_two_vector_calls(self) -> None:
        world = self.long_session()
        for mode in ("embedding", "flat"):
            world.index.calls.clear()
            assert world.recall(mode=mode).round_trips == len(world.index.calls) == 2

    def test_the_number_of_reads_does_not_grow_with_the_hits(self) -> None:
        few, many = self.long_session(10), self.long_session(200)
        few.recall(k=1)
        many.recall(k=1000)
        assert few.forest.transactions == many.forest.transactions

    @pytest.mark.parametrize("mode", ["flat", "embedding"])
    def test_no_connection_waits_for_the_index(self, mode: str) -> None:
        world = self.long_session()
        world.index.before = lambda: held.append(world.forest.open_transactions)
        held: list[int] = []
        world.recall(mode=mode)
        assert held
        assert not any(held)


class TestWithout:
    def test_an_unavailable_index_is_replaced_by_full_text(self, world: World) -> None:
        world.index.unavailable_after = 0
        result = world.recall("Who moved to Davis?")
        assert result.evidence[0].turn_ids == ("move-0",)
        assert len(result.degraded) == 1
        assert "full text" in result.degraded[0]

    def test_an_index_that_fails_half_way_loses_nothing_of_what_it_had_found(self, world: World) -> None:
        world.index.unavailable_after = 1
        result = world.recall()
        assert result.evidence[0].turn_ids == ("move-0",)
        assert result.round_trips == 2  # the second one failed, and none came after it
        assert result.degraded

    def test_without_an_embedder_words_alone_answer(self, world: World) -> None:
        world.embedder.unavailable = True
        result = world.recall()
        assert result.evidence[0].turn_ids == ("move-0",)
        assert "words alone" in result.degraded[0]

    def test_without_both_recall_still_answers(self, world: World) -> None:
        world.embedder.unavailable, world.index.unavailable_after = True, 0
        result = world.recall("Who moved to Davis?")
        assert result.evidence[0].turn_ids == ("move-0",)
        assert len(result.degraded) == 2

    def test_a_point_whose_row_is_gone_is_dropped(self, world: World) -> None:
        world.index.points[named("deleted")] = (CELL, 9.0, 0.9)
        world.index.points[named("deleted fact")] = (FACT, 9.0, 0.9)
        assert world.recall().evidence[0].turn_ids == ("move-0",)


class TestFreshness:
    def test_what_is_not_indexed_yet_is_found_by_its_text(self, world: World) -> None:
        world.forest.session("now", ("Bob", "I live in Oslo now."), ("Ann", "Wow."), placed=False)
        world.forest.unseen = [named("now/0")]
        best = world.recall("Does Bob live in Oslo?").evidence[0]
        assert best.text == "Bob: I live in Oslo now."
        assert best.freshness is Freshness.RAW

    def test_placed_without_a_summary_it_is_a_fact_and_with_one_a_summary(self, world: World) -> None:
        assert world.recall().evidence[0].freshness is Freshness.FACT
        world.forest.summaries_by_node[NodeId(named("move#0"))] = "Bob moved."
        assert world.recall().evidence[0].freshness is Freshness.SUMMARY


class TestNeighbours:
    def test_a_bare_turn_brings_the_dialogue_around_it(self, world: World) -> None:
        best = world.recall(neighbours=1).evidence[0]
        assert best.predecessors == ()
        assert [piece.text for piece in best.successors] == ["Ann: How nice!"]

    def test_a_fact_brings_what_comes_before_and_after_it_for_its_entity(self, world: World) -> None:
        texts = ("Bob lived in Boston.", "Bob moved to Davis.", "Bob moved to Miami.")
        facts = [world.forest.fact(text, "move", 0) for text in texts]
        world.forest.links = [link for link in world.forest.links if link.fact_id == facts[1]] + [
            link for link in world.forest.links if link.fact_id != facts[1]
        ]
        world.forest.tree("bob", TreeKind.ENTITY, [PayloadId(fact) for fact in facts])
        world.index.points[facts[1]] = (FACT, 9.0, 0.9)
        best = world.recall(neighbours=1).evidence[0]
        assert [piece.text for piece in best.predecessors] == ["Bob lived in Boston."]
        assert [piece.text for piece in best.successors] == ["Bob moved to Miami."]


class TestRange:
    def test_a_fact_about_something_that_happened_in_the_range_comes_back_too(self, world: World) -> None:
        day = START - timedelta(days=30)
        span = TimeSpan(day, day + timedelta(days=1), Precision.DAY)
        world.forest.fact("Bob moved a month ago.", "move", 0, span=span)
        found = world.recall(since=day, until=day + timedelta(hours=5), k=1000).evidence
        assert [piece.turn_ids for piece in found] == [("move-0",)]
        assert found[0].event == span

    def test_the_index_is_queried_for_the_range_only(self, world: World) -> None:
        world.recall(since=START, until=START + timedelta(days=1), mode="flat")
        flat, *_ = world.index.calls
        bounds = (START.timestamp(), (START + timedelta(days=1)).timestamp())
        assert all(query.filter.overlaps == bounds for query in flat)


class TestAsOf:
    def test_summaries_that_may_know_of_later_are_not_shown(self, world: World) -> None:
        world.forest.summaries_by_node[NodeId(named("move#root"))] = "Bob moved."
        shown = [node.summary for node in world.recall(as_of=START + timedelta(hours=2)).evidence[0].path]
        assert shown == ["Bob moved.", ""]
        shown = [node.summary for node in world.recall(as_of=START + timedelta(minutes=2)).evidence[0].path]
        assert shown == ["", ""]

    def test_neighbours_are_of_that_time_too(self, world: World) -> None:
        best = world.recall(as_of=START, neighbours=1).evidence[0]
        assert best.turn_ids == ("move-0",)
        assert best.successors == ()

    def test_only_cells_of_the_time_are_searched(self, world: World) -> None:
        world.recall(as_of=START, mode="flat")
        by_kind = {query.filter.kinds[0]: query.filter.overlaps for query in world.index.calls[0]}
        assert by_kind[CELL] == (float("-inf"), START.timestamp())
        assert by_kind[FACT] is None


class TestTimeOfTheQuestion:
    def test_what_was_said_in_the_time_that_is_named_is_lifted(self, world: World) -> None:
        result = world.recall("What did Bob say last week?", asked_at=START + timedelta(days=14))
        lifted = {piece.session_id for piece in result.evidence if piece.signals.get("time")}
        assert lifted == {"pets"}
        assert result.about.start is not None
        assert result.about.start <= START + timedelta(days=7) <= result.about.end  # type: ignore[operator]

    def test_a_month_without_its_year_is_the_last_that_can_be_known(self, world: World) -> None:
        result = world.recall("What did Bob say in March?", asked_at=START + timedelta(days=1_000))
        assert {piece.session_id for piece in result.evidence if piece.signals.get("time")} == {"move", "pets"}

    def test_a_question_without_a_time_lifts_nothing(self, world: World) -> None:
        result = world.recall()
        assert result.about == UNKNOWN_TIME
        assert not any(piece.signals.get("time") for piece in result.evidence)

    def test_it_can_be_switched_off(self) -> None:
        world = World({"time": 0})
        world.forest.session("move", *MOVE)
        world.index.points = {named("move/0"): (CELL, 4.0, 0.6)}
        assert "time" not in world.recall("What did Bob say today?", asked_at=START).evidence[0].signals


class TestWhereToSearch:
    def test_more_is_searched_when_turns_are_left_out(self, world: World) -> None:
        world.recall(speakers=["Ann"], mode="flat")
        assert {query.limit for query in world.index.calls[0]} == {240}

    def test_families_of_trees(self, world: World) -> None:
        world.index.points[named("move#root")] = (NODE, 5.0, 0.9)
        signals = {name for piece in world.recall(trees=["entity"]).evidence for name in piece.signals}
        assert not signals & {"session"}
        signals = {name for piece in world.recall(trees=["session"]).evidence for name in piece.signals}
        assert "session" in signals


class TestHowMuch:
    def test_a_budget_of_tokens_bounds_the_text(self, world: World) -> None:
        result = world.recall(max_tokens=20)
        assert 0 < len(result.text()) <= 80
        assert len(result.evidence) < len(world.recall().evidence)

    def test_a_budget_is_spent_though_more_turns_fit_than_are_read_at_once(self) -> None:
        """Given twice as many short turns as are read at once, then all fit in a large budget, and of a small one
        no more are read than fit."""
        made, number = World(), 2 * AT_ONCE
        made.forest.session("long", *(("Bob", f"Home {at}: it lies at mile {at}.") for at in range(number)))
        made.index.points = {named(f"long/{at}"): (CELL, 4.0, 0.6) for at in range(AT_ONCE)}

        assert len(made.recall(max_tokens=20_000).evidence) == number
        assert 0 < len(made.recall(max_tokens=100).evidence) < 20

    def test_auto_says_what_it_picked(self, world: World) -> None:
        result = world.recall(mode="auto")
        assert result.mode is Mode.EMBEDDING
        assert "embedding" in result.picked
        assert world.recall(mode="auto", budget_ms=1).mode is Mode.FLAT
        world.embedder.unavailable = True
        assert world.recall(mode="auto").mode is Mode.FLAT

    @pytest.mark.parametrize("mode", ["llm", "planner"])
    def test_modes_of_a_chat_model_need_one(self, world: World, mode: str) -> None:
        with pytest.raises(InvalidInput, match="MEMFOREST_LLM__MODEL"):
            world.recall(mode=mode)


class Backwards:
    """A cross-encoder that likes the last text best."""

    model = "backwards"

    def __init__(self, error: ModelUnavailable | None = None) -> None:
        self.error = error
        self.read: list[str] = []

    def rerank(self, question: str, texts: Sequence[str]) -> Reranked:
        self.read = list(texts)
        if self.error is not None:
            self.error.call = self.record(self.error.code)
            raise self.error
        return Reranked([float(n) for n in range(len(texts))], self.record("ok"))

    def record(self, outcome: str) -> CallRecord:
        return CallRecord(Step.RERANK, self.model, 7, 0, 0, 0.0, 1.0, outcome)


class TestReranking:
    def test_the_first_items_come_in_its_order(self, world: World) -> None:
        reranker = Backwards()
        plain, rebuilt = world.recall(k=4), world.recall(k=4, reranker=reranker)
        assert [piece.text for piece in rebuilt.evidence] == [piece.text for piece in plain.evidence][::-1]
        assert reranker.read[0].startswith("Monday 4 March 2024\n")
        assert rebuilt.evidence[0].signals["rerank"] == 3.0
        assert rebuilt.timings_ms["rerank"] >= 0

    def test_items_behind_the_first_stay_behind(self, world: World) -> None:
        world.settings = RecallSettings.model_validate({"rerank": {"first": 2}})
        plain, rebuilt = world.recall(k=4), world.recall(k=4, reranker=Backwards())
        texts = [piece.text for piece in plain.evidence]
        assert [piece.text for piece in rebuilt.evidence] == [texts[1], texts[0], *texts[2:]]
        scores = [piece.score for piece in rebuilt.evidence]
        assert scores == sorted(scores, reverse=True)

    def test_when_it_is_unavailable_the_order_stays_and_the_result_says_so(self, world: World) -> None:
        plain, rebuilt = world.recall(), world.recall(reranker=Backwards(ModelUnavailable("away")))
        assert [piece.text for piece in rebuilt.evidence] == [piece.text for piece in plain.evidence]
        assert "rerank model is unavailable" in rebuilt.degraded[0]

    @pytest.mark.parametrize("error", [None, ModelUnavailable("away")])
    def test_its_call_is_recorded_and_none_is_made_for_nothing(
        self, world: World, error: ModelUnavailable | None
    ) -> None:
        world.recall(reranker=Backwards(error))
        assert [(each.forest, [(call.step, call.outcome) for call in each.calls]) for each in world.forest.costs] == [
            (FOREST, [(Step.RERANK, "ok" if error is None else error.code)])
        ]
        world.forest.costs.clear()
        nobody = Backwards(error)
        assert world.recall(reranker=nobody, sessions=["none"]).evidence == ()
        assert (nobody.read, world.forest.costs) == ([], [])


class TestRefusals:
    @pytest.mark.parametrize("k", [0, -1, 1001, 2.5, True, "ten"])
    def test_k(self, world: World, k: object) -> None:
        assert self.code(world, k=k) == "invalid_k"

    def test_mode(self, world: World) -> None:
        assert self.code(world, mode="magic") == "invalid_mode"

    @pytest.mark.parametrize("neighbours", [-1, 21, True])
    def test_neighbours(self, world: World, neighbours: object) -> None:
        assert self.code(world, neighbours=neighbours) == "invalid_neighbours"

    def test_range(self, world: World) -> None:
        assert self.code(world, since="2024-01-02", until="2024-01-01") == "invalid_range"
        assert self.code(world, since="yesterday") == "invalid_timestamp"

    def test_an_unknown_owner_is_no_error_and_no_search(self, world: World) -> None:
        assert not world.recall(owner="nobody").owner_known
        assert world.index.calls == []

    def code(self, world: World, **options: object) -> str:
        with pytest.raises(InvalidInput) as refused:
            world.recall(**options)
        assert world.index.calls == []
        return refused.value.code


def test_the_default_mode_is_embedding(world: World) -> None:
    assert world.recall().mode is Mode.EMBEDDING
