"""What the log says of failed calls."""

from __future__ import annotations

from structlog.testing import capture_logs

from memforest_core.errors import ModelAuthFailed, ModelUnavailable
from memforest_core.models.limits.limited_models import FailedCalls


def test_each_kind_is_logged_at_once_and_its_repetitions_once_a_minute() -> None:
    now = 100.0
    calls = FailedCalls(lambda: now)
    refused, unavailable = ModelAuthFailed("The key is refused."), ModelUnavailable("It is away.")
    with capture_logs() as logged:
        for error in (refused, refused, unavailable, refused):
            calls.tell("extract", "openai/m", error)
        now = 161.0
        calls.tell("extract", "openai/m", refused)
    assert [(line["code"], line["reason"], line["since_last"]) for line in logged] == [
        ("model_auth_failed", "The key is refused.", 0),
        ("model_unavailable", "It is away.", 0),
        ("model_auth_failed", "The key is refused.", 2),
    ]
    assert {line["event"] for line in logged} == {"model_call_failed"}
