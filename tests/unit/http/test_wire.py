"""Every public operation is reached over HTTP, with what its signature says."""

from __future__ import annotations

import inspect

import pytest
from pydantic import TypeAdapter, ValidationError

from memforest_core.client.api import MemForest
from memforest_core.client.lifecycle import Lifecycle
from memforest_core.client.route_table import ROUTES
from memforest_core.domain.routes import Route, Scope, Verb
from memforest_core.observe.webhooks.service import Webhooks
from memforest_core.service.http.endpoints import method_of
from memforest_core.service.http.wire import LOCAL, body_model, parameters, returned
from memforest_core.work.dead import DeadLetters

ELSEWHERE = {
    "client": "the object itself",
    "embedded_node": "of a process",
    "close": "of a connection",
    "connect": "opens",
    "embedded": "opens",
    "enqueue_many": "sessions one by one",
    "enqueue_stream": "sessions one by one",
    "for_tenant": "a key has one tenant",
    "ingest": "enqueue",
    "ingest_many": "enqueue_many",
    "dead": "by its methods",
    "webhooks": "by its methods",
    "lifecycle": "by its methods",
    "services": "of a process",
    "settings": "of a process",
    "tenant": "GET /v1/key",
    "lifecycle.export": "GET /v1/bundle",
    "lifecycle.import_": "POST /v1/bundle",
}
"""What has no route of its own, and why."""


def public(kind: type, prefix: str = "") -> set[str]:
    return {prefix + name for name in dir(kind) if not name.startswith("_")}


def test_every_public_operation_has_a_route() -> None:
    below = {"lifecycle": Lifecycle, "dead": DeadLetters, "webhooks": Webhooks}
    operations = public(MemForest).union(*(public(kind, f"{name}.") for name, kind in below.items()))

    assert operations - ELSEWHERE.keys() == ROUTES.keys()


def test_reading_needs_no_more_than_a_reading_key() -> None:
    changes = {route.name for route in ROUTES.values() if route.scope is Scope.READ and route.verb is not Verb.GET}
    assert changes == {"answer", "context", "flush", "intent", "recall", "recall_many"}


def test_no_two_routes_share_a_place() -> None:
    assert len({(route.verb, route.path) for route in ROUTES.values()}) == len(ROUTES)


@pytest.mark.parametrize("route", ROUTES.values(), ids=lambda route: route.id)
def test_a_route_takes_what_the_method_takes(route: Route) -> None:
    """Given a route, when its model is made, then it has the method's parameters, and the example fits."""
    method = method_of(route)
    found = parameters(method)
    own = {name for name in inspect.signature(method).parameters if name not in LOCAL} - {"options"}

    assert own <= {each.name for each in found}
    model = body_model(route.name, found, route.example)
    if route.example:
        model.model_validate(route.example)
    model.model_json_schema()
    if returned(method) is not None:
        TypeAdapter(returned(method)).json_schema(mode="serialization")


@pytest.mark.parametrize("route", ROUTES.values(), ids=lambda route: route.id)
def test_owners_of_a_route_are_parameters(route: Route) -> None:
    names = {each.name for each in parameters(method_of(route))}

    assert set(route.owners) <= names
    assert ("owner" in names) == ("owner" in route.owners)


def test_a_field_that_nobody_knows_is_refused() -> None:
    method = method_of(ROUTES["recall"])
    model = body_model("recall", parameters(method), {})

    with pytest.raises(ValidationError, match="questoin"):
        model.model_validate({"owner": "a", "questoin": "Where?"})


@pytest.mark.parametrize(
    ("given", "read"), [("2026-05-20", "2026-05-20"), ("1716200000", 1_716_200_000.0), ("20260520", "20260520")]
)
def test_unix_seconds_in_a_query_are_numbers(given: str, read: object) -> None:
    model = body_model("facts", parameters(method_of(ROUTES["facts"])), {})

    assert model.model_validate({"owner": "a", "since": given}).since == read  # type: ignore[attr-defined]
