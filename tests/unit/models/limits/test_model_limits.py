"""What an error says about a model, and what a call is estimated to cost; the name and the share of a model's limits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from memforest_core.errors import (
    ContentRefused,
    ContextTooLong,
    MemForestError,
    ModelAuthFailed,
    ModelRateLimited,
    ModelRejected,
    ModelUnavailable,
)
from memforest_core.models.limits.model_limits import CallOutcome, estimated_tokens, limit_key, outcome_of
from tests.contract.limits.limited import limits_of


def called(error: MemForestError) -> MemForestError:
    error.call = object()
    return error


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (None, CallOutcome.ANSWERED),
        (called(ModelRateLimited("m")), CallOutcome.RATE_LIMITED),
        (called(ModelUnavailable("m")), CallOutcome.UNAVAILABLE),
        (called(ModelAuthFailed("m")), CallOutcome.AUTH),
        (called(ModelRejected("m")), CallOutcome.REJECTED),
        (called(ContextTooLong("m")), CallOutcome.REJECTED),
        (called(ContentRefused("m")), CallOutcome.REJECTED),
        (ModelUnavailable("all slots stayed busy"), CallOutcome.UNMADE),
        (ModelAuthFailed("no key is set"), CallOutcome.UNMADE),
    ],
)
def test_what_an_error_says_about_the_model(error: MemForestError | None, outcome: CallOutcome) -> None:
    assert outcome_of(error) is outcome


def test_tokens_are_estimated_by_bytes_and_the_answer_comes_on_top() -> None:
    assert estimated_tokens(["a" * 400]) == 101
    assert estimated_tokens(["記憶" * 100], output=50) == 201
    assert estimated_tokens([]) == 1
    assert estimated_tokens(["\ud800"]) == 1


@pytest.mark.parametrize(
    ("api_base", "key"),
    [
        (None, "openai/m"),
        ("http://10.0.0.1:8000/v1", "openai/m@10.0.0.1:8000"),
        ("https://user:secret@models.example/v1/?key=secret", "openai/m@models.example"),
    ],
)
def test_a_model_is_named_with_its_host_and_without_secrets(api_base: str | None, key: str) -> None:
    assert limit_key("openai/m", api_base) == key


def test_two_deployments_behind_one_host_differ_and_their_path_is_not_shown() -> None:
    one, other = (limit_key("m", f"https://gateway/acc-{n}/v1") for n in (1, 2))
    assert one != other
    assert "acc" not in one + other


def test_a_share_is_one_part_of_the_limits_and_lets_at_least_one_call_through() -> None:
    whole = limits_of(requests_per_minute=60, tokens_per_minute=900, concurrent_calls=2)
    assert whole.share(4) == replace(whole, requests_per_minute=15, tokens_per_minute=225, concurrent_calls=1)
    assert limits_of().share(4) == limits_of()
