"""Readers of typed values: a place, a job, an animal, an amount. What is not of the kind is not read."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from memforest_core.ingest.extract.offline.english_text import NOT_NAMES, is_kind, pattern

MAX_AGE = 115
MIN_KG, MAX_KG = 25, 250
"""What a person weighs."""
MAX_NOUNS = 5
"""Words of what somebody likes."""

_WORD = re.compile(r"\s*(?P<word>[^\W_](?:[\w&’'./-]*[^\W_])?)")
_KG = {"k": 1.0, "l": 0.4536, "p": 0.4536, "s": 6.35}


@dataclass(frozen=True, slots=True)
class Reading:
    """A value, and where it ends in the text."""

    value: str
    end: int


Reader = Callable[[str, int], "Reading | None"]


def _words(text: str, at: int, most: int) -> list[re.Match[str]]:
    """The next words, with nothing but spaces between them."""
    found: list[re.Match[str]] = []
    while len(found) < most and (word := _WORD.match(text, at)) is not None:
        found.append(word)
        at = word.end()
    return found


def _reading(text: str, words: list[re.Match[str]]) -> Reading:
    return Reading(text[words[0].start("word") : words[-1].end()], words[-1].end())


def _longest(text: str, at: int, *names: str) -> Reading | None:
    """The longest phrase of a kind that begins here."""
    words = _words(text, at, 5)
    for length in range(len(words), 0, -1):
        found = _reading(text, words[:length])
        if is_kind(found.value, *names) or is_kind(found.value.replace("-", " "), *names):
            return found
    return None


def _ending(text: str, at: int, *names: str, before: int = 3) -> Reading | None:
    """A phrase of a kind with up to ``before`` words that describe it ("senior software engineer")."""
    words = _words(text, at, before + 3)
    for last in range(len(words), 0, -1):
        for first in range(max(0, last - 3), min(last, before + 1)):
            if is_kind(" ".join(word["word"] for word in words[first:last]), *names):
                described = [word["word"].casefold() for word in words[:first]]
                odd = (
                    word in NOT_NAMES or word.endswith(("n't", "n’t")) or is_kind(word, "evaluation")
                    for word in described
                )
                if not any(odd):
                    return _reading(text, words[:last])
    return None


def _capitals(text: str, at: int, excluded: str) -> Reading | None:
    """Capitalized words that are no days, openers or of the kind ``excluded``."""
    words = _words(text, at, 6)
    last = 0
    for number, word in enumerate(words):
        plain = word["word"].casefold().split("'")[0].split("’")[0]
        if word["word"][:1].isupper() and not (number and plain in NOT_NAMES):
            last = number + 1
        elif not number or not is_kind(word["word"], "joins a name"):
            break
    if not last or not words[0]["word"][:1].isupper():
        return None
    found = _reading(text, words[:last])
    first = words[0]["word"]
    listed = is_kind(found.value, excluded) or is_kind(first, excluded) or first.casefold() in NOT_NAMES
    product = excluded == "not a place" and is_kind(first, "company")
    return None if listed or product else found


def _past(text: str, at: int) -> tuple[int, str]:
    """Where the words begin after a determiner, and the determiner."""
    found = pattern("DETERMINER").match(text, at)
    return (found.end(), found["word"].casefold()) if found else (at, "")


def place(text: str, at: int) -> Reading | None:
    """A known place, or a capitalized name that is not known for anything else; of a dwelling the place it is in."""
    if (home := pattern("DWELLING").match(text, at)) is not None:
        found = place(text, home.end())
        exact = found is None or home["near"].casefold() == "in"
        return found if exact or found is None else Reading(f"{home['near']} {found.value}", found.end)
    at, article = _past(text, at)
    if article not in {"", "the"}:
        return None
    known, capital = _longest(text, at, "place"), _capitals(text, at, "not a place")
    small = known is not None and known.value == known.value.casefold()
    if known is not None and small and is_kind(known.value, "place with a capital only"):
        return None
    if known is None and (capital is None or article or (capital.value.isupper() and len(capital.value) > 1)):
        return None
    found = capital if known is None or (capital is not None and capital.end > known.end) else known
    if found is None:
        return None
    region = _longest(text, found.end + 1, "place") if text[found.end : found.end + 2] == ", " else None
    if region is None or not region.value[:1].isupper():
        return found
    return Reading(f"{found.value}, {region.value}", region.end)


def near(text: str, at: int) -> Reading | None:
    """A place that one is only near to, with the word that says so ("near Ghent")."""
    word = pattern("NEAR").match(text, at)
    found = place(text, word.end()) if word else None
    return found if found is None or word is None else Reading(f"{word['word']} {found.value}", found.end)


def occupation(text: str, at: int) -> Reading | None:
    """What somebody works as ("a senior nurse"), or how they are without work."""
    if (stance := _longest(text, at, "standing")) is not None:
        return Reading(stance.value.removeprefix("a ").removeprefix("A "), stance.end)
    at, article = _past(text, at)
    if article not in {"", "a", "an", "the"}:
        return None
    led = _ending(text, lead.end(), "field", before=2) if (lead := pattern("LEADER").match(text, at)) else None
    return Reading(text[at : led.end].strip(), led.end) if led else _ending(text, at, "occupation")


def employer(text: str, at: int) -> Reading | None:
    """For whom somebody works: a name, or a sort of organization."""
    start, article = _past(text, at)
    if (known := _longest(text, start, "company")) is not None:
        named = _capitals(text, start, "not a workplace")
        return named if named is not None and named.end > known.end else known
    if (named := _capitals(text, start, "not a workplace")) is not None and article in {"", "the"}:
        return None if is_kind(named.value, "place") and not article else named
    return _ending(text, start, "organization") if article else None


def firm(text: str, at: int) -> Reading | None:
    """An employer's name."""
    found = employer(text, at)
    named = found is not None and (found.value[:1].isupper() or is_kind(found.value, "company"))
    return found if named and found is not None and not pattern("CLUB").search(found.value) else None


def age(text: str, at: int) -> Reading | None:
    """Years, in figures or words."""
    found = pattern("AGE").match(text, at)
    if found is None or (found["value"].isdigit() and not 0 < int(found["value"]) <= MAX_AGE):
        return None
    return Reading(found["value"], found.end())


def weight(text: str, at: int) -> Reading | None:
    """What a person can weigh."""
    found = pattern("MASS").match(text, at)
    if found is None:
        return None
    kilograms = float(found["number"].replace(",", ".")) * _KG.get((found["unit"] or "k")[0].casefold(), 1.0)
    return Reading(found["value"].strip(), found.end()) if MIN_KG <= kilograms <= MAX_KG else None


def _matching(*names: str) -> Reader:
    """A reader of the <value> of the first of these patterns that matches."""

    def read(text: str, at: int) -> Reading | None:
        found = next(filter(None, (pattern(name).match(text, at) for name in names)), None)
        return Reading(found["value"].strip(" .,"), found.end("value")) if found else None

    return read


def _with_verb(verb: str, what: Reader) -> Reader:
    """A reader of a verb (the name of its pattern) with what follows it."""

    def read(text: str, at: int) -> Reading | None:
        said = pattern(verb).match(text, at)
        found = what(text, said.end()) if said else None
        return found if found is None or said is None else Reading(text[said.start() : found.end].strip(), found.end)

    return read


def _counted(*names: str) -> Reader:
    """A reader of what ends with a word of one of these kinds, the first one first, after an article."""

    def read(text: str, at: int) -> Reading | None:
        start, article = _past(text, at)
        return next(filter(None, (_ending(text, start, name) for name in names)), None) if article else None

    return read


def name(text: str, at: int) -> Reading | None:
    """What somebody is called: not a common word."""
    found = pattern("PERSONNAME").match(text, at)
    if found is None or found["value"].split()[0].casefold() in NOT_NAMES or is_kind(found["value"], "not a name"):
        return None
    return Reading(found["value"], found.end())


def animal(text: str, at: int, *, own: bool = False) -> Reading | None:
    """An animal that is counted, with its name if that follows ("a dog named Rex"); of one's ``own`` ("cat Misty") what
    follows "my"."""
    start, article = _past(text, at)
    found = _longest(text, at, "pet") if own else _ending(text, start, "pet") if article not in {"", "the"} else None
    called = pattern("PETCALLED").match(text, found.end) if found else None
    if found is None or (own and called is None):
        return found
    end = called.end() if called else found.end
    return Reading(text[found.end - len(found.value) : end], end)


def listed(*names: str) -> Reader:
    """A reader of phrases that are listed as one of these kinds."""
    return lambda text, at: _longest(text, at, *names)


def liked(text: str, at: int) -> Reading | None:
    """A noun phrase without determiner that runs to the end of its clause: what somebody likes or dislikes."""
    words = _words(text, at, MAX_NOUNS + 1)
    if len(words) > 3 and words[0]["word"].casefold() == "the" and words[2]["word"] == "of":
        words = words[1:]
    taken: list[re.Match[str]] = []
    for word in words:
        plain = word["word"].casefold().replace("’", "'")
        if is_kind(plain, "end of a noun phrase") or (taken and plain in {"and", "or"}):
            break
        odd = is_kind(plain, "not liked") or (plain in NOT_NAMES and not is_kind(plain, "day", "preposition"))
        if odd and not (taken and is_kind(taken[-1]["word"], "preposition") and plain in {"the", "a", "an"}):
            return None
        taken.append(word)
    if (
        not taken
        or len(taken) > MAX_NOUNS
        or is_kind(taken[0]["word"], "preposition")
        or is_kind(taken[-1]["word"], "preposition")
    ):
        return None
    return _reading(text, taken)


READERS: Mapping[str, Reader] = {
    "place": place,
    "near": near,
    "occupation": occupation,
    "employer": employer,
    "firm": firm,
    "workplace": lambda text, at: employer(text, at) or occupation(text, at),
    "field": lambda text, at: _longest(text, at, "field") or _ending(text, at, "field", before=1),
    "studies": _with_verb("STUDYING", lambda text, at: _ending(text, at, "subject of study", before=2)),
    "age": age,
    "weight": weight,
    "height": _matching("HEIGHT"),
    "measure": _matching("AMOUNT", "CODE"),
    "name": name,
    "animal": animal,
    "own_animal": partial(animal, own=True),
    "goods": _counted("goods", "make"),
    "allergen": lambda text, at: _ending(text, _past(text, at)[0], "allergen", before=1),
    "instrument": lambda text, at: _longest(text, _past(text, at)[0], "instrument", "hobby"),
    "ensemble": _counted("ensemble"),
    "learning": _with_verb("LEARNING", lambda text, at: _longest(text, _past(text, at)[0], "language", "instrument")),
    "liked": liked,
}
"""By the names that the table of wordings uses; any other is a kind of kinds.txt."""
