"""Proposers extract facts from a window: a chat model with repair calls, or the offline rules."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from pydantic import ValidationError

from memforest_core.domain.text import clean
from memforest_core.domain.windows import Window
from memforest_core.errors import ContentFault
from memforest_core.extract.answer import ExtractionAnswer
from memforest_core.extract.candidates import check_sources, completed, grounded
from memforest_core.extract.offline import propose
from memforest_core.extract.prompt import SYSTEM, input_hash, render_window, schema, system_for
from memforest_core.models.answers import repaired
from memforest_core.models.calls import CallRecord, ChatModel, ChatRequest, Message, Step

OFFLINE_MODEL = "offline-1"
"""Name and version of the offline extractor, part of every cache key."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A usable answer, whether it had to be repaired, and how many of its items and summaries were left out."""

    answer: ExtractionAnswer
    repaired: bool
    left_out: int = 0


class Proposer(Protocol):
    """Extracts facts from windows."""

    @property
    def model(self) -> str:
        """The name of the model, as part of cache keys."""
        ...

    @property
    def system(self) -> str:
        """The fixed part of the prompt, as part of cache keys."""
        ...

    def propose(self, window: Window, calls: list[CallRecord], attributes: Sequence[str] = ()) -> Proposal:
        """The answer for a window; each call made is added to ``calls``, also when it fails.

        ``attributes`` are names that the forest uses for states, suggested for this window's.

        Raises ContentFault when no usable answer came after the repairs, and the model errors.
        """
        ...


class OfflineProposer:
    """Deterministic rules; no network, no key, no cost."""

    model = OFFLINE_MODEL
    system = ""

    def propose(self, window: Window, calls: list[CallRecord], attributes: Sequence[str] = ()) -> Proposal:
        return Proposal(propose(window), repaired=False)


class ModelProposer:
    """One structured-output call per window, with repair calls that show the model its error."""

    def __init__(self, chat: ChatModel, repairs: int, system: str = SYSTEM) -> None:
        self._chat = chat
        self._repairs = repairs
        self.system = system
        self._schema = schema()

    @property
    def model(self) -> str:
        return self._chat.model_name(Step.EXTRACT)

    def propose(self, window: Window, calls: list[CallRecord], attributes: Sequence[str] = ()) -> Proposal:
        messages = (
            Message("system", system_for(window, self.system)),
            Message("user", render_window(window, attributes)),
        )

        def read(text: str) -> tuple[ExtractionAnswer, int]:
            answer = parse_answer(text)
            check_sources(answer, window)
            own, left_out = grounded(answer, window)
            return completed(own, window), left_out

        # The suggested attributes change from one try to the next.
        name = input_hash(window, self.model, self.system).hex()
        request = ChatRequest(Step.EXTRACT, messages, self._schema, "extraction", input=name)
        (answer, left_out), again = repaired(self._chat, request, read, calls, self._repairs + 1)
        return Proposal(answer, again, left_out)


def parse_answer(text: str) -> ExtractionAnswer:
    """The answer in a model's text, fenced or not. Raises ContentFault with a sentence for the model."""
    start, end = text.find("{"), text.rfind("}")
    if start < 0:
        raise ContentFault("the answer holds no JSON object")
    try:
        document = _cleaned(json.loads(text[start : end + 1] if end > start else text[start:]))
    except json.JSONDecodeError as error:
        raise ContentFault(f"the JSON is malformed or cut off: {error.msg} at {error.pos}") from None
    except ValueError:
        raise ContentFault("the JSON holds a number that is too long") from None
    except RecursionError:
        raise ContentFault("the JSON is nested too deeply") from None
    try:
        return ExtractionAnswer.model_validate(document)
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(str(part) for part in fault['loc'])}: {fault['msg']}"
            for fault in error.errors(include_url=False, include_input=False)[:5]
        )
        raise ContentFault(f"the JSON does not fit the schema: {faults}") from None


def _cleaned(value: object) -> object:
    """A JSON value whose texts can be stored and validated: no NUL, no lone surrogates."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list):
        return [_cleaned(part) for part in value]
    if isinstance(value, dict):
        return {clean(key): _cleaned(part) for key, part in value.items()}
    return value
