"""What every reranker promises: a finite score for each text, in their order, whatever they are read with."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from memforest_core.models.accounting import StepSettings
from memforest_core.models.calls import Reranker, Step
from memforest_core.models.litellm_requests import LitellmReranker
from memforest_core.models.onnx_cross_encoder import OnnxCrossEncoder
from tests.contract.rerank.shared_words import RerankServer, cross_encoder, shared
from tests.harness.litellm_warm import warm_up

QUESTION = "where lives bob now"
TEXTS = (
    "clara plays the violin",
    "bob lives in davis",
    "bob lives in miami now",
    "",
    "the dog",
    "bob bob bob",
    "Lorem ipsum",
)


@pytest.fixture(scope="module")
def server() -> Iterator[RerankServer]:
    warm_up()
    with RerankServer() as running:
        yield running


OPENERS: dict[str, Callable[[RerankServer, Path], Reranker]] = {
    **{
        name: lambda server, _, name=name: LitellmReranker(  # type: ignore[misc]
            StepSettings(f"{name}/test-rerank", api_base=server.url, api_key="key-1", timeout_s=20.0)
        )
        for name in ("cohere", "infinity", "hosted_vllm")
    },
    **{
        f"onnx-{outputs}": lambda _, directory, outputs=outputs: OnnxCrossEncoder(  # type: ignore[misc]
            cross_encoder(directory, outputs=outputs), timeout_s=20.0
        )
        for outputs in ("column", "flat", "two")
    },
}


@pytest.fixture(params=OPENERS)
def reranker(request: pytest.FixtureRequest, server: RerankServer, tmp_path: Path) -> Reranker:
    return OPENERS[request.param](server, tmp_path)


def test_each_text_gets_its_score(reranker: Reranker) -> None:
    assert reranker.rerank(QUESTION, TEXTS).scores == [shared(QUESTION, text) for text in TEXTS]


def test_scores_do_not_depend_on_order_or_company(reranker: Reranker) -> None:
    together = dict(zip(TEXTS, reranker.rerank(QUESTION, TEXTS).scores, strict=True))
    backwards = dict(zip(TEXTS[::-1], reranker.rerank(QUESTION, TEXTS[::-1]).scores, strict=True))
    alone = {text: reranker.rerank(QUESTION, [text]).scores[0] for text in TEXTS}
    assert together == backwards == alone


def test_a_call_is_recorded(reranker: Reranker) -> None:
    record = reranker.rerank(QUESTION, TEXTS).record
    assert (record.step, record.model, record.outcome) == (Step.RERANK, reranker.model, "ok")
    assert record.latency_ms > 0.0
    assert record.cost_usd == 0.0


def test_texts_and_questions_of_any_length_are_read(reranker: Reranker) -> None:
    scores = reranker.rerank("bob " * 3_000, ["bob " * 3_000, "lorem " * 3_000, ""]).scores
    assert all(math.isfinite(score) for score in scores)
    assert scores[0] > scores[1] == scores[2] == 0.0


def test_questions_of_many_threads_do_not_mix(reranker: Reranker) -> None:
    questions = ["bob", "dog", "violin", "miami"] * 4
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda question: reranker.rerank(question, TEXTS).scores, questions))
    assert found == [[shared(question, text) for text in TEXTS] for question in questions]
