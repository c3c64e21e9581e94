"""Parts of a turn that its speaker does not say of themselves: mails, lines quoted with ">", and text of nobody's."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from memforest_core.domain.borrowed import borrowed

MAX_HEADERS = 12
"""Lines of a mail's head."""
MAX_NAME = 80
MAX_FROM = 400
"""Characters of a line that says whom a mail is from."""

_HEADER = re.compile(r"(?P<key>From|To|Cc|Bcc|Subject|Date|Sent|Reply-To): *(?P<value>.*)", re.IGNORECASE)
_FORWARDED = re.compile(r"(?:-{4,} *)?(?:Begin forwarded message:?|Forwarded message|Original Message)(?: *-{4,})?")
_WROTE = re.compile(r"On .{5,160}\bwrote:")
_AUTHOR = re.compile(r"(?:.*, )?(?P<name>[^\W\d_][^,<>@:\d]*?) *(?:<[^>]*>)? *wrote:")
_QUOTED = re.compile(r">(?:[ >]|$)")
_LINE = re.compile(r"[^\n]*\n?")


@dataclass(frozen=True, slots=True)
class Pasted:
    """A piece of a turn, ``text[start:end]``, that says nothing of its speaker; ``author``: who wrote it, if known."""

    start: int
    end: int
    author: str

    def within(self, start: int, end: int) -> Pasted | None:
        """The same as a piece of ``text[start:end]``; None when nothing of it lies there."""
        first, last = max(self.start, start) - start, min(self.end, end) - start
        return Pasted(first, last, self.author) if first < last else None


@dataclass(frozen=True, slots=True)
class _Line:
    start: int
    end: int
    text: str


def pasted(text: str) -> tuple[Pasted, ...]:
    """The parts of a turn that say nothing of its speaker, in order, heads of mails included: see ``borrowed``, too.

    A mail goes on to the end of the turn: nothing says where it ends. "From: Oslo, To: Bergen" is none; a mail's head
    has a subject or an address.
    """
    lines = [
        _Line(found.start(), found.end(), found.group().strip()) for found in _LINE.finditer(text) if found.group()
    ]
    written = list(_parts(lines))
    mail = next((piece.start for piece in written if piece.author), len(text))
    written += (Pasted(start, end, "") for start, end in borrowed(text[:mail]))
    found: list[Pasted] = []
    for piece in sorted(written, key=lambda one: (one.start, -one.end)):
        start = max(piece.start, found[-1].end if found else 0)
        if start < piece.end:
            found.append(Pasted(start, piece.end, piece.author))
    return tuple(found)


def own_text(text: str, parts: Iterable[Pasted]) -> str:
    """What the speaker of a turn says in it: its text with blanks for the parts, all else in its place."""
    for part in parts:
        text = f"{text[: part.start]}{' ' * (part.end - part.start)}{text[part.end :]}"
    return text


def body_of(piece: str) -> str:
    """What a pasted piece says, without heads of mails and marks of quoting; sentences of it are found in it word for
    word, as long as they are on one line."""
    lines = []
    for line in piece.splitlines():
        said = line.lstrip("> ")
        bare = said.strip()
        if not (_HEADER.fullmatch(bare) or _WROTE.fullmatch(bare) or _FORWARDED.fullmatch(bare)):
            lines.append(said)
    return "\n".join(lines)


def _parts(lines: list[_Line]) -> Iterator[Pasted]:
    at, author = 0, ""
    while at < len(lines):
        line = lines[at]
        if (name := _mail(lines, at)) is not None:
            yield Pasted(line.start, lines[-1].end, name)
            return
        if _FORWARDED.fullmatch(line.text):
            head = next((after for after in range(at + 1, len(lines)) if lines[after].text), at)
            yield Pasted(line.start, lines[-1].end, _mail(lines, head) or "")
            return
        if _WROTE.fullmatch(line.text):
            author = _named(line.text)
            following = next((each for each in lines[at + 1 :] if each.text), None)
            if following is not None and not _QUOTED.match(following.text):
                yield Pasted(line.start, lines[-1].end, author)
                return
            yield Pasted(line.start, line.end, author)
        elif _QUOTED.match(line.text):
            last = at
            while last + 1 < len(lines) and _QUOTED.match(lines[last + 1].text):
                last += 1
            yield Pasted(line.start, lines[last].end, author)
            at, author = last, ""
        elif line.text:
            author = ""
        at += 1


def _mail(lines: list[_Line], at: int) -> str | None:
    """Who wrote the mail whose head begins with this line, empty when it does not say; None when none does."""
    head: dict[str, str] = {}
    for line in lines[at : at + MAX_HEADERS]:
        found = _HEADER.fullmatch(line.text)
        if found is None:
            break
        head.setdefault(found["key"].casefold(), found["value"].strip())
    if len(head) < 2 or "from" not in head or ("subject" not in head and "@" not in head["from"]):
        return None
    return _name(re.sub(r"<[^>]*>|\([^)]*\)", " ", head["from"][:MAX_FROM]))


def _named(line: str) -> str:
    found = _AUTHOR.fullmatch(line)
    return _name(found["name"]) if found is not None else ""


def _name(written: str) -> str:
    """A name as it is spoken; empty for a bare address."""
    name = " ".join(written.strip(" \"'").split())
    return "" if "@" in name or len(name) > MAX_NAME else name
