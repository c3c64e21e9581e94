"""The JSON values of a file one by one, however large the file: a list's items, lines, or the pages of an export.

An item's end is found by counting brackets outside of strings, so that its text is parsed once and whole, wherever
the file's chunks end, and so that an item that is no JSON does not take the ones after it along.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterable, Iterator
from itertools import chain

from memforest_core.errors import InvalidInput
from memforest_core.ingest.formats.file_items import Converted, Refused, Value, bad_item

MAX_ITEM_CHARS = 2**27
"""A longer item is refused: a bracket or quotation mark that never closes would take the rest of the file along."""
LOOK_AHEAD = 2**16
"""Characters in which a page's list must have begun."""

_BLANK = re.compile(r"[ \t\n\r]*")
_SCALAR = re.compile(r'[^\s,\]}\[{"]*')
_BRACKET = re.compile(r'["{}\[\]]')
_NO_UTF8 = re.compile("[\udc80-\udcff]")
"""What bytes are decoded to that are no UTF-8; valid UTF-8 never is."""
_STRING_PART = re.compile(r'[^"\\]*(?:\\.[^"\\]*)*', re.DOTALL)


def lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """A file's lines without their ends, as they come."""
    parts: list[bytes] = []
    for chunk in chunks:
        first, *others = chunk.split(b"\n")
        parts.append(first)
        for part in others:
            yield b"".join(parts)
            parts = [part]
    last = b"".join(parts)
    if last:
        yield last


def json_items(chunks: Iterable[bytes], under: Iterable[str] = ()) -> Iterator[Value | Refused]:
    """The items of a list, the objects of a file with one a line, or a single object.

    ``under`` names the keys of an object (a page of an export) whose list's items are meant; the list is read as a
    stream when only plain values stand before it. An item that is no JSON, or no UTF-8, is refused by its position and
    the others go on; where the file itself is broken (a list that does not end, no JSON at all), that ends it.
    """
    names = tuple(under)
    page = _page(names)
    start, whole = _started(chunks)
    if _has_lines(start) and not (page and page.match(start.decode("utf-8-sig", "ignore").lstrip())):
        yield from _of_lines(whole, names)
    else:
        yield from _Document(whole, names, page).values()


def _page(names: tuple[str, ...]) -> re.Pattern[str] | None:
    """An object's beginning up to the list under one of the names, with plain values before it."""
    if not names:
        return None
    text = r'"(?:[^"\\]|\\.)*"'
    plain = rf"\s*{text}\s*:\s*(?:{text}|[\w.+-]+)\s*,"
    return re.compile(rf'\{{(?:{plain})*\s*"(?:{"|".join(map(re.escape, names))})"\s*:\s*\[')


def _started(chunks: Iterable[bytes]) -> tuple[bytes, Iterator[bytes]]:
    """The beginning, at least its first line if that is short, and everything again."""
    coming = iter(chunks)
    start = b""
    for chunk in coming:
        start += chunk
        if b"\n" in start.lstrip() or len(start) >= LOOK_AHEAD:
            break
    return start, chain([start], coming)


def _has_lines(start: bytes) -> bool:
    """Whether each line has an object; one written over several lines does not end its first with a bracket."""
    first, end, _ = start.removeprefix(codecs.BOM_UTF8).lstrip().partition(b"\n")
    return first.startswith(b"{") and (not end or first.rstrip().endswith(b"}"))


def _of_lines(chunks: Iterable[bytes], under: tuple[str, ...]) -> Iterator[Value | Refused]:
    for number, raw in enumerate(lines(chunks), start=1):
        if not raw.strip():
            continue
        try:
            content = _parsed(raw.decode("utf-8-sig"))
        except UnicodeDecodeError:
            yield Refused(number, _no_utf8())
        except InvalidInput as error:
            yield Refused(number, error)
        else:
            for one in _unpacked(content, under):
                yield Value(number, one)


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise _no_json(f"{error.msg} at its character {error.pos + 1}") from None
    except RecursionError:
        raise InvalidInput("Nest the JSON less deeply.", code="invalid_json") from None
    except ValueError:
        raise _no_json("a number in it has too many digits") from None


def _no_json(why: str) -> InvalidInput:
    return InvalidInput(f"This is no JSON: {why}.", code="invalid_json")


def _no_utf8() -> InvalidInput:
    return InvalidInput("Encode the file as UTF-8.", code="invalid_json")


def _unpacked(content: object, under: tuple[str, ...]) -> list[object]:
    """The items of a page, or the value itself."""
    if isinstance(content, dict):
        for name in under:
            if isinstance(content.get(name), list):
                return list(content[name])
    return [content]


class _Document:
    """A file of values one after another, with lists unpacked; has one item's text and one chunk at a time."""

    def __init__(self, chunks: Iterable[bytes], under: tuple[str, ...], page: re.Pattern[str] | None) -> None:
        self._chunks = iter(chunks)
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")("surrogateescape")
        self._ended = False
        self._under = under
        self._page = page
        self._text = ""
        self._at = 0
        self._position = 0

    def values(self) -> Iterator[Value | Refused]:
        try:
            while char := self._next():
                if char == "[":
                    self._at += 1
                    yield from self._list()
                elif found := self._page_here():
                    self._at = found.end()
                    yield from self._list()
                    self._scan(1)
                else:
                    for one in self._item():
                        yield one
                        if isinstance(one, Refused):  # the rest is no JSON either, word by word
                            return
        except InvalidInput as error:
            yield Refused(self._position + 1, error)

    def _list(self) -> Iterator[Value | Refused]:
        """The items up to the list's end. Raises InvalidInput where the list is broken."""
        while (char := self._next()) != "]":
            if char:
                yield from self._item()
                char = self._next()
            if not char:
                raise bad_item("The file ends inside its list: it is not whole.")
            if char == ",":
                self._at += 1
            elif char != "]":
                raise bad_item("Before this there is no comma: the list can't be followed from here on.")
        self._at += 1

    def _item(self) -> Iterator[Value | Refused]:
        text = self._value()
        self._position += 1
        if text is None:
            yield Refused(self._position, bad_item(f"Shorten this item to {MAX_ITEM_CHARS} characters."))
            return
        try:
            if not text.isascii() and _NO_UTF8.search(text):
                raise _no_utf8()
            content = _parsed(text)
        except InvalidInput as error:
            yield Refused(self._position, error)
            return
        self._position -= 1
        for one in _unpacked(content, self._under):
            self._position += 1
            yield Value(self._position, one)

    def _more(self) -> bool:
        """Put the next chunk in place of what was read; False at the end."""
        while not self._ended:
            chunk = next(self._chunks, None)
            self._ended = chunk is None
            decoded = self._decoder.decode(chunk or b"", final=self._ended)
            if decoded:
                self._text, self._at = self._text[self._at :] + decoded, 0
                return True
        return False

    def _next(self) -> str:
        """The next character that is not blank; empty at the end."""
        while True:
            found = _BLANK.match(self._text, self._at)
            self._at = found.end() if found else self._at
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""

    def _page_here(self) -> re.Match[str] | None:
        if self._page is None or self._text[self._at] != "{":
            return None
        while len(self._text) - self._at < LOOK_AHEAD and self._more():
            pass
        return self._page.match(self._text, self._at)

    def _value(self) -> str | None:
        """The text of the value that begins here; None for one that is too long."""
        if self._text[self._at] in '"{[':
            return self._scan(0)
        parts: list[str] = []
        while found := _SCALAR.match(self._text, self._at):
            parts.append(found[0])
            self._at = found.end()
            if self._at < len(self._text) or not self._more():
                break
        if not any(parts):  # a comma or bracket out of place
            parts.append(self._text[self._at])
            self._at += 1
        return "".join(parts)

    def _scan(self, depth: int) -> str | None:
        """Go on to where as many brackets are closed as opened, ``depth`` of which were before, or to the end of the
        file; the text, if it fits."""
        parts: list[str] = []
        length, quoted = 0, False
        while True:
            start = self._at
            depth, quoted = self._through(depth, quoted)
            length += self._at - start
            if length <= MAX_ITEM_CHARS:
                parts.append(self._text[start : self._at])
            else:
                parts.clear()
            if depth == 0 and not quoted:
                break
            if not self._more():
                self._at = len(self._text)
                break
        return "".join(parts) if length <= MAX_ITEM_CHARS else None

    def _through(self, depth: int, quoted: bool) -> tuple[int, bool]:
        """Go on within this chunk until all is closed: how many brackets are open then, and whether a string is."""
        text, at = self._text, self._at
        while True:
            if quoted:
                part = _STRING_PART.match(text, at)
                at = part.end() if part else at
                if at >= len(text) or text[at] != '"':  # or a backslash whose character is in the next chunk
                    break
                at, quoted = at + 1, False
            else:
                found = _BRACKET.search(text, at)
                if found is None:
                    at = len(text)
                    break
                at = found.end()
                if found[0] == '"':
                    quoted = True
                else:
                    depth += 1 if found[0] in "[{" else -1
            if depth == 0 and not quoted:
                break
        self._at = at
        return depth, quoted


def read_line(raw: bytes, owner: str | None, number: int = 1) -> Converted:
    """The session in a line of JSON; ``owner`` is whose it is when the line does not say. Raises InvalidInput."""
    try:
        line = json.loads(raw.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise InvalidInput("Encode the file as UTF-8.", code="invalid_line") from None
    except json.JSONDecodeError as error:
        raise InvalidInput(
            f"Write one JSON object a line: {error.msg} at column {error.colno}.", code="invalid_line"
        ) from None
    except RecursionError:
        raise InvalidInput("Nest the JSON less deeply.", code="invalid_line") from None
    except ValueError:
        raise InvalidInput("Shorten the numbers in the JSON.", code="invalid_line") from None
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
        if not raw.strip():
            continue
        try:
            yield read_line(raw, owner, number)
        except InvalidInput as error:
            yield Refused(number, error)
