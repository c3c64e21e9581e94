"""Options, progress, report and Postgres of every benchmark."""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

import sqlalchemy as sa

from memforest_core.client.embedded.servers import EmbeddedServers
from memforest_core.domain.ids import NodeId
from memforest_core.settings import DatabaseSettings
from memforest_core.store.engine import open_engine
from memforest_core.store.schema import check_ready, upgrade

SERVICE_ROLE = "memforest_app"
SETUP_TIMEOUT_MS = 600_000

Row = dict[str, object]


def parser(description: str) -> argparse.ArgumentParser:
    """The options that every benchmark has."""
    options = argparse.ArgumentParser(description=description)
    options.add_argument("--json", action="store_true", help="print one JSON object as the last line of stdout")
    options.add_argument("--seed", type=int, default=7, help="makes runs repeatable (default: %(default)s)")
    return options


def say(text: str) -> None:
    """Progress, on stderr."""
    print(text, file=sys.stderr, flush=True)


COUNTED = ("n", "cells", "windows", "model_calls")
"""What a row counts of what it measured."""


def unmeasured(rows: Sequence[Row]) -> str:
    """Which row measured nothing, and by which count; empty if each measured something."""
    if not rows:
        return "there is no row"
    zeros = ((number, name) for number, row in enumerate(rows, 1) for name in COUNTED if row.get(name, 1) == 0)
    return next((f"row {number} has {name}=0" for number, name in zeros), "")


@dataclass(frozen=True, slots=True)
class Report:
    """One run's answer; made before the work begins, because the load that matters is that of others."""

    seed: int
    as_json: bool
    load_before: float = field(default_factory=lambda: os.getloadavg()[0])

    def end(self, rows: Sequence[Row], measured: Mapping[str, object]) -> None:
        """Print the rows; ``measured`` says what was measured, and with which parameters. Ends the program with a
        sentence and exit code 1 when a row measured nothing."""
        if nothing := unmeasured(rows):
            raise SystemExit(f"Nothing was measured: {nothing}.")
        if not self.as_json:
            for row in rows:
                print("  ".join(f"{name}={value}" for name, value in row.items()))
            return
        machine = {
            "cores": os.cpu_count(),
            "python": platform.python_version(),
            "platform": platform.platform(),
            "load": [round(self.load_before, 2), round(os.getloadavg()[0], 2)],
        }
        print(json.dumps({"rows": rows, "seed": self.seed, "machine": machine, "measured": measured}), flush=True)


@dataclass(frozen=True, slots=True)
class Database:
    """A migrated Postgres of this run's own: ``service`` is bound by row-level security, ``owner`` is not."""

    service: sa.Engine
    owner: sa.Engine

    def tidy(self) -> None:
        """What autovacuum would have done by the time a memory has grown: fresh statistics, no dead rows."""
        with self.owner.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.exec_driver_sql("VACUUM (ANALYZE)")
            connection.exec_driver_sql("CHECKPOINT")


@contextmanager
def database() -> Iterator[Database]:
    """Start Postgres in a temporary directory, migrate it, and connect as the service role."""
    with ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="memforest-bench-"))
        servers = stack.enter_context(EmbeddedServers.start(Path(directory)))
        owner_url = servers.postgres.url()
        settings = DatabaseSettings.model_validate(
            {"url": servers.postgres.url(user=SERVICE_ROLE), "migration_url": owner_url}
        )
        upgrade(settings)
        # Setting up and tidying take longer than any statement of a service may.
        patient = settings.model_copy(update={"statement_timeout_ms": SETUP_TIMEOUT_MS})
        service, owner = open_engine(patient), open_engine(patient, owner_url)
        stack.callback(owner.dispose)
        stack.callback(service.dispose)
        check_ready(service)
        yield Database(service, owner)


def seeded_ids(rng: random.Random) -> Callable[[], NodeId]:
    """Node ids that look random and repeat with the seed."""
    return lambda: NodeId(UUID(int=rng.getrandbits(128), version=4))
