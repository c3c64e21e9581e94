"""What deleting one session costs as forests grow: time, nodes touched, model calls."""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.harness import Database, Report, Row, parser, say
from benchmarks.recall_latency.filling import fill
from benchmarks.recall_latency.world import DIMENSION, SESSION_TURNS, TENANT, World
from memforest_core.client.api import MemForest
from memforest_core.client.embedded.servers import EmbeddedServers
from memforest_core.models.calls import CallRecord, Embedded, Step, Vectors
from tests.harness.model_server import ModelServer
from tests.harness.servers import SessionServers
from tests.harness.stack import Stack, make_template, stack

SIZES = (10, 100, 1_000)
DELETED = 8
"""Sessions deleted from each forest, one at a time, spread over it."""
LATENCY_S = 0.05
MOST = 2.0
"""Times the median at the smallest size that the one at the largest may take."""
ACTOR = "benchmark"
MEASURED = (
    "one session of twenty turns (ten cells, twenty facts) deleted from a forest of so many, then refreshed until all"
    " is clean; real Postgres and the Qdrant engine, one worker's loops in this process. median_ms: from the request"
    " until the task is done, its scan for references included; nodes_touched: tree nodes that were removed or marked"
    " (mean); llm_calls: chat calls of the refresh after it, over HTTP to a model server (mean); refresh_ms: median"
    " until every summary is new. ratio: largest median_ms by smallest"
)


class Directions:
    """An Embedder without a model: embedding is not what is measured."""

    model = "benchmark-directions"
    dimension = DIMENSION

    def embed(self, texts: Sequence[str]) -> Embedded:
        import numpy as np

        vectors: Vectors = np.full((len(texts), DIMENSION), DIMENSION**-0.5, np.float32)
        return Embedded(vectors, CallRecord(Step.EMBED, self.model, 0, 0, 0, 0.0, 0.0, "ok"))

    embed_query = embed


@contextmanager
def standing(directory: Path) -> Iterator[SessionServers]:
    """Postgres and the broker in a directory; both end with the block."""
    with EmbeddedServers.start(directory / "servers") as embedded:
        servers = SessionServers(embedded.postgres_url, embedded.broker_url, embedded.redis_url, embedded)
        make_template(servers)
        yield servers


@contextmanager
def forest(servers: SessionServers, directory: Path, model: ModelServer, sessions: int, seed: int) -> Iterator[Stack]:
    """A stack whose one owner has so many sessions, refreshed and indexed."""
    llm = {"model": "openai/test-model", "api_base": model.url, "api_key": "test-key"}
    with stack(servers, directory, embedder=Directions(), llm=llm, tenant=str(TENANT)) as running, ExitStack() as undo:
        owner = running.owner_engine()
        undo.callback(owner.dispose)
        started = time.perf_counter()
        database = Database(running.services.engine, owner)
        fill(database, running.services.index, World(seed), "owner", sessions * SESSION_TURNS, seed)
        database.tidy()
        say(f"{sessions} sessions filled in {time.perf_counter() - started:.1f} s")
        yield running


def deleted(running: Stack, model: ModelServer, session: str) -> Row:
    """Delete one session; what it cost."""
    memory = MemForest(running.services)
    calls = len(model.requests)
    started = time.perf_counter()
    operation = memory.lifecycle.forget("owner", session=session, actor=ACTOR)
    while not operation.state().finished:
        running.runtime.maintain()
    done = time.perf_counter()
    progress = operation.wait(0.0)
    running.drive()
    return {
        "ms": (done - started) * 1e3,
        "refresh_ms": (time.perf_counter() - done) * 1e3,
        "nodes": int(progress["nodes"]),
        "calls": len(model.requests) - calls,
        "facts": int(progress["facts"]),
    }


def one_size(servers: SessionServers, directory: Path, sessions: int, options: argparse.Namespace) -> Row:
    """Delete sessions from a forest of one size."""
    seed = options.seed
    with ModelServer(latency_s=options.latency) as model, forest(servers, directory, model, sessions, seed) as it:
        # The first warms connections and plans, and is not counted.
        places = [number * sessions // (options.deleted + 1) for number in range(options.deleted + 1)]
        costs = [deleted(it, model, f"session-{place}") for place in dict.fromkeys(places)][1:]
        left = it.rows("SELECT count(*) FROM memforest.session")[0][0]
        if left != sessions - len(costs) - 1:
            raise SystemExit(f"{left} sessions are left of {sessions}")
    made: Row = {
        "sessions": sessions,
        "n": len(costs),
        "seed": seed,
        "median_ms": round(statistics.median(float(str(cost["ms"])) for cost in costs), 1),
        "refresh_ms": round(statistics.median(float(str(cost["refresh_ms"])) for cost in costs), 1),
        "nodes_touched": round(statistics.mean(int(str(cost["nodes"])) for cost in costs), 1),
        "llm_calls": round(statistics.mean(int(str(cost["calls"])) for cost in costs), 1),
        "facts": round(statistics.mean(int(str(cost["facts"])) for cost in costs), 1),
    }
    say("  ".join(f"{name}={value}" for name, value in made.items()))
    return made


def main() -> None:
    """Run from the command line."""
    options = parser(__doc__ or "")
    options.add_argument(
        "--sizes",
        type=lambda text: [int(part) for part in text.split(",")],
        default=SIZES,
        metavar="N,N",
        help="sessions in the forest (default: 10,100,1000)",
    )
    options.add_argument("--deleted", type=int, default=DELETED, metavar="N", help="sessions deleted from each")
    options.add_argument("--latency", type=float, default=LATENCY_S, metavar="S", help="of the model server")
    options.add_argument("--most", type=float, default=MOST, metavar="X", help="largest by smallest median allowed")
    chosen = options.parse_args()
    report = Report(chosen.seed, chosen.json)
    rows = []
    with tempfile.TemporaryDirectory(prefix="memforest-bench-") as directory, standing(Path(directory)) as servers:
        for size in chosen.sizes:
            place = Path(directory) / str(size)
            place.mkdir()
            rows.append(one_size(servers, place, size, chosen))
    medians = [float(str(made["median_ms"])) for made in rows]
    ratio = medians[-1] / medians[0]
    report.end(rows, {"what": MEASURED, "latency_s": chosen.latency, "ratio": round(ratio, 2), "most": chosen.most})
    sys.exit(0 if ratio <= chosen.most else 1)


if __name__ == "__main__":
    main()
