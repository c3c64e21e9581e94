"""What the embedding models of this process have in common: loaded at the first use, texts of all callers in batches.

Forty calls with three texts each cost as much as one call with all of them; forty small runs cost 1.6 times that
(measured)."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from heapq import heappop, heappush
from itertools import count
from typing import Generic, NamedTuple, Protocol, TypeVar, cast

import numpy as np

from memforest_core.domain.forks import renewed_in_child
from memforest_core.errors import ModelUnavailable
from memforest_core.models.calls import Embedded, Step, Vectors, own_call
from memforest_core.models.token_vectors import TokenVectors

MAX_THREADS = 8
"""Without a number given: as many as cores, but a process is rarely alone on a large machine."""


class Read(NamedTuple):
    """What a model made of a text: a unit vector, of how many tokens, and their own vectors, if it gives them."""

    vector: Vectors
    size: int
    tokens: TokenVectors | None = None


class Engine(Protocol):
    """A loaded model of one process."""

    dimension: int

    def read(self, texts: Sequence[str], *, query: bool) -> list[Read]:
        """In the order of the texts; questions go before others that wait. Raises ModelRejected for text that is not
        Unicode."""


@renewed_in_child
class BuiltInEmbedder:
    """The Embedder port over an engine: a text's vector is the same to the last bit whatever it is embedded with.
    Thread-safe; loads at the first use, again in a forked child."""

    def __init__(self, model: str, load: Callable[[], Engine]) -> None:
        """``load`` raises InvalidSettings if the model's wheels are missing."""
        self.model = model
        self._load = load
        self._lock = threading.Lock()
        self._loaded: Engine | None = None

    @property
    def dimension(self) -> int:
        """As the model's file says."""
        return self._engine().dimension

    def embed(self, texts: Sequence[str]) -> Embedded:
        """Vectors of stored texts. Raises InvalidSettings, ModelRejected."""
        return self._embed(texts, query=False)

    def embed_query(self, texts: Sequence[str]) -> Embedded:
        """Vectors of questions, before others that wait."""
        return self._embed(texts, query=True)

    def _embed(self, texts: Sequence[str], *, query: bool) -> Embedded:
        engine = self._engine()
        started = time.perf_counter()
        distinct = list(dict.fromkeys(texts))
        found = dict(zip(distinct, engine.read(distinct, query=query), strict=True))
        record = own_call(Step.EMBED, self.model, sum(read.size for read in found.values()), started)
        reads = [found[text] for text in texts]
        vectors = np.stack([read.vector for read in reads]) if reads else np.empty((0, engine.dimension), np.float32)
        tokens = [read.tokens for read in reads if read.tokens is not None]
        return Embedded(vectors, record, tokens if reads and len(tokens) == len(reads) else None)

    def _engine(self) -> Engine:
        with self._lock:
            if self._loaded is None:
                self._loaded = self._load()
            return self._loaded


def cores() -> int:
    """Threads for a model unless a number is given."""
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(MAX_THREADS, available)


Ids = list[int]
Row = TypeVar("Row")
"""What a run makes of one token list."""
Run = Callable[[Sequence[Ids]], Sequence[Row]]


def padded(length: int, rounding: int) -> int:
    """A length, rounded up to a multiple."""
    return -(-length // rounding) * rounding


def in_batches(texts: Sequence[str], size: int, request: Callable[[Sequence[str]], Embedded]) -> Embedded:
    """Vectors of texts, at least one, in requests of up to ``size`` texts; what they cost is added up."""
    parts = [request(texts[start : start + size]) for start in range(0, len(texts), size)]
    if len(parts) == 1:
        return parts[0]
    records = [part.record for part in parts]
    total = replace(
        records[0],
        prompt_tokens=sum(record.prompt_tokens for record in records),
        cached_tokens=sum(record.cached_tokens for record in records),
        cost_usd=sum(record.cost_usd for record in records),
        latency_ms=sum(record.latency_ms for record in records),
    )
    return Embedded(np.concatenate([part.vectors for part in parts]), total)


class _Call(Generic[Row]):
    """The rows that one caller waits for."""

    def __init__(self, tokens: Sequence[Ids]) -> None:
        self.rows: list[Row | None] = [None] * len(tokens)
        self.missing = len(tokens)
        self.error: BaseException | None = None
        self.shared = False
        """Whether texts of other callers were in the run that failed."""
        self.ready = threading.Event()


_Row = tuple[bool, tuple[int, ...]]
"""Whether it is not urgent, and its token ids."""
_Groups = dict[tuple[bool, int], list[tuple[int, int, _Row]]]
"""Waiting rows by padded length, those that are not urgent separately; none empty, each a heap. Before each row are its
turn and a number that no other has."""


class Batches(Generic[Row]):
    """Runs token lists of one padded length together, ``threads`` batches at a time. A list that several calls want at
    once runs once: refresh reads cells that the indexer embeds. A call's turn is when as many rows ran since it came as
    it has: few rows do not wait for many, and many for at most as many of others.

    ``run`` must make the same row of a token list in any company. A token list is padded to a multiple of
    ``rounding``; a batch has at most ``batch_size`` rows and ``batch_tokens`` tokens.
    """

    def __init__(self, run: Run[Row], *, rounding: int, threads: int, batch_size: int, batch_tokens: int) -> None:
        self._run = run
        self._rounding = rounding
        self._batch_size = batch_size
        self._batch_tokens = batch_tokens
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="memforest-embed")
        self._lock = threading.Lock()
        self._waiting: _Groups = {}
        self._running: set[_Row] = set()
        self._wanted: dict[_Row, list[tuple[_Call[Row], int]]] = {}
        """For each row that waits or runs the calls that wait for it, with its place in each."""
        self._came = count()
        self._taken = 0

    def rows(self, tokens: Sequence[Ids], *, urgent: bool) -> list[Row]:
        """One row per token list, in order; urgent rows go before all others that wait. Raises what the run raised, or
        ModelUnavailable if texts of other callers were in it: whose fault it was is unknown."""
        if not tokens:
            return []
        call: _Call[Row] = _Call(tokens)
        lengths = [padded(len(ids), self._rounding) for ids in tokens]
        with self._lock:
            # The longest first: a long run at the end would leave the other threads idle.
            for position in sorted(range(len(tokens)), key=lambda place: -lengths[place]):
                group, row = (not urgent, lengths[position]), (not urgent, tuple(tokens[position]))
                self._wanted.setdefault(row, []).append((call, position))
                turn = self._taken + len(tokens)
                heappush(self._waiting.setdefault(group, []), (turn, next(self._came), row))
        # As many runs as these rows need by themselves; in common batches some find nothing left.
        for length in set(lengths):
            for _ in range(-(-lengths.count(length) // self._fitting(length))):
                self._pool.submit(self._run_next)
        call.ready.wait()
        if call.shared:
            raise ModelUnavailable("The embedding model failed on a batch shared with other texts.") from call.error
        if call.error is not None:
            raise call.error
        return cast("list[Row]", call.rows)

    def _fitting(self, length: int) -> int:
        return max(1, min(self._batch_size, self._batch_tokens // length))

    def _take(self) -> list[_Row]:
        """The rows of the next run: urgent ones first, of those the length whose turn it is."""
        taken: list[_Row] = []
        with self._lock:
            while self._waiting and not taken:
                group = min(self._waiting, key=lambda each: (each[0], self._waiting[each][0][:2]))
                rows = self._waiting[group]
                while rows and len(taken) < self._fitting(group[1]):
                    row = heappop(rows)[2]
                    # What several calls want waits once for each: the first turn counts.
                    if row in self._wanted and row not in self._running:
                        self._running.add(row)
                        taken.append(row)
                if not rows:
                    del self._waiting[group]
            self._taken += len(taken)
        return taken

    def _run_next(self) -> None:
        taken = self._take()
        if not taken:
            return
        found: Sequence[Row | None] = [None] * len(taken)
        failed: BaseException | None = None
        try:
            found = self._run([list(ids) for _, ids in taken])
        except BaseException as error:  # noqa: BLE001 - raised to the callers that wait
            failed = error
        with self._lock:
            self._running.difference_update(taken)
            ended = [(self._wanted.pop(row), made) for row, made in zip(taken, found, strict=True)]
            shared = len({call for wanted, _ in ended for call, _ in wanted}) > 1
            for (call, position), made in ((each, made) for wanted, made in ended for each in wanted):
                call.rows[position] = made
                if failed is not None and call.error is None:
                    call.error, call.shared = failed, shared
                call.missing -= 1
                if call.missing == 0:
                    call.ready.set()
