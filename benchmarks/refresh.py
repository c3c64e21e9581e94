"""How many model calls coalesced refresh saves against refreshing after each fact, and how many must wait in line."""

from __future__ import annotations

import argparse
import hashlib
import random
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from uuid import UUID

import numpy as np
import sqlalchemy as sa

from benchmarks.harness import (
    BATCH,
    ENTITY_K,
    TENANT,
    Database,
    MemoryTree,
    OneTree,
    Report,
    Row,
    database,
    parser,
    say,
)
from memforest_core.domain.facts import Fact
from memforest_core.domain.ids import NodeId, TenantId, WorkerId
from memforest_core.ingest.accept.rows.flushing import FlushRows
from memforest_core.ingest.refresh.records import ReadyNode, SummarySource
from memforest_core.ingest.refresh.rows import RefreshRows
from memforest_core.ingest.refresh.service import RefreshService
from memforest_core.models.calls import CallRecord, Embedded, Step
from memforest_core.settings import RefreshSettings
from memforest_core.store.engine import tenant_transaction

SIZES = (100, 1_000, 10_000)
REAL_EAGER = 100
"""Up to here eager refresh runs on Postgres; beyond, on a tree in memory that has given the same counts so far."""
FACT_CHARS = 160
"""Six facts of this length are too long to be joined without a call, a full node of eight all the more."""
SUMMARY_CHARS = 400
"""Half the budget: two summaries and the line between them are too long to be joined."""
PATIENT_S = 86_400.0
"""A quiet period and a staleness that no run reaches: what is due is said."""
SETTINGS = RefreshSettings(quiet_s=PATIENT_S, max_staleness_s=PATIENT_S, model_from_leaves=1, model_reads_last=True)
"""A model writes every node that does not fit: what coalescing saves, apart from what rules do."""
WORKER = WorkerId(UUID(int=1))
MEASURED = (
    "calls of a counting summarizer through the refresh service into one entity tree, facts in order of time."
    " eager: each fact inserted alone and refreshed until clean; coalesced: facts inserted in batches, then"
    " refreshed once until clean; critical path: the longest chain of calls of the coalesced refresh that each"
    " needed the one before, however many workers there are"
)


@dataclass(slots=True)
class CountingSummarizer:
    """Stands for a model: remembers which nodes asked, and answers each input with a text of its own."""

    asked: list[NodeId] = field(default_factory=list)
    model: str = "counting"
    paid: bool = True

    def summarize(self, node: ReadyNode, budget: int, calls: list[CallRecord]) -> str:
        self.asked.append(node.id)
        digest = hashlib.sha256("\n".join(child.text for child in node.children).encode()).hexdigest()
        return (digest * (SUMMARY_CHARS // len(digest) + 1))[:SUMMARY_CHARS]


class OneVector:
    """Gives every text the same vector: embedding is not what is measured."""

    model = "one-vector"
    dimension = 4

    def embed(self, texts: Sequence[str]) -> Embedded:
        vectors = np.full((len(texts), self.dimension), 0.5, np.float32)
        return Embedded(vectors, CallRecord(Step.EMBED, self.model, 0, 0, 0, 0.0, 0.0, "ok"))

    embed_query = embed


@dataclass(frozen=True, slots=True)
class Memory:
    """A tree and the service that refreshes it."""

    summarizer: CountingSummarizer
    service: RefreshService
    insert: Callable[[Sequence[Fact]], object]
    make_due: Callable[[], object]

    def refresh(self) -> None:
        """Refresh until nothing is ready: until the tree is clean."""
        self.make_due()
        while self.service.run_one(TENANT, WORKER):
            pass


def memory(
    open_rows: Callable[[TenantId], AbstractContextManager[Any]],
    insert: Callable[[Sequence[Fact]], object],
    make_due: Callable[[], object],
    settings: RefreshSettings = SETTINGS,
) -> Memory:
    """The real service over rows."""
    summarizer = CountingSummarizer()
    service = RefreshService(open_rows, summarizer, OneVector(), settings, concurrency=4, rng=random.Random(0))
    return Memory(summarizer, service, insert, make_due)


def in_postgres(engine: sa.Engine, tree: OneTree) -> Memory:
    """A memory whose tree is in Postgres."""

    def make_due() -> None:
        with FlushRows.opened(engine, TENANT) as rows:
            rows.make_due(tree.forest, None)

    return memory(partial(RefreshRows.opened, engine), lambda facts: tree.insert(facts, PATIENT_S, PATIENT_S), make_due)


def in_memory(tree: MemoryTree, settings: RefreshSettings = SETTINGS) -> Memory:
    """The same in memory."""
    return memory(tree.refreshing, tree.insert, lambda: None, settings)


def eager(grown: Memory, facts: Sequence[Fact], sizes: Collection[int]) -> dict[int, int]:
    """Refresh after each fact; calls so far at each of the sizes."""
    counts: dict[int, int] = {}
    started = time.perf_counter()
    for number, fact in enumerate(facts, 1):
        grown.insert([fact])
        grown.refresh()
        if number in sizes:
            counts[number] = len(grown.summarizer.asked)
            say(f"eager: {number:,} facts, {counts[number]:,} calls, {time.perf_counter() - started:.1f} s")
    return counts


def coalesced(grown: Memory, facts: Sequence[Fact]) -> int:
    """Insert in batches as the reducer does, refresh once; the calls."""
    for first in range(0, len(facts), BATCH):
        grown.insert(facts[first : first + BATCH])
    grown.refresh()
    asked = grown.summarizer.asked
    if len(asked) != len(set(asked)):
        raise SystemExit("A coalesced refresh asked twice for one node.")
    return len(asked)


def longest_chain(asked: Collection[NodeId], upwards: Iterable[tuple[NodeId, NodeId | None]]) -> int:
    """Most calls on one way to the root; ``upwards`` are (node, parent), the lowest level first."""
    waited: dict[NodeId | None, int] = defaultdict(int)
    for node, parent in upwards:
        waited[node] += node in asked
        waited[parent] = max(waited[parent], waited[node])
    return waited[None]


@dataclass(frozen=True, slots=True)
class Shape:
    """A refreshed tree as it lies in Postgres."""

    upwards: list[tuple[NodeId, NodeId | None]]
    height: int
    dirty: int
    sources: dict[str, int]


def shape(engine: sa.Engine, tree: OneTree) -> Shape:
    """Internal nodes from the lowest level up, and how their texts were made."""
    with tenant_transaction(engine, TENANT) as connection:
        rows = connection.execute(
            sa.text(
                "SELECT n.node_id, n.parent_id, n.level, n.version > n.clean_version AS dirty, s.source"
                " FROM memforest.node n LEFT JOIN memforest.node_summary s USING (tenant_id, node_id)"
                " WHERE n.tree_id = :tree AND n.level > 0 ORDER BY n.level"
            ),
            {"tree": tree.tree},
        ).all()
    sources: dict[str, int] = defaultdict(int)
    for row in rows:
        sources[row.source] += 1
    return Shape([(row.node_id, row.parent_id) for row in rows], rows[-1].level, sum(r.dirty for r in rows), sources)


def one_size(database: Database, rng: random.Random, size: int, eager_calls: int, source: str) -> Row:
    """Coalesced refresh of one size, on Postgres; the tree in memory must give the same count."""
    started = time.perf_counter()
    tree = OneTree.plant(database.service, rng, FACT_CHARS)
    facts = in_order(tree, size)
    grown = in_postgres(database.service, tree)
    calls = coalesced(grown, facts)
    same(size, "coalesced", calls, coalesced(in_memory(MemoryTree(tree.tree, tree.new_id)), facts))
    seen = shape(database.service, tree)
    if seen.dirty:
        raise SystemExit(f"{seen.dirty} nodes are dirty after the refresh.")
    say(f"coalesced: {size:,} facts, {calls:,} calls, {time.perf_counter() - started:.1f} s")
    return {
        "facts": size,
        "eager_calls": eager_calls,
        "coalesced_calls": calls,
        "critical_path_calls": longest_chain(set(grown.summarizer.asked), seen.upwards),
        "height": seen.height,
        "times_fewer": round(eager_calls / max(calls, 1), 1),
        "eager_source": source,
        "internal_nodes": len(seen.upwards),
        "coalesced_joined": seen.sources[SummarySource.JOINED],
        "coalesced_passed": seen.sources[SummarySource.PASSED],
    }


def in_order(tree: OneTree, size: int) -> list[Fact]:
    """One fact a minute: memory is mostly appended."""
    return tree.facts([(number, number) for number in range(size)])


def same(size: int, what: str, real: int, counted: int) -> None:
    """The tree in memory may stand for the one in Postgres only while they agree."""
    if real != counted:
        raise SystemExit(f"{size} facts, {what}: {real} calls on Postgres, {counted} in memory.")


def run(database: Database, options: argparse.Namespace) -> list[Row]:
    """Eager counts are running totals of one long insertion; coalesced ones have a tree of their own per size."""
    rng = random.Random(options.seed)
    sizes = sorted(set(options.facts))
    tree = OneTree.plant(database.service, rng, FACT_CHARS)
    facts = in_order(tree, sizes[-1])
    say("eager, in memory")
    counted = eager(in_memory(MemoryTree(tree.tree, tree.new_id)), facts, sizes)
    say("eager, on Postgres")
    real = eager(in_postgres(database.service, tree), facts[: min(sizes[-1], options.real_eager)], sizes)
    for size, calls in real.items():
        same(size, "eager", calls, counted[size])
    return [one_size(database, rng, size, counted[size], "postgres" if size in real else "memory") for size in sizes]


def main() -> None:
    """Run from the command line."""
    options = parser(__doc__ or "")
    options.add_argument("--facts", type=int, nargs="+", default=SIZES, metavar="N", help="facts in the tree")
    options.add_argument(
        "--real-eager",
        type=int,
        default=REAL_EAGER,
        metavar="N",
        help="up to how many facts eager refresh runs on Postgres; beyond, in memory (default: %(default)s)",
    )
    chosen = options.parse_args()
    report = Report(chosen.seed, chosen.json)
    with database() as running:
        rows = run(running, chosen)
    parameters = {"fact_chars": FACT_CHARS, "summary_chars": SUMMARY_CHARS, "budget_chars": SETTINGS.budget_chars}
    report.end(rows, {"what": MEASURED, "batch": BATCH, "k": ENTITY_K, **parameters})


if __name__ == "__main__":
    main()
