"""The format of bundles is derived from the store's tables, and is the same for as long as its version is."""

from __future__ import annotations

import hashlib
import json

from memforest_core.transfer.bundles.records import FORMAT, TABLES
from memforest_core.transfer.bundles.schema import SCHEMA

FORMAT_1 = "8e0873dce5e85a4c34970e0200c92fa47b2429498613887d1fbf1f61bcfac5a8"


def test_format_1_is_what_it_was() -> None:
    """A new column of the store changes it: then bundles of the version before can't be read, and it needs a number."""
    found = hashlib.sha256(json.dumps(SCHEMA).encode()).hexdigest()
    assert (FORMAT, found) == (1, FORMAT_1)


def test_each_column_says_what_the_store_calls_it() -> None:
    renamed = {(t.name, c.name, c.stored) for t in TABLES for c in t.columns if c.name != c.stored}
    assert renamed == {("cell", "again", "again_at"), ("summary", "redo", "redo_at")}
