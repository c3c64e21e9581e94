"""All formats of session files: recognizing the one of a file, folder or zip, and reading it."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches

from memforest_core.errors import InvalidInput
from memforest_core.ingest.formats.chats import CHATS, SLACK_LISTS
from memforest_core.ingest.formats.datasets import DATASETS
from memforest_core.ingest.formats.export_files import File
from memforest_core.ingest.formats.file_items import Item
from memforest_core.ingest.formats.format_table import Format, Found, each_value, matching, nearest, of_names, shape
from memforest_core.ingest.formats.history import MAGIC, History, from_sqlite
from memforest_core.ingest.formats.json_items import is_broken, line_of, read_lines
from memforest_core.ingest.formats.products import PRODUCTS
from memforest_core.ingest.formats.talks import Findings, Options, Sessions, Talk, warnings_of

HEAD_BYTES = 2**16
"""Bytes of a file's beginning that are read to recognize its format."""


def _own_lines(files: Sequence[File], options: Options) -> Iterator[Found]:
    for file in files:
        first = file.head(16).removeprefix(codecs.BOM_UTF8).lstrip().partition(b"\n")[0].strip()
        if first == b"{" or first.startswith(b"["):  # not one a line
            yield from each_value(lambda one, given: [line_of(one.content, given.owner, one.position)])([file], options)
        else:
            yield from read_lines(file.chunks(), options.owner)


def _history(files: Sequence[File], options: Options) -> Iterator[Found]:
    return History(options).read(value for file in files for value in file.values())


def _sqlite(files: Sequence[File], options: Options) -> Iterator[Found]:
    for file in files:
        if file.path is None:
            raise InvalidInput(
                "Give the SQLite file's path: it is not read from a pipe or a zip.", code="unreadable_file"
            )
        yield from from_sqlite(file.path, History(options))


OWN_LINES = "jsonl"
"""Our own format, one session a line."""
_OWN = (
    Format(OWN_LINES, "MemForest's own lines", _own_lines, ("turns", "session_id turns", "session_id turns owner")),
    Format("langchain", "LangChain's messages", _history,
           ("lc", "data.content type", "type=human content", "type=ai content", "message.data.content message.type"),
           maps=True),
    Format("history", "a chatbot's own history", _history,
           ("messages", "sessions", "content", "message", "messages.content", "messages.text", "text from",
            "text author", "role"), maps=True),
    Format("sqlite", "a SQLite file of messages", _sqlite, maps=True),
)  # fmt: skip
FORMATS: dict[str, Format] = {each.name: each for each in (*_OWN, *DATASETS, *CHATS, *PRODUCTS)}
"""All formats by their names."""


def formats_of(head: bytes) -> list[Format]:
    """The formats that a file's beginning may be of, the surest first."""
    if head.startswith(MAGIC):
        return [FORMATS["sqlite"]]
    text = _text(head)
    fields = _fields(text)
    if fields:
        return matching(fields, FORMATS.values())
    return [each for each in FORMATS.values() if each.begins and each.begins(text)]


def _fields(text: str) -> set[str]:
    """The shape of a JSON text; a first line that is broken does not hide the others."""
    first, _, rest = text.partition("\n")
    if is_broken(first.encode(), rest.encode()):
        return shape(rest)
    return shape(text) or (shape(text[text.find("\n{") + 1 :]) if "\n{" in text else set())


def _text(head: bytes) -> str:
    if head[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        return head.decode("utf-16", "ignore")
    return head.removeprefix(codecs.BOM_UTF8).decode("utf-8", "ignore")


def recognized(file: File) -> Format:
    """The format of a file by its beginning. Raises InvalidInput when it is unknown: the nearest one, and what is
    missing for it."""
    head = b""
    for chunk in file.chunks():
        head += chunk
        # Lines that come slowly through a pipe are taken as they come.
        if len(head) >= HEAD_BYTES or (file.name == "-" and b"\n" in head and formats_of(head)):
            break
    found = formats_of(head)
    if found:
        return found[0]
    if not head:
        raise InvalidInput(f"{file.name} is empty, of no format.", code="unknown_format")
    fields = _fields(_text(head))
    near = nearest(fields, FORMATS.values())
    top = sorted(field for field in fields if "." not in field and "=" not in field)
    hint = f" Its fields are {', '.join(top[:12])}." if top else ""
    if file.stem in SLACK_LISTS and fields & {"profile", "members"}:
        hint = " It is a part of a Slack export: give the export's folder or zip."
    elif near is not None:
        hint += f" It is nearest to {near[0].name} ({near[0].what}), but has no {', '.join(near[1])}."
    raise InvalidInput(
        f"{file.name} is of no known format.{hint} memforest ingest --help lists the names for --format.",
        code="unknown_format",
    )


@dataclass(frozen=True, slots=True)
class Chosen:
    """The format of what was given, the files that are read, and how many others are not."""

    format: Format
    files: Sequence[File]
    others: Sequence[File] = ()


def chosen(files: Sequence[File], named: str | None) -> Chosen:
    """The format of a file, or of a folder or zip: by the names in it, else by what its files begin with. Raises
    InvalidInput for an unknown one, for none, and for several."""
    given = FORMATS.get(named) if named is not None else None
    if named is not None and given is None:
        near = "".join(f"did you mean {name}? " for name in get_close_matches(named.lower(), FORMATS, 1))
        said = f"--format knows no {named!r:.40}: {near}memforest ingest --help lists the names."
        raise InvalidInput(said, code="unknown_format")
    if len(files) == 1 and not files[0].archive:
        return Chosen(given or recognized(files[0]), files)
    found = given if given is not None and given.has else of_names(files, FORMATS) if given is None else None
    if found is not None:
        read = [file for file in files if not found.files or re.search(found.files, file.name)]
        return Chosen(found, read)
    by_format: dict[str, list[File]] = {}
    for file in files:
        for each in formats_of(file.head(HEAD_BYTES))[: 1 if given is None else None]:
            if given is None or each is given:
                by_format.setdefault(each.name, []).append(file)
    if len(by_format) != 1:
        known = ", ".join(f"{name} ({len(of)})" for name, of in by_format.items())
        said = f"files of several formats, {known}: give one of them" if known else "no file of a known format: give it"
        where = files[0].archive if files else "The folder"
        raise InvalidInput(f"{where} has {said} with --format.", code="unknown_format")
    [(name, read)] = by_format.items()
    return Chosen(FORMATS[name], read, [file for file in files if file not in read])


def sessions(of: Chosen, options: Options, findings: Findings) -> Iterator[Item]:
    """The sessions in the files, one by one; what is found is counted in ``findings``. Raises InvalidInput for what
    ends the reading, such as a missing owner."""
    found: Iterable[Talk | Item] = of.format.read(of.files, options)
    name = of.files[0].stem if of.files and of.files[0].name != "-" else None
    return Sessions(replace(options, fallback=name), findings).made(found)


@dataclass(frozen=True, slots=True)
class Checked:
    """What the files have, and sentences about what would be stored otherwise than it may be meant."""

    findings: Findings
    warnings: Sequence[str]


def checked(of: Chosen, options: Options) -> Checked:
    """What the files have, read once without storing anything; twice where dates in numbers had to be decided. Raises
    InvalidInput in one sentence for what must not be stored as it is."""
    findings = Findings()
    for _ in sessions(of, options, findings):
        pass
    if options.dates.undecided and not options.dates.decided:
        options.dates.decide()
        return checked(of, options)
    if options.session is not None and findings.sessions + findings.wordless > 1:
        raise InvalidInput(
            f"Leave --session out: the file has {findings.sessions + findings.wordless} conversations.",
            code="invalid_session",
        )
    warnings = warnings_of(findings, options)
    if of.others:
        names = ", ".join(file.name for file in of.others[:3])
        warnings.append(f"{len(of.others)} files are not of this format and are not read: {names}.")
    return Checked(findings, warnings)
