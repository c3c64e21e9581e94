"""Proposers extract facts from a window: a chat model with repair calls, or the offline rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from memforest_core.domain.cells import MAX_WINDOW_TURNS, Window
from memforest_core.errors import ContentFault
from memforest_core.ingest.extract.answer_checks import completed, grounded, sourced
from memforest_core.ingest.extract.extraction_prompt import (
    MAX_ITEMS,
    SYSTEM,
    ExtractionAnswer,
    input_hash,
    render_window,
    schema,
    system_for,
)
from memforest_core.ingest.extract.offline.proposing import propose
from memforest_core.ingest.extract.records import CONTEXT_TURNS
from memforest_core.models.answer_reading import Reading, described, read
from memforest_core.models.answers import repaired
from memforest_core.models.calls import CallRecord, ChatModel, ChatRequest, Message, Step

OFFLINE_MODEL = "offline-1"
"""Name and version of the offline extractor, part of every cache key."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A usable answer, whether it had to be repaired, and what of it was left out, in words without its content."""

    answer: ExtractionAnswer
    repaired: bool
    left_out: str = ""


class OfflineProposer:
    """Deterministic rules; no network, no key, no cost."""

    model = OFFLINE_MODEL
    system = ""

    def propose(self, window: Window, calls: list[CallRecord], attributes: Sequence[str] = ()) -> Proposal:
        """The answer for a window; makes no calls."""
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
        """The name of the model, as part of cache keys."""
        return self._chat.model_name(Step.EXTRACT)

    def propose(self, window: Window, calls: list[CallRecord], attributes: Sequence[str] = ()) -> Proposal:
        """The answer for a window; each call made is added to ``calls``, also when it fails. ``attributes`` are names
        that the forest uses for states, suggested for this window's. Raises ContentFault when no usable answer came
        after the repairs, and the model errors."""
        made = len(calls)
        reading = self._read(window, calls, attributes)
        cut = f"the answer was cut after {len(reading.answer.items)} items" if reading.cut else ""
        left_out = ", ".join(filter(None, (described(reading.faults), cut)))
        return Proposal(completed(reading.answer, window), len(calls) - made > 1, left_out)

    def _read(
        self,
        window: Window,
        calls: list[CallRecord],
        attributes: Sequence[str],
        known: frozenset[tuple[object, ...]] = frozenset(),
    ) -> Reading[ExtractionAnswer]:
        """What can be used of the answer for a window. Raises ContentFault."""
        # The items in front of the end of an answer that was cut off are whole and in the order of the turns: only the
        # turns from the last of them on are sent once more, as a smaller window, while that gives items that are not
        # known. Where the last of them is of the first turn, no window is smaller: the same one is repaired first.
        first = self._call(window, calls, attributes)
        last = max((number for item in first.answer.items for number in item.turns), default=0)
        left = tuple(turn for turn in window.turns if turn.number >= last)
        left = left if len(left) < len(window.turns) else left[1:]
        found = {(item.text, *item.turns): item for item in first.answer.items}
        if not first.cut or not left or found.keys() <= known:
            return first
        before = (*window.context, *window.turns[: -len(left)])[-CONTEXT_TURNS:]
        try:
            rest = replace(window, context=before, turns=left)
            more = self._read(rest, calls, attributes, known | found.keys())
        except ContentFault:
            return first
        found |= {(item.text, *item.turns): item for item in more.answer.items}
        # The summary of a whole cell counts, not that of its rest: the last one of a number.
        summaries = [*more.answer.summaries, *first.answer.summaries][-MAX_WINDOW_TURNS:]
        answer = ExtractionAnswer(items=[*found.values()][:MAX_ITEMS], summaries=summaries)
        return replace(more, answer=answer, faults=first.faults + more.faults)

    def _call(self, window: Window, calls: list[CallRecord], attributes: Sequence[str]) -> Reading[ExtractionAnswer]:
        """What can be used of one answer, which is repaired when more items are lost than are there. Raises
        ContentFault."""
        messages = (
            Message("system", system_for(window, self.system)),
            Message("user", render_window(window, attributes)),
        )
        partial: list[Reading[ExtractionAnswer]] = []

        def checked(text: str) -> Reading[ExtractionAnswer]:
            reading = read(text, ExtractionAnswer)
            answer, nowhere = sourced(reading.answer, window)
            answer, foreign = grounded(answer, window)
            reading = replace(reading, answer=answer, faults=reading.faults + nowhere + foreign)
            partial.append(reading)
            lost = sum(count for what, count in reading.faults.items() if what.startswith("items"))
            if lost > len(answer.items):
                raise ContentFault(described(reading.faults))
            if reading.cut and not answer.items:
                raise ContentFault("the answer was cut before its first item ended")
            last = max((number for item in answer.items for number in item.turns), default=0)
            if reading.cut and last <= window.turns[0].number and len(partial) <= self._repairs:
                raise ContentFault(f"the answer was cut after {len(answer.items)} items")
            return reading

        # The suggested attributes change from one try to the next.
        name = input_hash(window, self.model, self.system).hex()
        request = ChatRequest(Step.EXTRACT, messages, self._schema, "extraction", input=name)
        try:
            return repaired(self._chat, request, checked, calls, self._repairs + 1)[0]
        except ContentFault:
            best = max(partial, key=lambda each: len(each.answer.items), default=None)
            if best is None or not best.answer.items:
                raise
            return best


Proposer = OfflineProposer | ModelProposer
"""Extracts facts from windows."""
