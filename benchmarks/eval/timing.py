"""What a part costs: recalls with it and without it, asked in turn, so that both have the same load and caches."""

from __future__ import annotations

import time
from collections.abc import Sequence

from benchmarks.eval.baselines import DEPTH
from benchmarks.eval.dataset import Conversation, Dataset, Question
from benchmarks.eval.measuring import quantile
from benchmarks.eval.variants import Recalling
from benchmarks.harness import Row, say

Spent = tuple[float, float]
"""Milliseconds by the clock, and of this process's processors."""


def times(methods: Sequence[Recalling], data: Dataset) -> dict[str, Row]:
    """For each method the medians of a recall of 200 pieces, over all questions that measure recall.

    ``ms_p50`` by the clock; ``cpu_ms_p50`` of this process, without Postgres and index, which other load moves less.
    The methods, which keep nothing, take turns at each question, and another one begins each time. Each asks twice in a
    row and the second counts, so that all find the same in caches.
    """
    spent: dict[str, list[Spent]] = {method.name: [] for method in methods}
    asked = [(one, question) for one in data for question in one.questions if question.measures_recall]
    for number, (conversation, question) in enumerate(asked):
        first = number % len(methods)
        for method in [*methods[first:], *methods[:first]]:
            spent[method.name].append(_second(method, conversation, question))
    say(f"timed {len(methods)} rows on {len(asked)} questions")
    return {name: _row(found) for name, found in spent.items()}


def _second(method: Recalling, conversation: Conversation, question: Question) -> Spent:
    method.recall(conversation, question, DEPTH)
    clock, processor = time.perf_counter(), time.process_time()
    method.recall(conversation, question, DEPTH)
    return (time.perf_counter() - clock) * 1_000.0, (time.process_time() - processor) * 1_000.0


def _row(found: Sequence[Spent]) -> Row:
    return {
        "n": len(found),
        "ms_p50": round(quantile([ms for ms, _ in found], 0.5), 1),
        "cpu_ms_p50": round(quantile([ms for _, ms in found], 0.5), 1),
    }
