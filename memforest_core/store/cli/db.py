"""``memforest db``: the schema and the service role."""

from __future__ import annotations

import typer

from memforest_core.cli.toolkit.memory_opening import quiet_logs
from memforest_core.cli.toolkit.options import JsonOption
from memforest_core.cli.toolkit.output import answered

app = typer.Typer(name="db", help="Create and upgrade the database schema.", no_args_is_help=True)


@app.command()
def upgrade(as_json: JsonOption = False) -> None:
    """Upgrade the schema to the newest revision and give the service role its rights.

    Connects with MEMFOREST_DATABASE__MIGRATION_URL: a role that may create schemas and roles, such as the database's
    owner with CREATEROLE. MEMFOREST_DATABASE__URL names the service role that is created. You can run it again, also
    several at once.
    """
    from memforest_core.settings import load_settings
    from memforest_core.store.schema import upgrade as bring_up

    quiet_logs()
    revision = bring_up(load_settings().database)
    if not answered({"revision": revision}, as_json=as_json):
        print(f"The schema is at revision {revision}.")


@app.command()
def current(as_json: JsonOption = False) -> None:
    """Print the schema's revision and the one that this version needs."""
    from memforest_core.settings import load_settings
    from memforest_core.store.engine import transaction
    from memforest_core.store.schema import current_revision, head_revision, opened_owner

    quiet_logs()
    with opened_owner(load_settings().database) as engine, transaction(engine) as connection:
        revision, needed = current_revision(connection), head_revision()
    if not answered({"revision": revision, "needed": needed}, as_json=as_json):
        advice = "" if revision == needed else ": run memforest db upgrade"
        print(f"The schema is at revision {revision or 'none'}, this version needs {needed}{advice}.")
