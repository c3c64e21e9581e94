"""What can be done to stored memory, wired: the tasks that workers run for it."""

from __future__ import annotations

from functools import cached_property

from memforest_core.bootstrap.process import Process
from memforest_core.bootstrap.rematerializing import open_rematerializing
from memforest_core.correct.rows import CorrectionStore
from memforest_core.correct.service import Correction, Eraser
from memforest_core.domain.ids import FactId, TenantId
from memforest_core.erase.clearing import Clearing, ForestEraser
from memforest_core.erase.rows.erasing import ErasureStore
from memforest_core.erase.rows.vacuuming import VacuumStore
from memforest_core.erase.service import Erasure
from memforest_core.erase.steps import Erasing
from memforest_core.erase.vacuuming import Vacuuming
from memforest_core.retain.rows.retaining import RetentionStore
from memforest_core.retain.service import Retention
from memforest_core.transfer.bundles.importing import BundleParts
from memforest_core.transfer.bundles.rows.exporting import BundleStore
from memforest_core.transfer.bundles.service import Bundles
from memforest_core.transfer.merge.rows.merging import MergeStore
from memforest_core.transfer.merge.service import Merging
from memforest_core.transfer.rebuild.service import Rematerializing
from memforest_core.verify.rows.verifying import VerifyStore
from memforest_core.work.cancelling import Cancelling, UndoImport, needs_its_file, undo_nothing
from memforest_core.work.maintenance import Handler
from memforest_core.work.operations import OPERATIONS
from memforest_core.work.records import MaintenanceKind, TaskId
from memforest_core.work.rows.operations import MaintenanceStore


class LifecycleParts:
    """What runs operations on stored memory: each part is made on first use."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._engine = process.engine
        self._settings = process.settings
        self.operations = process.operations

    @cached_property
    def cancelling(self) -> Cancelling:
        """Cancelling an operation."""
        return Cancelling(MaintenanceStore(self._engine), self.operations)

    @cached_property
    def erasure(self) -> Erasure:
        """Asking for deletions, and their receipts."""
        return Erasure(ErasureStore(self._engine), self.operations, self.vacuuming)

    @cached_property
    def erasing(self) -> Erasing:
        """The steps of deletions."""
        store, model = ErasureStore(self._engine), self._process.embedder.model
        return Erasing(store, self._process.index, self.clearing, model, self._settings)

    @cached_property
    def clearing(self) -> Clearing:
        """Deleting whole forests that other operations leave behind."""
        return Clearing(ErasureStore(self._engine), self._process.index, self._process.embedder.dimension)

    @cached_property
    def eraser(self) -> ForestEraser:
        """Deleting facts and words at once, for operations that do it inside their own steps."""
        return ForestEraser(ErasureStore(self._engine), self._process.embedder.model, self._settings)

    @cached_property
    def vacuuming(self) -> Vacuuming:
        """The vacuum that follows deletions."""
        return Vacuuming(VacuumStore(self._engine), self._settings.worker.vacuum_every_s)

    @cached_property
    def correction(self) -> Correction:
        """Correcting and pinning facts; the deletion of a corrected fact is an operation of its own."""

        def erase_fact(tenant: TenantId, owner: str, fact: FactId, actor: str, part_of: TaskId) -> TaskId:
            return self.erasure.ask(tenant, owner, fact=fact, actor=actor, part_of=part_of)

        return self.correcting(erase_fact)

    def correcting(self, erase: Eraser) -> Correction:
        """The same with another way to ask for the deletion of a fact."""
        store = CorrectionStore(self._engine)
        return Correction(store, self._process.embedder, self._process.producer.wakeups, erase)

    @cached_property
    def merging(self) -> Merging:
        """Merging forests."""
        store, model = MergeStore(self._engine), self._process.embedder.model
        return Merging(store, self.operations, self._process.index, model, self._settings, self.clearing.clear)

    @cached_property
    def bundles(self) -> Bundles:
        """Export and import, by the process that has the file: no worker takes part."""
        process = self._process
        parts = BundleParts(
            store=BundleStore(self._engine),
            verify=VerifyStore(self._engine),
            index=process.index,
            embedder=process.embedder,
            wakeups=process.producer.wakeups,
            settings=self._settings,
        )
        return Bundles(parts)

    @cached_property
    def rematerializing(self) -> Rematerializing:
        """Rebuilding forests."""
        return open_rematerializing(self._process, self.clearing.clear)

    @cached_property
    def retention(self) -> Retention:
        """Policies and the runs that apply them."""
        return Retention(RetentionStore(self._engine), self.operations, self.eraser)

    def handlers(self) -> dict[str, Handler]:
        """The handlers of operations, by kind."""
        deleting: dict[str, Handler] = {
            MaintenanceKind.ERASE: self.erasing.step,
            MaintenanceKind.CORRECT: self.correction.step,
            MaintenanceKind.REMATERIALIZE: self.rematerializing.step,
            MaintenanceKind.MERGE: self.merging.step,
            MaintenanceKind.RETAIN: self.retention.step,
        }
        following = {kind: self.vacuuming.following(handler) for kind, handler in deleting.items()}
        return following | {
            MaintenanceKind.IMPORT: needs_its_file,
            MaintenanceKind.EXPORT: needs_its_file,
            MaintenanceKind.VACUUM: self.vacuuming.step,
        }

    def undo(self) -> dict[str, Handler]:
        """The handlers of operations that were cancelled, by kind."""
        nothing: dict[str, Handler] = {kind: undo_nothing for kind in OPERATIONS}
        clearing: dict[str, Handler] = {
            MaintenanceKind.MERGE: self.merging.undo,
            MaintenanceKind.REMATERIALIZE: self.rematerializing.undo,
            MaintenanceKind.IMPORT: UndoImport(self.clearing.clear).step,
        }
        return nothing | {kind: self.vacuuming.following(handler) for kind, handler in clearing.items()}
