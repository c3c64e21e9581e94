"""The JSON values of a file one by one, however large the file: a list's items, lines, or the pages of an export."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from itertools import chain

from memforest_core.errors import InvalidInput
from memforest_core.ingest.formats.file_items import Converted, Refused, Value, bad_item

MAX_ITEM_CHARS = 2**27
"""A longer item is refused: a bracket or quotation mark that never closes would take the rest of the file along."""
LOOK_AHEAD = 2**16
"""Bytes in which a first line must have ended."""

_BLANK = re.compile(r"[ \t\n\r]*")
_MARK = re.compile(r'\\(?:.|\Z)|["{}\[\],]', re.DOTALL)
_NO_UTF8 = re.compile("[\udc80-\udcff]")
"""What bytes are decoded to that are no UTF-8; valid UTF-8 never is."""
_DECODER = json.JSONDecoder()
_LONGEST_WORD = len("-Infinity")


def lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """A file's lines without their ends, as they come."""
    parts: list[bytes] = []
    for chunk in chunks:
        first, *others = chunk.split(b"\n")
        parts.append(first)
        for part in others:
            yield b"".join(parts)
            parts = [part]
    if last := b"".join(parts):
        yield last


def json_items(chunks: Iterable[bytes], under: Iterable[str] = ()) -> Iterator[Value | Refused]:
    """The items of a list, the objects of a file with one a line, or a single object. ``under`` names the keys of an
    object (a page of an export) whose list's items are meant, as paths ("chats.list"); the object's other fields before
    it are each item's ``outer``. A line, or an item of a list, that is no JSON or no UTF-8
    is refused by its position and the others go on; where a comma between items is missing, or an object over several
    lines is broken, that ends the file."""
    coming, start, names = iter(chunks), b"", tuple(under)
    for chunk in coming:
        start += chunk
        if b"\n" in start.lstrip() or len(start) >= LOOK_AHEAD:
            break
    whole = chain([start], coming)
    position = 0
    first, end, rest = start.removeprefix(codecs.BOM_UTF8).lstrip().partition(b"\n")
    # An object written over several lines does not end its first with a bracket.
    streamed = names and not end  # a list in one long line is not held as a whole
    whole_line = first.startswith(b"{") and (not end or first.rstrip().endswith(b"}"))
    if (whole_line and not streamed) or is_broken(first, rest):
        for number, raw in enumerate(lines(whole), start=1):
            if raw.strip():
                # A line's number, or in pages that of the item.
                try:
                    for one, outer in _unpacked(_parsed(raw), names):
                        yield Value(position := position + 1 if names else number, one, outer)
                except InvalidInput as error:
                    yield Refused(position := position + 1 if names else number, error)
        return
    try:
        document = _Document(whole, names)
        for content in document.values():
            position += 1
            yield (
                Refused(position, content)
                if isinstance(content, InvalidInput)
                else Value(position, content, document.outer)
            )
    except InvalidInput as error:
        yield Refused(position + 1, error)


def is_broken(first: bytes, rest: bytes) -> bool:
    """Whether a first line is cut off, or none of JSON, in a file with an object a line."""
    goes_on = first.startswith(b"[") or first.rstrip().endswith((b"{", b"}", b"[", b"]", b",", b":"))
    return bool(first.strip()) and not goes_on and rest.lstrip().startswith(b"{")


def _parsed(raw: bytes, code: str = "invalid_json") -> object:
    try:
        return json.loads(raw.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise _no_json(error, code) from None


def _no_json(error: Exception, code: str = "invalid_json") -> InvalidInput:
    match error:
        case UnicodeDecodeError():
            return InvalidInput("Encode the file as UTF-8.", code=code)
        case json.JSONDecodeError():
            return InvalidInput(f"This is no JSON: {error.msg} at column {error.colno}.", code=code)
        case RecursionError():
            return InvalidInput("Nest the JSON less deeply.", code=code)
        case _:
            return InvalidInput("Shorten the numbers in the JSON.", code=code)


def _unpacked(content: object, under: tuple[str, ...]) -> list[tuple[object, Mapping[str, object]]]:
    """The items of a page with the page's other fields, or the value itself."""
    if isinstance(content, dict):
        for path in under:
            items: object = content
            for key in path.split("."):
                items = items.get(key) if isinstance(items, dict) else None
            if isinstance(items, list):
                top = path.partition(".")[0]
                outer = {name: value for name, value in content.items() if name != top}
                return [(item, outer) for item in items]
    return [(content, {})]


class _Document:
    """A file of values one after another, with lists unpacked; has one item's text and one chunk at a time."""

    def __init__(self, chunks: Iterable[bytes], under: tuple[str, ...] = ()) -> None:
        self.outer: dict[str, object] = {}
        """The fields of the object that an item's list is in, as far as they are read."""
        self._under = [path.split(".") for path in under]
        self._chunks = iter(chunks)
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")("surrogateescape")
        self._ended = False
        self._text = ""
        self._at = 0

    def values(self) -> Iterator[object]:
        """Each value, and the items of each list; an error in place of an item that can't be read. Raises InvalidInput
        where the file can't be followed any further."""
        while char := self._next():
            if char == "[":
                yield from self._items(self._inside)
            elif char == "{" and self._under:
                yield from self._inside()
            else:
                yield self._value()

    def _inside(self) -> Iterator[object]:
        """The items of the list in an object that begins here, or the object itself when no list is in it."""
        if not self._under or self._next() != "{":
            yield self._item()
            return
        self.outer = {}
        found = yield from self._fields(self._under, self.outer)
        if not found:
            yield self.outer

    def _items(self, each: Callable[[], Iterator[object]]) -> Iterator[object]:
        """The items of a list that begins here."""
        self._at += 1
        mark = "]" if self._next() == "]" else ","
        while mark != "]":
            yield from each()
            mark = self._parted("]", "list")
        self._at += 1

    def _parted(self, end: str, what: str) -> str:
        """Go behind a comma; the comma, or the end of the list or object. Raises InvalidInput for neither."""
        mark = self._next()
        if not mark:
            raise bad_item(f"The file ends inside its {what}: it is not whole.")
        if mark not in "," + end:
            raise bad_item(f"Before this there is no comma: the {what} can't be followed from here on.")
        self._at += mark == ","
        return mark

    def _fields(self, paths: list[list[str]], outer: dict[str, object]) -> Generator[object, None, bool]:
        """The items of lists at these paths of an object that begins here; its other fields go to ``outer``."""
        self._at += 1
        found = False
        mark = "}" if self._next() == "}" else ","
        while mark != "}":
            name = self._value()
            if self._next() != ":":
                raise bad_item("Behind a name there is no colon: the object can't be followed from here on.")
            self._at += 1
            deeper = [path[1:] for path in paths if path[0] == name]
            char = self._next()
            if [] in deeper and char == "[":
                found = True
                yield from self._items(lambda: iter([self._item()]))
            elif any(deeper) and char == "{":
                found = (yield from self._fields([path for path in deeper if path], {})) or found
            else:
                outer[str(name)] = self._value()
            mark = self._parted("}", "object")
        self._at += 1
        return found

    def _item(self) -> object:
        """A list's item that begins here, or the error that it can't be read. Raises InvalidInput without an end."""
        try:
            return self._value()
        except InvalidInput as error:
            self._skip()
            if self._next():
                return error
            raise InvalidInput(f"{error.message} Nothing from here on can be read.", code=error.code) from None

    def _skip(self) -> None:
        """Go on to the comma or bracket behind an item, found by counting brackets outside of strings."""
        depth, quoted = 0, False
        while True:
            mark = ""
            for found in _MARK.finditer(self._text, self._at):
                mark = found[0]
                if mark == '"':
                    quoted = not quoted
                elif quoted or mark.startswith("\\"):
                    continue
                elif mark in "[{":
                    depth += 1
                elif depth == 0 and mark in ",]":
                    self._at = found.start()
                    return
                elif depth > 0 and mark in "]}":
                    depth -= 1
            # A backslash whose character is in the next chunk is read again with it.
            self._at = len(self._text) - (mark == "\\")
            if not self._more():
                self._at = len(self._text)
                return

    def _value(self) -> object:
        """The value that begins here, or the error that it is no UTF-8. Raises InvalidInput."""
        self._next()
        while True:
            begun = len(self._text) - self._at
            try:
                content, end = _DECODER.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                at_end = error.msg.startswith("Unterminated") or error.pos >= len(self._text)
                if not at_end and error.pos + _LONGEST_WORD <= len(self._text):
                    raise _no_json(error) from None
                if begun > MAX_ITEM_CHARS:
                    raise bad_item(f"Shorten this item to {MAX_ITEM_CHARS} characters.") from None
                if not self._more(begun):
                    if at_end:
                        raise bad_item("The file ends inside this: it is not whole.") from None
                    raise _no_json(error) from None
            except (ValueError, RecursionError) as error:
                raise _no_json(error) from None
            else:
                # A number may go on in the next chunk, also with the end of its exponent.
                length = end - self._at
                if end + _LONGEST_WORD <= len(self._text) or not self._more():
                    break
        start, self._at = self._at, self._at + length
        if not self._text.isascii() and _NO_UTF8.search(self._text, start, self._at):
            return InvalidInput("Encode the file as UTF-8.", code="invalid_json")
        return content

    def _more(self, least: int = 0) -> bool:
        """Put at least so many more characters behind what is not read yet, if there are some; False at the end."""
        parts = [self._text[self._at :]]
        found = 0
        while not self._ended and found <= least:
            chunk = next(self._chunks, None)
            self._ended = chunk is None
            parts.append(self._decoder.decode(chunk or b"", final=self._ended))
            found += len(parts[-1])
        self._text, self._at = "".join(parts), 0
        return found > 0

    def _next(self) -> str:
        """The next character that is not blank; empty at the end."""
        while True:
            found = _BLANK.match(self._text, self._at)
            self._at = found.end() if found else self._at
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""


def read_line(raw: bytes, owner: str | None, number: int = 1) -> Converted:
    """The session in a line of JSON; ``owner`` is whose it is when the line does not say. Raises InvalidInput."""
    return line_of(_parsed(raw, "invalid_line"), owner, number)


def line_of(line: object, owner: str | None, number: int) -> Converted:
    """The session in one of our own objects. Raises InvalidInput."""
    if not isinstance(line, dict):
        raise InvalidInput("Write one JSON object a line.", code="invalid_line")
    whose = line.get("owner", owner)
    if whose is None:
        raise InvalidInput("Add an owner to the line, or give --owner.", code="invalid_line")
    for name in ("session_id", "turns"):
        if name not in line:
            raise InvalidInput(f"Add {name} to the line.", code="invalid_line")
    own = (line.get(name) for name in ("started_at", "display_name", "channel", "time_zone"))
    return Converted(number, whose, line["session_id"], line["turns"], *own)


def read_lines(chunks: Iterable[bytes], owner: str | None) -> Iterator[Converted | Refused]:
    """The sessions of a file that is handed over in chunks, and the lines that hold none."""
    for number, raw in enumerate(lines(chunks), start=1):
        if raw.strip():
            try:
                yield read_line(raw, owner, number)
            except InvalidInput as error:
                yield Refused(number, error)
