"""Readers of typed values: a place, a job, an animal, an amount. What is not of the kind is not read."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

from memforest_core.ingest.extract.offline.english_text import NOT_NAMES, alternatives, is_kind, pattern

MAX_AGE = 115
MIN_KG, MAX_KG = 25, 250
"""What a person weighs."""
MAX_NOUNS = 5
"""Words of what somebody likes."""

_WORD = re.compile(r"\s*(?P<word>[^\W_](?:[\w&’'./-]*[^\W_])?)")
_DETERMINER = pattern("DETERMINER")
_CALLED = pattern("PETCALLED")
_AGE = pattern("AGE")
_MASS = pattern("MASS")
_KG = {"k": 1.0, "l": 0.4536, "p": 0.4536, "s": 6.35}
_HEIGHT = pattern("HEIGHT")
_AMOUNT = pattern("AMOUNT")
_LEAD = pattern("LEADER")
_CODE = pattern("CODE")
_NAME = pattern("PERSONNAME")


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
    found = _DETERMINER.match(text, at)
    return (found.end(), found["word"].casefold()) if found else (at, "")


@cache
def _dwelling() -> re.Pattern[str]:
    return re.compile(
        rf"\s*(?:on\s+)?(?:an?|my|our|the)\s+(?:[\w-]+\s+){{0,3}}?(?:{alternatives('dwelling')})\s+"
        r"(?P<near>in|near|outside|outside of|close to)(?=\s)",
        re.IGNORECASE,
    )


def place(text: str, at: int) -> Reading | None:
    """A known place, or a capitalized name that is not known for anything else; of a dwelling the place it is in."""
    if (home := _dwelling().match(text, at)) is not None:
        found = place(text, home.end())
        exact = found is None or home["near"].casefold() == "in"
        return found if exact or found is None else Reading(f"{home['near']} {found.value}", found.end)
    at, article = _past(text, at)
    if article not in {"", "the"}:
        return None
    known, capital = _longest(text, at, "place"), _capitals(text, at, "not a place")
    if (
        known is not None
        and known.value == known.value.casefold()
        and is_kind(known.value, "place with a capital only")
    ):
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
    word = re.compile(r"\s+(?:just\s+)?(?P<word>outside(?:\s+of)?|near)\b", re.IGNORECASE).match(text, at)
    found = place(text, word.end()) if word else None
    return found if found is None or word is None else Reading(f"{word['word']} {found.value}", found.end)


def occupation(text: str, at: int) -> Reading | None:
    """What somebody works as ("a senior nurse"), or how they are without work."""
    if (stance := _longest(text, at, "standing")) is not None:
        return Reading(stance.value.removeprefix("a ").removeprefix("A "), stance.end)
    at, article = _past(text, at)
    if article not in {"", "a", "an", "the"}:
        return None
    led = _ending(text, lead.end(), "field", before=2) if (lead := _LEAD.match(text, at)) else None
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
    return found if named and found is not None and not _CLUB.search(found.value) else None


_CLUB = pattern("CLUB")


def workplace(text: str, at: int) -> Reading | None:
    """An employer, or what somebody works as."""
    return employer(text, at) or occupation(text, at)


def field(text: str, at: int) -> Reading | None:
    """A field of work ("marketing")."""
    return _longest(text, at, "field") or _ending(text, at, "field", before=1)


def age(text: str, at: int) -> Reading | None:
    """Years, in figures or words."""
    found = _AGE.match(text, at)
    if found is None or (found["value"].isdigit() and not 0 < int(found["value"]) <= MAX_AGE):
        return None
    return Reading(found["value"], found.end())


def weight(text: str, at: int) -> Reading | None:
    """What a person can weigh."""
    found = _MASS.match(text, at)
    if found is None:
        return None
    kilograms = float(found["number"].replace(",", ".")) * _KG.get((found["unit"] or "k")[0].casefold(), 1.0)
    return Reading(found["value"].strip(), found.end()) if MIN_KG <= kilograms <= MAX_KG else None


def _matching(pattern: re.Pattern[str]) -> Reader:
    def read(text: str, at: int) -> Reading | None:
        found = pattern.match(text, at)
        return Reading(found["value"].strip(" .,"), found.end("value")) if found else None

    return read


height, amount, code = _matching(_HEIGHT), _matching(_AMOUNT), _matching(_CODE)


def measure(text: str, at: int) -> Reading | None:
    """An amount or a code."""
    return amount(text, at) or code(text, at)


def name(text: str, at: int) -> Reading | None:
    """What somebody is called: not a common word."""
    found = _NAME.match(text, at)
    if found is None or found["value"].split()[0].casefold() in NOT_NAMES or is_kind(found["value"], "not a name"):
        return None
    return Reading(found["value"], found.end())


def animal(text: str, at: int) -> Reading | None:
    """An animal that is counted, with its name if that follows ("a dog named Rex")."""
    start, article = _past(text, at)
    found = _ending(text, start, "pet") if article not in {"", "the"} else None
    if found is None:
        return None
    called = _CALLED.match(text, found.end)
    end = called.end() if called else found.end
    return Reading(text[found.end - len(found.value) : end], end)


def own_animal(text: str, at: int) -> Reading | None:
    """An animal with its name, after "my" or "our" ("cat Misty")."""
    found = _longest(text, at, "pet")
    called = _CALLED.match(text, found.end) if found else None
    return (
        found
        if found is None or called is None
        else Reading(text[found.end - len(found.value) : called.end()], called.end())
    )


def goods(text: str, at: int) -> Reading | None:
    """A thing that lasts, or a make of vehicle."""
    start, article = _past(text, at)
    return (_ending(text, start, "goods") or _ending(text, start, "make")) if article else None


def allergen(text: str, at: int) -> Reading | None:
    """What people are allergic to."""
    return _ending(text, _past(text, at)[0], "allergen", before=1)


def listed(*names: str) -> Reader:
    """A reader of phrases that are listed as one of these kinds."""
    return lambda text, at: _longest(text, at, *names)


def studies(text: str, at: int) -> Reading | None:
    """What somebody studies, with the verb."""
    verb = re.compile(r"\s+(?:currently\s+)?studying\s+", re.IGNORECASE).match(text, at)
    found = _ending(text, verb.end(), "subject of study", before=2) if verb else None
    if found is None or verb is None:
        return None
    return Reading(text[verb.start() : found.end].strip(), found.end)


def ensemble(text: str, at: int) -> Reading | None:
    """A group that one sings or plays in."""
    start, article = _past(text, at)
    return _ending(text, start, "ensemble") if article else None


def learning(text: str, at: int) -> Reading | None:
    """A language or an instrument that somebody learns, with the verb."""
    verb = re.compile(r"\s+(?:learning|studying)\s+(?:to\s+(?:play|speak)\s+)?", re.IGNORECASE).match(text, at)
    found = _longest(text, _past(text, verb.end())[0], "language", "instrument") if verb else None
    return found if found is None or verb is None else Reading(text[verb.start() : found.end].strip(), found.end)


def instrument(text: str, at: int) -> Reading | None:
    """A musical instrument, or a sport that is played."""
    return _longest(text, _past(text, at)[0], "instrument", "hobby")


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
    reader.__name__: reader
    for reader in (
        place,
        near,
        occupation,
        employer,
        firm,
        workplace,
        field,
        studies,
        age,
        weight,
        measure,
        name,
        animal,
        own_animal,
        goods,
        allergen,
        instrument,
        ensemble,
        learning,
        liked,
    )
} | {"height": height}
"""By the names that the table of wordings uses; any other is a kind of kinds.txt."""
