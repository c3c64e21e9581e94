"""Copies derived from the tables: every table is accounted for, parents before children, nothing computed is copied."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
import sqlalchemy as sa

from memforest_core.domain.ids import TenantId
from memforest_core.lifecycle.bundle.records import TABLES
from memforest_core.lifecycle.erase.rows import deletion
from memforest_core.store import tables as m
from memforest_core.store.copying import (
    CONTENT,
    RECORDS,
    blanks,
    copy_rows,
    old,
    rows_below,
    stored_columns,
    words_left,
)

NOT_CONTENT = {
    "api_key",
    "audit", "calendar_digest", "collection", "extraction_cache", "forest", "index_row", "llm_call", "maintenance",
    "maintenance_forest", "migration", "moved_tenant", "retention_policy", "running_session", "session_window", "summary_cache", "tenant", "tenant_role", "turn_pack",
    "webhook_delivery", "webhook_endpoint", "window_item", "worker",
}  # fmt: skip
TENANT = TenantId("t")


def test_every_table_is_content_or_something_else() -> None:
    """A new table has to be added to one of the two."""
    names = {table.name for table in m.Base.metadata.tables.values()}
    assert names == set(CONTENT) | NOT_CONTENT
    assert not set(CONTENT) & NOT_CONTENT


def test_a_bundle_has_all_content_parents_first() -> None:
    stored = [table.stored for table in TABLES]
    assert sorted(stored) == sorted(CONTENT)
    for table in m.Base.metadata.tables.values():
        for key in table.foreign_key_constraints:
            if table.name in stored and key.referred_table.name in stored:
                assert stored.index(key.referred_table.name) < stored.index(table.name)


@pytest.mark.parametrize("table", CONTENT)
def test_all_content_is_below_its_forest(table: str) -> None:
    assert rows_below(table, TENANT, "forest", []) is not None


def test_a_session_has_no_facts_or_placements_below_it() -> None:
    """They belong to the forest: who drops a session has retired its facts before."""
    below = {table for table in CONTENT if rows_below(table, TENANT, "session", []) is not None}
    assert below == {"session", "turn", "cell", "candidate", "occurrence", "turn_topic"}


def test_leases_and_what_the_database_computes_are_not_copied() -> None:
    names = {column.name for table in CONTENT for column in stored_columns(table)}
    assert not names & {"lease_token", "lease_until", "worker_id", "lost_leases", "seq"}
    assert "state" not in {column.name for column in stored_columns("node")}
    assert "state" in {column.name for column in stored_columns("cell")}


def test_what_differs_is_given_or_an_expression_and_the_rest_is_as_it_was() -> None:
    statement = copy_rows(
        "turn",
        TENANT,
        {"session_id": ["a"]},
        {"session_id": ["b"], "first": [3]},
        {"erased": sa.false()},
        left_out=("metadata",),
        where=old("ordinal") >= 3,
    )
    text = str(statement)
    assert 'old."tenant_id", given."session_id", old."ordinal", old."external_id"' in text
    assert "metadata" not in text.split("SELECT", 1)[0]
    values = statement.compile().params
    given = {name.replace(" ", "_"): value for name, value in values.items() if name.startswith("given")}
    assert given == {"given_by_session_id": "{a}", "given_session_id": "{b}", "given_first": "{3}"}


def text_bearing(table: sa.Table) -> list[sa.Column[object]]:
    kinds = (sa.Text, sa.JSON, sa.LargeBinary)
    return [each for each in table.c if isinstance(getattr(each.type, "item_type", each.type), kinds)]


def without_policy(tables: Iterable[sa.Table]) -> list[str]:
    return [str(each) for table in tables for each in text_bearing(table) if "personal" not in each.info]


def test_a_column_of_text_bytes_or_json_without_a_policy_is_found() -> None:
    assert without_policy(m.Base.metadata.tables.values()) == []
    added = sa.Table("turn", sa.MetaData(), sa.Column("mood", sa.Text()), sa.Column("language", sa.Text(), info=m.CODE))
    assert without_policy([added]) == ["turn.mood"]


@pytest.mark.parametrize("table", ["turn", "cell", "tree"])
def test_each_column_of_words_is_blanked_and_looked_for(table: str) -> None:
    words = {
        each.name for each in m.Base.metadata.tables[f"memforest.{table}"].c if each.info.get("personal") == "words"
    }
    assert blanks(table).keys() == words
    assert words_left(table, "x").keys() == {f"{table}.{name}" for name in words}


def test_each_table_of_a_forest_is_deleted_with_it_or_is_a_record_of_ids() -> None:
    named = {each.name for each in m.Base.metadata.tables.values() if "forest_id" in each.c}
    assert named - set(RECORDS) <= deletion._NAMES.keys()
    assert set(CONTENT) <= deletion._NAMES.keys()
    assert not set(RECORDS) & deletion._NAMES.keys()
