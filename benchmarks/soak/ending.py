"""What must hold when everything is at rest: all that was accepted is known, all that was forgotten is nowhere."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Iterator
from typing import Any

import httpx
import redis
import sqlalchemy as sa

from benchmarks.chaos.outcome import current, left
from benchmarks.soak.driving import Seen
from benchmarks.soak.known import WORD, Fate, Known
from memforest_core.client.api import MemForest
from memforest_core.client.embedded.servers import EmbeddedServers
from memforest_core.client.services.service import open_services
from memforest_core.domain.indexed import bm25_weights, count_terms
from memforest_core.errors import NotFound
from memforest_core.lifecycle.verify.service import open_verification
from tests.harness.processes import Deployment

REST_S = 300.0
PAGE = 256
REQUESTED = 200
"""Turns that recall must find, drawn at random."""
SHOWN = 5
_DEADLOCK = "deadlock detected"

_UNENDED = """
    SELECT kind, state, error_code, error_text, progress::text, task_id::text FROM memforest.maintenance
     WHERE state NOT IN ('done', 'cancelled') ORDER BY created_at
"""
_TURNS = """
    SELECT f.owner, t.content FROM memforest.turn t
      JOIN memforest.session s USING (tenant_id, session_id) JOIN memforest.forest f USING (tenant_id, forest_id)
     WHERE f.state IN ('live', 'frozen')
"""
_FACTS = """
    SELECT f.owner, c.text FROM memforest.fact c JOIN memforest.forest f USING (tenant_id, forest_id)
     WHERE f.state IN ('live', 'frozen')
       AND EXISTS (SELECT FROM memforest.occurrence o WHERE o.tenant_id = c.tenant_id AND o.fact_id = c.fact_id)
"""


def at_rest(running: Deployment, seen: Seen) -> float:
    """Wait until nothing is left to do; how long it took, in seconds."""
    started = time.monotonic()
    while time.monotonic() - started < REST_S:
        open_ = running.scalar("SELECT count(*) FROM memforest.maintenance WHERE state IN ('ready', 'running')")
        if not left(running) and not open_:
            return time.monotonic() - started
        time.sleep(0.5)
    seen.find("it does not come to rest", left=str(left(running)), current=current(running))
    return REST_S


def check_now(
    running: Deployment, servers: EmbeddedServers, known: Known, seen: Seen, rng: random.Random
) -> dict[str, object]:
    """Check everything; numbers of what was checked. What must not be goes to ``seen``."""
    allowed = known.allowed()
    forgotten = known.planted() - allowed
    _work(running, seen)
    _verified(running, seen)
    _stored(running, known, seen)
    for place, words in _texts(running):
        _leaked(seen, place, words - allowed)
    _leaked(seen, "redis", set(_in_redis(servers)) - allowed)
    points, sparse = _in_index(running, forgotten, allowed)
    _leaked(seen, "points", points - allowed)
    _leaked(seen, "sparse vectors", sparse)
    statistics = {word for row in running.rows("SELECT s::text FROM pg_stats s WHERE schemaname = 'memforest'")
                  for word in WORD.findall(row[0])}  # fmt: skip
    deadlocks = (servers.directory.logs / "postgres.log").read_text(errors="replace").count(_DEADLOCK)
    if deadlocks:
        seen.find(_DEADLOCK, times=deadlocks)
    return {
        "words_known": sum(each.fate is Fate.KNOWN for each in known.all()),
        "words_forgotten": len(forgotten),
        "words_either": sum(each.fate is Fate.EITHER for each in known.all()),
        "asked": _requested(running, known, seen, rng),
        "deadlocks": deadlocks,
        "forgotten_in_statistics": len(statistics - allowed),
        **{f"rows_{table}": running.scalar(f"SELECT count(*) FROM memforest.{table}") for table in _COUNTED},
    }


_COUNTED = ("forest", "session", "cell", "fact", "vector", "index_row", "audit")


def _leaked(seen: Seen, place: str, words: Iterable[str]) -> None:
    if found := sorted(words):
        seen.find("forgotten words are left", place=place, count=len(found), such_as=found[:SHOWN])


def _work(running: Deployment, seen: Seen) -> None:
    for row in running.rows(_UNENDED):
        seen.find("an operation did not end", **{name: str(value) for name, value in row._mapping.items()})
    for table in ("cell", "node"):
        if dead := running.scalar(f"SELECT count(*) FROM memforest.{table} WHERE state = 'dead'"):
            such = running.rows(f"SELECT DISTINCT error_code, error_text FROM memforest.{table} WHERE state = 'dead'")
            seen.find(f"dead: {table}", count=dead, such_as=[str(row) for row in such[:SHOWN]])


def _verified(running: Deployment, seen: Seen) -> None:
    services = open_services(running.settings)
    try:
        services.index.prepare()
        report = open_verification(services.engine, services.index, services.settings).run()
    finally:
        services.close()
    for result in report.checks:
        if result.violations or result.not_checked:
            seen.find(
                f"verify: {result.check.value}",
                violations=result.violations,
                checked=result.checked,
                not_checked=result.not_checked,
                such_as=[str(each) for each in result.examples[:SHOWN]],
            )


def _stored(running: Deployment, known: Known, seen: Seen) -> None:
    """Turns and facts of each owner: those that must be there, and none that must not."""
    for what, statement in (("turn", _TURNS), ("fact", _FACTS)):
        found = {(owner, word) for owner, text in running.rows(statement) for word in WORD.findall(text)}
        lost = [each for each in known.all() if each.fate is Fate.KNOWN
                and not any((owner, each.word) in found for owner in each.owners)]  # fmt: skip
        if lost:
            seen.find(
                f"lost: {what}", count=len(lost), such_as=[[each.word, *sorted(each.owners)] for each in lost[:SHOWN]]
            )
        may = {(owner, word) for each in known.all() if each.fate is not Fate.GONE
               for owner in each.owners for word in each.words}  # fmt: skip
        if wrong := sorted(found - may):
            seen.find(f"left: {what}", count=len(wrong), such_as=[list(each) for each in wrong[:SHOWN]])


def _texts(running: Deployment) -> Iterator[tuple[str, set[str]]]:
    """The planted words of each table."""
    url = running.settings.database.migration_url
    assert url is not None
    engine = sa.create_engine(url.get_secret_value())
    with engine.connect() as connection:
        tables = connection.scalars(sa.text("SELECT tablename FROM pg_tables WHERE schemaname = 'memforest'")).all()
        for table in tables:
            rows = connection.execution_options(stream_results=True).scalars(
                sa.text(f"SELECT t::text FROM memforest.{table} t")
            )
            yield table, {word for row in rows for word in WORD.findall(row)}
    engine.dispose()


def _in_redis(servers: EmbeddedServers) -> Iterator[str]:
    """The planted words of keys and values, whatever their type."""
    with redis.Redis.from_url(servers.redis_url) as broker:
        for key in broker.scan_iter(count=1_000):
            yield from WORD.findall(key.decode(errors="replace"))
            if (dumped := broker.dump(key)) is not None:
                yield from WORD.findall(dumped.decode("latin-1"))


def _in_index(running: Deployment, forgotten: set[str], allowed: set[str]) -> tuple[set[str], set[str]]:
    """Planted words in payloads, and forgotten words whose place in sparse vectors is taken."""
    of = {word: set(bm25_weights(count_terms(word), 1)[0]) for word in forgotten}
    shared = {place for word in allowed for place in bm25_weights(count_terms(word), 1)[0]}
    payloads: set[str] = set()
    positions: set[int] = set()
    with httpx.Client(base_url=running.index.url, timeout=30.0) as client:
        for collection in running.rows("SELECT name FROM memforest.collection"):
            for point in _points(client, collection.name):
                payloads |= set(WORD.findall(str(point.get("payload"))))
                vectors = point.get("vector") or {}
                positions |= {at for each in vectors.values() if isinstance(each, dict) for at in each["indices"]}
    return payloads, {word for word, taken in of.items() if taken - shared and taken <= positions}


def _points(client: httpx.Client, collection: str) -> Iterator[dict[str, Any]]:
    after: object = None
    while True:
        requested = {"limit": PAGE, "offset": after, "with_payload": True, "with_vector": True}
        page = (
            client.post(f"/collections/{collection}/points/scroll", json=requested).raise_for_status().json()["result"]
        )
        yield from page["points"]
        after = page.get("next_page_offset")
        if after is None:
            return


def _requested(running: Deployment, known: Known, seen: Seen, rng: random.Random) -> int:
    """Ask for what must be known; how many questions."""
    sure = [each for each in known.all() if each.fate is Fate.KNOWN and len(each.owners) == 1]
    requested = rng.sample(sure, min(REQUESTED, len(sure)))
    missed = []
    with MemForest.connect(running.settings) as memory:
        for each in requested:
            (owner,) = each.owners
            try:
                found = memory.recall(owner, f"What did the {each.word} cost?", k=10).evidence
            except NotFound:
                found = ()
            if not any(each.word in piece.text for piece in found):
                missed.append([owner, each.word])
    if missed:
        seen.find("recall does not find a turn", count=len(missed), such_as=missed[:SHOWN])
    return len(requested)
