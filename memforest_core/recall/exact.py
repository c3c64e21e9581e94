"""Lifts the pieces whose own turn holds a code of the question: not the turn beside it, which shares its cell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from memforest_core.domain.codes import codes
from memforest_core.domain.ids import SessionId
from memforest_core.domain.scoring import Voted, best_first
from memforest_core.recall.records import TurnHead, TurnKey
from memforest_core.recall.rows.reading import RecallRows

SIGNAL = "exact"
LOOKED_AT = 120
"""The best pieces whose turns are read: what holds a rare word is far ahead by its words already."""


def exact_first(rows: RecallRows, voted: Sequence[Voted], wanted: frozenset[str], most: float) -> list[Voted]:
    """The pieces, best first; each gets as much of ``most`` as its turn holds of the ``wanted`` codes."""
    texts = rows.one(rows.turn_texts(list(dict.fromkeys(_turn(one) for one in voted[:LOOKED_AT]))))
    shares = {key: len(wanted & codes(text)) / len(wanted) for key, text in texts.items()}
    found = []
    for one in voted:
        added = most * shares.get(_turn(one), 0.0)
        found.append(one.raised_by(added, SIGNAL) if added else one)
    return best_first(found)


def names(heads: Iterable[TurnHead]) -> frozenset[str]:
    """The codes among ids and names of who speaks in these turns."""
    return codes("\n".join({name for head in heads for name in (head.speaker_id, head.name)}))


def _turn(one: Voted) -> TurnKey:
    session, ordinal, _ = one.item.place
    return SessionId(session), ordinal
