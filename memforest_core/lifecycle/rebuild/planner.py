"""What a rebuild would cost: calls, tokens and dollars."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from memforest_core.domain.extractive import summarize
from memforest_core.domain.ids import ForestId, SessionId, TenantId, TreeId, TreeKind
from memforest_core.ingest.extract import extraction_prompt as extraction
from memforest_core.ingest.extract.service import window_of
from memforest_core.ingest.reduce.records import ruled
from memforest_core.ingest.refresh.summarizer import input_hash, keyed_model, summary_request
from memforest_core.lifecycle.hidden_forest_rows import StoredForest
from memforest_core.lifecycle.rebuild.records import Counts, Options, Plan, PlannedTree, Spent, rules_of
from memforest_core.lifecycle.rebuild.rows.forest_sizes import PlanRows
from memforest_core.memtree.shape import fill_right
from memforest_core.models.accounting import ListPrices
from memforest_core.models.answers import BUILT_IN, Prompts
from memforest_core.models.calls import Step
from memforest_core.settings import Settings

Paid = Callable[[Sequence[bytes]], dict[bytes, str]]
"""Summaries that were made before, by the hashes of their inputs."""


@dataclass(frozen=True, slots=True)
class Text:
    """A node's text and its length in characters; the text is None where a model has yet to write it."""

    text: str | None
    chars: int
    leaves: int = 1


@dataclass(slots=True)
class SummaryWork:
    """What writing summaries takes."""

    written: int = 0
    """Summaries that need no model, or were made before."""
    reused: int = 0
    """Those among them that a model made before."""
    calls: int = 0
    prompt_chars: int = 0


@dataclass(frozen=True, slots=True)
class Expected:
    """How summaries are made."""

    model: str
    """As part of their keys."""
    budget: int
    """Their length in characters."""
    usual: int
    """How long a model's usually are."""
    own: str | None = None
    """Instructions in place of the built-in ones."""
    from_leaves: int = 1
    """Above so many leaves or more a model writes them, else rules."""
    reads_last: bool = True
    """Whether a model reads a node's last child."""


def estimate(tree: PlannedTree, k: int, expected: Expected, paid: Paid) -> SummaryWork:
    """The work for one tree of branching ``k``, in the shape that appending in order gives."""
    work = SummaryWork()
    level = [Text(text, len(text)) for text in tree.texts]
    while level:
        groups = fill_right(level, k)
        keys = [_key(expected, _shown(expected, group)) for group in groups]
        known = paid([key for key in keys if key is not None])
        level = [
            _parent(tree, [child for child in group if child.chars], key, expected, known, work)
            for group, key in zip(groups, keys, strict=True)
        ]
        if len(level) == 1:
            break
    return work


def _shown(expected: Expected, group: Sequence[Text]) -> Sequence[Text]:
    return group if expected.reads_last else group[:-1]


def _key(expected: Expected, children: Sequence[Text]) -> bytes | None:
    texts = [child.text for child in children if child.text is not None]
    return input_hash(expected.model, expected.budget, texts) if len(texts) == len(children) else None


def _parent(
    tree: PlannedTree,
    children: Sequence[Text],
    key: bytes | None,
    expected: Expected,
    known: dict[bytes, str],
    work: SummaryWork,
) -> Text:
    """A node above these children, by the rules of refresh, in its order."""
    work.written += 1
    if len(children) <= 1:
        return children[0] if children else Text("", 0)
    leaves = sum(child.leaves for child in children)
    joined = sum(child.chars for child in children) + len(children) - 1
    texts = [child.text for child in children if child.text is not None]
    if joined <= expected.budget:
        return Text("\n".join(texts) if len(texts) == len(children) else None, joined, leaves)
    if key is not None and key in known:
        work.reused += 1
        # What rules add of the last child is not known here: as where a model has yet to write.
        return Text(known[key] if expected.reads_last else None, len(known[key]), leaves)
    if leaves < expected.from_leaves:
        picked = summarize(texts, expected.budget) if len(texts) == len(children) else None
        return Text(picked, expected.budget if picked is None else len(picked), leaves)
    shown = _shown(expected, children)
    if sum(child.chars for child in shown) + len(shown) - 1 <= expected.budget:
        return Text(None, expected.budget, leaves)
    work.calls += 1
    said = [child.text or "x" * child.chars for child in shown]
    request = summary_request(tree.kind, tree.label, said, expected.budget, expected.own)
    work.prompt_chars += sum(len(message.content) for message in request.messages)
    return Text(None, expected.usual, leaves)


CHARS_PER_TOKEN = 4
"""The usual rule of thumb for English; other languages take more tokens."""
BATCH_TURNS = 4_000
BATCH_TREES = 200


@dataclass(slots=True)
class _Extraction:
    cells: int = 0
    windows: int = 0
    calls: int = 0
    prompt_chars: int = 0


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
        settings = ruled(self.settings, rules_of(self.settings, source.rules, options.rules))
        with self.reading(tenant) as rows:
            counts = rows.counts(source.id, self.models[Step.EMBED] or "")
            history = {
                step: rows.spent(step, model) if model is not None else Spent(0, 0, 0, 0.0)
                for step, model in self.models.items()
            }
        extracted = self._extraction(tenant, source.id) if options.extract else _Extraction()
        written = self._summaries(tenant, source.id, options, settings, history[Step.SUMMARIZE])
        return self._plan(counts, extracted, written, history, options)

    def _extraction(self, tenant: TenantId, source: ForestId) -> _Extraction:
        """Windows that are extracted again; those without a cached answer cost a call."""
        total = _Extraction()
        after: SessionId | None = None
        while True:
            with self.reading(tenant) as rows:
                claimed, after = rows.windows_after(source, after, BATCH_TURNS)
                if after is None:
                    return total
                total.cells += sum(len(each.cells) for each in claimed)
                total.windows += len(claimed)
                model = self.models[Step.EXTRACT]
                if model is not None:
                    windows = [window_of(each)[0] for each in claimed]
                    system = extraction.fixed_part(self.settings.extract, self.prompts.extract)
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
        model, total = self.models[Step.SUMMARIZE], SummaryWork()
        own = self.prompts.summarize
        refresh = settings.refresh
        expected = Expected(
            keyed_model(model or "", own), budget, usual, own, refresh.model_from_leaves, refresh.model_reads_last
        )
        reuse = model is not None and not options.summaries
        after: TreeId | None = None
        while True:
            with self.reading(tenant) as rows:
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
        self, counts: Counts, extracted: _Extraction, written: SummaryWork, history: dict[Step, Spent], options: Options
    ) -> Plan:
        settings, per_window = self.settings, counts.candidate_chars // max(1, extracted.windows)
        extracted_tokens = _usual(history[Step.EXTRACT], per_window // CHARS_PER_TOKEN)
        summary_tokens = _usual(history[Step.SUMMARIZE], settings.refresh.budget_chars // 2 // CHARS_PER_TOKEN)
        # Each new candidate's text is embedded; labels are few.
        reread = extracted.windows if self.models[Step.EXTRACT] is None else extracted.calls
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
