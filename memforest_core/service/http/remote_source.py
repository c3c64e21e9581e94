"""Writes memforest_core/client/remote/operations.py: every operation with the signature that the library gives it.

``python -m memforest_core.service.http.remote_source`` writes the file anew; a test compares it with the signatures.
"""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from memforest_core.client import remote
from memforest_core.client.remote.routes import ROUTES
from memforest_core.service.http.endpoints import method_of

PATH = Path(remote.__file__).with_name("operations.py")

_RETURNED: Mapping[str, str] = {"SessionHandle": "Stored", "Operation": "OperationTask"}
"""What comes over the wire for objects that hold a connection."""
_HOMES: Mapping[str, str] = {
    "Any": "typing",
    "Callable": "collections.abc",
    "Connection": "memforest_core.store.engine",
    "ItemInput": "memforest_core.assistant.conversation_window.naming",
    "Iterable": "collections.abc",
    "Iterator": "collections.abc",
    "Mapping": "collections.abc",
    "Numbers": "memforest_core.work.records",
    "OperationTask": "memforest_core.work.records",
    "Sequence": "collections.abc",
    "SessionInput": "memforest_core.client.producer",
    "Stored": "memforest_core.client.remote.records",
    "TaskId": "memforest_core.work.records",
    "Turns": "memforest_core.assistant.profile.records",
    "UUID": "uuid",
    "Unpack": "typing",
    "date": "datetime",
}
"""Where names of annotations are imported from that do not know it themselves."""

_EXCHANGE = "memforest_core.client.remote.exchange"
_HEAD = '''"""Every operation as a call over HTTP, with the signature that the library gives it.

Made by ``python -m memforest_core.service.http.remote_source``; a test compares it with the library.
"""

from __future__ import annotations

'''


def source() -> str:
    """The text of the module."""
    needed: dict[str, str] = {}
    needed_always: dict[str, str] = {}
    owners = {
        "": "Operations",
        "lifecycle": "LifecycleOperations",
        "dead": "DeadOperations",
        "webhooks": "WebhookOperations",
    }
    classes = dict.fromkeys(owners.values(), "")
    for route in ROUTES.values():
        method = method_of(route)
        holder, _, name = route.name.rpartition(".")
        classes[owners[holder]] += _method(route.name, name, method, needed, needed_always)
    text = _HEAD + _imports(dict.fromkeys(("ask", "ask_until", "hand_over", "Exchange"), _EXCHANGE) | needed_always)
    for_types = {name: home for name, home in needed.items() if name not in needed_always}
    text += "from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n" + _imports(for_types, "    ")
    for title, body in classes.items():
        text += f'\n\nclass {title}:\n    """Calls by the names of the library\'s methods."""\n{body}'
    return text


def _method(route: str, name: str, method: Callable[..., Any], needed: dict[str, str], always: dict[str, str]) -> str:
    signature = inspect.signature(method)
    shown: list[str] = ["self"]
    given: list[str] = []
    options = ""
    starred = False
    for each in signature.parameters.values():
        if each.name in ("self", "tenant"):
            continue
        annotation = str(each.annotation)
        _note(annotation, method, needed)
        if each.kind is inspect.Parameter.VAR_KEYWORD:
            shown.append(f"**{each.name}: {annotation}")
            options = f", **{each.name}"
            continue
        if each.kind is inspect.Parameter.VAR_POSITIONAL:
            shown.append(f"*{each.name}: {annotation}")
            starred = True
        else:
            if each.kind is inspect.Parameter.KEYWORD_ONLY and not starred:
                shown.append("*")
                starred = True
            default = "" if each.default is inspect.Parameter.empty else f" = {_default(each.default)}"
            shown.append(f"{each.name}: {annotation}{default}")
        given.append(f'"{each.name}": {each.name}')
    returned = str(signature.return_annotation).removeprefix("Steps[")
    returned = returned if returned.count("[") == returned.count("]") else returned.removesuffix("]")
    for ours, wire in _RETURNED.items():
        returned = wire if returned == ours else returned.replace(f"[{ours}]", f"[{wire}]")
    _note(returned, method, always)
    asked = f'{_way(signature, returned)}("{route}", {returned}, {{{", ".join(given)}{options}}})'
    return (
        f"\n    def {name}({', '.join(shown)}) -> Exchange[{returned}]:\n"
        f'        """As ``{method.__qualname__}``."""\n        return {asked}\n'
    )


def _way(signature: inspect.Signature, returned: str) -> str:
    """How an operation is called: what waits takes several requests."""
    if returned == "Stored":
        return "hand_over"
    patient = "timeout_s" in signature.parameters and "wait" not in signature.parameters
    return "ask_until" if patient else "ask"


def _default(value: object) -> str:
    return "lambda *_: None" if callable(value) else repr(value)


def _note(annotation: str, method: Callable[..., Any], needed: dict[str, str]) -> None:
    """Remember where the names of an annotation come from."""
    innermost: Any = method
    while hasattr(innermost, "__wrapped__"):
        innermost = innermost.__wrapped__
    for node in ast.walk(ast.parse(annotation, mode="eval")):
        if isinstance(node, ast.Name) and node.id not in vars(
            __builtins__ if inspect.ismodule(__builtins__) else __import__("builtins")
        ):
            known = innermost.__globals__.get(node.id)
            needed[node.id] = _HOMES.get(node.id) or known.__module__


def _imports(names: Mapping[str, str], indent: str = "") -> str:
    homes: dict[str, set[str]] = {}
    for name, home in names.items():
        homes.setdefault(home, set()).add(name)
    return "".join(f"{indent}from {home} import {', '.join(sorted(found))}\n" for home, found in sorted(homes.items()))


def written() -> str:
    """The module as it is checked in: formatted."""
    text = source()
    for command in (["format"], ["check", "--select", "I,F401", "--fix"], ["format"]):
        shaped = subprocess.run(  # noqa: S603 - our own
            [sys.executable, "-m", "ruff", *command, "--quiet", "--stdin-filename", str(PATH), "-"],
            input=text,
            capture_output=True,
            text=True,
            check=True,
        )
        text = shaped.stdout
    return text


if __name__ == "__main__":
    PATH.write_text(written(), encoding="utf-8")
