"""Why a session goes no further: the last failed try, in its status, in what a wait raises, and in the log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from memforest_core import ModelRejected, WaitTimeout
from memforest_core.models.calls import Embedder, Step
from memforest_core.models.limits import limited_models
from memforest_core.models.limits.limited_models import FailedCalls
from tests.harness.model_faults import Fault
from tests.harness.model_server import ModelServer
from tests.harness.servers import SessionServers
from tests.harness.stack import Stack, stack

SAID = [{"role": "user", "content": "My secret word is zorblax.", "timestamp": "2023-05-01T09:00:00Z"}]
KEY = "sk-very-secret"


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as running:
        yield running


@pytest.fixture
def refused(
    servers: SessionServers, tmp_path: Path, embedder: Embedder, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Stack]:
    """A stack whose key the model's provider refuses."""
    monkeypatch.setattr(limited_models, "FAILED_CALLS", FailedCalls())
    server.script(Fault.UNAUTHORIZED)
    llm = {"model": "openai/test-model", "api_base": server.url, "api_key": KEY}
    with stack(servers, tmp_path, embedder=embedder, llm=llm) as running:
        yield running


def test_a_refused_key_is_in_status_in_waits_and_in_the_log(refused: Stack) -> None:
    memory = refused.memory
    memory.ingest("bob", "s-1", SAID)
    assert memory.status("bob", "s-1").last_error is None
    with capture_logs() as logged:
        refused.runtime.extract()

    error = memory.status("bob", "s-1").last_error
    assert error is not None
    assert error.code == "model_auth_failed"
    assert "MEMFOREST_LLM__API_KEY" in error.message
    for wait in (lambda: memory.wait("bob", "s-1", "facts", 0.0), lambda: memory.flush("bob", 0.0)):
        with pytest.raises(WaitTimeout) as ended:
            wait()
        assert ended.value.last_error == error
        assert error.message in ended.value.message
        assert "[model_auth_failed]" in ended.value.message
    reported = [line for line in logged if line["event"] == "model_call_failed"]
    assert [(line["step"], line["code"]) for line in reported] == [("extract", "model_auth_failed")]
    for text in (error.message, str(logged)):
        assert KEY not in text
        assert "zorblax" not in text


def test_a_session_that_was_not_tried_yet_says_why_others_wait(refused: Stack) -> None:
    refused.memory.ingest("bob", "s-1", SAID)
    refused.runtime.extract()
    refused.memory.ingest("eve", "s-2", SAID)
    error = refused.memory.status("eve", "s-2").last_error
    assert error is not None
    assert error.code == "model_auth_failed"


def test_a_model_without_a_provider_is_refused_with_how_to_name_it(
    servers: SessionServers, tmp_path: Path, embedder: Embedder, server: ModelServer
) -> None:
    model = "mistralai/Mistral-7B"
    llm = {"model": model, "api_base": server.url, "api_key": KEY}
    with stack(servers, tmp_path, embedder=embedder, llm=llm) as running:
        with pytest.raises(ModelRejected, match=f"openai/{model}"):
            running.services.check_models([Step.EXTRACT])
        running.memory.ingest("bob", "s-1", SAID)
        running.runtime.extract()
        error = running.memory.status("bob", "s-1").last_error
    assert error is not None
    assert f"openai/{model}" in error.message
    assert server.requests == []
