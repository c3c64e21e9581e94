"""What ``auto`` picks: by what is there, by what modes cost lately, and by the caller's time."""

from __future__ import annotations

import threading

import pytest

from memforest_core.domain.evidence import Mode
from memforest_core.recall.plan import DRIFT, FIRST_GUESS_MS, NEWEST, ModeTimes, choose_mode

COSTS = {Mode.FLAT: 20.0, Mode.EMBEDDING: 80.0, Mode.LLM: 2_000.0, Mode.PLANNER: 3_000.0}


class TestChoosing:
    @pytest.mark.parametrize(
        ("chat", "embedder_unavailable", "budget_ms", "mode"),
        [
            (True, False, None, Mode.PLANNER),
            (True, True, None, Mode.PLANNER),
            (False, False, None, Mode.EMBEDDING),
            (False, True, None, Mode.FLAT),
            (True, False, 3_000.0, Mode.PLANNER),
            (True, False, 2_999.0, Mode.LLM),
            (True, False, 1_999.0, Mode.EMBEDDING),
            (True, True, 1_999.0, Mode.FLAT),
            (True, False, 79.0, Mode.FLAT),
            (True, False, 1.0, Mode.FLAT),
            (False, False, 60_000.0, Mode.EMBEDDING),
            (False, True, 60_000.0, Mode.FLAT),
        ],
    )
    def test_the_most_thorough_that_is_there_and_fits(
        self, chat: bool, embedder_unavailable: bool, budget_ms: float | None, mode: Mode
    ) -> None:
        assert choose_mode(chat, embedder_unavailable, budget_ms, COSTS)[0] is mode

    @pytest.mark.parametrize(
        ("picked", "why"),
        [
            (
                choose_mode(True, False, None, COSTS),
                "Picked planner because it is the most thorough that can be used; no budget is set.",
            ),
            (
                choose_mode(True, False, 4_000.0, COSTS),
                "Picked planner because it takes about 3000 ms of the 4000 ms allowed.",
            ),
            (
                choose_mode(True, False, 100.0, COSTS),
                "Picked embedding because it takes about 80 ms of the 100 ms allowed, and planner takes about 3000 ms.",
            ),
            (
                choose_mode(False, True, 10.0, COSTS),
                "Picked flat because it is the cheapest, though it takes about 20 ms and 10 ms are allowed"
                " (no chat model is configured and the embedding model is unavailable).",
            ),
            (
                choose_mode(False, False, None, COSTS),
                "Picked embedding because it is the most thorough that can be used (no chat model is configured);"
                " no budget is set.",
            ),
        ],
    )
    def test_it_says_why_in_one_sentence(self, picked: tuple[Mode, str], why: str) -> None:
        assert picked[1] == why

    def test_a_mode_that_was_never_measured_costs_its_first_guess(self) -> None:
        assert choose_mode(True, False, FIRST_GUESS_MS[Mode.LLM], {})[0] is Mode.LLM
        assert choose_mode(True, False, FIRST_GUESS_MS[Mode.LLM] - 1, {})[0] is Mode.EMBEDDING


class TestPaces:
    def test_begin_with_the_first_guesses(self) -> None:
        assert ModeTimes().recent_ms() == FIRST_GUESS_MS

    def test_move_towards_what_is_measured(self) -> None:
        paces = ModeTimes()
        paces.record(Mode.LLM, 1_000.0)
        assert paces.recent_ms()[Mode.LLM] == pytest.approx((1 - NEWEST) * FIRST_GUESS_MS[Mode.LLM] + NEWEST * 1_000.0)
        for _ in range(30):
            paces.record(Mode.LLM, 1_000.0)
        assert paces.recent_ms()[Mode.LLM] == pytest.approx(1_000.0, rel=0.01)

    def test_a_mode_that_was_slow_is_tried_again_in_time(self) -> None:
        """Given an llm mode that was very slow, when only others are used for long, then it fits its budget again."""
        paces = ModeTimes()
        for _ in range(20):
            paces.record(Mode.LLM, 60_000.0)
        assert choose_mode(True, False, 7_000.0, paces.recent_ms())[0] is Mode.EMBEDDING
        recalls = 0
        while choose_mode(True, False, 7_000.0, paces.recent_ms())[0] is Mode.EMBEDDING:
            paces.record(Mode.EMBEDDING, 100.0)
            recalls += 1
        assert 1 / DRIFT <= recalls <= 10 / DRIFT

    def test_threads_lose_nothing(self) -> None:
        """Given four threads that record the same, then the mean is where as many records one by one bring it."""
        shared, alone = ModeTimes(), ModeTimes()

        def work() -> None:
            for _ in range(5):
                shared.record(Mode.FLAT, 500.0)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for _ in range(20):
            alone.record(Mode.FLAT, 500.0)
        assert shared.recent_ms() == pytest.approx(alone.recent_ms())
