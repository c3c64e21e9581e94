"""One visit of a page: the key, the parameters, and the page that comes back, everything on it escaped."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, tzinfo
from functools import cache
from http import HTTPStatus
from typing import Any, TypeAlias
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from memforest_core import __version__
from memforest_core.client.api import MemForest
from memforest_core.client.route_table import ROUTES
from memforest_core.domain.evidence import day_label
from memforest_core.domain.rendering import by_rules, one_line
from memforest_core.domain.times import TimeSpan
from memforest_core.errors import InvalidInput, NotFound
from memforest_core.service.http.endpoints import check_owners, check_scope
from memforest_core.service.http.problems import Refused
from memforest_core.service.keys.records import Caller


@dataclass(frozen=True, slots=True)
class Visit:
    """A request with a valid key; ``memory`` is that of the key's tenant."""

    caller: Caller
    memory: MemForest
    query: Mapping[str, str]
    form: Mapping[str, str] = field(default_factory=dict)

    def parameter(self, name: str) -> str | None:
        """An argument of the query; None for one that is missing or empty."""
        return self.query.get(name) or None

    def sent(self, name: str) -> str:
        """A field of a form. Raises InvalidInput for one that is missing or empty."""
        return _needed(self.form, name)

    def needed(self, name: str) -> str:
        """An argument of the query that a page can't do without. Raises InvalidInput."""
        return _needed(self.query, name)

    def check(self, operation: str, **arguments: Any) -> None:
        """Raise Refused unless this key may do an operation of the API (its route's name) with these arguments."""
        route = ROUTES[operation]
        check_scope(self.caller, route)
        check_owners(self.caller, route, arguments)

    def may(self, operation: str, **arguments: Any) -> bool:
        """Whether this key may do an operation of the API."""
        try:
            self.check(operation, **arguments)
        except Refused:
            return False
        return True

    def owner(self, operation: str = "sessions") -> str:
        """The owner that the query names. Raises Refused when the key does not reach it, InvalidInput."""
        owner = self.needed("owner")
        self.check(operation, owner=owner)
        return owner

    @property
    def actor(self) -> str:
        """Who acts, for the audit."""
        return self.caller.acting("explorer")


@dataclass(frozen=True, slots=True)
class Shown:
    """A page: its template, and what that shows."""

    template: str
    values: Mapping[str, Any]
    status: HTTPStatus = HTTPStatus.OK


@dataclass(frozen=True, slots=True)
class Moved:
    """The action is done: the browser goes on to another page."""

    to: str


Outcome: TypeAlias = Shown | Moved
Page: TypeAlias = Callable[[Visit], Outcome]


def href(path: str, **arguments: object) -> str:
    """The address of a page; arguments that are None or empty are left out."""
    given = [(name, str(value)) for name, value in arguments.items() if value is not None]
    shown = [each for each in given if each[1]]
    return f"{path}?{urlencode(shown)}" if shown else path


def listed(page: str, owner: str, found: Any, **arguments: Any) -> Shown:
    """A page of what an owner has, and its link to the next page with these arguments.

    Raises NotFound when the owner has no memory.
    """
    known(owner, found)
    more = href(f"/{page}", owner=owner, cursor=found.cursor, **arguments) if found.cursor else None
    return Shown(f"{page}.html", {"owner": owner, "tab": f"/{page}", page: found, "more": more, **arguments})


def known(owner: str, found: Any) -> Any:
    """A result of the library about an owner. Raises NotFound when the owner has no memory."""
    if not found.owner_known:
        raise NotFound(f"Owner {owner!r:.80} has no memory yet.")
    return found


def _needed(given: Mapping[str, str], name: str) -> str:
    value = given.get(name)
    if not value:
        raise InvalidInput(f"Say which {name}.", code=f"missing_{name}")
    return value


MINUTE_S, HOUR_S, DAY_S = 60, 3_600, 86_400


@cache
def environment() -> Environment:
    """The templates of this package."""
    made = Environment(
        loader=PackageLoader("memforest_core.service.explorer"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"moment": moment, "day": day, "age": age, "money": money, "number": number, "shortened": shortened}
    made.filters |= {"around": around, "counted": counted, "dated": dated}
    made.globals |= {"href": href, "version": __version__, "by_rules": by_rules}
    return made


def rendered(template: str, values: Mapping[str, Any]) -> str:
    """A template's text with these values."""
    return environment().get_template(template).render(values)


def moment(value: datetime | None) -> str:
    """A time in UTC, to the minute."""
    return "" if value is None else f"{value.astimezone(UTC):%Y-%m-%d %H:%M}"


def day(value: datetime | date | None) -> str:
    """The day of a time in UTC."""
    if value is None:
        return ""
    return f"{value.astimezone(UTC):%Y-%m-%d}" if isinstance(value, datetime) else value.isoformat()


WEEKDAY = re.compile(r"\b\w+day (?=\d)")


def dated(span: TimeSpan, zone: tzinfo) -> str:
    """The first day of a span in a time zone, as coarse as it was said, without its weekday."""
    return WEEKDAY.sub("", day_label(span, zone))


def age(seconds: float) -> str:
    """A length of time as people say it."""
    for unit, name in ((DAY_S, "d"), (HOUR_S, "h"), (MINUTE_S, "min")):
        if seconds >= unit:
            return f"{seconds / unit:.0f} {name}" if seconds >= 10 * unit else f"{seconds / unit:.1f} {name}"
    return f"{seconds:.0f} s"


def money(dollars: float) -> str:
    """US dollars: cents, or as fine as small amounts need."""
    if dollars == 0 or dollars >= 1:
        return f"${dollars:,.2f}"
    return f"${dollars:.4f}" if dollars >= 0.0001 else "<$0.0001"


def number(value: float) -> str:
    """A count with its thousands separated."""
    return f"{value:,.0f}"


def counted(count: float, name: str) -> str:
    """A count and what it is of, whose first word is in the plural: "1 fact", "12 groups of turns"."""
    first, *rest = name.split(" ")
    return " ".join([number(count), first.removesuffix("s") if count == 1 else first, *rest])


def shortened(text: str, chars: int) -> str:
    """The beginning of a text on one line."""
    line = one_line(text)
    return line if len(line) <= chars else line[: chars - 1].rstrip() + "…"


def around(text: str, words: Sequence[str], chars: int) -> list[tuple[str, bool]]:
    """A text on one line, cut to where the first of some words is; its parts, and whether each is such a word."""
    line = one_line(text)
    found = re.compile("|".join(map(re.escape, sorted(words, key=len, reverse=True))) or "(?!)", re.IGNORECASE)
    first = found.search(line)
    if first is not None and first.end() > chars:
        line = "…" + line[max(0, first.start() - chars // 3) :].lstrip()
    parts, end = [], 0
    line = shortened(line, chars)
    for hit in found.finditer(line):
        parts += [(line[end : hit.start()], False), (hit.group(), True)]
        end = hit.end()
    return [*parts, (line[end:], False)]
