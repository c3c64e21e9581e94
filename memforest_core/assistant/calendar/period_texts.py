"""One text of many: the texts of days become that of a week or a month, those of months that of a year."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from pydantic import Field

from memforest_core.assistant.condensing import Condensed, Condenser, SummaryReply
from memforest_core.domain.delivery import CHARS_PER_TOKEN
from memforest_core.domain.extractive import summarize
from memforest_core.domain.rendering import one_line
from memforest_core.domain.text import clipped
from memforest_core.models.calls import CallRecord, ChatModel

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


class _Reply(SummaryReply):
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
class PeriodCondenser(Condenser[str]):
    """Makes one text of a time from the texts of its parts. Thread-safe."""

    built_in = _SYSTEM
    frame = _FRAME

    def condense(
        self, when: str, texts: Sequence[DatedText], calls: list[CallRecord], *, model: bool = True
    ) -> Condensed[str]:
        """One text of ``texts``, which come the newest first, as it does.

        Texts that fit together are joined. Others are read in groups, the oldest first, each with the summary so far.
        Calls to a model are added to ``calls``; without ``model`` there are none. A model that fails is no error:
        rules pick from the texts, and the source says so.
        """
        whole = "\n".join(each.line for each in texts)

        def write(chat: ChatModel) -> str:
            text = ""
            for group in groups_of(texts, GROUP_TEXTS, GROUP_TOKENS * CHARS_PER_TOKEN):
                then = [each._asdict() for each in group]
                document = {"when": when, "so_far": text, "then": then}
                text = self._call_model(chat, document, _Reply, self._summary, "period_summary", calls)
            return text

        joined = whole if len(whole) <= self.budget else None
        return self._condensed(f"The text of {when}", joined, partial(self._picked, texts), write, model=model)

    def _picked(self, texts: Sequence[DatedText]) -> str:
        """Some of every text as long as there is room, so that no day crowds out the others."""
        shown = texts[: max(1, self.budget // _SHORTEST)]
        share = self.budget // len(shown) - 1
        lines = [
            DatedText(each.when, one_line(summarize([each.text], max(1, share - len(each.when) - 2)))).line
            for each in shown
        ]
        return clipped("\n".join(lines), self.budget)


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
