"""LitellmEmbedder fulfils the Embedder port's promises against a provider over HTTP."""

from __future__ import annotations

import json
import subprocess
import sys
import traceback
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from memforest_core.errors import (
    TIMED_OUT,
    ContextTooLong,
    MemForestError,
    ModelAuthFailed,
    ModelRateLimited,
    ModelRejected,
    ModelUnavailable,
)
from memforest_core.models.accounting import Price, StepSettings
from memforest_core.models.calls import CallRecord, Step
from memforest_core.models.litellm_requests import LitellmEmbedder
from tests.harness.model_answers import HASH_DIMENSION, hash_vector
from tests.harness.model_faults import Fault
from tests.harness.model_server import ModelServer, _Response
from tests.harness.timing import within

SECRET = "my sister Anna lives in Lisbon"
TEXTS = [f"text number {n} about subject {n * n}" for n in range(11)]


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as running:
        yield running


def embedder(server: ModelServer, **changes: Any) -> LitellmEmbedder:
    given: dict[str, Any] = {"api_base": server.url, "api_key": "key-1", "timeout_s": 5.0} | changes
    batch_size = given.pop("batch_size", 64)
    return LitellmEmbedder(StepSettings("openai/test-embedding", **given), batch_size)


def test_the_dimension_is_found_by_one_request(server: ModelServer) -> None:
    model = embedder(server)
    assert not server.requests
    assert model.dimension == HASH_DIMENSION
    assert model.dimension == HASH_DIMENSION
    assert len(server.requests) == 1


def test_vectors_are_unit_rows_in_the_order_of_the_texts(server: ModelServer) -> None:
    # The server answers in reverse order, with indexes.
    done = embedder(server).embed(TEXTS)
    assert done.vectors.shape == (11, HASH_DIMENSION)
    assert done.vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(done.vectors, axis=1), 1.0, atol=1e-6)
    np.testing.assert_allclose(done.vectors, [hash_vector(text) for text in TEXTS], atol=1e-6)


@pytest.mark.parametrize(("unknown", "requested"), [("", 2), ("lists", 2), ("base64", 3)])
def test_vectors_come_in_base64_unless_the_server_knows_none(server: ModelServer, unknown: str, requested: int) -> None:
    """Given a server that answers with lists nevertheless, or refuses it: the same vectors, by one request more."""
    server.refused_formats = frozenset({unknown})
    model = embedder(server)
    for _ in range(2):
        np.testing.assert_allclose(model.embed(TEXTS).vectors, [hash_vector(text) for text in TEXTS], atol=1e-6)
    forms = [call.body["encoding_format"] for call in server.requests]
    assert forms == ["base64", *["float" if unknown == "base64" else "base64"] * (requested - 1)]


def test_only_openais_protocol_is_known_to_mean_numbers_by_base64(server: ModelServer) -> None:
    other = LitellmEmbedder(StepSettings("hosted_vllm/m", api_base=server.url, api_key="key-1"))
    assert other.embed(["a"]).vectors.shape == (1, HASH_DIMENSION)
    assert [call.body["encoding_format"] for call in server.requests] == ["float"]


def test_many_texts_are_sent_in_batches(server: ModelServer) -> None:
    whole = embedder(server).embed(TEXTS).vectors
    server.requests.clear()
    model = embedder(server, batch_size=4, price=Price(1.0))
    done = model.embed(TEXTS)
    assert [len(call.body["input"]) for call in server.requests] == [4, 4, 3]
    np.testing.assert_array_equal(done.vectors, whole)
    assert done.record.step is Step.EMBED
    parts = [embedder(server).embed(TEXTS[start : start + 4]).record for start in (0, 4, 8)]
    assert done.record.prompt_tokens == sum(record.prompt_tokens for record in parts) > 0
    assert done.record.cost_usd == pytest.approx(done.record.prompt_tokens / 1e6)


def test_a_listed_model_costs_what_the_list_says(server: ModelServer) -> None:
    given = StepSettings("openai/text-embedding-3-small", api_base=server.url, api_key="key-1")
    record = LitellmEmbedder(given).embed(TEXTS).record
    assert record.prompt_tokens > 0
    assert record.cost_usd == pytest.approx(record.prompt_tokens * 0.02 / 1e6)


def test_a_server_need_not_count_tokens(server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_embed", lambda body: _Response(200, {"data": [{"embedding": [3.0, 4.0]}]}))
    done = embedder(server).embed(["a"])
    np.testing.assert_allclose(done.vectors, [[0.6, 0.8]])
    assert done.record.prompt_tokens == 0


def test_vectors_that_are_not_unit_are_made_so(server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.harness.model_answers.vectors", lambda texts, kind: [[3.0, 4.0] for _ in texts])
    np.testing.assert_allclose(embedder(server).embed(["a"]).vectors, [[0.6, 0.8]])


def test_nothing_in_nothing_out(server: ModelServer) -> None:
    assert embedder(server).embed([]).vectors.shape == (0, HASH_DIMENSION)


@pytest.mark.parametrize("rows", [[[1.0, 0.0]], [[1.0, 0.0], [1.0, 0.0, 0.0]], [[0.0, 0.0], [1.0, 0.0]]])
def test_an_answer_that_does_not_fit_is_rejected(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch, rows: list[list[float]]
) -> None:
    monkeypatch.setattr("tests.harness.model_answers.vectors", lambda texts, kind: rows)
    with pytest.raises(ModelRejected):
        embedder(server).embed(["one", "two"])


def test_a_model_that_changes_its_dimension_is_rejected(server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    model = embedder(server)
    assert model.dimension == HASH_DIMENSION
    monkeypatch.setattr("tests.harness.model_answers.vectors", lambda texts, kind: [[1.0] for _ in texts])
    with pytest.raises(ModelRejected, match=f"{HASH_DIMENSION} were expected"):
        model.embed(["one"])


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (Fault.RATE_LIMIT, ModelRateLimited),
        (Fault.SERVER_ERROR, ModelUnavailable),
        (Fault.OVERLOADED, ModelUnavailable),
        (Fault.DISCONNECT, ModelUnavailable),
        (Fault.BROKEN_BODY, ModelUnavailable),
        (Fault.UNAUTHORIZED, ModelAuthFailed),
        (Fault.UNKNOWN_MODEL, ModelRejected),
        (Fault.CONTEXT_LENGTH, ContextTooLong),
    ],
)
def test_every_failure_has_its_class(server: ModelServer, fault: Fault, expected: type[MemForestError]) -> None:
    server.script(fault)
    with pytest.raises(MemForestError) as caught:
        embedder(server).embed([SECRET])
    assert type(caught.value) is expected
    assert isinstance(caught.value.call, CallRecord)
    assert caught.value.call.outcome == expected.code
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    assert len(server.requests) == 1


@pytest.mark.parametrize("fault", [Fault.HANG, Fault.DRIBBLE])
def test_the_deadline_is_hard(server: ModelServer, fault: Fault) -> None:
    model = embedder(server, timeout_s=0.6)
    assert model.dimension == HASH_DIMENSION

    def cut_off() -> None:
        server.script(fault)
        with pytest.raises(ModelUnavailable):
            model.embed(TEXTS)

    assert within(1.1, cut_off)


def test_a_missing_key_names_its_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ModelAuthFailed, match="MEMFOREST_EMBEDDING__API_KEY"):
        LitellmEmbedder(StepSettings("openai/text-embedding-3-small")).embed(["a"])


@pytest.mark.parametrize(("status", "expected"), [(413, ModelRejected), (504, ModelUnavailable)])
def test_a_status_without_words_has_its_class(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch, status: int, expected: type[MemForestError]
) -> None:
    monkeypatch.setattr(server, "_embed", lambda body: _Response(status, {}))
    with pytest.raises(expected) as caught:
        embedder(server).embed_query(["a"])
    assert (caught.value.code == TIMED_OUT) == (status == 504)


def test_what_only_litellm_reads_is_given_to_it(server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Given an organization in the environment, then it is in the request."""
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
    embedder(server).embed(["a"])
    assert server.requests[0].headers["openai-organization"] == "org-1"


def test_a_key_that_cannot_be_sent_names_its_setting(server: ModelServer) -> None:
    with pytest.raises(ModelAuthFailed, match=r"line break.*MEMFOREST_EMBEDDING__API_KEY"):
        embedder(server, api_key="key-1\nkey-2").embed(["a"])
    assert not server.requests


ALONE = """
import json, sys
from memforest_core.errors import MemForestError
from memforest_core.models.accounting import StepSettings
from memforest_core.models.litellm_requests import LitellmEmbedder
model = LitellmEmbedder(StepSettings("openai/text-embedding-3-small", api_base=sys.argv[1], api_key="key-1"))
codes = []
for _ in range(5):
    try:
        codes.append(model.embed_query(["a longer text about a subject"]).record.cost_usd > 0)
    except MemForestError as error:
        codes.append(error.code)
print(json.dumps([codes, "litellm" in sys.modules, "openai" in sys.modules]))
"""


def test_neither_vectors_nor_a_server_that_is_down_load_litellm(server: ModelServer) -> None:
    """Given a process without a chat model, when it embeds and prices, and its server fails, then it imports none."""
    server.script(None, Fault.RATE_LIMIT, Fault.SERVER_ERROR, Fault.DISCONNECT, Fault.UNAUTHORIZED)
    ended = subprocess.run([sys.executable, "-c", ALONE, server.url], check=True, capture_output=True, text=True)
    unavailable = ModelUnavailable.code
    expected = [True, ModelRateLimited.code, unavailable, unavailable, ModelAuthFailed.code]
    assert json.loads(ended.stdout) == [expected, False, False]
