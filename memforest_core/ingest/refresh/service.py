"""One unit of refresh: claim ready nodes, write their texts with nothing locked, save those that are still newer."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from memforest_core.domain.extractive import summarize
from memforest_core.domain.ids import ForestId, LeaseToken, NodeId, TenantId, WorkerId
from memforest_core.domain.indexed import TermCounts, add_counts
from memforest_core.errors import (
    ContentFault,
    ContentRefused,
    ContextTooLong,
    MemForestError,
    ModelRejected,
    RetryableError,
    StoreContended,
    StoreUnavailable,
)
from memforest_core.index.records import PointLease
from memforest_core.ingest.refresh.records import ChildText, NodeArtifact, Paid, ReadyNode, SummarySource, Title
from memforest_core.ingest.refresh.rows import RefreshRows
from memforest_core.ingest.refresh.summarizer import NEWEST_SHARE, OfflineSummarizer, Summarizer, Titles, input_hash
from memforest_core.models.calls import CallRecord, Embedder, Vectors, failed_call
from memforest_core.settings import RefreshSettings
from memforest_core.store.repeating import repeated
from memforest_core.work.jobs import CRASHED, Verdict, backoff, decide
from memforest_core.work.telemetry import SILENT, Telemetry

SAVE_TRIES = 3
"""A save whose connection broke is tried again at once: the summaries in it were paid for."""
REDO_AFTER_S = 60.0
"""A degraded summary is made again this long after the model was unavailable."""

LAST_SHARE = 3
"""Of a summary's length, one part in so many is for the last child where a model does not read it."""

STEP = "refresh"

_OF_TEXT = (ContextTooLong, ContentRefused)

T = TypeVar("T")

OTHER_SCENES = 40
"""Scenes of a forest whose terms a title is compared with."""

IDLE_LIMIT = 100
"""Trees settled at once that a dead worker had finished but not settled."""


@dataclass(frozen=True, slots=True)
class Written:
    """A node's text and where it came from."""

    text: str
    source: SummarySource
    paid: Paid | None = None
    """What a model wrote of it, where that is new."""


class RefreshService:
    """Refreshes the due trees of a tenant, one batch of ready nodes per call."""

    def __init__(
        self,
        open_rows: Callable[[TenantId], AbstractContextManager[RefreshRows]],
        summarizer: Summarizer,
        embedder: Embedder,
        settings: RefreshSettings,
        concurrency: int,
        rng: random.Random,
        telemetry: Telemetry = SILENT,
        titles: Titles | None = None,
    ) -> None:
        """``titles`` are made of terms unless given."""
        self._titles = titles or Titles()
        self._open_rows = open_rows
        self._summarizer = summarizer
        self._offline = OfflineSummarizer()
        self._embedder = embedder
        self._settings = settings
        self._concurrency = concurrency
        self._rng = rng
        self._telemetry = telemetry

    def run_one(
        self,
        tenant: TenantId,
        worker: WorkerId,
        lease: PointLease | None = None,
        claimed: Callable[[], None] = lambda: None,
    ) -> int:
        """Refresh one batch; how many nodes were claimed (0: none is ready), after which ``claimed`` is called. Raises
        StoreUnavailable. Index rows of new nodes are made under the ``lease``, for a caller that indexes them."""
        settings = self._settings
        with self._open_rows(tenant) as rows:
            token, nodes = rows.claim_ready(worker, settings.batch_nodes, settings.lease_s, settings.max_staleness_s)
            stale_s = [] if nodes else rows.settle_idle(IDLE_LIMIT)
        if not nodes:
            for seconds in stale_s:
                self._telemetry.reached("summaries", tenant, seconds)
            return 0
        settled = False
        try:
            claimed()
            with self._open_rows(tenant) as rows:
                # Children may be newer than the claim: a writer that changes one raises the version of its parent.
                ids = [node.id for node in nodes]
                children, stored = rows.children_of(ids, self._embedder.model), rows.stored_summaries(ids)
                nodes = [replace(node, children=tuple(children[node.id]), stored=stored.get(node.id)) for node in nodes]
                shown = [self._key(self._shown(node)) for node in nodes if self._summarizer.paid]
                paid = rows.paid_summaries(shown) if shown else {}
                scenes = rows.terms_of_scenes({node.forest_id for node in nodes if node.titled}, OTHER_SCENES)
            if paid:
                self._telemetry.saved_call(STEP, tenant, len(paid))
            with self._spans(nodes):
                self._refresh(tenant, token, nodes, paid, scenes, lease)
            settled = True
        except StoreUnavailable:
            settled = True
            # The nodes are given back at once, not when their lease ends.
            self._unlocked(tenant, [node.id for node in nodes], lambda rows, some: rows.release(token, some, 0.0))
            raise
        finally:
            if not settled:
                self._give_back(tenant, token, nodes, None)
        return len(nodes)

    def _refresh(
        self,
        tenant: TenantId,
        token: LeaseToken,
        nodes: Sequence[ReadyNode],
        paid: Mapping[bytes, str],
        scenes: Mapping[ForestId, Sequence[TermCounts]],
        lease: PointLease | None,
    ) -> None:
        calls: list[CallRecord] = []
        try:
            written = self._write(nodes, paid, calls)
            artifacts = self._artifacts(nodes, written, self._titled(nodes, scenes, calls), calls)
        except StoreUnavailable:
            raise
        except MemForestError as error:
            calls.extend(failed_call(error))
            self._telemetry.called(tenant, calls)
            with self._open_rows(tenant) as rows:
                rows.record_calls(calls, nodes[0].forest_id, None)
            if error.of_input and len(nodes) > 1:
                # One of them is at fault: the others do not wait for it.
                for node in nodes:
                    self._refresh(tenant, token, [node], paid, scenes, lease)
                return
            self._give_back(tenant, token, nodes, error)
            return
        # Before their nodes are saved: a worker killed in between leaves nodes that are refreshed again, and titled.
        if titled := [(each.node, each.title) for each in artifacts if each.title is not None]:
            self._unlocked(tenant, titled, lambda rows, some: rows.put_titles(some))
        # What was paid for is stored; nodes that were locked are saved one by one.
        for artifact in self._save_free(tenant, token, nodes[0].forest_id, artifacts, calls, lease):
            self._save_free(tenant, token, artifact.node.forest_id, [artifact], (), lease)
        self._telemetry.called(tenant, calls)
        trees = list(dict.fromkeys(node.tree_id for node in nodes))
        for seconds in self._in_rows(tenant, lambda rows: rows.settle(trees)):
            self._telemetry.reached("summaries", tenant, seconds)

    @repeated
    def _in_rows(self, tenant: TenantId, act: Callable[[RefreshRows], T]) -> T:
        """Act in one transaction."""
        with self._open_rows(tenant) as rows:
            return act(rows)

    def _unlocked(
        self, tenant: TenantId, items: Sequence[T], act: Callable[[RefreshRows, Sequence[T]], Iterable[T]]
    ) -> None:
        """Act on all items at once, and on each that was locked then in a transaction of its own."""
        for item in self._in_rows(tenant, lambda rows: act(rows, items)):
            self._in_rows(tenant, lambda rows, one=item: act(rows, [one]))  # type: ignore[misc]

    @repeated
    def _save_free(
        self,
        tenant: TenantId,
        token: LeaseToken,
        forest: ForestId,
        artifacts: Sequence[NodeArtifact],
        calls: Sequence[CallRecord],
        lease: PointLease | None,
    ) -> Sequence[NodeArtifact]:
        """One transaction; nodes that are locked are left out and returned. A lost connection is tried again."""
        tries = 0
        while True:
            try:
                with self._open_rows(tenant) as rows:
                    locked = rows.save(token, artifacts, self._embedder.model, REDO_AFTER_S, lease)
                    rows.record_calls(calls, forest, None)
                return locked
            except StoreUnavailable as error:
                tries += 1
                if tries == SAVE_TRIES or isinstance(error, StoreContended):
                    raise

    def _spans(self, nodes: Sequence[ReadyNode]) -> ExitStack:
        """One span in the trace of each session whose tree is refreshed."""
        spans = ExitStack()
        for tree, trace in {node.tree_id: node.trace for node in nodes if node.trace}.items():
            spans.enter_context(self._telemetry.span(STEP, trace, tree=str(tree)))
        return spans

    def _give_back(
        self, tenant: TenantId, token: LeaseToken, nodes: Sequence[ReadyNode], error: MemForestError | None
    ) -> None:
        """End a failed try; ``error`` is None when a bug ended it."""
        most, jitter = self._settings.max_attempts, self._rng.random()
        attempts, ids = max(node.attempts for node in nodes), [node.id for node in nodes]
        if error is not None:
            decision = decide(error, attempts=attempts, max_attempts=most, divisible=False, jitter=jitter)
            if decision.verdict is Verdict.RETRY and not decision.counts:
                self._telemetry.retried(STEP, tenant, error.code)
                wait = max(1.0, decision.delay_s)
                self._unlocked(tenant, ids, lambda rows, some: rows.release(token, some, wait))
                return
        code, text = (error.code, error.message) if error is not None else (CRASHED, "See the worker's log.")
        tell = self._telemetry.buried if attempts >= most else self._telemetry.retried
        tell(STEP, tenant, code)
        wait = backoff(attempts, jitter)
        self._unlocked(tenant, ids, lambda rows, some: rows.fail(token, some, most, wait, code, text))

    def _key(self, children: Sequence[ChildText]) -> bytes:
        return input_hash(self._summarizer.model, self._settings.budget_chars, [child.text for child in children])

    def _shown(self, node: ReadyNode) -> Sequence[ChildText]:
        """The children that a model reads."""
        return node.children if self._settings.model_reads_last or not self._summarizer.paid else node.children[:-1]

    def _with_last(self, node: ReadyNode, text: str) -> str:
        """The text of the children that a model reads, and lines of the last one where it does not read that, with the
        newest at the end."""
        if len(self._shown(node)) == len(node.children):
            return text
        budget = self._settings.budget_chars // LAST_SHARE
        return f"{text}\n{summarize([node.children[-1].text], budget, budget // NEWEST_SHARE)}".strip("\n")

    def _write(self, nodes: Sequence[ReadyNode], paid: Mapping[bytes, str], calls: list[CallRecord]) -> list[Written]:
        """Texts in the order of the nodes; only those that need a model wait for it, side by side."""
        free = [self._free(node, paid) for node in nodes]
        to_call = [node for node, text in zip(nodes, free, strict=True) if text is None]
        called = iter(self._side_by_side(lambda node: self._ask(node, calls), to_call, self._summarizer.paid))
        return [text if text is not None else next(called) for text in free]

    def _titled(
        self, nodes: Sequence[ReadyNode], scenes: Mapping[ForestId, Sequence[TermCounts]], calls: list[CallRecord]
    ) -> dict[NodeId, Title | None]:
        """The titles of the scenes whose roots are among the nodes."""

        def title(node: ReadyNode) -> Title | None:
            return self._titles.title(node, scenes.get(node.forest_id, ()), calls)

        roots = [node for node in nodes if node.titled]
        made = self._side_by_side(title, roots, self._titles.chat is not None)
        return {node.id: each for node, each in zip(roots, made, strict=True)}

    def _side_by_side(self, make: Callable[[ReadyNode], T], nodes: Sequence[ReadyNode], waits: bool) -> list[T]:
        """What is made of each node, in their order; at once if making it ``waits`` for a model."""
        if len(nodes) < 2 or not waits:
            return [make(node) for node in nodes]
        with ThreadPoolExecutor(min(self._concurrency, len(nodes))) as threads:
            return list(threads.map(make, nodes))

    def _free(self, node: ReadyNode, paid: Mapping[bytes, str]) -> Written | None:
        """A text for which no model is called: the only child's, the children's joined, the one that the node has of
        the same inputs, one that a model wrote before, one of rules, or what a model would read where that fits."""
        texts, budget = [child.text for child in node.children if child.text], self._settings.budget_chars
        if len(texts) <= 1:
            return Written(texts[0] if texts else "", SummarySource.PASSED)
        if len(joined := "\n".join(texts)) <= budget:
            return Written(joined, SummarySource.JOINED)
        # No matter whether the cache has it: bundles don't carry that.
        if node.stored is not None and node.stored.key == self._key(node.children):
            return Written(node.stored.text, node.stored.source)
        if not self._summarizer.paid:
            return None
        shown = self._shown(node)
        if (known := paid.get(self._key(shown))) is not None:
            return Written(self._with_last(node, known), SummarySource.MODEL)
        if sum(child.leaves for child in node.children) < self._settings.model_from_leaves:
            return Written(self._offline.summarize(node, budget, []), SummarySource.EXTRACTIVE)
        joined = "\n".join(child.text for child in shown if child.text)
        return Written(self._with_last(node, joined), SummarySource.EXTRACTIVE) if len(joined) <= budget else None

    def _ask(self, node: ReadyNode, calls: list[CallRecord]) -> Written:
        budget, shown = self._settings.budget_chars, self._shown(node)
        try:
            text = self._summarizer.summarize(replace(node, children=tuple(shown)), budget, calls)
        except (RetryableError, ContentFault, ModelRejected) as error:
            if isinstance(error, ModelRejected) and not (error.of_input or isinstance(error, _OF_TEXT)):
                raise
            calls.extend(failed_call(error))
            return Written(self._offline.summarize(node, budget, calls), SummarySource.DEGRADED)
        if not self._summarizer.paid:
            return Written(text, SummarySource.EXTRACTIVE)
        return Written(self._with_last(node, text), SummarySource.MODEL, Paid(self._key(shown), text))

    def _artifacts(
        self,
        nodes: Sequence[ReadyNode],
        written: Sequence[Written],
        titles: Mapping[NodeId, Title | None],
        calls: list[CallRecord],
    ) -> list[NodeArtifact]:
        """Texts, vectors and term counts of nodes: a model's summary is embedded, others get their leaves' mean."""
        summaries = self._embedded((each.text for each in written if each.source is SummarySource.MODEL), calls)
        children = [child for node in nodes for child in node.children]
        # Leaves whose words changed and were not indexed since.
        leaves = self._embedded(dict.fromkeys(child.embedded for child in children if child.pooled is None), calls)
        artifacts = []
        for node, text in zip(nodes, written, strict=True):
            from_model, key = text.source is SummarySource.MODEL, self._key(node.children)
            mean = mean_vector(node.children, leaves, self._embedder.dimension)
            artifacts.append(
                NodeArtifact(
                    node=node,
                    text=text.text,
                    source=text.source,
                    model=self._summarizer.model,
                    # Another key, so that this text never counts as the model's own summary.
                    input_hash=b"degraded:" + key if text.source is SummarySource.DEGRADED else key,
                    vector=summaries.get(text.text, mean) if from_model else mean,
                    pooled=mean,
                    counts=add_counts(child.counts for child in node.children),
                    paid=text.paid,
                    title=titles.get(node.id),
                )
            )
        return artifacts

    def _embedded(self, texts: Iterable[str], calls: list[CallRecord]) -> dict[str, Vectors]:
        """The vectors of texts, by text; the call that made them is added to ``calls``."""
        known = [text for text in texts if text]
        if not known:
            return {}
        embedded = self._embedder.embed(known)
        calls.append(embedded.record)
        return dict(zip(known, embedded.vectors, strict=True))


def mean_vector(children: Iterable[ChildText], leaves: Mapping[str, Vectors], dimension: int) -> Vectors:
    """The mean of the children's pooled vectors weighted by their leaves, unit length. ``leaves`` has vectors of leaves
    that have none stored yet, by the text that is embedded."""
    total = np.zeros(dimension, np.float32)
    for child in children:
        pooled = child.pooled if child.pooled is not None else leaves.get(child.embedded)
        if pooled is not None:
            total += pooled * np.float32(child.leaves)
    length = float(np.linalg.norm(total))
    return total / np.float32(length) if length else total
