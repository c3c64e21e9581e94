"""Routing vectors are made of the vectors of a sentence and of its label; what is embedded is embedded once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from memforest_core.domain.facts import Origin, Statement
from memforest_core.models import statement_vectors
from memforest_core.models.calls import CallRecord, Embedded, Step, Vectors
from memforest_core.models.statement_vectors import (
    LABEL_WEIGHT,
    StatementEmbedder,
    embedded_for,
    parts_of,
    routing_vector,
)
from tests.harness.builders import statement


class Axes:
    """Each text has a direction of its own; ``requested`` lists the texts of each call."""

    model = "axes"
    dimension = 64

    def __init__(self) -> None:
        self.requested: list[list[str]] = []
        self._axis: dict[str, int] = {}

    def embed(self, texts: Sequence[str]) -> Embedded:
        self.requested.append(list(texts))
        vectors = np.zeros((len(texts), self.dimension), np.float32)
        for row, text in enumerate(texts):
            vectors[row, self._axis.setdefault(text, len(self._axis))] = 1.0
        return Embedded(vectors, CallRecord(Step.EMBED, self.model, len(texts), 0, 0, 0.0, 0.0, "ok"))

    embed_query = embed


def said(text: str, scene: str = "", origin: Origin = Origin.USER) -> Statement:
    return replace(statement(text, scene=scene), origin=origin)


def vectors_of(embedding: StatementEmbedder, *statements: Statement) -> dict[str, Vectors]:
    texts = [text for each in statements for text in dict.fromkeys((each.text, each.routing_text))]
    return dict(zip(texts, embedding.embed(texts, parts_of(statements)).vectors, strict=True))


def test_a_routing_vector_is_the_sentence_and_a_share_of_its_label() -> None:
    """Given two facts under one label and one without, then the cosine of the first two is their sentences' and what
    the label adds, and the third's routing vector is its sentence's."""
    boat, sail, none = said("A boat.", "leisure/sailing"), said("A sail.", "leisure/sailing"), said("A lamp.")
    found = vectors_of(StatementEmbedder(Axes()), boat, sail, none)
    cosine = float(found[boat.routing_text] @ found[sail.routing_text])
    assert cosine == pytest.approx(LABEL_WEIGHT**2 / (1 + LABEL_WEIGHT**2))
    assert np.linalg.norm(found[boat.routing_text]) == pytest.approx(1.0)
    assert none.routing_text == none.text
    assert float(found[boat.text] @ found[boat.routing_text]) == pytest.approx(1 / np.hypot(1, LABEL_WEIGHT))


def test_no_routing_text_is_embedded_and_a_label_once() -> None:
    embedder = Axes()
    embedding = StatementEmbedder(embedder)
    vectors_of(embedding, said("A boat.", "leisure/sailing"), said("A sail.", "leisure/sailing"))
    first = vectors_of(embedding, said("An oar.", "leisure/sailing"), said("A boat.", "leisure", Origin.ASSISTANT))
    assert embedder.requested == [
        ["A boat.", "user | leisure/sailing", "A sail."],
        ["An oar.", "A boat.", "assistant | leisure"],
    ]
    repeated = vectors_of(StatementEmbedder(embedder), said("An oar.", "leisure/sailing"))
    oar = said("An oar.", "leisure/sailing").routing_text
    assert np.array_equal(first[oar], repeated[oar])


def test_a_routing_text_alone_is_made_of_its_parts() -> None:
    """Given a sentence whose vector is stored already, then its routing text can be embedded by itself."""
    boat = said("A boat.", "leisure")
    [alone] = StatementEmbedder(Axes()).embed([boat.routing_text], parts_of([boat])).vectors
    assert np.array_equal(alone, vectors_of(StatementEmbedder(Axes()), boat)[boat.routing_text])
    assert embedded_for([boat.routing_text, boat.text], parts_of([boat])) == ["A boat.", "user | leisure"]


def test_a_sentence_that_reads_like_a_known_label_is_embedded() -> None:
    embedder = Axes()
    embedding = StatementEmbedder(embedder)
    vectors_of(embedding, said("A boat.", "leisure"))
    label = said("user | leisure")
    assert vectors_of(embedding, label)[label.text] @ embedder.embed(["user | leisure"]).vectors[0] == 1.0
    assert embedder.requested[1] == ["user | leisure"]


def test_labels_are_remembered_up_to_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statement_vectors, "MAX_LABELS", 2)
    embedder = Axes()
    embedding = StatementEmbedder(embedder)
    for scene in ("a", "b", "c", "c", "a"):
        vectors_of(embedding, said(f"Text of {scene}.", scene))
    assert [len(requested) for requested in embedder.requested] == [2, 2, 2, 1, 2]


def test_opposite_parts_have_a_direction_still() -> None:
    """A model may give a label the opposite direction, in the weight at which nothing is left."""
    sentence = np.array([LABEL_WEIGHT, 0.0], np.float32)
    assert np.array_equal(routing_vector(sentence, np.array([-1.0, 0.0], np.float32)), sentence)
