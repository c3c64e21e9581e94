"""The format of bundles is derived from the store's tables, and is the same for as long as its version is."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

from memforest_core.lifecycle.bundle.records import FORMAT, TABLES, create

REQUIRED_4 = "341371d68b3ac2b2d48fdc588a4ee780b3a29a1455cc02ba8fd611d99bc8e878"
NULLABLE_4 = """
    cell.char_end cell.char_start cell.error_code cell.error_text cell.extracted_at cell.outcome cell.placed_at
    cell.summary fact.superseded_at fact.superseded_by fact.time_end fact.time_start node.error_code
    node.error_text node.parent_id node.payload_id node.time_end node.time_start placement.leaf_id
    scope.centroid scope.root_id scope.session_id scope.tags scope.time_end scope.time_start scope.title
    scope.title_size scope.title_source session.channel session.origin_owner speaker.since summary.pooled
    summary.vector turn.utc_offset
    """


def test_the_format_changes_only_with_its_number() -> None:
    required = [
        replace(table, columns=tuple(each for each in table.columns if not each.null))
        for table in TABLES
        if not table.optional
    ]
    assert FORMAT == 4
    assert hashlib.sha256(json.dumps(list(map(create, required))).encode()).hexdigest() == REQUIRED_4
    assert {f"{table.name}.{each.name}" for table in TABLES for each in table.columns if each.null} >= set(
        NULLABLE_4.split()
    )


def test_each_column_says_what_the_store_calls_it() -> None:
    renamed = {(t.name, c.name, c.stored) for t in TABLES for c in t.columns if c.name != c.stored}
    assert renamed == {("cell", "retry", "retry_at"), ("summary", "redo", "redo_at"), ("placement", "leaf_id", "")}
