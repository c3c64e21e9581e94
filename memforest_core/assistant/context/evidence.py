"""Which pieces of a recall go into a context: none that its window or its profile tells already."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from memforest_core.assistant.context.portraits import Line
from memforest_core.assistant.context.records import ContextPart, Omission, PartKind, Section, Why
from memforest_core.assistant.context.rendering import header_tokens, line_tokens
from memforest_core.domain.evidence import Evidence, EvidenceKind
from memforest_core.domain.ids import FactId
from memforest_core.domain.rendering import speaker
from memforest_core.domain.text import terms
from memforest_core.domain.times import LATEST


@dataclass(frozen=True, slots=True)
class Shown:
    """What the other sections tell."""

    turns: Collection[tuple[str, str]] = ()
    """Turns that the window shows word for word, as the caller's ids of session and turn."""
    items: Collection[FactId] = ()
    """Facts that the window holds."""
    lines: Sequence[Line] = ()
    """Of the profile."""


def chosen(
    pieces: Sequence[Evidence], shown: Shown, max_tokens: int, same_words: float
) -> tuple[list[ContextPart], list[Omission]]:
    """The best pieces that fit and say something new, as parts, the best session first; and what is left out.

    ``max_tokens`` are for their lines and those of their days.

    ``same_words`` is the share of a turn's terms that the profile must have, so that the turn says nothing new.
    """
    told: dict[FactId, frozenset[str]] = {}
    for line in shown.lines:
        words = frozenset(term for text in (line.text, *line.told) for term in terms(text))
        told |= {fact: told.get(fact, frozenset()) | words for fact in line.facts}
    taken: list[Evidence] = []
    out: list[Omission] = []
    groups: set[tuple[str, str]] = set()
    left = max_tokens
    for piece in pieces:
        why = Why.IN_WINDOW if _in_window(piece, shown) else Why.IN_PROFILE if _told(piece, told, same_words) else None
        group = (piece.session_id, piece.time_label)
        cost = line_tokens(piece.text) + (0 if group in groups else header_tokens(piece.time_label))
        if why is None and cost > left:
            why = Why.BUDGET
        if why is None:
            left -= cost
            groups.add(group)
            taken.append(piece)
        else:
            turns = piece.turn_ids
            out.append(
                Omission(Section.EVIDENCE, why, line_tokens(piece.text), piece.fact_ids, piece.session_id, turns)
            )
    return [part(piece) for piece in in_order(taken)], out


def part(piece: Evidence) -> ContextPart:
    """A piece of evidence as a part."""
    return ContextPart(
        section=Section.EVIDENCE,
        kind=PartKind.EVIDENCE,
        text=piece.text,
        tokens=line_tokens(piece.text),
        fact_ids=piece.fact_ids,
        session_id=piece.session_id,
        turn_ids=piece.turn_ids,
        speaker=piece.speaker,
        time_label=piece.time_label,
    )


def most_tokens(pieces: Sequence[Evidence]) -> int:
    """Estimated tokens of all pieces, should every one of them need a line for its day."""
    return sum(line_tokens(piece.text) + header_tokens(piece.time_label) for piece in pieces)


def in_order(pieces: Sequence[Evidence]) -> list[Evidence]:
    """Pieces, given best first, session by session, that of the best piece first; within one in the order of time,
    pieces of one day together."""
    sessions = {piece.session_id: rank for rank, piece in reversed(list(enumerate(pieces)))}
    days: dict[tuple[str, str], int] = {}
    for piece in sorted(pieces, key=lambda piece: piece.time.start or LATEST):
        days.setdefault((piece.session_id, piece.time_label), len(days))
    return sorted(pieces, key=lambda one: (sessions[one.session_id], days[one.session_id, one.time_label], one.ordinal))


def _in_window(piece: Evidence, shown: Shown) -> bool:
    if piece.turn_ids and all((piece.session_id, turn) in shown.turns for turn in piece.turn_ids):
        return True
    return piece.kind is EvidenceKind.FACT and bool(piece.fact_ids) and set(piece.fact_ids) <= set(shown.items)


def _told(piece: Evidence, told: dict[FactId, frozenset[str]], same_words: float) -> bool:
    """Whether the profile tells it: a fact, or a turn that has hardly a word beyond its facts."""
    if not piece.fact_ids or not all(fact in told for fact in piece.fact_ids):
        return False
    if piece.kind is EvidenceKind.FACT:
        return True
    words = frozenset(terms(piece.text.removeprefix(f"{speaker(piece.speaker)}: ")))
    known = frozenset[str]().union(*(told[fact] for fact in piece.fact_ids))
    return len(words & known) >= same_words * len(words)
