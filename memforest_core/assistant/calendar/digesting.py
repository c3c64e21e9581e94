"""What is written of a day, speaker by speaker: one call to a model for all of them, or rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from zoneinfo import ZoneInfo

from pydantic import BaseModel, Field

from memforest_core.assistant.calendar.days import Days
from memforest_core.assistant.calendar.records import DayTurn, SpeakerDigest
from memforest_core.assistant.condensing import MAX_TEXT_CHARS, Condensed, Condenser
from memforest_core.domain.delivery import CHARS_PER_TOKEN
from memforest_core.domain.extractive import summarize
from memforest_core.domain.text import clean, clipped
from memforest_core.domain.turns import Role
from memforest_core.errors import ContentFault
from memforest_core.ingest.refresh.records import SummarySource
from memforest_core.ingest.refresh.summarizer import OFFLINE_MODEL
from memforest_core.models.calls import CallRecord, ChatModel

MAX_TURNS = 2_000
"""Of a day are read at most."""
MAX_SPEAKERS = 30
"""Speakers of a day's digest, those who spoke most."""
DAY_TOKENS = 6_000
"""Estimated tokens of the turns that one call reads."""
DAY_CALLS = 4
"""Calls for a day that is longer than that; older turns are left out."""
_NAME_CHARS = 80

_FRAME = """\
The user message is a JSON document about one day: "speakers" are the people to write about, each with a number, a name
and, in "so_far", what the diary says of them already; "turns" is what was said after that, in order. Write for each
speaker, by number, one text of at most {budget} characters. Keep what "so_far" says. Invent nothing.
"""
"""What stays where an application brings instructions of its own; that all of it is data follows it."""

_SYSTEM = f"""\
You keep the diary of a conversation. It tells what people did, said, planned, felt and were told, in the third person,
with names, places, numbers and dates; what is newer replaces what it contradicts. Keep the language of the turns.

{_FRAME}"""


class _Digest(BaseModel):
    number: int = Field(description="The speaker's number.")
    text: str = Field(description="What the day was for this speaker.")


class _Reply(BaseModel):
    """The JSON object that is requested."""

    digests: list[_Digest] = Field(description="One for each speaker.")


@dataclass(frozen=True, slots=True)
class Speaker:
    """A speaker of a day, with the texts of the turns."""

    id: str
    name: str
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Digester(Condenser[tuple[SpeakerDigest, ...]]):
    """Writes digests of days. Thread-safe."""

    built_in = _SYSTEM
    frame = _FRAME

    def digest(
        self, days: Days, zone: ZoneInfo, turns: Sequence[DayTurn], total: int, calls: list[CallRecord]
    ) -> Condensed[tuple[SpeakerDigest, ...]]:
        """A text of each speaker of a day from its ``turns``, the newest of ``total``, in order.

        What every speaker said fits without a model where it is short. Calls to a model are added to ``calls``. A
        model that fails is no error: rules pick from what was said, and the source says so.
        """
        speakers = speakers_of(turns)
        whole = {each.id: "\n".join(each.texts) for each in speakers}
        fits = all(len(text) <= self.budget for text in whole.values())
        parts, unread = parts_of(turns, DAY_TOKENS * CHARS_PER_TOKEN, DAY_CALLS)

        def write(chat: ChatModel) -> tuple[SpeakerDigest, ...]:
            texts: dict[str, str] = {}
            for part in parts:
                texts |= self._read_part(chat, days, zone, speakers, texts, part, calls)
            return _digests(speakers, texts)

        joined, pick = _digests(speakers, whole) if fits else None, partial(self._picked, speakers)
        made = self._condensed(f"The digest of {days.first}", joined, pick, write)
        unread = unread if made.source is SummarySource.MODEL else 0
        return replace(made, left_out=total - len(turns) + unread)

    def by_rules(self, turns: Sequence[DayTurn], total: int) -> Condensed[tuple[SpeakerDigest, ...]]:
        """The same without a model."""
        picked = self._picked(speakers_of(turns))
        return Condensed(picked, SummarySource.EXTRACTIVE, OFFLINE_MODEL, left_out=total - len(turns))

    def _picked(self, speakers: Sequence[Speaker]) -> tuple[SpeakerDigest, ...]:
        return _digests(speakers, {each.id: summarize(each.texts, self.budget) for each in speakers})

    def _read_part(
        self,
        chat: ChatModel,
        days: Days,
        zone: ZoneInfo,
        speakers: Sequence[Speaker],
        before: Mapping[str, str],
        part: Sequence[DayTurn],
        calls: list[CallRecord],
    ) -> dict[str, str]:
        """The texts after one more part of the day, by the ids of speakers."""
        numbers = {each.id: number for number, each in enumerate(speakers, 1)}
        document = {
            "day": days.label,
            "speakers": [
                {"number": numbers[each.id], "name": each.name, "so_far": before.get(each.id, "")} for each in speakers
            ],
            "turns": [
                {
                    "at": f"{turn.occurred_at.astimezone(zone):%H:%M}",
                    "by": numbers.get(turn.speaker_id, turn.name[:_NAME_CHARS]),
                    "text": turn.text,
                }
                for turn in part
            ],
        }

        def checked(reply: _Reply) -> dict[str, str]:
            said = {each.number: clean(each.text).strip() for each in reply.digests}
            if set(said) != set(numbers.values()) or len(said) != len(reply.digests):
                raise ContentFault(f'"digests" must have each number from 1 to {len(speakers)} once')
            if not any(said.values()):
                raise ContentFault("all texts are empty")
            # Part of a long day may have nothing of a speaker.
            new = {each.id: said[numbers[each.id]] or before.get(each.id, "") for each in speakers}
            return {id_: clipped(text, 2 * self.budget) for id_, text in new.items()}

        return self._call_model(chat, document, _Reply, checked, "day_digests", calls)


def speakers_of(turns: Sequence[DayTurn]) -> list[Speaker]:
    """The speakers of a day's digest, the one who spoke most first: people, or all where no human spoke."""
    said = [turn for turn in turns if turn.role is Role.USER] or list(turns)
    counts = Counter(turn.speaker_id for turn in said)
    names = {turn.speaker_id: turn.name for turn in said}
    return [
        Speaker(
            id_,
            names[id_][:_NAME_CHARS],
            tuple(clipped(turn.text, MAX_TEXT_CHARS) for turn in said if turn.speaker_id == id_),
        )
        for id_, _ in counts.most_common(MAX_SPEAKERS)
    ]


def parts_of(turns: Sequence[DayTurn], most_chars: int, most: int) -> tuple[list[list[DayTurn]], int]:
    """Turns in parts that one call each can read, in order, and how many of the oldest are in none of them."""
    parts: list[list[DayTurn]] = [[]]
    left, read = most_chars, 0
    for turn in reversed(turns):
        cost = len(turn.text) + _NAME_CHARS
        if cost > left and parts[0]:
            if len(parts) == most:
                break
            parts.insert(0, [])
            left = most_chars
        parts[0].insert(0, turn)
        left -= cost
        read += 1
    return parts, len(turns) - read


def _digests(speakers: Sequence[Speaker], texts: Mapping[str, str]) -> tuple[SpeakerDigest, ...]:
    return tuple(
        SpeakerDigest(each.id, each.name, texts[each.id], len(each.texts)) for each in speakers if texts[each.id]
    )
