"""References made from the code: HTTP from the OpenAPI document, Python's public names, commands, all settings."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Callable, Iterator
from enum import Enum
from types import FunctionType, MethodType
from typing import Any

import typer

import memforest_core
from memforest_core.cli.config import Setting, walk
from memforest_core.cli.program import PANELS, app
from memforest_core.client.lifecycle import Lifecycle
from memforest_core.client.route_table import FOLDERS
from memforest_core.observe.webhooks.service import Webhooks
from memforest_core.settings import Settings
from memforest_core.work.dead import DeadLetters

ERROR = 400
"""The first status that is one."""
_WIDTH = 100
"""Characters of a signature on one line."""
FACES = ("MemForestClient", "AsyncMemForest", "RemoteMemForest", "AsyncRemoteMemForest")
"""Other classes with the methods of ``MemForest``."""


def http_reference(document: dict[str, Any]) -> str:
    """The HTTP reference as Markdown: each operation with what it takes, answers and refuses."""
    schemas = document["components"]["schemas"]
    tags: dict[str, list[str]] = {tag: [] for tag in FOLDERS}
    refusals: dict[str, str] = {}
    for path, operations in document["paths"].items():
        for verb, operation in operations.items():
            tags.setdefault(operation["tags"][0], []).append(_operation(verb, path, operation, schemas))
            refusals |= {
                status: each["description"] for status, each in operation["responses"].items() if int(status) >= ERROR
            }
    parts = [_HEAD + "".join(f"| {status} | {each} |\n" for status, each in sorted(refusals.items()))]
    parts += [f"## {tag.capitalize()}\n\n" + "\n".join(found) for tag, found in tags.items()]
    parts.append("## Types\n\n" + "\n".join(_type(name, schemas[name]) for name in _answers(document)))
    return "\n\n".join(parts) + "\n"


_HEAD = """# HTTP reference

Made from the OpenAPI document (`/openapi.json`, `memforest serve --openapi`). [Over HTTP](../http.md) tells of keys,
scopes, waiting and limits. A [client in TypeScript](../../examples/typescript/README.md) is generated from the same
document.

Every operation below `/v1` may answer with an error, which is a [Problem](#problem) (RFC 9457) with a stable `code`:

| status | when |
|---|---|
"""


def _operation(verb: str, path: str, operation: dict[str, Any], schemas: dict[str, Any]) -> str:
    text = f"### `{operation['operationId']}`\n\n`{verb.upper()} {path}`\n\n{_prose(operation)}\n"
    fields = [
        (each["name"], each["in"], each["schema"], each.get("required", False), each.get("description", ""))
        for each in operation.get("parameters", [])
    ]
    body = operation.get("requestBody", {}).get("content", {})
    schema = body.get("application/json", {}).get("schema")
    if schema is not None:
        named = _resolved(schema, schemas)
        needed = named.get("required", [])
        fields += [
            (name, "body", each, name in needed, each.get("description", ""))
            for name, each in named.get("properties", {}).items()
        ]
    elif body:
        text += f"\nThe body is `{next(iter(body))}`.\n"
    if fields:
        text += "\n| takes | in | type | needed |\n|---|---|---|---|\n"
        text += "".join(
            f"| `{name}` | {place} | {_kind(each)} | {'yes' if needed else _default(each)} |\n"
            for name, place, each, needed, _ in fields
        )
    for status, response in operation["responses"].items():
        if int(status) < ERROR:
            found = [_kind(each.get("schema", {})) for each in response.get("content", {}).values()]
            text += f"\nAnswers {status}{': ' + ', '.join(filter(None, found)) if any(found) else ''}.\n"
    return text


def _type(name: str, schema: dict[str, Any]) -> str:
    text = f"### {name}\n\n{schema.get('description', '')}\n"
    if "enum" in schema:
        return text + f"\nOne of {', '.join(f'`{each}`' for each in schema['enum'])}.\n"
    fields = schema.get("properties", {})
    if not fields:
        return text
    text += "\n| field | type | |\n|---|---|---|\n"
    return text + "".join(
        f"| `{field}` | {_kind(each)} | {_cell(each.get('description', ''))} |\n" for field, each in fields.items()
    )


def _prose(operation: dict[str, Any]) -> str:
    return str(operation.get("description") or operation.get("summary", "")).replace("``", "`")


def _cell(text: str) -> str:
    """A text in one cell of a table."""
    return " ".join(text.replace("``", "`").replace("|", "\\|").split())


def _resolved(schema: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = schemas[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    return found


def _answers(document: dict[str, Any]) -> Iterator[str]:
    """Names of types other than those of requests, whose fields stand with their operations."""
    return (name for name in sorted(document["components"]["schemas"]) if not name.endswith("Request"))


def _kind(schema: dict[str, Any]) -> str:
    """A type in a few words, with a link to those that have a name."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_kind(each) for each in schema["anyOf"]))
    if "enum" in schema or "const" in schema:
        return ", ".join(f"`{each}`" for each in schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    return " ".join(filter(None, (schema.get("type", ""), _bounds(schema))))


def _bounds(schema: dict[str, Any]) -> str:
    least, most = schema.get("minimum"), schema.get("maximum")
    if least is None and most is None:
        return ""
    return f"({'' if least is None else f'from {least:g}'}{'' if most is None else f' to {most:g}'})".replace("( ", "(")


def _default(schema: dict[str, Any]) -> str:
    return f"else `{schema['default']}`" if schema.get("default") not in (None, "", []) else "no"


def python_reference() -> str:
    """The Python reference as Markdown: what ``memforest_core`` exports."""
    public = {name: getattr(memforest_core, name) for name in memforest_core.__all__}
    classes = {name: each for name, each in public.items() if inspect.isclass(each)}
    errors = {name: each for name, each in classes.items() if issubclass(each, BaseException)}
    memory = classes["MemForest"]
    parts = [
        "# Python reference\n\nWhat `memforest_core` exports, made from the code. [Errors](#errors) and"
        " [results](#results) stand at the end.",
        f"## The memory\n\n{_words(memory)}\n\n{_methods(memory, 'memory')}",
        f"## memory.lifecycle\n\n{_words(Lifecycle)}\n\n{_methods(Lifecycle, 'memory.lifecycle')}",
        f"## memory.dead\n\n{_words(DeadLetters)}\n\n{_methods(DeadLetters, 'memory.dead')}",
        f"## memory.webhooks\n\n{_words(Webhooks)}\n\n{_methods(Webhooks, 'memory.webhooks')}",
        "## Other faces\n\nTheir methods are those above.\n\n"
        + "\n".join(f"### {name}\n\n{_words(classes[name])}\n" for name in FACES),
        "## Functions\n\n"
        + "\n".join(_function(name, each, name) for name, each in public.items() if inspect.isfunction(each)),
        "## Results\n\n"
        + "\n".join(
            _record(name, each)
            for name, each in classes.items()
            if name not in {"MemForest", "Lifecycle", *FACES, *errors}
        ),
        "## Errors\n\n| error | is a | code | |\n|---|---|---|---|\n"
        + "".join(
            f"| `{name}` | `{each.__base__.__name__}` | `{each.code}` | {_cell(_words(each))} |\n"
            for name, each in errors.items()
        ),
    ]
    return "\n\n".join(parts)


def _words(documented: Any) -> str:
    """A docstring as Markdown."""
    return inspect.cleandoc(documented.__doc__ or "").replace("``", "`")


def _methods(kind: type, called: str) -> str:
    """The public methods of a class, those of its bases too, in the order of their code."""
    names = dict.fromkeys(name for each in reversed(kind.__mro__[:-1]) for name in vars(each) if name[0] != "_")
    found = {name: getattr(kind, name) for name in names if isinstance(getattr(kind, name), FunctionType | MethodType)}
    first: dict[object, str] = {}
    for name, each in found.items():
        first.setdefault(each, name)
    return "\n".join(
        _function(name, each, f"{called}.{name}")
        if first[each] == name
        else f"### {name}\n\nThe same as `{first[each]}`.\n"
        for name, each in found.items()
    )


def _function(name: str, function: Callable[..., Any], called: str) -> str:
    signature = inspect.signature(function)
    given = [each for key, each in signature.parameters.items() if key not in ("self", "memory", "client")]
    shown, kinds = [_parameter(each) for each in given], [each.kind for each in given]
    if inspect.Parameter.KEYWORD_ONLY in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds:
        shown.insert(kinds.index(inspect.Parameter.KEYWORD_ONLY), "*")
    returned = signature.return_annotation
    end = ")" if returned is inspect.Signature.empty else f") -> {returned}"
    line = f"{called}({', '.join(shown)}{end}"
    if len(line) > _WIDTH:
        line = f"{called}(\n" + "".join(f"    {each},\n" for each in shown) + end
    return f"### {name}\n\n```python\n{line}\n```\n\n{_words(function)}\n"


def _parameter(parameter: inspect.Parameter) -> str:
    """A parameter as written in the code, without the quotes of an annotation that is not evaluated."""
    text = str(parameter)
    kind = parameter.annotation
    return text.replace(repr(kind), kind, 1) if isinstance(kind, str) else text


def _record(name: str, kind: type) -> str:
    """A class of results: its fields, its methods by their first sentence."""
    text = f"### {name}\n\n{_words(kind)}\n"
    if issubclass(kind, Enum):
        return text + f"\nOne of {', '.join(f'`{each.value}`' for each in kind)}.\n"
    hints = kind.__annotations__ if dataclasses.is_dataclass(kind) or typing.is_typeddict(kind) else {}
    rows = [
        f"| `{field}` | `{getattr(hint, '__forward_arg__', hint)}` | |\n"
        for field, hint in hints.items()
        if field[0] != "_"
    ]
    for member in vars(kind):
        value = inspect.getattr_static(kind, member)
        if member[0] != "_" and member not in hints and (callable(value) or isinstance(value, property)):
            brackets = "()" if callable(value) else ""
            rows.append(f"| `{member}{brackets}` | | {_cell(_words(value).partition(chr(10) * 2)[0])} |\n")
    return text + ("\n| field | type | |\n|---|---|---|\n" + "".join(rows) if rows else "")


def settings_reference() -> str:
    """Every setting by its variable, with its default."""
    groups: dict[str, list[Setting]] = {}
    for each in walk(Settings()):
        groups.setdefault(each.name.rpartition(".")[0], []).append(each)
    text = "# Settings\n\nAs `memforest config` prints them. A [file](../operations-reference.md#settings) may too.\n"
    for name, members in groups.items():
        text += f"\n## {name or 'memforest'}\n\n{members[0].group}\n\n| variable | default | meaning |\n|---|---|---|\n"
        for each in members:
            default = "unset" if each.default is None else f"`{each.default}`" if each.default != "" else "empty"
            text += f"| `{each.variable}` | {_cell(default)} | {_cell(each.description)} |\n"
    return text


def command_reference() -> str:
    """Every command with its options, in the panels of ``memforest --help``."""
    root = typer.main.get_command(app)
    text = "# Commands\n\nAs `memforest --help` and `memforest COMMAND --help` print them.\n"
    for panel, names in PANELS.items():
        commands = [_command(f"memforest {name}", root.commands[name]) for name in names.split()]
        text += f"\n## {panel}\n" + "".join(commands)
    return text


def _command(called: str, command: Any) -> str:
    text = f"\n### `{called}`\n\n{inspect.cleandoc(command.help or '').replace('``', '`')}\n"
    rows = []
    for each in command.params:
        options = [*each.opts, *each.secondary_opts]
        if options != ["--help"]:
            shown = " ".join(options) if options[0].startswith("-") else options[0].upper()
            rows.append(f"| `{shown}` | {_cell(each.help or '')} |\n")
    if rows:
        text += "\n| takes | |\n|---|---|\n" + "".join(rows)
    return text + "".join(_command(f"{called} {name}", each) for name, each in getattr(command, "commands", {}).items())
