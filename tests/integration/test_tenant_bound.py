"""No statement of a tenant's work joins across tenants: tables could be spread over servers by the tenant."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import sqlalchemy as sa
import sqlglot
from sqlalchemy import event
from sqlglot import exp

from memforest_core.store.tables import Base
from tests.harness.sayings import said
from tests.harness.stack import SERVICE_ROLE, Stack

SHARED = {"collection", "migration", "moved_tenant", "tenant_role", "worker"}
"""Tables without a tenant: small, and the same for all."""


@contextmanager
def sent() -> Iterator[set[str]]:
    """The statements that the service's role sends meanwhile."""
    statements: set[str] = set()

    def note(connection: sa.Connection, _cursor: object, statement: str, *_rest: object) -> None:
        if connection.engine.url.username == SERVICE_ROLE:
            statements.add(statement)

    event.listen(sa.Engine, "before_cursor_execute", note)
    try:
        yield statements
    finally:
        event.remove(sa.Engine, "before_cursor_execute", note)


def unbound(statement: str) -> list[str]:
    """The tables of a statement that it does not bind to a tenant where it names them."""
    tree = sqlglot.parse_one(re.sub(r"%\((\w+)\)s", r":\1", statement).replace("%%", "%"), dialect="postgres")
    found = []
    for table in tree.find_all(exp.Table):
        if table.db != "memforest" or not table.name or table.name in SHARED:
            continue
        name = table.alias or table.name
        around = table.find_ancestor(exp.Select, exp.Update, exp.Delete, exp.Insert)
        assert around is not None
        if isinstance(around, exp.Insert) and table.find_ancestor(exp.Schema):
            bound = any(column.name == "tenant_id" for column in around.this.expressions)
        else:
            equal = (each for kind in (exp.EQ, exp.In) for each in around.find_all(kind))
            columns = (column for each in equal for column in each.find_all(exp.Column))
            bound = any(column.name == "tenant_id" and column.table in (name, "") for column in columns)
        if not bound:
            found.append(table.name)
    return found


@pytest.mark.parametrize(
    "statement", ["SELECT 1 FROM memforest.cell c", "DELETE FROM memforest.fact WHERE fact_id = 1"]
)
def test_a_statement_over_all_tenants_is_seen(statement: str) -> None:
    assert unbound(statement)


def test_each_key_begins_with_the_tenant() -> None:
    """What a table refers to is of the same tenant, and found by it first."""
    for table in Base.metadata.tables.values():
        if table.name in SHARED:
            continue
        assert next(iter(table.primary_key.columns)).name == "tenant_id", table.name
        for key in table.foreign_key_constraints:
            assert key.column_keys[0] == "tenant_id", key.name


def test_no_statement_of_a_tenants_work_joins_across_tenants(pipeline: Stack) -> None:
    """Given an owner's way from sessions to a deletion, then each statement binds each table to one tenant."""
    sessions = {
        f"s-{number}": said(
            f"I moved to {town}.",
            f"My sister Ann visits me in {town}.",
            f"I bought a bicycle for {number} euros.",
            "I like my job as a nurse.",
            start=1_600_000_000 + 86_400 * number,
        )
        for number, town in enumerate(("Oslo", "Rome", "Lisbon"))
    }
    pipeline.services.webhooks.poster._resolve = lambda host, port: []
    with sent() as statements:
        pipeline.memory.webhooks.create("https://example.com/hook")
        for name, turns in sessions.items():
            pipeline.memory.ingest("bob", name, turns, wait="none", backfill=True)
        pipeline.drive()
        assert pipeline.memory.facts("bob").items
        for question in ("Where does he live now?", "What did they talk about first?"):
            pipeline.memory.recall("bob", question)
        pipeline.memory.context("bob", "s-0", "What now?")
        pipeline.memory.timeline("bob")
        pipeline.memory.profile("bob")
        pipeline.memory.lifecycle.forget("bob", session="s-0", actor="test")
        pipeline.drive()

        assert pipeline.memory.webhooks.deliveries().items

    assert len(statements) > 100
    across = {statement: tables for statement in statements if (tables := unbound(statement))}
    assert across == {}
