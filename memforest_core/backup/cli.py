"""``memforest backup`` and ``memforest restore``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from memforest_core.cli.opening import opened_memory, quiet_logs
from memforest_core.cli.options import DataOption, JsonOption
from memforest_core.cli.output import print_json, report_progress
from memforest_core.errors import InvalidInput

if TYPE_CHECKING:
    from memforest_core.api import MemForest
    from memforest_core.backup.files import Manifest
    from memforest_core.settings import DatabaseSettings
    from memforest_core.verify.records import Report

Directory = Annotated[Path, typer.Argument(metavar="DIR", help="The backup's directory.", show_default=False)]


def backup(directory: Directory, data: DataOption = None, as_json: JsonOption = False) -> None:
    """Write all that the database keeps to DIR, as it is at one moment, while work goes on.

    Connects with MEMFOREST_DATABASE__MIGRATION_URL, the owner's address. DIR must be new or empty; it holds what was
    said, for this user alone to read. A backup that was interrupted has no manifest.json and is never restored.
    """
    from memforest_core.backup.service import back_up

    quiet_logs()
    if data is not None and not data.is_dir():
        raise InvalidInput(f"There is no data directory {data}.", code="no_data_directory")
    with _database(data, running=True) as database:
        manifest = back_up(database, directory)
    if as_json:
        print_json(_told(manifest))
    else:
        size = sum(table.bytes for table in manifest.tables) / 2**20
        print(f"{_rows(manifest)} rows of {manifest.made_at:%Y-%m-%d %H:%M:%S %Z} are in {directory} ({size:.1f} MiB).")


def restore(directory: Directory, data: DataOption = None, as_json: JsonOption = False) -> None:
    """Load the backup in DIR into an empty database, build the index anew without any model, and verify all promises.

    The schema is made and upgraded. Interrupted, it can be run again: rows are loaded all or not at all. Exit code 1
    when a promise is broken.
    """
    from memforest_core.backup.service import done, load
    from memforest_core.verify.cli import exit_code

    quiet_logs()
    with _database(data, running=False) as database:
        manifest = load(database, directory, report_progress)
    with opened_memory(data) as memory:
        _reindex(memory)
        report_progress("verifying")
        report = _verified(memory)
        done(memory.settings.database)
    if as_json:
        print_json(_told(manifest) | {"violations": report.violations, "complete": report.complete})
    else:
        print(f"{_rows(manifest)} rows of {manifest.made_at:%Y-%m-%d %H:%M:%S %Z} are restored.")
        print(f"{report.violations} violations in {report.forests} forests (memforest verify shows them).")
    if exit_code(report):
        raise typer.Exit(exit_code(report))


@contextmanager
def _database(data: Path | None, *, running: bool) -> Iterator[DatabaseSettings]:
    """The database with its owner's address: that of the settings, or of a node, which may be ``running``."""
    from memforest_core.embedded.cluster import SUPERUSER
    from memforest_core.embedded.directory import DataDirectoryInUse, running_node
    from memforest_core.embedded.node import embedded_settings
    from memforest_core.embedded.servers import EmbeddedServers
    from memforest_core.settings import load_settings
    from memforest_core.store.schema import owners_address

    if data is None:
        yield load_settings().database
        return
    try:
        servers = EmbeddedServers.start(data)
    except DataDirectoryInUse:
        published = running_node(data) if running else None
        if published is None:
            raise
        yield owners_address(load_settings(**published).database, SUPERUSER)
        return
    try:
        yield embedded_settings(load_settings(), servers).database
    finally:
        servers.close()


def _reindex(memory: MemForest) -> None:
    from memforest_core.backup.service import Reindexing
    from memforest_core.index.opening import open_maintenance

    services = memory.services
    own = open_maintenance(services.engine, services.index, services.producer.wakeups, services.settings)
    Reindexing(services.jobs, own.tasks, services.indexer, own.upkeep, own.generations).run(report_progress)


def _verified(memory: MemForest) -> Report:
    from memforest_core.verify.service import open_verification

    services = memory.services
    return open_verification(services.engine, services.index, services.settings).run_all()


def _rows(manifest: Manifest) -> int:
    return sum(table.rows for table in manifest.tables)


def _told(manifest: Manifest) -> dict[str, object]:
    return {
        "id": str(manifest.id),
        "made_at": manifest.made_at.isoformat(),
        "revision": manifest.revision,
        "rows": {table.name: table.rows for table in manifest.tables},
        "bytes": sum(table.bytes for table in manifest.tables),
    }


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (backup, restore):
        app.command()(command)
