"""What is known of somebody now: the states that hold, as a model's sentences or as a list."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from zoneinfo import ZoneInfo

from pydantic import BaseModel

from memforest_core.assistant.checked_calls import CheckedCalls, check_length, numbered
from memforest_core.assistant.profile.persons import person_named
from memforest_core.assistant.profile.records import MAX_STATES, Made, Profile, ProfileSentence, ProfileState
from memforest_core.assistant.profile.rows import ProfileRows
from memforest_core.domain.chain import ChainState
from memforest_core.domain.evidence import day_label
from memforest_core.domain.facts import Statement
from memforest_core.domain.ids import FactId, TenantId
from memforest_core.domain.people import KnownPerson
from memforest_core.domain.rendering import PLANNED, block, by_rules, one_line
from memforest_core.domain.state_names import canonical
from memforest_core.domain.text import clean, clipped
from memforest_core.domain.turns import checked_name
from memforest_core.errors import ContentFault
from memforest_core.models.answers import instructions_with, parsed
from memforest_core.recall.timeline import Speakers, chains_of
from memforest_core.settings import ProfileSettings
from memforest_core.store.engine import Engine
from memforest_core.store.owners import ForestRef
from memforest_core.store.repeating import repeated
from memforest_core.store.vectors import text_hash

VERSION = 3
"""Of the prompt: another one makes other hashes, so that a text of the old one is never returned."""
SHOWN_CHARS = 500
"""Of the sentence of a state are shown to the model."""

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
    """The shape of an answer, before it is checked; also that of a text that is stored."""

    sentences: list[SentenceAnswer]


@dataclass(frozen=True, slots=True)
class _Known:
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
        known = self._known(tenant, owner, about)
        if known is None:
            return Profile(about or owner, "", Made.RULES, (), (), owner_known=False)
        listed = tuple(
            ProfileSentence(block(f"- {state.text}{PLANNED * state.planned}"), state.fact_ids) for state in known.states
        )
        if not self.calls.possible and (note := by_rules(state.source for state in known.states)):
            listed = (*listed, ProfileSentence(f"({note})", ()))
        plain = Profile(
            about=known.person.name,
            text="\n".join(line.text for line in listed),
            made=Made.RULES,
            sentences=listed,
            states=known.states,
            truncated=known.truncated,
        )
        if not known.states or not self.calls.possible:
            return plain
        document = _document(known, self.settings.max_chars)
        key = _key(self.calls.model, self.system, known, document)
        with ProfileRows.opened(self.engine, tenant) as rows:
            stored = rows.made_text(key)
        if stored is not None:
            return _described(
                plain, _checked(parsed(stored, ProfileAnswer), known.states, self.settings.max_chars), cached=True
            )

        if not write:
            return plain

        def check(answer: ProfileAnswer) -> tuple[ProfileAnswer, tuple[ProfileSentence, ...]]:
            return answer, _checked(answer, known.states, self.settings.max_chars)

        answered, why = self.calls.answer(
            tenant, known.forest.id, self.system, document, ProfileAnswer, check, "profile"
        )
        if answered is None:
            return replace(plain, degraded=(f"The profile is a list, not a text: {why}.",))
        answer, sentences = answered
        if self.settings.cached:
            self._store(tenant, known, key, answer.model_dump_json())
        return _described(plain, sentences)

    @repeated
    def _store(self, tenant: TenantId, known: _Known, key: bytes, text: str) -> None:
        with ProfileRows.opened(self.engine, tenant) as rows:
            rows.store_text(known.forest.id, key, text, known.hashes, self.settings.cached)

    def _known(self, tenant: TenantId, owner: str, about: str | None) -> _Known | None:
        """The states that hold now; None without a memory."""
        with ProfileRows.opened(self.engine, tenant) as rows:
            forest = rows.find_forest(owner)
            if forest is None:
                return None
            names = rows.speakers(forest.id)
            person = person_named(owner, forest, names, about)
            facts = rows.states.of_subjects(forest.id, person.keys, None, self.settings.max_facts)
            chains, _ = chains_of(rows.states, facts, Speakers(owner, names), None)
            pinned = rows.pinned(forest.id, person.keys, MAX_STATES + 1)
        zone = ZoneInfo(forest.time_zone)
        current = sorted(
            (state for states in chains.values() for state in states if state.current), key=lambda state: state.position
        )
        found = [_state(state, zone) for state in current]
        found += [_pinned(fact, statement, zone) for fact, statement in reversed(pinned)]
        texts = {each.fact.id: each.fact.statement.text for state in current for each in state.said}
        texts |= {fact: statement.text for fact, statement in pinned}
        shown = tuple(found[-MAX_STATES:])
        ids = {fact for state in shown for fact in state.fact_ids}
        hashes = {fact: text_hash(text) for fact, text in texts.items() if fact in ids}
        return _Known(forest, person, shown, hashes, len(found) > len(shown) or len(facts) == self.settings.max_facts)


def _state(state: ChainState, zone: ZoneInfo) -> ProfileState:
    statement = state.statement
    return ProfileState(
        attribute=canonical(statement.attribute),
        value=statement.value,
        text=statement.text,
        since=day_label(state.time, zone),
        fact_ids=tuple(dict.fromkeys(each.fact.id for each in state.said)),
        polarity=statement.polarity,
        planned=state.planned,
        source=statement.source,
        quote=state.quote,
    )


def _pinned(fact: FactId, statement: Statement, zone: ZoneInfo) -> ProfileState:
    return ProfileState("", "", statement.text, day_label(statement.time, zone), (fact,))


def _document(known: _Known, max_chars: int) -> dict[str, object]:
    return {
        "about": known.person.name,
        "max_chars": max_chars,
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


def _key(model: str, system: str, known: _Known, document: Mapping[str, object]) -> bytes:
    """The hash of all that the text is made of: the facts (their ids are one memory's alone), model and prompt."""
    facts = [[str(fact) for fact in state.fact_ids] for state in known.states]
    hashes = sorted((str(fact), value.hex()) for fact, value in known.hashes.items())
    made_of = ["profile", VERSION, system, model, str(known.forest.id), document, facts, hashes]
    return hashlib.sha256(json.dumps(made_of, sort_keys=True).encode()).digest()


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
