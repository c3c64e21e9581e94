"""What every service of a process is made from, and how the log names it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from urllib.parse import urlsplit

from memforest_core.client.services.producer_services import Producer
from memforest_core.index.vector_index import VectorIndex
from memforest_core.models.answers import Prompts, open_prompts
from memforest_core.models.calls import CHAT_STEPS, Embedder
from memforest_core.models.limits.call_limits import CallLimits
from memforest_core.models.model_opening import step_settings
from memforest_core.settings import Settings
from memforest_core.store.engine import Engine, place_of
from memforest_core.work.operations import Operations
from memforest_core.work.rows.operation_rows import OperationRows
from memforest_core.work.telemetry import SILENT, Telemetry


@dataclass
class Process:
    """The configuration, the connections and the models of one process."""

    settings: Settings
    producer: Producer
    index: VectorIndex
    embedder: Embedder
    limits: CallLimits
    telemetry: Telemetry = SILENT

    @property
    def engine(self) -> Engine:
        """The connection pool."""
        return self.producer.engine

    @cached_property
    def prompts(self) -> Prompts:
        """The application's own instructions, read once. Raises InvalidSettings."""
        return open_prompts(self.settings.prompts)

    @cached_property
    def operations(self) -> Operations:
        """Requests for operations on stored memory, and their progress."""
        return Operations(partial(OperationRows.opened, self.engine), self.producer.wakeups)


def in_use(settings: Settings) -> dict[str, str]:
    """What a process works with, for its first log line: names and hosts, no keys, no passwords.

    The chat model (with steps that have another), the embedding model, the index, the database and the broker.
    """
    chat = settings.llm.model
    models = {step: step_settings(settings.llm, step).model for step in CHAT_STEPS}
    others = [f"{step.value}: {model}" for step, model in models.items() if model != chat]
    return {
        "chat": ", ".join([chat, *others]),
        "embedding": settings.embedding.model,
        "index": f"in {settings.index.path}" if settings.index.kind == "qdrant_edge" else _place(settings.index.url),
        "database": place_of(settings.database.url.get_secret_value()),
        "broker": _place(settings.broker.url.get_secret_value()),
    }


def _place(address: str) -> str:
    """Host and port of an address, or the path of a socket."""
    parts = urlsplit(address)
    return parts.netloc.rpartition("@")[2] or parts.path
