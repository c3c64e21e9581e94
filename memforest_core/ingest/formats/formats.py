"""The formats of session files, and recognizing one by the beginning of a file."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path

from memforest_core.errors import InvalidInput
from memforest_core.ingest.formats.datasets import MEM0_UNDER, chatgpt, locomo, longmemeval, mem0, sharegpt
from memforest_core.ingest.formats.file_items import Item, Reader, each
from memforest_core.ingest.formats.history import MAGIC, Columns, History, from_sqlite
from memforest_core.ingest.formats.json_items import json_items

HEAD_BYTES = 2**16
"""Bytes of a file's beginning that are read to recognize its format."""


class Format(StrEnum):
    """A format other than our own lines."""

    LOCOMO = "locomo"
    LONGMEMEVAL = "longmemeval"
    OPENAI = "openai"
    SHAREGPT = "sharegpt"
    MEM0 = "mem0"
    LANGCHAIN = "langchain"
    HISTORY = "history"
    SQLITE = "sqlite"


_READERS: dict[Format, Reader] = {
    Format.LOCOMO: locomo,
    Format.LONGMEMEVAL: longmemeval,
    Format.OPENAI: chatgpt,
    Format.SHAREGPT: sharegpt,
}
OWN_LINES = "jsonl"
"""Our own format, one session a line."""

_KEYS: tuple[tuple[str, Format | None], ...] = (
    ("turns", None),
    ("lc data", Format.LANGCHAIN),
    ("messages sessions content message", Format.HISTORY),
    ("session_id owner", None),
    ("mapping current_node", Format.OPENAI),
    ("haystack_sessions question_id", Format.LONGMEMEVAL),
    ("conversations", Format.SHAREGPT),
    ("conversation qa", Format.LOCOMO),
    ("memory results memories", Format.MEM0),
    ("title", Format.OPENAI),
)
"""Keys of a file's first object, the surer ones first, and their formats; None is our own lines."""
_TOKEN = re.compile(r'"((?:[^"\\]|\\.)*)"(\s*:)?|[\[\]{}]')


def formats_of(head: bytes) -> list[Format | None]:
    """The formats that a file's beginning may be of, the surest first; None is our own lines."""
    if head.startswith(MAGIC):
        return [Format.SQLITE]
    keys = _first_keys(head.removeprefix(codecs.BOM_UTF8).decode("utf-8", "ignore"))
    return [format_ for marks, format_ in _KEYS if keys & set(marks.split())]


def recognized(head: bytes) -> Format | None:
    """The format recognized by a file's beginning; None for our own lines. Raises InvalidInput when it is unknown."""
    found = formats_of(head)
    if not found:
        names = ", ".join([OWN_LINES, *Format])
        raise InvalidInput(f"Give --format: the file's beginning is none of {names}.", code="unknown_format")
    return found[0]


def _first_keys(text: str) -> set[str]:
    """The keys of the first object, as far as the text goes; text before a first bracket is of no format."""
    keys: set[str] = set()
    if not text.lstrip().startswith(("{", "[")):
        return keys
    depth, of_object = 0, 0
    for found in _TOKEN.finditer(text):
        mark = found[0]
        if mark in ("{", "["):
            depth += 1
            if mark == "{" and not of_object:
                of_object = depth
        elif mark in ("}", "]"):
            depth -= 1
            if depth < of_object:
                break
        elif found[2] and depth == of_object:
            keys.add(found[1])
    return keys


def converted(
    format_: Format,
    chunks: Iterable[bytes],
    owner: str | None,
    *,
    session: str | None = None,
    columns: Columns | None = None,
    path: Path | None = None,
) -> Iterator[Item]:
    """The sessions in a file that is handed over in chunks, and what was refused. ``session`` is that of a file of one
    conversation that names none (langchain, history), ``columns`` are names of columns (history, sqlite), ``path`` is
    where the file is, which sqlite needs; None for a pipe. Raises InvalidInput before anything is read when the format
    names no owner and none is given."""
    if owner is None and format_ in (Format.OPENAI, Format.SHAREGPT):
        raise InvalidInput(f"Give --owner: a file of {format_} does not say whose it is.", code="missing_owner")
    history = History(columns or Columns(), owner, session)
    match format_:
        case Format.LANGCHAIN | Format.HISTORY:
            return history.convert(json_items(chunks))
        case Format.SQLITE:
            if path is None:
                raise InvalidInput("Give the SQLite file's path: it is not read from a pipe.", code="unreadable_file")
            return from_sqlite(path, history)
        case Format.MEM0:
            return mem0(json_items(chunks, MEM0_UNDER), owner)
        case _:
            return each(json_items(chunks), _READERS[format_], owner)
