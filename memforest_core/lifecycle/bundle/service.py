"""Export of a forest to a bundle and import of one, by the process that has the file."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import get_args

from memforest_core.domain.ids import TenantId
from memforest_core.domain.operation_rules import OperationKind
from memforest_core.domain.turns import checked_actor, checked_name
from memforest_core.errors import CallerError, InvalidInput, MemForestError
from memforest_core.lifecycle.bundle.bundle_file import BundleReader, BundleWriter, reading, writing
from memforest_core.lifecycle.bundle.importing import BundleParts, DoneMeanwhile, Import
from memforest_core.lifecycle.bundle.new_ids import id_table
from memforest_core.lifecycle.bundle.records import SUMMARY, TABLES, VECTOR, ExportFormat
from memforest_core.lifecycle.bundle.rows.imported import REFUSED, ImportRows
from memforest_core.lifecycle.bundle.rows.values import ExportRows
from memforest_core.store.owners import known
from memforest_core.store.repeating import repeated
from memforest_core.store.vectors import text_hash
from memforest_core.work.operations import refuse, subject_of
from memforest_core.work.records import AuditEntry, Numbers, OperationTask

PAGE = 1_000
"""Rows in memory at once."""

Watch = Callable[[int, int], None]
"""Sees how many rows are done, of how many."""


class Bundles(BundleParts):
    """Exports and imports. Thread-safe."""

    def export(
        self,
        tenant: TenantId,
        owner: str,
        path: str | Path,
        *,
        format: ExportFormat = "bundle",
        vectors: bool | None = None,
        summaries: bool = True,
        overwrite: bool = False,
        actor: str,
        dry_run: bool = False,
        watch: Watch = lambda done, total: None,
    ) -> Numbers:
        """Write an owner's forest to the file ``path``, as it is at this moment; this process writes it.

        ``format`` is ``bundle``; ``sqlite``, a bundle with views for people and other programs; or ``jsonl``, the same
        rows as JSON lines. ``import_`` reads each. ``vectors`` (default: not in JSON lines) and ``summaries`` say
        whether those are included, ``overwrite`` whether an existing file is replaced. ``watch`` is called with the
        rows done and the number of all rows.
        """
        if format not in get_args(ExportFormat):
            raise InvalidInput(f"Set format to bundle, jsonl or sqlite, not {format!r:.40}.", code="unknown_format")
        vectors = format != "jsonl" if vectors is None else vectors
        path, owner, actor = Path(path), checked_name(owner, "owner"), checked_actor(actor)
        options: Numbers = {"format": format, "with_vectors": int(vectors), "with_summaries": int(summaries)}
        if dry_run:
            with ExportRows.of_owner(self.engine, tenant, owner) as rows:
                return {"phase": "planned", **rows.counts(summaries), **options}
        with ExitStack() as opened:
            # The file is this process's own before anything is requested: an export that is refused leaves no record.
            writer = opened.enter_context(writing(path, overwrite, format))
            task = self._begin_export(tenant, owner, path, actor, options)
            file = opened.pop_all()
        try:
            with file, ExportRows.of_owner(self.engine, tenant, owner) as rows:
                counts = self._write(writer, rows, vectors, summaries, watch)
        except MemForestError as error:
            self._end_export(tenant, task, dict(task.progress), (error.code, error.message))
            raise
        done: Numbers = {**task.progress, "phase": "done", **counts, "bytes": path.stat().st_size}
        self._end_export(tenant, task, done, None)
        return {"task": str(task.id), **done}

    @repeated
    def _begin_export(self, tenant: TenantId, owner: str, path: Path, actor: str, options: Numbers) -> OperationTask:
        # The record names the file by a digest: paths may tell more than ids do.
        place = text_hash(str(path.resolve())).hex()[:32]
        with ImportRows.opened(self.engine, tenant) as rows:
            forest = known(rows.find_forest(owner), owner).id
            subject = subject_of(forest, {**options, "file": place})
            held = rows.hold(OperationKind.EXPORT, subject, options, forest, actor)
            refuse(rows.tasks.neighbours(held))
            task = rows.take(held)
            if task is None:
                raise InvalidInput("This export has just ended in another process.", code="file_in_use")
            rows.tasks.note(AuditEntry(actor, OperationKind.EXPORT, "requested", forest, owner, held, options))
        return task

    def _write(
        self, writer: BundleWriter, rows: ExportRows, with_vectors: bool, with_summaries: bool, watch: Watch
    ) -> Numbers:
        """Write all rows of a forest; how many each table has."""
        done, total = 0, sum(rows.counts(with_summaries).values())
        model = self.embedder.model
        taken = {VECTOR: with_vectors, SUMMARY: with_summaries}
        for table in (each for each in TABLES if taken.get(each, True)):
            for page in rows.pages(table, PAGE, model if with_vectors else None):
                writer.add(table, page)
                done += len(page)
                watch(done, max(done, total))
        written = writer.finish(
            rows.head(),
            (model, self.embedder.dimension),
            rows.summary_models() if with_summaries else (),
            (with_vectors, with_summaries),
        )
        watch(done, done)
        return {"rows": written.total, **written.rows}

    @repeated
    def _end_export(
        self, tenant: TenantId, task: OperationTask, progress: Numbers, error: tuple[str, str] | None
    ) -> None:
        outcome, detail = ("done", progress) if error is None else (REFUSED, {"error": error[0]})
        with ImportRows.opened(self.engine, tenant) as rows:
            if rows.end(task.id, progress, error):
                ended = AuditEntry(task.actor, task.kind, outcome, task.forest_id, task_id=task.id, detail=detail)
                rows.tasks.note(ended)

    def import_(
        self,
        tenant: TenantId,
        path: str | Path,
        owner: str | None = None,
        *,
        vectors: bool = True,
        actor: str,
        dry_run: bool = False,
        watch: Watch = lambda done, total: None,
    ) -> Numbers:
        """Read a forest from the bundle at ``path`` for an ``owner`` who has none (by default the bundle's own).

        This process reads it; without ``vectors`` they are computed again. Everything is checked before anything is
        written. Called again after an interruption it continues. ``watch`` as in ``export``.
        """
        actor = checked_actor(actor)
        with reading(Path(path)) as reader, id_table() as ids:
            owner = checked_name(owner if owner is not None else reader.head.forest.owner, "owner")
            subject = hashlib.sha256(f"{reader.digest}\x1f{owner}".encode()).hexdigest()
            one = Import(self, tenant, reader, ids, owner, subject, self._takes_vectors(reader, vectors))
            if (already := one.already()) is not None:
                return already
            rows, total = reader.head.total, 2 * reader.head.total
            one.inspect(lambda done: watch(done, total))
            if dry_run:
                return one.planned()
            try:
                one.begin(actor)
            except DoneMeanwhile as done:
                return done.result
            try:
                return one.run(lambda done: watch(rows + done, total))
            except CallerError as error:
                one.refuse(error)

    def _takes_vectors(self, reader: BundleReader, wanted: bool) -> bool:
        """Whether the bundle's vectors are taken. Raises InvalidInput when they are another model's and wanted."""
        head = reader.head
        same = (head.embedding_model, head.dimension) == (self.embedder.model, self.embedder.dimension)
        if head.with_vectors and wanted and not same:
            raise InvalidInput(
                f"This bundle's vectors are of {head.embedding_model} ({head.dimension} dimensions), this memory uses"
                f" {self.embedder.model} ({self.embedder.dimension}): import it without vectors and its texts are"
                " embedded.",
                code="other_embedding_model",
            )
        return head.with_vectors and wanted
