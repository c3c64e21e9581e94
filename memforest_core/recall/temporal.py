"""The temporal stage of scoring: what is current, was before or after, first or last, or is one of a series.

Statements about one thing are found by how near they are to the question once names are left out of it, states by the
chains of stored facts; both are put in the order of time.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

import numpy as np

from memforest_core.domain.chain import ChainState
from memforest_core.domain.codes import codes
from memforest_core.domain.ids import FactId
from memforest_core.domain.people import People, found_in
from memforest_core.domain.scoring import Weights, coverage
from memforest_core.domain.state_names import single_valued
from memforest_core.domain.state_order import FORMER, Role, is_only_question, joking, meant, not_so, planned
from memforest_core.domain.temporal_question import (
    MAX_WORDS,
    Order,
    answering_terms,
    as_subject,
    current_attributes,
    is_about_still,
    order_of,
    previous_attributes,
    series_of,
)
from memforest_core.domain.text import normalize_name, terms, terms_among
from memforest_core.domain.value_kinds import Kind, corrects, has_value, kind_of
from memforest_core.domain.words.records import Words
from memforest_core.errors import ModelRejected, ModelUnavailable
from memforest_core.models.calls import Embedder
from memforest_core.recall.candidates import Candidates, Scope
from memforest_core.recall.index_search import IndexSearch
from memforest_core.recall.passages import ABOUT, OF_KIND, TOPIC, behind, with_topics
from memforest_core.recall.question import Question
from memforest_core.recall.records import CURRENT, FactText, Stated, States, TurnKey
from memforest_core.recall.rows.chains import TimelineRows
from memforest_core.recall.rows.recall_rows import RecallStore
from memforest_core.recall.table import Table
from memforest_core.recall.timeline import Chain, Speakers, chains_of
from memforest_core.store.owners import ForestRef

SERIES, VALUE, PREVIOUS = "series", "value", "previous"
"""Signals: a place in the order of time among statements about one thing; a value of the kind that is wanted; a
state that was before another."""
READ = 120
"""The best candidates, and those near the question, whose texts are read; the others stay where they are."""
FADING = {Order.FIRST: 0.4, Order.LATEST: 0.4, Order.BEFORE: 0.7, Order.AFTER: 0.7}
"""The part of the lift that each further statement gets of the one before it; of other orders all of it."""
TOGETHER = {Order.ALL: 0.5, Order.DURATION: 0.5}
"""The part of the lift of several that answer together: each is less sure to be meant."""
SURE = {Order.FIRST: 0, Order.ALL: 1, Order.DURATION: 1}
"""The power of the evidence by which a lift shrinks, of other orders 2: the first of what is about it is not the
nearest."""
SAME_ANCHOR = 0.8
"""Texts with this part of the best one's anchor words speak of the anchor too; the earliest of them counts."""
LEAST_ANCHOR = 0.34
"""An anchor of which no text has this much is not known; then nothing is lifted."""
NEARNESS = 2.0
"""The evidence of the statement nearest to the question, where the best score of all is 1. Nearness or score alone
lifts small talk: with nearness alone LoCoMo's mrr falls by 0.9."""
LEAST_OF_KIND = 0.4
"""The part of the best one's evidence from which on a value of the kind counts: a new one seldom says what it is of."""
WITHOUT_VALUE = 0.8
"""What is left of the evidence of statements without a value of the kind, where one about the subject has one."""
STATED = 0.35
"""A state whose nearest statement is not this near to the question is not the one in question."""
AS_NEAR = 0.8
"""What was said later and is this near, as a part of the nearness of a state's statement, speaks of the state too."""
KIN = 0.6
"""What likeness to the statement nearest to the question adds to nearness; what is likest to it gets all of it."""
NEAREST = 8
"""Of the nearest facts, the texts are read until one is about the subject of the question."""
MAX_FACTS = 500
"""Facts that one question's states are read from; of more, the latest."""
MAX_STATES = 5
"""States that are lifted, the last ones to begin."""
MAX_SUBJECT_WORDS = 4
JOKE_CHARS = 2_000
"""Characters of a turn that are searched for a joke."""

Moment = tuple[datetime, int]
"""The timestamp of a turn, and its ordinal in its session."""
Nearness = Mapping[FactId, float]
"""How near facts are to a question as its subject would ask it, and to the best answer to it."""
Near = dict[int, tuple[float, Moment]]
"""The evidence that candidates are about the subject of the question, 1 the best, with their timestamps."""


class Statement(NamedTuple):
    """A candidate with its timestamp, its terms that matter, and the evidence that it is about the subject of the
    question: 1 for the best of all."""

    at: int
    moment: Moment
    words: frozenset[str]
    evidence: float
    text: str = ""


def lift_in_time(
    store: RecallStore, table: Table, scopes: Sequence[Scope], question: Question, weights: Weights
) -> None:
    """The temporal stage: lift the statements of a series by their place in the order of time, forest by forest, or
    those with a value of the kind that is wanted; then the best statement of each state that the question is about,
    in all of them."""
    near: Near = {}
    if weights["series"] > 0:
        kind = kind_of(question.text)
        if series_of(question.text) is not Order.NONE:
            near = _lift_series(store, table, scopes, question, kind, weights["series"])
        elif kind is not None:
            _lift_values(store, table, scopes, question, kind, weights["series"])
    states = tuple(stated for scope in scopes for stated in scope.states.states)
    read = frozenset(fact for scope in scopes for fact in scope.states.read)
    signal = next((scope.states.signal for scope in scopes if scope.states.states), CURRENT)
    lifted = set()
    for stated in certain(States(states, signal, read), table, near).states:
        lifted.add(next((at for at in table.ranking() if _says(table, at, stated)), None))
    column = table.zeros()
    column[[at for at in lifted if at is not None]] = weights["current"] * table.best
    table.add(signal, column, lift=True)


def certain(states: States, table: Table, near: Near) -> States:
    """The states without those that rules read and that other statements contradict.

    A state is left out when it is far from a question whose nearest statement is in no chain, and when something about
    as near was said later that no rule could read.
    """
    unread = [known for at, known in near.items() if states.read.isdisjoint(map(FactId, table.facts[at]))]
    if not unread or states.signal != CURRENT:
        return states
    nearest, nearest_unread = max(near.values())[0], max(unread)[0]

    def is_certain(stated: Stated) -> bool:
        own = [known for at, known in near.items() if _says(table, at, stated)]
        if not own:
            return True
        best, last = max(own)[0], max(moment for _, moment in own)
        if best < STATED and nearest_unread >= nearest:
            return False
        return not any(moment > last and other >= AS_NEAR * best for other, moment in unread)

    return States(tuple(filter(is_certain, states.states)), states.signal, states.read)


def _says(table: Table, at: int, stated: Stated) -> bool:
    """Whether a candidate says a state."""
    return any(table.key(at) in stated.get(FactId(fact), ()) for fact in table.facts[at])


def _lift_values(
    store: RecallStore, table: Table, scopes: Sequence[Scope], question: Question, kind: Kind, weight: float
) -> None:
    """Lift the turns with a value of the kind that a question wants, with no order: to what they have of the topic
    before them, and by ``weight`` times a part of that."""
    top, column = table.best or 1.0, table.zeros()
    for number, scope in enumerate(scopes):
        ranking = table.ranking_of(number)
        scores = {at: float(table.score[at]) / top for at in ranking}
        passages = behind(table.key(at) for at, score in scores.items() if score >= TOPIC)
        own = _by_subject(table, ranking, scope.forest.owner)
        near = (at for at, score in scores.items() if score >= ABOUT or table.key(at) in passages)
        texts = _texts(store, table, scope, [at for at in near if at in own])
        serious = {at: said for at, said in texts.items() if not joking(said)}
        for at, part in _with_value(serious, scores, table, question, kind).items():
            if part >= ABOUT:
                column[at] = max(0.0, part * top - table.score[at]) + weight * OF_KIND * part * top
    table.add(VALUE, column, lift=True)


def _with_value(
    texts: Mapping[int, str], evidence: Mapping[int, float], table: Table, question: Question, kind: Kind
) -> dict[int, float]:
    """The candidates with a value of the kind, each with its evidence or that of the topic before it."""
    # Many candidates may be parts of one long turn.
    stating = {said for said in set(texts.values()) if has_value(said, kind, question.spoken)}
    valued = {at: table.key(at) for at, said in texts.items() if said in stating}
    taking_back = {said for said in stating if corrects(said, question.spoken)}
    topics: dict[TurnKey, float] = defaultdict(float)
    for at, part in evidence.items():
        topics[table.key(at)] = max(topics[table.key(at)], part)
    correcting = {key for at, key in valued.items() if texts[at] in taking_back}
    parts = with_topics(topics, set(valued.values()), correcting)
    return {at: parts[key] for at, key in valued.items()}


def _lift_series(
    store: RecallStore, table: Table, scopes: Sequence[Scope], question: Question, kind: Kind | None, weight: float
) -> Near:
    """Lift the statements about the subject of the question by their place in the order of time: ``weight`` times the
    best score, times the evidence that they are about it. Each forest has an order of its own; evidence is compared
    with the best of all, so that one where nobody speaks of the subject lifts none of its small talk."""
    order = series_of(question.text)
    near, column = dict[int, tuple[float, Moment]](), table.zeros()
    nearest = max((part for scope in scopes for part in scope.near.values()), default=0.0) or 1.0
    found = {
        number: _statements(store, table, number, scope, question, kind, nearest)
        for number, scope in enumerate(scopes)
        # The order of what is indexed says nothing of what is not, when that has more of the question.
        if not scope.near or max(scope.outside_cells.values(), default=0.0) <= scope.held(question)
    }
    best = max((each.evidence for said in found.values() for each in said), default=0.0) or 1.0
    top = max((float(table.score[each.at]) for said in found.values() for each in said), default=0.0)
    for number, raw in found.items():
        scope = scopes[number]
        said = [each._replace(evidence=each.evidence / best) for each in raw]
        if order not in TOGETHER:
            said = _of_kind(said, table, question, kind)
        about = [each for each in said if each.evidence >= ABOUT]
        for each, part in series_parts(about, order, _anchors(said, scope, question)):
            column[each.at] = weight * top * each.evidence ** SURE.get(order, 2) * part * TOGETHER.get(order, 1.0)
        if scope.near and not scope.candidates.sentences:
            near |= {each.at: (each.evidence, each.moment) for each in said if each.evidence > 0.0}
    table.add(SERIES, column, lift=True)
    return near


def _of_kind(said: list[Statement], table: Table, question: Question, kind: Kind | None) -> list[Statement]:
    """Statements with more evidence for those with a value of the kind, which have the topic of what was said before
    them too. Where the best statement has a code, a code is wanted."""
    best = max(said, key=lambda each: each.evidence, default=None)
    if kind is None and best is not None and codes(best.text):
        kind = Kind.CODE
    if kind is None:
        return said
    texts = {each.at: each.text for each in said if each.evidence > 0.0}
    parts = _with_value(texts, {each.at: each.evidence for each in said}, table, question, kind)
    own = {at: part + OF_KIND for at, part in parts.items() if part >= LEAST_OF_KIND}
    fades = WITHOUT_VALUE if any(part >= ABOUT + OF_KIND for part in own.values()) else 1.0
    return [each._replace(evidence=min(1.0, own.get(each.at, fades * each.evidence))) for each in said]


def _statements(
    store: RecallStore, table: Table, number: int, scope: Scope, question: Question, kind: Kind | None, nearest: float
) -> list[Statement]:
    """The best candidates and the near ones, with the evidence that they are about the subject of the question: by
    score, and by how near their facts are to the ``nearest`` of all. Jokes, questions, plans that may not have come,
    and what others say, have none."""
    ranking = table.ranking_of(number)
    near = {at: max([scope.near.get(FactId(fact), 0.0) for fact in table.facts[at]], default=0.0) for at in ranking}
    own = _by_subject(table, ranking, scope.forest.owner)
    best = [
        place
        for place, at in enumerate(ranking)
        if table.score[at] >= TOPIC * table.best or near[at] >= TOPIC * nearest
    ]
    passages = behind(table.key(ranking[place]) for place in best) if kind is not None else ()
    read = [at for place, at in enumerate(ranking) if place < READ or near[at] > 0.0 or table.key(at) in passages]
    said, order = list(_texts(store, table, scope, read).values()), series_of(question.text)
    telling, query = answering_terms(question.terms, question.spoken), order_of(question.text)
    wanted = telling.union(terms(query.anchor), terms(query.other))
    spoken = [terms_among(text, wanted) for text in said]
    top = table.best or 1.0
    evidence = np.array([table.score[at] / top + NEARNESS * near[at] / nearest if at in own else 0.0 for at in read])
    plans_count = order in {Order.LATEST, Order.DURATION} or planned(question.text)
    evidence[[joking(text) or is_only_question(text) or (not plans_count and planned(text)) for text in said]] = 0.0
    if telling and not scope.near:
        evidence[[telling.isdisjoint(words) for words in spoken]] = 0.0
    return [
        Statement(at, _moment(table, at), held, float(part), text)
        for at, held, part, text in zip(read, spoken, evidence, said, strict=True)
    ]


def _texts(store: RecallStore, table: Table, scope: Scope, read: Sequence[int]) -> dict[int, str]:
    """The texts of candidates, in their order: of their turns, or a sentence of a chat model, which counts for
    itself."""
    keys = [table.key(at) for at in read]
    with store.recalling(scope.tenant) as rows:
        texts = scope.read_turns(rows, keys)
        written = [FactId(fact) for at in read if (fact := table.fact[at]) is not None]
        found = rows.one(rows.facts(scope.forest.id, written, scope.bounds.said_until)) if written else ()
    sentences: dict[UUID | None, str] = {fact.id: fact.statement.text for fact in found}
    return {
        at: texts.get(key, "") if table.fact[at] is None else sentences.get(table.fact[at], "")
        for at, key in zip(read, keys, strict=True)
    }


def _anchors(said: Sequence[Statement], scope: Scope, question: Question) -> tuple[Moment | None, ...] | None:
    """The moments of what the order is counted from; None when something is named that no text speaks of."""
    query, names = order_of(question.text), _names(scope.candidates)
    anchors = [frozenset(terms(text)) - names for text in (query.anchor, query.other)]
    if query.order is Order.BETWEEN:
        ends = [anchor_moment(said, anchor) for anchor in anchors]
        return None if None in ends else tuple(sorted(ends))  # type: ignore[type-var]
    moment = anchor_moment(said, anchors[0]) if anchors[0] else None
    return None if anchors[0] and moment is None else (moment,)


def series_parts(
    about: Sequence[Statement], order: Order, anchors: tuple[Moment | None, ...] | None
) -> list[tuple[Statement, float]]:
    """The statements ``about`` one thing that an order means, each with its part of the weight; the others get nothing.
    Before and after are counted from the anchor, or from the last statement without one; None for one not
    known. What lies between two anchors does so strictly: they are no answer."""
    if order in TOGETHER:
        return [(each, 1.0) for each in about]
    about = sorted(about, key=lambda each: each.moment)
    if anchors is None or not about:
        return []
    first, last = anchors[0] or about[-1].moment, anchors[-1] or about[-1].moment
    if order in {Order.AFTER, Order.BETWEEN}:
        about = [each for each in about if each.moment > first]
    if order in {Order.BEFORE, Order.BETWEEN}:
        about = [each for each in about if each.moment < last]
    if order in {Order.BEFORE, Order.LATEST}:
        about.reverse()
    return [(each, FADING.get(order, 1.0) ** place) for place, each in enumerate(about)]


def anchor_moment(said: Sequence[Statement], anchor: Collection[str]) -> Moment | None:
    """The timestamp of the first statement about an anchor; None without one."""
    parts = coverage(anchor, [each.words for each in said])
    best = max(parts, default=0.0)
    if best < LEAST_ANCHOR:
        return None
    return min(each.moment for each, part in zip(said, parts, strict=True) if part >= SAME_ANCHOR * best)


def _moment(table: Table, at: int) -> Moment:
    turn = table.turn[at]
    if turn is None:
        raise ValueError("candidates of forests have turns")
    return turn.occurred_at, turn.ordinal


def _names(candidates: Candidates) -> frozenset[str]:
    """The terms of the names of everybody who speaks among the candidates."""
    return frozenset(term for name in {head.name for head in candidates.turns.values()} for term in terms(name))


def _by_subject(table: Table, rows: Sequence[int], owner: str) -> Collection[int]:
    """The candidates of speakers whom the question names, of the owner if it names nobody; else all."""
    named = {at for at in rows if table.named[at]}
    if named:
        return named
    owned = {at for at in rows if (turn := table.turn[at]) is not None and turn.speaker_id == owner}
    return owned or frozenset(rows)


def near_facts(
    search: IndexSearch,
    embedder: Embedder,
    reading: Callable[[Sequence[FactId]], Sequence[FactText]],
    question: Question,
    people: People,
    limit: int,
) -> Nearness:
    """The nearest facts for a question about a series, with how near they are; for another question none.

    Two embeddings of short texts and two searches for ``limit`` facts. Where one statement answers, those that are not
    meant, and those about a relative whom the question does not name, are left out. Without an index or a model there
    are none (the search that came before says what is unavailable), and none in a language that the model does not
    know.
    """
    order = series_of(question.text)
    if order in {Order.NONE, Order.BETWEEN} or search.dense is None or search.failure is not None:
        return {}
    if not question.known_to(embedder.model):
        return {}
    text = _thing(question.text)
    found = found_in(text, people)
    near = _nearest(search, embedder, as_subject(text, [(one.start, one.end) for one in found]), limit)
    parts: Nearness = _spread(near, limit)
    if not parts:
        return {}
    subjects = {one.person.id for one in found} or {people.owner.id}
    said = {fact.id: fact.statement for fact in reading(list(parts))}
    if not not_so(question.text):
        now = order is Order.LATEST
        said = {fact: one for fact, one in said.items() if meant(one, question.terms, now=now)}
    for fact in sorted(said, key=lambda fact: (-near[fact], fact))[:NEAREST]:
        sentence = said[fact].text
        named = [one for one in found_in(sentence, people) if one.person.id in subjects]
        if named:
            like = _nearest(search, embedder, as_subject(sentence, [(one.start, one.end) for one in named]), limit)
            # The best statement is as like itself as any other is.
            kin = _spread({other: near for other, near in like.items() if other != fact}, limit - 1) | {fact: 1.0}
            parts = {other: parts.get(other, 0.0) + KIN * kin.get(other, 0.0) for other in {*parts, *kin}}
            break
    # Forests are compared with each other: where nobody speaks of it, the nearest is far.
    best = max(near.values())
    return {fact: best * part for fact, part in parts.items() if fact in said or fact not in near}


def _thing(question: str) -> str:
    """The question without the state that it counts from: it is about another one."""
    query = order_of(question)
    if query.order not in {Order.BEFORE, Order.AFTER} or not query.anchor:
        return question
    return question.replace(query.anchor, " ")


def _nearest(search: IndexSearch, embedder: Embedder, text: str, limit: int) -> dict[FactId, float]:
    try:
        return search.facts_near(embedder.embed_query([text]).vectors[0], limit) if search.failure is None else {}
    except (ModelUnavailable, ModelRejected):
        return {}


def _spread(cosines: Mapping[FactId, float], limit: int) -> dict[FactId, float]:
    """Cosines as parts of the way from the lowest of ``limit`` to the best: what is low differs by model and forest.

    Of fewer, all that there are, the lowest may be as good as the best."""
    best = max(cosines.values(), default=0.0)
    low = max(0.0, min(cosines.values())) if len(cosines) >= limit else 0.0
    if best <= low:
        return {}
    return {fact: (cosine - low) / (best - low) for fact, cosine in cosines.items() if cosine > low}


def find_states(
    reading: Callable[[], AbstractContextManager[TimelineRows]],
    forest: ForestRef,
    question: Question,
    as_of: datetime | None,
) -> States:
    """The states that a question is about: those that are current, or were by ``as_of``, or the one before another.

    A fixed number of statements, none for a question about no state. Raises StoreUnavailable.
    """
    for find, attributes in (
        (_current, current_attributes(question.text)),
        (_previous, previous_attributes(question.text)),
    ):
        if attributes:
            with reading() as rows:
                return find(rows, forest, question, attributes, as_of)
    return States()


def _current(
    rows: TimelineRows, forest: ForestRef, question: Question, names: Collection[str], as_of: datetime | None
) -> States:
    """What is current of attributes of the subject of a question; where nothing is, what ended it.

    Whether something is still so may be a question for its value alone.
    """
    still = is_about_still(question.text)
    # What was so once answers nothing, but it was read: it does not speak of now though it was said later.
    attributes = None if still else {*names, *(f"{FORMER}{name}" for name in names)}
    chains = _chains(rows, forest, question, attributes, as_of)
    answers = [
        state
        for (_, name), states in chains.items()
        if (still or not name.startswith(FORMER))
        and (not still or name in names or any(_named_whole(question, state) for state in states))
        for state in _answers(name, states, question)
    ]
    latest = sorted(answers, key=lambda state: state.position, reverse=True)[:MAX_STATES]
    read = frozenset(each.fact.id for states in chains.values() for state in states for each in state.said)
    return States(_serious(rows, latest), read=read)


def _previous(
    rows: TimelineRows, forest: ForestRef, question: Question, names: Collection[str], as_of: datetime | None
) -> States:
    """What was before the state that the question names, or before the current one if it names none."""
    chains = _chains(rows, forest, question, names, as_of)
    anchor = frozenset(terms(order_of(question.text).anchor))
    found = [state for (_, name), states in chains.items() if (state := _prior(name, states, anchor)) is not None]
    return States(_serious(rows, found[:MAX_STATES]), PREVIOUS)


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


def _prior(attribute: str, states: Sequence[ChainState], anchor: frozenset[str]) -> ChainState | None:
    """The state before the last one that the anchor's words name, or before the current one: "moving to Miami" names
    the one of Miami, "Ravi" that of dating Ravi."""
    if not single_valued(attribute):
        return None
    stating = (state for state in states if state.role in {Role.SETS, Role.ENDS} and state.statement.value)
    in_order = sorted(stating, key=lambda state: state.position)
    meant = [state for state in in_order if state.current]
    if anchor:
        values = [(state, frozenset(terms(state.statement.value))) for state in in_order]
        meant = [state for state, value in values if value and (value <= anchor or anchor <= value)]
    at = in_order.index(meant[-1]) if meant else 0
    return in_order[at - 1] if at else None


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
    """The same by the words of one language, without the names that the text has in another way."""
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
    """The current states of a chain; where there is none, what ended the last one. Of several values side by side those
    that the question names, if it names any."""
    ends = {state.id: state for state in states}
    meant = [state for state in states if state.role is Role.SETS]
    if not single_valued(attribute):
        meant = [state for state in meant if question.terms & {*terms(state.statement.value)}] or meant
    current = [state for state in meant if state.current]
    if current or not meant:
        return current
    ended_by = [ends[state.superseded_by] for state in meant if state.superseded_by in ends]
    return ended_by[-1:]


def _named_whole(question: Question, state: ChainState) -> bool:
    value = terms(state.statement.value)
    return bool(value) and question.terms.issuperset(value)


def _serious(rows: TimelineRows, states: Sequence[ChainState]) -> tuple[Stated, ...]:
    """The facts that say these states, without the turns that may joke."""
    stating: list[dict[FactId, set[TurnKey]]] = []
    for state in states:
        stating.append(defaultdict(set))
        for fact, mention in ((said.fact.id, mention) for said in state.said for mention in said.mentions):
            stating[-1][fact].update((mention.session_id, turn) for turn in mention.turn_ordinals)
    keys = frozenset(key for facts in stating for keys in facts.values() for key in keys)
    serious = {key for key, turn in rows.turns(keys, JOKE_CHARS).items() if not joking(turn.text, perhaps=True)}
    found = ({fact: frozenset(said & serious) for fact, said in facts.items() if said & serious} for facts in stating)
    return tuple(facts for facts in found if facts)
