"""What a batch of 20 facts costs to insert as the tree grows: time, and the number of SQL statements."""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median, quantiles

import sqlalchemy as sa

from benchmarks.harness import BATCH, ENTITY_K, Database, OneTree, Report, Row, database, parser, say
from memforest_core.domain.facts import Fact

SIZES = (100, 1_000, 10_000, 100_000)
BATCHES = 32
WARM_UP = 4
"""Batches per size and pattern that are not counted; statements are prepared by then."""
GROWTH = 0.04
"""A tree takes batches until it has grown by this share (or by two), then the next one of its size does: small trees
would else have split their full nodes after a few batches, and pay less than large ones."""
FACT_CHARS = 80
PLANT_BATCH = 5_000
QUIET_S, STALE_S = 2.0, 30.0
SCATTERED, APPENDED = "scattered", "appended"
MEASURED = (
    "one reducing transaction as the service role with row-level security, from its begin to its durable commit:"
    " forest lock, facts with their index marks, scope, placements, tree head, touched paths, diff, write,"
    " due mark; scattered keys are uniform over the tree's whole time, appended ones come after its end"
)


@dataclass(slots=True)
class Samples:
    """What one size and pattern took: per batch its milliseconds, those of the tree's part, and its statements."""

    whole: list[float] = field(default_factory=list)
    tree: list[float] = field(default_factory=list)
    statements: list[int] = field(default_factory=list)


class Sized:
    """Trees of one nominal size, which share the batches."""

    def __init__(self, engine: sa.Engine, rng: random.Random, leaves: int, batches: int) -> None:
        self._rng = rng
        self.leaves = leaves
        self._per_tree = max(2, int(leaves * GROWTH) // BATCH)
        self._used = 0
        self.samples = {SCATTERED: Samples(), APPENDED: Samples()}
        self._trees: list[OneTree] = []
        while len(self._trees) * self._per_tree < batches:
            self._trees.append(planted(engine, rng, leaves))

    @property
    def trees(self) -> int:
        """How many trees share the batches."""
        return len(self._trees)

    def batch(self, pattern: str) -> tuple[OneTree, list[Fact]]:
        """The next tree and 20 new facts for it."""
        which, nth = divmod(self._used, self._per_tree)
        self._used += 1
        tree = self._trees[which]
        first = self.leaves + nth * BATCH
        numbers = range(first, first + BATCH)
        if pattern == APPENDED:
            return tree, tree.facts([(number, number) for number in numbers])
        return tree, tree.facts([(number, self._rng.uniform(0, self.leaves)) for number in numbers])


def planted(engine: sa.Engine, rng: random.Random, leaves: int) -> OneTree:
    """A tree that grew by appending: full nodes, so that a scattered key splits the first node it meets."""
    tree = OneTree.plant(engine, rng, FACT_CHARS)
    for first in range(0, leaves, PLANT_BATCH):
        numbers = range(first, min(first + PLANT_BATCH, leaves))
        tree.insert(tree.facts([(number, number) for number in numbers]), QUIET_S, STALE_S)
    return tree


@contextmanager
def counted(engine: sa.Engine) -> Iterator[list[int]]:
    """One number: the statements sent meanwhile, with the one that binds the tenant, without BEGIN and COMMIT."""
    count = [0]

    def before(*_: object) -> None:
        count[0] += 1

    sa.event.listen(engine, "before_cursor_execute", before)
    try:
        yield count
    finally:
        sa.event.remove(engine, "before_cursor_execute", before)


def one_batch(engine: sa.Engine, sized: Sized, pattern: str, *, keep: bool) -> None:
    """Insert one batch, and keep what it took."""
    tree, facts = sized.batch(pattern)
    with counted(engine) as count:
        started = time.perf_counter()
        within = tree.insert(facts, QUIET_S, STALE_S)
        took = time.perf_counter() - started
    if keep:
        samples = sized.samples[pattern]
        samples.whole.append(took * 1000)
        samples.tree.append(within * 1000)
        samples.statements.append(count[0])


def grown(engine: sa.Engine, rng: random.Random, sizes: Sequence[int], batches: int) -> list[Sized]:
    """Trees of all sizes."""
    everything = []
    for leaves in sizes:
        started = time.perf_counter()
        sized = Sized(engine, rng, leaves, 2 * (batches + WARM_UP))
        say(f"planted {sized.trees} x {leaves:,} leaves in {time.perf_counter() - started:.1f} s")
        everything.append(sized)
    return everything


def settle(database: Database) -> None:
    """As after a refresh: nodes are clean; and as after autovacuum."""
    with database.owner.begin() as connection:
        # Nobody refreshed them, which the state machine of work would refuse.
        connection.exec_driver_sql("SET LOCAL session_replication_role = replica")
        connection.exec_driver_sql("UPDATE memforest.node SET clean_version = version WHERE version > clean_version")
        connection.exec_driver_sql("UPDATE memforest.tree SET due_at = NULL, first_mark_at = NULL")
    database.tidy()


def row_of(database: Database, sized: Sized) -> Row:
    """The headline is the harder pattern; the other one stands beside it."""
    scattered, appended = sized.samples[SCATTERED], sized.samples[APPENDED]
    seen = sorted({*scattered.statements, *appended.statements})
    if len(seen) != 1:
        raise SystemExit(f"Batches into {sized.leaves} leaves took different numbers of statements: {seen}.")
    return {
        "leaves": sized.leaves,
        "median_ms": round(median(scattered.whole), 2),
        "statements": seen[0],
        "pattern": SCATTERED,
        "p90_ms": round(quantiles(scattered.whole, n=10)[-1], 2),
        "tree_median_ms": round(median(scattered.tree), 2),
        "appended_median_ms": round(median(appended.whole), 2),
        "appended_tree_median_ms": round(median(appended.tree), 2),
        "batches": len(scattered.whole),
        "trees": sized.trees,
    }


def run(database: Database, options: argparse.Namespace) -> list[Row]:
    """Plant, settle, and insert round-robin, so that the machine's noise hits all sizes alike."""
    rng = random.Random(options.seed)
    everything = grown(database.service, rng, options.leaves, options.batches)
    settle(database)
    for nth in range(-WARM_UP, options.batches):
        if nth >= 0 and nth % 10 == 0:
            say(f"batch {nth} of {options.batches} into each size")
        for sized in rng.sample(everything, len(everything)):
            for pattern in (SCATTERED, APPENDED):
                one_batch(database.service, sized, pattern, keep=nth >= 0)
    return [row_of(database, sized) for sized in everything]


def main() -> None:
    """Run from the command line."""
    options = parser(__doc__ or "")
    options.add_argument("--leaves", type=int, nargs="+", default=SIZES, metavar="N", help="sizes of the trees")
    options.add_argument("--batches", type=int, default=BATCHES, help="per size and pattern (default: %(default)s)")
    chosen = options.parse_args()
    if chosen.batches < 2:
        options.error("--batches must be at least 2: a spread is reported")
    report = Report(chosen.seed, chosen.json)
    with database() as running:
        rows = run(running, chosen)
    report.end(rows, {"what": MEASURED, "batch": BATCH, "k": ENTITY_K, "transactions": 1})


if __name__ == "__main__":
    main()
