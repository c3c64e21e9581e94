"""Calls to a chat model: a document of untrusted data in, a checked answer out; every call is recorded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from memforest_core.assistant.condensing import checked_call
from memforest_core.assistant.profile.rows import ProfileRows
from memforest_core.domain.ids import ForestId, TenantId
from memforest_core.errors import ContentFault
from memforest_core.models.answers import MODEL_FAILURES, Checked, in_words
from memforest_core.models.calls import CallRecord, ChatModel, Step
from memforest_core.models.reading import Shape
from memforest_core.store.engine import Engine
from memforest_core.work.telemetry import SILENT, Telemetry


@dataclass(frozen=True, slots=True)
class CheckedCalls:
    """The chat model of the step ``profile``, if one is configured. Thread-safe."""

    engine: Engine
    open_chat: Callable[[], ChatModel] | None = None
    telemetry: Telemetry = SILENT

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
            self._record(tenant, forest, calls)

    def _record(self, tenant: TenantId, forest: ForestId | None, calls: list[CallRecord]) -> None:
        if calls:
            self.telemetry.called(tenant, calls)
            with ProfileRows.opened(self.engine, tenant) as rows:
                rows.record(forest, calls)
