"""The format of bundles is derived from the store's tables, and is the same for as long as its version is."""

from __future__ import annotations

import hashlib
import json

from memforest_core.lifecycle.bundle.reader import _lacking, _without
from memforest_core.lifecycle.bundle.records import FORMAT, TABLES
from memforest_core.lifecycle.bundle.schema import CREATE_META, create

FORMAT_1 = "8e0873dce5e85a4c34970e0200c92fa47b2429498613887d1fbf1f61bcfac5a8"
FORMAT_2 = "0a9cb2fbb4c72e11e04d00fa870828bf6f1bee2b89dce564b9f0e8317a63604d"
FORMAT_3 = "9950a8d6fb6a561f1b4a71e2ec14b458d0c34024a3c43d1c524a461f249190f7"
FORMAT_4 = "223797a3c3814ea75a75135b430a47a2a9bd069da595067ee992980bbd70ca13"


def test_each_format_is_what_it_was() -> None:
    """A new column of the store changes it: then it needs a number, and its line in LATER for files that lack it."""
    assert FORMAT == 4
    assert [_digest(number) for number in (1, 2, 3, 4)] == [FORMAT_1, FORMAT_2, FORMAT_3, FORMAT_4]


def _digest(number: int) -> str:
    """Of the tables of a format, as its files have them."""
    tables = {table.name: create(_without(table, _lacking(table, number))) for table in TABLES}
    return hashlib.sha256(json.dumps({"meta": CREATE_META} | tables).encode()).hexdigest()


def test_each_column_says_what_the_store_calls_it() -> None:
    renamed = {(t.name, c.name, c.stored) for t in TABLES for c in t.columns if c.name != c.stored}
    assert renamed == {("cell", "again", "retry_at"), ("summary", "redo", "redo_at")}
