"""Calls to a chat model: a document of untrusted data in, a checked answer out; every call is recorded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from memforest_core.domain.ids import ForestId, SessionId, TenantId
from memforest_core.errors import ContentFault, StoreUnavailable
from memforest_core.ingest.accept.redaction import NOTHING, Redactor
from memforest_core.models.answer_reading import Shape
from memforest_core.models.answers import DATA_ONLY, MODEL_FAILURES, Checked, in_words, parsed, repaired, request
from memforest_core.models.calls import CallRecord, ChatModel, Step
from memforest_core.store.call_ledger import record_calls
from memforest_core.store.engine import Engine, tenant_transaction
from memforest_core.store.repeating import repeated
from memforest_core.work.telemetry import SILENT, Telemetry

Shown = TypeVar("Shown")


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


def numbered(name: str, numbers: Sequence[int], shown: Sequence[Shown], hint: str = "") -> list[Shown]:
    """What an answer names by its numbers, from 1. Raises ContentFault for a number that was not shown."""
    unknown = [number for number in numbers if not 1 <= number <= len(shown)]
    if unknown:
        raise ContentFault(f'"{name}" names {unknown[0]}, which was not shown{hint}')
    return [shown[number - 1] for number in numbers]


def check_length(texts: Sequence[str], max_chars: int, known: str) -> None:
    """Raise ContentFault unless there are sentences and all of them fit; ``known`` says what they could tell."""
    if not texts:
        raise ContentFault(f'"sentences" is empty although {known}')
    if sum(len(text) + 1 for text in texts) > max_chars + 1:
        raise ContentFault(f"the sentences have more than {max_chars} characters in all: say less")


def record_costs(
    engine: Engine,
    telemetry: Telemetry,
    tenant: TenantId,
    calls: Sequence[CallRecord],
    forest: ForestId,
    session: SessionId | None = None,
    *,
    what: str,
) -> list[str]:
    """Keep what calls cost; a sentence when that could not be stored: ``what`` they made is there and paid for."""
    if not calls:
        return []
    telemetry.called(tenant, calls)
    try:
        _record(engine, tenant, calls, forest, session)
    except StoreUnavailable:
        return [f"What the {what} cost could not be recorded: Postgres was unavailable."]
    return []


@repeated
def _record(
    engine: Engine, tenant: TenantId, calls: Sequence[CallRecord], forest: ForestId | None, session: SessionId | None
) -> None:
    with tenant_transaction(engine, tenant) as connection:
        record_calls(connection, tenant, calls, forest, session)


@dataclass(frozen=True, slots=True)
class CheckedCalls:
    """The chat model of the step ``profile``, if one is configured. Thread-safe."""

    engine: Engine
    open_chat: Callable[[], ChatModel] | None = None
    telemetry: Telemetry = SILENT
    redactor: Redactor = NOTHING
    """Masks a request before a model reads it."""

    @property
    def possible(self) -> bool:
        """Whether a chat model is configured."""
        return self.open_chat is not None

    @property
    def model(self) -> str:
        """The model's name; empty without one."""
        return "" if self.open_chat is None else self.open_chat().model_name(Step.PROFILE)

    def answer(
        self,
        tenant: TenantId,
        forest: ForestId | None,
        system: str,
        document: Mapping[str, object],
        shape: type[Shape],
        check: Callable[[Shape], Checked],
        name: str,
    ) -> tuple[Checked | None, str]:
        """The checked answer and an empty text; or None, and why there is none, in a few words.

        At temperature 0. ``check`` raises ContentFault with a sentence for the model; a second try shows it. ``name``
        is that of the schema. Raises StoreUnavailable.
        """
        calls: list[CallRecord] = []
        try:
            if self.open_chat is None:
                raise ContentFault("no chat model is configured")
            return checked_call(
                self.open_chat(), Step.PROFILE, system, document, shape, check, name, calls, temperature=0.0
            ), ""
        except MODEL_FAILURES as error:
            return None, in_words(error.code)
        finally:
            if calls:
                self.telemetry.called(tenant, calls)
                _record(self.engine, tenant, calls, forest, None)
