"""Profiles as a context shows them, line by line: written by a model at times, and merged with days on request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from pydantic import BaseModel

from memforest_core.assistant.calendar.records import DayDigest, PeriodDigest
from memforest_core.assistant.checked_calls import CheckedCalls, check_length, numbered
from memforest_core.assistant.context.records import ContextPart, Omission, Section, Why, line_tokens
from memforest_core.assistant.conversation_window.records import PartKind
from memforest_core.assistant.profile.describing import Describer
from memforest_core.assistant.profile.records import ProfileSentence, ProfileState
from memforest_core.assistant.rows import Fence, MadeTextRows, hash_of, read_stored
from memforest_core.domain.ids import FactId, TenantId
from memforest_core.domain.people import KnownPerson
from memforest_core.domain.text import clean, clipped
from memforest_core.errors import ContentFault, StoreUnavailable
from memforest_core.store.engine import Engine
from memforest_core.store.repeating import repeated


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a portrait."""

    text: str
    facts: tuple[FactId, ...]
    """The facts that it rests on."""
    sentences: tuple[str, ...]
    """Their sentences."""
    digest: str = ""
    """The digest of days that it rests on too, where a model merged them."""


@dataclass(frozen=True, slots=True)
class Portrait:
    """What is known of somebody now, line by line."""

    lines: tuple[Line, ...] = ()
    written: int = 0
    """So many of them, the first ones, a model wrote, what matters most first; the others are a list in the order of
    time."""
    degraded: tuple[str, ...] = ()


def portrait(describer: Describer, tenant: TenantId, owner: str, person: KnownPerson, every: timedelta) -> Portrait:
    """What is known of a person; a model writes it at most once in a time. Raises StoreUnavailable."""
    known = describer.known(tenant, owner, None if person.owner else person.id)
    if known is None:
        return Portrait()
    profile, written = describer.described(tenant, known, every=every)
    return Portrait(tuple(_line(each, known.states) for each in profile.sentences), written, profile.degraded)


def _line(sentence: ProfileSentence, states: Sequence[ProfileState]) -> Line:
    own = set(sentence.fact_ids)
    sentences = tuple(state.text for state in states if not own.isdisjoint(state.fact_ids))
    return Line(text=sentence.text, facts=sentence.fact_ids, sentences=sentences)


def profile_parts(portrait: Portrait, max_tokens: int) -> tuple[list[ContextPart], list[Omission], int]:
    """The lines that fit, in their order, what is left out, and the tokens taken.

    What a model wrote is taken from the beginning on, then the list: what began last first. The first one that does not
    fit ends it, so that with more tokens nothing is left out that was in before.
    """
    written, listed = portrait.lines[: portrait.written], portrait.lines[portrait.written :]
    parts = [
        ContextPart(
            Section.PROFILE,
            PartKind.SENTENCE,
            line.text,
            line_tokens(line.text),
            fact_ids=line.facts,
            digest_id=line.digest,
        )
        for line in (*written, *listed)
    ]
    order = [*range(len(written)), *range(len(parts) - 1, len(written) - 1, -1)]
    left, taken = max_tokens, set[int]()
    for at in order:
        if parts[at].tokens > left:
            break
        left -= parts[at].tokens
        taken.add(at)
    shown = [part for at, part in enumerate(parts) if at in taken]
    out = [
        Omission(Section.PROFILE, Why.BUDGET, part.tokens, part.fact_ids)
        for at, part in enumerate(parts)
        if at not in taken
    ]
    return shown, out, sum(part.tokens for part in shown)


MERGED_VERSION = 1
"""Of the prompt and of what is stored: another one makes other hashes."""
SHOWN_CHARS = 2_000
"""Of each text are shown to the model."""
ONE_TEXT = 2
"""From so many of the three on there is something to merge."""

_SYSTEM = """\
You tell an assistant about the person it is going to talk with. The user message is a JSON document: "about" is the
person's name; "facts" are what is known to hold now, each with its number; "today" is what happened today; "history" is
what happened in the days before, the most recent first. One of them may be empty. "max_chars" is how long your text may
be in all.

"sentences" of your answer are sentences that read on from one another: first what the facts say, then today, then the
history. Where they contradict each other the facts hold. What is told by a fact is not told again from a day. Say only
what is there; add nothing, guess nothing. Each sentence has "text", "facts": the numbers of the facts that it tells,
and "days": "today" or "history" if it tells something of these, else "none". A sentence tells facts, or of one of the
two, or both.
"""

_NAMES = {Section.PROFILE: "the profile", Section.TODAY: "today", Section.WEEK: "the days before"}
"""In the order in which they stand in for the merged text."""


class Days(StrEnum):
    """Which text of days a sentence rests on."""

    NONE = "none"
    TODAY = "today"
    HISTORY = "history"


_SECTIONS = {Days.TODAY: Section.TODAY, Days.HISTORY: Section.WEEK}


class MergedSentence(BaseModel):
    """One sentence of an answer."""

    text: str
    facts: list[int]
    days: Days


class MergedAnswer(BaseModel):
    """The shape of an answer, before it is checked; also that of a text that is stored."""

    sentences: list[MergedSentence]


@dataclass(frozen=True, slots=True)
class Merger:
    """Merges what is known of somebody. Thread-safe."""

    engine: Engine
    calls: CheckedCalls
    enabled: bool = False

    @repeated
    def fence(self, tenant: TenantId, owner: str, person: str) -> Fence | None:
        """The row of a person's merged text, to be read before what it is made from; None when nothing is merged, or
        the memory is being written. ``person`` is as the caller names them. Raises StoreUnavailable."""
        if not (self.enabled and self.calls.possible):
            return None
        with MadeTextRows.opened(self.engine, tenant) as rows:
            return rows.fence(owner, person, MERGED_VERSION)

    def merged(
        self,
        tenant: TenantId,
        fence: Fence | None,
        about: str,
        portrait: Portrait,
        days: Mapping[Section, DayDigest | PeriodDigest],
        max_chars: int,
        *,
        group: bool = False,
    ) -> tuple[Portrait | None, list[str]]:
        """A portrait whose sentences tell the days too, and sentences about what was unavailable.

        None instead of it when nothing is to be merged, no model does it, or the days are those of a ``group``: then
        profile, today and the days before stand as they are, in this order, and a sentence says so. Facts that came
        since a model wrote the profile stay a list below. Raises StoreUnavailable.
        """
        present = [section for section in _NAMES if section in days or (section is Section.PROFILE and portrait.lines)]
        if not self.enabled or len(present) < ONE_TEXT:
            return None, []
        why = "" if self.calls.possible else "no chat model is configured"
        why = why or ("several people speak, and no speaker is given" if group else "")
        why = why or ("the model did not write the profile" if portrait.degraded else "")
        if fence is None or why:
            return None, [_instead(present, why or "the memory was being written")]
        sources = portrait.lines[: portrait.written] or portrait.lines
        below = portrait.lines[len(sources) :]
        document = _document(about, sources, days, max_chars)
        facts = [[str(fact) for fact in line.facts] for line in sources]
        key = hash_of(MERGED_VERSION, _SYSTEM, self.calls.model, document, facts).hex()

        def check(answer: MergedAnswer) -> tuple[MergedAnswer, tuple[Line, ...]]:
            return answer, _checked(answer, sources, days, max_chars)

        stored = read_stored(MergedAnswer, fence.text) if fence.hash == key else None
        if stored is not None:
            lines = check(stored)[1]
            return Portrait((*lines, *below), len(lines)), []
        answered, why = self.calls.answer(tenant, fence.forest, _SYSTEM, document, MergedAnswer, check, "merged")
        if answered is None:
            return None, [_instead(present, why)]
        answer, lines = answered
        notes = []
        try:
            self._store(tenant, fence, key, answer.model_dump_json())
        except StoreUnavailable:
            notes.append("The merged text could not be stored: Postgres was busy or unavailable.")
        return Portrait((*lines, *below), len(lines)), notes

    @repeated
    def _store(self, tenant: TenantId, fence: Fence, key: str, text: str) -> None:
        with MadeTextRows.opened(self.engine, tenant) as rows:
            rows.store_merged(fence, key, text)


def _instead(present: Sequence[Section], why: str) -> str:
    names = [_NAMES[section] for section in present]
    listed = f"{', '.join(names[:-1])} and {names[-1]}"
    return f"{listed[0].upper()}{listed[1:]} stand as they are, not merged: {why}."


def _document(
    about: str, sources: Sequence[Line], days: Mapping[Section, DayDigest | PeriodDigest], max_chars: int
) -> dict[str, object]:
    return {
        "about": about,
        "max_chars": max_chars,
        "facts": [
            {"number": number, "text": clipped(line.text.removeprefix("- "), SHOWN_CHARS)}
            for number, line in enumerate(sources, 1)
        ],
        **{name.value: clipped(days[of].text, SHOWN_CHARS) if of in days else "" for name, of in _SECTIONS.items()},
    }


def _checked(
    answer: MergedAnswer, sources: Sequence[Line], days: Mapping[Section, DayDigest | PeriodDigest], max_chars: int
) -> tuple[Line, ...]:
    """The sentences as lines. Raises ContentFault with a sentence for the model."""
    lines = []
    for each in answer.sentences:
        text = " ".join(clean(each.text).split())
        lines_read = numbered("facts", each.facts, sources)
        section = _SECTIONS.get(each.days)
        if section is not None and section not in days:
            raise ContentFault(f'"days" is "{each.days.value}", which is empty')
        if not text or not (each.facts or section):
            raise ContentFault("a sentence is empty, or names neither facts nor days")
        facts: dict[FactId, None] = dict.fromkeys(fact for line in lines_read for fact in line.facts)
        sentences = dict.fromkeys(sentence for line in lines_read for sentence in line.sentences)
        digest = "" if section is None else days[section].id
        lines.append(Line(text=text, facts=tuple(facts), sentences=tuple(sentences), digest=digest))
    check_length([line.text for line in lines], max_chars, "something is known")
    return tuple(lines)
