"""How signals become one score."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from memforest_core.domain.scoring import Item, Scores, coverage, floor_of, fused, lifted, same_words, scaled, vote
from tests.harness.weights import weights

SESSION = UUID(int=1000)
ONLY_OWN = weights(interval=0, root=0, topic=0, neighbour=0, speaker=0)


def ident(number: int) -> UUID:
    return UUID(int=number)


def item(ordinal: int, cell: int = 1, **changes: object) -> Item:
    values: dict[str, object] = {
        "place": (SESSION, ordinal, 0),
        "cell": ident(cell),
        "facts": (),
    }
    return Item(**(values | changes))  # type: ignore[arg-type]


class TestScaled:
    def test_the_best_of_a_list_is_one(self) -> None:
        assert scaled([8.0, 2.0]) == [1.0, 0.25]

    def test_equal_scores_stay_equal_and_are_the_best(self) -> None:
        assert scaled([3.0, 3.0]) == [1.0, 1.0]

    def test_what_is_not_above_zero_counts_nothing(self) -> None:
        assert scaled([0.5, 0.0, -0.4]) == [1.0, 0.0, 0.0]
        assert scaled([-0.1, -0.2]) == [0.0, 0.0]
        assert scaled([None, 4.0, None, 2.0]) == [0.0, 1.0, 0.0, 0.5]

    def test_an_empty_list_stays_empty(self) -> None:
        assert scaled([]) == []

    def test_the_length_of_the_list_does_not_move_its_head(self) -> None:
        assert scaled([8.0, 4.0, 0.1])[1] == scaled([8.0, 4.0])[1]


class TestFloor:
    def test_a_model_that_puts_strangers_near_zero_has_none(self) -> None:
        assert floor_of([0.6, 0.5, *[0.1] * 50]) == 0.0

    def test_in_a_narrow_band_the_median_gets_half(self) -> None:
        """Given cosines from 0.8 to 0.9, when they are scaled above the floor, then the median has half of the best."""
        cosines = [0.80 + 0.001 * number for number in range(101)]
        floor = floor_of(cosines)
        assert floor == pytest.approx(0.80)
        ids = [ident(number) for number in range(101)]
        scores = Scores(dense=dict(zip(ids, cosines, strict=True)))
        spread = fused(scores, weights(), None, floor)
        assert spread[ids[100]] == 1.0
        assert spread[ids[50]] == pytest.approx(0.5)
        assert fused(scores, weights())[ids[0]] > 0.88

    def test_too_few_have_no_floor(self) -> None:
        assert floor_of([0.9] * 19) == 0.0
        assert floor_of([]) == 0.0

    def test_votes_come_apart_in_a_narrow_band(self) -> None:
        """Given an embedder with cosines from 0.8 on, then the best cell is as far ahead of the median as with a model
        whose cosines begin at 0."""
        items = [item(number, cell=number) for number in range(1, 42)]
        narrow = Scores(dense={ident(number): 0.8 + 0.0025 * number for number in range(1, 42)})
        wide = Scores(dense={ident(number): 0.0025 * (number - 1) for number in range(1, 42)})
        ahead = vote(items, narrow, Scores(), Scores(), ONLY_OWN)
        expected = vote(items, wide, Scores(), Scores(), ONLY_OWN)
        assert [one.item for one in ahead] == [one.item for one in expected]
        assert [one.score for one in ahead] == pytest.approx([one.score for one in expected])


class TestFused:
    def test_lists_on_different_scales_count_alike(self) -> None:
        scores = Scores({ident(1): 20.0, ident(2): 10.0}, {ident(1): 0.2, ident(2): 0.4})
        assert fused(scores, weights()) == {ident(1): 1.5, ident(2): 1.5}

    def test_a_point_in_one_list_only_gets_nothing_from_the_other(self) -> None:
        scores = Scores({ident(1): 20.0}, {ident(2): 0.4})
        assert fused(scores, weights(dense=0.5)) == {ident(1): 1.0, ident(2): 0.5}

    def test_of_some_points_each_list_is_scaled_among_them(self) -> None:
        scores = Scores({ident(1): 20.0, ident(2): 5.0, ident(3): 1.0}, {ident(2): 0.4, ident(4): -0.1})
        some = [ident(3), ident(2), ident(2), ident(4), ident(9)]
        assert fused(scores, weights(), some) == {ident(2): 2.0, ident(3): 0.2, ident(4): 0.0}
        alone = Scores({ident(2): 5.0, ident(3): 1.0}, {ident(2): 0.4, ident(4): -0.1})
        assert fused(scores, weights(), some) == fused(alone, weights())
        assert fused(scores, weights(), []) == {}

    def test_a_weight_of_zero_switches_a_signal_off(self) -> None:
        scores = Scores({ident(1): 20.0}, {ident(1): 0.1, ident(2): 0.4})
        assert fused(scores, weights(dense=0))[ident(2)] == 0.0


class TestVote:
    def test_own_score_is_the_cell_and_the_best_fact(self) -> None:
        one = item(0, cell=1, facts=(ident(11), ident(12)))
        facts = Scores(dense={ident(11): 0.2, ident(12): 0.8})
        voted = vote([one], Scores(dense={ident(1): 0.5}), facts, Scores(), ONLY_OWN)
        assert voted[0].signals == {"cell": 0.5, "fact": 1.0}
        assert voted[0].score == 1.5

    def test_what_extraction_does_not_read_counts_by_its_cell_where_that_is_better_than_its_fact(self) -> None:
        """Given a result whose cell fits best, then the cell's score stands for the fact's; a better fact is enough."""
        result, told = (
            item(0, cell=1, facts=(ident(11),), unread=True),
            item(1, cell=2, facts=(ident(12),), unread=True),
        )
        cells = Scores(dense={ident(1): 0.8, ident(2): 0.4})
        facts = Scores(dense={ident(11): 0.2, ident(12): 0.8})
        first, second = sorted(vote([result, told], cells, facts, Scores(), ONLY_OWN), key=lambda one: one.item.place)
        assert first.signals == {"cell": 0.5, "fact": 0.25, "unread": 0.75}
        assert second.signals == {"cell": 0.25, "fact": 1.0}

    def test_a_turn_without_facts_still_has_its_cells_score(self) -> None:
        voted = vote([item(0)], Scores(lexical={ident(1): 3.0}), Scores(), Scores(), ONLY_OWN)
        assert voted[0].signals == {"cell": 0.5}

    def test_ancestors_add_and_say_so(self) -> None:
        one = item(0, cell=1, interval=ident(21), root=ident(22), topics=(ident(23),))
        nodes = Scores(dense={ident(21): 0.3, ident(22): 0.2, ident(23): 0.9})
        chosen = weights(topic=0.25)
        voted = vote([one], Scores(dense={ident(1): 0.5}), Scores(), nodes, chosen)
        assert voted[0].signals == {"cell": 0.5, "interval": 0.5, "session": 0.5, "topic": 0.25}

    def test_ancestors_never_gate(self) -> None:
        """An item whose trees say nothing stays above a weaker one."""
        strong, weak = item(0, cell=1, interval=ident(21)), item(4, cell=2)
        cells = Scores(dense={ident(1): 0.9, ident(2): 0.2})
        voted = vote([weak, strong], cells, Scores(), Scores(), weights())
        assert [one.item for one in voted] == [strong, weak]

    def test_a_good_session_lifts_one_of_two_equal_turns(self) -> None:
        here, there = item(0, cell=1, root=ident(21)), item(4, cell=2, root=ident(22))
        cells = Scores(dense={ident(1): 0.5, ident(2): 0.5})
        nodes = Scores(dense={ident(21): 0.1, ident(22): 0.4})
        voted = vote([here, there], cells, Scores(), nodes, weights())
        assert voted[0].item == there

    def test_a_named_speaker_counts(self) -> None:
        quiet, named = item(0, cell=1), item(4, cell=2, named_speaker=True)
        cells = Scores(dense={ident(1): 0.5, ident(2): 0.5})
        voted = vote([quiet, named], cells, Scores(), Scores(), weights())
        assert voted[0].item == named
        assert voted[0].signals["speaker"] == pytest.approx(0.3)

    def test_points_of_no_item_do_not_set_the_scale(self) -> None:
        one = item(0, cell=1)
        cells = Scores(dense={ident(1): 0.5, ident(99): 5.0})
        assert vote([one], cells, Scores(), Scores(), ONLY_OWN)[0].signals == {"cell": 0.5}

    def test_equal_scores_come_in_order_of_place(self) -> None:
        later, earlier = item(6), item(2)
        voted = vote([later, earlier], Scores(), Scores(), Scores(), weights())
        assert [one.item for one in voted] == [earlier, later]

    def test_nothing_in_nothing_out(self) -> None:
        assert vote([], Scores(), Scores(), Scores(), weights()) == []


class TestNeighbours:
    def test_a_turn_beside_a_better_one_is_lifted_towards_it(self) -> None:
        assert lifted([item(0), item(1)], [1.0, 0.5], 0.2, 0.0) == [0.0, pytest.approx(0.1)]

    def test_a_turn_next_but_one_to_a_better_one_is_lifted_too(self) -> None:
        """Given the same speaker's turns with another's between them, then each is near the other."""
        assert lifted([item(0), item(2)], [1.0, 0.5], 0.2, 0.1) == [0.0, pytest.approx(0.05)]

    def test_what_stands_near_two_better_ones_is_lifted_by_both(self) -> None:
        near = [item(0), item(1), item(2)]
        assert lifted(near, [1.0, 0.8, 0.5], 0.2, 0.1) == [0.0, pytest.approx(0.04), pytest.approx(0.11)]

    def test_of_the_turns_on_both_sides_the_better_one_lifts(self) -> None:
        assert lifted([item(0), item(1), item(2)], [1.0, 0.5, 0.7], 0.2, 0.0)[1] == pytest.approx(0.1)

    def test_turns_further_away_lift_nothing(self) -> None:
        assert lifted([item(0), item(3)], [1.0, 0.5], 0.2, 0.2) == [0.0, 0.0]

    def test_another_session_is_no_neighbour(self) -> None:
        stranger = item(1, place=(UUID(int=2000), 1, 0))
        assert lifted([item(0), stranger], [1.0, 0.5], 0.2, 0.2) == [0.0, 0.0]


class TestAnswers:
    ASKED, ANSWERED = item(0, 1), item(1, 2, answers=True)
    FOUND = Scores(lexical={ident(1): 4.0, ident(2): 1.0})

    def test_an_answer_gets_a_share_of_the_question(self) -> None:
        """Given a question that has all the words and an answer with few, then the answer gets 0.15 of what the
        question has."""
        first, second = vote(
            [self.ASKED, self.ANSWERED], self.FOUND, Scores(), Scores(), replace(ONLY_OWN, answer=0.15)
        )
        assert (first.item, "answer" in first.signals) == (self.ASKED, False)
        assert second.signals["answer"] == pytest.approx(0.15 * first.signals["cell"])
        assert second.score == pytest.approx(sum(second.signals.values()))

    def test_the_better_part_of_a_long_question_counts(self) -> None:
        parts = [item(0, 3, place=(SESSION, 0, 90)), self.ASKED, self.ANSWERED]
        signals = {one.item: one.signals for one in vote(parts, self.FOUND, Scores(), Scores(), weights(answer=1))}
        assert signals[self.ANSWERED]["answer"] == signals[self.ASKED]["cell"]

    def test_what_answers_nothing_or_a_turn_that_is_no_candidate_gets_nothing(self) -> None:
        for turns in ([self.ASKED, item(1, 2)], [self.ANSWERED], [self.ASKED, item(2, 2, answers=True)]):
            voted = vote(turns, self.FOUND, Scores(), Scores(), weights(answer=1))
            assert not any("answer" in one.signals for one in voted)


class TestCoverage:
    def test_all_terms_are_full_coverage_and_none_is_none(self) -> None:
        assert coverage({"dog", "park"}, [{"dog", "park"}, {"tea"}]) == [1.0, 0.0]

    def test_a_rare_term_counts_more_than_a_common_one(self) -> None:
        texts = [{"dog"}, {"dog"}, {"dog"}, {"violin"}]
        shares = coverage({"dog", "violin"}, texts)
        assert shares[3] > shares[0]

    def test_a_question_without_terms_covers_nothing(self) -> None:
        assert coverage(set(), [{"dog"}]) == [0.0]


class TestSameWords:
    def test_paraphrases_share_nearly_all_terms(self) -> None:
        words = frozenset(str(number) for number in range(10))
        assert same_words(words, words - {"0"}, 0.9)
        assert not same_words(words, words - {"0", "1"}, 0.9)

    def test_texts_without_terms_are_never_the_same(self) -> None:
        assert not same_words(frozenset(), frozenset(), 0.9)
