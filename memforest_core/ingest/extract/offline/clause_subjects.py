"""Whom a clause is about: the speaker, somebody of theirs, or somebody known by name; nobody else."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from memforest_core.ingest.extract.offline.kinds import is_kind
from memforest_core.ingest.extract.offline.subjects import NOT_NAMES, names_in

_SELF = re.compile(r"(?:(?:[Mm]y\s+[\w-]+|[A-Z]\w+)\s+and\s+)?(?P<who>[Ii]|[Ww]e)\b(?![.-]|\s+and\b)|[Mm]e\s+and\s+\w+")
_MINE = re.compile(r"(?:[Mm]y|[Oo]ur)\s+(?P<words>[\w’'-]+(?:\s+[\w’'-]+){0,5})")
_KIN = re.compile(r"(?:ex|step|great|half|foster|former|late|grand)[- ]|[- ]in[- ]law$", re.IGNORECASE)
_CALLED = re.compile(r",?\s+(?P<name>[^\W\d_][\w-]+),?(?=[\s'’])")
_NAME = re.compile(r"(?P<name>[A-ZÀ-ÖØ-Þ][\w-]+)(?=(?:['’]s)?\s+[a-z])")
_OWNED = re.compile(r"['’]s?$")


@dataclass(frozen=True, slots=True)
class Subject:
    """Whom a clause is about, and where its predicate begins."""

    name: str
    end: int
    text: str
    """As the clause has it."""
    relation: str = ""
    """What somebody with a name is to the speaker ("sister")."""


def subject_at(sentence: str, at: int, speaker: str, known: Collection[str] = ()) -> Subject | None:
    """The subject that a clause begins with; ``known`` are names of speakers and of relatives. None for any other."""
    if (own := _SELF.match(sentence, at)) is not None:
        return Subject(speaker, own.end(), own["who"] or "I")
    if (mine := _MINE.match(sentence, at)) is not None:
        return _theirs(sentence, mine, speaker)
    for name in sorted(known, key=len, reverse=True):
        end = at + len(name)
        if sentence.startswith(name, at) and not sentence[end : end + 1].isalnum():
            return Subject(name, end, name)
    if (named := _NAME.match(sentence, at)) is not None and named["name"] in names_in(sentence):
        return Subject(named["name"], named.end("name"), named["name"])
    return None


def _theirs(sentence: str, mine: re.Match[str], speaker: str) -> Subject | None:
    """Somebody of the speaker's ("my best friend's dad"), under their name where one follows."""
    words = list(re.finditer(r"\S+", mine["words"]))
    for number, word in enumerate(words):
        following = words[number + 1].group() if number + 1 < len(words) else ""
        bare = _OWNED.sub("", word.group())
        if not _is_person(bare) or _is_person(_OWNED.sub("", following)):
            continue
        phrase = mine["words"][: word.start() + len(bare)]
        end = mine.start("words") + len(phrase)
        called = _CALLED.match(sentence, end)
        if (
            called is None
            or not called["name"][0].isupper()
            or called["name"].casefold() in NOT_NAMES
            or is_kind(called["name"], "company", "drink")
        ):
            return Subject(f"{speaker}'s {phrase}", end, sentence[mine.start() : end])
        return Subject(called["name"], called.end(), sentence[mine.start() : called.end()], _relation(phrase))
    return None


def _relation(phrase: str) -> str:
    """What somebody is, without what describes them ("little sister" is a sister, a best friend is that)."""
    words = phrase.casefold().split()
    return " ".join(words[-2:]) if len(words) > 1 and is_kind(" ".join(words[-2:]), "person") else words[-1]


def _is_person(word: str) -> bool:
    return is_kind(_KIN.sub("", word), "person")
