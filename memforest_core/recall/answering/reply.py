"""What a model says about a question: untrusted until it parses and its citations exist."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field

from memforest_core.domain.text import clean
from memforest_core.errors import ContentFault
from memforest_core.recall.answers import parsed

SCHEMA_NAME = "answer"


class _Reply(BaseModel):
    """The JSON object that is asked for."""

    model_config = ConfigDict(extra="forbid")

    answer: str = Field(description="The answer in one or two sentences; empty when it is not supported.")
    citations: list[int] = Field(description="The numbers of the pieces of evidence that the answer rests on.")
    supported: bool = Field(description="Whether the evidence answers the question.")


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply that fits the schema."""

    text: str
    numbers: tuple[int, ...]
    """Numbers of pieces that exist, each once, in the order given."""
    supported: bool


class UncitedError(ContentFault):
    """A reply that claims support and cites nothing that exists."""


def schema() -> dict[str, object]:
    """The JSON schema of a reply."""
    return _Reply.model_json_schema()


def parse_reply(text: str, known: Collection[int]) -> Reply:
    """The reply in a model's text, fenced or not; numbers that are not ``known`` are dropped.

    Raises ContentFault, or UncitedError, with a sentence for the model.
    """
    reply = parsed(text, _Reply)
    numbers = tuple(dict.fromkeys(number for number in reply.citations if number in known))
    said = clean(reply.answer).strip()
    if reply.supported and not said:
        raise ContentFault('"answer" is empty although "supported" is true')
    if reply.supported and not numbers:
        raise UncitedError(
            '"supported" is true but "citations" holds no number of a piece of evidence; cite the numbers of the pieces'
            ' that say it, or set "supported" to false'
        )
    return Reply(said, numbers, reply.supported)
