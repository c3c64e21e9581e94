"""``memforest metrics``: the gauges of the backlog as Prometheus reads them, printed once."""

from __future__ import annotations

import typer

from memforest_core.cli.toolkit.opening import opened_store
from memforest_core.cli.toolkit.options import DataOption
from memforest_core.cli.toolkit.output import Exit


def metrics(data: DataOption = None) -> None:
    """Print the backlog, the ages of what waits, and the workers, as Prometheus reads them; of all tenants.

    Exit code 1 when Postgres does not answer.
    """
    from prometheus_client import CollectorRegistry, generate_latest

    from memforest_core.observe.exposition import BacklogCollector
    from memforest_core.observe.rows import ObserveStore
    from memforest_core.settings import load_settings

    registry = CollectorRegistry()
    with opened_store(data) as store:
        registry.register(BacklogCollector(ObserveStore(store.engine), load_settings()))
        written = generate_latest(registry).decode()
    print(written, end="")
    if "\nmemforest_store_up 0.0" in written:
        raise typer.Exit(Exit.FAILED)
