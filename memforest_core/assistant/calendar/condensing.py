"""One text of many: the texts of days become that of a week or a month, those of months that of a year."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pydantic import BaseModel, Field

from memforest_core.domain.delivery import CHARS_PER_TOKEN
from memforest_core.domain.extractive import summarize
from memforest_core.domain.rendering import one_line
from memforest_core.domain.text import clean, clipped
from memforest_core.errors import ContentFault
from memforest_core.ingest.refresh.records import SummarySource
from memforest_core.ingest.refresh.summarizer import OFFLINE_MODEL
from memforest_core.models.answers import DATA_ONLY, MODEL_FAILURES, in_words, parsed, repaired, request
from memforest_core.models.calls import CallRecord, ChatModel, Step
from memforest_core.models.prompts import instructions_with
from memforest_core.settings import CalendarSettings

GROUP_TEXTS = 60
"""Texts of days, months or years that one call condenses."""
GROUP_TOKENS = 2_000
"""Estimated tokens of these texts."""

_FRAME = """\
The user message is a JSON document: "when" is the time that it is about, "so_far" what the diary says of its first part
and may be empty, "then" the texts of what came after it, in order, each with its day, month or year. Write one text of
all, at most {budget} characters long, the most recent first. Invent nothing.
"""
"""What stays where an application brings instructions of its own; that all of it is data follows it."""

_SYSTEM = f"""\
You keep the diary of a conversation. It tells who did, said, planned and decided what, with names, places, numbers and
dates; what is newer replaces what it contradicts. Keep the language of the texts.

{_FRAME}"""


class _Reply(BaseModel):
    """The JSON object that is requested."""

    summary: str = Field(description="The text of the whole time, the most recent first.")


class DatedText(NamedTuple):
    """The text of a day, a month or a year."""

    when: str
    text: str

    @property
    def line(self) -> str:
        """Both, as one text."""
        return f"{self.when}: {self.text}"


@dataclass(frozen=True, slots=True)
class Condensed:
    """One text."""

    text: str
    source: SummarySource
    model: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Condenser:
    """Makes one text of many by a chat model, or by rules when there is none. Thread-safe."""

    chat: Callable[[], ChatModel] | None
    settings: CalendarSettings
    own: str | None = None
    """Instructions in place of the built-in ones."""

    def condense(
        self, when: str, texts: Sequence[DatedText], calls: list[CallRecord], *, model: bool = True
    ) -> Condensed:
        """One text of ``texts``, which come the newest first, as it does.

        Texts that fit together are joined. Others are read in groups, the oldest first, each with the summary so far.
        Calls to a model are added to ``calls``; without ``model`` there are none. A model that fails is no error:
        rules pick from the texts, and the source says so.
        """
        chat = self.chat if model else None
        name = OFFLINE_MODEL if chat is None else chat().model_name(Step.SUMMARIZE)
        whole = "\n".join(each.line for each in texts)
        if len(whole) <= self.settings.week_chars:
            return Condensed(whole, SummarySource.JOINED, name)
        if chat is None:
            return Condensed(self._picked(texts), SummarySource.EXTRACTIVE, name)
        try:
            text = ""
            for group in groups_of(texts, GROUP_TEXTS, GROUP_TOKENS * CHARS_PER_TOKEN):
                text = self._call_model(chat(), when, text, group, calls)
            return Condensed(text, SummarySource.MODEL, name)
        except MODEL_FAILURES as error:
            note = f"The text of {when} was picked by rules: {in_words(error.code)}."
            return Condensed(self._picked(texts), SummarySource.DEGRADED, OFFLINE_MODEL, (note,))

    def _picked(self, texts: Sequence[DatedText]) -> str:
        """Some of every text as long as there is room, so that no day crowds out the others."""
        shown = texts[: max(1, self.settings.week_chars // _SHORTEST)]
        share = self.settings.week_chars // len(shown) - 1
        lines = [
            DatedText(each.when, one_line(summarize([each.text], max(1, share - len(each.when) - 2)))).line
            for each in shown
        ]
        return clipped("\n".join(lines), self.settings.week_chars)

    def _call_model(
        self, chat: ChatModel, when: str, before: str, group: Sequence[DatedText], calls: list[CallRecord]
    ) -> str:
        document = {"when": when, "so_far": before, "then": [{"when": each.when, "text": each.text} for each in group]}

        def checked(reply: _Reply) -> str:
            text = clean(reply.summary).strip()
            if not text:
                raise ContentFault('"summary" is empty')
            return clipped(text, 2 * self.settings.week_chars)

        system = instructions_with(_SYSTEM, self.own, _FRAME).replace("{budget}", str(self.settings.week_chars))
        first = request(Step.SUMMARIZE, system + DATA_ONLY, document, _Reply, "period_summary")
        return repaired(chat, first, lambda text: checked(parsed(text, _Reply)), calls)[0]


_SHORTEST = 60
"""Characters of a text that is worth to be picked from."""


def groups_of(texts: Sequence[DatedText], most: int, most_chars: int) -> list[list[DatedText]]:
    """Texts, which come the newest first, in groups that one call each can read, the oldest first."""
    groups: list[list[DatedText]] = [[]]
    left = most_chars
    for each in reversed(texts):
        shown = DatedText(each.when, clipped(each.text, most_chars))
        if groups[-1] and (len(groups[-1]) == most or len(shown.line) > left):
            groups.append([])
            left = most_chars
        groups[-1].append(shown)
        left -= len(shown.line)
    return groups
