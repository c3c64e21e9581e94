"""One text for a session's first turns: the summary so far and what is new become the next summary, in one call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from pydantic import Field

from memforest_core.assistant.condensing import MAX_TEXT_CHARS, Condensed, Condenser, SummaryReply
from memforest_core.domain.extractive import summarize
from memforest_core.domain.text import clipped
from memforest_core.ingest.refresh.records import SummarySource
from memforest_core.models.calls import CallRecord, ChatModel

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


class _Reply(SummaryReply):
    """The JSON object that is requested."""

    summary: str = Field(description="The summary of the conversation so far.")


@dataclass(frozen=True, slots=True)
class Compactor(Condenser[str]):
    """Writes the summary of a session's first turns. Thread-safe."""

    built_in = _SYSTEM
    frame = _FRAME

    def compact(self, before: str, texts: Sequence[str], calls: list[CallRecord]) -> Condensed[str]:
        """The summary of ``before``, the summary so far, and ``texts``, what came after it, in order.

        Texts that fit together are joined without a model. Calls to a model are added to ``calls``. A model that
        fails is no error: rules pick from the texts, and the source says so.
        """
        whole = "\n".join(text for text in (before, *texts) if text)
        notes: list[str] = []

        def write(chat: ChatModel) -> str:
            shown, shortened = _bounded(texts)
            if shortened:
                notes.append(f"Rules shortened the oldest {shortened} texts before the model read them.")
            document = {"so_far": before, "then": shown}
            return self._call_model(chat, document, _Reply, self._summary, "window_summary", calls)

        joined = whole if len(whole) <= self.budget else None
        pick = partial(summarize, [before, *texts], self.budget)
        made = self._condensed("The summary of older turns", joined, pick, write)
        return replace(made, notes=tuple(notes)) if made.source is SummarySource.MODEL else made


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
