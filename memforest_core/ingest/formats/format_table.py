"""What a format is: how its files are recognized and read. The rows of the tables of formats."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from memforest_core.errors import InvalidInput
from memforest_core.ingest.formats.export_files import File
from memforest_core.ingest.formats.file_items import Item, Refused, Value
from memforest_core.ingest.formats.talks import Options, Talk

Found = Talk | Item
Reader = Callable[[Sequence[File], Options], Iterable[Found]]
"""Makes the conversations of a format's files. Raises InvalidInput for a file that is not read at all."""
_TOKEN = re.compile(r'"((?:[^"\\]|\\(?:.|\Z))*)(?:"(\s*:)?|\Z)|[\[\]{}]')
"""A text, which may have no end, or a bracket."""
_MAX_SHOWN = 40


@dataclass(frozen=True, slots=True)
class Format:
    """A format that people have files of."""

    name: str
    """What --format calls it."""
    what: str
    """Whose export it is, for messages and lists."""
    read: Reader
    marks: Sequence[str] = ()
    """Each names paths of fields ("messages.author.nickname", lists left out) or of short texts ("type=summary"), by
    blanks. A JSON file with all of one is of this format; where several formats are, the one with the most."""
    begins: Callable[[str], bool] | None = None
    """Whether a text that is no JSON begins as this format does."""
    has: str = ""
    """Expressions, by blanks: a folder or zip that has a path for each is of this format."""
    files: str = ""
    """An expression: the paths in such a folder or zip that are read; all that ``marks`` recognize when it is empty."""
    maps: bool = False
    """Whether its reader takes the names of --map."""


def each_value(read: Callable[[Value, Options], Iterable[Found]], under: str = "") -> Reader:
    """A reader of JSON files: ``read`` gets each line, item of a list, or item of the lists ``under`` these paths. An
    error that it raises refuses that value alone."""

    def reader(files: Sequence[File], options: Options) -> Iterator[Found]:
        for file in files:
            yield from read_each(file.values(under), lambda value: read(value, options))

    return reader


def read_each(values: Iterable[Value | Refused], read: Callable[[Value], Iterable[Found]]) -> Iterator[Found]:
    """What ``read`` makes of each value. An error that it raises refuses that value alone."""
    for value in values:
        if isinstance(value, Refused):
            yield value
            continue
        try:
            yield from read(value)
        except InvalidInput as error:
            if error.code in ("missing_session", "missing_owner"):
                raise
            yield Refused(value.position, error)


def shape(text: str) -> set[str]:
    """The paths of the fields in a JSON text that may end anywhere, lists left out, and "path=text" for short texts.
    Empty for a text that does not begin as JSON does."""
    found: set[str] = set()
    if not text.lstrip().startswith(("{", "[")):
        return found
    opened: list[tuple[str, ...]] = []
    path: tuple[str, ...] = ()
    for token in _TOKEN.finditer(text):
        mark = token[0]
        if mark in ("{", "["):
            opened.append(path)
        elif mark in ("}", "]"):
            path = opened.pop() if opened else ()
        elif token[2]:
            path = (*opened[-1], token[1]) if opened else (token[1],)
            found.add(".".join(path))
        elif len(token[1]) <= _MAX_SHOWN:
            found.add(f"{'.'.join(path)}={token[1]}")
    return found


def matching(fields: set[str], formats: Iterable[Format]) -> list[Format]:
    """The formats of a file with these fields, those with the most marks first."""
    scored = [(max((len(m) for m in _marks(each) if m <= fields), default=0), each) for each in formats]
    return [each for score, each in sorted(scored, key=lambda one: -one[0]) if score]


def nearest(fields: set[str], formats: Iterable[Format]) -> tuple[Format, list[str]] | None:
    """The format that most marks are there of, and the marks that are missing; None when no more than half are."""
    found = [(len(marks & fields) / len(marks), each, marks) for each in formats for marks in _marks(each)]
    share, best, marks = max(found, key=lambda one: (one[0], len(one[2])))
    return (best, sorted(marks - fields)) if share > 0.5 else None


def _marks(format_: Format) -> list[frozenset[str]]:
    return [frozenset(marks.split()) for marks in format_.marks]


def of_names(files: Sequence[File], formats: Mapping[str, Format]) -> Format | None:
    """The format of a folder or zip by the names in it."""
    names = [file.name for file in files]
    for each in formats.values():
        if each.has and all(any(re.search(one, name) for name in names) for one in each.has.split()):
            return each
    return None
