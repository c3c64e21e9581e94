"""``memforest backup`` and ``memforest restore``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from memforest_core.cli.toolkit.memory_opening import opened_database, opened_memory, quiet_logs
from memforest_core.cli.toolkit.options import DataOption, JsonOption, argument, option
from memforest_core.cli.toolkit.output import answered, report_progress
from memforest_core.errors import InvalidInput

if TYPE_CHECKING:
    from memforest_core.client.api import MemForest
    from memforest_core.lifecycle.backup.files import Manifest
    from memforest_core.lifecycle.erase.service import RequestedErasure

Directory = Annotated[Path, argument("The backup's directory.", metavar="DIR")]


def backup(directory: Directory, data: DataOption = None, as_json: JsonOption = False) -> None:
    """Write all rows of the database to DIR, as of one moment, while work goes on.

    Connects with MEMFOREST_DATABASE__MIGRATION_URL, the schema owner's address. DIR must be new or empty. It contains
    conversation text, and only this user can read it. An interrupted backup has no manifest.json and can't be restored.
    """
    from memforest_core.lifecycle.backup.service import back_up

    quiet_logs()
    if data is not None and not data.is_dir():
        raise InvalidInput(f"There is no data directory {data}.", code="no_data_directory")
    with opened_database(data, running=True) as database:
        manifest = back_up(database, directory)
    if not answered(_to_dict(manifest), as_json=as_json):
        size = sum(table.bytes for table in manifest.tables) / 2**20
        print(f"{_rows(manifest)} rows of {manifest.made_at:%Y-%m-%d %H:%M:%S %Z} are in {directory} ({size:.1f} MiB).")


def export_erasures(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The list's file. An existing file is replaced.")],
    data: DataOption = None,
) -> None:
    """Write all requested deletions to FILE, as ids and digests. A later restore can repeat them.

    Connects as memforest backup does. MEMFOREST_DATABASE__ERASURES_KEY signs the list.
    """
    from memforest_core.lifecycle.backup.files import write_list
    from memforest_core.lifecycle.backup.service import requested_erasures
    from memforest_core.settings import load_settings

    quiet_logs()
    with opened_database(data, running=True) as database:
        requested = requested_erasures(database)
    write_list(file, requested, load_settings().database.erasures_key)
    print(f"{len(requested)} deletions are in {file}.")


def restore(
    directory: Directory,
    data: DataOption = None,
    as_json: JsonOption = False,
    erasures: Annotated[Path | None, option("Repeat the deletions in this list.", metavar="FILE")] = None,
) -> None:
    """Load the backup in DIR into an empty database, rebuild the index without a model, and verify everything.

    The schema is created and upgraded. After an interruption, run it again: either all rows are loaded or none. Until
    it ends, nothing serves from the database. Exit code 1 if verify finds a broken guarantee.
    """
    from memforest_core.lifecycle.backup.files import read_list
    from memforest_core.lifecycle.backup.service import done, load
    from memforest_core.lifecycle.verify.cli import exit_code
    from memforest_core.lifecycle.verify.service import open_verification
    from memforest_core.settings import load_settings
    from memforest_core.store.schema import restoring

    quiet_logs()
    requested = None if erasures is None else read_list(erasures, load_settings().database.erasures_key)
    with opened_database(data, running=False) as database:
        manifest = load(database, directory, report_progress, repeats=requested is not None)
    with restoring(), opened_memory(data) as memory:
        found = _reindex(memory, requested or ())
        report_progress("verifying")
        services = memory.services
        report = open_verification(services.engine, services.index, services.settings).run_all()
        done(memory.settings.database)
    if not answered(
        _to_dict(manifest) | {"repeated": found, "violations": report.violations, "complete": report.complete},
        as_json=as_json,
    ):
        print(f"{_rows(manifest)} rows of {manifest.made_at:%Y-%m-%d %H:%M:%S %Z} are restored.")
        if requested is not None:
            print(f"{found} of {len(requested)} deletions were repeated; the others concern nothing that is here.")
        print(f"{report.violations} violations in {report.forests} forests (memforest verify shows them).")
    if exit_code(report):
        raise typer.Exit(exit_code(report))


def _reindex(memory: MemForest, requested: Sequence[RequestedErasure]) -> int:
    """Build the index and repeat deletions; how many of them concern what is here."""
    from memforest_core.index.index_opening import open_maintenance
    from memforest_core.lifecycle.backup.service import Reindexing

    services = memory.services
    own = open_maintenance(services.engine, services.index, services.producer.wakeups, services.settings)
    others = (services.indexer, own.upkeep, own.generations, services.lifecycle.erasure, services.reconciler)
    reindexing = Reindexing(services.jobs, own.tasks, *others)
    reindexing.run(report_progress)
    if not requested:
        return 0
    # A deletion may have to wait for any other operation.
    return replace(reindexing, tasks=services.maintenance.tasks).repeat(requested, report_progress)


def _rows(manifest: Manifest) -> int:
    return sum(table.rows for table in manifest.tables)


def _to_dict(manifest: Manifest) -> dict[str, object]:
    return {
        "id": str(manifest.id),
        "made_at": manifest.made_at.isoformat(),
        "revision": manifest.revision,
        "rows": {table.name: table.rows for table in manifest.tables},
        "bytes": sum(table.bytes for table in manifest.tables),
    }


erasures = typer.Typer(
    name="erasures", help="Export deletions, so that a restore can repeat them.", no_args_is_help=True
)
erasures.callback()(lambda: None)
erasures.command("export")(export_erasures)
