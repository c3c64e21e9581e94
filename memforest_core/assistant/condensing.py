"""One condenser of texts: of days, longer times and sessions; joined where they fit, by a chat model, or by rules."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Generic, NamedTuple, TypeVar
from zoneinfo import ZoneInfo

from pydantic import BaseModel, Field

from memforest_core.assistant.calendar.day_speakers import (
    NAME_CHARS,
    DayWords,
    Speaker,
    answered,
    in_batches,
    newest_of_each,
    speakers_of,
)
from memforest_core.assistant.calendar.records import Days, DayTurn, SpeakerDigest
from memforest_core.assistant.checked_calls import checked_call
from memforest_core.domain.delivery import CHARS_PER_TOKEN
from memforest_core.domain.extractive import summarize
from memforest_core.domain.people import People
from memforest_core.domain.rendering import one_line
from memforest_core.domain.text import clean, clipped
from memforest_core.errors import ContentFault
from memforest_core.ingest.refresh.records import SummarySource
from memforest_core.ingest.refresh.summarizer import OFFLINE_MODEL
from memforest_core.models.answers import MODEL_FAILURES, in_words, instructions_with
from memforest_core.models.calls import CallRecord, ChatModel, Step

MAX_TEXT_CHARS = 1_200
"""Of one turn, as refresh shows a leaf to a model."""
MAX_TURNS = 2_000
"""Of a day are read at most."""
DAY_TOKENS = 6_000
"""Estimated tokens of the turns that one call reads."""
DAY_CALLS = 4
"""Calls for the turns of some speakers that are longer than that; older turns of those who said most are left out."""
GROUP_TOKENS = 2_000
"""Estimated tokens of the texts of days, months or years that one call condenses."""
MAX_INPUT_CHARS = 24_000
"""Of all that one call reads, about 6,000 tokens: a session that was never compacted may have thousands of turns."""
_SHORTENED_CHARS = 6_000
"""Of these, for the oldest turns when there are too many."""
COMPACT_TURNS = 12
"""Turns without a summary that are compacted, but the last ones."""
_ENDED = re.compile(r'[.!?…。！？]["”»)]*$')
_SHORTEST = 60
"""Characters of a text that is worth to be picked from."""

DAY_FRAME = """\
The user message is a JSON document about one day: "speakers" are the people to write about, each with a number, a name
and, in "so_far", what the diary says of them already; "turns" is what was said after that, in order: "by" is the number
of the speaker, or the name of another one, and "about" has the numbers of those whom the turn mentions or answers.
Write for each speaker, by number, one text of at most {budget} characters, from the turns by them and about them alone:
nothing of one speaker belongs in the text of another. What others said of a speaker is marked with who said it. Keep
what "so_far" says. Invent nothing.
"""
"""What stays where an application brings instructions of its own, as for the others; that all of it is data follows."""
DAY_SYSTEM = f"""\
You keep the diary of a conversation, person by person. It tells events (what the person did, said, planned and was
told), mood, interactions with others, patterns, and trends, in the third person, with names, places, numbers and dates;
what is newer replaces what it contradicts. Keep the language of the turns.

{DAY_FRAME}"""

PERIOD_FRAME = """\
The user message is a JSON document: "when" is the time that it is about, "about" the only person whom it is about, or
empty for everybody, "so_far" what the diary says of its first part and may be empty, "then" the texts of what came
after it, in order, each with its day, month or year. Write one text of all, at most {budget} characters long, the most
recent first. What others said of a person stays marked with who said it, and so does what an assistant named, decided
or planned. Invent nothing.
"""
PERIOD_SYSTEM = f"""\
You keep the diary of a conversation. It tells who did, said, planned and decided what, with names, places, numbers and
dates, how they felt, and what is a pattern or a trend; what is newer replaces what it contradicts. Keep the language of
the texts.

{PERIOD_FRAME}"""

WINDOW_FRAME = """\
The user message is a JSON document: "so_far" is the summary of the first part of a conversation and may be empty,
"then" what was said after it, in order, as turns or summaries of turns. Write one summary of both, at most {budget}
characters long. Invent nothing. The answer is {"summary": "..."}.
"""
WINDOW_SYSTEM = f"""\
You keep the summary of a conversation that is going on. It keeps names, dates, numbers, places, decisions, open
questions and changes of state in their order; what is newer replaces what it contradicts. Keep the language of the
texts.

{WINDOW_FRAME}"""

T = TypeVar("T")


class SummaryReply(BaseModel):
    """The JSON object that is requested for one text."""

    summary: str = Field(description="The one text of all.")


class _Digest(BaseModel):
    number: int = Field(description="The speaker's number.")
    text: str = Field(description="What the day was for this speaker.")


class DigestReply(BaseModel):
    """The JSON object that is requested for a day."""

    digests: list[_Digest] = Field(description="One for each speaker.")


class DatedText(NamedTuple):
    """The text of a day, a month or a year."""

    when: str
    text: str

    @property
    def line(self) -> str:
        """Both, as one text."""
        return f"{self.when}: {self.text}"


@dataclass(frozen=True, slots=True)
class Condensed(Generic[T]):
    """What a condenser made of texts."""

    text: T
    """One text; of a day one of each speaker."""
    source: SummarySource
    model: str
    notes: tuple[str, ...] = ()
    """One sentence for each part that was done without the model."""
    left_out: int = 0
    """Turns of a day that were too many, the oldest ones of those who said most."""


@dataclass(frozen=True, slots=True)
class Condenser:
    """Condenses by a chat model, or by rules when there is none. Thread-safe.

    Texts that fit together are joined without a model. Calls to a model are added to ``calls``; without ``model`` there
    are none. A model that fails is no error: rules pick from the texts, and the source and a note say so.
    """

    chat: Callable[[], ChatModel] | None
    budget: int
    """Characters of a text."""
    own: str | None = None
    """Instructions in place of the built-in ones."""

    def digest(
        self,
        days: Days,
        zone: ZoneInfo,
        turns: Sequence[DayTurn],
        total: int,
        people: People,
        calls: list[CallRecord],
        *,
        model: bool = True,
    ) -> Condensed[tuple[SpeakerDigest, ...]]:
        """A text of each speaker of a day from its ``turns``, the newest of each of ``total``, in order.

        A model writes of ``BATCH`` speakers a call. Sentences with words of others alone are left out; of somebody of
        whom no sentence is left rules pick.
        """
        speakers = speakers_of(turns, people)
        whole = tuple(each.joined() for each in speakers)
        numbers_read: set[int] = set()

        def write(chat: ChatModel) -> tuple[SpeakerDigest, ...]:
            texts: dict[str, str] = {}
            words = DayWords(turns, people)
            batches = in_batches(speakers, len(_parts(turns, range(len(turns)))))
            of_nobody = set(range(len(turns))).difference(*(each.turns for each in speakers))
            for batch in batches:
                about, of_nobody = of_nobody.union(*(each.turns for each in batch)), set()
                for part in _parts_read(turns, newest_of_each(batch, about)):
                    numbers_read.update(part)
                    shown = [(at, turns[at]) for at in part]
                    texts |= self._read_part(chat, days, zone, batch, texts, shown, words, calls)
            return tuple(
                each.digest(texts[each.id]) if texts[each.id] else replace(each.picked(self.budget), picked=True)
                for each in speakers
            )

        def pick() -> tuple[SpeakerDigest, ...]:
            return tuple(each.picked(self.budget) for each in speakers)

        fits = model and all(len(each.text) + len(each.others) <= self.budget for each in whole)
        made = self._condensed(f"The digest of {days.first}", whole if fits else None, pick, write, model=model)
        read = len(numbers_read) if made.source is SummarySource.MODEL else len(turns)
        return replace(made, text=(*made.text, *answered(turns, self.budget)), left_out=max(0, total - read))

    def condense(
        self, when: str, texts: Sequence[DatedText], calls: list[CallRecord], *, about: str = "", model: bool = True
    ) -> Condensed[str]:
        """One text of a time from ``texts`` of its parts, which come the newest first, as it does; ``about`` names the
        person, empty for everybody.

        They are read in groups, the oldest first, each with the summary so far.
        """
        most = GROUP_TOKENS * CHARS_PER_TOKEN
        shown = [DatedText(each.when, clipped(each.text, most)) for each in reversed(texts)]

        def write(chat: ChatModel) -> str:
            text = ""
            for group in in_parts(shown, lambda each: len(each.line), most):
                document = {"when": when, "about": about, "so_far": text, "then": [each._asdict() for each in group]}
                text = self._summary(chat, PERIOD_SYSTEM, PERIOD_FRAME, document, "period_summary", calls)
            return text

        whole = "\n".join(each.line for each in texts)
        joined = whole if len(whole) <= self.budget else None
        return self._condensed(f"The text of {when}", joined, partial(self._picked, texts), write, model=model)

    def compact(self, before: str, texts: Sequence[str], calls: list[CallRecord]) -> Condensed[str]:
        """The summary of ``before``, the summary of a session so far, and ``texts``, what came after it, in order."""
        notes: list[str] = []

        def write(chat: ChatModel) -> str:
            shown, shortened = _bounded(texts)
            if shortened:
                notes.append(f"Rules shortened the oldest {shortened} texts before the model read them.")
            document = {"so_far": before, "then": shown}
            return self._summary(chat, WINDOW_SYSTEM, WINDOW_FRAME, document, "window_summary", calls)

        whole = "\n".join(text for text in (before, *texts) if text)
        joined = whole if len(whole) <= self.budget else None
        pick = partial(summarize, [before, *texts], self.budget)
        made = self._condensed("The summary of older turns", joined, pick, write)
        return replace(made, notes=tuple(notes)) if made.source is SummarySource.MODEL else made

    def _condensed(
        self, what: str, joined: T | None, pick: Callable[[], T], write: Callable[[ChatModel], T], *, model: bool = True
    ) -> Condensed[T]:
        """``joined`` if the texts fit together, else what ``write`` gets from the model, or what rules ``pick``."""
        chat = None if self.chat is None or not model else self.chat()
        name = OFFLINE_MODEL if chat is None else chat.model_name(Step.SUMMARIZE)
        if joined is not None:
            return Condensed(joined, SummarySource.JOINED, name)
        if chat is None:
            return Condensed(pick(), SummarySource.EXTRACTIVE, name)
        try:
            return Condensed(write(chat), SummarySource.MODEL, name)
        except MODEL_FAILURES as error:
            note = f"{what} was picked by rules: {in_words(error.code)}."
            return Condensed(pick(), SummarySource.DEGRADED, OFFLINE_MODEL, (note,))

    def _system(self, built_in: str, frame: str) -> str:
        return instructions_with(built_in, self.own, frame).replace("{budget}", str(self.budget))

    def _summary(
        self,
        chat: ChatModel,
        built_in: str,
        frame: str,
        document: Mapping[str, object],
        name: str,
        calls: list[CallRecord],
    ) -> str:
        def checked(reply: SummaryReply) -> str:
            text = clean(reply.summary).strip()
            if not text:
                raise ContentFault('"summary" is empty')
            return clipped(text, 2 * self.budget)

        system = self._system(built_in, frame)
        return checked_call(chat, Step.SUMMARIZE, system, document, SummaryReply, checked, name, calls)

    def _read_part(
        self,
        chat: ChatModel,
        days: Days,
        zone: ZoneInfo,
        speakers: Sequence[Speaker],
        before: Mapping[str, str],
        part: Sequence[tuple[int, DayTurn]],
        words: DayWords,
        calls: list[CallRecord],
    ) -> dict[str, str]:
        """The texts after one more part of the day, by the ids of speakers."""
        numbers = {each.id: number for number, each in enumerate(speakers, 1)}
        by = {at: numbers[each.id] for each in speakers for at in each.own}
        document = {
            "day": days.label,
            "speakers": [
                {"number": numbers[each.id], "name": each.name, "so_far": before.get(each.id, "")} for each in speakers
            ],
            "turns": [
                {
                    "at": f"{turn.occurred_at.astimezone(zone):%H:%M}",
                    "by": by.get(at, turn.name[:NAME_CHARS]),
                    "about": [numbers[each.id] for each in speakers if at in each.about],
                    "text": words.shown[at],
                }
                for at, turn in part
            ],
        }

        def checked(reply: DigestReply) -> dict[str, str]:
            said = {each.number: clean(each.text).strip() for each in reply.digests}
            if set(said) != set(numbers.values()) or len(said) != len(reply.digests):
                raise ContentFault(f'"digests" must have each number from 1 to {len(speakers)} once')
            own = {each.id: words.without_others(each, said[numbers[each.id]]) for each in speakers}
            if not any(own.values()):
                raise ContentFault("all texts are empty, or have words that only others said")
            # Part of a long day may have nothing of a speaker.
            return {id_: clipped(text or before.get(id_, ""), 2 * self.budget) for id_, text in own.items()}

        system = self._system(DAY_SYSTEM, DAY_FRAME)
        return checked_call(chat, Step.SUMMARIZE, system, document, DigestReply, checked, "day_digests", calls)

    def _picked(self, texts: Sequence[DatedText]) -> str:
        """Some of every text as long as there is room, so that no day crowds out the others."""
        shown = texts[: max(1, self.budget // _SHORTEST)]
        share = self.budget // len(shown) - 1
        lines = [
            DatedText(each.when, _with_gaps(summarize([each.text], most), most)).line
            for each in shown
            for most in [max(1, share - len(each.when) - 2)]
        ]
        return clipped("\n".join(lines), self.budget)


def _with_gaps(text: str, most: int) -> str:
    """Lines as one line of at most ``most`` characters: "…" where one has no end, so that none runs into the next."""
    ended = [line if _ENDED.search(line) else f"{line} …" for line in text.splitlines()]
    whole = one_line(" ".join(ended))
    return whole if len(whole) <= most else f"{clipped(whole, most - 2)} …"


def in_parts(items: Sequence[T], chars: Callable[[T], int], most_chars: int) -> list[list[T]]:
    """Items in parts that one call each can read, in order: the last part is filled first."""
    parts: list[list[T]] = []
    left = 0
    for item in reversed(items):
        if not parts or chars(item) > left:
            parts.insert(0, [])
            left = most_chars
        parts[0].insert(0, item)
        left -= chars(item)
    return parts


def _parts(turns: Sequence[DayTurn], numbers: Sequence[int]) -> list[list[int]]:
    """Numbers of turns in parts that one call each can read."""
    return in_parts(numbers, lambda at: len(turns[at].text) + NAME_CHARS, DAY_TOKENS * CHARS_PER_TOKEN)


def _parts_read(turns: Sequence[DayTurn], numbers: Sequence[int]) -> list[list[int]]:
    """The first ones of these turns that ``DAY_CALLS`` calls can read, in parts of one call each, in order."""
    fits = len(numbers)
    while len(parts := _parts(turns, sorted(numbers[:fits]))) > DAY_CALLS:
        fits = min(fits - 1, fits * DAY_CALLS // len(parts) + 1)
    return parts


def _bounded(texts: Sequence[str]) -> tuple[list[str], int]:
    """What one call can read, and how many of the oldest texts were shortened to one for that."""
    cut = [clipped(text, MAX_TEXT_CHARS) for text in texts]
    if sum(map(len, cut)) <= MAX_INPUT_CHARS:
        return cut, 0
    last = in_parts(cut, len, MAX_INPUT_CHARS - _SHORTENED_CHARS)[-1]
    first = len(cut) - len(last)
    return [summarize(cut[:first], _SHORTENED_CHARS), *last], first
