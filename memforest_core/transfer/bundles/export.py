"""Writing a forest to a bundle, as it is at one moment, while everything else goes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from memforest_core.domain.ids import TenantId
from memforest_core.domain.turns import checked_name
from memforest_core.errors import InvalidInput, MemForestError
from memforest_core.models.calls import Embedder
from memforest_core.store.owners import known
from memforest_core.store.repeating import repeated
from memforest_core.transfer.bundles.files import BundleFiles
from memforest_core.transfer.bundles.records import CELL, SUMMARY, TABLES, VECTOR
from memforest_core.transfer.bundles.rows.exporting import BundleStore, ExportRows
from memforest_core.transfer.bundles.texts import embedded_cell, hash_of
from memforest_core.transfer.bundles.writer import BundleWriter
from memforest_core.work.operations import refuse, subject_of
from memforest_core.work.records import AuditEntry, MaintenanceKind, MaintenanceTask, Numbers

PAGE = 1_000
"""Rows in memory at once."""

Watch = Callable[[int, int], None]
"""Sees how many rows are done, of how many."""


def unwatched(done: int, total: int) -> None:
    """For callers that don't look."""


class ExportService:
    """Exports forests, in the process that asks. Thread-safe."""

    def __init__(self, store: BundleStore, files: BundleFiles, embedder: Embedder) -> None:
        self._store = store
        self._files = files
        self._embedder = embedder

    def run(
        self,
        tenant: TenantId,
        owner: str,
        path: Path,
        *,
        actor: str,
        with_vectors: bool = True,
        with_summaries: bool = True,
        overwrite: bool = False,
        dry_run: bool = False,
        watch: Watch = unwatched,
    ) -> Numbers:
        """See ``Bundles.export``."""
        owner, actor = checked_name(owner, "owner"), checked_name(actor, "actor")
        options = {"with_vectors": int(with_vectors), "with_summaries": int(with_summaries)}
        if dry_run:
            with self._store.exporting(tenant, owner) as rows:
                return {"phase": "planned", **_counted(dict(rows.counts()), with_summaries), **options}
        task = self._begin(tenant, owner, path, actor, options)
        try:
            with (
                self._files.writing(path, overwrite) as writer,
                self._store.exporting(tenant, owner) as rows,
            ):
                counts = self._write(writer, rows, with_vectors, with_summaries, watch)
        except MemForestError as error:
            self._end(tenant, task, dict(task.progress), (error.code, error.message))
            raise
        done: Numbers = {**task.progress, "phase": "done", **counts, "bytes": path.stat().st_size}
        self._end(tenant, task, done, None)
        return {"task": str(task.id), **done}

    @repeated
    def _begin(self, tenant: TenantId, owner: str, path: Path, actor: str, options: Numbers) -> MaintenanceTask:
        # The record names the file by a digest: paths may tell more than ids do.
        place = hash_of(str(path.resolve())).hex()[:32]
        with self._store.importing(tenant) as rows:
            forest = known(rows.forest(owner), owner)
            subject = subject_of(forest, {**options, "file": place})
            held = rows.hold(MaintenanceKind.EXPORT, subject, options, forest, actor)
            refuse(rows.neighbours(held))
            task = rows.take(held)
            if task is None:
                raise InvalidInput("This export has just ended in another process.", code="file_in_use")
            rows.note(AuditEntry(actor, MaintenanceKind.EXPORT, "asked", forest, owner, held, options))
        return task

    @repeated
    def _end(self, tenant: TenantId, task: MaintenanceTask, progress: Numbers, error: tuple[str, str] | None) -> None:
        outcome = "dead" if error is not None else "done"
        with self._store.importing(tenant) as rows:
            if rows.end(task.id, progress, error):
                detail = progress if error is None else {"error": error[0]}
                rows.note(AuditEntry(task.actor, task.kind, outcome, task.forest_id, task_id=task.id, detail=detail))

    def _write(
        self, writer: BundleWriter, rows: ExportRows, with_vectors: bool, with_summaries: bool, watch: Watch
    ) -> Numbers:
        head, done = rows.head(), 0
        total = sum(_counted(dict(rows.counts()), with_summaries).values())
        for table in TABLES:
            if table is VECTOR or (table is SUMMARY and not with_summaries):
                continue
            for page in rows.pages(table, PAGE, with_vectors):
                writer.add(table, page)
                if table is CELL and with_vectors:
                    writer.want(hash_of(embedded_cell(row)) for row in page)
                done += len(page)
                watch(done, max(done, total))
        if with_vectors:
            for hashes in rows.hashes(PAGE):
                writer.want(hashes)
            for hashes in writer.wanted(PAGE):
                found = rows.vectors(self._embedder.model, hashes)
                writer.add(VECTOR, found)
                done += len(found)
                watch(done, max(done, total))
        written = writer.finish(
            head,
            (self._embedder.model, self._embedder.dimension),
            rows.summary_models() if with_summaries else (),
            (with_vectors, with_summaries),
        )
        watch(done, done)
        return {"rows": written.total, **_counted(dict(written.rows), True)}


def _counted(counts: dict[str, int], with_summaries: bool) -> dict[str, int]:
    return {name: n for name, n in counts.items() if with_summaries or name != SUMMARY.name}
