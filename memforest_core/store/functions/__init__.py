"""The current definition of each SQL function and its triggers: in files, and two made from tables in Python."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files

import sqlalchemy as sa

from memforest_core.domain.operation_rules import RULES, Answer, Role, answer
from memforest_core.store import tables as m


def install(connection: sa.Connection) -> None:
    """Create or replace all functions and triggers in the caller's transaction, and grant the rights to call them.

    An upgrade that changed the revision ends with this: to change a function, change its file and add a migration,
    so that a database without it is refused. Migrations do not call it: files may need tables of later ones. Bodies may
    name functions of later files, so they are not checked. Takes locks that hold back writers of work rows.
    """
    cursor = connection.connection.cursor()
    cursor.execute("SET LOCAL check_function_bodies = off")
    for file in sorted(files(__name__).iterdir(), key=lambda file: file.name):
        if file.name.endswith(".sql"):
            cursor.execute(file.read_text(encoding="utf-8"))
    cursor.execute("SET LOCAL check_function_bodies = on")
    for trigger in _transition_triggers():
        cursor.execute(trigger)
    install_rules(connection)


def _transition_triggers() -> Iterator[str]:
    """For each table of work rows the trigger that refuses what ``TRANSITIONS`` does not allow. A node's state is
    computed from its other columns: it is known only after the row was written."""
    legal = [(old, new) for old, following in m.TRANSITIONS.items() for new in following]
    when = f"OLD.state IS DISTINCT FROM NEW.state AND (OLD.state, NEW.state) NOT IN ({', '.join(map(str, legal))})"
    before = [kind.__tablename__ for kind in (m.Cell, m.IndexRow, m.OperationRow, m.WebhookDelivery)]
    for table, moment in [*((each, "BEFORE UPDATE OF state") for each in before), ("node", "AFTER UPDATE")]:
        yield (
            f"CREATE OR REPLACE TRIGGER work_transition {moment} ON memforest.{table}"
            f" FOR EACH ROW WHEN ({when}) EXECUTE FUNCTION memforest.refuse_transition()"
        )


def install_rules(connection: sa.Connection) -> None:
    """Create or replace ``memforest.operation_rule`` alone, which blocks nobody."""
    cursor = connection.connection.cursor()
    cursor.execute(_operation_rule())
    cursor.execute("REVOKE ALL ON FUNCTION memforest.operation_rule(text, text) FROM PUBLIC")
    cursor.execute(
        "GRANT EXECUTE ON FUNCTION memforest.operation_rule(text, text) TO memforest_service, memforest_limited"
    )


def _operation_rule() -> str:
    """``memforest.operation_rule(earlier role, later role)``: the answer of ``domain.operation_rules.RULES``."""
    cases = "\n".join(
        f"           WHEN '{earlier} {later}' THEN '{found}'"
        for earlier, answers in RULES.items()
        for later, found in answers.items()
    )
    return f"""
        CREATE OR REPLACE FUNCTION memforest.operation_rule(earlier text, later text)
        RETURNS text
        LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
            SELECT CASE earlier || ' ' || later
{cases}
                   ELSE '{Answer.CONCURRENT}' END
        $$"""


def has_rules(connection: sa.Connection) -> bool:
    """Whether the database answers every pair of roles as this version does."""
    pairs = [(earlier, later) for earlier in Role for later in Role]
    statement = sa.text(
        "SELECT memforest.operation_rule(e, l) FROM unnest(CAST(:e AS text[]), CAST(:l AS text[])) AS u(e, l)"
    )
    found = connection.scalars(
        statement, {"e": [str(pair[0]) for pair in pairs], "l": [str(pair[1]) for pair in pairs]}
    )
    return list(found) == [answer(*pair) for pair in pairs]
