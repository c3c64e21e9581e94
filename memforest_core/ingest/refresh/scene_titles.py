"""Titles of scenes: a chat model's at some sizes, else the most telling terms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pydantic import BaseModel

from memforest_core.domain.indexed import TermCounts
from memforest_core.domain.text import clean, clipped
from memforest_core.domain.titles import TITLE_CHARS, title_from_terms
from memforest_core.errors import ContentFault, ContentRefused, ContextTooLong
from memforest_core.ingest.refresh.records import ReadyNode, Title, TitleSource
from memforest_core.models.answers import DATA_ONLY, MODEL_FAILURES, bare_schema, parsed, repaired, request
from memforest_core.models.calls import CallRecord, ChatModel, Step

SHOWN_TEXTS = 6
"""Texts that the model is shown, spread over the scene's time."""
SHOWN_CHARS = 100
"""Of each of them."""

_SYSTEM = f"""\
You name a topic of somebody's memory. The user message is JSON: the topic's "domain", if known, and "texts", its facts
in the order of time. "title": two to six words, at most {TITLE_CHARS} characters, in the language of the texts, that
tell it from the same person's other topics; no quotation marks, no full stop, nothing invented.
"""


class TitleAnswer(BaseModel):
    """The shape of an answer, before it is checked."""

    title: str


@dataclass(frozen=True, slots=True)
class Titles:
    """Makes titles of scenes. Thread-safe."""

    chat: ChatModel | None = None
    """The model of the step ``summarize``; None: titles are made of terms."""
    sizes: tuple[int, ...] = ()
    """A scene's title is requested when it has so many facts, once for each of these numbers."""

    def title(self, node: ReadyNode, others: Sequence[TermCounts], calls: list[CallRecord]) -> Title | None:
        """The title that the scene below this root gets; None when the one it has stays.

        ``others`` are the terms of other scenes. A model that fails is no error: an earlier title of its own stays, and
        without one the terms stand in, marked. Calls are added to ``calls``.
        """
        texts = [child.text for child in node.children if child.text]
        if not texts:
            return None
        size, held = sum(child.leaves for child in node.children), node.title
        if self.chat is not None and self._is_due(held, size):
            try:
                return Title(_requested(self.chat, node, texts, calls), size, TitleSource.MODEL)
            except MODEL_FAILURES as error:
                # An unavailable model is called again soon; one that can't name these texts, at the next size.
                answered = size if isinstance(error, (ContentFault, ContextTooLong, ContentRefused)) else 0
            if held is not None and held.source is TitleSource.MODEL:
                return Title(held.text, answered, held.source) if answered else None
            return Title(title_from_terms(texts, others), answered, TitleSource.DEGRADED)
        if held is not None and held.source is TitleSource.MODEL:
            return None
        source, counted = TitleSource.TERMS, size
        if held is not None and held.source is TitleSource.DEGRADED:
            source, counted = held.source, held.size
        text = title_from_terms(texts, others)
        same = held is not None and (held.text, held.source) == (text, source)
        return None if same or not text else Title(text, counted, source)

    def _is_due(self, held: Title | None, size: int) -> bool:
        """Whether the model is to be called: it was not at this size step yet."""
        now = self._step(size)
        if held is None or held.source is TitleSource.TERMS:
            return now > 0
        return now > self._step(held.size)

    def _step(self, size: int) -> int:
        return sum(each <= size for each in self.sizes)


def _requested(chat: ChatModel, node: ReadyNode, texts: Sequence[str], calls: list[CallRecord]) -> str:
    """The model's title, checked. Raises ``MODEL_FAILURES``."""
    every = max(1, -(-len(texts) // SHOWN_TEXTS))
    document = {"domain": node.label, "texts": [clipped(text, SHOWN_CHARS) for text in texts[::every]]}
    first = request(Step.SUMMARIZE, _SYSTEM + DATA_ONLY, document, TitleAnswer, "title", temperature=0.0)
    first = replace(first, schema=bare_schema(TitleAnswer))
    return repaired(chat, first, lambda text: _checked(parsed(text, TitleAnswer)), calls)[0]


def _checked(answer: TitleAnswer) -> str:
    """The title, on one line. Raises ContentFault with a sentence for the model."""
    title = " ".join(clean(answer.title).split()).strip("\"'“”„.")
    if not title:
        raise ContentFault('"title" is empty')
    if len(title) > TITLE_CHARS:
        raise ContentFault(f'"title" has more than {TITLE_CHARS} characters')
    return title
