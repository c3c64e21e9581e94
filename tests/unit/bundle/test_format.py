"""The format of bundles is derived from the store's tables, and is the same for as long as its version is."""

from __future__ import annotations

import hashlib
import json

from memforest_core.lifecycle.bundle.records import FORMAT, SCHEMA, TABLES

FORMAT_4 = "e3961aace716ea9484aff04d11b4cd15606a76c68dd5345ba9219febbe8c8c98"


def test_the_format_changes_only_with_its_number() -> None:
    """A new column of the store changes the format: then the format needs a number."""
    assert FORMAT == 4
    assert hashlib.sha256(json.dumps(SCHEMA).encode()).hexdigest() == FORMAT_4


def test_each_column_says_what_the_store_calls_it() -> None:
    renamed = {(t.name, c.name, c.stored) for t in TABLES for c in t.columns if c.name != c.stored}
    assert renamed == {("cell", "retry", "retry_at"), ("summary", "redo", "redo_at")}
