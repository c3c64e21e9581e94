"""A waiting import and a slow model: how soon all slots of 1, 2 and 4 processes work, and in whose order."""

from __future__ import annotations

import math
import time

import httpx

from benchmarks.chaos.conversations import conversations
from benchmarks.chaos.ground import Ground, Scene
from benchmarks.harness import Row, say
from benchmarks.scale.workers import PROCESSES, Clock

SLOW_S = 2.0
CALLS, LIVE = 10, 5
"""How many calls' time is measured after the first two, and how many sessions are enqueued meanwhile."""
THREADS = 4
"""Of a process: few, so that 16 slots leave two processors idle."""


def _calls(scene: Scene) -> list[tuple[float, float, str]]:
    """All calls of the model in the order of their starts: start, end (monotonic seconds), and what was sent."""
    found = httpx.get(str(scene.running.model).removesuffix("/v1") + "/requests", timeout=60).raise_for_status().json()
    return sorted((each["started"], each["ended"] or math.inf, str(each["body"])) for each in found)


def one_size(scene: Scene, processes: int, url: str, seed: int) -> Row:
    """Start, work for a while, in which sessions come live, and stop as an update would."""
    slots = processes * THREADS
    worker = scene.running.launch_worker(concurrency=THREADS, processes=processes)
    scene.running.await_worker(worker, processes)
    begin = time.monotonic() + 2 * SLOW_S
    time.sleep(2 * SLOW_S)
    before, sent = Clock.read(scene, url), dict[str, float]()
    for one in conversations(LIVE, seed, f"live-{processes}"):
        sent[one.detail] = time.monotonic()
        scene.client.enqueue(one.owner, one.session_id, one.turns)
        time.sleep(CALLS * SLOW_S / LIVE)
    end, made = time.monotonic(), _calls(scene)
    fractions = Clock.read(scene, url).fractions_since(before)
    worker.terminate()
    worker.wait()
    full = (start for start, *_ in made if sum(s <= start < ended for s, ended, _ in made) >= slots)
    busy = sum(max(0, min(ended, end) - max(start, begin)) for start, ended, _ in made)
    waits = [next((s for s, _, body in made if detail in body), math.inf) - at for detail, at in sent.items()]
    row: Row = {
        "scenario": "backlog",
        "processes": processes,
        "slots_filled_calls": round(2 + (next(full, math.inf) - begin) / SLOW_S, 2),
        "slots_in_model": round(busy / (end - begin) / slots, 3),
        "live_waits_calls": [round(each / SLOW_S, 2) for each in waits],
        "processors": fractions,
    }
    say("  ".join(f"{name}={value}" for name, value in row.items()))
    return row


def backlog(place: Ground, sessions: int, seed: int) -> list[Row]:
    """So many sessions, ten of an owner, wait when workers start."""
    rows = []
    for count in PROCESSES:
        with place.scene(f"backlog-{count}", latency_s=SLOW_S, measured=True) as scene:
            url = scene.running.settings.database.migration_url
            assert url is not None
            scene.client.enqueue_many((one.owner, one.session_id, one.turns) for one in conversations(sessions, seed))
            rows.append(one_size(scene, count, url.get_secret_value(), seed))
            called = "SELECT array[count(*), count(DISTINCT forest_id)] FROM memforest.llm_call WHERE step = 'extract'"
            rows[-1]["extracted_of_owners"] = scene.running.rows(called)[0][0]
    return rows
