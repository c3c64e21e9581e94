"""What the OpenAPI document says of values is of parameters that exist, and of their types."""

from __future__ import annotations

from functools import cache
from typing import Any

import jsonschema_rs
import pytest

from memforest_core.client.remote.route_table import ROUTES
from memforest_core.service.http import wire
from memforest_core.service.http.app import openapi
from memforest_core.service.http.endpoints import method_of
from memforest_core.service.http.wire import parameters


def arguments() -> set[str]:
    """The parameters of all routes, and each with the name of its route."""
    found = {(route.name, each.name) for route in ROUTES.values() for each in parameters(method_of(route))}
    return {name for _, name in found} | {f"{route}.{name}" for route, name in found}


def test_each_constraint_is_of_a_parameter() -> None:
    assert set(wire._VALUES) <= arguments()
    assert set(wire._BODIES) <= set(ROUTES)


document = cache(openapi)


def defaults() -> list[Any]:
    """The schema of each argument with a default."""
    bodies = document()["components"]["schemas"].items()
    found = [
        pytest.param(schema, id=f"{title}.{name}")
        for title, body in bodies
        if title.endswith("Request")
        for name, schema in body.get("properties", {}).items()
        if "default" in schema
    ]
    queries = [
        pytest.param(each["schema"], id=f"{operation['operationId']}.{each['name']}")
        for verbs in document()["paths"].values()
        for operation in verbs.values()
        for each in operation.get("parameters", ())
        if "default" in each["schema"]
    ]
    return found + queries


@pytest.mark.parametrize("schema", defaults())
def test_each_default_is_allowed(schema: dict[str, Any]) -> None:
    whole = {**schema, "components": document()["components"]}
    assert jsonschema_rs.validator_for(whole).is_valid(schema["default"])
