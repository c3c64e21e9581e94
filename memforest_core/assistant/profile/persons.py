"""Whom a name means in a memory, other names of people, and notes: statements that somebody wants remembered."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from uuid import uuid4

from memforest_core.assistant.rows import PeopleRows
from memforest_core.domain.chat_messages import TurnInput
from memforest_core.domain.ids import TenantId
from memforest_core.domain.people import KnownPerson, People, called
from memforest_core.domain.text import normalize_name
from memforest_core.domain.turns import checked_name
from memforest_core.domain.words import filled_in
from memforest_core.errors import InvalidInput
from memforest_core.ingest.accept.redaction import NOTHING, Redactor
from memforest_core.ingest.extract.offline.english_text import NOT_NAMES, is_kind
from memforest_core.store.engine import Engine
from memforest_core.store.owners import ForestRef


def person_named(
    owner: str, forest: ForestRef | None, speakers: Iterable[tuple[str, str]], about: str | None
) -> KnownPerson:
    """Whom ``about`` means: an id, a name, a nickname or a mention; None is the owner.

    ``speakers`` are pairs of id and name, the newest names first. A name that several speakers have is nobody's: then
    it is a name alone. Raises InvalidInput for a name that is none.
    """
    people = People(owner, speakers, forest.display_name if forest is not None else None)
    if about is None:
        return people.owner
    about = checked_name(about, "about")
    known = people.who(about)
    if known is not None:
        return known
    return KnownPerson(about, (about,), frozenset({normalize_name(about)} - {""}), ids=(about,))


@dataclass(frozen=True, slots=True)
class Requests:
    """What requests.toml has, by name; ``elsewhere`` for other languages than English, by kind of intent."""

    patterns: Mapping[str, re.Pattern[str]]
    aliases: Mapping[str, re.Pattern[str]]
    elsewhere: Mapping[str, re.Pattern[str]]


REQUESTS = filled_in(Requests, files(__package__).joinpath("requests.toml").read_text(encoding="utf-8"))
_NO_NAME = ("language", "diet", "occupation", "interjection", "common word", "acronym", "calendar", "place")


@dataclass(frozen=True, slots=True)
class Alias:
    """That somebody has another name too."""

    of: KnownPerson | str | None
    """Who: a speaker, words that may mean one, or None: the writer."""
    name: str


def alias_in(text: str, people: People | None) -> Alias | None:
    """The alias that a sentence gives: "gruzilkin is Sergey", "Sam's real name is Samuel", "call me Kim".

    Of two names one is a speaker's, and the other the alias; without ``people`` the second. "is" gives one only between
    a handle and a name: "Bob is German" and "Bob is late" give none.
    """
    said = text.strip(" \t\n.!?").replace("\u2019", "'")
    read = next((found for each in REQUESTS.aliases.values() if (found := each.fullmatch(said)) is not None), None)
    if read is None:
        return None
    parts = read.groupdict()
    of, name, plain = parts.get("of") or parts.get("whose"), read["name"].lstrip("@"), bool(parts.get("plain"))
    two = [people.who(words) if people is not None and words else None for words in (of, name)]
    if people is not None and of and two == [None, None]:
        return None
    alias = of.lstrip("@") if of and two[0] is None and two[1] is not None else name
    if plain and of and not read["quote"]:
        small = [words.islower() or words.startswith("<@") for words in (of, read["name"])]
        # A word after "is" may be an adjective or an age: "Sergey is claustrophobic", "gruz is 33".
        other = not alias[:1].isalpha() or (two[1] is None and name.islower() and name.isalpha())
        if small[0] == small[1] or other or not _is_name(of):
            return None
    if not read["quote"] and not _is_name(alias, sure=REQUESTS.patterns["surely_named"].search(said) is not None):
        return None
    return Alias(two[0] or two[1] or of, alias)


@cache
def _english() -> frozenset[str]:
    """English words, casefolded: those that the built-in embedding model has as one token."""
    return frozenset(
        files("memforest_core.models.embedders").joinpath("bert-base-uncased-vocab.txt").read_text().split()
    )


def _is_name(words: str, *, sure: bool = False) -> bool:
    """Whether words can be a name; unless ``sure`` no place, job or nationality, and no English word in lower case."""
    each = words.lstrip("@").split()
    if any(word.casefold() in NOT_NAMES for word in each) or sure:
        return sure and each[0].casefold() not in NOT_NAMES
    foreign = any(is_kind(word, *_NO_NAME) or REQUESTS.patterns["peoples"].fullmatch(word) for word in (words, *each))
    return not foreign and not any(word in _english() if word.islower() else word.isupper() for word in each)


def refuse_shared(people: People, name: str | None) -> None:
    """Raises InvalidInput for a name of several people."""
    if name is not None and people.who(name) is None and people.shared(name):
        raise InvalidInput("Several people have this name: give the id of one.", code="ambiguous_name")


TURN = "note"
"""The id of a note's only turn."""


def note_id() -> str:
    """The id of a new note's session."""
    return f"note-{uuid4()}"


def note_turn(
    engine: Engine,
    tenant: TenantId,
    owner: str,
    text: str,
    about: str | None,
    at: object,
    alias: str | None = None,
    redactor: Redactor = NOTHING,
    session: str = "",
) -> tuple[TurnInput, str]:
    """The turn that says ``text`` at a time ``at`` (now when None) as if whom it is about had said it: "I" is them.

    ``about`` is a speaker's id or name, or the name of somebody who has not spoken; None is the owner. With an
    ``alias``, or a text that gives one, the turn is under that name, which is one of theirs while the turn is stored.
    A text alone that is stored in this ``session`` already is whose it was. The sentence says why a text gives no
    alias: somebody else speaks under the name. Raises InvalidInput, StoreUnavailable.
    """
    owner = checked_name(owner, "owner")
    if not isinstance(text, str) or not text.strip():
        raise InvalidInput("Give the text of the note: a sentence such as I moved to Miami.", code="empty_note")
    turn: TurnInput = {"id": TURN, "role": "user", "content": text}
    if at is not None:
        turn["timestamp"] = at  # type: ignore[typeddict-item]  # what is accepted is checked where turns are parsed
    name = None if alias is None else checked_name(alias, "alias")
    if name is not None and redactor.masked(name)[0] != name:
        raise InvalidInput("The alias has what accept.redact masks: give another one.", code="alias_masked")
    with PeopleRows.opened(engine, tenant) as rows:
        forest = rows.find_forest(owner)
        stored = rows.noted(forest.id, session) if forest is not None and about is alias is None else None
        if stored is not None:
            return turn | {"speaker_id": stored[0], "name": stored[1]}, ""
        speakers = rows.speakers(forest.id) if forest is not None else ()
        person = person_named(owner, forest, speakers, about)
        people = People(owner, speakers, forest.display_name if forest is not None else None)
        refuse_shared(people, about)
        given = alias_in(redactor.masked(text)[0], people) if name is None else None
        of, name = (person, name) if given is None else (given.of or person, given.name)
        taken = ""
        if isinstance(of, KnownPerson) and name is not None and forest is not None:
            others = [each for each in people.everybody if each.id != of.id and called(name, each)]
            if any(each.owner or rows.has_spoken(forest.id, each.ids) for each in others):
                taken = (
                    f"{name!r:.80} is the name of somebody else who speaks here, so it is no alias of {of.name!r:.80}."
                )
        if taken and alias is not None:
            raise InvalidInput(taken, code="alias_taken")
    if isinstance(of, KnownPerson) and name is not None and not taken:
        turn |= {"speaker_id": of.id, "name": name}
    elif not person.owner:
        turn |= {"speaker_id": person.id, "name": person.name}
    return turn, f"{taken} The note is stored as a statement." if taken else ""
