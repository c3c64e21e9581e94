"""Lifts the pieces that tell the state that a question asks for: the one that holds now, or the one before another."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from memforest_core.domain.asked_now import MAX_WORDS, asks_still
from memforest_core.domain.asked_order import order_of
from memforest_core.domain.chain import ChainState
from memforest_core.domain.ids import FactId
from memforest_core.domain.meant import FORMER, joking, not_so
from memforest_core.domain.mentions import found_in
from memforest_core.domain.scoring import Voted, best_first
from memforest_core.domain.state_names import single_valued
from memforest_core.domain.state_order import Role
from memforest_core.domain.text import normalize_name, terms
from memforest_core.domain.words.records import Words
from memforest_core.recall.question import Question
from memforest_core.recall.records import TurnKey
from memforest_core.recall.rows.timeline import TimelineRows
from memforest_core.recall.timeline.chains import Chain, Speakers, chains_of
from memforest_core.store.owners import ForestRef

SIGNAL = "current"
PREVIOUS = "previous"
MAX_FACTS = 500
"""Facts that one question's states are read from; of more, the latest."""
MAX_STATES = 5
"""States that are lifted, the last ones to begin."""
MAX_SUBJECT_WORDS = 4
READ_CHARS = 2_000
"""Of a turn in which a joke is looked for."""

Told = Mapping[FactId, frozenset[TurnKey]]
"""The facts that tell one state, each with the turns in which it does."""


@dataclass(frozen=True, slots=True)
class Current:
    """The states that a question asks for, which hold now or held before; empty for most questions."""

    states: tuple[Told, ...] = ()
    signal: str = SIGNAL
    read: frozenset[FactId] = frozenset()
    """All facts of the chains that were looked through, whatever they tell."""

    @property
    def facts(self) -> frozenset[FactId]:
        """All facts that tell them."""
        return frozenset(fact for told in self.states for fact in told)


def current_states(
    rows: TimelineRows, forest: ForestRef, question: Question, attributes: Collection[str], as_of: datetime | None
) -> Current:
    """What holds now, or by ``as_of``, of these attributes of whom a question names; where nothing does, what ended it.

    Whether something still holds is also asked by its value alone. A fixed number of statements. Raises
    StoreUnavailable.
    """
    still = asks_still(question.text)
    # What held once answers nothing, but it was read: it does not speak of now though it was said later.
    looked_at = None if still else {*attributes, *(f"{FORMER}{name}" for name in attributes)}
    chains = _chains(rows, forest, question, looked_at, as_of)
    answers = [
        state
        for (_, name), states in chains.items()
        if (still or not name.startswith(FORMER))
        and (not still or name in attributes or any(_named_whole(question, state) for state in states))
        for state in _answers(name, states, question)
    ]
    latest = sorted(answers, key=lambda state: state.position, reverse=True)[:MAX_STATES]
    read = frozenset(each.fact.id for states in chains.values() for state in states for each in state.said)
    return Current(_certain(rows, latest), read=read)


def previous_states(
    rows: TimelineRows, forest: ForestRef, question: Question, attributes: Collection[str], as_of: datetime | None
) -> Current:
    """What held before the state that the question names, of these attributes; before the one that holds if it names
    none. A fixed number of statements. Raises StoreUnavailable.
    """
    chains = _chains(rows, forest, question, attributes, as_of)
    anchor = frozenset(terms(order_of(question.text).anchor))
    found = [state for (_, name), states in chains.items() if (state := _before(name, states, anchor)) is not None]
    return Current(_certain(rows, found[:MAX_STATES]), PREVIOUS)


def _chains(
    rows: TimelineRows,
    forest: ForestRef,
    question: Question,
    attributes: Collection[str] | None,
    as_of: datetime | None,
) -> dict[Chain, list[ChainState]]:
    """The chains of whom the question names; none when it names nobody with stored states."""
    speakers = Speakers(forest.owner, rows.speakers(forest.id))
    subjects = frozenset(_subjects(question, speakers))
    facts = rows.of_subjects(forest.id, subjects, attributes, MAX_FACTS) if subjects else []
    facts = [fact for fact in facts if not not_so(fact.statement.text)]
    return chains_of(rows, facts, speakers, as_of)[0] if facts else {}


def _before(attribute: str, states: Sequence[ChainState], anchor: frozenset[str]) -> ChainState | None:
    """The state before the last one that the anchor's words name, or before the one that holds."""
    if not single_valued(attribute):
        return None
    told = (state for state in states if state.role in {Role.SETS, Role.ENDS} and state.statement.value)
    held = sorted(told, key=lambda state: state.position)
    meant = [state for state in held if (_alike(state, anchor) if anchor else state.current)]
    place = held.index(meant[-1]) if meant else 0
    return held[place - 1] if place else None


def _alike(state: ChainState, anchor: frozenset[str]) -> bool:
    """Whether words name a state: "moving to Miami" the one of Miami, "Ravi" that of dating Ravi."""
    value = frozenset(terms(state.statement.value))
    return bool(value) and (value <= anchor or anchor <= value)


def current_first(voted: Sequence[Voted], current: Current, weight: float) -> list[Voted]:
    """The pieces, best first; of each state the best piece that tells it gets ``weight`` times the best score."""
    if not current.states or not voted:
        return list(voted)
    best = voted[0].score
    lifted = {id(one) for told in current.states for one in _first_telling(voted, told)}
    found = []
    for one in voted:
        if id(one) in lifted:
            one = one.raised_by(weight * best, current.signal)
        found.append(one)
    return best_first(found)


def _first_telling(voted: Iterable[Voted], told: Told) -> Iterator[Voted]:
    for one in voted:
        if tells(one, told):
            yield one
            return


def tells(one: Voted, told: Told) -> bool:
    """Whether a piece tells a state."""
    session, ordinal, _ = one.item.place
    return any((session, ordinal) in told.get(FactId(fact), ()) for fact in one.item.facts)


def _subjects(question: Question, speakers: Speakers) -> Iterator[str]:
    """Normalized names of those the question may be about: "my sister" is the owner's sister, not the owner."""
    for spoken in question.spoken:
        yield from _named_by_words(question, speakers, spoken)
        text = question.text
        for one in found_in(text, speakers.people):
            of_relative = spoken.relative_next.match(text, one.end) or spoken.relative_ahead.search(text[: one.start])
            if not one.plain and not of_relative:
                yield from one.person.keys


def _named_by_words(question: Question, speakers: Speakers, spoken: Words) -> Iterator[str]:
    """The same by the words of one language, without the names that stand in the text in another way."""
    words, relative = question.words[:MAX_WORDS], re.compile(rf"(?:{spoken.relatives})s?", re.IGNORECASE)
    for start, word in enumerate(words):
        if relative.fullmatch(word) and start and words[start - 1] in spoken.ours:
            yield from (normalize_name(f"{owner} {word}") for owner in speakers.owner_keys)
        for end in range(start + 1, min(start + MAX_SUBJECT_WORDS, len(words)) + 1):
            if end < len(words) and relative.fullmatch(words[end]):
                continue  # "Ann's sister": Ann is not meant
            if end == start + 1 and (word in spoken.first_person.words or word in spoken.ours):
                yield from speakers.owner_keys
            else:
                yield from speakers.named(" ".join(words[start:end]))
    text = question.text
    if any(not spoken.relative_next.match(text, own.end()) for own in spoken.first_person.inside.finditer(text)):
        yield from speakers.owner_keys


def _answers(attribute: str, states: Sequence[ChainState], question: Question) -> list[ChainState]:
    """The states of a chain that hold; where none does, what ended the last one. Of several values side by side those
    that the question names, if it names any."""
    ends = {state.id: state for state in states}
    meant = [state for state in states if state.role is Role.SETS]
    if not single_valued(attribute):
        meant = [state for state in meant if _names(question, state)] or meant
    holding = [state for state in meant if state.current]
    if holding or not meant:
        return holding
    ended_by = [ends[state.superseded_by] for state in meant if state.superseded_by in ends]
    return ended_by[-1:]


def _names(question: Question, state: ChainState) -> bool:
    return not question.terms.isdisjoint(terms(state.statement.value))


def _named_whole(question: Question, state: ChainState) -> bool:
    value = terms(state.statement.value)
    return bool(value) and question.terms.issuperset(value)


def _certain(rows: TimelineRows, states: Sequence[ChainState]) -> tuple[Told, ...]:
    """What tells these states, without the turns that may joke."""
    telling = [_told(state) for state in states]
    keys = frozenset(key for facts in telling for keys in facts.values() for key in keys)
    plain = {key for key, turn in rows.turns(keys, READ_CHARS).items() if not joking(turn.text, perhaps=True)}
    found = ({fact: keys & plain for fact, keys in facts.items() if keys & plain} for facts in telling)
    return tuple(facts for facts in found if facts)


def _told(state: ChainState) -> Told:
    told: dict[FactId, set[TurnKey]] = {}
    for said in state.said:
        for mention in said.mentions:
            told.setdefault(said.fact.id, set()).update((mention.session_id, turn) for turn in mention.turn_ordinals)
    return {fact: frozenset(turns) for fact, turns in told.items()}
