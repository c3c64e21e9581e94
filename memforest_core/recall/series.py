"""Finds what lies near a question once names are left out of it, and puts what is about one thing in order of time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

from memforest_core.domain.asked_order import Order, order_of
from memforest_core.domain.asked_series import Series, as_told, asks_what_happened, series_of, tells_how_often
from memforest_core.domain.ids import FactId, SessionId
from memforest_core.domain.meant import joking, meant, not_so
from memforest_core.domain.mentions import found_in
from memforest_core.domain.ordering import Moment, Told, anchor_moment
from memforest_core.domain.people import People
from memforest_core.domain.scoring import Voted, best_first, coverage
from memforest_core.domain.series import ALIKE, SIGNAL, Stated, lift_series
from memforest_core.domain.text import terms
from memforest_core.errors import ModelRejected, ModelUnavailable
from memforest_core.index.vector_index import SparseVector
from memforest_core.models.calls import Embedder
from memforest_core.recall.candidates import Candidates
from memforest_core.recall.current import SIGNAL as CURRENT
from memforest_core.recall.current import Current, tells
from memforest_core.recall.current import Told as StateTold
from memforest_core.recall.index_search import IndexSearch, Limits
from memforest_core.recall.question import Question
from memforest_core.recall.records import FactText, TurnKey
from memforest_core.recall.rows.reading import RecallRows

LOOKED_AT = 120
"""The best pieces, and those near the question, whose texts are read; the others keep their places."""
WORDS = 0.25
"""What the words of the question in a statement, or in what it answers, add to its nearness."""

AROUND = 4
"""Turns before and after one that tells how often something happens, of which it may speak."""
OWN, CONTEXT = 0.5, 0.9
"""What the nearness of such a turn itself counts, and that of a turn around it."""
STATED = 0.35
"""A state whose best telling is not this near to the question is not the one that it asks for."""
AS_NEAR = 0.8
"""What was said later and is this near, as a share of what tells a state, speaks of it too."""
KIN = 0.6
"""What likeness to the statement nearest to the question adds to nearness; what is likest to it gets all of it."""
READ = 8
"""Of the nearest facts, the texts are read until one tells of whom the question is about."""

Nearness = Mapping[FactId, float]
"""How near facts lie to a question as the one would ask it whom it is about, and to the best answer to it."""
Reading = Callable[[Sequence[FactId]], Sequence[FactText]]
Place = tuple[tuple[UUID, int, int], UUID | None]
"""What tells two pieces apart: where they stand, and the sentence that is delivered in place of the turn."""


def near_facts(
    search: IndexSearch, embedder: Embedder, reading: Reading, question: Question, people: People, limit: int
) -> Nearness:
    """The nearest facts for a question about a series, with how near they are; for another question none.

    Two embeddings of short texts and two searches for ``limit`` facts. Where one statement answers, those that are not
    meant, and those about a relative whom the question does not name, are left out. Without an index or a model there
    are none (the search that came before says what is away), and none in a language that the model does not know.
    """
    series = series_of(question.text)
    if series is None or search.dense is None or search.failure is not None:
        return {}
    if not question.known_to(embedder.model):
        return {}
    text = _thing(question.text)
    found = found_in(text, people)
    near = _nearest(search, embedder, as_told(text, [(one.start, one.end) for one in found]), limit)
    shares: Nearness = _spread(near, limit)
    if not shares:
        return {}
    subjects = {one.person.id for one in found} or {people.owner.id}
    said = {fact.id: fact.statement for fact in reading(list(shares))}
    if series not in {Series.ENDS, Series.ALL, Series.OFTEN} and not not_so(question.text):
        now = series is Series.LATEST
        said = {fact: one for fact, one in said.items() if meant(one, question.terms, now=now)}
    for fact in sorted(said, key=lambda fact: (-near[fact], fact))[:READ]:
        sentence = said[fact].text
        named = found_in(sentence, people)
        if any(one.person.id in subjects for one in named):
            told = as_told(sentence, [(one.start, one.end) for one in named if one.person.id in subjects])
            shares = _with_kin(shares, _nearest(search, embedder, told, limit), fact, limit)
            break
    return {fact: share for fact, share in shares.items() if fact in said or fact not in near}


def _thing(question: str) -> str:
    """The question without the state that it counts from: it asks for another one."""
    asked = order_of(question)
    if asked.order not in {Order.BEFORE, Order.AFTER} or not asked.anchor:
        return question
    return question.replace(asked.anchor, " ")


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


def _with_kin(shares: Nearness, like: Nearness, best: FactId, limit: int) -> Nearness:
    """The shares with what likeness to the best statement adds; the best is as like itself as any other is."""
    kin = _spread({fact: cosine for fact, cosine in like.items() if fact != best}, limit - 1) | {best: 1.0}
    return {fact: shares.get(fact, 0.0) + KIN * kin.get(fact, 0.0) for fact in {*shares, *kin}}


def _spread(cosines: Mapping[FactId, float], limit: int) -> dict[FactId, float]:
    """Cosines as shares of the way from the lowest of ``limit`` to the best: what is low differs by model and forest.

    Of fewer, all that there are, the lowest may be as good as the best."""
    best = max(cosines.values(), default=0.0)
    low = max(0.0, min(cosines.values())) if len(cosines) >= limit else 0.0
    if best <= low:
        return {}
    return {fact: (cosine - low) / (best - low) for fact, cosine in cosines.items() if cosine > low}


@dataclass(frozen=True, slots=True)
class Placed:
    """Pieces in the order of a question's series; empty for most questions."""

    voted: list[Voted]
    near: Mapping[Place, tuple[float, Moment]] = field(default_factory=dict)
    """How near the pieces are that tell about the thing asked for, 1 the nearest, and when they were said."""


def in_series(
    rows: RecallRows,
    candidates: Candidates,
    near: Nearness,
    voted: Sequence[Voted],
    question: Question,
    owner: str,
    weight: float,
) -> Placed:
    """The pieces, best first, lifted by their place among the statements about what the question asks for."""
    series = series_of(question.text)
    nearness = [max((near.get(FactId(fact), 0.0) for fact in one.item.facts), default=0.0) for one in voted]
    own = _by_subject(voted, candidates, question, owner)
    best = max((nearness[at] for at in own), default=0.0)
    if series is None or best <= 0.0:
        return Placed(list(voted))
    read = [at for at, worth in enumerate(nearness) if at < LOOKED_AT or worth > 0.0]
    places = [_turn(voted[at]) for at in read]
    texts = rows.one(rows.turn_texts(list(dict.fromkeys([*places, *(_before(place) for place in places)]))))
    held = {key: frozenset(terms(text)) for key, text in texts.items()}
    names = frozenset(term for head in candidates.turns.values() for term in terms(head.name))
    wanted = question.wanted - names
    spoken = [held.get(place, frozenset()) for place in places]
    said = coverage(wanted, spoken)
    answered = coverage(wanted, [_asked_before(place, texts, held) for place in places])
    worth = [
        nearness[at] / best + WORDS * max(one, other) if at in own and not joking(texts.get(place, "")) else 0.0
        for at, place, one, other in zip(read, places, said, answered, strict=True)
    ]
    most = max(worth) or 1.0
    pieces = []
    for at, place, value in zip(read, places, worth, strict=True):
        head = candidates.turns[place]
        often = series is Series.OFTEN and tells_how_often(texts.get(place, ""), question.text)
        pieces.append(Stated(voted[at], (head.occurred_at, head.ordinal), value / most, often))
    if series is Series.OFTEN:
        pieces = _in_context(pieces)
    anchor = frozenset(terms(order_of(question.text).anchor)) - names
    moment = None
    if anchor and series in {Series.BEFORE, Series.AFTER}:
        told = [Told(piece.voted, piece.moment, words) for piece, words in zip(pieces, spoken, strict=True)]
        moment = anchor_moment(told, anchor)
        if moment is None:
            return Placed(list(voted))
    kept = frozenset(read)
    rest = [one for at, one in enumerate(voted) if at not in kept]
    return Placed(
        best_first([*lift_series(pieces, series, moment, weight), *rest]),
        {_place(piece.voted): (piece.near, piece.moment) for piece in pieces if piece.near > 0.0},
    )


def _in_context(pieces: Sequence[Stated]) -> list[Stated]:
    """The pieces, those that tell how often as near as what is said around them: "twice a week" names no thing."""
    found = []
    for piece in pieces:
        if piece.often:
            session, ordinal, _ = piece.voted.item.place
            around = [
                other.near
                for other in pieces
                if other.voted.item.place[0] == session and 0 < abs(other.voted.item.place[1] - ordinal) <= AROUND
            ]
            piece = piece._replace(near=max([CONTEXT * near for near in around] + [OWN * piece.near]))
        found.append(piece)
    most = max(piece.near for piece in found)
    return [piece._replace(near=piece.near / most) for piece in found]


def dated_first(
    candidates: Candidates, voted: Sequence[Voted], question: Question, owner: str, most: float
) -> list[Voted]:
    """The pieces, best first; of a question that asks for nothing but a time, those that lie in it get ``most`` more,
    and half of it of others than those whom it is about."""
    names = {name for head in candidates.turns.values() for name in terms(head.name)}
    if not any(one.item.in_time for one in voted) or not asks_what_happened(question.text, names):
        return list(voted)
    own = _by_subject(voted, candidates, question, owner)
    found = []
    for at, one in enumerate(voted):
        if one.item.in_time:
            one = one.raised_by(most * (1.0 if at in own else 0.5), SIGNAL)
        found.append(one)
    return best_first(found)


def certain(current: Current, voted: Sequence[Voted], near: Mapping[Place, tuple[float, Moment]]) -> Current:
    """The states without those that rules read and that what was said tells otherwise.

    A state is left out when it is far from a question whose nearest statement no chain has, and when something about as
    near was said later that no rule could read.
    """
    unread = {
        _place(one): near[_place(one)]
        for one in voted
        if _place(one) in near and current.read.isdisjoint(map(FactId, one.item.facts))
    }
    if not unread or current.signal != CURRENT:
        return current
    return replace(current, states=tuple(told for told in current.states if _holds(told, voted, near, unread)))


def _holds(
    told: StateTold,
    voted: Sequence[Voted],
    near: Mapping[Place, tuple[float, Moment]],
    unread: Mapping[Place, tuple[float, Moment]],
) -> bool:
    telling = [near[_place(one)] for one in voted if _place(one) in near and tells(one, told)]
    if not telling:
        return True
    nearest, last = max(telling)[0], max(moment for _, moment in telling)
    if nearest < STATED and max(unread.values())[0] >= max(near.values())[0]:
        return False
    return not any(moment > last and share >= max(ALIKE, AS_NEAR * nearest) for share, moment in unread.values())


def _by_subject(voted: Sequence[Voted], candidates: Candidates, question: Question, owner: str) -> Collection[int]:
    """The places of what was said by whom the question names, by the owner if it names nobody; else all."""
    named = {at for at, one in enumerate(voted) if one.item.named_speaker}
    if named:
        return named
    owned = {at for at, one in enumerate(voted) if candidates.turns[_turn(one)].speaker_id == owner}
    return owned or range(len(voted))


def _asked_before(
    place: TurnKey, texts: Mapping[TurnKey, str], held: Mapping[TurnKey, frozenset[str]]
) -> frozenset[str]:
    """The terms of the question that was asked right before; none without one."""
    before = _before(place)
    return held[before] if texts.get(before, "").rstrip().endswith(("?", "\uff1f")) else frozenset()


def _before(place: TurnKey) -> TurnKey:
    return place[0], place[1] - 1


def _place(one: Voted) -> Place:
    return one.item.place, one.item.fact


def _turn(one: Voted) -> TurnKey:
    session, ordinal, _ = one.item.place
    return SessionId(session), ordinal
