"""Profile, today and the days before as one text, by a chat model: facts first.

The text is stored under the hash of all that it is made from, one row a person in ``summary_cache``, so that any
deletion from the memory drops it. The row is there before anything is read, with a fence: a text whose sources were
read before a deletion finds another fence, or none, and is not stored.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from pydantic import BaseModel, ValidationError

from memforest_core.assistant.checked_calls import CheckedCalls
from memforest_core.assistant.context.portraits import Line, Portrait
from memforest_core.assistant.context.records import DayText, Section
from memforest_core.assistant.context.rows import ContextRows, Fence
from memforest_core.domain.ids import FactId, TenantId
from memforest_core.domain.text import clean, clipped
from memforest_core.errors import ContentFault, StoreUnavailable
from memforest_core.store.engine import Engine
from memforest_core.store.repeating import repeated

VERSION = 1
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

    def fence(self, tenant: TenantId, owner: str, person: str) -> Fence | None:
        """The row of a person's merged text, to be read before what it is made from; None when nothing is merged, or
        the memory is being written. ``person`` is as the caller names them. Raises StoreUnavailable."""
        return self._fence(tenant, owner, person) if self.enabled and self.calls.possible else None

    @repeated
    def _fence(self, tenant: TenantId, owner: str, person: str) -> Fence | None:
        with ContextRows.opened(self.engine, tenant) as rows:
            return rows.fence(owner, person, VERSION)

    def merged(
        self,
        tenant: TenantId,
        fence: Fence | None,
        about: str,
        portrait: Portrait,
        days: Mapping[Section, DayText],
        max_chars: int,
    ) -> tuple[Portrait | None, list[str]]:
        """A portrait whose sentences tell the days too, and sentences about what was unavailable.

        None instead of it when nothing is to be merged, or no model does it: then profile, today and the days before
        stand as they are, in this order, and a sentence says so. Facts that came since a model wrote the profile stay
        a list below. Raises StoreUnavailable.
        """
        present = [section for section in _NAMES if section in days or (section is Section.PROFILE and portrait.lines)]
        if not self.enabled or len(present) < ONE_TEXT:
            return None, []
        if not self.calls.possible:
            return None, [_instead(present, "no chat model is configured")]
        if portrait.degraded:
            return None, [_instead(present, "the model did not write the profile")]
        if fence is None:
            return None, [_instead(present, "the memory was being written")]
        sources = portrait.lines[: portrait.written] or portrait.lines
        below = portrait.lines[len(sources) :]
        document = _document(about, sources, days, max_chars)
        key = _key(self.calls.model, document, sources)

        def check(answer: MergedAnswer) -> tuple[MergedAnswer, tuple[Line, ...]]:
            return answer, _checked(answer, sources, days, max_chars)

        stored = _parsed(fence.text) if fence.hash == key else None
        if stored is not None:
            return _portrait(check(stored)[1], below), []
        answered, why = self.calls.answer(tenant, fence.forest, _SYSTEM, document, MergedAnswer, check, "merged")
        if answered is None:
            return None, [_instead(present, why)]
        answer, lines = answered
        notes = []
        try:
            self._store(tenant, fence, key, answer.model_dump_json())
        except StoreUnavailable:
            notes.append("The merged text could not be stored: Postgres was busy or unavailable.")
        return _portrait(lines, below), notes

    @repeated
    def _store(self, tenant: TenantId, fence: Fence, key: str, text: str) -> None:
        with ContextRows.opened(self.engine, tenant) as rows:
            rows.store_merged(fence, key, text)


def _instead(present: Sequence[Section], why: str) -> str:
    names = [_NAMES[section] for section in present]
    listed = f"{', '.join(names[:-1])} and {names[-1]}"
    return f"{listed[0].upper()}{listed[1:]} stand as they are, not merged: {why}."


def _document(
    about: str, sources: Sequence[Line], days: Mapping[Section, DayText], max_chars: int
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


def _key(model: str, document: Mapping[str, object], sources: Sequence[Line]) -> str:
    """The hash of all that the text is made of, hexadecimal."""
    facts = [[str(fact) for fact in line.facts] for line in sources]
    return hashlib.sha256(json.dumps([VERSION, _SYSTEM, model, document, facts], sort_keys=True).encode()).hexdigest()


def _parsed(text: str) -> MergedAnswer | None:
    """A text that was stored, if this program wrote it."""
    try:
        return MergedAnswer.model_validate_json(text)
    except ValidationError:
        return None


def _checked(
    answer: MergedAnswer, sources: Sequence[Line], days: Mapping[Section, DayText], max_chars: int
) -> tuple[Line, ...]:
    """The sentences as lines. Raises ContentFault with a sentence for the model."""
    lines = []
    for each in answer.sentences:
        text = " ".join(clean(each.text).split())
        unknown = [number for number in each.facts if not 1 <= number <= len(sources)]
        if unknown:
            raise ContentFault(f'"facts" names {unknown[0]}, which was not shown')
        section = _SECTIONS.get(each.days)
        if section is not None and section not in days:
            raise ContentFault(f'"days" is "{each.days.value}", which is empty')
        if not text or not (each.facts or section):
            raise ContentFault("a sentence is empty, or names neither facts nor days")
        lines_read = [sources[number - 1] for number in each.facts]
        facts: dict[FactId, None] = dict.fromkeys(fact for line in lines_read for fact in line.facts)
        sentences = dict.fromkeys(sentence for line in lines_read for sentence in line.sentences)
        digest = "" if section is None else days[section].id
        lines.append(Line(text=text, facts=tuple(facts), sentences=tuple(sentences), digest=digest))
    if not lines:
        raise ContentFault('"sentences" is empty although something is known')
    if sum(len(line.text) + 1 for line in lines) > max_chars + 1:
        raise ContentFault(f"the sentences have more than {max_chars} characters in all: say less")
    return tuple(lines)


def _portrait(lines: tuple[Line, ...], below: tuple[Line, ...]) -> Portrait:
    return Portrait((*lines, *below), len(lines))
