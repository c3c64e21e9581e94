"""LitellmReranker against a provider over HTTP that misbehaves."""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from memforest_core.errors import (
    InvalidSettings,
    MemForestError,
    ModelAuthFailed,
    ModelRateLimited,
    ModelRejected,
    ModelUnavailable,
)
from memforest_core.models.accounting import StepSettings
from memforest_core.models.calls import Step, failed_call
from memforest_core.models.litellm_requests import LitellmReranker
from memforest_core.models.model_opening import open_reranker
from memforest_core.models.onnx_cross_encoder import OnnxCrossEncoder
from memforest_core.settings import RerankSettings
from tests.contract.rerank.shared_words import RerankServer, cross_encoder
from tests.harness.litellm_warm import warm_up
from tests.harness.model_faults import Fault

SECRET = "my sister Anna lives in Lisbon"
PROVIDERS = ("cohere", "infinity", "hosted_vllm")


@pytest.fixture(scope="module")
def warm() -> None:
    warm_up()


@pytest.fixture
def server(warm: None) -> Iterator[RerankServer]:
    with RerankServer() as running:
        yield running


def reranker(server: RerankServer, provider: str = "cohere", **changes: Any) -> LitellmReranker:
    given: dict[str, Any] = {"api_base": server.url, "api_key": "key-1", "timeout_s": 5.0}
    return LitellmReranker(StepSettings(f"{provider}/test-rerank", **(given | changes)))


def test_one_request_contains_question_texts_and_key(server: RerankServer) -> None:
    reranker(server).rerank("where is bob", ["bob", "dog"])
    (call,) = server.requests
    assert call.path.endswith("/rerank")
    assert call.body["model"] == "test-rerank"
    assert (call.body["query"], call.body["documents"]) == ("where is bob", ["bob", "dog"])
    assert call.body["top_n"] == 2
    assert server.keys == ["key-1"]


def test_without_a_key_where_one_is_needed_nothing_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("COHERE_API_KEY", "CO_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ModelAuthFailed, match="MEMFOREST_RECALL__RERANK__API_KEY"):
        LitellmReranker(StepSettings("cohere/rerank-v3.5")).rerank("bob", ["bob"])


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (Fault.RATE_LIMIT, ModelRateLimited),
        (Fault.SERVER_ERROR, ModelUnavailable),
        (Fault.OVERLOADED, ModelUnavailable),
        (Fault.UNAUTHORIZED, ModelAuthFailed),
        (Fault.FORBIDDEN, ModelAuthFailed),
        (Fault.UNKNOWN_MODEL, ModelRejected),
        (Fault.BAD_REQUEST, ModelRejected),
        (Fault.DISCONNECT, ModelUnavailable),
    ],
)
def test_each_failure_has_its_class_and_is_not_tried_again(
    server: RerankServer, provider: str, fault: Fault, expected: type[MemForestError]
) -> None:
    server.script(fault)
    with pytest.raises(MemForestError) as raised:
        reranker(server, provider).rerank(SECRET, [SECRET])
    assert type(raised.value) is expected
    [record] = failed_call(raised.value)
    assert (record.step, record.outcome) == (Step.RERANK, raised.value.code)
    assert len(server.requests) == 1
    assert SECRET not in "".join(traceback.format_exception(raised.value))


def test_a_rate_limit_says_how_long_to_wait(server: RerankServer) -> None:
    """litellm passes on the header of some providers only; Cohere's and Infinity's are lost on the way."""
    server.script(Fault.RATE_LIMIT)
    with pytest.raises(ModelRateLimited) as raised:
        reranker(server, "hosted_vllm").rerank("bob", ["bob"])
    assert raised.value.retry_after == 7


@pytest.mark.parametrize("fault", [Fault.HANG, Fault.DRIBBLE])
def test_the_deadline_is_hard_whatever_the_provider_does(server: RerankServer, fault: Fault) -> None:
    server.script(fault)
    started = time.monotonic()
    with pytest.raises(ModelUnavailable, match=r"0\.5 s .*MEMFOREST_RECALL__RERANK__TIMEOUT_S"):
        reranker(server, timeout_s=0.5).rerank("bob", ["bob"])
    assert time.monotonic() - started < 3.0


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_page_instead_of_an_answer_is_an_error_without_its_text(server: RerankServer, provider: str) -> None:
    server.script(Fault.BROKEN_BODY)
    with pytest.raises((ModelUnavailable, ModelRejected)) as raised:
        reranker(server, provider).rerank(SECRET, [SECRET])
    assert "gateway" not in raised.value.message
    assert SECRET not in "".join(traceback.format_exception(raised.value))


class Odd(RerankServer):
    """Answers with whatever it is given."""

    given: Sequence[Any] | None = ()

    def results(self, query: str, documents: Sequence[str]) -> Any:
        return self.given


@pytest.mark.parametrize(
    "results",
    [
        [],
        None,
        [{"index": 0, "relevance_score": 0.5}],
        [{"index": 0, "relevance_score": 0.5}, {"index": 0, "relevance_score": 0.6}],
        [{"index": 0, "relevance_score": 0.5}, {"index": 2, "relevance_score": 0.6}],
        [{"index": 0, "relevance_score": 0.5}, {"index": 1, "relevance_score": None}],
        [{"index": 0, "relevance_score": 0.5}, {"index": 1, "relevance_score": float("nan")}],
        [{"index": 0, "relevance_score": 0.5}, {"index": 1, "relevance_score": float("inf")}],
        [{"index": 0, "relevance_score": 0.5}, {"index": 1, "relevance_score": "high"}],
        [{"index": n, "relevance_score": 0.5} for n in range(3)],
        [{"relevance_score": 0.5}, {"relevance_score": 0.6}],
        ["bob", "dog"],
        {"0": 0.5, "1": 0.6},
        "none",
    ],
)
@pytest.mark.parametrize("provider", PROVIDERS)
def test_an_answer_that_does_not_fit_is_an_error_and_no_score(warm: None, provider: str, results: Any) -> None:
    with Odd() as server:
        server.given = results
        with pytest.raises((ModelRejected, ModelUnavailable)) as raised:
            reranker(server, provider).rerank("bob", [SECRET, "dog"])
    assert SECRET not in "".join(traceback.format_exception(raised.value))


# Which cross-encoder the settings open


def test_a_directory_opens_a_local_one(tmp_path: Path) -> None:
    model = open_reranker(RerankSettings(path=cross_encoder(tmp_path)))
    assert isinstance(model, OnnxCrossEncoder)
    assert model.rerank("bob", ["dog", "bob"]).scores == [0.0, 1.0]


def test_a_model_opens_a_providers() -> None:
    with RerankServer() as server:
        model = open_reranker(
            RerankSettings(model="cohere/test-rerank", api_base=server.url, api_key=SecretStr("key-2"), timeout_s=20.0)
        )
        assert isinstance(model, LitellmReranker)
        assert model.rerank("bob", ["dog", "bob"]).scores == [0.0, 1.0]
        assert server.keys == ["key-2"]


def test_both_are_one_too_many(tmp_path: Path) -> None:
    with pytest.raises(InvalidSettings, match="not both"):
        open_reranker(RerankSettings(model="cohere/rerank-v3.5", path=tmp_path))
