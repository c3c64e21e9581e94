"""What a plan says of calls, tokens and dollars: by what was paid before, else by list, else honestly nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from uuid import UUID

import pytest

from memforest_core.domain.ids import CellId, ForestId, LeaseToken, SessionId, TenantId, TreeId, TreeKind
from memforest_core.ingest.extract.extraction_prompt import SYSTEM, input_hash, render_window
from memforest_core.ingest.extract.records import ClaimedCell, ClaimedWindow
from memforest_core.ingest.extract.service import window_of
from memforest_core.lifecycle.hidden_forest_rows import StoredForest
from memforest_core.lifecycle.rebuild.planner import Planner
from memforest_core.lifecycle.rebuild.records import Counts, Options, Plan, PlannedTree, Spent
from memforest_core.lifecycle.rebuild.rows.forest_sizes import PlanRows
from memforest_core.models.accounting import ListPrices, Price
from memforest_core.models.calls import Step
from memforest_core.settings import RefreshSettings, Settings
from tests.harness.builders import FOREST, turn

SOURCE = StoredForest(FOREST, "bob", "live", {})


def models_of(extract: str | None, summarize: str | None, embed: str) -> dict[Step, str | None]:
    return {Step.EXTRACT: extract, Step.SUMMARIZE: summarize, Step.EMBED: embed}


MODELS = models_of("some/extractor", "some/writer", "embedder")
NEVER = Spent(0, 0, 0, 0.0)


def window(first: int) -> ClaimedWindow:
    """A window of one cell of two turns."""
    return ClaimedWindow(
        token=LeaseToken(UUID(int=0)),
        forest_id=FOREST,
        session_id=SessionId(UUID(int=1)),
        owner="bob",
        time_zone="UTC",
        attempts=0,
        live=False,
        trace=None,
        retries_verbatim=False,
        cells=(ClaimedCell(CellId(UUID(int=first + 1)), first, first, first + 1, None, None),),
        turns=(turn(first), turn(first + 1)),
        context=(),
    )


class Rows:
    """A forest of two windows, four candidates, and one tree of three long leaves."""

    def __init__(self, spent: dict[Step, Spent], paid: frozenset[bytes] = frozenset()) -> None:
        self._spent = spent
        self._paid = paid

    def counts(self, source: ForestId, model: str) -> Counts:
        return Counts(1, 4, 2, 4, 800, 160, 0, 0)

    def windows_after(
        self, source: ForestId, after: SessionId | None, turns: int
    ) -> tuple[list[ClaimedWindow], SessionId | None]:
        return ([], None) if after is not None else ([window(0), window(2)], SessionId(UUID(int=1)))

    def cached_answers(self, hashes: Sequence[bytes]) -> frozenset[bytes]:
        return self._paid & frozenset(hashes)

    def trees_after(self, source: ForestId, after: TreeId | None, limit: int) -> Sequence[PlannedTree]:
        tree = PlannedTree(TreeId(UUID(int=9)), TreeKind.SESSION, "s1", ("a" * 600, "b" * 600, "c" * 600))
        return [tree] if after is None else []

    def paid_summaries(self, hashes: Sequence[bytes]) -> dict[bytes, str]:
        return {}

    def spent(self, step: Step, model: str) -> Spent:
        return self._spent.get(step, NEVER)


SMALL = RefreshSettings(model_from_leaves=1, model_reads_last=True)


def plan(
    rows: PlanRows, options: Options, models: dict[Step, str | None] = MODELS, prices: ListPrices | None = None
) -> Plan:
    @contextmanager
    def reading(_: TenantId) -> Iterator[PlanRows]:
        yield rows

    known = prices or ListPrices({step: Price(1.0, 2.0) for step in Step}, frozenset())
    return Planner(reading, Settings(refresh=SMALL), models, known).plan(TenantId("t"), SOURCE, options)


def test_windows_that_were_paid_for_cost_nothing() -> None:
    """Given two windows of which one was read with today's prompt and model, when all are to be read, then one call is
    planned, with the length of its prompt."""
    shown = [window_of(window(first))[0] for first in (0, 2)]
    found = plan(Rows({}, frozenset({input_hash(shown[0], "some/extractor")})), Options(extract=True))
    assert (found.cells_to_extract, found.extraction_calls, found.extractions_reused) == (2, 1, 1)
    chars = len(SYSTEM) + len(render_window(shown[1]))
    assert found.prompt_tokens > chars // 4
    assert plan(Rows({}), Options()).extraction_calls == 0


def test_the_price_is_what_was_paid_before() -> None:
    """Given calls of the model that cost something, when a plan is made, then its tokens cost as much."""
    before = Spent(10, 900, 100, 0.5)
    found = plan(Rows({Step.SUMMARIZE: before}), Options(), models_of(None, "some/writer", "embedder"), free_embedder())
    tokens = found.prompt_tokens + found.completion_tokens
    assert found.summary_calls == 1
    assert found.completion_tokens == 10
    assert found.cost_usd == pytest.approx(0.0005 * tokens)


def free_embedder() -> ListPrices:
    return ListPrices({step: Price(1.0, 2.0) for step in Step}, frozenset({"embedder"}))


def test_the_price_is_by_list_where_nothing_was_paid() -> None:
    """Given a price in the settings and no calls yet, when a plan is made, then it counts both kinds of tokens."""
    found = plan(Rows({}), Options(), models_of(None, "some/writer", "embedder"), free_embedder())
    assert found.cost_usd == pytest.approx((found.prompt_tokens + 2 * found.completion_tokens) / 1e6)


def test_cached_tokens_are_the_share_that_calls_so_far_had() -> None:
    """Given calls of both steps of which 60 % and 20 % of the prompt were cached, then so is the plan's prompt."""
    history = {Step.EXTRACT: Spent(10, 1_000, 100, 0.0, 600), Step.SUMMARIZE: Spent(5, 500, 50, 0.0, 100)}
    read = plan(Rows(history), Options(extract=True), models_of("some/extractor", None, "embedder"))
    written = plan(Rows(history), Options(), models_of(None, "some/writer", "embedder"))
    both = plan(Rows(history), Options(extract=True))
    assert (read.cached_tokens, written.cached_tokens) == (
        round(0.6 * read.prompt_tokens),
        round(0.2 * written.prompt_tokens),
    )
    assert both.cached_tokens == read.cached_tokens + written.cached_tokens
    assert both.numbers()["cached_tokens"] == both.cached_tokens


def test_without_calls_nothing_is_said_of_cached_tokens() -> None:
    """Given a step that was never called, then its share is unknown; where nothing is called, none is cached."""
    history = {Step.EXTRACT: Spent(10, 1_000, 100, 0.0, 600)}
    found = plan(Rows(history), Options(extract=True))
    assert found.summary_calls == 1
    assert (found.cached_tokens, found.numbers()["cached_tokens"]) == (None, -1)
    assert plan(Rows(history), Options(), models_of(None, None, "embedder")).cached_tokens == 0


def test_cached_tokens_have_their_own_price() -> None:
    """Given calls that cost nothing so far, half of their prompt cached, then half of the plan's is at the lower price."""
    before = {Step.SUMMARIZE: Spent(5, 500, 50, 0.0, 250)}
    prices = ListPrices({Step.SUMMARIZE: Price(4.0, 8.0, 1.0)}, frozenset({"embedder"}))
    found = plan(Rows(before), Options(), models_of(None, "some/writer", "embedder"), prices)
    assert found.cached_tokens == round(found.prompt_tokens / 2)
    fresh = found.prompt_tokens - found.cached_tokens
    assert found.cost_usd == pytest.approx((4 * fresh + found.cached_tokens + 8 * found.completion_tokens) / 1e6)


def test_an_unknown_price_is_said_to_be_unknown() -> None:
    """Given a model that no list knows, when a plan is made, then there are no dollars, and a task says -1."""
    found = plan(Rows({}), Options(), prices=ListPrices({}, frozenset({"embedder"})))
    assert found.cost_usd is None
    assert found.numbers()["cost_microusd"] == -1


def test_offline_models_cost_nothing() -> None:
    """Given no chat model, when everything is rebuilt, then there are no calls and no dollars."""
    found = plan(Rows({}), Options(extract=True, summaries=True), models_of(None, None, "embedder"), free_embedder())
    assert (found.extraction_calls, found.summary_calls, found.prompt_tokens, found.cost_usd) == (0, 0, 0, 0.0)
    assert (found.cells_to_extract, found.facts_to_place, found.summaries) == (2, 4, 1)
