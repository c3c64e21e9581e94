"""Export of a forest to a bundle and import of one, by the process that has the file."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from memforest_core.domain.ids import TenantId
from memforest_core.domain.operation_rules import OperationKind
from memforest_core.domain.turns import checked_actor, checked_name
from memforest_core.errors import CallerError, InvalidInput, MemForestError
from memforest_core.lifecycle.bundle.bundle_file import BundleReader, BundleWriter, reading, writing
from memforest_core.lifecycle.bundle.importing import (
    BundleParts,
    Import,
    ImportTakenOver,
    Seen,
    accepted_model,
    choose_forest,
    has_memory,
    inspect,
)
from memforest_core.lifecycle.bundle.new_ids import id_table
from memforest_core.lifecycle.bundle.records import SUMMARY, TABLES, VECTOR
from memforest_core.lifecycle.bundle.rows.imported import REFUSED, ImportRows
from memforest_core.lifecycle.bundle.rows.values import ExportRows
from memforest_core.models.calls import Embedder
from memforest_core.store.owners import known
from memforest_core.store.repeating import repeated
from memforest_core.store.vectors import text_hash
from memforest_core.work.operations import refuse, subject_of
from memforest_core.work.records import AuditEntry, Numbers, OperationTask

PAGE = 1_000
"""Rows in memory at once."""

Watch = Callable[[int, int], None]
"""Sees how many rows are done, of how many."""


class Bundles:
    """Exports and imports. Thread-safe."""

    def __init__(self, parts: BundleParts) -> None:
        self._parts = parts

    def export(
        self,
        tenant: TenantId,
        owner: str,
        path: str | Path,
        *,
        vectors: bool = True,
        summaries: bool = True,
        overwrite: bool = False,
        actor: str,
        dry_run: bool = False,
        watch: Watch = lambda done, total: None,
    ) -> Numbers:
        """Write an owner's forest to the file ``path``, as it is at this moment; this process writes it.

        ``vectors`` and ``summaries`` say whether those are included, ``overwrite`` whether an existing file is
        replaced. ``watch`` is called with the rows done and the number of all rows.
        """
        path, owner, actor = Path(path), checked_name(owner, "owner"), checked_actor(actor)
        options = {"with_vectors": int(vectors), "with_summaries": int(summaries)}
        if dry_run:
            with ExportRows.of_owner(self._parts.engine, tenant, owner) as rows:
                return {"phase": "planned", **counted(dict(rows.counts()), summaries), **options}
        with ExitStack() as opened:
            # The file is this process's own before anything is requested: an export that is refused leaves no record.
            writer = opened.enter_context(writing(path, overwrite))
            task = self._begin_export(tenant, owner, path, actor, options)
            file = opened.pop_all()
        try:
            with file, ExportRows.of_owner(self._parts.engine, tenant, owner) as rows:
                counts = write_forest(writer, rows, self._parts.embedder, vectors, summaries, watch)
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
        with ImportRows.opened(self._parts.engine, tenant) as rows:
            forest = known(rows.find_forest(owner), owner).id
            subject = subject_of(forest, {**options, "file": place})
            held = rows.hold(OperationKind.EXPORT, subject, options, forest, actor)
            refuse(rows.tasks.neighbours(held))
            task = rows.take(held)
            if task is None:
                raise InvalidInput("This export has just ended in another process.", code="file_in_use")
            rows.tasks.note(AuditEntry(actor, OperationKind.EXPORT, "requested", forest, owner, held, options))
        return task

    @repeated
    def _end_export(
        self, tenant: TenantId, task: OperationTask, progress: Numbers, error: tuple[str, str] | None
    ) -> None:
        outcome = REFUSED if error is not None else "done"
        with ImportRows.opened(self._parts.engine, tenant) as rows:
            if rows.end(task.id, progress, error):
                detail = progress if error is None else {"error": error[0]}
                rows.tasks.note(
                    AuditEntry(task.actor, task.kind, outcome, task.forest_id, task_id=task.id, detail=detail)
                )

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
            accepted_model(reader, self._parts.embedder, not vectors)
            subject = _subject(reader, owner)
            already = self._already(tenant, owner, subject)
            if already is not None:
                return already
            total = 2 * reader.head.total
            seen = inspect(
                reader, ids, self._parts.embedder, self._parts.settings, not vectors, lambda done: watch(done, total)
            )
            if dry_run:
                return self._planned(tenant, seen)
            try:
                one = self._begin_import(tenant, owner, subject, actor, seen)
            except _DoneMeanwhile as done:
                return done.result
            try:
                return one.run(lambda done: watch(reader.head.total + done, total))
            except CallerError as error:
                one.refuse(error)

    def _already(self, tenant: TenantId, owner: str, subject: str) -> Numbers | None:
        """What was done when this import was finished before. Raises InvalidInput for an owner with other memory."""
        with ImportRows.opened(self._parts.engine, tenant) as rows:
            # The run of an import that was interrupted removes what it wrote before it raises that.
            return None if rows.last_import(subject, "held") else _finished(rows, owner, subject)

    def _planned(self, tenant: TenantId, seen: Seen) -> Numbers:
        head = seen.reader.head
        same = choose_forest(tenant, seen, self._parts.engine) == head.forest.forest_id
        return {
            "phase": "planned",
            "rows": head.total,
            **head.rows,
            "same_ids": int(same),
            "with_vectors": int(seen.with_vectors),
            "with_summaries": int(head.with_summaries),
            "to_embed": seen.to_embed,
        }

    @repeated
    def _begin_import(self, tenant: TenantId, owner: str, subject: str, actor: str, seen: Seen) -> Import:
        head = seen.reader.head
        forest = choose_forest(tenant, seen, self._parts.engine)
        arguments: Numbers = {"rows": head.total, "with_vectors": int(seen.with_vectors), "forest": str(forest)}
        with ImportRows.opened(self._parts.engine, tenant) as rows:
            held = rows.hold(OperationKind.IMPORT, subject, arguments, forest, actor)
            task = rows.take(held)
            if task is None or task.forest_id is None:
                raise ImportTakenOver("This import was cancelled or ended at this moment: import it again.")
            if task.arguments.get("with_vectors") != arguments["with_vectors"]:
                raise InvalidInput(
                    "This import was begun with the other choice of vectors: go on with that one.",
                    code="import_options_differ",
                )
            if "phase" not in task.progress:
                # Another process may have ended the same import since it was looked for; no other can begin now.
                done = _finished(rows, owner, subject)
                if done is not None:
                    raise _DoneMeanwhile(done)
                rows.hide(task.forest_id, owner, head.forest)
                rows.store_progress(task.id, {**task.progress, "phase": "rows"})
                rows.tasks.note(
                    AuditEntry(actor, OperationKind.IMPORT, "requested", task.forest_id, owner, held, arguments)
                )
        return Import(self._parts, tenant, owner, task, task.forest_id, seen)


class _DoneMeanwhile(Exception):
    """Another process has finished the same import, whose result this is; this one's record is rolled back."""

    def __init__(self, result: Numbers) -> None:
        super().__init__()
        self.result = result


def _finished(rows: ImportRows, owner: str, subject: str) -> Numbers | None:
    """What was done when this import was finished before. Raises InvalidInput for an owner with other memory."""
    forest = rows.find_forest(owner)
    if forest is None:
        return None
    finished = rows.last_import(subject, "done", forest.id)
    if finished is not None:
        return {"task": str(finished.id), **finished.progress, "already": 1}
    raise has_memory(owner)


def _subject(reader: BundleReader, owner: str) -> str:
    """What makes two imports the same: the bundle and its new owner."""
    return hashlib.sha256(f"{reader.digest}\x1f{owner}".encode()).hexdigest()


def write_forest(
    writer: BundleWriter, rows: ExportRows, embedder: Embedder, with_vectors: bool, with_summaries: bool, watch: Watch
) -> Numbers:
    """Write all rows of a forest; how many each table has."""
    head, done = rows.head(), 0
    total = sum(counted(dict(rows.counts()), with_summaries).values())
    taken = {VECTOR: with_vectors, SUMMARY: with_summaries}
    for table in (each for each in TABLES if taken.get(each, True)):
        for page in rows.pages(table, PAGE, embedder.model if with_vectors else None):
            writer.add(table, page)
            done += len(page)
            watch(done, max(done, total))
    written = writer.finish(
        head,
        (embedder.model, embedder.dimension),
        rows.summary_models() if with_summaries else (),
        (with_vectors, with_summaries),
    )
    watch(done, done)
    return {"rows": written.total, **counted(dict(written.rows), True)}


def counted(counts: dict[str, int], with_summaries: bool) -> dict[str, int]:
    """The counts of what is written."""
    return {name: n for name, n in counts.items() if with_summaries or name != SUMMARY.name}
