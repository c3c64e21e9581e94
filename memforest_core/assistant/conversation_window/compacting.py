"""One text for a session's first turns: the summary so far and what is new become the next summary, in one call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pydantic import BaseModel, Field

from memforest_core.domain.extractive import summarize
from memforest_core.domain.text import clean, clipped
from memforest_core.errors import ContentFault
from memforest_core.ingest.refresh.records import SummarySource
from memforest_core.ingest.refresh.summarizer import OFFLINE_MODEL
from memforest_core.models.answers import DATA_ONLY, MODEL_FAILURES, in_words, parsed, repaired, request
from memforest_core.models.calls import CallRecord, ChatModel, Step
from memforest_core.models.prompts import instructions_with

MAX_TEXT_CHARS = 1_200
"""Of one turn, as refresh shows a leaf to a model."""
MAX_INPUT_CHARS = 24_000
"""Of all that one call reads, about 6,000 tokens: a session that was never compacted may have thousands of turns."""
_SHORTENED_CHARS = 6_000
"""Of these, for the oldest turns when there are too many."""

COMPACT_TURNS = 12
"""Turns without a summary that are compacted, but the last ones."""

_FRAME = """\
The user message is a JSON document: "so_far" is the summary of the first part of a conversation and may be empty,
"then" what was said after it, in order, as turns or summaries of turns. Write one summary of both, at most {budget}
characters long. Invent nothing. The answer is {"summary": "..."}.
"""
"""What stays where an application brings instructions of its own; that all of it is data follows it."""

_SYSTEM = f"""\
You keep the summary of a conversation that is going on. It keeps names, dates, numbers, places, decisions, open
questions and changes of state in their order; what is newer replaces what it contradicts. Keep the language of the
texts.

{_FRAME}"""


class _Reply(BaseModel):
    """The JSON object that is requested."""

    summary: str = Field(description="The summary of the conversation so far.")


@dataclass(frozen=True, slots=True)
class Compacted:
    """A text for a session's first turns."""

    text: str
    source: SummarySource
    model: str
    notes: tuple[str, ...] = ()
    """One sentence for each part that was done without the model."""


@dataclass(frozen=True, slots=True)
class Compactor:
    """Writes summaries by a chat model, or by rules when there is none. Thread-safe."""

    chat: Callable[[], ChatModel] | None
    budget: int
    """Characters of a summary."""
    own: str | None = None
    """Instructions in place of the built-in ones."""

    def compact(self, before: str, texts: Sequence[str], calls: list[CallRecord]) -> Compacted:
        """The summary of ``before``, the summary so far, and ``texts``, what came after it, in order.

        Texts that fit together are joined without a model. Calls to a model are added to ``calls``. A model that
        fails is no error: rules pick from the texts, and the source says so.
        """
        whole = "\n".join(text for text in (before, *texts) if text)
        model = OFFLINE_MODEL if self.chat is None else self.chat().model_name(Step.SUMMARIZE)
        if len(whole) <= self.budget:
            return Compacted(whole, SummarySource.JOINED, model)
        if self.chat is None:
            return Compacted(summarize([before, *texts], self.budget), SummarySource.EXTRACTIVE, model)
        shown, shortened = _bounded(texts)
        notes = (f"Rules shortened the oldest {shortened} texts before the model read them.",) if shortened else ()
        try:
            return Compacted(self._call_model(self.chat(), before, shown, calls), SummarySource.MODEL, model, notes)
        except MODEL_FAILURES as error:
            note = f"The summary of older turns was picked by rules: {in_words(error.code)}."
            picked = summarize([before, *texts], self.budget)
            return Compacted(picked, SummarySource.DEGRADED, OFFLINE_MODEL, (note,))

    def _call_model(self, chat: ChatModel, before: str, texts: Sequence[str], calls: list[CallRecord]) -> str:
        document = {"so_far": before, "then": list(texts)}
        system = instructions_with(_SYSTEM, self.own, _FRAME).replace("{budget}", str(self.budget)) + DATA_ONLY
        first = request(Step.SUMMARIZE, system, document, _Reply, "window_summary")
        return repaired(chat, first, self._checked, calls)[0]

    def _checked(self, reply: str) -> str:
        text = clean(parsed(reply, _Reply).summary).strip()
        if not text:
            raise ContentFault('"summary" is empty')
        return clipped(text, 2 * self.budget)


def _bounded(texts: Sequence[str]) -> tuple[list[str], int]:
    """What one call can read, and how many of the oldest texts were shortened to one for that."""
    cut = [clipped(text, MAX_TEXT_CHARS) for text in texts]
    if sum(map(len, cut)) <= MAX_INPUT_CHARS:
        return cut, 0
    left, first = MAX_INPUT_CHARS - _SHORTENED_CHARS, len(cut)
    while first and len(cut[first - 1]) <= left:
        first -= 1
        left -= len(cut[first])
    return [summarize(cut[:first], _SHORTENED_CHARS), *cut[first:]], first
