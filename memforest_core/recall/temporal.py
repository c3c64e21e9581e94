"""The temporal stage of scoring: what is current, was before, first or last, or lies in the time a question names.

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

import numpy as np

from memforest_core.domain.chain import ChainState
from memforest_core.domain.ids import FactId
from memforest_core.domain.people import People, found_in
from memforest_core.domain.scoring import Weights, coverage
from memforest_core.domain.state_names import single_valued
from memforest_core.domain.state_order import FORMER, Role, joking, meant, not_so
from memforest_core.domain.temporal_question import (
    MAX_WORDS,
    Order,
    Series,
    answering_terms,
    as_subject,
    current_attributes,
    is_about_still,
    names_only_a_time,
    order_of,
    previous_attributes,
    says_how_often,
    series_of,
)
from memforest_core.domain.text import normalize_name, terms
from memforest_core.domain.words.records import Words
from memforest_core.errors import ModelRejected, ModelUnavailable
from memforest_core.index.vector_index import SparseVector
from memforest_core.models.calls import Embedder
from memforest_core.recall.candidates import Candidates, Scope
from memforest_core.recall.index_search import IndexSearch, Limits
from memforest_core.recall.question import Question
from memforest_core.recall.records import CURRENT, FactText, Stated, States, TurnKey
from memforest_core.recall.rows.chains import TimelineRows
from memforest_core.recall.signal_table import Candidate, Table
from memforest_core.recall.timeline import Chain, Speakers, chains_of
from memforest_core.store.owners import ForestRef

ORDER, SERIES, PREVIOUS = "order", "series", "previous"
"""Signals: a place in the order of time among all states, or among statements about one thing; a state that was before
another."""
READ = 120
"""The best candidates, and those near the question, whose texts are read; the others stay where they are."""
NEARER = 0.8
"""How much less each further state gets than the one before it, in the order of all states."""
FADING = 0.4
"""The same in a series of statements about one thing."""
SAME_ANCHOR = 0.8
"""Texts with this part of the best one's anchor words speak of the anchor too; the earliest of them counts."""
LEAST_ANCHOR = 0.34
"""An anchor of which no text has this much is not known; then nothing is lifted."""
GOOD = 0.5
"""Without words for the state in question, candidates with this part of the best score are its states."""
ALIKE = 0.45
"""Statements at least this near to the question, as a part of the nearest one, are about its subject."""
SURE = 0.7
"""The same of the ends of what lasted: how long is said of one thing only."""
WORDS = 0.25
"""What the words of the question in a statement, or in the question that it answers, add to its nearness."""
AROUND = 4
"""Turns before and after one that says how often something happens, of which it may speak."""
OWN, CONTEXT = 0.5, 0.9
"""What the nearness of such a turn itself counts, and that of a turn around it."""
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
Texts = Callable[[Collection[TurnKey]], Mapping[TurnKey, str]]
"""Reads the contents of turns."""


class Statement(NamedTuple):
    """A row of the table with its timestamp, its terms, and its nearness to the question: 1 for the nearest of all."""

    at: int
    moment: Moment
    words: frozenset[str]
    near: float = 0.0
    often: bool = False
    """Whether it says how often something happens."""


def lift_in_time(
    table: Table, scopes: Sequence[Scope], question: Question, weights: Weights, texts: Sequence[Texts]
) -> dict[int, tuple[float, Moment]]:
    """Lift the candidates by their place in the order of time, within each forest, and by the time that the question
    names; ``texts`` reads the turns of each forest.

    How near the rows are that are about the subject of the question, 1 the nearest, with their timestamps.
    """
    near: dict[int, tuple[float, Moment]] = {}
    ordered = order_of(question.text).order is not Order.NONE and weights["order"] > 0
    wordless = not answering_terms(question.terms, question.spoken)
    for number, scope in enumerate(scopes):
        if ordered and not (wordless and scope.near):
            _lift_ordered(table, table.ranking_of(number), scope, question, weights["order"], texts[number])
    if weights["series"] <= 0:
        return near
    column, most = np.zeros(len(table.rows)), weights["series"] * table.best
    for number, scope in enumerate(scopes):
        rows = table.ranking_of(number)
        timed = [at for at in rows if table.rows[at].in_time]
        if timed and names_only_a_time(question.text, _names(scope.candidates)):
            own = _by_subject(table, rows, question, scope.forest.owner)
            column[timed] = [most * (1.0 if at in own else 0.5) for at in timed]
    table.add(SERIES, column, lift=True)
    for number, scope in enumerate(scopes):
        # The order of what is indexed says nothing of what is not, when that has more of the question.
        if scope.near and max(scope.outside_cells.values(), default=0.0) <= scope.held(question):
            rows = table.ranking_of(number)
            found = _lift_series(table, rows, scope, question, weights["series"], texts[number])
            near |= found if not scope.candidates.sentences else {}
    return near


def lift_states(table: Table, scopes: Sequence[Scope], near: Mapping[int, tuple[float, Moment]], weight: float) -> None:
    """Lift the best statement of each state that the question is about, in all forests, by ``weight`` times the best
    score."""
    states = tuple(stated for scope in scopes for stated in scope.states.states)
    read = frozenset(fact for scope in scopes for fact in scope.states.read)
    signal = next((scope.states.signal for scope in scopes if scope.states.states), CURRENT)
    lifted = set()
    for stated in certain(States(states, signal, read), table.rows, near).states:
        lifted.add(next((at for at in table.ranking() if _says(table.rows[at], stated)), None))
    column = np.zeros(len(table.rows))
    column[[at for at in lifted if at is not None]] = weight * table.best
    table.add(signal, column, lift=True)


def certain(states: States, rows: Sequence[Candidate], near: Mapping[int, tuple[float, Moment]]) -> States:
    """The states without those that rules read and that other statements contradict.

    A state is left out when it is far from a question whose nearest statement is in no chain, and when something about
    as near was said later that no rule could read.
    """
    unread = [known for at, known in near.items() if states.read.isdisjoint(map(FactId, rows[at].facts))]
    if not unread or states.signal != CURRENT:
        return states
    nearest, nearest_unread = max(near.values())[0], max(unread)[0]

    def is_certain(stated: Stated) -> bool:
        own = [known for at, known in near.items() if _says(rows[at], stated)]
        if not own:
            return True
        best, last = max(own)[0], max(moment for _, moment in own)
        if best < STATED and nearest_unread >= nearest:
            return False
        return not any(moment > last and other >= max(ALIKE, AS_NEAR * best) for other, moment in unread)

    return States(tuple(filter(is_certain, states.states)), states.signal, states.read)


def _says(row: Candidate, stated: Stated) -> bool:
    """Whether a candidate says a state."""
    return any(row.key in stated.get(FactId(fact), ()) for fact in row.facts)


def _lift_ordered(
    table: Table, ranking: Sequence[int], scope: Scope, question: Question, weight: float, texts: Texts
) -> None:
    """Lift what is where the question wants it among all states: half of the weight for the right side of the anchor,
    the other half less with each state that is nearer. An anchor that no text speaks of lifts nothing."""
    query, names = order_of(question.text), _names(scope.candidates)
    first = ranking[:READ]
    read = texts(dict.fromkeys(table.rows[at].key for at in first))
    said = [_statement(table, at, frozenset(terms(read.get(table.rows[at].key, "")))) for at in first]
    anchor, other = (frozenset(terms(text)) - names for text in (query.anchor, query.other))
    states = _states(table, said, answering_terms(question.terms, question.spoken))
    parts = order_parts(said, states, query.order, anchor, other)
    column = np.zeros(len(table.rows))
    column[list(parts)] = [weight * part for part in parts.values()]
    table.add(ORDER, column, lift=True)


def order_parts(
    said: Sequence[Statement],
    states: Sequence[Statement],
    order: Order,
    anchor: Collection[str],
    other: Collection[str] = (),
) -> dict[int, float]:
    """The rows of the states that an order names, each with its part of the weight; ``anchor`` and ``other`` are the
    terms of what the order is counted from."""
    if order is Order.BETWEEN:
        ends = [anchor_moment(said, anchor), anchor_moment(said, other)]
        known = sorted(end for end in ends if end is not None)
        return {each.at: 1.0 for each in states if len(known) == len(ends) and known[0] < each.moment < known[-1]}
    moment = anchor_moment(said, anchor) if anchor else None
    if anchor and moment is None and order in {Order.BEFORE, Order.AFTER}:
        return {}
    return {each.at: (1.0 + NEARER**rank) / 2 for rank, each in enumerate(preferred(states, order, moment))}


def series_parts(said: Sequence[Statement], series: Series, moment: Moment | None) -> dict[int, float]:
    """The rows of the statements about one thing that a series names, each with its part of the weight; those not
    named are lifted by nothing. Before and after are counted from the anchor's ``moment``."""
    alike = [each for each in said if each.near >= ALIKE]
    match series:
        case Series.ENDS:
            return {each.at: 1.0 for each in alike if each.near >= SURE}
        case Series.ALL | Series.OFTEN:
            return {each.at: 1.0 for each in alike if series is Series.ALL or each.often}
        case _:
            return {each.at: FADING**rank for rank, each in enumerate(preferred(alike, series, moment))}


def _states(table: Table, said: Sequence[Statement], telling: Collection[str]) -> Sequence[Statement]:
    """The statements of a state, by the subject of the question if it names somebody; the listener only remarks on it.
    ``telling`` are words of which a text that states it has one; empty when the question names no known state."""
    said = [each for each in said if table.rows[each.at].named_speaker] or said
    if telling:
        return [each for each in said if not each.words.isdisjoint(telling)]
    best = max((float(table.score[each.at]) for each in said), default=0.0)
    return [each for each in said if table.score[each.at] >= GOOD * best]


def preferred(said: Sequence[Statement], order: str, anchor: Moment | None) -> list[Statement]:
    """The statements that an order names, the best first; none for another order. Before and after are counted from
    the ``anchor``, or from the last statement without one."""
    in_order = sorted(said, key=lambda each: each.moment)
    at = anchor if anchor is not None or not in_order else in_order[-1].moment
    match order:
        case Order.FIRST:
            return in_order
        case Order.LATEST:
            return in_order[::-1]
        case Order.BEFORE:
            return [each for each in reversed(in_order) if at is not None and each.moment < at]
        case Order.AFTER:
            return [each for each in in_order if at is not None and each.moment > at]
        case _:
            return []


def anchor_moment(said: Sequence[Statement], anchor: Collection[str]) -> Moment | None:
    """The timestamp of the first statement about an anchor; None without one."""
    parts = coverage(anchor, [each.words for each in said])
    best = max(parts, default=0.0)
    if best < LEAST_ANCHOR:
        return None
    return min(each.moment for each, part in zip(said, parts, strict=True) if part >= SAME_ANCHOR * best)


def _lift_series(
    table: Table, ranking: Sequence[int], scope: Scope, question: Question, weight: float, texts: Texts
) -> dict[int, tuple[float, Moment]]:
    """Lift the statements about the subject of the question to what their nearness is worth, and by their place in the
    order of time ``weight`` times the best score times their nearness more."""
    series = series_of(question.text)
    facts = {at: map(FactId, table.rows[at].facts) for at in ranking}
    nearness = {at: max([scope.near.get(fact, 0.0) for fact in each], default=0.0) for at, each in facts.items()}
    own = _by_subject(table, ranking, question, scope.forest.owner)
    best = max((nearness[at] for at in own), default=0.0)
    if series is None or best <= 0.0:
        return {}
    read = [at for place, at in enumerate(ranking) if place < READ or nearness[at] > 0.0]
    said = _near_statements(table, read, scope, question, nearness, own, texts)
    anchor = frozenset(terms(order_of(question.text).anchor)) - _names(scope.candidates)
    moment = anchor_moment(said, anchor) if anchor and series in {Series.BEFORE, Series.AFTER} else None
    if anchor and moment is None and series in {Series.BEFORE, Series.AFTER}:
        return {}
    parts = series_parts(said, series, moment)
    top = max(float(table.score[at]) for at in read)
    column = np.zeros(len(table.rows))
    for each in said:
        if each.at in parts:
            worth = max(0.0, top * each.near - float(table.score[each.at]))
            column[each.at] = worth + weight * top * each.near * parts[each.at]
    table.add(SERIES, column, lift=True)
    return {each.at: (each.near, each.moment) for each in said if each.near > 0.0}


def _near_statements(
    table: Table,
    read: Sequence[int],
    scope: Scope,
    question: Question,
    nearness: Mapping[int, float],
    own: Collection[int],
    texts: Texts,
) -> list[Statement]:
    """Rows as statements, with their nearness as a part of the nearest of all: their own, and more for the words of the
    question in them or in the question right before them; a joke has none."""
    best = max(nearness[at] for at in own)
    keys = [table.rows[at].key for at in read]
    found = texts(dict.fromkeys([*keys, *map(_before, keys)]))
    questions = {key for key, text in found.items() if text.rstrip().endswith(("?", "\uff1f"))}
    words = {key: frozenset(terms(found[key])) for key in {*keys, *questions} if key in found}
    wanted = question.wanted - _names(scope.candidates)
    spoken = [words.get(key, frozenset()) for key in keys]
    answered = [words[_before(key)] if _before(key) in questions else frozenset() for key in keys]
    worth = [
        nearness[at] / best + WORDS * max(one, other) if at in own and not joking(found.get(key, "")) else 0.0
        for at, key, one, other in zip(read, keys, coverage(wanted, spoken), coverage(wanted, answered), strict=True)
    ]
    often = series_of(question.text) is Series.OFTEN
    most = max(worth) or 1.0
    said = [
        _statement(table, at, held, value / most, often and says_how_often(found.get(key, ""), question.text))
        for at, key, held, value in zip(read, keys, spoken, worth, strict=True)
    ]
    return _in_context(table, said) if often else said


def _in_context(table: Table, said: Sequence[Statement]) -> list[Statement]:
    """The statements, those that say how often as near as what is said around them: "twice a week" names no thing."""
    found = []
    for each in said:
        if each.often:
            session, ordinal = table.rows[each.at].key
            around = [
                other.near
                for other in said
                for key in (table.rows[other.at].key,)
                if key[0] == session and 0 < abs(key[1] - ordinal) <= AROUND
            ]
            each = each._replace(near=max([CONTEXT * near for near in around] + [OWN * each.near]))
        found.append(each)
    most = max(each.near for each in found)
    return [each._replace(near=each.near / most) for each in found]


def _statement(table: Table, at: int, words: frozenset[str], near: float = 0.0, often: bool = False) -> Statement:
    turn = table.rows[at].turn
    if turn is None:
        raise ValueError("candidates of forests have turns")
    return Statement(at, (turn.occurred_at, turn.ordinal), words, near, often)


def _names(candidates: Candidates) -> frozenset[str]:
    """The terms of the names of everybody who speaks among the candidates."""
    return frozenset(term for name in {head.name for head in candidates.turns.values()} for term in terms(name))


def _by_subject(table: Table, rows: Sequence[int], question: Question, owner: str) -> Collection[int]:
    """The rows of speakers whom the question names, of the owner if it names nobody; else all."""
    named = {at for at in rows if table.rows[at].named_speaker}
    if named:
        return named
    owned = {at for at in rows if (turn := table.rows[at].turn) is not None and turn.speaker_id == owner}
    return owned or frozenset(rows)


def _before(key: TurnKey) -> TurnKey:
    return key[0], key[1] - 1


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
    series = series_of(question.text)
    if series is None or search.dense is None or search.failure is not None or not question.known_to(embedder.model):
        return {}
    text = _thing(question.text)
    found = found_in(text, people)
    near = _nearest(search, embedder, as_subject(text, [(one.start, one.end) for one in found]), limit)
    parts: Nearness = _spread(near, limit)
    if not parts:
        return {}
    subjects = {one.person.id for one in found} or {people.owner.id}
    said = {fact.id: fact.statement for fact in reading(list(parts))}
    if series not in {Series.ENDS, Series.ALL, Series.OFTEN} and not not_so(question.text):
        now = series is Series.LATEST
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
    return {fact: part for fact, part in parts.items() if fact in said or fact not in near}


def _thing(question: str) -> str:
    """The question without the state that it counts from: it is about another one."""
    query = order_of(question)
    if query.order not in {Order.BEFORE, Order.AFTER} or not query.anchor:
        return question
    return question.replace(query.anchor, " ")


def _nearest(search: IndexSearch, embedder: Embedder, text: str, limit: int) -> dict[FactId, float]:
    if search.failure is not None:
        return {}
    try:
        vector = embedder.embed_query([text]).vectors[0]
    except (ModelUnavailable, ModelRejected):
        return {}
    sub = IndexSearch(search.index, search.scope, vector, SparseVector((), ()))
    sub.flat(Limits(0, limit, 0))
    search.round_trips += sub.round_trips
    search.failure = sub.failure
    return {FactId(fact): cosine for fact, cosine in sub.facts.dense.items()}


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
    """The state before the last one that the anchor's words name, or before the current one."""
    if not single_valued(attribute):
        return None
    stating = (state for state in states if state.role in {Role.SETS, Role.ENDS} and state.statement.value)
    in_order = sorted(stating, key=lambda state: state.position)
    meant = [state for state in in_order if (_alike(state, anchor) if anchor else state.current)]
    at = in_order.index(meant[-1]) if meant else 0
    return in_order[at - 1] if at else None


def _alike(state: ChainState, anchor: frozenset[str]) -> bool:
    """Whether words name a state: "moving to Miami" the one of Miami, "Ravi" that of dating Ravi."""
    value = frozenset(terms(state.statement.value))
    return bool(value) and (value <= anchor or anchor <= value)


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
        meant = [state for state in meant if _names_value(question, state)] or meant
    current = [state for state in meant if state.current]
    if current or not meant:
        return current
    ended_by = [ends[state.superseded_by] for state in meant if state.superseded_by in ends]
    return ended_by[-1:]


def _names_value(question: Question, state: ChainState) -> bool:
    return not question.terms.isdisjoint(terms(state.statement.value))


def _named_whole(question: Question, state: ChainState) -> bool:
    value = terms(state.statement.value)
    return bool(value) and question.terms.issuperset(value)


def _serious(rows: TimelineRows, states: Sequence[ChainState]) -> tuple[Stated, ...]:
    """The facts that say these states, without the turns that may joke."""
    stating = [_stated(state) for state in states]
    keys = frozenset(key for facts in stating for keys in facts.values() for key in keys)
    serious = {key for key, turn in rows.turns(keys, JOKE_CHARS).items() if not joking(turn.text, perhaps=True)}
    found = ({fact: keys & serious for fact, keys in facts.items() if keys & serious} for facts in stating)
    return tuple(facts for facts in found if facts)


def _stated(state: ChainState) -> Stated:
    found: dict[FactId, set[TurnKey]] = defaultdict(set)
    for said in state.said:
        for mention in said.mentions:
            found[said.fact.id].update((mention.session_id, turn) for turn in mention.turn_ordinals)
    return {fact: frozenset(turns) for fact, turns in found.items()}
