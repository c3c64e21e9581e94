"""People of a memory: speakers under all names they have had, and whom a name or a mention means.

An entity is a speaker's id where one is known; names are its aliases. Rules alone, the same for the same speakers, find
mentions, names with a capital, and nicknames in texts as people type them.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise

from memforest_core.domain.languages import COMMON
from memforest_core.domain.text import STOP_WORDS, normalize_name

MIN_NICKNAME = 4
"""The least letters of a beginning that is a nickname ("gruz" of "gruzilkin")."""

MENTION = re.compile(r"<@[!&]?(?P<id>[^\s<>@]{1,200})>")
"""How chat servers write a mention of a speaker's id."""


@dataclass(frozen=True, slots=True)
class KnownPerson:
    """Somebody who speaks in a memory."""

    id: str
    """The speaker's id, as the caller gave it."""
    names: tuple[str, ...]
    """All names, the newest first; at least one."""
    keys: frozenset[str]
    """The normalized names and ids that mean nobody else; of the owner all. Never empty."""
    owner: bool = False
    ids: tuple[str, ...] = ()
    """All ids: a name that was given without an id is an id as well."""

    @property
    def key(self) -> str:
        """The key of the entity: the normalized id, or the id where nothing is left of it."""
        return entity_key(self.id)

    @property
    def name(self) -> str:
        """What they are called now."""
        return self.names[0]

    @property
    def written(self) -> str:
        """The name as a sentence has it."""
        return as_written(self.name)

    def spelled(self, said: str) -> str:
        """The name that is meant by one in any case or by its beginning, as a sentence has it."""
        key = name_key(said)
        keys = {name_key(name): name for name in reversed(self.names)}
        return as_written(keys.get(key) or next((name for own, name in keys.items() if own.startswith(key)), self.name))


_PLAIN_NAME = re.compile(r"[^\W\d_][\w'’-]*(?: [^\W_][\w'’-]*)*")
_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")


@lru_cache(maxsize=65_536)
def name_key(name: str) -> str:
    """The normalized name; the same ones are requested often."""
    return normalize_name(name)


def as_written(name: str) -> str:
    """A name as a sentence has it: a nickname in lower case gets a capital, signs are left out."""
    plain = name if _PLAIN_NAME.fullmatch(name) is not None else " ".join(_WORD.findall(name)) or name
    return plain[:1].upper() + plain[1:] if plain[:1].islower() else plain


def entity_key(name: str) -> str:
    """The key of an entity of this name or id."""
    return name_key(name) or name


@dataclass(slots=True, eq=False)
class _Group:
    """One speaker, while names are gathered."""

    id: str
    ids: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)

    def aliases(self) -> frozenset[str]:
        return frozenset(name_key(name) for name in (*self.ids, *self.names)) - {""}


class People:
    """Everybody who has spoken in a memory, and its owner. Immutable.

    A name that was given without an id belongs to the one speaker with an id who has that name, to the owner before
    others, and is a speaker by itself where there is none or there are several. A name that two speakers have means
    nobody.
    """

    def __init__(self, owner: str, speakers: Iterable[tuple[str, str]], display_name: str | None = None) -> None:
        """``speakers`` are pairs of id and name, the newest names first; ``display_name`` is the owner's."""
        groups = _groups(owner, list(speakers), display_name)
        aliases = [group.aliases() for group in groups]
        held: dict[str, list[_Group]] = defaultdict(list)
        for group, own in zip(groups, aliases, strict=True):
            for alias in own:
                held[alias].append(group)
        self.everybody: tuple[KnownPerson, ...] = tuple(
            _known(group, own, group is groups[0], held) for group, own in zip(groups, aliases, strict=True)
        )
        self.owner: KnownPerson = self.everybody[0]
        of = dict(zip(map(id, groups), self.everybody, strict=True))
        self._ids: dict[str, KnownPerson] = {each: person for person in self.everybody for each in person.ids}
        self._aliases: Mapping[str, tuple[KnownPerson, ...]] = {
            alias: tuple(of[id(group)] for group in found) for alias, found in held.items()
        }
        names = {(name_key(name), person.id) for person in self.everybody for name in person.names}
        self._sorted: Sequence[tuple[str, str]] = sorted(names - {("", person.id) for person in self.everybody})
        self._first_words = frozenset(name.partition(" ")[0] for name, _ in self._sorted)

    def by_id(self, speaker: str) -> KnownPerson | None:
        """The speaker with this id."""
        return self._ids.get(speaker)

    def by_key(self, key: str) -> KnownPerson | None:
        """The only one whom a normalized name or id means."""
        found = self._aliases.get(key, ())
        return found[0] if len(found) == 1 else None

    def called(self, key: str) -> KnownPerson | None:
        """The only one who has this normalized name; ids don't count, so that no number is a person."""
        person = self.by_key(key)
        return person if person is not None and any(name_key(name) == key for name in person.names) else None

    def begins(self, key: str) -> bool:
        """Whether some name begins with this normalized word, or with its beginning."""
        if key.partition(" ")[0] in self._first_words:
            return True
        at = bisect_left(self._sorted, (key, ""))
        return len(key) >= MIN_NICKNAME and at < len(self._sorted) and self._sorted[at][0].startswith(key)

    def shared(self, name: str) -> bool:
        """Whether several speakers have this name."""
        return len(self._aliases.get(name_key(name), ())) > 1

    def who(self, name: str) -> KnownPerson | None:
        """Whom a name by itself means: an id, a name in any case, a mention, or a nickname; None where several or
        nobody have it."""
        text = name.strip()
        mention = MENTION.fullmatch(text)
        if mention is not None:
            return self._ids.get(mention["id"])
        text = text.removeprefix("@")
        if text in self._ids:
            return self._ids[text]
        key = name_key(text)
        if not key:
            return None
        if key in self._aliases:
            return self.by_key(key)
        return self.nicknamed(text)

    def nicknamed(self, word: str) -> KnownPerson | None:
        """The only one who has a name that begins so, with at least four letters.

        In lower case any name counts, unless it is an English word; with a capital it is another name ("Carol" is not
        Caroline), unless it is a whole word of the name or the name is a handle in lower case.
        """
        key = name_key(word)
        if sum(char.isalpha() for char in key) < MIN_NICKNAME or key in COMMON or key in self._aliases:
            return None
        found: set[str] = set()
        for at in range(bisect_left(self._sorted, (key, "")), len(self._sorted)):
            alias, speaker = self._sorted[at]
            if not alias.startswith(key):
                break
            found.add(speaker)
            if len(found) > 1:
                return None
        person = self._ids[found.pop()] if found else None
        if person is None or word[:1].islower() or _calls(person, key):
            return person
        return None


def _calls(person: KnownPerson, key: str) -> bool:
    """Whether a capitalized beginning may be one of the names."""
    return any(
        name_key(name).startswith(key) and (name == name.lower() or name_key(name).startswith(f"{key} "))
        for name in person.names
    )


def _groups(owner: str, speakers: Sequence[tuple[str, str]], display_name: str | None) -> list[_Group]:
    """The speakers with all ids and names of each, the owner first."""
    groups: dict[str, _Group] = {owner: _Group(owner, [owner], [display_name] if display_name else [])}
    bare: list[str] = []
    named_else = {speaker for speaker, name in speakers if name != speaker}
    for speaker, name in speakers:
        if speaker != owner and speaker not in named_else:
            bare.append(speaker)
        else:
            groups.setdefault(speaker, _Group(speaker, [speaker])).names.append(name)
    first = groups[owner]
    if not first.names:
        first.names.append(owner)
    named: dict[str, list[_Group]] = defaultdict(list)
    for group in groups.values():
        for alias in group.aliases():
            named[alias].append(group)
    for name in bare:
        key = entity_key(name)
        found = named.get(key, [])
        if first in found:
            _join(first, name)
        elif len(found) == 1:
            _join(found[0], name)
        else:
            group = _Group(name, [name], [name])
            groups[name] = group
            if not found:
                named[key] = [group]
    return list(groups.values())


def _join(group: _Group, name: str) -> None:
    """A name that was given without an id is one of a speaker's."""
    group.ids.append(name)
    if name not in group.names:
        group.names.append(name)


def _known(group: _Group, aliases: frozenset[str], owner: bool, held: Mapping[str, Sequence[_Group]]) -> KnownPerson:
    own = {entity_key(group.id), *(alias for alias in aliases if owner or len(held[alias]) == 1)}
    # A turn that came without a name is under the id: that is no newer name.
    names = tuple(dict.fromkeys(sorted(group.names, key=lambda name: name == group.id)))
    return KnownPerson(group.id, names, frozenset(own), owner, tuple(dict.fromkeys(group.ids)))


def called(name: str, person: KnownPerson) -> bool:
    """Whether a name is one of a speaker's, also when others have it."""
    key = name_key(name)
    return bool(key) and any(name_key(own) == key for own in (*person.names, *person.ids))


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
