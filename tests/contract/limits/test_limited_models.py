"""Models behind the limits, over HTTP: what one worker's call meets, the others know."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from pydantic import SecretStr
from redis import Redis

from memforest_core.errors import ModelRateLimited, ModelRejected, ModelUnavailable
from memforest_core.models.accounting import StepSettings
from memforest_core.models.calls import CallRecord, ChatReply, ChatRequest, Embedded, Message, Step
from memforest_core.models.limits.call_limits import PREFIX, CallLimits
from memforest_core.models.limits.limited_models import (
    LimitedChat,
    LimitedEmbedder,
    chat_key,
    embedding_key,
    limit_chat,
    limit_embedder,
    open_limits,
)
from memforest_core.models.limits.model_limits import ModelPaused
from memforest_core.models.litellm_chat import LitellmChat
from memforest_core.models.model_opening import open_chat, open_embedder
from memforest_core.settings import BrokerSettings, DeploymentSettings, EmbeddingSettings, LlmSettings, load_settings
from tests.contract.limits.limited import limits_of
from tests.harness.litellm_warm import warm_up
from tests.harness.model_faults import Fault
from tests.harness.model_server import ModelServer
from tests.harness.servers import SessionServers
from tests.harness.timing import within

Opened = Callable[..., CallLimits]
SECRET = "my sister Anna lives in Lisbon"


@pytest.fixture(scope="module")
def warm() -> None:
    warm_up()


@pytest.fixture
def server(warm: None) -> Iterator[ModelServer]:
    with ModelServer(answer=lambda body: "yes", retry_after_s=0.6) as running:
        yield running


def chat(server: ModelServer, limits: CallLimits, *, wait_s: float = 0.0, **changes: Any) -> LimitedChat:
    settings = StepSettings("openai/test", **({"api_base": server.url, "api_key": "key-1"} | changes))
    return LimitedChat(LitellmChat({Step.EXTRACT: settings}), limits, {Step.EXTRACT: settings}, wait_s=wait_s)


def request(text: str = SECRET) -> ChatRequest:
    return ChatRequest(Step.EXTRACT, (Message("user", text),))


class TestChat:
    def test_a_429_of_one_worker_pauses_the_other_as_long_as_the_provider_says(
        self, server: ModelServer, opened: Opened
    ) -> None:
        one, other = chat(server, opened()), chat(server, opened(), wait_s=5.0)

        def pausing() -> None:
            before = len(server.requests)
            server.script(Fault.RATE_LIMIT)
            with pytest.raises(ModelRateLimited) as caught:
                one.complete(request())
            assert isinstance(caught.value.call, CallRecord)
            started = time.monotonic()
            assert other.complete(request()).text == "yes"
            assert time.monotonic() - started >= 0.4
            assert len(server.requests) == before + 2

        assert within(2.0, pausing, tries=3)

    def test_no_request_is_made_while_the_pause_is_longer_than_one_may_wait(
        self, server: ModelServer, opened: Opened
    ) -> None:
        one, other = chat(server, opened()), chat(server, opened(), wait_s=0.2)
        server.script(Fault.RATE_LIMIT)
        with pytest.raises(ModelRateLimited):
            one.complete(request())
        with pytest.raises(ModelRateLimited) as caught:
            other.complete(request())
        assert caught.value.call is None
        assert len(server.requests) == 1

    @pytest.mark.parametrize("fault", [Fault.SERVER_ERROR, Fault.HANG, Fault.DISCONNECT])
    def test_an_outage_opens_the_circuit_and_one_trial_ends_it(
        self, server: ModelServer, opened: Opened, fault: Fault
    ) -> None:
        one, other = (chat(server, opened(), timeout_s=0.3) for _ in range(2))
        # After a failure other than a timeout, one more call with a short text checks whether the model answers at all.
        calls = 3 if fault is Fault.HANG else 4
        server.script(*[fault] * calls)
        for number, model in enumerate((one, other, one)):
            with pytest.raises(ModelUnavailable):
                model.complete(request(f"{number}"))
        for model in (one, other):
            with pytest.raises(ModelPaused):
                model.complete(request())
        assert len(server.requests) == calls
        time.sleep(0.45)
        assert other.complete(request()).text == "yes"
        assert one.complete(request()).text == "yes"

    def test_a_refused_key_costs_one_request(self, server: ModelServer, opened: Opened) -> None:
        one, other = chat(server, opened()), chat(server, opened())
        server.script(Fault.UNAUTHORIZED)
        with pytest.raises(ModelRejected, match="API_KEY"):
            one.complete(request())
        with pytest.raises(ModelPaused, match="API_KEY"):
            other.complete(request())
        assert len(server.requests) == 1

    def test_a_refused_request_is_no_outage(self, server: ModelServer, opened: Opened) -> None:
        model = chat(server, opened(limits_of(circuit_failures=1)))
        for fault in (Fault.BAD_REQUEST, Fault.CONTEXT_LENGTH, Fault.CONTENT_FILTER):
            server.script(fault)
            with pytest.raises(ModelRejected):
                model.complete(request())
        assert model.complete(request()).text == "yes"

    def test_tokens_are_settled_by_what_the_provider_counted(self, server: ModelServer, opened: Opened) -> None:
        # A bucket of 50: the estimate of 514 tokens overdraws it, the 6 that were used do not.
        model = chat(server, opened(limits_of(tokens_per_minute=1_000)))
        for _ in range(5):
            model.complete(request("hello there, twenty-four"))
        assert len(server.requests) == 5

    def test_calls_of_a_step_are_capped_and_wait_for_each_other(self, server: ModelServer, opened: Opened) -> None:
        server.latency_s = 0.4
        model, started = chat(server, opened(), concurrency=3), time.monotonic()
        with ThreadPoolExecutor(9) as threads:
            replies = list(threads.map(lambda _: model.complete(request()), range(9)))
        took_s = time.monotonic() - started
        assert server.peak == 3
        # Three at once can't take longer together; with the time that they waited for each other, twice as long.
        assert sum(reply.record.latency_ms for reply in replies) <= 3 * 1_000 * took_s + len(replies)

    def test_a_slot_that_never_comes_free_is_a_transport_failure(self, server: ModelServer, opened: Opened) -> None:
        model = chat(server, opened(), concurrency=1, timeout_s=0.5)
        server.script(Fault.HANG, Fault.HANG)
        with ThreadPoolExecutor(3) as threads:
            errors = [each.exception() for each in [threads.submit(model.complete, request()) for _ in range(3)]]
        assert all(isinstance(error, ModelUnavailable) for error in errors)
        assert sum("MEMFOREST_LLM__CONCURRENCY" in str(error) for error in errors) >= 1

    def test_an_error_that_is_none_of_ours_gives_the_permit_back(self, opened: Opened) -> None:
        class Broken:
            def model_name(self, step: Step) -> str:
                return "broken"

            def complete(self, request: ChatRequest) -> ChatReply:
                raise ZeroDivisionError

        settings = StepSettings("broken")
        model = LimitedChat(Broken(), opened(limits_of(concurrent_calls=1)), {Step.EXTRACT: settings}, wait_s=0.0)
        for _ in range(3):
            with pytest.raises(ZeroDivisionError):
                model.complete(request())


class FakeEmbedder:
    """Vectors of one number; raises the given errors first."""

    model, dimension = "fake", 1

    def __init__(self, *errors: Any) -> None:
        self.errors = list(errors)
        self.requests: list[int] = []

    def embed(self, texts: Sequence[str]) -> Embedded:
        self.requests.append(len(texts))
        if self.errors:
            raise self.errors.pop(0)
        record = CallRecord(Step.EMBED, self.model, len(texts), 0, 0, 0.5, 2.0, "ok")
        return Embedded(np.ones((len(texts), 1), dtype=np.float32), record)

    def embed_query(self, texts: Sequence[str]) -> Embedded:
        return self.embed(texts)


class TestEmbedder:
    def test_each_request_has_its_permit_and_the_records_add_up(self, opened: Opened) -> None:
        fake = FakeEmbedder()
        model = LimitedEmbedder(fake, opened(limits_of(requests_per_minute=20)), StepSettings("fake"), 4, wait_s=0)
        embedded = model.embed(["a"] * 6)
        assert (fake.requests, embedded.vectors.shape) == ([4, 2], (6, 1))
        assert (embedded.record.prompt_tokens, embedded.record.cost_usd, embedded.record.latency_ms) == (6, 1.0, 4.0)
        with pytest.raises(ModelRateLimited):
            model.embed_query(["a"])


class TestWiring:
    def test_limits_and_models_come_from_settings(
        self, server: ModelServer, servers: SessionServers, redis_url: str
    ) -> None:
        settings = load_settings(
            broker=BrokerSettings(url=SecretStr(servers.broker_url)),
            llm=LlmSettings(model="openai/test", api_base=server.url, api_key=SecretStr("k")),
            embedding=EmbeddingSettings(model="openai/vectors", api_base=server.url, api_key=SecretStr("k")),
            deployment=DeploymentSettings(worker_processes=3),
        )
        limits = open_limits(settings)
        model = limit_chat(open_chat(settings.llm), limits, settings.llm)
        assert model.complete(request()).text == "yes"
        embedder = limit_embedder(open_embedder(settings.embedding), limits, settings.embedding)
        assert embedder.embed(["a"]).vectors.shape[0] == 1
        key, vectors_key = chat_key(settings.llm, Step.EXTRACT), embedding_key(settings.embedding)
        assert key is not None
        assert limits.paused(key) == 0.0
        client = Redis.from_url(redis_url, decode_responses=True)
        assert {f"{PREFIX}{{{name}}}" for name in (key, vectors_key)} <= set(client.scan_iter(f"{PREFIX}*"))
        client.close()
        limits.close()

    def test_offline_and_built_in_models_have_no_limits(self) -> None:
        built_in = FakeEmbedder()
        limits = open_limits(load_settings(broker=BrokerSettings(url=SecretStr("sentinel://host:26379"))))
        assert limit_embedder(built_in, limits, EmbeddingSettings()) is built_in
        assert embedding_key(EmbeddingSettings()) is None
        assert chat_key(LlmSettings(), Step.EXTRACT) is None
        limits.close()
