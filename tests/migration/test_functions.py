"""Functions and triggers come from files: installing them changes nothing of what earlier migrations made."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import sqlalchemy as sa

from benchmarks.support.servers import SessionServers
from memforest_core.domain.operations import RULES, Answer, Role
from memforest_core.errors import InvalidSettings
from memforest_core.settings import DatabaseSettings
from memforest_core.store import functions
from memforest_core.store.engine import open_engine
from memforest_core.store.schema import check_ready, upgrade
from tests.migration.test_migrations import connected, downgrade, empty, objects, revisions

FILES = sorted(Path(functions.__file__).parent.glob("*.sql"), key=lambda file: file.name)
FUNCTIONS = sa.text(
    """
    SELECT proname AS name, pg_get_functiondef(oid) AS definition, pg_get_userbyid(proowner) AS owner,
           proacl::text AS rights
      FROM pg_proc WHERE pronamespace = 'memforest'::regnamespace ORDER BY 1
    """
)
TRIGGERS = sa.text(
    """
    SELECT c.relname AS name, pg_get_triggerdef(t.oid) AS definition, t.tgname AS owner, t.tgenabled::text AS rights
      FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
     WHERE c.relnamespace = 'memforest'::regnamespace AND NOT t.tgisinternal ORDER BY 1, 3
    """
)

SOURCES = "SELECT proname, prosrc FROM pg_proc WHERE pronamespace = 'memforest'::regnamespace"

WEBHOOKS = {"tell_webhooks", "tell_of_cell", "tell_of_node", "tell_of_operation"}
CHANGED_LATER = {"waiting", "next_waiting", "busy", "key_caller", "lost", "backlog", *WEBHOOKS}
"""By revisions 0019 to 0023: the files have them as they are now."""

Found = list[tuple[str, str, str, str | None]]


def found(settings: DatabaseSettings) -> Found:
    """All functions and triggers, with their owners and rights; white space is no difference."""
    with connected(settings) as connection:
        rows = [row for query in (FUNCTIONS, TRIGGERS) for row in connection.execute(query)]
    return [(row.name, " ".join(row.definition.split()), row.owner, row.rights) for row in rows]


def bodies() -> dict[str, str]:
    """The bodies of the functions in the files, by name."""
    parts = (part for file in FILES for part in file.read_text().split("CREATE OR REPLACE FUNCTION memforest.")[1:])
    return {part.split("(")[0]: part.split("AS $$")[1].split("$$;")[0] for part in parts}


def test_installing_the_files_changes_nothing(servers: SessionServers) -> None:
    """Given a database at the revision before, when the files are installed, then functions, triggers, owners and
    rights are what they were."""
    with empty(servers) as settings:
        upgrade(settings, "0008")
        before = found(settings)

        upgrade(settings, "0009")

        after = [each for each in found(settings) if each[0] not in CHANGED_LATER]
        assert after == [each for each in before if each[0] not in CHANGED_LATER]
        assert {(name, rights) for name, _, _, rights in before if name in CHANGED_LATER} <= {
            (name, rights) for name, _, _, rights in found(settings)
        }


def test_each_function_is_the_one_in_its_file(servers: SessionServers) -> None:
    """Given a database whose functions and triggers are broken, when the files are installed, then there is a file for
    each function, it is what is installed, and the triggers are back."""
    with empty(servers) as settings:
        upgrade(settings)
        made = found(settings)
        with connected(settings) as connection:
            for name, definition, *_ in made:
                if definition.startswith("CREATE TRIGGER work_transition"):
                    connection.execute(sa.text(f"DROP TRIGGER work_transition ON memforest.{name}"))
            connection.execute(sa.text("ALTER FUNCTION memforest.beside COST 7"))
            functions.install(connection)

            sources = connection.execute(sa.text(SOURCES)).all()

        assert found(settings) == made
        installed = {row.proname: row.prosrc for row in sources}
        assert "WHEN 'erase export' THEN 'refused'" in installed.pop("beside")
        assert installed == bodies()


def test_no_function_names_a_column_that_a_downgrade_dropped(servers: SessionServers) -> None:
    """Given each revision in turn from the newest to the first with functions in files, when the schema goes back to the
    one before, then no function names a column of it that is gone."""
    with empty(servers) as settings:
        upgrade(settings)
        made = columns(settings)
        for revision in [each for each in revisions() if each >= "0009"][-2::-1]:
            downgrade(settings, revision)
            gone = made - columns(settings) - {"since"}  # backlog also calls a result so
            with connected(settings) as connection:
                sources = connection.execute(sa.text(SOURCES)).all()
            named = {
                (each.proname, name) for each in sources for name in gone if re.search(rf"\.{name}\b", each.prosrc)
            }

            assert not named, f"{revision}: {named}"


def columns(settings: DatabaseSettings) -> set[str]:
    """The names of all columns and tables."""
    return {name for row in objects(settings)["columns"] for name in row[:2]}


def test_an_upgrade_of_what_is_up_to_date_waits_for_no_writer(servers: SessionServers) -> None:
    with empty(servers) as settings:
        revision = upgrade(settings)
        with connected(settings) as connection:
            connection.execute(sa.text("LOCK TABLE memforest.cell, memforest.node IN ROW EXCLUSIVE MODE"))

            assert upgrade(settings) == revision


def test_an_upgrade_brings_the_rules_of_operations_of_this_version(
    servers: SessionServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given a version that changed which operations wait for each other and nothing else, then it refuses the database
    until that was upgraded, to the same revision."""
    with empty(servers) as settings:
        revision = upgrade(settings)
        engine = open_engine(settings)
        try:
            check_ready(engine)
            changed = {**RULES, Role.EXPORT: {Role.RETAIN: Answer.WAITS}}
            monkeypatch.setattr("memforest_core.domain.operations.RULES", changed)
            monkeypatch.setattr(functions, "RULES", changed)
            with pytest.raises(InvalidSettings, match="memforest db upgrade"):
                check_ready(engine)

            assert upgrade(settings) == revision
            check_ready(engine)
        finally:
            engine.dispose()
