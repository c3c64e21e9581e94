"""What each class of error means for the work it hit."""

from __future__ import annotations

import pytest

from memforest_core import errors
from memforest_core.errors import MemForestError
from memforest_core.work.jobs import FIRST_DELAY_S, LONGEST_DELAY_S, PAUSE_S, Decision, Verdict, backoff, decide
from memforest_core.work.waiting import WaitTimeout

SPLIT, DEGRADE = Decision(Verdict.SPLIT), Decision(Verdict.DEGRADE)
FIRST = backoff(1, 0.5)
COUNTED = Decision(Verdict.RETRY, FIRST, counts=True)
LATER = Decision(Verdict.RETRY, FIRST)
PAUSED = Decision(Verdict.RETRY, PAUSE_S)

TABLE: list[tuple[type[MemForestError], dict[str, float | str], Decision, Decision]] = [
    # error, its arguments, when the work can be split, when it can't
    (errors.RetryableError, {}, LATER, LATER),
    (errors.StoreUnavailable, {}, LATER, LATER),
    (errors.ForestChanged, {}, LATER, LATER),
    (errors.StoreContended, {}, LATER, LATER),
    (errors.StoreRefused, {"code": "store_refused"}, LATER, LATER),
    (errors.TenantMoved, {}, LATER, LATER),
    (errors.BrokerUnavailable, {}, LATER, LATER),
    (errors.IndexUnavailable, {}, LATER, LATER),
    (errors.ModelUnavailable, {}, LATER, LATER),
    (errors.ModelRateLimited, {}, LATER, LATER),
    (WaitTimeout, {}, LATER, LATER),
    (errors.ContentFault, {}, DEGRADE, DEGRADE),
    (errors.ContextTooLong, {}, SPLIT, DEGRADE),
    (errors.ContentRefused, {}, SPLIT, DEGRADE),
    (errors.ModelRejected, {}, PAUSED, PAUSED),
    (errors.ModelAuthFailed, {}, PAUSED, PAUSED),
    (errors.InvariantViolated, {}, SPLIT, COUNTED),
    (errors.PermanentError, {}, SPLIT, COUNTED),
    (errors.CallerError, {}, SPLIT, COUNTED),
    (errors.InvalidInput, {}, SPLIT, COUNTED),
    (errors.SessionConflict, {}, SPLIT, COUNTED),
    (errors.NotFound, {}, SPLIT, COUNTED),
    (errors.InvalidSettings, {}, SPLIT, COUNTED),
    (errors.QuotaExceeded, {"retry_after": 3.0}, SPLIT, COUNTED),
    (errors.ForestFrozen, {"retry_after": 3.0}, SPLIT, COUNTED),
    (MemForestError, {}, SPLIT, COUNTED),
]


@pytest.mark.parametrize(("kind", "arguments", "divisible", "whole"), TABLE, ids=[row[0].__name__ for row in TABLE])
def test_every_error_has_its_decision(
    kind: type[MemForestError], arguments: dict[str, float | str], divisible: Decision, whole: Decision
) -> None:
    """Given the first try of five, with jitter in the middle."""
    error = kind("it failed", **arguments)

    for can_split, expected in ((True, divisible), (False, whole)):
        assert decide(error, attempts=1, max_attempts=5, divisible=can_split, jitter=0.5) == expected


def test_the_table_names_every_error_there_is() -> None:
    own = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, MemForestError)]

    assert set(own) <= {row[0] for row in TABLE}


@pytest.mark.parametrize("kind", [errors.ModelUnavailable, errors.ModelRateLimited, errors.StoreUnavailable])
@pytest.mark.parametrize("attempts", [1, 5, 6, 1_000, 30_000])
def test_transport_faults_are_tried_again_without_end_and_never_blame_the_work(
    kind: type[errors.RetryableError], attempts: int
) -> None:
    decision = decide(kind("away"), attempts=attempts, max_attempts=5, divisible=False, jitter=0.0)

    assert decision.verdict is Verdict.RETRY
    assert not decision.counts
    assert decision.delay_s <= LONGEST_DELAY_S


@pytest.mark.parametrize(
    ("attempts", "verdict"), [(1, Verdict.RETRY), (4, Verdict.RETRY), (5, Verdict.DEAD), (6, Verdict.DEAD)]
)
def test_a_permanent_error_is_dead_after_the_last_attempt(attempts: int, verdict: Verdict) -> None:
    decision = decide(errors.InvariantViolated("no"), attempts=attempts, max_attempts=5, divisible=False, jitter=0.0)

    assert (decision.verdict, decision.counts) == (verdict, True)


@pytest.mark.parametrize(
    ("retry_after", "delay"), [(None, FIRST), (0.0, FIRST), (0.1, FIRST), (30.0, 30.0), (3_600.0, 3_600.0)]
)
def test_a_provider_that_says_when_is_not_called_sooner(retry_after: float | None, delay: float) -> None:
    error = errors.ModelRateLimited("429", retry_after=retry_after)

    assert decide(error, attempts=1, max_attempts=5, divisible=True, jitter=0.5).delay_s == delay


@pytest.mark.parametrize("tries", [1, 2, 3, 8, 9, 50, 10_000])
def test_delays_double_up_to_a_limit_and_half_of_them_is_chance(tries: int) -> None:
    longest = min(LONGEST_DELAY_S, FIRST_DELAY_S * 2 ** min(tries - 1, 20))

    assert backoff(tries, 0.0) == longest / 2
    assert backoff(tries, 0.5) == longest * 3 / 4
    assert longest * 0.99 < backoff(tries, 0.999) < longest


def test_a_first_try_that_was_not_counted_waits_like_a_first() -> None:
    assert backoff(0, 0.2) == backoff(-3, 0.2) == backoff(1, 0.2)
