"""What the OpenAPI document says of values is of parameters that exist, and of their types."""

from __future__ import annotations

import jsonschema_rs

from memforest_core.client.route_table import ROUTES
from memforest_core.service.http import wire
from memforest_core.service.http.endpoints import method_of
from memforest_core.service.http.http_app import openapi
from memforest_core.service.http.wire import parameters


def arguments() -> set[str]:
    """The parameters of all routes, and each with the name of its route."""
    found = {(route.name, each.name) for route in ROUTES.values() for each in parameters(method_of(route))}
    return {name for _, name in found} | {f"{route}.{name}" for route, name in found}


def test_each_constraint_is_of_a_parameter() -> None:
    assert set(wire._VALUES) <= arguments()
    assert set(wire._BODIES) <= set(ROUTES)


def test_each_default_is_allowed() -> None:
    document = openapi()
    fields = [
        (f"{title}.{name}", schema)
        for title, body in document["components"]["schemas"].items()
        if title.endswith("Request")
        for name, schema in body.get("properties", {}).items()
    ]
    queries = [
        (f"{operation['operationId']}.{each['name']}", each["schema"])
        for verbs in document["paths"].values()
        for operation in verbs.values()
        for each in operation.get("parameters", ())
    ]
    given = [(name, schema) for name, schema in fields + queries if "default" in schema]
    assert len(given) > 50
    for name, schema in given:
        whole = {**schema, "components": document["components"]}
        assert jsonschema_rs.validator_for(whole).is_valid(schema["default"]), name
