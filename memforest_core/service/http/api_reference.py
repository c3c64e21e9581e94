"""The page /docs: the operations of the OpenAPI document, without scripts and without a file of anybody else."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memforest_core import __version__
from memforest_core.service.explorer.page_requests import rendered

Schema = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Field:
    """What an operation takes."""

    name: str
    place: str
    kind: str
    needed: bool
    default: str


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation as the page shows it."""

    verb: str
    path: str
    id: str
    summary: str
    paragraphs: Sequence[str]
    fields: Sequence[Field]
    example: str
    answers: Sequence[tuple[str, str]]


def reference_page(document: Schema) -> str:
    """The page's HTML."""
    tags: dict[str, list[Operation]] = {}
    for path, operations in document["paths"].items():
        for verb, operation in operations.items():
            tags.setdefault(operation["tags"][0], []).append(_operation(verb, path, operation, document))
    values = {"caller": None, "visit": None, "about": document["info"]["description"].replace("`", ""), "tags": tags}
    return rendered("reference.html", {**values, "version": __version__})


def _operation(verb: str, path: str, operation: Schema, document: Schema) -> Operation:
    schemas = document["components"]["schemas"]
    fields = [
        _field(each["name"], each["in"], each["schema"], bool(each.get("required")))
        for each in operation.get("parameters", ())
    ]
    body = operation.get("requestBody", {}).get("content", {})
    given = body.get("application/json", {}).get("schema", {})
    given = schemas[_name(given)] if "$ref" in given else given
    needed = given.get("required", ())
    fields += [_field(name, "body", each, name in needed) for name, each in given.get("properties", {}).items()]
    if body and not given:
        fields.append(Field("", "body", next(iter(body)), True, ""))
    examples = given.get("examples", ())
    summary, *paragraphs = [
        " ".join(text.replace("`", "").split())
        for text in (operation.get("summary", ""), *operation.get("description", "").split("\n\n"))
    ]
    answers = [
        (status, ", ".join(_kind(each.get("schema", {})) for each in answer.get("content", {}).values()))
        for status, answer in operation["responses"].items()
    ]
    return Operation(
        verb.upper(),
        path,
        operation["operationId"],
        summary,
        [each for each in paragraphs if each != summary],
        fields,
        json.dumps(examples[0], indent=2, ensure_ascii=False) if examples else "",
        [answer for answer in answers if answer[0] < "400"],
    )


def _field(name: str, place: str, schema: Schema, needed: bool) -> Field:
    default = schema.get("default")
    return Field(name, place, _kind(schema), needed, "" if default is None else json.dumps(default))


def _name(schema: Schema) -> str:
    return str(schema["$ref"]).rpartition("/")[2]


def _kind(schema: Schema) -> str:
    """A type in a few words."""
    if "$ref" in schema:
        return _name(schema)
    if "enum" in schema:
        return ", ".join(str(each) for each in schema["enum"] if each is not None)
    if "anyOf" in schema:
        kinds = dict.fromkeys(_kind(each) for each in schema["anyOf"] if each.get("type") != "null")
        return " or ".join(kinds)
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {})) or 'values'}"
    return str(schema.get("const") or schema.get("type", ""))
