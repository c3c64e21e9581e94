"""Results of the room: what is known of somebody, what was forgotten, and what a text wants."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

from memforest_core.domain.facts import Polarity, Source
from memforest_core.domain.ids import FactId
from memforest_core.domain.pages import Document, plain
from memforest_core.domain.rendering import stated
from memforest_core.lifecycle.erase.records import Receipt
from memforest_core.work.records import TaskId

Turns = Literal["alone", "all", "none"]
"""Which turns a deletion takes along: those that say nothing else, all that say it, or none."""


class Made(StrEnum):
    """Who made a result."""

    MODEL = "model"
    RULES = "rules"
    """Without a model: a list instead of sentences, a threshold instead of a choice, patterns instead of reading."""


MAX_STATES = 60
"""States of one profile; of more, those that began last."""


@dataclass(frozen=True, slots=True)
class ProfileState:
    """One current state, or one pinned fact that is none: of a note its words in quotes with their day."""

    attribute: str
    """What it is a state of ("residence"); empty for a pinned fact that is none."""
    value: str
    text: str
    """The sentence of the fact that says it first: of several states in a sentence each its clause, days with dates."""
    since: str
    """The day from which it is valid or on which it happened, as people write it; "date unknown" without one."""
    fact_ids: tuple[FactId, ...]
    """All facts that say it, the first one first."""
    polarity: Polarity = Polarity.POSITIVE
    """Negative: what is denied or disliked, such as preference "fish" of "I hate fish"."""
    planned: bool = False
    """It was said as a plan, and its day has come."""
    source: Source | None = None
    """Who read it out of the turns; None for what was stored before that was known."""
    quote: str = ""
    """The words that say it first, as they were said; of a note its words, of another pinned fact empty."""

    @property
    def shown(self) -> str:
        """Its value as it is shown to people: "not vegan" of a denial."""
        return stated(self.attribute, self.value, self.text, self.polarity, self.planned)


@dataclass(frozen=True, slots=True)
class ProfileSentence:
    """One sentence of a profile, and the facts that it rests on."""

    text: str
    fact_ids: tuple[FactId, ...]


@dataclass(frozen=True, slots=True)
class Profile(Document):
    """What is known of somebody now."""

    derived = ("fact_ids",)

    about: str
    """Whom it is about, by name."""
    text: str
    """Sentences in the third person; without a model one line a state, then a note of rules. Empty: nothing known."""
    made: Made
    """``rules``: ``text`` is a list."""
    sentences: tuple[ProfileSentence, ...]
    """The parts of ``text``, in order."""
    states: tuple[ProfileState, ...]
    """In the order of time."""
    truncated: bool = False
    """More states are current than one profile has (``MAX_STATES``), or there are more facts than it reads
    (``profile.max_facts``): the oldest are left out."""
    cached: bool = False
    """The text was made before, from the same facts."""
    degraded: tuple[str, ...] = ()
    """One sentence for each unavailable part."""
    owner_known: bool = True
    """False when the owner has no memory yet."""

    @property
    def fact_ids(self) -> tuple[FactId, ...]:
        """All facts that it rests on, each once."""
        return tuple(dict.fromkeys(fact for state in self.states for fact in state.fact_ids))


@dataclass(frozen=True, slots=True)
class FoundFact:
    """A fact that words may mean."""

    id: FactId
    text: str
    similarity: float
    """How near it is to the words, 0 to 1."""


@dataclass(frozen=True, slots=True)
class SaidIn:
    """A turn that says a forgotten fact, by the callers' ids."""

    session_id: str
    turn_id: str


@dataclass(frozen=True, slots=True)
class Forgetting(Document):
    """What words wanted to forget, and what became of it."""

    facts: tuple[FoundFact, ...]
    """What is forgotten: with ``dry_run`` what would be. Empty when nothing was found or chosen."""
    others: tuple[FoundFact, ...]
    """What was found near the words and is stored, the nearest first."""
    turns: tuple[SaidIn, ...]
    """Turns whose words go with the facts."""
    left: tuple[SaidIn, ...]
    """Turns that say a forgotten fact too and are stored: their words still tell it."""
    made: Made
    """Who chose the facts: the model, or rules."""
    dry_run: bool
    operations: tuple[TaskId, ...] = ()
    """The deletions that were requested, in their order."""
    receipts: tuple[Receipt, ...] = ()
    """Of the deletions, when they were waited for."""
    degraded: tuple[str, ...] = ()
    """One sentence for each unavailable part."""
    owner_known: bool = True
    """False when the owner has no memory yet."""

    @property
    def found(self) -> bool:
        """Whether anything is forgotten."""
        return bool(self.facts)

    def to_dict(self) -> dict[str, Any]:
        """The result as JSON values, by the names of the fields, with ``found``."""
        receipts = [receipt.to_dict() for receipt in self.receipts]
        return {"found": self.found, **plain(self), "receipts": receipts}


class IntentKind(StrEnum):
    """What a text that is addressed to an assistant wants of its memory."""

    REMEMBER = "remember"
    FORGET = "forget"
    ABOUT_ME = "about_me"
    ABOUT = "about"
    """What is known of somebody else."""
    RECALL = "recall"
    """Another question, which names the assistant: about people who speak here, or "we"."""
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Intent(Document):
    """What a text wants of the memory. Nothing acts on it by itself."""

    kind: IntentKind
    object: str
    """What is to be remembered, forgotten or described ("my job"), in the text's own words; else empty."""
    made: Made
    degraded: tuple[str, ...] = ()
    """A sentence when the model was unavailable and rules were used."""
    about: str | None = None
    """Whom it is about: a speaker's id where an owner was given and one is meant, else the text's words; of what says I
    the writer, as given."""
    alias: str | None = None
    """Of what is to be remembered: another name of whom it is about ("gruzilkin is Sergey")."""
