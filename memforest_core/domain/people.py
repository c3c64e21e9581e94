"""People of a memory: speakers under all names they have had, and whom a name or a mention means.

An entity is a speaker's id where one is known; names are its aliases. Rules alone, the same for the same speakers.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from memforest_core.domain.text import normalize_name

MIN_NICKNAME = 4
"""The least letters of a beginning that is a nickname ("gruz" of "gruzilkin")."""

MENTION = re.compile(r"<@[!&]?(?P<id>[^\s<>@]{1,200})>")
"""How chat servers write a mention of a speaker's id."""

_COMMON_WORDS = """
    will mark may art bill rob pat sue grace hope faith joy rose jack frank dean grant chase drew guy gene ray rich dawn
    april june august summer autumn winter ivy iris lily daisy ruby amber crystal pearl penny miles jade olive hazel
    violet heather holly ginger star sky max don nick josh wade skip rusty sandy melody harmony trinity destiny chance
    hunter mason cooper carter parker taylor young king prince duke earl baron bishop cook baker miller smith page wood
    stone hill brook river lake forest storm rain sunny snow frost angel bear wolf fox robin jay martin dove hawk drake
    lane ford moss reed heath glen cliff dale bob buck chip chuck clay colt cash constant curt dash ernest gale happy
    harry jet jimmy joker junior lance lee major marina mercy merry mike misty norm nova opal pace patience peg pepper
    piper poppy prudence queen randy red rock rocky rod rowan sage scout shadow silver sterling temple tiger tom tony
    trip troy val van victor victory ward wing winner wise
    this that with from have what when where there they them then than your yours some more much many also just only
    very even ever never over under about after again before because could would should might must been being were make
    made take took come came know knew think thought want need work live well sure okay yeah hello thanks thank please
    sorry today tomorrow yesterday morning evening week month year time people person friend friends everyone everybody
    someone somebody nobody anyone team club group server channel admin user assistant
"""
COMMON = frozenset(_COMMON_WORDS.split())
"""English words that are names or handles too: in lower case they are taken for words."""


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
