"""A model server that returns the answer of another call: none of it becomes a fact."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from memforest_core.models.calls import Embedder
from tests.harness.model_answers import default_answer, wants_extraction
from tests.harness.model_server import ModelServer
from tests.harness.sayings import said
from tests.harness.servers import SessionServers
from tests.harness.stack import stack


def llm(model: ModelServer) -> dict[str, object]:
    return {"model": "openai/test-model", "api_base": model.url, "api_key": "test-key"}


def test_a_call_that_gets_the_previous_calls_answer_is_repeated_and_none_of_it_is_stored(
    servers: SessionServers, tmp_path: Path, embedder: Embedder
) -> None:
    before: list[str] = []

    def previous(body: Mapping[str, Any]) -> str:
        own = default_answer(body)
        if not wants_extraction(body):
            return own
        before.append(own)
        return before[-2] if len(before) > 1 else own

    with ModelServer() as model, stack(servers, tmp_path, embedder=embedder, llm=llm(model)) as pipeline:
        model.answer = previous
        pipeline.memory.ingest("ann", "s1", said("I bought 3 red kayaks.", "I work at a bakery.", name="Ann"))
        pipeline.drive()
        pipeline.memory.ingest("bob", "s1", said("I live in Oslo.", "My sister Lena plays the harp.", name="Bob"))
        pipeline.drive()

        facts = " ".join(fact.text for fact in pipeline.memory.facts("bob").items)
        progress = pipeline.memory.status("bob", "s1")
    assert "Oslo" in facts and "kayak" not in facts and "bakery" not in facts
    assert progress.repaired == progress.cells and progress.verbatim == 0


def test_one_foreign_item_is_left_out_and_counted_in_the_cells_outcome(
    servers: SessionServers, tmp_path: Path, embedder: Embedder
) -> None:
    def more(body: Mapping[str, Any]) -> str:
        if not wants_extraction(body):
            return default_answer(body)
        answer = json.loads(default_answer(body))
        return json.dumps({**answer, "items": [*answer["items"], {"text": "Zoe sold a Quibovix yacht.", "turns": [1]}]})

    with ModelServer() as model, stack(servers, tmp_path, embedder=embedder, llm=llm(model)) as pipeline:
        model.answer = more
        pipeline.memory.ingest("bob", "s1", said("I live in Oslo.", "I work at a bakery."))
        pipeline.drive()

        facts = " ".join(fact.text for fact in pipeline.memory.facts("bob").items)
        cells = pipeline.rows("SELECT DISTINCT outcome, error_code, error_text FROM memforest.cell")
    assert "Oslo" in facts and "Quibovix" not in facts
    assert [tuple(row) for row in cells] == [
        ("repaired", "items_left_out", "Left out of the model's answer: 1 item had nothing of these turns.")
    ]
