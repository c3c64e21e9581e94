"""What every service of a process is made from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from memforest_core.bootstrap.producer import Producer
from memforest_core.index.vector_index import VectorIndex
from memforest_core.models.calls import Embedder
from memforest_core.models.limits.call_limits import CallLimits
from memforest_core.settings import Settings
from memforest_core.store.engine import Engine
from memforest_core.work.operations import Operations
from memforest_core.work.rows.operations import OperationStore
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
    def operations(self) -> Operations:
        """Asking for operations on stored memory, and following them."""
        return Operations(OperationStore(self.engine), self.producer.wakeups)
