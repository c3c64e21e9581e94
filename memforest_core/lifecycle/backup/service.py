"""Backups of all rows of the database, and restores of them into an empty one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from uuid import uuid4

from memforest_core.domain.ids import TenantId, WorkerId
from memforest_core.errors import IndexUnavailable, InvalidSettings, InvariantViolated
from memforest_core.index.generations import Generations
from memforest_core.index.rebuild import IndexUpkeep
from memforest_core.index.service import Indexer
from memforest_core.index.vector_index import PointKind
from memforest_core.lifecycle.backup.files import (
    BackupUnusable,
    Destination,
    Manifest,
    blocks_of,
    check_files,
    read_manifest,
)
from memforest_core.lifecycle.backup.rows import Loading, Snapshot, clear_note, found_state, saved_tables
from memforest_core.lifecycle.erase.service import Erasure, RequestedErasure
from memforest_core.settings import DatabaseSettings
from memforest_core.store.schema import BASELINE, RESTORE_NOTE, head_revision, opened_owner, upgrade
from memforest_core.work.reconciler import Reconciler
from memforest_core.work.records import TaskId
from memforest_core.work.rows.job_rows import JobStore
from memforest_core.work.runner import OperationRunner

POLL_S = 0.2
_REPEATS = " erasures"
PATIENCE_S = 60.0
"""What other workers of a node have claimed is waited for as long as this."""

Report = Callable[[str], None]
"""Gets a sentence on what is done now."""


def back_up(database: DatabaseSettings, directory: Path) -> Manifest:
    """Write all rows of one moment to a directory. Raises BackupUnusable, InvalidSettings, StoreUnavailable."""
    with (
        Destination.opened(directory) as destination,
        opened_owner(database) as engine,
        Snapshot.opened(engine) as snapshot,
    ):
        if snapshot.revision != head_revision():
            raise InvalidSettings(
                f"The database is at schema {snapshot.revision or 'none'}, this version saves {head_revision()}: run"
                " memforest db upgrade, or the version that the workers have."
            )
        saved = []
        for name, columns in saved_tables():
            table = destination.save(name, columns, snapshot.read(name, columns))
            saved.append(table.model_copy(update={"rows": snapshot.count(name)}))
        manifest = Manifest(
            id=uuid4(),
            made_at=snapshot.at,
            version=version("memforest"),
            revision=snapshot.revision,
            postgres=snapshot.postgres,
            tables=tuple(saved),
        )
        destination.complete(manifest)
    return manifest


def requested_erasures(database: DatabaseSettings) -> list[RequestedErasure]:
    """The deletions that were requested of a database. Raises InvalidSettings, StoreUnavailable."""
    with opened_owner(database) as engine, Snapshot.opened(engine) as snapshot:
        return snapshot.erasures()


def load(database: DatabaseSettings, directory: Path, report: Report, *, repeats: bool = False) -> Manifest:
    """Fill an empty database from a backup, all or nothing, and upgrade it to this version.

    ``repeats`` says that deletions are to be repeated before the restore ends. Run again after it was interrupted it
    goes on where it was. Raises BackupUnusable, InvalidSettings for a database
    with any rows, StoreUnavailable.
    """
    manifest = read_manifest(directory)
    if manifest.revision > head_revision():
        raise BackupUnusable(
            f"The backup is of schema {manifest.revision}, this version knows {head_revision()}: restore it with"
            f" memforest {manifest.version} or a newer one."
        )
    if manifest.revision < BASELINE:
        raise BackupUnusable(
            f"The backup is of schema {manifest.revision} of a development version: restore it with that version, run"
            " its memforest export for each owner and import the files into a new database."
        )
    report("checking the files")
    check_files(directory, manifest)
    with opened_owner(database) as engine:
        note = f"{RESTORE_NOTE}{manifest.id}"
        found, noted = found_state(engine)
        if noted in (note, note + _REPEATS):
            if noted != note and not repeats:
                raise InvalidSettings("This restore was begun with deletions to repeat: give --erasures again.")
            report("the rows are loaded already: going on")
        else:
            if found not in (None, manifest.revision):
                raise InvalidSettings(
                    f"The database is at schema {found} and the backup at {manifest.revision}: restore into a new,"
                    " empty database."
                )
            upgrade(database, manifest.revision)
            with Loading.opened(engine) as loading:
                occupied = loading.first_with_rows(table.name for table in manifest.tables)
                if occupied is not None:
                    raise InvalidSettings(
                        f"The database has memory already (table {occupied}): restore into a new, empty database."
                    )
                for table in manifest.tables:
                    report(f"loading {table.rows} rows of {table.name}")
                    loaded = loading.load(table.name, table.columns, blocks_of(directory / table.file))
                    if loaded != table.rows:
                        raise BackupUnusable(f"{directory / table.file} has {loaded} rows instead of {table.rows}.")
                loading.go_on_counting()
                loading.note(note + _REPEATS * repeats)
        upgrade(database)
    return manifest


@dataclass(frozen=True, slots=True)
class Reindexing:
    """Writes the whole index from the rows, in this process: no worker has to run, and none is in the way."""

    jobs: JobStore
    tasks: OperationRunner
    """Of the index's own operations; to repeat deletions, of all."""
    indexer: Indexer
    upkeep: IndexUpkeep
    generations: Generations
    erasure: Erasure
    reconciler: Reconciler

    def run(self, report: Report) -> None:
        """Until no row is behind. Raises IndexUnavailable, StoreUnavailable."""
        self.upkeep.index.prepare()
        self.generations.check(now=True)
        requested = self.upkeep.rebuild()
        report(f"building the index of {len(requested)} tenants")
        with self._registered() as worker:
            self._work(requested, worker)

    def repeat(self, erasures: Sequence[RequestedErasure], report: Report) -> int:
        """Repeat deletions in order; how many concern what is here. InvariantViolated if one leaves anything."""
        found = 0
        report(f"repeating {len(erasures)} deletions")
        with self._registered() as worker:
            for each in erasures:
                tasks = self.erasure.repeat(each)
                found += bool(tasks)
                for task in tasks:
                    tenant = TenantId(each.tenant)
                    self._work({tenant: task}, worker)
                    if not self.erasure.receipt(tenant, task).clean:
                        raise InvariantViolated(
                            f"The deletion {task} was not carried out: see memforest dead list, and restore again."
                        )
        return found

    @contextmanager
    def _registered(self) -> Iterator[WorkerId]:
        # What a restore that was killed had claimed is free at once.
        self.jobs.delete_name("restore")
        self.reconciler.run()
        worker = WorkerId(uuid4())
        self.jobs.register(worker, "restore", ())
        try:
            yield worker
        finally:
            self.jobs.leave(worker)

    def _work(self, requested: Mapping[TenantId, TaskId], worker: WorkerId) -> None:
        moved = time.monotonic()
        while True:
            self.jobs.beat(worker)
            if any([self._some(tenant, worker) for tenant in requested]):
                moved = time.monotonic()
                continue
            found, behind = self.upkeep.progress(requested)
            if not behind and all(task.finished for task in found):
                return
            self.upkeep.index.read_mark()  # raises while the index is unavailable
            if time.monotonic() - moved > PATIENCE_S:
                raise IndexUnavailable(f"{behind} rows are not in the index yet: run the restore again.")
            time.sleep(POLL_S)

    def _some(self, tenant: TenantId, worker: WorkerId) -> bool:
        tasks = self.tasks.run_one(tenant, worker)
        return self.indexer.run_one(tenant, worker, tuple(PointKind)) > 0 or tasks


def done(database: DatabaseSettings) -> None:
    """The restore has ended: the database is one like any other."""
    with opened_owner(database) as engine:
        clear_note(engine)
