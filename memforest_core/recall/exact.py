"""Lifts the pieces whose own turn holds a code of the question: not the turn beside it, which shares its cell."""

from __future__ import annotations

from collections.abc import Sequence

from memforest_core.domain.codes import codes
from memforest_core.domain.ids import SessionId
from memforest_core.domain.scoring import Voted
from memforest_core.recall.records import TurnKey
from memforest_core.recall.rows.reading import RecallRows

SIGNAL = "exact"
LOOKED_AT = 120
"""The best pieces whose turns are read: what holds a rare word is far ahead by its words already."""


def exact_first(rows: RecallRows, voted: Sequence[Voted], wanted: frozenset[str], weight: float) -> list[Voted]:
    """The pieces, best first; each gets ``weight`` times the best score times the share of the ``wanted`` codes that
    its turn holds."""
    if not voted:
        return []
    texts = rows.one(rows.turn_texts(list(dict.fromkeys(_turn(one) for one in voted[:LOOKED_AT]))))
    shares = {key: len(wanted & codes(text)) / len(wanted) for key, text in texts.items()}
    best, found = voted[0].score, []
    for one in voted:
        added = weight * best * shares.get(_turn(one), 0.0)
        found.append(one._replace(score=one.score + added, signals={**one.signals, SIGNAL: added}) if added else one)
    return sorted(found, key=lambda one: (-one.score, one.item.place))


def _turn(one: Voted) -> TurnKey:
    session, ordinal, _ = one.item.place
    return SessionId(session), ordinal
