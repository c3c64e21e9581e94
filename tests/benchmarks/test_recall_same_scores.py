"""A recall finds the same as one that looks every score up each time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from benchmarks.harness import Database
from benchmarks.recall_latency.filling import fill
from benchmarks.recall_latency.world import DIMENSION, TENANT, Requested, StoredVectors, World
from memforest_core.domain.evidence import Evidence
from memforest_core.index.qdrant.edge_index import EdgeIndex
from memforest_core.index.vector_index import VectorIndex
from memforest_core.recall.index_search import IndexSearch, Points
from memforest_core.recall.rows.recall_rows import RecallStore
from memforest_core.recall.service import RecallService
from memforest_core.settings import RecallSettings
from memforest_core.store.engine import open_engine
from tests.harness.servers import SessionServers
from tests.harness.stack import database

FACTS = 300
QUESTIONS = 8


def rebuilt(score: Callable[[IndexSearch, Points], None]) -> Callable[[IndexSearch, Points], None]:
    """The slow way: every point is looked up again."""

    def forgetful(search: IndexSearch, ids: Points) -> None:
        search._meant.clear()
        search._worded.clear()
        score(search, ids)

    return forgetful


@pytest.fixture
def index(tmp_path: Path) -> Iterator[VectorIndex]:
    with closing(EdgeIndex(tmp_path, StoredVectors.model, DIMENSION)) as edge:
        edge.prepare()
        yield edge


@pytest.fixture
def filled(servers: SessionServers, index: VectorIndex) -> Iterator[tuple[Database, list[Requested]]]:
    """A forest of entity, scene and session trees with all their points, and questions about it."""
    with database(servers) as settings:
        assert settings.migration_url is not None
        running = Database(open_engine(settings), open_engine(settings, settings.migration_url.get_secret_value()))
        world = World(5)
        said = fill(running, index, world, "alice", FACTS, 5)
        yield running, [world.question(said) for _ in range(QUESTIONS)]
        running.service.dispose()
        running.owner.dispose()


def evidence(running: Database, index: VectorIndex, requested: Sequence[Requested]) -> list[tuple[Evidence, ...]]:
    settings = RecallSettings(flat_limit=10, fact_limit=10)
    service = RecallService(RecallStore(running.service), index, StoredVectors(requested), settings)
    return [service.recall(TENANT, "alice", one.text, mode="embedding").evidence for one in requested]


def test_nothing_that_is_saved_changes_what_is_found(
    filled: tuple[Database, list[Requested]], index: VectorIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given a forest, when every score is computed by a new search, then evidence and scores are the same."""
    running, requested = filled
    quick = evidence(running, index, requested)
    monkeypatch.setattr(IndexSearch, "score", rebuilt(IndexSearch.score))
    monkeypatch.setattr(IndexSearch, "glance", rebuilt(IndexSearch.glance))
    slow = evidence(running, index, requested)
    assert all(quick)
    for found, expected in zip(quick, slow, strict=True):
        assert [piece.text for piece in found] == [piece.text for piece in expected]
        assert [piece.score for piece in found] == pytest.approx([piece.score for piece in expected], abs=1e-4)
