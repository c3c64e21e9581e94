"""Condenses texts for the calendar and the conversation window: joined where they fit, by a chat model, or by rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

from pydantic import BaseModel

from memforest_core.domain.text import clean, clipped
from memforest_core.errors import ContentFault
from memforest_core.ingest.refresh.records import SummarySource
from memforest_core.ingest.refresh.summarizer import OFFLINE_MODEL
from memforest_core.models.answers import DATA_ONLY, MODEL_FAILURES, Checked, in_words, parsed, repaired, request
from memforest_core.models.calls import CallRecord, ChatModel, Step
from memforest_core.models.prompts import instructions_with
from memforest_core.models.reading import Shape

MAX_TEXT_CHARS = 1_200
"""Of one turn, as refresh shows a leaf to a model."""
T = TypeVar("T")


class SummaryReply(BaseModel):
    """An answer of one text."""

    summary: str


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
    """Turns of a day that were too many, the oldest ones."""


@dataclass(frozen=True, slots=True)
class Condenser(Generic[T]):
    """Condenses by a chat model, or by rules when there is none. Thread-safe."""

    chat: Callable[[], ChatModel] | None
    budget: int
    """Characters of a text."""
    own: str | None = None
    """Instructions in place of the built-in ones."""

    built_in: ClassVar[str]
    frame: ClassVar[str]

    def _condensed(
        self, what: str, joined: T | None, pick: Callable[[], T], write: Callable[[ChatModel], T], *, model: bool = True
    ) -> Condensed[T]:
        """``joined`` if the texts fit together, else what ``write`` gets from the model, or what rules ``pick``.

        A model that fails is no error: rules pick, and the source and a note about ``what`` say so.
        """
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

    def _call_model(
        self,
        chat: ChatModel,
        document: Mapping[str, object],
        shape: type[Shape],
        check: Callable[[Shape], Checked],
        name: str,
        calls: list[CallRecord],
    ) -> Checked:
        """The checked answer to a document; see ``checked_call``."""
        system = instructions_with(self.built_in, self.own, self.frame).replace("{budget}", str(self.budget))
        return checked_call(chat, Step.SUMMARIZE, system, document, shape, check, name, calls)

    def _summary(self, reply: SummaryReply) -> str:
        """The text of an answer. Raises ContentFault with a sentence for the model."""
        text = clean(reply.summary).strip()
        if not text:
            raise ContentFault('"summary" is empty')
        return clipped(text, 2 * self.budget)


def checked_call(
    chat: ChatModel,
    step: Step,
    system: str,
    document: Mapping[str, object],
    shape: type[Shape],
    check: Callable[[Shape], Checked],
    name: str,
    calls: list[CallRecord],
    temperature: float | None = None,
) -> Checked:
    """What ``check`` makes of a model's answer to a document of untrusted data. Each call is added to ``calls``.

    ``check`` raises ContentFault with a sentence for the model; a second try shows it. ``name`` is that of the schema.
    Raises what ``MODEL_FAILURES`` lists.
    """
    first = request(step, system + DATA_ONLY, document, shape, name, temperature=temperature)

    def read(text: str) -> Checked:
        return check(parsed(text, shape))

    return repaired(chat, first, read, calls)[0]
