"""Reads the answers of chat models: what can be read of them, whatever is around it and whatever else is missing."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError

from memforest_core.domain.text import clean, clipped, is_loop
from memforest_core.errors import ContentFault

Shape = TypeVar("Shape", bound=BaseModel)
Faults = Counter[str]
"""How many elements of lists could not be used, by the list's name and what was wrong: "items had no text"."""

_THOUGHTS = re.compile(r"^.*</(?:think|thinking|reasoning)>|<(?:think|thinking|reasoning)>.*$", re.DOTALL)
_FENCES = re.compile(r"^\s*```\w*|```\s*$")
_BETWEEN = re.compile(r"\}\s*\{")
_NUMBERS = re.compile(r"(?:[\s,;:#&]*(?:[A-Za-z]{1,5}[\s#]*)?\d{1,9}(?!\d))+\s*")
_NAMES = ("name", "text", "value", "title")
_OPEN = "zz-open-zz"
_END = f'\n"{_OPEN}": "{_OPEN}"'
"""Put after JSON that is broken: it becomes part of the object or list that the text leaves open."""
_DEPTH = 6
MAX_CHARS = 120_000
"""Of a text that is no JSON are read."""


@dataclass(slots=True)
class Reading(Generic[Shape]):
    """What could be read of an answer."""

    answer: Shape
    faults: Faults
    cut: bool
    """It ends before it is complete; elements of lists are whole."""
    doubtful: bool
    """It is part of an object that is not complete."""


class _Unreadable(Exception):
    """Says what is wrong with an object."""


def read(text: str, shape: type[Shape]) -> Reading[Shape]:
    """The fullest answer in a model's text, in the given shape.

    Elements of lists are read one by one: those without what they need are left out and counted. Null is absence;
    numbers, lists and objects are read as text where text is wanted; unknown words are the default; what is too long is
    cut. Raises ContentFault with a sentence for the model.
    """
    message, readings = f"the JSON has none of the fields {', '.join(shape.model_fields)}", []
    try:
        for given in _answers(text, shape):
            faults = Faults()
            try:
                answer = _model(shape, given, faults, nested=False)
            except _Unreadable as error:
                message = f"the JSON does not fit the schema: it {error}"
            else:
                readings.append(Reading(answer, faults, _OPEN in repr(given), "" in given))
    except RecursionError:
        raise ContentFault("the JSON is nested too deeply") from None
    if not readings:
        raise ContentFault(message)
    return max(readings, key=lambda each: len(each.answer.model_dump_json()))


def unwrapped(text: str) -> str:
    """A model's text without its thoughts, also where their beginning or end is missing, and without fences."""
    return _FENCES.sub("", _THOUGHTS.sub("", text).strip("\ufeff \t\r\n")).strip()


def described(faults: Faults) -> str:
    """Faults in words, without anything of the answer: "12 items had no text, 1 item had no turns"."""
    one = {"items": "item", "summaries": "summary"}
    named = ((count, *what.partition(" ")) for what, count in (+faults).items())
    return ", ".join(f"{count} {one.get(name, name) if count == 1 else name} {what}" for count, name, _, what in named)


def _answers(text: str, shape: type[BaseModel]) -> Iterator[Mapping[str, object]]:
    """What may be the answer, by plain keys: objects with a field of it, else its first list without an object; of
    numbers only where nothing else is in the text, as prose has such lists too."""
    value, strict = _parsed(text)
    own = {_plain(name) for name in shape.model_fields}
    found = list(_objects(value, own, 1))
    yield from found
    for name, wanted in shape.model_fields.items():
        if not found and get_origin(wanted.annotation) is list:
            (element,) = get_args(wanted.annotation)
            needed = {_plain(key) for key, each in _fields(element) if each.is_required()}
            bare = list(_objects(value, needed, len(needed))) if needed else []
            if bare or (strict and isinstance(value, list)):
                yield {_plain(name): bare or value}
            return


def _parsed(text: str) -> tuple[object, bool]:
    """The JSON value of a text, and whether it is the text as it is."""
    body = unwrapped(text)
    for whole in (text, body, f"[{_BETWEEN.sub('},{', body)}]" if body[:1] == "{" else ""):
        try:
            return json.loads(whole, strict=False), True
        except ValueError:
            continue
    if not re.search(r"[\[{]", body):
        raise ContentFault("the answer has no JSON object")
    from json_repair import loads  # few answers need it

    try:
        return loads(body[:MAX_CHARS] + _END, skip_json_loads=True), False
    except (ValueError, AssertionError):
        raise ContentFault("the JSON is malformed") from None


def _objects(value: object, keys: set[str], least: int, depth: int = 0) -> Iterator[dict[str, Any]]:
    """The objects with at least so many of the keys, in the objects, lists and JSON texts that are around them."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            value = json.loads(value, strict=False)
        except ValueError:
            return
    if isinstance(value, dict):
        keyed = {_plain(key): each for key, each in value.items()}
        if len(keys & keyed.keys()) >= least:
            yield keyed
            return
        # What is in an object that is not complete may not be either.
        rest = {"": None} if _OPEN in repr(value) else {}
        for each in _objects(list(value.values()), keys, least, depth):
            yield each | rest
    elif isinstance(value, list) and depth < _DEPTH:
        for each in value:
            yield from _objects(each, keys, least, depth + 1)


def _model(shape: type[Shape], given: Mapping[str, object], faults: Faults, *, nested: bool) -> Shape:
    """An object by its plain keys; a nested one may leave out texts and lists as if they were null."""
    values: dict[str, Any] = {}
    for name, wanted in shape.model_fields.items():
        raw = given.get(_plain(name))
        try:
            if raw is not None:
                values[name] = _value(name, wanted.annotation, wanted.metadata, raw, faults)
            elif wanted.is_required() and (nested or _plain(name) in given):
                values[name] = "" if wanted.annotation is str else []
        except _Unreadable:
            if wanted.is_required():
                raise
    try:
        return shape.model_validate(values)
    except ValidationError as error:
        raise _Unreadable(f"had no {error.errors(include_url=False)[0]['loc'][0]}") from None


def _value(name: str, kind: Any, limits: Sequence[Any], raw: object, faults: Faults) -> object:
    """A field's value; of a boolean what was given, which pydantic reads. Raises _Unreadable."""
    if get_origin(kind) is Annotated:
        kind, *limits = get_args(kind)
    most = next((each.max_length for each in limits if getattr(each, "max_length", None)), None)
    if get_origin(kind) is list:
        (element,) = get_args(kind)
        if _fields(element):
            return _models(name, element, raw, faults)[:most]
        parts = raw if isinstance(raw, list) else re.split(r"[,;\n]", _text(raw))
        if element is int:
            return [number for each in parts for number in _numbers(each)][:most]
        return [text for each in parts if (text := _value(name, element, (), each, faults))][:most]
    text = _text(raw)
    if kind is str:
        if is_loop(text):
            raise _Unreadable(f"repeated its {name}")
        return clipped(text, most or len(text))
    if kind is bool:
        return raw
    found: list[Any] = _numbers(raw) if kind is int else [each for each in kind if _plain(each.value) == _plain(text)]
    if len(found) != 1:
        raise _Unreadable(f"had no {name}")
    return found[0]


def _models(name: str, element: type[BaseModel], raw: object, faults: Faults) -> list[BaseModel]:
    """The elements of a list that can be read; of one that the text ends in nothing is taken."""
    if isinstance(raw, dict) and not {_plain(key) for key in raw} & {_plain(key) for key, _ in _fields(element)}:
        raw = list(raw.values())
    found: list[BaseModel] = []
    for each in raw if isinstance(raw, list) else [raw]:
        for given in list(_objects(each, set(), 0)) or [{}]:
            try:
                if _OPEN not in repr(each):
                    found.append(_model(element, given, faults, nested=True))
            except _Unreadable as error:
                faults[f"{name} {error}"] += 1
    return found


def _fields(kind: Any) -> list[tuple[str, Any]]:
    return list(kind.model_fields.items()) if isinstance(kind, type) and issubclass(kind, BaseModel) else []


def _plain(name: object) -> str:
    return re.sub(r"[\W_]", "", str(name)).casefold()


def _numbers(raw: object) -> list[int]:
    """The numbers of a value such as 3, "3", "T3" or "turns 3 and 4"."""
    text = _text(raw)
    if type(raw) is int and len(text) < 10:
        return [raw]
    return [int(each) for each in re.findall(r"\d+", text)] if _NUMBERS.fullmatch(text) else []


def _text(raw: object, depth: int = 0) -> str:
    """A value as text: of an object its name, of a list its elements."""
    if isinstance(raw, str):
        return clean(raw).strip()
    if isinstance(raw, bool):
        return str(raw).lower()
    if isinstance(raw, int | float):
        return f"{raw:.15g}" if abs(raw) < 1e15 else ""
    if isinstance(raw, dict):
        raw = [raw[key] for key in _NAMES if raw.get(key)][:1] or list(raw.values())
    if isinstance(raw, list) and depth < _DEPTH:
        return ", ".join(text for each in raw if (text := _text(each, depth + 1)))
    return ""
