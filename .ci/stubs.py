"""Writes the stubs of the package and of the classes whose methods are made: what editors and mypy know of them.

``python .ci/stubs.py`` writes the files; a test compares them with the library. The remote classes read the signatures
of the library from the first one.
"""

from __future__ import annotations

import ast
import builtins
import functools
import importlib
import inspect
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).parents[1]
MODULES = (
    "memforest_core.client.async_memory",
    "memforest_core.client.remote.remote_memory",
    "memforest_core.client.lifecycle",
    "memforest_core.client.api",
    "memforest_core",
)


def path_of(name: str) -> Path:
    """The stub of a module, or of the package."""
    place = ROOT / name.replace(".", "/")
    return place / "__init__.pyi" if place.is_dir() else place.with_suffix(".pyi")


@functools.cache
def homes_of(path: str) -> dict[str, str]:
    """Where the names that a module's text imports are defined."""
    imports = (each for each in ast.walk(ast.parse(Path(path).read_text())) if isinstance(each, ast.ImportFrom))
    return {name.name: str(each.module) for each in imports for name in each.names if name.asname is None}


class Stub:
    """The stub of one module."""

    def __init__(self, name: str) -> None:
        self.module: ModuleType = importlib.import_module(name)
        self.homes: dict[str, str] = {}
        self.modules: set[str] = set()

    def text(self) -> str:
        own = [each for each in vars(self.module).values() if getattr(each, "__module__", "") == self.module.__name__]
        bodies = "\n\n".join("\n".join(self._class(each)) for each in own if inspect.isclass(each))
        imports = "".join(f"import {name}\n" for name in self.modules)
        imports += "".join(f"from {home} import {name}\n" for name, home in sorted(self.homes.items()))
        return f'"""Made by ``python .ci/stubs.py``."""\n\n{imports}\n{bodies}\n'

    def _class(self, kind: type) -> Iterator[str]:
        (base,) = getattr(kind, "__orig_bases__", kind.__bases__)
        shown = (
            ""
            if base is object
            else f"({getattr(base, '__name__', '')}"
            + "".join(f"[{self._noted(each.__name__, kind)}]" for each in getattr(base, "__args__", ()))
            + ")"
        )
        if shown:
            self._noted(base.__name__, kind)
        yield f'class {kind.__name__}{shown}:\n    """{inspect.getdoc(kind)}"""\n'
        for name, annotation in vars(kind).get("__annotations__", {}).items():
            yield f"    {name}: {self._noted(annotation, kind)}"
        names = [name for name in vars(kind) if not name.startswith("_")]
        for name in ("__init__", "__enter__", "__exit__", "__aenter__", "__aexit__", *sorted(names)):
            member = vars(kind).get(name)
            if isinstance(member, property):
                yield f"    @property{self._function(name, member.fget)}"
            elif isinstance(member, functools.cached_property):
                yield f"    @cached_property{self._function(name, member.func)}"
                self.homes["cached_property"] = "functools"
            elif isinstance(member, classmethod):
                yield f"    @classmethod{self._function(name, member.__func__)}"
            elif inspect.isfunction(member):
                yield self._function(name, member)

    def _function(self, name: str, method: Callable[..., Any]) -> str:
        signature = inspect.signature(method)
        shown = [self._parameter(each, method) for each in signature.parameters.values()]
        kinds = [each.kind for each in signature.parameters.values()]
        if inspect.Parameter.KEYWORD_ONLY in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds:
            shown.insert(kinds.index(inspect.Parameter.KEYWORD_ONLY), "*")
        kind = "async def" if inspect.iscoroutinefunction(method) else "def"
        documented = inspect.getdoc(method) if method.__doc__ else None
        body = f'\n        """{documented}"""' if documented else " ..."
        returned = self._noted(str(signature.return_annotation), method)
        return f"\n    {kind} {name}({', '.join(shown)}) -> {returned}:{body}\n"

    def _parameter(self, each: inspect.Parameter, method: Callable[..., Any]) -> str:
        stars = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(each.kind, "")
        annotation = "" if each.annotation is each.empty else f": {self._noted(str(each.annotation), method)}"
        default = "..." if callable(each.default) else repr(each.default)
        return f"{stars}{each.name}{annotation}{'' if each.default is each.empty else f' = {default}'}"

    def _noted(self, annotation: str, where: Any) -> str:
        """An annotation, whose names are imported from where the module of the method has them from."""
        for node in ast.walk(ast.parse(annotation, mode="eval")):
            if isinstance(node, ast.Name) and not hasattr(builtins, node.id):
                self._import(node.id, where)
        return annotation

    def _import(self, name: str, where: Any) -> None:
        innermost = importlib.import_module(inspect.unwrap(where).__module__)
        if inspect.ismodule(vars(innermost).get(name)):
            self.modules.add(name)
            return
        here = vars(self.module).get(name)
        if inspect.isclass(here) and here.__module__ == self.module.__name__:
            return
        sources = [innermost.__file__, *_files(where), self.module.__file__, str(path_of(MODULES[0]))]
        known = [homes_of(str(each)) for each in sources if each and Path(each).exists()]
        own = name in vars(innermost) and name not in homes_of(str(innermost.__file__))
        home = (
            innermost.__name__ if own else next((homes[name] for homes in known if name in homes), innermost.__name__)
        )
        if self.homes.setdefault(name, home) != home:
            raise ValueError(f"{name} is imported from {home} and from {self.homes[name]}")


def _files(method: Any) -> Iterator[str]:
    """The files of the functions that are around a method of the library."""
    while (method := getattr(method, "__wrapped__", None)) is not None:
        yield method.__globals__["__file__"]


def exports(package: ModuleType) -> str:
    """The stub of a package whose names are imported when they are first used."""
    names = "".join(
        f"from {module} import {name} as {name}\n" for module, own in package._NAMES.items() for name in own.split()
    )
    return f'"""Made by ``python .ci/stubs.py``."""\n\n{names}\n__version__: str\n'


def written(name: str) -> str:
    """A stub as it is checked in: formatted."""
    module = importlib.import_module(name)
    text = exports(module) if hasattr(module, "_NAMES") else Stub(name).text()
    for command in (["format"], ["check", "--select", "I,F401", "--fix"], ["format"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--quiet", "--stdin-filename", str(path_of(name)), "-"]
        text = subprocess.run(ruff, input=text, capture_output=True, text=True, check=True).stdout  # noqa: S603 - ours
    return text


if __name__ == "__main__":
    for each in MODULES:
        homes_of.cache_clear()  # the second stub reads the first
        text = written(each)
        if sys.argv[1:] != ["--check"]:
            path_of(each).write_text(text, encoding="utf-8")
        elif path_of(each).read_text(encoding="utf-8") != text:
            sys.exit(f"The stub of {each} is stale: run python .ci/stubs.py.")
