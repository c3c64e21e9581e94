"""Checks requests for a Qdrant server against its OpenAPI description."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from pathlib import Path
from typing import Any
from uuid import UUID

from jsonschema import Draft4Validator
from jsonschema.exceptions import best_match

SUBSET = Path(__file__).with_name("qdrant-openapi-subset.json")

_ENOUGH = 4
"""Numbers of a long list that go through the schema; all of them are checked to be numbers."""


@lru_cache(maxsize=1)
def description() -> dict[str, Any]:
    """The OpenAPI subset as it is on disk."""
    loaded: dict[str, Any] = json.loads(SUBSET.read_text())
    return loaded


def operation(method: str, path: str) -> str | None:
    """The path template that describes ``method path`` (no query string), None when none does."""
    for template, methods in description()["paths"].items():
        pattern = re.sub(r"\{[^}]+\}", "[^/]+", template)
        if re.fullmatch(pattern, path) and method.lower() in methods:
            return str(template)
    return None


def problem(method: str, path: str, query: dict[str, str], body: Any) -> str | None:
    """Why the request is not one that Qdrant describes, or None when it is."""
    template = operation(method, path)
    if template is None:
        return f"{method} {path} is not described"
    described = description()["paths"][template][method.lower()]
    known = {p["name"] for p in described["parameters"] if p["in"] == "query"}
    if unknown := sorted(set(query) - known):
        return f"unknown query parameters {unknown}"
    if "requestBody" not in described:
        return None if body is None else "a body where none is described"
    schema = described["requestBody"]["content"]["application/json"]["schema"]
    reference = str(schema["$ref"]).rsplit("/", 1)[1]
    return _schema_problem(reference, body)


def _schema_problem(reference: str, body: Any) -> str | None:
    compact = json.dumps(_compact(body), sort_keys=True)
    return _compact_problem(reference, compact)


@lru_cache(maxsize=4096)
def _compact_problem(reference: str, compact: str) -> str | None:
    found = best_match(_validator(reference).iter_errors(json.loads(compact)))
    if found is None:
        return None
    return f"{'/'.join(map(str, found.absolute_path)) or '(body)'}: {found.message[:300]}"


@lru_cache(maxsize=64)
def _validator(reference: str) -> Draft4Validator:
    schemas = {k: _closed(v) for k, v in description()["components"]["schemas"].items()}
    return Draft4Validator({"$ref": f"#/components/schemas/{reference}", "components": {"schemas": schemas}})


def _closed(schema: Any) -> Any:
    """The schema for JSON Schema: ``nullable`` spelled out, and no properties but those described.

    Qdrant ignores a misspelled property; a test must not.
    """
    if isinstance(schema, list):
        return [_closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if schema == {"nullable": True}:
        return {"type": "null"}
    made = {key: _closed(value) for key, value in schema.items() if key != "nullable"}
    if isinstance(made.get("properties"), dict) and made.get("type") == "object":
        made.setdefault("additionalProperties", False)
    if made.get("format") == "uuid":
        made["pattern"] = "^[0-9a-fA-F]{8}-?([0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}$"
    if schema.get("nullable") is True and isinstance(made.get("type"), str):
        made["type"] = [made["type"], "null"]
    return made


def _compact(value: Any) -> Any:
    """A body of the same shape with the repetition taken out, so that checking it stays cheap."""
    if isinstance(value, dict):
        return {key: _compact(item) for key, item in value.items()}
    if isinstance(value, list):
        if len(value) > _ENOUGH and all(type(item) in (int, float) for item in value):
            whole = all(type(item) is int and item >= 0 for item in value)
            return [0 if whole else 0.5] * _ENOUGH
        distinct: dict[str, Any] = {}
        for item in map(_compact, value):
            distinct.setdefault(json.dumps(item, sort_keys=True), item)
        return list(distinct.values())
    if isinstance(value, str):
        return str(UUID(int=0)) if _is_uuid(value) else value
    return 0.5 if isinstance(value, float) else value


def _is_uuid(text: str) -> bool:
    return bool(re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", text))
