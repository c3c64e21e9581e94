"""What a rebuild would cost: calls, tokens and dollars, from the sizes of the forest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass

from memforest_core.domain.ids import TenantId
from memforest_core.ingest.extract import extraction_prompt as extraction
from memforest_core.ingest.reduce.records import ruled
from memforest_core.ingest.refresh.summarizer import summary_request
from memforest_core.lifecycle.hidden_forest_rows import StoredForest
from memforest_core.lifecycle.rebuild.records import Counts, Options, Plan, Spent, TreesAlike, rules_of
from memforest_core.lifecycle.rebuild.rows.forest_sizes import PlanRows
from memforest_core.models.accounting import ListPrices
from memforest_core.models.answers import BUILT_IN, Prompts
from memforest_core.models.calls import Step
from memforest_core.settings import RefreshSettings, Settings

CHARS_PER_TOKEN = 4
"""The usual rule of thumb for English; other languages take more tokens."""


def summary_work(trees: TreesAlike, k: int, settings: RefreshSettings, usual: int, own: str | None) -> Counter[str]:
    """What writing the summaries of such trees in branching ``k`` takes: ``nodes``, ``calls`` and ``prompt_chars``.

    A node calls a model when its children's texts together are too long, and the tree below it is large enough.
    ``usual`` is how long a model's summary usually is, ``own`` are instructions in place of the built-in ones.
    """
    work: Counter[str] = Counter()
    width, below, chars = trees.leaves, 1, trees.leaf_chars
    while width > 1 or not work:
        children = min(k, width)
        width, below = -(-width // children), below * children
        work["nodes"] += width
        shown = max(1, children - (not settings.model_reads_last))
        if shown == 1 or shown * (chars + 1) <= settings.budget_chars:
            chars = min(children * (chars + 1), settings.budget_chars) if children > 1 else chars
        elif below < settings.model_from_leaves:
            chars = settings.budget_chars
        else:
            request = summary_request(trees.kind, "", ["x" * chars] * shown, settings.budget_chars, own)
            work["calls"] += width
            work["prompt_chars"] += width * sum(len(message.content) for message in request.messages)
            chars = usual
    return Counter({name: count * trees.trees for name, count in work.items()})


Reading = Callable[[TenantId], AbstractContextManager[PlanRows]]


@dataclass(frozen=True, slots=True)
class Planner:
    """Makes plans. Thread-safe."""

    reading: Reading
    settings: Settings
    models: Mapping[Step, str | None]
    """Of extraction, summaries and embedding; an extraction or summary model that is None costs nothing."""
    prices: ListPrices
    prompts: Prompts = BUILT_IN

    def plan(self, tenant: TenantId, source: StoredForest, options: Options) -> Plan:
        """The plan for a forest. Raises InvalidInput for an impossible rule, StoreUnavailable."""
        rules = ruled(self.settings, rules_of(self.settings, source.rules, options.rules))
        with self.reading(tenant) as rows:
            counts = rows.counts(source.id, self.models[Step.EMBED] or "")
            history = {
                step: rows.spent(step, model) if model is not None else Spent(0, 0, 0, 0.0)
                for step, model in self.models.items()
            }
            trees = rows.trees(source.id)
        written = self._summaries(trees, options, rules, history[Step.SUMMARIZE])
        return self._plan(counts, written, history, options)

    def _summaries(self, trees: list[TreesAlike], options: Options, rules: Settings, spent: Spent) -> Counter[str]:
        """Trees as they are now, in their new branching: the facts of a scene are known only afterwards."""
        usual = (
            spent.completion_tokens * CHARS_PER_TOKEN // spent.calls if spent.calls else rules.refresh.budget_chars // 2
        )
        total: Counter[str] = Counter()
        for alike in trees:
            k = int(getattr(rules.tree, f"{alike.kind}_k"))
            work = summary_work(alike, k, rules.refresh, usual, self.prompts.summarize)
            if k == alike.k and not options.summaries and not options.extract:
                work = Counter(nodes=work["nodes"], reused=work["calls"])
            total += work
        if self.models[Step.SUMMARIZE] is None:
            total = Counter(nodes=total["nodes"])
        return total

    def _plan(self, counts: Counts, written: Counter[str], history: dict[Step, Spent], options: Options) -> Plan:
        windows = counts.windows if options.extract else 0
        calls = 0 if self.models[Step.EXTRACT] is None else windows
        per_window = counts.candidate_chars // max(1, counts.windows)
        extracted_tokens = _usual(history[Step.EXTRACT], per_window // CHARS_PER_TOKEN)
        summary_tokens = _usual(history[Step.SUMMARIZE], self.settings.refresh.budget_chars // 2 // CHARS_PER_TOKEN)
        # Each new candidate's text is embedded; labels are few.
        fresh = counts.candidates if options.extract else 0
        summarized = written["calls"] + written["reused"]
        chars = counts.unembedded_chars + summarized * summary_tokens * CHARS_PER_TOKEN
        chars += counts.text_chars if options.extract else 0
        fixed = len(extraction.fixed_part(self.settings.extract, self.prompts.extract))
        read_chars = calls * fixed + (counts.window_chars if calls else 0)
        tokens = {
            Step.EXTRACT: (read_chars // CHARS_PER_TOKEN, calls * extracted_tokens),
            Step.SUMMARIZE: (written["prompt_chars"] // CHARS_PER_TOKEN, written["calls"] * summary_tokens),
            Step.EMBED: (chars // CHARS_PER_TOKEN, 0),
        }
        batches = -(-summarized // self.settings.refresh.batch_nodes) + -(
            -counts.unembedded // self.settings.index.batch
        )
        return Plan(
            sessions=counts.sessions,
            turns=counts.turns,
            cells=counts.cells,
            cells_to_extract=counts.window_cells if options.extract else 0,
            extraction_calls=calls,
            facts_to_place=counts.candidates,
            summaries=written["nodes"],
            summary_calls=written["calls"],
            summaries_reused=written["reused"],
            texts_to_embed=counts.unembedded + fresh + summarized,
            embedding_calls=batches + calls,
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
            model, spent = self.models[step], history[step]
            if model is None or not prompt + completion:
                continue
            seen = spent.prompt_tokens + spent.completion_tokens
            if seen and spent.cost_usd > 0.0:
                total += spent.cost_usd / seen * (prompt + completion)
                continue
            listed = self.prices.cost_usd(step, model, prompt, completion, _cached(prompt, spent) or 0)
            if listed is None:
                return None
            total += listed
        return total


def _usual(spent: Spent, otherwise: int) -> int:
    return round(spent.completion_tokens / spent.calls) if spent.calls else otherwise


def _cached(prompt_tokens: int, spent: Spent) -> int | None:
    """Of so many prompt tokens, those that the provider's cache knows, by the share of the calls so far."""
    return round(prompt_tokens * spent.cached_tokens / spent.prompt_tokens) if spent.prompt_tokens else None


def _cached_of(prompt_tokens: dict[Step, int], history: dict[Step, Spent]) -> int | None:
    """The same over all steps; None as soon as one will be called of which no call is known."""
    known = [_cached(tokens, history[step]) for step, tokens in prompt_tokens.items() if tokens]
    return None if None in known else sum(each or 0 for each in known)
