"""Parts of a turn that its speaker does not say of themselves: mails, lines quoted with ">", and text of nobody's."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from memforest_core.domain.periods import MONTH, WEEKDAY
from memforest_core.domain.words import ENGLISH

_START = r"(?:^|(?<=[.!?;:] ))[ \t(*_#>-]{0,6}"
_PLEASE = (
    r"(?:(?:hi|hey|hello|ok|okay|now|so|and|then|also|just|please|pls|kindly|(?:can|could|would|will)\s(?:yo)?u|let['’]?s|let\sus|help\sme(?:\sto)?"
    r"|I(?:['’]d\slike|\swant|\sneed)\s(?:you|us)\sto)\b,?!?\s){0,4}"
)
_TEXT = (
    r"(?:(?:sentence|text|paragraph|passage|poem|haiku|essay|article|quote|excerpt|transcript|letter|e-?mail|message|dialog(?:ue)?|novel|song|verse|script"
    r"|limerick|monolog(?:ue)?|screenplay|tweet|caption|chapter|review|abstract|blog|post|resume|cv|bio|snippet|phrase|statement|scene)s?|lyrics|code"
    r"|stor(?:y|ies)|speech(?:es)?|fairy\s?tales?|diary\sentr(?:y|ies)|grammar|spelling|english|wording)"
)
_OBJECT = r"\b[^\n:.!?]{0,60}\b"
_REWORD = (
    r"(?:translate|proof-?read|paraphrase|rephrase|reword|re-?write|summari[sz]e|shorten|spell-?check|transcribe)\b"
)
_ON_A_TEXT = (
    rf"(?:{_REWORD}|(?:fix|correct|edit|improve|polish|revise|simplify|condense|expand|debug|complete|continue|turn|change|(?:reply|respond|answer)\sto)"
    rf"{_OBJECT}(?:these|this|following|below|{_TEXT})\b|(?:check|review|analy[sz]e|explain|read|rate|grade|classify|convert|comment\son|is|are|does"
    rf"|what\s(?:does|is|do\syou)|how\s(?:do|would|can|should)\s(?:you|I|we)){_OBJECT}(?:following|below|mean|say|{_TEXT})\b)"
)
_OWN = rf"(?!{_OBJECT}(?:(?:about|of)\s(?:me|myself)|my\s(?:own\s)?(?:bio|resume|cv|story))\b)"
_FOR_A_TEXT = rf"(?:write|draft|compose|create|generate|make|(?:give|tell)\sme|start|invent){_OWN}{_OBJECT}{_TEXT}\b"
_COLON = r":(?!//|\d)\s*()"
_ANNOUNCED = (
    rf"(?:(?:I(?:['’]d\slike|\swant|\sneed)\sto\s)?{_PLEASE}(?:{_ON_A_TEXT}|{_FOR_A_TEXT}|(?:repeat|say|type|echo)\b)"
    rf"|(?:here(?:['’]s|\sis|\sare)|(?:this|these|below)\s(?:is|are)|see){_OWN}{_OBJECT}{_TEXT}\b)[^\n:.!?]{{0,120}}{_COLON}"
    rf"|{_PLEASE}{_ON_A_TEXT}[^\n:.!?]{{0,120}}(?:(?:(?<=\bthis)|(?<=this\ssentence)|(?<=this\stext))[.!?]+\s+()|[.!?]*\s*\n\s*())"
    r"|(?:(?:for\s)?(?:the|this|my|an?)\s)?(?:(?:song|example|sample|source|system|short|grammar)\s)?(?:quiz|exercise|riddle|lyrics|poem|song|verse|chorus|quote|excerpt|passage|article|transcript|translation|caption"
    r"|dialog(?:ue)?|headline|prompt|sample|snippet|sentence|paragraph|letter|essay|draft|screenplay|script|monologue|joke|fiction|persona|character"
    rf"|(?:grammar|spell)\s?check|scenario|hypothetical|meme|tweet|speech|proverb|motto)(?:\s(?:of|by|from|about|for|in)\b[^\n:.!?]{{0,60}})?{_COLON}"
    r"|()(?:dear\s(?:sir|madam|mr|ms|mrs|hiring|team|customer)\b[^\n]{0,40},|to\swhom\sit\smay\sconcern)"
)
_PLAYED = (
    rf"(){_PLEASE}(?:pretend|act\s(?:as|like)|role-?\s?play|play\sthe\s(?:role|part)|imagine\s(?:that\s)?you|in\scharacter|from\snow\son,?\syou\sare"
    r"|(?:play|do|have|start)\san?\s(?:role-?\s?play|scene|game\s(?:where|in\swhich)))\b|()(?:(?:let['’]?s|please|now|so|just)\s)?"
    r"(?:suppose|assume|imagine|say|supposing|assuming)(?:,?\sthat)?,?\s(?:I|you|we|my\sname)\b"
    r"|()you(?:['’]re|\sare)(?:\snow)?\s(?:(?-i:[A-Z])\w+(?:\s(?-i:[A-Z])\w+)?|the\s\w+|an?\s(?!star|gem|genius|life|angel|friend)\w+)"
    r"(?:[.,;]|\sand)+\s(?:and\s)?(?:I(?:['’]m|\sam|['’]ll\sbe)|my\sname\sis)\b"
    r"|()(?:(?:I|my|you)\b[^\n.!?]{0,200}\s)?(?:in|for|during)\s(?:this|our)\s(?:role-?\s?play|scenario|simulation|skit|(?:game|story),?\s(?:I|you)\b)"
)
_REPORTED = (
    r"(?<!\b[Ii]\s)(?<!\b[Ww]e\s)\b(?:said|says|wrote|writes|texted|replied|answered|messaged|posted|sings|sang|goes|told\s(?:me|us|him|her|them))"
    r"(?:\s(?:to\s)?(?:me|us|this|that|back|today|yesterday))?:\s*()(?=[^\s>])"
)
_CODE = (
    r"()(?:Traceback\s\(most|[\w.]*(?:Error|Exception)\b.*:\s|SELECT\s.|--.*\n(?:SELECT|INSERT)\s|\W{0,2}\d{4}-\d\d-\d\d[T\s]\d\d:\d\d:\d\d"
    r"|[A-Z][a-z]{2}\s+\d+\s\d\d:\d\d:\d\d\s|(?:[\d:.,]+\s)?\[?(?:DEBUG|INFO|WARN(?:ING)?|ERROR)(?:\]|:\w)|diff\s--git\s|@@\s-\d|(?:---|\+{3})\s\w/"
    r"|(?i:insert\s+into\s+\S+\s?\(|update\s+\S+\s+set\s+\S+\s?=|delete\s+from\s+\w+\swhere|(?:create|alter|drop)\s(?:table|view|index)\s)|.*\)\s?\{$"
    r"|\+(?!\s?\d).*\n(?:[+\s].*\n){0,9}-|-.*\n(?:[-\s].*\n){0,9}\+(?!\s?\d)|//|/\*|#!|#include|<\?|\$\s[a-z]|(?:def\s\w+|function\s?\w*)\(|[♪♫🎵🎶]\s?\w"
    r"|class\s\w+[(:]|import\s[\w.{]+;?$|from\s\S+\simport\s|(?:const|let|var)\s\w+\s?=|[\w.]+\s?=+\s?[\"'\[{(]|[\w.]+\([\"'].*\);?$"
    r"|\[[\d/.:,\s-]{5,24}(?:[AP]M)?\]\s?\w[^\n:]{0,40}:\s)"
)
_ABOUT_ONESELF = (
    rf"(?i:my|me|(?:{ENGLISH.relatives}|{WEEKDAY}|{MONTH}|name|address|age|birthday|job|work|employer|company|city|country|location|home|phone|e?mail|diet|food"
    r"|allerg\w+|hobb\w+|interests|(?:dis)?likes|pets?|family|status|education|school|languages?|skills|goals?|plans?|about|background|bio|notes?|p?ps"
    r"|fyi|btw|update|edit|todo|date|today|yesterday|tomorrow|morning|afternoon|evening|night|breakfast|lunch|dinner|pros|cons|mood|sleep|health|music"
    r"|movies?|books?|sports?|travel|day|week|year|part|first|second|third|last|next|then|finally|also|step|news|current|before|after|past|future)\b)"
)
_SPEAKER = (
    rf"(?:\[?[\d/.:,\x20APM-]{{4,24}}\]?[\x20-]{{0,4}})?(?!{_ABOUT_ONESELF})[*_<]{{0,2}}(?:[A-Z][\w.'’-]{{0,30}}(?:\s[A-Z\d][\w.'’-]{{0,30}}){{0,2}}"
    r"|user|assistant|human)(?:[*_]{0,2}(?:\s\([^)\n]{1,30}\))?:(?!//|\d)|>)"
)
_PERSON = r"\b(?:I|i|[Mm][ey]|[Yy]ours?|[Yy]ou|[Ww]e|[Oo]ur)\b"
_BLANK = r"\n[ \t\r]*\n(?![-+@ \t])"
_KINDS = {
    r"()(?:^~~~|```)": r"^~~~|```",
    rf"^{_CODE}": _BLANK,
    r"^()(?:[^\n|]*\|.*\n[^\n|]*\||\S[^\n\t]*\t.*\n\S[^\n\t]*\t)": r"\n(?=[^\n|\t]*(?:\n|\Z))",
    r"()[\[{][\s\[{]{0,8}\"[^\"\n]{1,80}\"\s*:": r"[\]}](?=[^\]}]*\Z)",
    r"()<(?!(?:[abius]|em|strong|br|su[bp])\b)[A-Za-z!][^<>\n]{0,200}>(?=(?s:.{0,999})</)": r">(?=[^>]*\Z)",
    rf"{_START}()[\"“«»„‹‘'`][^\"“”«»„‹›`]{{12,2000}}[\"”»«“›’'`][.!?]*(?=\s+[^a-z\s]|\s*\Z)": "",
    rf"^(?=({_SPEAKER}).*\n(?:.*\n){{0,4}}?(?!\1){_SPEAKER})(?=(?:.*\n)?.*{_PERSON})()": rf"\n\s*\n(?!{_SPEAKER})",
    rf"(?i:{_START}(?:{_ANNOUNCED}|{_PLAYED})|^()\[(?:verse|chorus)\b)": r"\Z",
    rf"(?i:\A()(?s:.+){_START}{_PLEASE}{_REWORD}{_OBJECT}(?:this|that|above)\b[^\n:.!?]*)[.!?]*\s*\Z": "",
    _REPORTED: _BLANK,
    rf"{_START}()(?:[Tt]his\sis\s[A-Z]\w+\s(?:on|from|using)\s[A-Z]\w+['’]s"
    rf"|(?:[Ii]t['’]?s\sme,?\s)?[A-Z]\w+['’]s\s(?:{ENGLISH.relatives})\shere)\b": r"\Z",
}
"""How each kind begins, with an empty group where its text does, and what ends it; without that the turn does."""
_COMPILED = [(re.compile(opens, re.MULTILINE), re.compile(closes, re.MULTILINE)) for opens, closes in _KINDS.items()]
REQUESTS_TEXT = re.compile(rf"{_PLEASE}(?:{_ON_A_TEXT}|{_FOR_A_TEXT})", re.IGNORECASE)
"""The beginning of a request for a text, or about one: what "I" says in it is not what the speaker says."""


def borrowed(text: str) -> Iterator[tuple[int, int]]:
    """Where each piece of a text that says nothing of its sender starts and ends; they may overlap."""
    for opens, closes in _COMPILED:
        at = 0
        while at < len(text) and (opened := opens.search(text, at)) is not None:
            closed = closes.search(text, opened.end())
            at = closed.end() if closed is not None else len(text)
            yield opened.start(opened.lastindex or 0), at


MAX_HEADERS = 12
"""Lines of a mail's head."""
MAX_NAME = 80
MAX_FROM = 400
"""Characters of a line that says whom a mail is from."""

_HEADER = re.compile(r"(?P<key>From|To|Cc|Bcc|Subject|Date|Sent|Reply-To): *(?P<value>.*)", re.IGNORECASE)
_FORWARDED = re.compile(r"(?:-{4,} *)?(?:Begin forwarded message:?|Forwarded message|Original Message)(?: *-{4,})?")
_WROTE = re.compile(r"On .{5,160}\bwrote:")
_AUTHOR = re.compile(r"(?:.*, )?(?P<name>[^\W\d_][^,<>@:\d]*?) *(?:<[^>]*>)? *wrote:")
_QUOTED = re.compile(r"(?:>|&gt;)(?:[ >&]|$|(?=[^\W\d_]))")
_QUOTING = re.compile(r"(?:[> ]|&gt;)*")
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
        said = _QUOTING.sub("", line, count=1)
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
