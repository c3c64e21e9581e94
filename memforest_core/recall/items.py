"""From gathered rows to items that can be scored: turns, parts of long turns, and sentences that a model wrote."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from memforest_core.domain.scoring import Item
from memforest_core.domain.turns import Role
from memforest_core.recall.asking import Range
from memforest_core.recall.candidates import Candidates, cell_turns
from memforest_core.recall.question import Question
from memforest_core.recall.records import FactHead, TurnHead

ALWAYS: Range = (None, None)


@dataclass(frozen=True, slots=True)
class Bounds:
    """Which turns may be evidence, and which time the question is about."""

    between: Range = ALWAYS
    """When evidence was said, or what it tells happened."""
    said_until: datetime | None = None
    """What was said after this moment is not known yet; None for no limit."""
    sessions: frozenset[UUID] | None = None
    excluded: frozenset[str] = frozenset()
    """The caller's ids of sessions that are left out."""
    speakers: frozenset[str] = frozenset()
    """Ids or display names, casefolded; empty for anybody."""
    roles: frozenset[str] = frozenset()
    about: Range = ALWAYS
    """The time that the question names; what lies in it is lifted."""
    channels: frozenset[str] = frozenset()
    """Channels of sessions; empty for all sessions."""

    @property
    def limited(self) -> bool:
        """Whether there are turns that ``allow`` refuses."""
        named = (self.excluded, self.channels, self.roles, self.speakers)
        return self.said_until is not None or self.sessions is not None or any(named)

    def allow(self, head: TurnHead) -> bool:
        """Whether a turn may be evidence, as far as that does not depend on its facts."""
        return (
            (self.said_until is None or head.occurred_at <= self.said_until)
            and (self.sessions is None or head.session_id in self.sessions)
            and head.session_external_id not in self.excluded
            and (not self.channels or head.channel in self.channels)
            and (not self.roles or head.role in self.roles)
            and (not self.speakers or not self.speakers.isdisjoint({head.speaker_id.casefold(), head.name.casefold()}))
        )


def items(
    candidates: Candidates, question: Question, owner: str, bounds: Bounds, positions: Mapping[UUID, int] | None = None
) -> list[Item]:
    """All candidates within the bounds; ``positions`` are those that a chat model gave to cells and facts, 0 the best.

    A turn competes with its own text; beside it each sentence that a model wrote about it competes for itself.
    """
    said, given = candidates.facts_by_turn(), positions or {}
    named: dict[tuple[str, str], bool] = {}
    timed = bounds.between != ALWAYS or bounds.about != ALWAYS
    limited = bounds.limited
    found: dict[tuple[UUID | None, tuple[UUID, int, int]], Item] = {}
    for cell in candidates.cells.values():
        interval, root = candidates.sessions.get(cell.id, (None, None))
        for key in cell_turns(cell):
            head = candidates.turns.get(key)
            if head is None or (limited and not bounds.allow(head)):
                continue
            facts = said.get(key, [])
            written = [fact for fact in facts if candidates.writes(fact)] if candidates.sentences else []
            pointing = [fact for fact in facts if not candidates.writes(fact)] if written else facts
            who = (head.speaker_id, head.name)
            if who not in named:
                named[who] = _named(head, question, owner)
            place = (cell.session_id, key[1], cell.char_start or 0)
            before = candidates.turns.get((cell.session_id, key[1] - 1))
            answers = before is not None and before.asks and before.speaker_id != head.speaker_id
            for fact, voices in ((None, pointing), *((fact, [fact]) for fact in written)):
                spans = list(_spans(head, [candidates.heads.get(voice) for voice in voices])) if timed else []
                if timed and not touches(spans, bounds.between):
                    continue
                found[fact, place] = Item(
                    place=place,
                    cell=cell.id,
                    facts=tuple(voices),
                    interval=interval,
                    root=root,
                    topics=candidates.topics_of(voices),
                    chained=candidates.chained_to(voices),
                    named_speaker=named[who],
                    position=min((given[id_] for id_ in (cell.id, *voices) if id_ in given), default=None)
                    if given
                    else None,
                    in_time=bounds.about != ALWAYS and touches(spans, bounds.about),
                    fact=fact,
                    unread=fact is None and not written and (head.role == Role.TOOL or cell.char_start is not None),
                    answers=answers,
                )
    return list(found.values())


def _named(head: TurnHead, question: Question, owner: str) -> bool:
    """Whether the question names who said it; "I" is the owner."""
    if question.first_person and head.speaker_id == owner:
        return True
    return question.names(head.name)


def _spans(head: TurnHead, facts: Sequence[FactHead | None]) -> Iterator[tuple[datetime, datetime]]:
    """When a turn was said, and when what it tells happened."""
    yield head.occurred_at, head.occurred_at
    for fact in facts:
        if fact is not None and fact.time_start is not None and fact.time_end is not None:
            yield fact.time_start, fact.time_end


def touches(spans: Sequence[tuple[datetime, datetime]], wanted: Range) -> bool:
    """Whether any of these times, from first to last moment, touches the wanted time."""
    first, last = wanted
    return any((last is None or start <= last) and (first is None or end >= first) for start, end in spans)
