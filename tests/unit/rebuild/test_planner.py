"""What a plan says of calls, tokens and dollars: by what was paid before, else by list, else honestly nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

from memforest_core.domain.ids import ForestId, TenantId, TreeKind
from memforest_core.lifecycle.hidden_forest_rows import StoredForest
from memforest_core.lifecycle.rebuild.planner import Planner, summary_work
from memforest_core.lifecycle.rebuild.records import Counts, Options, Plan, Spent, TreesAlike
from memforest_core.lifecycle.rebuild.rows.forest_sizes import PlanRows
from memforest_core.models.accounting import ListPrices, Price
from memforest_core.models.calls import Step
from memforest_core.settings import RefreshSettings, Settings
from tests.harness.builders import FOREST

SMALL = RefreshSettings(model_from_leaves=1, model_reads_last=True, budget_chars=400)
LISTED = ListPrices({step: Price(1.0, 2.0) for step in Step}, frozenset({"embedder"}))


def models_of(extract: str | None, summarize: str | None) -> dict[Step, str | None]:
    return {Step.EXTRACT: extract, Step.SUMMARIZE: summarize, Step.EMBED: "embedder"}


WRITER = models_of(None, "some/writer")
BOTH = models_of("some/extractor", "some/writer")


class Rows(PlanRows):
    """A forest of two windows, four candidates, and one tree of three long leaves, under nodes of four."""

    def __init__(self, spent: Mapping[Step, Spent]) -> None:
        self._spent = spent

    def counts(self, source: ForestId, model: str) -> Counts:
        return Counts(1, 4, 2, 4, 800, 160, 2, 2, 200, 0, 0)

    def trees(self, source: ForestId) -> list[TreesAlike]:
        return [TreesAlike(TreeKind.SESSION, 4, 3, 1, 600)]

    def spent(self, step: Step, model: str) -> Spent:
        return self._spent.get(step, Spent(0, 0, 0, 0.0))


def plan(
    spent: Mapping[Step, Spent], options: Options, models: dict[Step, str | None] = BOTH, prices: ListPrices = LISTED
) -> Plan:
    @contextmanager
    def reading(_: TenantId) -> Iterator[PlanRows]:
        yield Rows(spent)

    source = StoredForest(FOREST, "bob", "live", {})
    return Planner(reading, Settings(refresh=SMALL), models, prices).plan(TenantId("t"), source, options)


@pytest.mark.parametrize(
    ("leaves", "chars", "k", "changed", "nodes", "calls"),
    [
        (3, 30, 3, {}, 1, 0),  # short texts are joined
        (1, 500, 3, {}, 1, 0),  # a single child passes its text through
        (9, 300, 3, {}, 4, 4),
        (9, 300, 9, {}, 1, 1),
        (9, 300, 3, {"model_from_leaves": 9}, 4, 1),
        (9, 180, 3, {"model_reads_last": False}, 4, 1),
    ],
)
def test_a_node_above_long_texts_is_one_call(
    leaves: int, chars: int, k: int, changed: dict[str, int], nodes: int, calls: int
) -> None:
    refresh = SMALL.model_copy(update=changed)
    work = summary_work(TreesAlike(TreeKind.SCENE, 3, leaves, 2, chars), k, refresh, 300, None)
    assert (work["nodes"], work["calls"]) == (2 * nodes, 2 * calls)
    assert work["prompt_chars"] >= 2 * calls * min(2, k - 1) * min(chars, 100)


def test_windows_are_calls_only_for_a_new_extraction() -> None:
    found = plan({}, Options(extract=True))
    assert (found.cells_to_extract, found.extraction_calls) == (2, 2)
    assert (plan({}, Options()).extraction_calls, plan({}, Options()).prompt_tokens < found.prompt_tokens) == (0, True)


def test_what_stays_as_it_is_has_its_summaries() -> None:
    same = plan({}, Options({"session_k": 4}), WRITER)
    assert (same.summaries, same.summary_calls, same.summaries_reused) == (1, 0, 1)
    for options in (Options(), Options({"session_k": 4}, summaries=True), Options({"session_k": 4}, extract=True)):
        assert (plan({}, options, WRITER).summary_calls, plan({}, options, WRITER).summaries_reused) == (1, 0)


def test_the_price_is_what_was_paid_before_else_by_list_else_unknown() -> None:
    paid = plan({Step.SUMMARIZE: Spent(10, 900, 100, 0.5)}, Options(), WRITER)
    assert paid.completion_tokens == 10
    assert paid.cost_usd == pytest.approx(0.0005 * (paid.prompt_tokens + paid.completion_tokens))
    listed = plan({}, Options(), WRITER)
    assert listed.cost_usd == pytest.approx((listed.prompt_tokens + 2 * listed.completion_tokens) / 1e6)
    unknown = plan({}, Options(), prices=ListPrices({}, frozenset({"embedder"})))
    assert (unknown.cost_usd, unknown.numbers()["cost_microusd"]) == (None, -1)


def test_cached_tokens_are_the_share_that_calls_so_far_had() -> None:
    history = {Step.EXTRACT: Spent(10, 1_000, 100, 0.0, 600), Step.SUMMARIZE: Spent(5, 500, 50, 0.0, 100)}
    read = plan(history, Options({"session_k": 4}, extract=True), models_of("some/extractor", None))
    written, both = plan(history, Options(), WRITER), plan(history, Options(extract=True))
    assert read.cached_tokens == round(0.6 * read.prompt_tokens)
    assert written.cached_tokens == round(0.2 * written.prompt_tokens)
    assert both.numbers()["cached_tokens"] == both.cached_tokens == read.cached_tokens + written.cached_tokens
    unknown = plan({Step.EXTRACT: history[Step.EXTRACT]}, Options(extract=True))
    assert (unknown.cached_tokens, unknown.numbers()["cached_tokens"]) == (None, -1)


def test_cached_tokens_have_their_own_price() -> None:
    prices = ListPrices({Step.SUMMARIZE: Price(4.0, 8.0, 1.0)}, frozenset({"embedder"}))
    found = plan({Step.SUMMARIZE: Spent(5, 500, 50, 0.0, 250)}, Options(), WRITER, prices)
    assert found.cached_tokens == round(found.prompt_tokens / 2)
    fresh = found.prompt_tokens - found.cached_tokens
    assert found.cost_usd == pytest.approx((4 * fresh + found.cached_tokens + 8 * found.completion_tokens) / 1e6)


def test_offline_models_cost_nothing() -> None:
    found = plan({}, Options(extract=True, summaries=True), models_of(None, None))
    assert (found.extraction_calls, found.summary_calls, found.prompt_tokens, found.cost_usd) == (0, 0, 0, 0.0)
    assert (found.cells_to_extract, found.facts_to_place, found.summaries) == (2, 4, 1)
