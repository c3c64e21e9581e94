"""Token vectors: stored with cells, read by recall for the best evidence items, made again where they are missing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from memforest_core.domain.chat_messages import TurnInput
from memforest_core.domain.evidence import Evidence
from memforest_core.domain.ids import TenantId
from memforest_core.index.vector_index import PointKind
from memforest_core.models.calls import CallRecord, Embedded, OwnText, Step
from memforest_core.models.token_vectors import PACKED, from_bytes
from memforest_core.store.vectors import VectorRows
from tests.harness.sayings import said
from tests.harness.servers import SessionServers
from tests.harness.stack import Stack, stack

QUESTION = "Who repairs old wooden boats?"
BOATS = said(
    "The weather was lovely on Sunday, wasn't it?",
    "Yes, and Tom restores ships made of timber.",
    "I cooked lentils with my sister again.",
    "My train was late, so I read a magazine.",
)
OTHERS = said("Dogs are not allowed in the new park.", "I would like to learn the cello next year.")

TOKENS = """SELECT c.first_turn, v.tokens FROM memforest.cell c
              JOIN memforest.vector v ON v.forest_id = c.forest_id AND v.text_hash = c.text_hash ORDER BY 1"""
MISSING = "SELECT 1 FROM memforest.vector v JOIN memforest.cell c USING (text_hash) WHERE v.tokens IS NULL"


class Plain:
    """An embedding model that gives no token vectors."""

    model = "plain"
    dimension = 64

    def embed(self, texts: list[str]) -> Embedded:
        rows = np.stack([np.random.default_rng(len(text)).normal(size=64).astype(np.float32) for text in texts])
        vectors = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return Embedded(vectors, CallRecord(Step.EMBED, self.model, 0, 0, 0, 0.0, 0.0, "ok"))

    embed_query = embed


@pytest.fixture
def plain(servers: SessionServers, tmp_path: Path) -> Iterator[Stack]:
    with stack(servers, tmp_path, embedder=Plain()) as running:  # type: ignore[arg-type]
        yield running


def tell(running: Stack, turns: list[TurnInput] = BOATS, owner: str = "ann") -> None:
    running.memory.ingest(owner, "talk", turns)
    running.drive()


def recalled(running: Stack, weight: float = 0.15, **options: object) -> tuple[Evidence, ...]:
    service = running.services.recall
    changed = replace(
        service, settings=service.settings.model_copy(update={"weights": service.settings.weights | {"tokens": weight}})
    )
    return changed.recall(running.tenant, "ann", QUESTION, 10, **options).evidence  # type: ignore[arg-type]


def mark_all(running: Stack) -> None:
    """What rebuilding an index does first."""
    with running.services.indexer.open_rows(running.tenant) as rows:
        rows.mark_all(None, 1000, None, lost=False)


def test_each_cell_is_stored_with_the_token_vectors_of_its_turns(pipeline: Stack) -> None:
    tell(pipeline)
    cells = [from_bytes(bytes(row.tokens)) for row in pipeline.rows(TOKENS)]
    assert [len(cell.turns) for cell in cells] == [2, 2]
    assert all(len(part) > 0 and part.shape[1] == PACKED for cell in cells for part in (cell.date, *cell.turns))
    # Facts are never compared with a question token by token.
    facts = """SELECT 1 FROM memforest.vector v JOIN memforest.fact f USING (forest_id, text_hash)
                WHERE v.tokens IS NOT NULL"""
    assert pipeline.rows(facts) == []


def test_the_turn_whose_tokens_come_near_is_lifted(pipeline: Stack) -> None:
    """Given a turn that answers the question in other words, and one about something else in the same cell, then the
    first turn has the signal, and a weight of 0 removes the signal and no evidence item."""
    tell(pipeline)
    found, without = recalled(pipeline), recalled(pipeline, 0.0)
    assert "timber" in found[0].text
    assert found[0].signals["tokens"] == pytest.approx(0.15 * without[0].score, rel=0.2)
    assert all("tokens" not in piece.signals for piece in without)
    assert {piece.text for piece in found} == {piece.text for piece in without}
    neighbouring = next(piece for piece in found if "weather" in piece.text)
    assert neighbouring.signals.get("tokens", 0.0) < found[0].signals["tokens"]


def test_missing_token_vectors_are_made_when_a_cell_is_indexed_again(pipeline: Stack) -> None:
    """Given cells that were stored without their token vectors, by a version before or by an import, then recall finds
    them all the same, and once they are indexed again they have the same token vectors as others."""
    tell(pipeline)
    before, parts = pipeline.rows(TOKENS), recalled(pipeline)
    pipeline.execute("UPDATE memforest.vector SET tokens = NULL")
    absent = recalled(pipeline)
    assert all("tokens" not in piece.signals for piece in absent)
    assert {piece.text for piece in absent} == {piece.text for piece in parts}
    mark_all(pipeline)
    pipeline.drive()
    assert pipeline.rows(TOKENS) == before
    assert recalled(pipeline) == parts


def test_what_has_them_is_not_embedded_again(pipeline: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    tell(pipeline)
    requested: list[str] = []
    embed = pipeline.services.indexer.embedder.embed
    monkeypatch.setattr(
        pipeline.services.indexer.embedder, "embed", lambda texts: (requested.extend(texts), embed(texts))[1]
    )
    mark_all(pipeline)
    pipeline.drive()
    assert requested == []


def test_vectors_with_and_without_tokens_meet(pipeline: Stack) -> None:
    """Given two writers of one text, one of a version before, in either order, then the token vectors remain."""
    tell(pipeline)
    [(forest, vector)] = pipeline.rows("SELECT forest_id, vector FROM memforest.vector LIMIT 1")
    unit = np.zeros(384, np.float32)
    unit[0] = 1.0
    for number, order in enumerate([(None, b"first"), (b"first", None), (b"first", b"second"), (None, None, b"first")]):
        own = OwnText(forest, f"text {number}")
        for tokens in order:
            with pipeline.services.indexer.open_rows(pipeline.tenant) as rows:
                rows.put_vectors("some model", {own: unit}, None if tokens is None else {own: tokens})
        with pipeline.services.indexer.open_rows(pipeline.tenant) as rows:
            assert own in rows.known_vectors("some model", [own], [own])
    stored = pipeline.rows("SELECT DISTINCT tokens FROM memforest.vector WHERE model = 'some model'")
    assert [bytes(row.tokens) for row in stored] == [b"first"]
    assert isinstance(rows, VectorRows)
    assert len(vector) % 2 == 1


def test_they_go_with_the_last_turn_that_says_it(pipeline: Stack) -> None:
    tell(pipeline)
    pipeline.memory.lifecycle.forget("ann", everything=True, actor="tester")
    pipeline.drive()
    assert pipeline.rows("SELECT 1 FROM memforest.vector") == []


def test_an_imported_forest_has_the_same_ones(pipeline: Stack, tmp_path: Path) -> None:
    """Given a bundle, which has vectors and no token vectors, when another owner imports it, then its cells have the
    same token vectors once they are indexed."""
    tell(pipeline)
    path = tmp_path / "ann.memforest"
    pipeline.memory.lifecycle.export("ann", path, actor="tester")
    pipeline.memory.lifecycle.import_(path, "bert", actor="tester")
    pipeline.drive()
    assert pipeline.rows(MISSING) == []
    both = pipeline.rows(TOKENS)
    assert both[0::2] == both[1::2]
    assert len(both) == 4


def test_the_best_of_all_forests_gets_the_most(pipeline: Stack) -> None:
    """Given two owners of whom one answers the question, when one recall searches both, then evidence items of the
    other are measured by that answer."""
    tell(pipeline)
    tell(pipeline, OTHERS, "bert")
    found = recalled(pipeline, owners=["bert"])
    assert found[0].signals["tokens"] == max(piece.signals.get("tokens", 0.0) for piece in found)
    assert found[0].owner == "ann"
    alone = replace(pipeline.services.recall).recall(pipeline.tenant, "bert", QUESTION, 10).evidence
    most = max(piece.signals.get("tokens", 0.0) / piece.score for piece in alone)
    together = max(piece.signals.get("tokens", 0.0) / piece.score for piece in found if piece.owner == "bert")
    assert together < most


def test_a_model_without_token_vectors_has_no_signal(plain: Stack) -> None:
    plain.memory.ingest("ann", "talk", BOATS)
    plain.drive()
    assert plain.rows("SELECT 1 FROM memforest.vector WHERE tokens IS NOT NULL") == []
    found = recalled(plain)
    assert found
    assert all("tokens" not in piece.signals for piece in found)
    assert not plain.services.indexer.run_one(TenantId(plain.tenant), plain.runtime.worker, tuple(PointKind))
