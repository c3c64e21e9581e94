"""Errors of the library as problems, and back again."""

from __future__ import annotations

import inspect
import json

import pytest

from memforest_core import errors
from memforest_core.client.remote.exchange import HttpAnswer, result_of
from memforest_core.errors import MemForestError
from memforest_core.models.limits.model_limits import ModelPaused
from memforest_core.service.http.problems import answer, problem_of
from memforest_core.work.jobs import WorkError
from memforest_core.work.waiting import OperationFailed, WaitTimeout

RAISED = [
    errors.InvalidInput("Set k.", code="invalid_k"),
    errors.SessionConflict("Turn 1 differs."),
    errors.NotFound("No such session."),
    errors.QuotaExceeded("Full.", retry_after=7.0),
    errors.ForestFrozen("Being merged."),
    errors.InvalidSettings("Set a model."),
    errors.StoreUnavailable("Postgres is away."),
    errors.IndexUnavailable("Qdrant is away.", retry_after=3.0),
    errors.ForestChanged("Ask again."),
    errors.ModelUnavailable("The model is away."),
    errors.ModelRateLimited("Too many calls.", retry_after=9.0),
    errors.ModelRejected("Unknown model."),
    errors.ModelAuthFailed("No key."),
    errors.ContentFault("Not JSON."),
    errors.InvariantViolated("Broken."),
    WaitTimeout("Not yet.", retry_after=1.0, last_error=WorkError("model_rejected", "Unknown model.")),
    OperationFailed("It was given up."),
]


@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
def test_a_client_raises_what_the_library_raised(error: MemForestError) -> None:
    """Given an error, when it is answered and read by the client, then class, code and sentence are the same."""
    response = answer(problem_of(error))
    reported = HttpAnswer(response.status_code, bytes(response.body), dict(response.headers))

    with pytest.raises(MemForestError) as raised:
        result_of(reported, str)

    assert type(raised.value) is type(error)
    assert (raised.value.code, raised.value.message) == (error.code, error.message)
    wanted = getattr(error, "retry_after", None)
    if wanted is not None:
        assert getattr(raised.value, "retry_after", None) == wanted
        assert int(response.headers["retry-after"]) >= wanted


def test_a_client_hears_why_a_wait_is_long() -> None:
    """Given a wait whose last try failed, when the time is over, then the client's error says how it failed."""
    last = WorkError("model_rejected", "Unknown model.")
    with pytest.raises(WaitTimeout) as raised:
        _given(WaitTimeout("Not yet.", last_error=last))
    assert raised.value.last_error == last


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ModelPaused("Nobody calls it.", retry_after=4.0), errors.ModelUnavailable),
        (errors.StoreContended("40P01"), errors.StoreUnavailable),
    ],
)
def test_a_class_of_the_server_alone_is_the_next_known_one(error: MemForestError, kind: type[MemForestError]) -> None:
    """Given an error that clients do not have, when they read it, then they raise what it is a kind of."""
    with pytest.raises(MemForestError) as raised:
        _given(error)
    assert type(raised.value) is kind
    assert raised.value.code == error.code


def _given(error: MemForestError) -> None:
    response = answer(problem_of(error))
    result_of(HttpAnswer(response.status_code, bytes(response.body), dict(response.headers)), str)


def test_every_error_has_a_status_of_its_kind() -> None:
    """Callers' faults are 4xx (but not what the server is missing), what passes is 423, 429, 503 or 504."""
    for error in RAISED:
        status = problem_of(error).status
        match error:
            case errors.InvalidSettings():
                assert status == 501
            case errors.CallerError():
                assert 400 <= status < 500
            case errors.RetryableError():
                assert status in (503, 504)
            case OperationFailed():
                assert status == 409
            case _:
                assert status >= 500


def test_all_classes_are_tried() -> None:
    known = {found for found in vars(errors).values() if inspect.isclass(found) and issubclass(found, MemForestError)}
    abstract = {MemForestError, errors.CallerError, errors.RetryableError, errors.PermanentError}
    raised = {type(error) for error in RAISED}

    assert known - abstract - raised == {
        errors.BrokerUnavailable,
        errors.ContentRefused,
        errors.ContextTooLong,
        errors.StoreContended,
        errors.StoreRefused,
    }


def test_a_problem_is_a_problem() -> None:
    body = json.loads(bytes(answer(problem_of(errors.NotFound("No such session."))).body))

    assert body == {
        "type": "about:blank",
        "title": "Not Found",
        "status": 404,
        "detail": "No such session.",
        "code": "not_found",
        "error": "NotFound",
    }
