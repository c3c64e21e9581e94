"""Conditions on metadata: a small language of mappings, checked when it comes in and evaluated on one document."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from memforest_core.errors import InvalidInput

Test = Callable[[Mapping[str, object]], bool]
"""Whether a document fulfils a condition."""

MAX_DEPTH = 16
"""Conditions within conditions."""
MAX_PARTS = 256
"""Conditions in all."""

_MISSING = object()


def parse_conditions(given: object) -> Test:
    """The test that these conditions describe; all of several names must hold.

    ``{"team": "blue"}`` means equal. ``{"price": {"$gte": 3, "$lt": 9}}`` compares: numbers with numbers, texts with
    texts (so ISO 8601 times with each other); a value of another kind does not fulfil it. ``$ne``, ``$in``, ``$nin``
    compare with one or several values, ``$contains`` wants a list to have a value or a text a part, ``$exists`` wants a
    name to be there (True) or not (False). A list fulfils ``$in`` if any of its items does. ``$and`` and ``$or`` take a
    list of conditions, ``$not`` one. Raises InvalidInput that names what is wrong.
    """
    return _Parser().conditions(given, 0)


def _refused(sentence: str) -> InvalidInput:
    return InvalidInput(sentence, code="invalid_metadata")


def _plain(value: object) -> bool:
    return value is None or isinstance(value, str | int | float | bool)


def _equal(found: object, wanted: object) -> bool:
    # True is not 1 in JSON.
    return isinstance(found, bool) == isinstance(wanted, bool) and found == wanted


def _compared(operator: Callable[[object, object], bool]) -> Callable[[object, object], bool]:
    def compare(found: object, wanted: object) -> bool:
        numbers = all(isinstance(each, int | float) and not isinstance(each, bool) for each in (found, wanted))
        return (numbers or (isinstance(found, str) and isinstance(wanted, str))) and operator(found, wanted)

    return compare


def _among(found: object, wanted: Any) -> bool:
    values = found if isinstance(found, list) else [found]
    return any(_equal(value, each) for value in values for each in wanted)


def _contains(found: object, wanted: object) -> bool:
    if isinstance(found, str):
        return isinstance(wanted, str) and wanted in found
    return isinstance(found, list) and any(_equal(value, wanted) for value in found)


_OPERATORS: Mapping[str, Callable[[object, object], bool]] = {
    "$gt": _compared(lambda found, wanted: found > wanted),  # type: ignore[operator]
    "$gte": _compared(lambda found, wanted: found >= wanted),  # type: ignore[operator]
    "$lt": _compared(lambda found, wanted: found < wanted),  # type: ignore[operator]
    "$lte": _compared(lambda found, wanted: found <= wanted),  # type: ignore[operator]
    "$ne": lambda found, wanted: not _equal(found, wanted),
    "$in": _among,
    "$nin": lambda found, wanted: not _among(found, wanted),
    "$contains": _contains,
    "$exists": lambda found, wanted: (found is not _MISSING) == wanted,
}
_KNOWN = ", ".join((*_OPERATORS, "$and", "$or", "$not"))


class _Parser:
    """Parses one request, within its bounds."""

    def __init__(self) -> None:
        self._parts = 0

    def conditions(self, given: object, depth: int) -> Test:
        if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
            raise _refused("Give metadata as a mapping of names to values or conditions.")
        self._parts += len(given)
        if depth > MAX_DEPTH or self._parts > MAX_PARTS:
            raise _refused(f"Give at most {MAX_PARTS} conditions on metadata, at most {MAX_DEPTH} within each other.")
        tests = [self._condition(name, wanted, depth) for name, wanted in given.items()]
        return lambda document: all(test(document) for test in tests)

    def _condition(self, name: str, wanted: object, depth: int) -> Test:
        if name == "$not":
            refused = self.conditions(wanted, depth + 1)
            return lambda document: not refused(document)
        if name in ("$and", "$or"):
            if not isinstance(wanted, list | tuple) or not wanted:
                raise _refused(f"Give {name} a list of conditions.")
            tests = [self.conditions(each, depth + 1) for each in wanted]
            joined = all if name == "$and" else any
            return lambda document: joined(test(document) for test in tests)
        if name.startswith("$"):
            raise _refused(f"{name:.40} is where a name of the metadata is expected; known are {_KNOWN}.")
        if not isinstance(wanted, Mapping):
            return _equals(name, wanted)
        checks = [_operator(name, operator, value) for operator, value in wanted.items()]
        return lambda document: all(check(document.get(name, _MISSING)) for check in checks)


def _equals(name: str, wanted: object) -> Test:
    if isinstance(wanted, list | tuple):
        values = list(wanted)
        return lambda document: document.get(name, _MISSING) == values
    if not _plain(wanted):
        raise _refused(f"Compare {name!r:.40} with a text, a number, true, false or null.")
    return lambda document: _equal(document.get(name, _MISSING), wanted)


def _operator(name: str, operator: object, wanted: object) -> Callable[[object], bool]:
    compare = _OPERATORS.get(str(operator))
    if compare is None:
        raise _refused(f"There is no condition {operator!s:.40} for {name!r:.40}; known are {_KNOWN}.")
    if operator == "$exists":
        if not isinstance(wanted, bool):
            raise _refused(f"Give $exists of {name!r:.40} true or false.")
        return lambda found: compare(found, wanted)
    several = operator in ("$in", "$nin")
    if several and not (isinstance(wanted, list | tuple) and all(map(_plain, wanted))):
        raise _refused(f"Give {operator} of {name!r:.40} a list of plain values.")
    if not several and not _plain(wanted):
        raise _refused(f"Give {operator} of {name!r:.40} a plain value.")
    # What is not there fulfils only that it is another.
    missing = operator in ("$ne", "$nin")
    return lambda found: missing if found is _MISSING else compare(found, wanted)
