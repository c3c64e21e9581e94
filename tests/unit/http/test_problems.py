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
    (errors.InvalidInput("Set k.", code="invalid_k"), 400),
    (errors.SessionConflict("Turn 1 differs."), 409),
    (errors.NotFound("No such session."), 404),
    (errors.QuotaExceeded("Full.", retry_after=7.0), 429),
    (errors.ForestFrozen("Being merged."), 423),
    (errors.InvalidSettings("Set a model."), 501),
    (errors.StoreUnavailable("Postgres is away."), 503),
    (errors.TenantMoved("This tenant is in another database.", retry_after=5.0), 503),
    (errors.IndexUnavailable("Qdrant is away.", retry_after=3.0), 503),
    (errors.ForestChanged("Ask again."), 503),
    (errors.ModelUnavailable("The model is away."), 503),
    (errors.ModelRateLimited("Too many calls.", retry_after=9.0), 503),
    (errors.ModelRejected("Unknown model."), 502),
    (errors.ModelAuthFailed("No key."), 502),
    (errors.ContentFault("Not JSON."), 502),
    (errors.InvariantViolated("Broken."), 500),
    (WaitTimeout("Not yet.", retry_after=1.0, last_error=WorkError("model_rejected", "Unknown model.")), 504),
    (OperationFailed("It was given up."), 409),
]


@pytest.mark.parametrize(("error", "status"), RAISED, ids=lambda value: type(value).__name__)
def test_a_client_raises_what_the_library_raised(error: MemForestError, status: int) -> None:
    """Given an error, when it is answered and read by the client, then class, code and sentence are the same."""
    response = answer(problem_of(error))
    reported = HttpAnswer(response.status_code, bytes(response.body), dict(response.headers))

    with pytest.raises(MemForestError) as raised:
        result_of(reported, str)

    assert (response.status_code, type(raised.value)) == (status, type(error))
    assert (raised.value.code, raised.value.message) == (error.code, error.message)
    assert getattr(raised.value, "last_error", None) == getattr(error, "last_error", None)
    wanted = getattr(error, "retry_after", None)
    if wanted is not None:
        assert getattr(raised.value, "retry_after", None) == wanted
        assert int(response.headers["retry-after"]) >= wanted


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


def test_all_classes_are_tried() -> None:
    known = {found for found in vars(errors).values() if inspect.isclass(found) and issubclass(found, MemForestError)}
    abstract = {MemForestError, errors.CallerError, errors.RetryableError, errors.PermanentError}
    raised = {type(error) for error, _ in RAISED}

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
