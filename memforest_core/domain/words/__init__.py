"""What recall knows of languages: a file of words for each, and which of them a question is read by.

Strings of a file that are patterns ignore case. A line break in one is nothing; ``@name@`` is one of its parts or of
``_SHARED``, with the words in it as they are, ``@name|@`` with them as alternatives.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import is_dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from memforest_core.domain.languages import LATIN, guess, plausible
from memforest_core.domain.periods import MONTH, SEASON, UNIT, WEEKDAY, YEAR
from memforest_core.domain.words.records import Words

Kind = TypeVar("Kind")

LANGUAGES = ("english", "german", "spanish", "french", "chinese", "japanese")
"""Another language is one more file of this package, and its name here."""
_SAMPLE = 600
"""Characters that are looked at, as in ``languages``."""
_HAN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")
_KANA, _HANGUL = re.compile("[\u3040-\u30fa\u30fc-\u30ff]"), re.compile("[\uac00-\ud7a3]")
_SHARED = {"month": MONTH, "season": SEASON, "unit": UNIT, "weekday": WEEKDAY, "year": YEAR}
_PART = re.compile(r"@(\w+)(\|?)@")


@lru_cache
def words_in(language: str) -> Words:
    """The words of one of ``LANGUAGES``, made at their first use, which takes 10 ms. Raises FileNotFoundError for
    another."""
    return filled_in(Words, files(__name__).joinpath(f"{language}.toml").read_text(encoding="utf-8"))


def filled_in(kind: type[Kind], text: str) -> Kind:
    """What a file in the form of this package's has, as a dataclass of that kind."""
    document = tomllib.loads(text)
    parts: dict[str, list[str]] = {name: [pattern] for name, pattern in _SHARED.items()}
    for name, part in document.pop("parts").items():
        parts[name] = part if isinstance(part, list) else _filled(part, parts, " ").split(" ")
    made: Kind = _made(kind, document, parts)
    return made


def _filled(text: str, parts: Mapping[str, list[str]], space: str) -> str:
    """A string of a file with its parts in it; ``space`` takes the place of a line break between words."""
    joined = re.sub(r"\n(?!\|)\s*", space, text.strip("\n")).replace("\n", "")
    return _PART.sub(lambda found: (found[2] or " ").join(parts[found[1]]), joined)


def _made(kind: Any, given: Any, parts: Mapping[str, list[str]]) -> Any:
    """The value of a field's type from what the file has."""
    outer, inner = get_origin(kind), get_args(kind)
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        return kind(**{name: _made(hints[name], value, parts) for name, value in given.items()})  # type: ignore[operator]
    if outer is re.Pattern:
        return re.compile(_filled(given, parts, ""), re.IGNORECASE)
    if outer is frozenset:
        return frozenset(_filled(given, parts, " ").split())
    if outer is tuple and isinstance(given, dict):
        return tuple((name, _made(get_args(inner[0])[1], value, parts)) for name, value in given.items())
    if outer is tuple:
        return tuple(_made(inner[0], value, parts) for value in given)
    if isinstance(given, dict):
        return {inner[0](name): _made(inner[1], value, parts) for name, value in given.items()}
    return _filled(given, parts, " ") if kind is str else given


ENGLISH = words_in("english")


def words_of(text: str) -> tuple[Words, ...]:
    """The words that a question is read by: those of its language.

    A text that does not show its language is read by English and by the languages that it may be in; one in a language
    without words here by English. Kana are Japanese; Han signs without them and Hangul are Chinese.
    """
    return _words_of(text[:_SAMPLE])


@lru_cache(maxsize=4_096)
def _words_of(sample: str) -> tuple[Words, ...]:
    sure = guess(sample)
    if sure is not None:
        return (words_in(sure) if sure in LANGUAGES else ENGLISH,)
    if not _HANGUL.search(sample) and (dense := _KANA.search(sample) or _HAN.search(sample)):
        return (words_in("japanese" if _KANA.match(dense[0]) else "chinese"),)
    likely = [one for one in plausible(sample) if one != ENGLISH.language] or LATIN
    return (ENGLISH, *(words_in(one) for one in likely if one in LANGUAGES and one != ENGLISH.language))
