"""From gathered rows to items that can be scored: turns, parts of long turns, and sentences that a model wrote."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from memforest_core.contexts.query.pool import Pool, cell_turns
from memforest_core.contexts.query.question import Question
from memforest_core.domain.scoring import Item
from memforest_core.ports.recall import FactHead, TurnHead

Range = tuple[datetime | None, datetime | None]
"""The first and last moment asked for; None is open."""


def items(pool: Pool, question: Question, owner: str, asked: Range) -> list[Item]:
    """All candidates that were said, or tell what happened, in the range asked for.

    A turn competes with its own text; beside it each sentence that a model wrote about it competes for itself.
    """
    said = pool.facts_by_turn()
    found: dict[tuple[UUID | None, tuple[UUID, int, int]], Item] = {}
    for cell in pool.cells.values():
        path = pool.trees.session_path(cell.id)
        interval, root = (path[0].id, path[-1].id) if path else (None, None)
        for key in cell_turns(cell):
            head = pool.turns.get(key)
            if head is None:
                continue
            facts = said.get(key, [])
            written = [fact for fact in facts if pool.writes(fact)]
            pointing = [fact for fact in facts if not pool.writes(fact)]
            place = (cell.session_id, key[1], cell.char_start or 0)
            for fact, voices in ((None, pointing), *((fact, [fact]) for fact in written)):
                if not _asked_for(head, [pool.heads.get(voice) for voice in voices], asked):
                    continue
                found[fact, place] = Item(
                    place=place,
                    cell=cell.id,
                    facts=tuple(voices),
                    interval=interval,
                    root=root,
                    topics=pool.topics_of(voices),
                    chained=pool.chained_to(voices),
                    named_speaker=_named(head, question, owner),
                    fact=fact,
                )
    return list(found.values())


def _named(head: TurnHead, question: Question, owner: str) -> bool:
    """Whether the question names who said it; "I" is the owner."""
    if question.first_person and head.speaker_id == owner:
        return True
    return question.names(head.name)


def _asked_for(head: TurnHead, facts: Sequence[FactHead | None], asked: Range) -> bool:
    """Whether the turn was said, or what it tells happened, in the range asked for."""
    first, last = asked
    spans = [(head.occurred_at, head.occurred_at)]
    for fact in facts:
        if fact is not None and fact.time_start is not None and fact.time_end is not None:
            spans.append((fact.time_start, fact.time_end))
    return any((last is None or start <= last) and (first is None or end >= first) for start, end in spans)
