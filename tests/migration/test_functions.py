"""Functions and triggers come from files: an upgrade installs them, with their rights."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa

from memforest_core.domain.operation_rules import RULES, Answer, Role
from memforest_core.errors import InvalidSettings
from memforest_core.settings import DatabaseSettings
from memforest_core.store import functions
from memforest_core.store.engine import open_engine
from memforest_core.store.schema import check_ready, upgrade
from tests.harness.servers import SessionServers
from tests.migration.test_migrations import connected, empty

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
            connection.execute(sa.text("ALTER FUNCTION memforest.operation_rule COST 7"))
            functions.install(connection)

            sources = connection.execute(sa.text(SOURCES)).all()

        assert found(settings) == made
        installed = {row.proname: row.prosrc for row in sources}
        assert "WHEN 'erase export' THEN 'refused'" in installed.pop("operation_rule")
        assert installed == bodies()


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
            monkeypatch.setattr("memforest_core.domain.operation_rules.RULES", changed)
            monkeypatch.setattr(functions, "RULES", changed)
            with pytest.raises(InvalidSettings, match="memforest db upgrade"):
                check_ready(engine)

            assert upgrade(settings) == revision
            check_ready(engine)
        finally:
            engine.dispose()
