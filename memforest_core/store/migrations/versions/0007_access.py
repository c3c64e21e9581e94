"""Tenants apart for the owner of the tables too; roles of single tenants; statistics and indexes without words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

compatible = True
"""The version before asks and writes as it did; it only does not vacuum after deletions."""

SCHEMA = "memforest"
SERVICE, LIMITED = "memforest_service", "memforest_limited"

CODES = frozenset(
    {
        *(
            "tenant_id",
            "tenant",
            "state",
            "kind",
            "step",
            "outcome",
            "error_code",
            "action",
            "source",
            "role",
            "time_zone",
        ),
        *("model", "vector_model", "version_num", "revision", "follows", "key_id"),
        *("text_hash", "routing_hash", "input_hash", "owner_hash"),
    }
)
"""Columns of text or bytes, in any table, whose values are codes, ids or hashes. All others may hold what somebody
said or a name, and get no statistics: ANALYZE copies samples of a column into the catalog, where no deletion finds
them."""

WORDS = ("text", "jsonb", "text[]", "bytea")

READ_BY_LIMITED = ("collection", "worker", "migration", "schema_version")
"""Tables without a tenant that a process of one tenant reads."""

USED_BY_ALL = (
    "USAGE ON SEQUENCE memforest.point_version",
    "EXECUTE ON FUNCTION memforest.beside(text, text)",
    "EXECUTE ON FUNCTION memforest.waits_for(text, uuid)",
)
"""Rights of the service that tell nothing of any tenant: rows behind them are bound like all."""

# What the session's role was given. Only members of memforest_limited are bound by it.
GRANTED = """
CREATE FUNCTION memforest.granted_tenants() RETURNS text[]
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = memforest, pg_temp AS $$
    SELECT coalesce(array_agg(tenant), '{}') FROM tenant_role WHERE role = session_user::text
$$
"""

# Around the query of each function that looks across tenants. Its owner is bound by row-level security like everybody,
# and lifts that for this query with a setting that only the owner's policy reads.
BEFORE = """
#variable_conflict use_column
DECLARE
    own text[] := CASE WHEN pg_has_role(session_user, 'memforest_limited', 'MEMBER')
                        AND NOT (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = session_user)
                       THEN memforest.granted_tenants() END;
BEGIN
    PERFORM set_config('memforest.across', 'on', true);
    RETURN QUERY SELECT * FROM (
--"""
AFTER = """--
    ) found WHERE own IS NULL OR found.tenant_id = ANY(own);
    PERFORM set_config('memforest.across', '', true);
END """

TENANT_TABLES = """
SELECT c.relname, pg_get_userbyid(c.relowner) AS owner FROM pg_class c
 WHERE c.relnamespace = 'memforest'::regnamespace AND c.relkind = 'r'
   AND EXISTS (SELECT 1 FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'tenant_id' AND NOT attisdropped)
 ORDER BY 1
"""

ACROSS = """
SELECT p.proname AS name, pg_get_function_arguments(p.oid) AS arguments, pg_get_function_result(p.oid) AS result,
       pg_get_function_identity_arguments(p.oid) AS signature, p.prosrc AS body
  FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang
 WHERE p.pronamespace = 'memforest'::regnamespace AND p.prosecdef AND p.proretset AND l.lanname = :language
   AND 'tenant_id' = ANY(p.proargnames) ORDER BY 1
"""

COLUMNS = """
SELECT c.relname AS "table", a.attname AS "column", format_type(a.atttypid, a.atttypmod) AS type
  FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
 WHERE c.relnamespace = 'memforest'::regnamespace AND c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped
 ORDER BY 1, a.attnum
"""


def _all(query: str, **values: object) -> list[sa.Row[Any]]:
    return list(op.get_bind().execute(sa.text(query), values))


def _name(name: object) -> str:
    return op.get_bind().dialect.identifier_preparer.quote(str(name))


def _wordy() -> list[tuple[str, str, str]]:
    """Table, column and type of all columns that may hold words."""
    columns = [(str(row.table), str(row.column), str(row.type)) for row in _all(COLUMNS)]
    return [each for each in columns if each[2] in WORDS and each[1] not in CODES]


def _version() -> int:
    return int(op.get_bind().scalar(sa.text("SELECT current_setting('server_version_num')")) or 0)


def upgrade() -> None:
    # The query that they were made for looks through one forest's rows, and could never use them: it asks for signs of
    # other writing systems too. A GIN index keeps the words of deleted rows until it is rebuilt.
    op.drop_index("ix_cell_search", "cell", schema=SCHEMA)
    op.drop_index("ix_fact_search", "fact", schema=SCHEMA)
    _without_statistics()
    _limited_roles()
    _forced()
    _functions("sql", "plpgsql", lambda body: BEFORE + body + AFTER)
    if _version() >= 170_000:
        # To vacuum after a deletion; before version 17 only owners can.
        op.execute(f"GRANT MAINTAIN ON ALL TABLES IN SCHEMA {SCHEMA} TO {SERVICE}")


def _without_statistics() -> None:
    """No more samples of these columns, and none of those taken before."""
    for table, column, type_ in _wordy():
        place = f"{SCHEMA}.{_name(table)} ALTER COLUMN {_name(column)}"
        op.execute(f"ALTER TABLE {place} SET STATISTICS 0")
        if _version() >= 180_000:
            op.get_bind().execute(
                sa.text("SELECT pg_clear_attribute_stats(:s, :t, :c, false)"), {"s": SCHEMA, "t": table, "c": column}
            )
        else:
            # To the type that it has: nothing is written, but its statistics are dropped.
            op.execute(f"ALTER TABLE {place} TYPE {type_}")


def _limited_roles() -> None:
    op.execute(
        f"DO $$ BEGIN IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = '{LIMITED}')"
        f" THEN CREATE ROLE {LIMITED} NOLOGIN; END IF; END $$"
    )
    op.create_table(
        "tenant_role",
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column(
            "granted_at",
            sa.TIMESTAMP(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("role", "tenant", name="pk_tenant_role"),
        schema=SCHEMA,
    )
    op.execute(GRANTED)
    op.execute("REVOKE ALL ON FUNCTION memforest.granted_tenants() FROM PUBLIC")
    op.execute(f"GRANT EXECUTE ON FUNCTION memforest.granted_tenants() TO {LIMITED}")
    op.execute(f"GRANT USAGE ON SCHEMA {SCHEMA} TO {LIMITED}")
    for table in READ_BY_LIMITED:
        op.execute(f"GRANT SELECT ON {SCHEMA}.{table} TO {LIMITED}")
    for thing in USED_BY_ALL:
        op.execute(f"GRANT {thing} TO {LIMITED}")


def _forced() -> None:
    """Row-level security for the owner too, whom a setting of the functions above and of upgrades lifts it for."""
    for table in _all(TENANT_TABLES):
        place = f"{SCHEMA}.{_name(table.relname)}"
        op.execute(f"ALTER TABLE {place} FORCE ROW LEVEL SECURITY")
        op.execute(
            f"CREATE POLICY across_tenants ON {place} TO {_name(table.owner)}"
            " USING (current_setting('memforest.across', true) = 'on')"
        )
        # The array is made once per statement; the tenant is still looked up in indexes.
        op.execute(
            f"CREATE POLICY granted_tenants ON {place} AS RESTRICTIVE TO {LIMITED}"
            " USING (tenant_id = ANY(CAST((SELECT memforest.granted_tenants()) AS text[])))"
        )
        for right in ("SELECT", "INSERT", "UPDATE", "DELETE"):
            if op.get_bind().scalar(
                sa.text("SELECT has_table_privilege(:r, :t, :p)"), {"r": SERVICE, "t": place, "p": right}
            ):
                op.execute(f"GRANT {right} ON {place} TO {LIMITED}")


def _functions(before: str, after: str, changed: Callable[[str], str]) -> None:
    """Give each function that returns tenants another body; owner and rights stay."""
    for function in _all(ACROSS, language=before):
        statement = (
            f"CREATE OR REPLACE FUNCTION {SCHEMA}.{_name(function.name)}({function.arguments}) RETURNS"
            f" {function.result} LANGUAGE {after} STABLE SECURITY DEFINER SET search_path = memforest, pg_temp"
            f" AS $body${changed(str(function.body))}$body$"
        )
        op.get_bind().exec_driver_sql(statement.replace("%", "%%"))
        signature = f"{SCHEMA}.{_name(function.name)}({function.signature})"
        grant = (
            f"GRANT EXECUTE ON FUNCTION {signature} TO"
            if after == "plpgsql"
            else f"REVOKE EXECUTE ON FUNCTION {signature} FROM"
        )
        op.execute(f"{grant} {LIMITED}")


def downgrade() -> None:
    if _version() >= 170_000:
        op.execute(f"REVOKE MAINTAIN ON ALL TABLES IN SCHEMA {SCHEMA} FROM {SERVICE}")
    _functions("plpgsql", "sql", lambda body: body.removeprefix(BEFORE).removesuffix(AFTER))
    for table in _all(TENANT_TABLES):
        place = f"{SCHEMA}.{_name(table.relname)}"
        for policy in ("across_tenants", "granted_tenants"):
            op.execute(f"DROP POLICY {policy} ON {place}")
        op.execute(f"ALTER TABLE {place} NO FORCE ROW LEVEL SECURITY")
    op.execute("DROP FUNCTION memforest.granted_tenants()")
    op.drop_table("tenant_role", schema=SCHEMA)
    for thing in USED_BY_ALL:
        op.execute(f"REVOKE {thing} FROM {LIMITED}")
    op.execute(f"REVOKE ALL ON ALL TABLES IN SCHEMA {SCHEMA} FROM {LIMITED}")
    op.execute(f"REVOKE ALL ON SCHEMA {SCHEMA} FROM {LIMITED}")
    for wordy, column, _ in _wordy():
        op.execute(f"ALTER TABLE {SCHEMA}.{_name(wordy)} ALTER COLUMN {_name(column)} SET STATISTICS -1")
    for searched in ("cell", "fact"):
        op.create_index(
            f"ix_{searched}_search",
            searched,
            [sa.literal_column("to_tsvector('english', text)")],
            schema=SCHEMA,
            postgresql_using="gin",
        )
