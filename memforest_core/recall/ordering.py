"""The order of time as a signal: what a question asks for before, after, between, first or last."""

from __future__ import annotations

from collections.abc import Sequence

from memforest_core.domain.asked_order import order_of
from memforest_core.domain.attributes import asked_attributes, telling_terms
from memforest_core.domain.ids import SessionId
from memforest_core.domain.ordering import Told, Wanted, lift_ordered
from memforest_core.domain.scoring import Voted
from memforest_core.domain.text import terms
from memforest_core.recall.candidates import Candidates
from memforest_core.recall.question import Question
from memforest_core.recall.records import RecallRows

ORDERED = 120
"""The best pieces whose texts are read to put them in order; the others keep their places."""


def in_order(
    rows: RecallRows, candidates: Candidates, voted: Sequence[Voted], question: Question, weight: float
) -> list[Voted]:
    """The pieces, best first, lifted by where they lie in time; anchors are looked for in what was found."""
    asked = order_of(question.text)
    first, rest = voted[:ORDERED], voted[ORDERED:]
    texts = rows.turn_texts(list(dict.fromkeys((SessionId(one.item.place[0]), one.item.place[1]) for one in first)))
    told = []
    for one in first:
        key = (SessionId(one.item.place[0]), one.item.place[1])
        head = candidates.turns[key]
        told.append(Told(one, (head.occurred_at, head.ordinal), frozenset(terms(texts.get(key, "")))))
    names = frozenset(term for head in candidates.turns.values() for term in terms(head.name))
    wanted = Wanted(
        asked.order,
        frozenset(terms(asked.anchor)) - names,
        frozenset(terms(asked.other)) - names,
        telling_terms(asked_attributes(question.terms)),
    )
    return [*lift_ordered(told, wanted, weight), *rest]
