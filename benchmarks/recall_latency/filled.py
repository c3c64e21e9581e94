"""Forests that another process fills: what filling leaves behind in a process's memory makes its recalls slower, by a
tenth at 10,000 facts."""

from __future__ import annotations

import itertools
import multiprocessing
import random
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import sqlalchemy as sa

from benchmarks.harness import SETUP_TIMEOUT_MS, Database, say
from benchmarks.recall_latency.filling import fill
from benchmarks.recall_latency.measuring import collection, engine_of
from benchmarks.recall_latency.world import Requested, World


def filled(
    running: Database, directory: Path, facts: int, forests: int, questions: int, seed: int
) -> list[tuple[str, Requested]]:
    """Fill equal forests of a database and of an index that nobody has open; owners in a shuffled order, each with a
    question about what was said in their forest."""
    started = time.perf_counter()
    urls = running.service.url, running.owner.url
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as other:
        requested = other.submit(_filled, *urls, directory, facts, forests, questions, seed).result()
    running.tidy()
    say(f"{facts:,} facts in {forests:,} forests, filled in {time.perf_counter() - started:.0f} s")
    return requested


def _filled(
    service: sa.URL, owner: sa.URL, directory: Path, facts: int, forests: int, questions: int, seed: int
) -> list[tuple[str, Requested]]:
    running = Database(engine_of(service, SETUP_TIMEOUT_MS), engine_of(owner, SETUP_TIMEOUT_MS))
    world = World(seed)
    said = {}
    with collection(directory) as index:
        for number in range(forests):
            name = f"owner-{number}"
            said[name] = fill(running, index, world, name, facts // forests, seed + number)
    running.service.dispose()
    running.owner.dispose()
    owners = list(said)
    random.Random(seed).shuffle(owners)
    # Round robin: with more forests than questions no forest gets two.
    return [(name, world.question(said[name])) for name in itertools.islice(itertools.cycle(owners), questions)]
