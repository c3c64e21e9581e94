"""The model in memory: what was said by whom, and whether it must be known, must be gone, or may be either."""

from __future__ import annotations

import random
import re
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from memforest_core.domain.chat_messages import TurnInput

FIRST_DAY = 1_500_000_000
DAY_S = 86_400
TURN_S = 60
WORD = re.compile(r"zq[a-z]+x")
"""A planted word: no other text has one, and no stemmer cuts it."""
_SYLLABLES = [onset + vowel for onset in "bdfgklmnprstv" for vowel in "aeiou"]
_THINGS = ("lamp", "kettle", "carpet", "bicycle", "guitar", "camera", "mirror", "jacket", "violin", "tent")


class Fate(StrEnum):
    """What must hold for what was said."""

    KNOWN = "known"
    GONE = "gone"
    EITHER = "either"
    """It was said while its owner was deleted: one came first."""


@dataclass(eq=False)
class Said:
    """One turn."""

    word: str
    turn: TurnInput
    owners: set[str]
    """In whose memory it is; several while nobody knows."""
    fate: Fate = Fate.EITHER
    """Until the call that said it has returned."""
    doubted: bool = False
    """Its owner was deleted while it was being said."""
    corrections: list[str] = field(default_factory=list)
    """Words that its fact may have been given besides."""

    @property
    def words(self) -> list[str]:
        """All that is to be found, or not."""
        return [self.word, *self.corrections]


@dataclass(eq=False)
class Session:
    """One session of one owner."""

    id: str
    day: int
    said: list[Said] = field(default_factory=list)
    busy: bool = False
    """One call at a time is about this session."""

    @property
    def owner(self) -> str | None:
        """Whose it is; None when that is not known."""
        owners = set().union(*(each.owners for each in self.said))
        return owners.pop() if len(owners) == 1 else None

    @property
    def known(self) -> list[Said]:
        """What must be known."""
        return [each for each in self.said if each.fate is Fate.KNOWN]

    @property
    def settled(self) -> bool:
        """Whether a call can be made about it whose outcome is certain."""
        return not self.busy and self.owner is not None and all(each.fate is not Fate.EITHER for each in self.said)


class Known:
    """Everything that was said. Callers hold ``lock`` around what they look at and change."""

    def __init__(self, owners: int, rng: random.Random) -> None:
        self.names = [f"owner-{number}" for number in range(owners)]
        self.sessions: list[Session] = []
        self.lock = threading.RLock()
        self.busy: dict[str, str] = {}
        """Owners that something happens to as a whole, and what."""
        self.begun: set[str] = set()
        """Owners who may have a memory, be it an empty one."""
        self.moving: dict[str, set[str]] = {}
        """Owners that are being merged, and into whom."""
        self.bundles: dict[str, list[tuple[Session, list[tuple[Said, Fate]]]]] = {}
        """What an exported file has, by path."""
        self._rng = rng
        self._words: set[str] = set()

    def word(self) -> str:
        """A word that nobody said before."""
        while True:
            word = "zq" + "".join(self._rng.choice(_SYLLABLES) for _ in range(4)) + "x"
            if word not in self._words:
                self._words.add(word)
                return word

    def session(self) -> Session:
        """A new session without turns, busy."""
        made = Session(f"session-{len(self.sessions)}", len(self.sessions), busy=True)
        self.sessions.append(made)
        return made

    def say(self, session: Session, owner: str, turn_id: str | None = None) -> Said:
        """Another turn of a session; every third one is a guest's, whom only this session knows."""
        self.begun |= {owner, *self.moving.get(owner, ())}
        number = len(session.said)
        guest = number % 3 == 2
        word = self.word()
        name = f"guest-{session.id}" if guest else "bob"
        said = Said(
            word,
            {
                "id": turn_id or f"{session.id}-{number}",
                "role": "user",
                "name": name,
                "speaker_id": name,
                "content": f"I paid {len(self._words)} dollars for a {word} {self._rng.choice(_THINGS)}.",
                "timestamp": FIRST_DAY + session.day * DAY_S + number * TURN_S,
            },
            {owner, *self.moving.get(owner, ())},
            doubted=self.busy.get(owner) == "forget-owner",
        )
        session.said.append(said)
        return said

    def of(self, owner: str) -> list[Session]:
        """Sessions that are, or may be, an owner's and have something left."""
        return [
            one
            for one in self.sessions
            if any(owner in each.owners and each.fate is not Fate.GONE for each in one.said)
        ]

    def living(self) -> list[str]:
        """Owners who have something that must be known."""
        found = {each.owner for each in self.sessions if each.known}
        return [name for name in self.names if name in found]

    def all(self) -> Iterator[Said]:
        """Everything that was ever said."""
        for session in self.sessions:
            yield from session.said

    def allowed(self) -> set[str]:
        """Words that may be found somewhere."""
        return {word for each in self.all() if each.fate is not Fate.GONE for word in each.words}

    def planted(self) -> set[str]:
        """Every word that was ever said."""
        return {word for each in self.all() for word in each.words} | self._words


def gone(said: Iterable[Said]) -> None:
    """It was deleted."""
    for each in said:
        each.fate = Fate.GONE
