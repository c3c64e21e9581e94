"""Answering: one call over what was recalled; what the model claims is checked, and its cost is recorded."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from pydantic import BaseModel, ConfigDict, Field

from memforest_core.domain.evidence import RecallResult
from memforest_core.domain.ids import ForestId, TenantId
from memforest_core.domain.text import clean
from memforest_core.domain.turns import parse_timestamp
from memforest_core.errors import (
    ContentFault,
    ContentRefused,
    ContextTooLong,
    InvalidInput,
    InvalidSettings,
    ModelUnavailable,
    StoreUnavailable,
)
from memforest_core.models.answers import parsed, repaired
from memforest_core.models.calls import CallRecord, ChatModel, ChatRequest, Message, Step
from memforest_core.models.prompts import instructions_with
from memforest_core.recall.answering.answer import NOT_IN_MEMORY, Answer, Citation
from memforest_core.recall.answering.prompt import FRAME, SYSTEM, piece_lines, question_line, render
from memforest_core.recall.rows.reading import AnswerCalls
from memforest_core.settings import OFFLINE, LlmSettings
from memforest_core.store.engine import Engine
from memforest_core.work.telemetry import SILENT, Telemetry

MAX_TOKENS = 2_000
"""Estimated tokens of evidence that an answer is read from: the larger budget that recall is measured at."""


class _Reply(BaseModel):
    """The JSON object of a reply."""

    model_config = ConfigDict(extra="forbid")

    answer: str = Field(description="The answer in one or two sentences; empty when it is not supported.")
    citations: list[int] = Field(description="The numbers of the evidence items that the answer rests on.")
    supported: bool = Field(description="Whether the evidence answers the question.")


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply that fits the schema."""

    text: str
    numbers: tuple[int, ...]
    """Numbers of evidence items that exist, each once, in the order given."""
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
            '"supported" is true but "citations" has no number of an evidence item; cite the numbers of the items'
            ' that say it, or set "supported" to false'
        )
    return Reply(said, numbers, reply.supported)


def open_answering(
    settings: LlmSettings,
    chat: Callable[[], ChatModel],
    engine: Engine,
    telemetry: Telemetry,
    own: str | None = None,
) -> AnswerService:
    """Answers by the chat model of the step answer, by ``own`` instructions if given.

    Raises InvalidSettings without a model.
    """
    if (settings.answer.model or settings.model) == OFFLINE:
        raise InvalidSettings(
            "Set MEMFOREST_LLM__MODEL (or MEMFOREST_LLM__ANSWER__MODEL) to a chat model: answers are written by one; "
            "recall gives the evidence without."
        )
    return AnswerService(chat(), AnswerCalls(engine), telemetry, own)


@dataclass(frozen=True, slots=True)
class AnswerService:
    """Answers from evidence. Thread-safe."""

    chat: ChatModel
    ledger: AnswerCalls
    telemetry: Telemetry = SILENT
    own: str | None = None
    """Instructions in place of the built-in ones."""

    def answer(
        self,
        tenant: TenantId,
        owner: str,
        question: str,
        result: RecallResult,
        asked_at: object | None = None,
        max_tokens: int = MAX_TOKENS,
    ) -> Answer:
        """The answer to a question from what was recalled for it.

        ``asked_at`` is the timestamp of the question (ISO 8601, unix seconds or a datetime; a naive one is in the
        forest's zone; now unless given). The evidence may be of others: the call is accounted to the owner's forest, if
        there is one. ``max_tokens`` bounds the evidence shown, in estimated tokens. Without evidence no call is made. A
        model that is unavailable, or refuses this content, is no error: ``degraded`` says so, the evidence stays.
        Raises InvalidInput, StoreUnavailable, and ModelRejected or ModelAuthFailed when no call can succeed."""
        if max_tokens < 1:
            raise InvalidInput("Set max_tokens to a whole number above 0.", code="invalid_max_tokens")
        forest = self.ledger.forest(tenant, owner)
        moment = _moment(asked_at, ZoneInfo("UTC" if forest is None else forest.time_zone))
        if not result.evidence:
            return self._concluded(result, Reply("", (), supported=False), 0, [])
        lines = piece_lines(result.evidence, moment, max_tokens)
        shown = render(list(lines.values()), question_line(question, result.completed_question, moment))
        return self._answered(tenant, None if forest is None else forest.id, result, shown, lines.keys())

    def _answered(
        self, tenant: TenantId, forest: ForestId | None, result: RecallResult, shown: str, known: Collection[int]
    ) -> Answer:
        calls: list[CallRecord] = []
        degraded: list[str] = []
        try:
            reply = self._replied(shown, known, calls)
        except UncitedError:
            degraded.append("The chat model's answer cited nothing that was found, so it was left out.")
            reply = Reply("", (), supported=False)
        except ContentFault as error:
            degraded.append(f"The chat model gave no usable answer: {error.message}.")
            reply = None
        except (ModelUnavailable, ContextTooLong, ContentRefused) as error:
            degraded.append(f"No answer was written: {error.message}")
            reply = None
        finally:
            self._recorded(tenant, forest, calls, degraded)
        return self._concluded(result, reply, len(calls), degraded)

    def _replied(self, shown: str, known: Collection[int], calls: list[CallRecord]) -> Reply:
        """A reply that passes all checks. Raises ContentFault after the last try, and the model errors."""
        messages = (Message("system", instructions_with(SYSTEM, self.own, FRAME)), Message("user", shown))
        request = ChatRequest(Step.ANSWER, messages, schema(), "answer")
        return repaired(self.chat, request, lambda text: parse_reply(text, known), calls)[0]

    def _recorded(
        self, tenant: TenantId, forest: ForestId | None, calls: list[CallRecord], degraded: list[str]
    ) -> None:
        if not calls:
            return
        self.telemetry.called(tenant, calls)
        try:
            self.ledger.record(tenant, forest, calls)
        except StoreUnavailable:
            # The answer is there and paid for; losing it as well would help nobody.
            degraded.append("What the answer cost could not be recorded: Postgres was unavailable.")

    def _concluded(self, result: RecallResult, reply: Reply | None, calls: int, degraded: list[str]) -> Answer:
        """The answer for a checked reply, or for none."""
        supported = reply is not None and reply.supported
        silent = reply is not None and not reply.supported
        numbers = reply.numbers if reply is not None and supported else ()
        return Answer(
            text=NOT_IN_MEMORY if silent else reply.text if reply is not None else "",
            supported=supported,
            citations=tuple(
                Citation(number, piece.turn_ids, piece.session_id, piece.text, piece.time_label)
                for number, piece in ((number, result.evidence[number - 1]) for number in numbers)
            ),
            not_in_memory=silent,
            evidence=result,
            model=self.chat.model_name(Step.ANSWER),
            calls=calls,
            degraded=(*result.degraded, *degraded),
        )


def _moment(given: object | None, zone: ZoneInfo) -> datetime:
    moment = datetime.now(UTC) if given is None else parse_timestamp(given, zone, "asked_at")
    return moment.astimezone(zone)
