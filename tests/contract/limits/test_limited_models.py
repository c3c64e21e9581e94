"""Models behind the limits, over HTTP: what one worker's call meets, the others know."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from pydantic import SecretStr
from redis import Redis

from memforest_core.errors import ModelRateLimited, ModelRejected, ModelUnavailable
from memforest_core.models.accounting import StepSettings
from memforest_core.models.calls import CallRecord, ChatReply, ChatRequest, Message, Step
from memforest_core.models.embedders.batching import BuiltInEmbedder
from memforest_core.models.limits.call_limits import PREFIX, CallLimits
from memforest_core.models.limits.limited_models import LimitedCalls
from memforest_core.models.limits.model_limits import ModelPaused, limit_key
from memforest_core.models.litellm_chat import LitellmChat
from memforest_core.models.litellm_requests import LitellmEmbedder
from memforest_core.models.model_opening import chat_key, open_chat, open_embedder, open_limits
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


def chat(server: ModelServer, limits: CallLimits, *, wait_s: float = 0.0, **changes: Any) -> LitellmChat:
    settings = StepSettings("openai/test", **({"api_base": server.url, "api_key": "key-1"} | changes))
    return LitellmChat({Step.EXTRACT: settings}, limits, wait_s=wait_s)


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
        calls = LimitedCalls(Step.EXTRACT, StepSettings("broken"), opened(limits_of(concurrent_calls=1)), 0.0)

        def broken() -> ChatReply:
            raise ZeroDivisionError

        for _ in range(3):
            with pytest.raises(ZeroDivisionError):
                calls.called("input", 1, broken)


def test_each_request_of_an_embedder_has_its_permit(server: ModelServer, opened: Opened) -> None:
    limits = opened(limits_of(requests_per_minute=20))
    model = LitellmEmbedder(StepSettings("openai/vectors", api_base=server.url), 4, limits, wait_s=0.0)
    embedded = model.embed([f"text {number}" for number in range(6)])
    assert [len(call.body["input"]) for call in server.requests] == [4, 2]
    assert embedded.vectors.shape == (6, model.dimension)
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
        model = open_chat(settings.llm, limits)
        assert model.complete(request()).text == "yes"
        embedder = open_embedder(settings.embedding, limits)
        assert embedder.embed(["a"]).vectors.shape[0] == 1
        key, vectors_key = chat_key(settings.llm, Step.EXTRACT), limit_key("openai/vectors", server.url)
        assert key is not None
        assert limits.paused(key) == 0.0
        client = Redis.from_url(redis_url, decode_responses=True)
        assert {f"{PREFIX}{{{name}}}" for name in (key, vectors_key)} <= set(client.scan_iter(f"{PREFIX}*"))
        client.close()
        limits.close()

    def test_offline_and_built_in_models_have_no_limits(self) -> None:
        limits = open_limits(load_settings(broker=BrokerSettings(url=SecretStr("sentinel://host:26379"))))
        assert isinstance(open_embedder(EmbeddingSettings(), limits), BuiltInEmbedder)
        assert chat_key(LlmSettings(), Step.EXTRACT) is None
        limits.close()
