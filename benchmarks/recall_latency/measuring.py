"""Recalls measured one at a time, many at once, and first: of a process, and of a forest."""

from __future__ import annotations

import multiprocessing
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median, quantiles

import sqlalchemy as sa
from pydantic import SecretStr

from benchmarks.harness import Row
from benchmarks.recall_latency.world import DIMENSION, TENANT, Requested, StoredVectors
from memforest_core.domain.evidence import RecallResult
from memforest_core.index.qdrant.edge_index import EdgeIndex
from memforest_core.index.qdrant.server_index import QdrantServerIndex
from memforest_core.index.vector_index import VectorIndex
from memforest_core.recall.rows.recall_rows import RecallStore
from memforest_core.recall.service import RecallService
from memforest_core.settings import DatabaseSettings, RecallSettings
from memforest_core.store.engine import open_engine
from tests.harness.given_qdrant import URL

Questions = Sequence[tuple[str, Requested]]
"""Owners, each with a question about what was said in their forest."""
FIRST = 2
"""Questions of each of many callers before they are measured."""
READY_S = 120.0
"""What all of them may take for these."""
MAINTAINED_S = 600.0
"""What graphs may take to be built: 42 s for 100,000 facts on one core."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One recall: its stages, and milliseconds of this thread's CPU (Python, and the drivers of the stores)."""

    result: RecallResult
    cpu_ms: float

    @property
    def ms(self) -> float:
        """Wall time without the embedding of the question, which is known."""
        return self.result.timings_ms["total"] - self.result.timings_ms["embed"]


@contextmanager
def collection(directory: Path | None = None) -> Iterator[VectorIndex]:
    """The index in a directory, an empty one of its own where none is given, or one of its name on the server of ``make
    qdrant``; closed at the end."""
    with tempfile.TemporaryDirectory(prefix="memforest-bench-index-") as own:
        place = directory or Path(own)
        index: VectorIndex = EdgeIndex(place, StoredVectors.model, DIMENSION)
        if URL:
            index = QdrantServerIndex.at(URL, None, f"{StoredVectors.model} {place.name}", DIMENSION, timeout_s=30)
        index.prepare()
        yield index
        index.close()


def maintained(index: VectorIndex) -> float:
    """Wait for the graphs that are being built; seconds. Raises TimeoutError after MAINTAINED_S."""
    started = time.monotonic()
    while isinstance(index, EdgeIndex) and index.refreshing:
        if time.monotonic() - started > MAINTAINED_S:
            raise TimeoutError(f"The graphs of the index were not built in {MAINTAINED_S:.0f} s.")
        time.sleep(0.1)
    return time.monotonic() - started


def service_of(
    engine: sa.Engine, index: VectorIndex, requested: Questions, settings: RecallSettings | None = None
) -> RecallService:
    """Recall of what was filled in, by default settings unless others are given."""
    embedder = StoredVectors(one for _, one in requested)
    return RecallService(RecallStore(engine), index, embedder, settings or RecallSettings(), pointers=True)


def recalled(service: RecallService, owner: str, question: str) -> Measured:
    """One recall that nothing degraded. Ends the program when something did."""
    before = time.thread_time()
    result = service.recall(TENANT, owner, question, mode="embedding")
    spent = (time.thread_time() - before) * 1000.0
    if result.degraded or not result.evidence:
        raise SystemExit(f"{question!r} was not answered in full: {result.degraded or 'no evidence'}")
    return Measured(result, spent)


def alone(measured: Sequence[Measured]) -> Row:
    """Recalls that were made one at a time. ``parts_ms``: means of the stages and the rest, ``mean_ms`` in all."""
    times = [one.ms for one in measured]
    stages = dict.fromkeys(name for one in measured for name in one.result.timings_ms)
    parts = {
        name: fmean(one.result.timings_ms.get(name, 0.0) for one in measured)
        for name in stages
        if name not in ("total", "embed")
    }
    parts["rest"] = fmean(times) - sum(parts.values())
    return {
        "p50_ms": round(median(times), 2),
        "p95_ms": round(_p95(times), 2),
        "cpu_ms": round(fmean(one.cpu_ms for one in measured), 2),
        "round_trips": median(one.result.round_trips for one in measured),
        "mean_ms": round(fmean(times), 2),
        "parts_ms": {name: round(ms, 2) for name, ms in parts.items()},
    }


def at_once(
    service: RecallService, requested: Questions, callers: int, ready: Callable[[], object] | None = None
) -> Row:
    """As many callers, each of which sends its next question when it has the answer to the one before.

    Each sends FIRST of its questions beforehand, so that its connection to Postgres has planned the statements; then
    ``ready`` is called, and all begin.
    """
    times: list[float] = []
    warm, go = threading.Barrier(callers + 1, timeout=READY_S), threading.Barrier(callers + 1, timeout=READY_S)

    def ask(own: Questions) -> None:
        for owner, one in own[:FIRST]:
            recalled(service, owner, one.text)
        warm.wait()
        go.wait()
        for owner, one in own[FIRST:]:
            times.append(recalled(service, owner, one.text).ms)

    with ThreadPoolExecutor(callers) as threads:
        started = [threads.submit(ask, requested[number::callers]) for number in range(callers)]
        warm.wait()
        if ready is not None:
            ready()
        go.wait()
        began = time.perf_counter()
        for each in started:
            each.result()
        took = time.perf_counter() - began
    return {
        "callers": callers,
        "n": len(times),
        "per_second": round(len(times) / took, 2),
        "p50_ms": round(median(times), 2),
        "p95_ms": round(_p95(times), 2),
    }


def engine_of(url: sa.URL, timeout_ms: int | None = None) -> sa.Engine:
    """A connection pool of this process; ``timeout_ms`` of a statement, a service's by default."""
    settings = DatabaseSettings(url=SecretStr(url.render_as_string(hide_password=False)))
    return open_engine(
        settings if timeout_ms is None else settings.model_copy(update={"statement_timeout_ms": timeout_ms})
    )


def first_of_process(url: sa.URL, directory: Path, requested: Questions) -> Row:
    """What a new process needs to open its stores, for its first recall and for its second.

    The index in ``directory`` must be closed: it has one owner.
    """
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as processes:
        return processes.submit(_first, url, directory, list(requested)).result()


def _first(url: sa.URL, directory: Path, requested: Questions) -> Row:
    began = time.perf_counter()
    with collection(directory) as index:
        engine = engine_of(url)
        opened = (time.perf_counter() - began) * 1000.0
        service = service_of(engine, index, requested)
        first, second = (recalled(service, owner, one.text).ms for owner, one in requested[:2])
        engine.dispose()
    return {"opened_ms": round(opened, 2), "first_ms": round(first, 2), "second_ms": round(second, 2)}


def first_of_forests(service: RecallService, requested: Questions) -> Row:
    """Forests that had no question before, one after the other, and then the same questions again."""
    first, repeated = ([recalled(service, owner, one.text).ms for owner, one in requested] for _ in range(2))
    return {"n": len(first), "first_p50_ms": round(median(first), 2), "again_p50_ms": round(median(repeated), 2)}


def _p95(times: Sequence[float]) -> float:
    return quantiles(times, n=20)[-1] if len(times) > 1 else times[0]
