"""Changes the embedding model of a whole database: vectors first, then a new collection, then one switch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from uuid import UUID

from memforest_core.domain.ids import ForestId, TenantId, TreeId, WorkerId
from memforest_core.errors import IndexUnavailable, InvalidSettings
from memforest_core.index.rows import IndexRows
from memforest_core.index.vector_index import PointKind, VectorIndex
from memforest_core.ingest.refresh.service import mean_vector
from memforest_core.lifecycle.rebuild.records import TextKind
from memforest_core.lifecycle.rebuild.rows.reembedding import ReembedRows, alive_workers, live_collection, make_live
from memforest_core.models.accounting import ListPrices
from memforest_core.models.calls import Embedder, Step, Vectors
from memforest_core.models.statement_vectors import StatementEmbedder
from memforest_core.store.engine import Engine
from memforest_core.store.rows import FIRST

BATCH = 256
"""Rows read, and at most about this many texts embedded, between two commits."""
CHARS_PER_TOKEN = 4

Indexing = Callable[[TenantId, WorkerId, Sequence[PointKind]], int]
"""Writes one batch of what is behind to the new collection; how many points."""
Watch = Callable[[str, int], None]
"""Gets the kind of what is written and how much of it is done."""


@dataclass(frozen=True, slots=True)
class EmbeddingPlan:
    """The work and cost of a change to another embedding model."""

    model: str
    dimension: int
    collection: str
    tenants: int
    texts_to_embed: int
    """Of cells, candidates and summaries, that have no vector of the model yet; without the labels of routing."""
    embedding_calls: int
    """About: texts are sent in batches."""
    embedding_tokens: int
    summaries: int
    """Whose vectors change; those that no model wrote pool their leaves' and are not embedded."""
    scenes: int
    cost_usd: float | None
    """None when the price of the model is unknown."""


class TextVectors:
    """Gives stored texts of a tenant, or of one forest, vectors of a model. What has them already is skipped."""

    def __init__(self, engine: Engine, embedder: Embedder) -> None:
        self._engine = engine
        self._embedder = embedder
        self._statements = StatementEmbedder(embedder)

    def embed(self, tenant: TenantId, kind: TextKind, forest: ForestId | None = None) -> Iterator[int]:
        """Embed texts of a kind and commit their vectors, page by page: how many texts are done after each."""
        done, after = 0, FIRST
        while True:
            with ReembedRows.opened(self._engine, tenant) as rows:
                page, parts, last = rows.texts_after(kind, after, BATCH, forest)
                known = rows.known_vectors(self._embedder.model, page)
            if last is None:
                return
            after = last
            missing = [text for text in dict.fromkeys(page) if text not in known]
            if missing:
                texts = list(dict.fromkeys(each.text for each in missing))
                embedded = self._statements.embed(texts, parts)
                vectors: dict[str, Vectors] = dict(zip(texts, embedded.vectors, strict=True))
                with ReembedRows.opened(self._engine, tenant) as rows:
                    rows.put_vectors(self._embedder.model, {each: vectors[each.text] for each in missing})
                    rows.record_call(embedded.record)
            done += len(page)
            yield done

    def recenter(self, tenant: TenantId, forest: ForestId | None = None) -> None:
        """Compute the centroids of scenes, which are sums of their facts' vectors."""
        after: TreeId | None = None
        while True:
            with ReembedRows.opened(self._engine, tenant) as rows:
                after = rows.recenter(after, (self._embedder.model, self._embedder.dimension), BATCH, forest)
            if after is None:
                return


@dataclass(frozen=True, slots=True)
class Reembedding:
    """Changes the embedding model of a database. It has the new embedder and the new collection; for one thread."""

    engine: Engine
    tenants: Callable[[], Sequence[TenantId]]
    embedder: Embedder
    index: VectorIndex
    indexing: Indexing
    prices: ListPrices
    dead_after_s: float

    def plan(self) -> EmbeddingPlan:
        """The work and cost, by the texts that have no vector of the model. Raises StoreUnavailable."""
        total: Counter[str] = Counter()
        model, tenants, paid = self.embedder.model, self.tenants(), 0.0
        for tenant in tenants:
            with ReembedRows.opened(self.engine, tenant) as rows:
                (texts, chars), sizes, spent = rows.unembedded(model), rows.sizes(model), rows.spent(Step.EMBED, model)
            calls = -(-texts // BATCH) + -(-sizes["written"] // BATCH)
            total.update(sizes)
            total.update(written=texts, chars=chars, calls=calls, paid_tokens=spent.prompt_tokens)
            paid += spent.cost_usd
        tokens = total["chars"] // CHARS_PER_TOKEN
        by_list = self.prices.cost_usd(Step.EMBED, model, tokens, 0)
        return EmbeddingPlan(
            model=model,
            dimension=self.embedder.dimension,
            collection=self.index.name,
            tenants=len(tenants),
            texts_to_embed=total["written"],
            embedding_calls=total["calls"],
            embedding_tokens=tokens,
            summaries=total["summaries"],
            scenes=total["scenes"],
            cost_usd=paid / total["paid_tokens"] * tokens if total["paid_tokens"] and paid > 0.0 else by_list,
        )

    def run(self, watch: Watch = lambda what, done: None) -> None:
        """Embed all texts, write the new collection, and switch from the live one; resumable: stored vectors are used.

        Workers must be stopped: they would use the old model. Recall uses the old collection until the
        switch. Raises InvalidSettings while workers run or when the model is in use already, ModelUnavailable,
        IndexUnavailable, StoreUnavailable.
        """
        alive = alive_workers(self.engine, self.dead_after_s)
        if alive:
            raise InvalidSettings(
                f"Stop the workers first, {len(alive)} are running ({', '.join(alive[:3])}): they would go on with the"
                " embedding model there was."
            )
        if live_collection(self.engine) == self.index.name:
            raise InvalidSettings(f"{self.embedder.model} is the embedding model already.")
        make_live(self.engine, self.index.name, self.embedder.model, self.embedder.dimension, live=False)
        tenants, texts = self.tenants(), TextVectors(self.engine, self.embedder)
        for tenant in tenants:
            for kind in TextKind:
                for done in texts.embed(tenant, kind):
                    watch(kind.value, done)
            with ReembedRows.opened(self.engine, tenant) as rows:
                rows.drop_changed()
            self._summaries(tenant, watch)
            texts.recenter(tenant)
        self.index.prepare()
        for tenant in tenants:
            self._fill(tenant, watch)
        make_live(self.engine, self.index.name, self.embedder.model, self.embedder.dimension)

    def _summaries(self, tenant: TenantId, watch: Watch) -> None:
        """Level by level, so that a node pools what its children have already."""
        with ReembedRows.opened(self.engine, tenant) as rows:
            levels = rows.levels()
        done = 0
        for level in range(1, levels + 1):
            while True:
                with ReembedRows.opened(self.engine, tenant) as rows:
                    nodes = rows.summaries(level, self.embedder.model, BATCH)
                if not nodes:
                    break
                written = [node for node in nodes if node.from_model]
                vectors: dict[UUID, Vectors] = {}
                if written:
                    embedded = self.embedder.embed([node.text for node in written])
                    vectors = {node.node_id: each for node, each in zip(written, embedded.vectors, strict=True)}
                means = [mean_vector(node.children, {}, self.embedder.dimension) for node in nodes]
                made = [(vectors.get(node.node_id, mean), mean) for node, mean in zip(nodes, means, strict=True)]
                with ReembedRows.opened(self.engine, tenant) as rows:
                    rows.put_summaries(self.embedder.model, nodes, made)
                    if written:
                        rows.record_call(embedded.record)
                done += len(nodes)
                watch("summary", done)

    def _fill(self, tenant: TenantId, watch: Watch) -> None:
        """All points of a tenant, written by the indexer: rows count as indexed when the new collection has them."""
        after: UUID | None = None
        while True:
            with IndexRows.opened(self.engine, tenant) as rows:
                after, _ = rows.mark_all(after, BATCH, None, lost=True)
            if after is None:
                break
        worker, done = WorkerId(UUID(int=0)), 0
        while written := self.indexing(tenant, worker, tuple(PointKind)):
            done += written
            watch("point", done)
        with IndexRows.opened(self.engine, tenant) as rows:
            left = sum(rows.behind_by_kind().values())
        if left:
            raise IndexUnavailable(f"{left} points could not be written to {self.index.name}: run it again.")
