"""From gathered rows to items that can be scored: turns, parts of long turns, and sentences that a model wrote."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from uuid import UUID

from memforest_core.contexts.query.pool import Pool, cell_turns
from memforest_core.contexts.query.question import Question
from memforest_core.domain.scoring import Item
from memforest_core.domain.times import TimeSpan
from memforest_core.ports.recall import CellRef, FactText, TurnHead

Range = tuple[datetime | None, datetime | None]
"""The first and last moment asked for; None is open."""


def items(pool: Pool, question: Question, owner: str, asked: Range, pointers: bool) -> list[Item]:
    """All candidates. ``pointers`` says that every fact only points to its turn.

    A turn competes with its own text; beside it each sentence that a model wrote about it competes for itself.
    """
    said = pool.facts_by_turn()
    found: dict[tuple[UUID | None, tuple[UUID, int, int]], Item] = {}
    for cell in pool.cells.values():
        path = pool.session_path(cell.id)
        interval, root = (path[0].id, path[-1].id) if path else (None, None)
        for key in cell_turns(cell):
            head = pool.turns.get(key)
            if head is None:
                continue
            facts = said.get(key, [])
            pointing = [fact for fact in facts if pointers or pool.facts[fact].pointer]
            written = [fact for fact in facts if not pointers and not pool.facts[fact].pointer]
            place = (cell.session_id, key[1], cell.char_start or 0)
            for fact, voices in ((None, pointing), *((fact, [fact]) for fact in written)):
                told = [pool.facts[voice] for voice in voices]
                if not _asked_for(head, told, asked):
                    continue
                found[fact, place] = Item(
                    place=place,
                    cell=cell.id,
                    facts=tuple(voices),
                    interval=interval,
                    root=root,
                    topics=pool.topics(voices),
                    named_speaker=_named(head, question, owner),
                    fact=fact,
                )
    return list(found.values())


def _named(head: TurnHead, question: Question, owner: str) -> bool:
    """Whether the question names who said it; "I" is the owner."""
    if question.first_person and head.speaker_id == owner:
        return True
    return question.names(head.name)


def _asked_for(head: TurnHead, facts: list[FactText], asked: Range) -> bool:
    """Whether the turn was said, or what it tells happened, in the range asked for."""
    if asked == (None, None):
        return True
    spans = [(head.occurred_at, head.occurred_at), *_known(facts)]
    first, last = asked
    return any(
        (last is None or start <= last) and (first is None or end >= first) for start, end in spans
    )


def _known(facts: list[FactText]) -> Iterator[tuple[datetime, datetime]]:
    for fact in facts:
        span: TimeSpan = fact.time
        if span.start is not None and span.end is not None:
            yield span.start, span.end


def is_part(cell: CellRef) -> bool:
    """Whether a cell is a part of one long turn."""
    return cell.char_start is not None
