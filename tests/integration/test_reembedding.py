"""Another embedding model for a whole database: planned, resumed after a kill, switched at the end, nothing lost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from memforest_core.client.api import MemForest
from memforest_core.client.services.service import open_reembedding, open_services
from memforest_core.errors import InvalidSettings
from memforest_core.models.calls import CallRecord, Embedded, Embedder, Step
from memforest_core.store.vectors import from_bytes
from memforest_workers.runtime import Runtime
from tests.harness.model_answers import HASH_DIMENSION, hash_vector
from tests.harness.model_server import ModelServer
from tests.harness.sayings import said
from tests.harness.servers import SessionServers
from tests.harness.stack import Stack, stack

LAMPS = said(*[f"I paid {n} dollars for a brass lamp numbered {n}." for n in range(12)])
PETS = said("I adopted a dog named Rex.", "I love hiking.", "I live in Davis.", name="Ada")


class Killed(BaseException):
    """The process ends here."""


class Hashed:
    """An embedder of another dimension that may die after some calls."""

    model = "hashed-words"
    dimension = HASH_DIMENSION

    def __init__(self, dies_after: int | None = None) -> None:
        self.texts: list[str] = []
        self.calls = 0
        self._dies_after = dies_after

    def embed(self, texts: Sequence[str]) -> Embedded:
        if self._dies_after is not None and self.calls >= self._dies_after:
            raise Killed
        self.calls += 1
        self.texts.extend(texts)
        vectors = np.asarray([hash_vector(text) for text in texts], np.float32)
        tokens = sum(map(len, texts)) // 4
        return Embedded(vectors, CallRecord(Step.EMBED, self.model, tokens, 0, 0, 0.0, 0.0, "ok"))

    def embed_query(self, texts: Sequence[str]) -> Embedded:
        return self.embed(texts)


@pytest.fixture
def owners(servers: SessionServers, tmp_path: Path, embedder: Embedder) -> Iterator[Stack]:
    """Two owners with facts, scenes and summaries that a model wrote; the workers have left."""
    with ModelServer() as server:
        llm = {"model": "openai/test", "api_base": server.url, "api_key": "none"}
        with stack(servers, tmp_path, embedder=embedder, llm=llm) as running:
            running.memory.client.enqueue("bob", "lamps", LAMPS)
            running.memory.client.enqueue("ada", "pets", PETS)
            running.drive()
            running.services.jobs.leave(running.runtime.worker)
            yield running


def test_another_embedding_model_takes_over_the_whole_database(owners: Stack, embedder: Embedder) -> None:
    before = {row.text for row in owners.rows("SELECT text FROM memforest.fact")}
    with open_reembedding(owners.settings, Hashed()) as fresh:
        plan = fresh.plan()
    assert (plan.model, plan.dimension, plan.tenants) == ("hashed-words", HASH_DIMENSION, 1)
    dying = Hashed(dies_after=1)
    with pytest.raises(Killed), open_reembedding(owners.settings, dying) as fresh:
        fresh.run()
    assert owners.memory.recall("ada", "Where do I live?").evidence
    assert owners.rows("SELECT model FROM memforest.collection WHERE live")[0].model == embedder.model
    new = Hashed()
    with open_reembedding(owners.settings, new) as fresh:
        assert 0 < fresh.plan().texts_to_embed < plan.texts_to_embed
        fresh.run()

    embedded = dying.texts + new.texts
    assert len(set(embedded)) == len(embedded) == pytest.approx(plan.texts_to_embed, rel=0.2)
    assert plan.embedding_tokens == pytest.approx(sum(map(len, embedded)) / 4, rel=0.2)
    assert plan.embedding_calls >= 1
    assert plan.cost_usd is None
    with pytest.raises(InvalidSettings, match="memforest rematerialize --embedding"):
        open_services(owners.settings, embedder=embedder)
    owners.services.close()
    services = open_services(owners.settings, embedder=Hashed())
    try:
        assert_taken_over(owners, services_of=MemForest(services), facts=before)
    finally:
        services.close()


def assert_taken_over(owners: Stack, services_of: MemForest, facts: set[str]) -> None:
    """Vectors, summaries, centroids and points are the new model's, and the pipeline goes on with it."""
    services = services_of._services
    assert {row.text for row in owners.rows("SELECT text FROM memforest.fact")} == facts
    vectors = "vector, coalesce(pooled, vector) AS pooled"
    for row in owners.rows(f"SELECT vector_model, {vectors} FROM memforest.node_summary"):
        assert (row.vector_model, len(from_bytes(row.vector)), len(from_bytes(row.pooled))) == (
            "hashed-words",
            HASH_DIMENSION,
            HASH_DIMENSION,
        )
    scenes = owners.rows("SELECT centroid FROM memforest.tree WHERE centroid IS NOT NULL")
    assert scenes
    assert {len(from_bytes(row.centroid)) for row in scenes} == {HASH_DIMENSION}
    found = services_of.recall("ada", "Where do I live?")
    assert any("Davis" in piece.text for piece in found.evidence)
    runtime = Runtime(services, ["extract", "reduce", "refresh", "maintain"], name="new")
    services.jobs.register(runtime.worker, runtime.name, runtime.queues)
    after = Stack(owners.settings, services, runtime, services_of)
    services.maintenance.generations.check(now=True)
    services_of.client.enqueue("bob", "later", said("I bought a red kayak.", start=1_701_000_000))
    after.drive()
    assert any("kayak" in piece.text for piece in services_of.recall("bob", "What did I buy?").evidence)
    assert after.broken() == {}


def test_it_is_refused_while_workers_run_or_when_nothing_would_change(owners: Stack, embedder: Embedder) -> None:
    same = Hashed()
    owners.services.jobs.register(owners.runtime.worker, "worker-1", ("reduce",))
    with open_reembedding(owners.settings, same) as fresh, pytest.raises(InvalidSettings, match="Stop the workers"):
        fresh.run()
    owners.services.jobs.leave(owners.runtime.worker)
    owners.services.close()
    with open_reembedding(owners.settings, embedder) as live:
        assert live.plan().texts_to_embed == 0
        with pytest.raises(InvalidSettings, match="is the embedding model already"):
            live.run()
    assert same.texts == []


def test_what_is_deleted_before_a_change_goes_on_leaves_no_vector_of_either_model(owners: Stack) -> None:
    with pytest.raises(Killed), open_reembedding(owners.settings, Hashed(dies_after=1)) as fresh:
        fresh.run()
    models = """SELECT count(DISTINCT model) FROM memforest.vector
        WHERE forest_id = (SELECT forest_id FROM memforest.forest WHERE owner = 'bob')"""
    assert owners.rows(models) == [(2,)]
    owners.memory.lifecycle.forget("bob", session="lamps", actor="tester")
    owners.drive()
    assert owners.rows(models) == [(0,)]
