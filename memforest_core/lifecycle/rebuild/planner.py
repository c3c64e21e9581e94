"""What a rebuild would cost: calls, tokens and dollars."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from memforest_core.domain.ids import ForestId, SessionId, TenantId, TreeId, TreeKind
from memforest_core.ingest.extract import extraction_prompt as extraction
from memforest_core.ingest.extract.service import window_of
from memforest_core.ingest.reduce.forest_rules import ruled
from memforest_core.ingest.refresh.summarizer import keyed_model
from memforest_core.lifecycle.hidden_forest_rows import StoredForest
from memforest_core.lifecycle.rebuild.cost_plan import Plan
from memforest_core.lifecycle.rebuild.estimating import Expected, SummaryWork, estimate
from memforest_core.lifecycle.rebuild.rebuild_options import rules_of
from memforest_core.lifecycle.rebuild.records import Counts, Options, Spent
from memforest_core.lifecycle.rebuild.rows.forest_sizes import PlanRows
from memforest_core.models.accounting import ListPrices
from memforest_core.models.calls import Step
from memforest_core.models.prompts import BUILT_IN, Prompts
from memforest_core.settings import Settings
from memforest_core.work.records import Numbers

CHARS_PER_TOKEN = 4
"""The usual rule of thumb for English; other languages take more tokens."""
BATCH_TURNS = 4_000
BATCH_TREES = 200


@dataclass(frozen=True, slots=True)
class Models:
    """Which models a deployment uses; an extraction or summary model that is None costs nothing."""

    extract: str | None
    summarize: str | None
    embed: str


@dataclass(slots=True)
class _Extraction:
    cells: int = 0
    windows: int = 0
    calls: int = 0
    prompt_chars: int = 0


Reading = Callable[[TenantId], AbstractContextManager[PlanRows]]


class Planner:
    """Makes plans. Thread-safe."""

    def __init__(
        self,
        reading: Reading,
        settings: Settings,
        models: Models,
        prices: ListPrices,
        prompts: Prompts = BUILT_IN,
    ) -> None:
        self._reading = reading
        self._settings = settings
        self._models = models
        self._by_step = {Step.EXTRACT: models.extract, Step.SUMMARIZE: models.summarize, Step.EMBED: models.embed}
        self._prices = prices
        self._prompts = prompts

    def plan(self, tenant: TenantId, source: StoredForest, options: Options) -> Plan:
        """The plan for a forest. Raises InvalidInput for an impossible rule, StoreUnavailable."""
        settings = ruled(self._settings, rules_of(self._settings, source.rules, options.rules))
        with self._reading(tenant) as rows:
            counts = rows.counts(source.id, self._models.embed)
            history = {
                step: rows.spent(step, model) if model is not None else Spent(0, 0, 0, 0.0)
                for step, model in self._by_step.items()
            }
        extracted = self._extraction(tenant, source.id) if options.extract else _Extraction()
        written = self._summaries(tenant, source.id, options, settings, history[Step.SUMMARIZE])
        return self._plan(counts, extracted, written, history, options)

    def _extraction(self, tenant: TenantId, source: ForestId) -> _Extraction:
        """Windows that are extracted again; those without a cached answer cost a call."""
        total = _Extraction()
        after: SessionId | None = None
        while True:
            with self._reading(tenant) as rows:
                claimed, after = rows.windows_after(source, after, BATCH_TURNS)
                if after is None:
                    return total
                total.cells += sum(len(each.cells) for each in claimed)
                total.windows += len(claimed)
                model = self._models.extract
                if model is not None:
                    windows = [window_of(each)[0] for each in claimed]
                    system = extraction.fixed_part(self._settings.extract, self._prompts.extract)
                    keys = [extraction.input_hash(window, model, system) for window in windows]
                    paid = rows.cached_answers(keys)
                    for window, key in zip(windows, keys, strict=True):
                        if key not in paid:
                            total.calls += 1
                            shown = extraction.system_for(window, system)
                            total.prompt_chars += len(shown) + len(extraction.render_window(window))

    def _summaries(
        self, tenant: TenantId, source: ForestId, options: Options, settings: Settings, spent: Spent
    ) -> SummaryWork:
        """Trees as they are now, in their new branching: the facts of a scene are known only afterwards."""
        budget = settings.refresh.budget_chars
        usual = spent.completion_tokens * CHARS_PER_TOKEN // spent.calls if spent.calls else budget // 2
        by_kind = {
            TreeKind.SESSION: settings.tree.session_k,
            TreeKind.ENTITY: settings.tree.entity_k,
            TreeKind.SCENE: settings.tree.scene_k,
        }
        model, total = self._models.summarize, SummaryWork()
        own = self._prompts.summarize
        refresh = settings.refresh
        expected = Expected(
            keyed_model(model or "", own), budget, usual, own, refresh.model_from_leaves, refresh.model_reads_last
        )
        reuse = model is not None and not options.summaries
        after: TreeId | None = None
        while True:
            with self._reading(tenant) as rows:
                trees = rows.trees_after(source, after, BATCH_TREES)
                for tree in trees:
                    work = estimate(tree, by_kind[tree.kind], expected, rows.paid_summaries if reuse else lambda _: {})
                    total.written += work.written
                    total.reused += work.reused
                    if model is not None:
                        total.calls += work.calls
                        total.prompt_chars += work.prompt_chars
            if not trees:
                return total
            after = trees[-1].id

    def _plan(
        self,
        counts: Counts,
        extracted: _Extraction,
        written: SummaryWork,
        history: dict[Step, Spent],
        options: Options,
    ) -> Plan:
        settings, per_window = self._settings, counts.candidate_chars // max(1, extracted.windows)
        extracted_tokens = _usual(history[Step.EXTRACT], per_window // CHARS_PER_TOKEN)
        summary_tokens = _usual(history[Step.SUMMARIZE], settings.refresh.budget_chars // 2 // CHARS_PER_TOKEN)
        # Each new candidate's text is embedded; labels are few.
        reread = extracted.windows if self._models.extract is None else extracted.calls
        fresh = round(counts.candidates * reread / max(1, extracted.windows)) if options.extract else 0
        summarized = written.calls + written.reused
        texts = counts.unembedded + fresh + summarized
        chars = (
            counts.unembedded_chars
            + fresh * counts.text_chars // max(1, counts.candidates)
            + summarized * summary_tokens * CHARS_PER_TOKEN
        )
        tokens = {
            Step.EXTRACT: (extracted.prompt_chars // CHARS_PER_TOKEN, extracted.calls * extracted_tokens),
            Step.SUMMARIZE: (written.prompt_chars // CHARS_PER_TOKEN, written.calls * summary_tokens),
            Step.EMBED: (chars // CHARS_PER_TOKEN, 0),
        }
        batches = -(-summarized // settings.refresh.batch_nodes) + -(-counts.unembedded // settings.index.batch)
        return Plan(
            sessions=counts.sessions,
            turns=counts.turns,
            cells=counts.cells,
            cells_to_extract=extracted.cells,
            extraction_calls=extracted.calls,
            extractions_reused=extracted.windows - reread,
            facts_to_place=counts.candidates,
            summaries=written.written,
            summary_calls=written.calls,
            summaries_reused=written.reused,
            texts_to_embed=texts,
            embedding_calls=batches + (extracted.calls if fresh else 0),
            prompt_tokens=tokens[Step.EXTRACT][0] + tokens[Step.SUMMARIZE][0],
            cached_tokens=_cached_of({step: tokens[step][0] for step in (Step.EXTRACT, Step.SUMMARIZE)}, history),
            completion_tokens=tokens[Step.EXTRACT][1] + tokens[Step.SUMMARIZE][1],
            embedding_tokens=tokens[Step.EMBED][0],
            cost_usd=self._cost(tokens, history),
        )

    def _cost(self, tokens: dict[Step, tuple[int, int]], history: dict[Step, Spent]) -> float | None:
        """By what tokens of the step and model have cost this tenant, else by list; None when one is unknown."""
        total = 0.0
        for step, (prompt, completion) in tokens.items():
            model, spent = self._by_step[step], history[step]
            if model is None or not prompt + completion:
                continue
            seen = spent.prompt_tokens + spent.completion_tokens
            if seen and spent.cost_usd > 0.0:
                total += spent.cost_usd / seen * (prompt + completion)
                continue
            listed = self._prices.cost_usd(step, model, prompt, completion, _cached(prompt, spent) or 0)
            if listed is None:
                return None
            total += listed
        return total


def _usual(spent: Spent, otherwise: int) -> int:
    """Tokens that a call's answer has."""
    return round(spent.completion_tokens / spent.calls) if spent.calls else otherwise


def _cached(prompt_tokens: int, spent: Spent) -> int | None:
    """Of so many prompt tokens, those that the provider's cache knows, by the share of the calls so far."""
    return round(prompt_tokens * spent.cached_tokens / spent.prompt_tokens) if spent.prompt_tokens else None


def _cached_of(prompt_tokens: dict[Step, int], history: dict[Step, Spent]) -> int | None:
    """The same over all steps; None as soon as one will be called of which no call is known."""
    known = [_cached(tokens, history[step]) for step, tokens in prompt_tokens.items() if tokens]
    return None if None in known else sum(each or 0 for each in known)


def planned(plan: Plan) -> Numbers:
    """What a dry run ends with."""
    return {"phase": "planned", **plan.numbers()}
