"""What is known of somebody now: the states that hold, as a model's sentences or as a list."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from pydantic import AwareDatetime, BaseModel, ConfigDict

from memforest_core.assistant.checked_calls import CheckedCalls, check_length, numbered
from memforest_core.assistant.profile.persons import person_named
from memforest_core.assistant.profile.records import MAX_STATES, Made, Profile, ProfileSentence, ProfileState
from memforest_core.assistant.profile.rows import PinnedFact, ProfileRows
from memforest_core.assistant.rows import MadeTextRows, hash_of, read_stored
from memforest_core.domain.chain import ChainState
from memforest_core.domain.evidence import day_label
from memforest_core.domain.facts import Source, Statement
from memforest_core.domain.ids import FactId, TenantId
from memforest_core.domain.indexed import day_words
from memforest_core.domain.people import KnownPerson
from memforest_core.domain.relative_dates import phrases_resolved
from memforest_core.domain.rendering import PLANNED, block, by_rules, one_line
from memforest_core.domain.state_names import canonical
from memforest_core.domain.text import clean, clipped
from memforest_core.domain.turns import checked_name
from memforest_core.errors import ContentFault, StoreUnavailable
from memforest_core.models.answers import instructions_with
from memforest_core.recall.timeline import Speakers, chains_of
from memforest_core.settings import ProfileSettings
from memforest_core.store.engine import Engine
from memforest_core.store.owners import ForestRef
from memforest_core.store.repeating import repeated
from memforest_core.store.vectors import text_hash

VERSION = 4
"""Of what is stored: another one is stored elsewhere."""
SHOWN_CHARS = 500
"""Of the sentence of a state are shown to the model."""
FEW_CHANGES = 4
"""With fewer lines (or less than two thirds) that are new or ended since a model wrote, a context calls none."""

FRAME = """\
The user message is a JSON document: "about" is the person's name, "states" are what is known to hold now, each with its
number, what it is a state of, its value, the sentence that says it, and since when it holds if that is known, in the
order of time. "max_chars" is how long your text may be in all.

"sentences" of your answer are sentences that read on from one another. Each has "text" and "states": the numbers of the
states that it tells, at least one. Say only what the states say; add nothing, guess nothing.
"""
"""What stays where an application brings instructions of its own; that all of it is data follows it."""

SYSTEM = f"""\
You describe a person to an assistant that will talk with them. Write in the third person, with the person's name in the
first sentence. Tell what matters most first: who they are, where they live, what they do, who is close to them; then
tastes, habits and plans. Leave out nothing that matters.

{FRAME}"""


class SentenceAnswer(BaseModel):
    """One sentence of an answer."""

    text: str
    states: list[int]


class ProfileAnswer(BaseModel):
    """The shape of an answer, before it is checked."""

    sentences: list[SentenceAnswer]


class StoredProfile(BaseModel):
    """What a model wrote last about somebody, as it is stored."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    made_of: str
    """The hash of all that it was made of, hexadecimal: while it is the same, nothing has come or gone."""
    sentences: tuple[ProfileSentence, ...]
    unmentioned: tuple[FactId, ...]
    """Facts that the model was shown and left out: they are not new."""
    written_at: AwareDatetime


Sentence = tuple[str, datetime]
"""The words and time of a sentence that says states."""


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a person, in the order of time."""

    forest: ForestRef
    person: KnownPerson
    states: tuple[ProfileState, ...]
    hashes: Mapping[FactId, bytes]
    """Of the texts of the facts."""
    truncated: bool


@dataclass(frozen=True, slots=True)
class Describer:
    """Describes what is known of people. Thread-safe."""

    engine: Engine
    calls: CheckedCalls
    settings: ProfileSettings
    own: str | None = None
    """Instructions in place of the built-in ones."""

    @property
    def system(self) -> str:
        """The instructions of the model."""
        return instructions_with(SYSTEM, self.own, FRAME)

    def profile(self, tenant: TenantId, owner: str, about: str | None = None, *, write: bool = True) -> Profile:
        """What is known now of somebody: the states that hold, and pinned facts that are none, with their ids.

        ``about`` is a speaker's id or name, or another name; None is the owner. With a chat model ``text`` is sentences
        in the third person: one call at temperature 0 (a second one when the answer can't be used), stored under a hash
        of the facts, the model and the prompt, until one of the memory's words is deleted. Without a model it is a
        list; with one that is unavailable too, and ``degraded`` says so. Without ``write`` no call is made: a text that
        is not stored already is a list. An owner without a memory yet gets an empty one, and ``owner_known`` is False.
        Raises InvalidInput, StoreUnavailable.
        """
        owner = checked_name(owner, "owner")
        known = self.known(tenant, owner, about)
        if known is None:
            return Profile(about or owner, "", Made.RULES, (), (), owner_known=False)
        return self.described(tenant, known, write=write)[0]

    def described(
        self, tenant: TenantId, known: Known, *, write: bool = True, every: timedelta | None = None
    ) -> tuple[Profile, int]:
        """The profile of what is known, and how many of its sentences, the first ones, a model wrote.

        With ``every`` a model writes at most once in this time, and only once enough has changed. Meanwhile
        sentences are those that it wrote last, as far as they hold, then a list of what is new.
        """
        plain = self._listed(known)
        if not known.states or not self.calls.possible:
            return plain, 0
        place = hash_of("profile", VERSION, str(known.forest.id), known.person.id)
        made_of, now = self._hash(known), datetime.now(UTC)
        stored = None
        if self.settings.cached or every:
            with MadeTextRows.opened(self.engine, tenant) as rows:
                stored = read_stored(StoredProfile, rows.made_text(place))
        if stored is not None and stored.made_of == made_of:
            return _described(plain, stored.sentences, cached=True), len(stored.sentences)
        listed = (plain, 0) if stored is None or every is None else _as_far_as_valid(plain, stored)
        changes = len(listed[0].sentences) - 2 * listed[1] + (0 if stored is None else len(stored.sentences))
        early = every is not None and stored is not None and now - stored.written_at < every
        few = changes < max(FEW_CHANGES, 2 * len(listed[0].sentences) // 3)
        if not write or early or (every and few):
            return listed

        def check(answer: ProfileAnswer) -> tuple[ProfileSentence, ...]:
            return _checked(answer, known.states, self.settings.max_chars)

        document = self._document(known)
        sentences, why = self.calls.answer(
            tenant, known.forest.id, self.system, document, ProfileAnswer, check, "profile"
        )
        if sentences is None:
            return replace(listed[0], degraded=(f"The profile is a list, not a text: {why}.",)), listed[1]
        left = set(plain.fact_ids) - {fact for sentence in sentences for fact in sentence.fact_ids}
        new = StoredProfile(made_of=made_of, sentences=sentences, unmentioned=tuple(sorted(left)), written_at=now)
        made = _described(plain, sentences)
        try:
            if self.settings.cached or every:
                self._store(tenant, known, place, new.model_dump_json())
        except StoreUnavailable:
            made = replace(made, degraded=("The profile could not be stored: Postgres was busy or unavailable.",))
        return made, len(sentences)

    def _listed(self, known: Known) -> Profile:
        listed = tuple(
            ProfileSentence(block(f"- {state.text}{PLANNED * state.planned}"), state.fact_ids) for state in known.states
        )
        if not self.calls.possible and (note := by_rules(state.source for state in known.states)):
            listed = (*listed, ProfileSentence(f"({note})", ()))
        return Profile(
            about=known.person.name,
            text="\n".join(line.text for line in listed),
            made=Made.RULES,
            sentences=listed,
            states=known.states,
            truncated=known.truncated,
        )

    def _hash(self, known: Known) -> str:
        """Of all that a text is made of: the facts (their ids are one memory's alone), model and prompt."""
        facts = [[str(fact) for fact in state.fact_ids] for state in known.states]
        hashes = sorted((str(fact), value.hex()) for fact, value in known.hashes.items())
        return hash_of(self.system, self.calls.model, self._document(known), facts, hashes).hex()

    def _document(self, known: Known) -> dict[str, object]:
        return {
            "about": known.person.name,
            "max_chars": self.settings.max_chars,
            "states": [
                {
                    "number": number,
                    "of": state.attribute,
                    "value": state.shown if state.value else "",
                    "text": clipped(state.text, SHOWN_CHARS),
                    "since": state.since,
                }
                for number, state in enumerate(known.states, 1)
            ],
        }

    @repeated
    def _store(self, tenant: TenantId, known: Known, place: bytes, text: str) -> None:
        with MadeTextRows.opened(self.engine, tenant) as rows:
            if rows.store_text(known.forest.id, place, text, known.hashes) and self.settings.cached:
                rows.drop_old_texts(known.forest.id, self.settings.cached)

    def known(self, tenant: TenantId, owner: str, about: str | None) -> Known | None:
        """The states that hold now; None without a memory."""
        with ProfileRows.opened(self.engine, tenant) as rows:
            forest = rows.find_forest(owner)
            if forest is None:
                return None
            names = rows.speakers(forest.id)
            person = person_named(owner, forest, names, about)
            facts = rows.states.of_subjects(forest.id, person.keys, None, self.settings.max_facts)
            chains, _ = chains_of(rows.states, facts, Speakers(owner, names), None)
            pinned = rows.pinned(forest.id, person.keys, person.ids, MAX_STATES + 1)
        zone = ZoneInfo(forest.time_zone)
        current = sorted(
            (state for states in chains.values() for state in states if state.current), key=lambda state: state.position
        )
        said: dict[Sentence, list[ChainState]] = defaultdict(list)
        for state in (state for states in chains.values() for state in states):
            said[_sentence(state)].append(state)
        found = [_state(state, said[_sentence(state)], zone) for state in current]
        in_chains = {each.fact.id for states in chains.values() for state in states for each in state.said}
        pinned = [each for each in reversed(pinned) if each.id not in in_chains]
        found += _pinned(pinned, zone)
        texts = {each.fact.id: each.fact.statement.text for state in current for each in state.said}
        texts |= {each.id: each.statement.text for each in pinned}
        shown = tuple(found[-MAX_STATES:])
        ids = {fact for state in shown for fact in state.fact_ids}
        hashes = {fact: text_hash(text) for fact, text in texts.items() if fact in ids}
        return Known(forest, person, shown, hashes, len(found) > len(shown) or len(facts) == self.settings.max_facts)


def _state(state: ChainState, said: Sequence[ChainState], zone: ZoneInfo) -> ProfileState:
    """As it is shown; ``said`` are all states of its sentence."""
    statement = state.statement
    others = [each.statement.text for each in said if each is not state and state.quote]
    return ProfileState(
        attribute=canonical(statement.attribute),
        value=statement.value,
        text=shown_text(statement, others, zone),
        since=day_label(state.time, zone),
        fact_ids=tuple(dict.fromkeys(each.fact.id for each in state.said)),
        polarity=statement.polarity,
        planned=state.planned,
        source=statement.source,
        quote=state.quote,
    )


def _sentence(state: ChainState) -> Sentence:
    return state.quote, state.statement.mentioned_at


def _pinned(pinned: Sequence[PinnedFact], zone: ZoneInfo) -> list[ProfileState]:
    """Pinned facts as they are shown: of a note its words and its day, unless a person corrected them."""
    shown: dict[str, ProfileState] = {}
    for each in pinned:
        text, since, quote = shown_text(each.statement, (), zone), day_label(each.statement.time, zone), ""
        if each.quote and each.said_at is not None and each.statement.source is not Source.PERSON:
            since, quote = day_words(each.said_at.astimezone(zone)), each.quote
            text = f'"{one_line(quote)}" (noted on {since})'
        facts = (*shown[text].fact_ids, each.id) if text in shown else (each.id,)
        shown[text] = ProfileState("", "", text, since, facts, source=each.statement.source, quote=quote)
    return list(shown.values())


def _checked(answer: ProfileAnswer, states: Sequence[ProfileState], max_chars: int) -> tuple[ProfileSentence, ...]:
    """The sentences with the facts that they rest on. Raises ContentFault with a sentence for the model."""
    sentences = []
    for each in answer.sentences:
        text = " ".join(clean(each.text).split())
        stated = numbered("states", each.states, states)
        if not text or not each.states:
            raise ContentFault('a sentence is empty, or its "states" are')
        facts = (fact for state in stated for fact in state.fact_ids)
        sentences.append(ProfileSentence(text, tuple(dict.fromkeys(facts))))
    check_length([sentence.text for sentence in sentences], max_chars, "states are known")
    return tuple(sentences)


def _described(plain: Profile, sentences: tuple[ProfileSentence, ...], *, cached: bool = False) -> Profile:
    text = " ".join(one_line(sentence.text) for sentence in sentences)
    return replace(plain, text=text, made=Made.MODEL, sentences=sentences, cached=cached)


def _as_far_as_valid(plain: Profile, stored: StoredProfile) -> tuple[Profile, int]:
    """The sentences that a model wrote and whose facts all hold, then what is new as a list; how many it wrote."""
    current = set(plain.fact_ids)
    written = [each for each in stored.sentences if current.issuperset(each.fact_ids)]
    old = {fact for each in written for fact in each.fact_ids}.union(stored.unmentioned)
    new = [each for each in plain.sentences if old.isdisjoint(each.fact_ids)]
    return replace(plain, sentences=(*written, *new)), len(written)


_NOW = re.compile(r"(?:,?\s+(?:right |just )?now)(?P<end>[.!]*)$", re.IGNORECASE)
_JOINT = re.compile(r"(?:[\s,;:–—-]|\b(?:and|but|so|then|also|plus)\b)+$", re.IGNORECASE)
_YEAR = re.compile(r"\b\d{4}\b")


def shown_text(statement: Statement, others: Iterable[str], zone: ZoneInfo) -> str:
    """The text without the clauses that are ``others``, the texts of states that the same sentence says. A day that is
    counted from the day of the turn ("last week") gets its date behind it; "now" is left out at the end."""
    text = statement.text
    for other in others:
        cut = _without_clause(text, other, statement.subject)
        text = cut if statement.value.casefold() in cut.casefold() else text
    text = _NOW.sub(r"\g<end>", text.rstrip(" ,;")) or statement.text
    meant = phrases_resolved(text, statement.mentioned_at, zone.key)
    for phrase, span in meant.items():
        own = statement.time if len(meant) == 1 and statement.time.known else span
        if not _YEAR.search(phrase):
            text = text.replace(phrase, f"{phrase} ({day_label(own, zone)})", 1)
    return text


def _without_clause(text: str, other: str, subject: str) -> str:
    """The text up to the clause that another text is, where that is the end of it."""
    clause = other.rstrip(" .,;!")
    for said in (clause, clause.removeprefix(f"{subject} ")):
        found = re.search(rf"(?<!\w){re.escape(said)}(?!\w)", text)
        if said and found is not None:
            joint = _JOINT.search(text, 0, found.start())
            before = text[: joint.start()] if joint else ""
            return f"{before}." if before and text.endswith(".") else before or text
    return text
