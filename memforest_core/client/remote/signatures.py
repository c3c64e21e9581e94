"""Signatures of the library's methods, read from the stub of ``AsyncMemForest``.

The library itself would import the packages of the database and the broker.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from inspect import Parameter, Signature
from pathlib import Path
from typing import Any

STUB = Path(__file__).parents[1] / "async_memory.pyi"
_BUILTINS: Mapping[str, Any] = {kind.__name__: kind for kind in (bool, dict, float, int, list, str)}


@dataclass(frozen=True, slots=True)
class Method:
    """A public method of the library."""

    signature: Signature
    """With annotations as text."""
    documentation: str
    returned: ast.expr


@cache
def methods(kind: str) -> Mapping[str, Method]:
    """The public asynchronous methods of a class of the stub, by name."""
    body = next(each.body for each in _stub().body if isinstance(each, ast.ClassDef) and each.name == kind)
    return {
        each.name: Method(_signature(each), ast.get_docstring(each) or "", each.returns or ast.Constant(None))
        for each in body
        if isinstance(each, ast.AsyncFunctionDef) and not each.name.startswith("_") and not each.decorator_list
    }


def named_type(annotation: ast.expr, instead: Mapping[str, type]) -> Any:
    """The type that an annotation of the stub names, imported now, or the one that is given ``instead`` of it."""
    match annotation:
        case ast.Constant(value):
            return value
        case ast.Name(name):
            known = {**_BUILTINS, **instead}
            return known[name] if name in known else getattr(import_module(_homes()[name]), name)
        case ast.Subscript(outer, inner):
            return named_type(outer, instead)[named_type(inner, instead)]
        case ast.Tuple(items):
            return tuple(named_type(each, instead) for each in items)
        case ast.BinOp(left, _, right):
            return named_type(left, instead) | named_type(right, instead)
    raise TypeError(f"no type is known for {ast.unparse(annotation)}")


def ignore(*_: object) -> None:
    """In place of a default of the library that is a function."""


@cache
def _stub() -> ast.Module:
    return ast.parse(STUB.read_text(encoding="utf-8"))


@cache
def _homes() -> Mapping[str, str]:
    """The modules of imported names."""
    imports = (each for each in _stub().body if isinstance(each, ast.ImportFrom))
    return {name.name: str(each.module) for each in imports for name in each.names}


def _signature(method: ast.AsyncFunctionDef) -> Signature:
    given = method.args
    defaults = [*[None] * (len(given.args) - len(given.defaults)), *given.defaults]
    found = list(_parameters(given.args, defaults, Parameter.POSITIONAL_OR_KEYWORD))
    if given.vararg is not None:
        found += _parameters([given.vararg], [None], Parameter.VAR_POSITIONAL)
    found += _parameters(given.kwonlyargs, given.kw_defaults, Parameter.KEYWORD_ONLY)
    if given.kwarg is not None:
        found += _parameters([given.kwarg], [None], Parameter.VAR_KEYWORD)
    return Signature(found, return_annotation=_text(method.returns))


def _parameters(
    names: Iterable[ast.arg], defaults: Iterable[ast.expr | None], kind: inspect._ParameterKind
) -> Iterable[Parameter]:
    for each, default in zip(names, defaults, strict=True):
        value = Parameter.empty if default is None else ast.literal_eval(default)
        yield Parameter(each.arg, kind, default=ignore if value is ... else value, annotation=_text(each.annotation))


def _text(annotation: ast.expr | None) -> Any:
    return Parameter.empty if annotation is None else ast.unparse(annotation)
