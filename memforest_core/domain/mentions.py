"""Finds the speakers of a memory in a text: mentions, names with a capital, and nicknames as people type them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from memforest_core.domain.people import COMMON, MENTION, KnownPerson, People, name_key
from memforest_core.domain.text import STOP_WORDS

MAX_NAME_WORDS = 4
"""Names of up to this many words are looked for."""

_TOKEN = re.compile(rf"{MENTION.pattern}|(?P<at>@)?(?P<word>[^\W_][\w’'.-]*)", re.UNICODE)
_ENDING = re.compile(r"(?:['’]s?)?[.'’-]*$")
_THING = re.compile(
    r"\b(?:the|an?|my|our|your|his|her|its|their|this|that|these|those|some|any|no|every|each|another|which|what)"
    r"(?:\s+(?:\w+ly|big|small|old|new|little|good|great|wild|whole|same|other|own))?\s+$",
    re.IGNORECASE,
)
"""What comes before a word for a thing, not before a name."""
_TO_PERSON = re.compile(
    r"(?:^|[.!?:;,]\s*|\b(?:and|with|told|tell|tells|asked|ask|asks|met|meet|saw|by|hi|hey|hello|thanks|thank|for|to|from"
    r"|than|called|says?|said|that|but|because|when|if|love|loves|like|likes|hate|hates|miss|misses|help|helped)\s+)$",
    re.IGNORECASE,
)
_OF_PERSON = re.compile(
    r"['’]s\b|\s*(?:[,!?.]|$)|\s+(?:is|was|has|had|will|can|and|did|does|would|told|said|says|who|loves?|just|never|always"
    r"|[a-z]{2,}(?:es|ed|s)|went|got|came|made|took|bought|left|quit|began|became|sent|gave|thinks?)\b"
)


@dataclass(frozen=True, slots=True)
class Found:
    """A speaker in a text, from ``start`` to before ``end``, without a possessive ending."""

    start: int
    end: int
    person: KnownPerson
    plain: bool
    """It is written as a name with a capital: the rules read it as it is."""
    name: str
    """The name that it means, as a sentence has it; of a mention of an id the newest one."""


@dataclass(frozen=True, slots=True)
class _Token:
    start: int
    end: int
    text: str
    at: bool
    mention: str | None


def found_in(text: str, people: People) -> list[Found]:
    """The speakers whom a text names, in order; the longest name at each place."""
    tokens = list(_tokens(text))
    found: list[Found] = []
    place = 0
    while place < len(tokens):
        one, taken = _at(text, tokens, place, people)
        if one is not None:
            found.append(one)
        place += taken
    return found


def with_names(text: str, people: People) -> str:
    """The text with names in the place of mentions and nicknames, so that rules and readers know them as names."""
    return _replaced(text, (one for one in found_in(text, people) if not one.plain))


def without_ids(text: str, people: People) -> str:
    """The text with names in the place of mentions of ids."""
    return MENTION.sub(lambda found: _written(people.by_id(found["id"]), found.group()), text)


def _written(person: KnownPerson | None, otherwise: str) -> str:
    return otherwise if person is None else person.written


def _replaced(text: str, found: Iterable[Found]) -> str:
    parts: list[str] = []
    at = 0
    for one in found:
        parts += [text[at : one.start], one.name]
        at = one.end
    return "".join([*parts, text[at:]])


def _tokens(text: str) -> Iterator[_Token]:
    for match in _TOKEN.finditer(text):
        if match["id"] is not None:
            yield _Token(match.start(), match.end(), match.group(), True, match["id"])
            continue
        start = match.start("word")
        if match["at"] and start > 1 and text[start - 2].isalnum():
            continue  # an address of mail
        if not match["at"] and start and text[start - 1] in "@/#\\":
            continue
        word = match["word"]
        end = start + len(word) - len(_ending(word))
        if end > start:
            yield _Token(match.start() if match["at"] else start, end, text[start:end], bool(match["at"]), None)


def _ending(word: str) -> str:
    found = _ENDING.search(word)
    return found.group() if found else ""


def _at(text: str, tokens: list[_Token], place: int, people: People) -> tuple[Found | None, int]:
    """The speaker whom a name that begins with this token means, and how many tokens are read."""
    first = tokens[place]
    if first.mention is not None:
        person = people.by_id(first.mention)
        if person is None:
            return None, 1
        return Found(first.start, first.end, person, plain=False, name=person.written), 1
    if not first.at and not people.begins(name_key(first.text)):
        return None, 1
    for length in range(min(MAX_NAME_WORDS, len(tokens) - place), 0, -1):
        words = tokens[place : place + length]
        if not _together(text, words):
            continue
        name = text[first.start + first.at : words[-1].end]
        key = name_key(name)
        person = people.by_id(name) if first.at else None
        person = person or (people.called(key) if key else None)
        # An article or a title is no part of a name: "the mark" is a mark.
        whole = length == 1 or key.startswith(name_key(first.text))
        if person is not None and whole and (length > 1 or _is_name(text, first, key)):
            return _found(first, words[-1].end, person, name), length
    person = people.nicknamed(first.text)
    if person is not None and (first.at or not first.text[:1].islower() or _like_a_person(text, first)):
        return _found(first, first.end, person, first.text, nickname=True), 1
    return None, 1


def _found(first: _Token, end: int, person: KnownPerson, name: str, *, nickname: bool = False) -> Found:
    plain = not first.at and name[:1].isupper() and not nickname
    spelled = person.written if first.at and name in person.ids else person.spelled(name)
    return Found(first.start, end, person, plain, spelled)


def _together(text: str, words: list[_Token]) -> bool:
    """Whether tokens are one name: nothing but a space between them, and no mention among them."""
    return all(text[one.end : other.start] == " " and not other.at for one, other in pairwise(words))


def _is_name(text: str, token: _Token, key: str) -> bool:
    """Whether a word that is somebody's name is meant as one: English words in lower case are not."""
    if token.at or not token.text[:1].islower():
        return True
    return key not in COMMON and key not in STOP_WORDS and not _THING.search(text[: token.start])


def _like_a_person(text: str, token: _Token) -> bool:
    """Whether the beginning of a name in lower case is where a person would be."""
    before = text[: token.start]
    if _THING.search(before) or token.text in STOP_WORDS:
        return False
    return _TO_PERSON.search(before) is not None and _OF_PERSON.match(text, token.end) is not None
