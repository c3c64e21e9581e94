"""Writes a forest to a bundle as of one moment; other work continues."""

from __future__ import annotations

from collections.abc import Callable

from memforest_core.lifecycle.bundle.embedded_texts import embedded_cell
from memforest_core.lifecycle.bundle.records import CELL, SUMMARY, TABLES, VECTOR
from memforest_core.lifecycle.bundle.rows.exporting import ExportRows
from memforest_core.lifecycle.bundle.writer import BundleWriter
from memforest_core.models.calls import Embedder
from memforest_core.store.vectors import text_hash
from memforest_core.work.records import Numbers

PAGE = 1_000
"""Rows in memory at once."""

Watch = Callable[[int, int], None]
"""Sees how many rows are done, of how many."""


def write_forest(
    writer: BundleWriter, rows: ExportRows, embedder: Embedder, with_vectors: bool, with_summaries: bool, watch: Watch
) -> Numbers:
    """Write all rows of a forest; how many each table has."""
    head, done = rows.head(), 0
    total = sum(counted(dict(rows.counts()), with_summaries).values())
    for table in TABLES:
        if table is VECTOR or (table is SUMMARY and not with_summaries):
            continue
        for page in rows.pages(table, PAGE, with_vectors):
            writer.add(table, page)
            if table is CELL and with_vectors:
                writer.want(text_hash(embedded_cell(row)) for row in page)
            done += len(page)
            watch(done, max(done, total))
    if with_vectors:
        for hashes in rows.hashes(PAGE):
            writer.want(hashes)
        for hashes in writer.wanted(PAGE):
            found = rows.vectors(embedder.model, hashes)
            writer.add(VECTOR, found)
            done += len(found)
            watch(done, max(done, total))
    written = writer.finish(
        head,
        (embedder.model, embedder.dimension),
        rows.summary_models() if with_summaries else (),
        (with_vectors, with_summaries),
    )
    watch(done, done)
    return {"rows": written.total, **counted(dict(written.rows), True)}


def counted(counts: dict[str, int], with_summaries: bool) -> dict[str, int]:
    """The counts of what is written."""
    return {name: n for name, n in counts.items() if with_summaries or name != SUMMARY.name}
