"""Fields of messages under their many names: looked up by path in any spelling, times in every usual form."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from email.utils import parsedate_to_datetime
from functools import lru_cache
from html.parser import HTMLParser

from memforest_core.errors import InvalidInput

_NO_LETTER = re.compile(r"[\W_]+")
_BIDI = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
"""Marks of direction, which phones write into lines."""


@lru_cache(maxsize=16_384)
def squeezed(name: str) -> str:
    """A field's name without its spelling: createdAt, created_at and Created-At are one."""
    return _NO_LETTER.sub("", name).lower()


def one_name(name: str) -> str:
    """A name of a field with blanks, as the columns of tables have, as one of those that ``value_of`` takes."""
    return "_".join(name.split())


def value_of(value: object, names: str) -> object | None:
    """The value of the first of these names, separated by blanks, that is there and neither null nor an empty text.

    ``author.name`` goes into an object, ``choices.0`` into a list. Names are compared without case, ``_`` and ``-``.
    """
    if isinstance(value, dict):
        for key, rest in _paths(tuple(value), names):
            found: object = value[key] if not rest else value_of(value[key], rest)
            if found is not None and found != "":
                return found
    elif isinstance(value, list):
        first, _, rest = names.partition(".")
        if first.isdecimal() and int(first) < len(value):
            return value_of(value[int(first)], rest) if rest else value[int(first)]
    return None


@lru_cache(maxsize=16_384)
def _paths(keys: tuple[str, ...], names: str) -> tuple[tuple[str, str], ...]:
    """The keys that the names mean in an object with these keys, each with the rest of its path."""
    own = {squeezed(str(key)): key for key in reversed(keys)} | {str(key): key for key in keys}
    made: list[tuple[str, str]] = []
    for path in names.split():
        first, _, rest = path.partition(".")
        for name, left in ((path, ""), (first, rest)) if rest else ((path, ""),):
            key = own.get(name, own.get(squeezed(name)))
            made += [(key, left)] if key is not None else []
    return tuple(made)


def leaves(value: object, depth: int = 3) -> Iterator[tuple[str, object]]:
    """The paths of an object that lead to no further object, with their values."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            if isinstance(inner, Mapping) and inner and depth > 1:
                yield from ((f"{name}.{path}", leaf) for path, leaf in leaves(inner, depth - 1))
            else:
                yield str(name), inner


_UNITS = ((1e17, 1e9), (1e14, 1e6), (1e11, 1e3), (0.0, 1.0))
"""Unix times from the first value on are counted in that part of a second: later ones are past the year 5000."""
_LEAST = 315_532_800.0
"""1980: a smaller number is a count, or days of a spreadsheet, and no unix time of a message."""
_COMPACT = {8: "%Y%m%d", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}
"""Dates written as one number, by its digits; as unix times they would be of 1970, 1976 and 2611."""
_MOST_CHARS = 200
"""A longer text is no time."""
_NUMBER = re.compile(r"-?\d+(\.\d+)?")
_HALVES = {"pm": 12, "午後": 12, "下午": 12, "오후": 12, "م": 12, "am": 0, "午前": 0, "上午": 0, "오전": 0, "ص": 0}
_CLOCK = (
    r"(?P<early>午後|下午|오후|午前|上午|오전)?\s{0,2}(?P<hour>\d{1,2})[:.h](?P<minute>\d{2})(?:[:.](?P<second>\d{2}))?"
    r"(?:\s{0,2}(?P<late>[AaPp]\.?\s?[Mm]\.?|م|ص))?"
)
NUMERIC_TIME = (
    r"(?P<a>\d{1,4})(?P<mark>[./-])\s?(?P<b>\d{1,2})[./-]\s?(?P<c>\d{1,4})\.?(?:,|،)?"
    r"\s{0,2}(?:um|at|à|às|klo|kl\.?|,)?\s{0,2}" + _CLOCK
)
"""A date in numbers with a time of day, as clocks of many countries write it. Every repetition has a bound."""
_NUMERIC = re.compile(NUMERIC_TIME)
_CLOCKS = ("%I:%M:%S %p", "%I:%M %p", "%H:%M:%S", "%H:%M")
_FORMS = (
    *(f"{day} {clock}" for day in ("%b %d %Y", "%B %d %Y", "%d %b %Y", "%d %B %Y") for clock in _CLOCKS),
    *("%a %b %d %Y %H:%M:%S GMT%z", "%a %b %d %H:%M:%S %z %Y", "%Y-%m-%d@%Hh%Mm%Ss"),
    *("%Y-%m-%d %I:%M:%S %p", "%Y-%m-%d %I:%M %p"),
)
"""Times written with words, without commas and "at"."""
_ZONES = {"UTC": 0, "GMT": 0, "PST": -8, "PDT": -7, "MST": -7, "MDT": -6, "CST": -6, "CDT": -5, "EST": -5, "EDT": -4}
_ZONE = re.compile(rf"\s+({'|'.join(_ZONES)})$")


@dataclass(slots=True)
class _Evidence:
    """What the dates of one conversation show of their order."""

    possible: set[str] = field(default_factory=lambda: {"dmy", "mdy"})
    back: set[str] = field(default_factory=set)
    """Orders in which a message would be before the one before it."""
    last: dict[str, datetime] = field(default_factory=dict)

    def orders(self) -> set[str]:
        return (self.possible - self.back) or self.possible


@dataclass(slots=True)
class Dates:
    """Reads dates in numbers (03/04/2025), whose order (dmy, mdy) the whole file decides or an option says."""

    order: str | None = None
    decided: bool = False
    undecided: int = 0
    """Times that were read without knowing the order."""
    _evidence: dict[str, _Evidence] = field(default_factory=dict)
    _now: _Evidence = field(default_factory=_Evidence)

    def begin(self, name: str) -> None:
        """A conversation of this name begins: its times may be before those of the one before it."""
        self._now = self._evidence.setdefault(name, _Evidence()) if self.order is None else self._now

    def read(self, found: re.Match[str]) -> datetime | None:
        """The time of a match of ``NUMERIC_TIME``; None for one that is no time in this order."""
        a, b, c = (int(found[part]) for part in "abc")
        orders = {"ymd": (a, b, c), "dmy": (c, b, a), "mdy": (c, a, b)}
        order = "ymd" if len(found["a"]) == 4 else self.order
        if order is None and found["early"]:  # East Asia's
            order = "ymd"
        if order is None and found["mark"] == ".":
            moment = _clocked(found, *orders["dmy"])
            return None if moment is not None and _is_ahead(moment) else moment
        if order is None and self.decided:
            order = min(self._now.orders())
        if order is not None:
            return _clocked(found, *orders[order])
        self.undecided += 1
        now = self._now
        made = {order: _clocked(found, *orders[order]) for order in ("dmy", "mdy")}
        for order, moment in made.items() if any(made.values()) else ():
            if moment is None or _is_ahead(moment):  # 24/12/31 is no 24 December
                now.possible.discard(order)
            elif moment < now.last.get(order, moment):
                now.back.add(order)
            now.last[order] = moment or now.last.get(order, datetime.min)  # noqa: DTZ901 - no zone, as the others
        return made["dmy"] or made["mdy"]

    def decide(self) -> None:
        """Set the order that all conversations agree on, else that of each. Raises InvalidInput when one shows none."""
        shown = [each.orders() for each in self._evidence.values() if each.last]
        common = set.intersection(*shown) if shown else set()
        self.decided = True
        if len(common) == 1:
            self.order = common.pop()
        elif any(len(each) != 1 for each in shown):
            raise InvalidInput(
                "Nothing in the file shows whether its dates begin with the day or the month:"
                " give --dates dmy (3 April is 03/04), --dates mdy (04/03) or --dates ymd (25/04/03).",
                code="ambiguous_dates",
            )


def _clocked(found: re.Match[str], year: int, month: int, day: int) -> datetime | None:
    half = found["early"] or re.sub(r"[.\s]", "", found["late"] or "").lower()
    hour = int(found["hour"])
    if half:
        hour = hour % 12 + _HALVES[half]
    if year < 100:
        year += 1900 if year > 69 else 2000
    try:
        return datetime(year, month, day, hour, int(found["minute"]), int(found["second"] or 0))  # noqa: DTZ001 - the file names no zone
    except ValueError:
        return None


def _is_ahead(moment: datetime) -> bool:
    """Whether a time without a zone is in the future everywhere: nobody has said anything then."""
    return moment > datetime.now(UTC).replace(tzinfo=None) + timedelta(days=2)


def when(value: object, dates: Dates) -> datetime | None:
    """A time in any usual form: ISO 8601, unix time in seconds to nanoseconds, {"$date"}, {"seconds"}, RFC 2822, words,
    or a date in numbers. Naive without a zone; None for what is no time."""
    if isinstance(value, datetime):
        return value
    if isinstance(value, Mapping):
        inner = value_of(value, "$date seconds $numberLong iso value")
        return None if inner is None else when(inner, dates)
    if isinstance(value, str):
        if len(value) > _MOST_CHARS:
            return None
        text = " ".join(_BIDI.sub("", value).split())
        if not _NUMBER.fullmatch(text):
            return _written(text, dates)
        value = float(text)
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        return None
    if (form := _COMPACT.get(len(digits := f"{value:.0f}"))) and digits.startswith(("19", "20")):
        try:
            return datetime.strptime(digits, form)  # noqa: DTZ007 - it names no zone
        except ValueError:
            pass
    if abs(value) < _LEAST:
        return None
    try:
        return datetime.fromtimestamp(value / next(by for least, by in _UNITS if abs(value) >= least), UTC)
    except (ValueError, OverflowError, OSError, StopIteration):
        return None


def _written(text: str, dates: Dates) -> datetime | None:
    zone = _ZONE.search(text)
    plain = text[: zone.start()] if zone else text
    moment = None
    try:
        moment = datetime.fromisoformat(re.sub(r"(?<=\d)\s+(?=[+-]\d\d:?\d\d$)", "", plain))
    except ValueError:
        found = _NUMERIC.fullmatch(plain)
        moment = dates.read(found) if found else _worded(plain)
    if moment is not None and zone and moment.tzinfo is None:
        moment = moment.replace(tzinfo=timezone(timedelta(hours=_ZONES[zone[1]])))
    return moment


def _worded(text: str) -> datetime | None:
    plain = re.sub(r"(?<=\d)(am|pm)\b", r" \1", re.sub(r"\s+at\s+|\s*,\s*|\s*\(.*\)$", " ", text), flags=re.IGNORECASE)
    plain = " ".join(plain.split())
    for form in _FORMS:
        try:
            return datetime.strptime(plain, form)  # noqa: DTZ007 - most name no zone
        except ValueError:
            continue
    try:
        return parsedate_to_datetime(text)
    except ValueError:
        return None


_BLOCKS = {"p", "div", "br", "li", "tr", "blockquote", "pre", "h1", "h2", "h3", "h4"}
_UNSHOWN = {"script", "style", "attachment", "systemeventmessage"}


class _Plain(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self.unshown = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.unshown += tag in _UNSHOWN
        if tag in _BLOCKS:
            self.parts.append("\n")
        elif tag in ("img", "emoji"):
            alt = given.get("alt") or ""
            picture = tag == "img" and "emoji" not in (given.get("itemtype") or "").lower()
            named = alt.lower() not in ("", "image")
            self.parts.append(f"[image: {alt}]" if picture and named else "[image]" if picture else alt)

    def handle_endtag(self, tag: str) -> None:
        self.unshown -= tag in _UNSHOWN and self.unshown > 0
        if tag in _BLOCKS:
            self.parts.append("\n")

    def handle_data(self, data: str) -> None:
        if not self.unshown:
            self.parts.append(data)


def plain_html(text: str) -> str:
    """The words of HTML, a line for each block; images are marks."""
    parser = _Plain()
    try:
        parser.feed(text)
        parser.close()
    except AssertionError:
        raise InvalidInput("The HTML of a message can't be read.", code="invalid_item") from None
    lines = (" ".join(line.split()) for line in "".join(parser.parts).split("\n"))
    return "\n".join(line for line in lines if line)
