"""The English wordings that set a state, and other patterns, from ``words/wordings.txt``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from memforest_core.domain.facts import Change, Modality, Polarity
from memforest_core.ingest.extract.offline import kinds
from memforest_core.ingest.extract.offline.kinds import Reader, Reading

OF_THE_SPEAKER = frozenset({"preference", "activity", "possession"})
"""Attributes that are read of the speaker alone: others say too little of them."""

PROJECT = re.compile(
    r"(?:[Tt]he\s+|[Mm]y\s+|[Oo]ur\s+)?(?P<what>(?!The\b|My\b|Our\b)(?:[A-Z][\w-]*\s+)+project|project\s+[A-Z][\w-]*)"
    r"\s+(?:is|was|got|has been|will be)\s+(?:now\s+|still\s+)?(?P<value>[\w%’'-]+(?:\s+[\w%’'-]+){0,6})"
)
"""The status of a project, which is its own subject."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of the table."""

    attribute: str
    """Empty where the wording names it."""
    wording: re.Pattern[str]
    reader: Reader | None
    """None where the wording has the value, or there is none."""
    marks: frozenset[str]
    tail: re.Pattern[str] | None
    """What has to follow the value, where that is not just the end of a clause."""

    @property
    def change(self) -> Change:
        """What it does to the state."""
        return next((Change(mark) for mark in ("start", "switch", "stop") if mark in self.marks), Change.NONE)

    @property
    def modality(self) -> Modality:
        """Whether it is a plan."""
        return Modality.PLANNED if "plan" in self.marks else Modality.ASSERTED

    @property
    def polarity(self) -> Polarity:
        """Whether the wording denies by itself ("hates")."""
        return Polarity.NEGATIVE if "denied" in self.marks else Polarity.POSITIVE


@cache
def rules(*, clause: bool = False) -> tuple[Rule, ...]:
    """The wordings that follow a subject, or those that are a whole ``clause``, in the order of the table."""
    return tuple(rule for rule in _table() if ("clause" in rule.marks) is clause)


def pattern(name: str) -> re.Pattern[str]:
    """A pattern of the table by its name."""
    return re.compile(_macros()[name], re.IGNORECASE)


@cache
def _lines() -> tuple[str, ...]:
    table = files("memforest_core.ingest.extract.offline").joinpath("words/wordings.txt").read_text(encoding="utf-8")
    return tuple(line for line in table.splitlines() if line and not line.startswith("#"))


@cache
def _macros() -> dict[str, str]:
    macros: dict[str, str] = {}
    for line in _lines():
        name, equals, written = line.partition(" = ")
        if equals and name.isupper():
            macros[name] = _pattern(written, macros)
    return macros


def _table() -> Iterator[Rule]:
    macros = _macros()
    for line in _lines():
        if " ; " in line:
            attribute, wording, reader, marks, tail = [*line.split(" ; "), "", "", ""][:5]
            yield Rule(
                attribute.strip("-"),
                re.compile(_pattern(wording, macros), re.IGNORECASE),
                _reader(reader.strip()),
                frozenset(marks.strip("- ").split(",")),
                re.compile(_pattern(tail, macros), re.IGNORECASE) if tail else None,
            )


def _pattern(written: str, macros: dict[str, str]) -> str:
    """A regular expression as the table has it, in the form that ``re`` reads."""
    plain = re.sub(r"(?<!\\)\((?!\?)", "(?:", written).replace(" ", r"\s+")
    named = re.sub(r"\{([A-Z]+)\}", lambda found: macros[found[1]], plain)
    return re.sub(r"\{kind:([a-z]+)\}", lambda found: kinds.alternatives(found[1]), named)


def _reader(written: str) -> Reader | None:
    if written in {"", "-"}:
        return None
    if written.startswith("= "):
        value = written.removeprefix("= ")
        return lambda text, at: Reading(value, at)
    own: Reader | None = kinds.READERS.get(written)
    return own or kinds.listed(*written.split(" + "))
