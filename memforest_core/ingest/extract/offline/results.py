"""What a tool's result measured: its values with a unit, a sentence for each record or line; nothing else of it.

A result states no facts about people: it has no subject, names nobody and sets no attribute. Left out are values
without a unit ("status": "ok", counts, codes) and texts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from memforest_core.domain.text import clean

MAX_RESULTS = 4
"""Of a turn, or of a part of a long one: a log that goes on for hours is found by its text."""
MAX_VALUES = 6
"""In one sentence."""
MAX_RECORD_CHARS = 2_000

# fmt: off
UNITS = {
    "c": "C", "f": "F", "pct": "%", "percent": "%", "ppm": "ppm", "bar": "bar", "hpa": "hPa", "lux": "lux",
    "v": "V", "w": "W", "kw": "kW", "kwh": "kWh", "wh": "Wh", "mm": "mm", "cm": "cm", "m": "m", "km": "km",
    "kmh": "km/h", "mg": "mg", "g": "g", "kg": "kg", "ml": "ml", "l": "l", "bpm": "bpm", "kcal": "kcal",
    "eur": "EUR", "usd": "USD", "gbp": "GBP", "chf": "CHF", "nok": "NOK", "sek": "SEK", "dkk": "DKK",
}
# fmt: on
"""Last parts of a key that say a unit, and how it is written; those that mean several things ("ms") are left out."""
LABELS = ("site", "place", "location", "room", "station", "device", "sensor", "date", "time")
"""Keys of texts that say what was measured. Not "name": that may be a person's."""

_RECORD = re.compile(rf"\{{[^{{}}]{{1,{MAX_RECORD_CHARS}}}\}}")
_WRITTEN = "|".join(sorted(map(re.escape, {*UNITS.values(), "°C", "°F", "m/s"}), key=len, reverse=True))
_LINE = re.compile(
    rf"(?P<key>[^\W\d_][\w ]{{0,40}}?) ?[=:] ?(?P<value>-?\d+(?:[.,]\d+)?) ?(?P<unit>{_WRITTEN})(?![\w/])"
)
_TIMES = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?)?")


class Result(NamedTuple):
    """A sentence about what was measured, and the piece of the turn that says it, letter by letter."""

    text: str
    quote: str


def results(text: str) -> list[Result]:
    """The first few records or lines of a tool's result that have a value with a unit."""
    found: list[Result] = []
    for result in (*_records(text), *_lines(_RECORD.sub("\n", text))):
        if len(found) == MAX_RESULTS:
            break
        found.append(result)
    return found


def _records(text: str) -> Iterator[Result]:
    """Flat objects of JSON that say what was measured, also within others and in a part that was cut between them."""
    for match in _RECORD.finditer(text):
        try:
            record = json.loads(match.group())
        except ValueError:
            continue
        values = list(_values(record))[:MAX_VALUES]
        label = " ".join(str(record[key]) for key in LABELS if isinstance(record.get(key), str))
        if values and label:
            yield Result(_sentence(label, values), match.group())


def _values(record: Mapping[str, object]) -> Iterator[str]:
    for key, value in record.items():
        name, _, last = key.replace("-", "_").rpartition("_")
        # A price for each kilowatt hour is no energy.
        if not name or name.endswith("_per"):
            continue
        if last.casefold() in UNITS and isinstance(value, int | float) and not isinstance(value, bool):
            yield f"{name.replace('_', ' ')} {value} {UNITS[last.casefold()]}"


def _lines(text: str) -> Iterator[Result]:
    """Lines with values such as "temperature: 31.5 C" or "temperature=31.5 C"."""
    for line in text.splitlines():
        matches = list(_LINE.finditer(line[:MAX_RECORD_CHARS]))[:MAX_VALUES]
        if not matches:
            continue
        first = matches[0]
        # In a log the key is the last word before its sign, in a list it is all of the line.
        before, key = line[: first.start()], first["key"].strip()
        if "=" in first.group() and " " in key:
            before, key = before + key.rpartition(" ")[0], key.rpartition(" ")[2]
        values = [f"{key} {first['value']} {first['unit']}"]
        values += [f"{one['key'].strip()} {one['value']} {one['unit']}" for one in matches[1:]]
        yield Result(_sentence(_TIMES.sub("", before).strip(" -*|,;:\t"), values), line.strip())


def _sentence(label: str, values: list[str]) -> str:
    measured = ", ".join(values)
    return clean(f"{label[:120]}: {measured}" if label else measured)
