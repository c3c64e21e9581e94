"""How many model calls a quiet period that grows with the tree saves when sessions come one after another.

The clock is a number: nothing waits. The tree is the one in memory that ``benchmarks.refresh`` compares with Postgres.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.harness import MemoryTree, Report, Row, made_fact, minute, parser, say, seeded_ids
from benchmarks.refresh import FACT_CHARS, in_memory
from memforest_core.domain.facts import Fact
from memforest_core.domain.ids import ForestId, TreeId
from memforest_core.settings import RefreshSettings

LEAVES = (64, 500, 5_000)
GAPS_S = (2.0, 5.0, 10.0, 20.0, 60.0)
SESSIONS = 60
FACTS = 20
CONFIGURATIONS = {"default": RefreshSettings(), "paper": RefreshSettings(model_from_leaves=1, model_reads_last=True)}
MEASURED = (
    "sessions of 20 facts are inserted into one entity tree of so many leaves, with exponential gaps of a mean in"
    " seconds; calls: of a counting summarizer; refreshes: how often the tree became due and was refreshed; stale_s:"
    " how long it waited for that after its first change, on the mean; fixed: the same quiet period for every tree;"
    " grown: refresh.quiet_leaves as it is by default"
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the sessions cost, and how long summaries lagged."""

    calls: int
    refreshes: int
    stale_s: float


def outcome(
    facts: Sequence[Fact], leaves: int, gaps: Sequence[float], settings: RefreshSettings, quiet: Callable[[int], float]
) -> Outcome:
    """Insert ``FACTS`` after each gap; refresh whenever the tree is due before the next ones come."""
    new_id = seeded_ids(random.Random(0))
    tree = in_memory(MemoryTree(TreeId(new_id()), new_id), settings)
    tree.insert(facts[:leaves])
    tree.refresh()
    before, now, first, due = len(tree.summarizer.asked), 0.0, None, 0.0
    waits: list[float] = []
    for number, gap in enumerate([*gaps, float("inf")]):
        now += gap
        if first is not None and due <= now:
            tree.refresh()
            waits.append(due - first)
            first = None
        if number < len(gaps):
            end = leaves + (number + 1) * FACTS
            tree.insert(facts[end - FACTS : end])
            first = now if first is None else first
            due = min(now + quiet(end), first + settings.max_staleness_s)
    return Outcome(len(tree.summarizer.asked) - before, len(waits), sum(waits) / len(waits))


def main() -> None:
    """Run from the command line."""
    options = parser(__doc__ or "")
    options.add_argument("--leaves", type=int, nargs="+", default=LEAVES, metavar="N", help="of the tree before")
    options.add_argument("--gaps", type=float, nargs="+", default=GAPS_S, metavar="S", help="mean gaps")
    options.add_argument("--sessions", type=int, default=SESSIONS, metavar="N", help="(default: %(default)s)")
    chosen = options.parse_args()
    report = Report(chosen.seed, chosen.json)
    forest = ForestId(seeded_ids(random.Random(chosen.seed))())
    most = max(chosen.leaves) + FACTS * chosen.sessions
    facts = [made_fact(forest, number, minute(number), FACT_CHARS) for number in range(most)]
    rows: list[Row] = []
    for name, settings in CONFIGURATIONS.items():
        for leaves in chosen.leaves:
            for gap in chosen.gaps:
                rng = random.Random(chosen.seed)
                gaps = [rng.expovariate(1 / gap) for _ in range(chosen.sessions)]
                fixed = outcome(facts, leaves, gaps, settings, lambda _: RefreshSettings().quiet_s)
                grown = outcome(facts, leaves, gaps, settings, settings.quiet_of)
                rows.append(row(name, leaves, gap, fixed, grown) | {"n": chosen.sessions, "seed": chosen.seed})
                say("  ".join(f"{key}={value}" for key, value in rows[-1].items()))
    report.end(rows, {"what": MEASURED})


def row(name: str, leaves: int, gap: float, fixed: Outcome, grown: Outcome) -> Row:
    """The two beside each other."""
    return {
        "configuration": name,
        "leaves": leaves,
        "gap_s": gap,
        "fixed_calls": fixed.calls,
        "grown_calls": grown.calls,
        "saved": round(1 - grown.calls / max(1, fixed.calls), 2),
        "fixed_refreshes": fixed.refreshes,
        "grown_refreshes": grown.refreshes,
        "fixed_stale_s": round(fixed.stale_s, 1),
        "grown_stale_s": round(grown.stale_s, 1),
    }


if __name__ == "__main__":
    main()
