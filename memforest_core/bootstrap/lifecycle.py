"""What can be done to stored memory, wired: the tasks that workers run for it."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from memforest_core.bootstrap.rematerializing import open_rematerializing
from memforest_core.correct.rows import PostgresCorrectionStore
from memforest_core.correct.service import Correction, Eraser
from memforest_core.domain.ids import FactId, TenantId
from memforest_core.erase.clearing import Clearing, ForestEraser
from memforest_core.erase.rows.erasing import PostgresErasureStore
from memforest_core.erase.rows.vacuuming import PostgresVacuumStore
from memforest_core.erase.service import Erasure
from memforest_core.erase.steps import Erasing
from memforest_core.erase.vacuuming import Vacuuming
from memforest_core.retain.rows.retaining import PostgresRetentionStore
from memforest_core.retain.service import Retention
from memforest_core.store.statements import from_document
from memforest_core.transfer.bundles.export import ExportService
from memforest_core.transfer.bundles.files import SqliteBundles
from memforest_core.transfer.bundles.importing import ImportParts, ImportService
from memforest_core.transfer.bundles.rows.exporting import PostgresBundleStore
from memforest_core.transfer.bundles.service import Bundles
from memforest_core.transfer.merge.rows.merging import PostgresMergeStore
from memforest_core.transfer.merge.service import Merging
from memforest_core.transfer.rebuild.service import Rematerializing
from memforest_core.verify.rows.verifying import PostgresVerifyStore
from memforest_core.work.cancelling import Cancelling, UndoImport, needs_its_file, undo_nothing
from memforest_core.work.maintenance import Handler
from memforest_core.work.operations import OPERATIONS
from memforest_core.work.records import MaintenanceKind, TaskId
from memforest_core.work.rows.operations import PostgresMaintenanceStore

if TYPE_CHECKING:
    from memforest_core.bootstrap.service import Services


class LifecycleParts:
    """What asks for operations, each made on first use."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self.operations = services.operations

    @cached_property
    def cancelling(self) -> Cancelling:
        """Taking operations back."""
        return Cancelling(PostgresMaintenanceStore(self._services.engine), self.operations)

    @cached_property
    def erasure(self) -> Erasure:
        """Deletions."""
        return open_erasure(self._services)

    @cached_property
    def correction(self) -> Correction:
        """Corrections and pins."""
        return open_correction(self._services)

    @cached_property
    def merging(self) -> Merging:
        """Merges."""
        return open_merging(self._services)

    @cached_property
    def bundles(self) -> Bundles:
        """Export and import."""
        return open_bundles(self._services)

    @cached_property
    def rematerializing(self) -> Rematerializing:
        """Building anew."""
        return open_rematerializing(self._services, open_clearing(self._services).clear)

    @cached_property
    def retention(self) -> Retention:
        """Policies."""
        return open_retention(self._services)


def open_handlers(services: Services) -> dict[str, Handler]:
    """The handlers of operations, by kind."""
    parts, vacuuming = services.lifecycle, open_vacuuming(services)
    deleting: dict[str, Handler] = {
        MaintenanceKind.ERASE: open_erasing(services).step,
        MaintenanceKind.CORRECT: parts.correction.step,
        MaintenanceKind.REMATERIALIZE: parts.rematerializing.step,
        MaintenanceKind.MERGE: parts.merging.step,
        MaintenanceKind.RETAIN: parts.retention.step,
    }
    following = {kind: vacuuming.following(handler) for kind, handler in deleting.items()}
    return following | {
        MaintenanceKind.IMPORT: needs_its_file,
        MaintenanceKind.EXPORT: needs_its_file,
        MaintenanceKind.VACUUM: vacuuming.step,
    }


def open_undo(services: Services) -> dict[str, Handler]:
    """The handlers of operations that were cancelled, by kind."""
    parts, vacuuming = services.lifecycle, open_vacuuming(services)
    nothing: dict[str, Handler] = {kind: undo_nothing for kind in OPERATIONS}
    clearing: dict[str, Handler] = {
        MaintenanceKind.MERGE: parts.merging.undo,
        MaintenanceKind.REMATERIALIZE: parts.rematerializing.undo,
        MaintenanceKind.IMPORT: UndoImport(open_clearing(services).clear).step,
    }
    return nothing | {kind: vacuuming.following(handler) for kind, handler in clearing.items()}


def open_vacuuming(services: Services) -> Vacuuming:
    """What vacuums after deletions."""
    return Vacuuming(PostgresVacuumStore(services.engine), services.settings.worker.vacuum_every_s)


def open_erasing(services: Services) -> Erasing:
    """The steps of deletions."""
    embedder = services.embedder
    store = PostgresErasureStore(services.engine)
    return Erasing(store, services.index, open_clearing(services), embedder.model, services.settings)


def open_erasure(services: Services) -> Erasure:
    """Asking for deletions, and their receipts."""
    return Erasure(PostgresErasureStore(services.engine), services.operations, open_vacuuming(services))


def open_clearing(services: Services) -> Clearing:
    """Taking out forests that other operations leave behind."""
    return Clearing(PostgresErasureStore(services.engine), services.index, services.embedder.dimension)


def open_eraser(services: Services) -> ForestEraser:
    """Taking facts and words out at once, for operations that do it inside their own steps."""
    return ForestEraser(PostgresErasureStore(services.engine), services.embedder.model, services.settings)


def open_correction(services: Services, erase: Eraser | None = None) -> Correction:
    """Correcting and pinning facts; ``erase`` asks for the deletion of a fact, by itself an operation."""
    erasure = open_erasure(services)

    def erase_fact(tenant: TenantId, owner: str, fact: FactId, actor: str, part_of: TaskId) -> TaskId:
        return erasure.ask(tenant, owner, fact=fact, actor=actor, part_of=part_of)

    store = PostgresCorrectionStore(services.engine)
    return Correction(store, services.embedder, services.producer.wakeups, erase or erase_fact)


def open_merging(services: Services) -> Merging:
    """Merging forests."""
    store, clear = PostgresMergeStore(services.engine), open_clearing(services).clear
    return Merging(store, services.operations, services.index, services.embedder.model, services.settings, clear)


def open_retention(services: Services) -> Retention:
    """Policies and the runs that apply them."""
    return Retention(PostgresRetentionStore(services.engine), services.operations, open_eraser(services))


def open_bundles(services: Services) -> Bundles:
    """Export and import, by the process that has the file: no worker takes part."""
    store, files = PostgresBundleStore(services.engine), SqliteBundles()
    parts = ImportParts(
        store=store,
        files=files,
        verify=PostgresVerifyStore(services.engine),
        index=services.index,
        embedder=services.embedder,
        wakeups=services.producer.wakeups,
        settings=services.settings,
        read_statement=from_document,
    )
    return Bundles(ExportService(store, files, services.embedder), ImportService(parts))
