"""The page /docs: the operations of the OpenAPI document, without scripts and without a file of anybody else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from memforest_core.service.explorer.page_requests import rendered

Schema = Mapping[str, Any]


def reference_page(document: Schema) -> str:
    """The page's HTML."""
    tags: dict[str, list[tuple[str, str, Schema]]] = {}
    for path, operations in document["paths"].items():
        for verb, operation in operations.items():
            tags.setdefault(operation["tags"][0], []).append((verb.upper(), path, operation))

    def body(operation: Schema) -> Schema:
        given: Schema = (
            operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
        )
        return document["components"]["schemas"][_kind(given)] if "$ref" in given else given

    def fields(operation: Schema) -> Iterator[tuple[str, str, Schema, bool]]:
        for each in operation.get("parameters", ()):
            yield each["name"], each["in"], each["schema"], each.get("required", False)
        needed = body(operation).get("required", ())
        for name, schema in body(operation).get("properties", {}).items():
            yield name, "body", schema, name in needed

    values = {"about": document["info"]["description"], "tags": tags, "body": body, "fields": fields}
    return rendered("reference.html", {"caller": None, "visit": None, **values, "kind": _kind, "texts": _texts})


def _texts(operation: Schema) -> list[str]:
    """The paragraphs about an operation; the first one is its summary."""
    summary, text = operation.get("summary", ""), operation.get("description", "")
    text = text if text.startswith(summary) else f"{summary}\n\n{text}"
    return [" ".join(each.replace("`", "").split()) for each in text.split("\n\n")]


def _kind(schema: Schema) -> str:
    """A type in a few words."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "enum" in schema:
        return ", ".join(str(each) for each in schema["enum"] if each is not None)
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_kind(each) for each in schema["anyOf"] if each.get("type") != "null"))
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {})) or 'values'}"
    return str(schema.get("const") or schema.get("type", ""))
