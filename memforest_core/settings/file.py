"""Settings in a YAML file: a group is a mapping, names are those of ``memforest config``; no secrets."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator
from difflib import get_close_matches
from importlib.resources import files
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, SecretStr

from memforest_core.errors import InvalidSettings

MAX_BYTES = 2**20
"""A larger file is no settings file."""
ENDINGS = (".yaml", ".yml")

_PASSWORD = re.compile(r"://[^@\s/]*:[^@\s]+@|[?&;](?:password|passwd|sslpassword|token|api_?key)=", re.IGNORECASE)
"""An address with a password in it, as the database's, the broker's and others may have one."""
_WEB_ACCOUNT = re.compile(r"https?://[^@\s/]+@", re.IGNORECASE)
"""Services on the web take a token in the user's place."""
_SECRET_NAME = re.compile(
    r"api[_-]?key|secret|passw|authorization|credential|cookie|(auth|access|bearer)[_-]?token", re.IGNORECASE
)
"""Names inside of free parameters under which keys are sent."""


class _Loader(yaml.SafeLoader):
    """Plain values only: no alias (it could hold itself), and no name twice (one of the two would be lost)."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("it has an alias: write the value out")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        names = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise yaml.YAMLError(f"{twice[0]!r:.80} is there twice in one group")
        return super().construct_mapping(node, deep)


def config_names() -> tuple[str, ...]:
    """The names of the files that come along."""
    return tuple(
        sorted(each.name.removesuffix(".yaml") for each in _shipped().iterdir() if each.name.endswith(".yaml"))
    )


def read_named(name: str, model: type[BaseModel]) -> dict[str, object]:
    """The settings of a file that comes along. Raises InvalidSettings with the known names."""
    if name not in config_names():
        raise InvalidSettings(f"There is no configuration {name!r:.80}: take one of {', '.join(config_names())}.")
    return _checked_text(_shipped().joinpath(f"{name}.yaml").read_text(encoding="utf-8"), name, model)


def read_file(place: str, model: type[BaseModel]) -> dict[str, object]:
    """The settings of a file: a path that ends with .yaml or .yml, or the name of one that comes along.

    Raises InvalidSettings for a file that can't be read, is no YAML mapping, names what is no setting, or has a
    password or a key.
    """
    if not place.endswith(ENDINGS) and "/" not in place and "\\" not in place:
        return read_named(place, model)
    try:
        with Path(place).open("rb") as source:
            raw = source.read(MAX_BYTES + 1)
    except OSError as error:
        raise InvalidSettings(f"Set MEMFOREST_CONFIG to a file: {place} can't be read ({error.strerror}).") from None
    if len(raw) > MAX_BYTES:
        raise InvalidSettings(f"{place} is no settings file: it is larger than {MAX_BYTES:,} bytes.")
    try:
        return _checked_text(raw.decode(), place, model)
    except UnicodeDecodeError:
        raise InvalidSettings(f"Encode {place} as UTF-8.") from None


def _shipped() -> Any:
    return files("memforest_core.settings").joinpath("configs")


def _checked_text(text: str, place: str, model: type[BaseModel]) -> dict[str, object]:
    try:
        document = yaml.load(text, _Loader)  # noqa: S506 - a SafeLoader
    except yaml.MarkedYAMLError as error:
        line = "" if error.problem_mark is None else f" in line {error.problem_mark.line + 1}"
        raise InvalidSettings(f"{place} is no YAML: {error.problem or 'it can not be read'}{line}.") from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        why = "it nests too deeply" if isinstance(error, RecursionError) else str(error).splitlines()[0]
        raise InvalidSettings(f"{place} is no YAML of settings: {why}.") from None
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise InvalidSettings(f"Write {place} as groups and settings, such as llm: with model: below it.")
    return _checked_group(document, model, place, "", tuple(setting_names(model)))


def setting_names(model: type[BaseModel], prefix: str = "", *, groups: bool = False) -> Iterator[str]:
    """The names of all settings below a group, with dots; with ``groups`` those of the groups instead."""
    for name, field in model.model_fields.items():
        group = _group(field.annotation)
        if groups == (group is not None):
            yield f"{prefix}{name}"
        if group is not None:
            yield from setting_names(group, f"{prefix}{name}.", groups=groups)


def _checked_group(
    given: dict[Any, Any], model: type[BaseModel], place: str, prefix: str, known: tuple[str, ...]
) -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in given.items():
        name = f"{prefix}{key}"
        field = model.model_fields.get(str(key))
        if field is None:
            raise InvalidSettings(f"{place}: {name!r:.120} is no setting{_advice(name, known)}")
        if group := _group(field.annotation):
            if not isinstance(value, dict | None):
                raise InvalidSettings(f"{place}: {name} is a group: write its settings below it.")
            found[str(key)] = _checked_group(value or {}, group, place, f"{name}.", known)
        else:
            _refuse_secrets(value, name, place, secret=_is_secret(field.annotation))
            found[str(key)] = value
    return found


def _advice(name: str, known: tuple[str, ...]) -> str:
    if name in known:
        group, _, bare = name.rpartition(".")
        return f": write {bare} below {group}."
    near = get_close_matches(name, known, n=1)
    return f": did you mean {near[0]}?" if near else " (memforest config lists all)."


def _refuse_secrets(value: object, name: str, place: str, *, secret: bool) -> None:
    """Raise InvalidSettings for a key or a password; an address without one may stand in a file."""
    if isinstance(value, dict):
        for key, part in value.items():
            _refuse_secrets(part, name, place, secret=secret or bool(_SECRET_NAME.search(str(key))))
    elif isinstance(value, list):
        for part in value:
            _refuse_secrets(part, name, place, secret=secret)
    elif value not in (None, ""):
        text = str(value)
        if (secret and "://" not in text) or _PASSWORD.search(text) or _WEB_ACCOUNT.search(text):
            variable = "MEMFOREST_" + name.upper().replace(".", "__")
            raise InvalidSettings(
                f"{place}: {name} is a secret, which belongs in the environment: take it out and set {variable}."
            )


def _group(annotation: object) -> type[BaseModel] | None:
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None


def _is_secret(annotation: object) -> bool:
    if get_origin(annotation) in (Union, UnionType, Annotated):
        return any(map(_is_secret, get_args(annotation)))
    return annotation is SecretStr
