"""Templates as pages: everything that they show is escaped."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from memforest_core import __version__
from memforest_core.domain.rendering import by_rules, one_line
from memforest_core.service.explorer.visits import href

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
    made.filters |= {
        "moment": moment,
        "day": day,
        "age": age,
        "money": money,
        "number": number,
        "shortened": shortened,
    }
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


def shortened(text: str, chars: int) -> str:
    """The beginning of a text on one line."""
    line = one_line(text)
    return line if len(line) <= chars else line[: chars - 1].rstrip() + "…"
