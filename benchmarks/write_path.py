"""What a cell costs to write, offline or (``--model``) with a model server of no latency: CPU, WAL, rows, statements.

Several owners' sessions of a made-up life are enqueued and worked off by an embedded node. Offline only the public
interface is used, so the same file measures an older checkout: ``PYTHONPATH=<checkout> python -P <this file>``.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil
import sqlalchemy as sa
from sqlalchemy import event

from benchmarks.harness import Report, Row, parser, say
from benchmarks.lives import TURNS, period
from memforest_core.client.api import MemForest
from memforest_core.models.accounting import ListPrices
from memforest_core.models.calls import CHAT_STEPS, Step
from memforest_core.observe.records import CallFilter, CostBy
from memforest_core.settings import load_settings

TIMEOUT_S = 900.0
WATTS = 4.26 * 1.185
"""Of one busy virtual processor: the most of three clouds, times the most that their buildings add (Cloud Carbon
Footprint's methodology)."""
PRICED = ("gpt-5-nano", "gpt-5-mini", "gpt-4.1-mini", "claude-haiku-4-5")
"""Models whose prices are in litellm's table."""
MEASURED = (
    "one embedded node, all enqueued at once: CPU milliseconds a cell of this process (workers, embedding) and of"
    " Postgres; WAL bytes a turn; statements a cell as the driver sends them (rows that go one by one count as many);"
    " rows written a cell: inserted, updated and deleted, by Postgres' own counts; lock_waits: the share of samples of"
    " busy sessions of Postgres, one look each 20 ms, that waited for a lock; kept: rows, bytes of tables and of their"
    " indexes, and bytes of the vector index's files (their holes not counted), a turn, at the end and without vacuum;"
    " watt_hours: WATTS times the CPU seconds of both; dollars: the model calls' tokens, of four characters each, by"
    " litellm's prices"
)


@dataclass(slots=True)
class Sent:
    """Statements that were sent, by their first words."""

    by_kind: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, _connection: Any, _cursor: Any, statement: str, parameters: Any, _context: Any, many: bool) -> None:
        """One execution."""
        words = " ".join(statement.split())
        with self.lock:
            self.by_kind[words[:80]] += len(parameters) if many and isinstance(parameters, list) else 1


@contextmanager
def counting() -> Iterator[Sent]:
    """Counts what all engines of the process send."""
    sent = Sent()
    event.listen(sa.Engine, "before_cursor_execute", sent.note)
    try:
        yield sent
    finally:
        event.remove(sa.Engine, "before_cursor_execute", sent.note)


READ_NOW_S = 0.02
_BUSY = sa.text("""
    SELECT count(*) AS busy, count(*) FILTER (WHERE wait_event_type = 'Lock') AS waiting FROM pg_stat_activity
     WHERE state = 'active' AND backend_type = 'client backend' AND pid <> pg_backend_pid()
    """)


@dataclass(slots=True)
class Reads:
    """Sessions of Postgres that were seen busy, and of these the ones that waited for a lock."""

    busy: int = 0
    waiting: int = 0

    @property
    def share(self) -> float:
        """Waiting for a lock, of all busy."""
        return self.waiting / max(1, self.busy)


@contextmanager
def looking(url: str) -> Iterator[Reads]:
    """Polls the server's sessions while the block runs."""
    reads, done, engine = Reads(), threading.Event(), sa.create_engine(url, isolation_level="AUTOCOMMIT")

    def check_now() -> None:
        with engine.connect() as connection:
            while not done.wait(READ_NOW_S):
                row = connection.execute(_BUSY).one()
                reads.busy, reads.waiting = reads.busy + row.busy, reads.waiting + row.waiting

    thread = threading.Thread(target=check_now, daemon=True)
    thread.start()
    try:
        yield reads
    finally:
        done.set()
        thread.join()
        engine.dispose()


@dataclass(frozen=True, slots=True)
class Reading:
    """What was used until now."""

    python_s: float
    postgres_s: float
    wal: int
    rows: int
    stored_rows: int
    table_bytes: int
    index_bytes: int
    vector_bytes: int

    def since(self, before: Reading) -> Reading:
        """The difference."""
        pairs = zip(astuple(self), astuple(before), strict=True)
        return Reading(*(now - then for now, then in pairs))


_STORED = sa.text("""
    SELECT coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0) AS written, coalesce(sum(n_live_tup), 0) AS stored,
           sum(pg_table_size(relid)) AS tables, sum(pg_indexes_size(relid)) AS indexes FROM pg_stat_user_tables
    """)


def reading(url: str, vectors: Path | None = None) -> Reading:
    """CPU of this process and of the server, its WAL position, its counts of rows, and the bytes stored in the database
    and in the directory of the vector index."""
    engine = sa.create_engine(url)
    with engine.connect() as connection:
        wal = connection.scalar(sa.text("SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')"))
        rows = connection.execute(_STORED).one()
        times = [each.cpu_times() for each in _postgres(connection)]
    engine.dispose()
    # What ended sessions of the server used is in their parent's count.
    postgres = sum(each.user + each.system for each in times)
    postgres += max((each.children_user + each.children_system for each in times), default=0.0)
    own = os.times()
    files = [] if vectors is None else [file for file in vectors.rglob("*") if file.is_file()]
    held = sum(512 * file.stat().st_blocks for file in files)
    cpu = own.user + own.system
    return Reading(cpu, postgres, int(wal or 0), int(rows.written), int(rows.stored), rows.tables, rows.indexes, held)


def _postgres(connection: sa.Connection) -> list[psutil.Process]:
    """The processes of the server behind a connection: the one that began it, and all sessions."""
    session = psutil.Process(connection.scalar(sa.text("SELECT pg_backend_pid()")))
    postmaster = session.parent()
    return [postmaster, *postmaster.children()] if postmaster is not None else []


def measure(directory: Path, owners: int, sessions: int, seed: int, **settings: Any) -> tuple[Row, int, Sent]:
    """Write everything once: the figures, how many cells it made, and what was sent."""
    with MemForest.embedded(directory, load_settings(**settings)) as memory, counting() as sent:
        url = memory.settings.database.migration_url or memory.settings.database.url
        plain = url.get_secret_value()
        memory.ingest("warm-up", "s", [{"role": "user", "content": "I live in Davis."}], wait="facts")
        memory.flush("warm-up", TIMEOUT_S)
        index = directory / "qdrant"
        before, started, turns = reading(plain, index), time.perf_counter(), 0
        sent.by_kind.clear()
        with looking(plain) as reads:
            for owner in range(owners):
                for described in period(owner, sessions, seed):
                    memory.ingest(f"owner-{owner}", described.session_id, described.turns, wait="none")
                    turns += len(described.turns)
            for owner in range(owners):
                memory.flush(f"owner-{owner}", TIMEOUT_S)
        took = time.perf_counter() - started
        used = reading(plain, index).since(before)
        cells = sum(
            memory.client.status(f"owner-{owner}", described.session_id).cells
            for owner in range(owners)
            for described in period(owner, sessions, seed)
        )
    row: Row = {
        "turns": turns,
        "cells": cells,
        "seconds": round(took, 1),
        "cells_a_second": round(cells / took, 1),
        "python_ms_a_cell": round(1_000 * used.python_s / cells, 1),
        "postgres_ms_a_cell": round(1_000 * used.postgres_s / cells, 1),
        "watt_hours_a_thousand_turns": round(WATTS * (used.python_s + used.postgres_s) / 3.6 / turns, 4),
        "wal_bytes_a_turn": round(used.wal / turns),
        "rows_a_cell": round(used.rows / cells, 1),
        "statements_a_cell": round(sum(sent.by_kind.values()) / cells, 1),
        "lock_waits": round(reads.share, 4),
        "kept_rows_a_turn": round(used.stored_rows / turns, 1),
        "kept_table_bytes_a_turn": round(used.table_bytes / turns),
        "kept_index_bytes_a_turn": round(used.index_bytes / turns),
        "kept_vector_bytes_a_turn": round(used.vector_bytes / turns),
        "resident_mb": round(psutil.Process().memory_info().rss / 1e6),
    }
    return row, cells, sent


def main() -> None:
    """Run and print."""
    options = parser(__doc__ or "")
    options.add_argument("--owners", type=int, default=4, metavar="N")
    options.add_argument("--sessions", type=int, default=10, metavar="N", help="of each owner, 20 turns each")
    options.add_argument("--top", type=int, default=0, metavar="N", help="statements that were sent most often")
    options.add_argument("--model", action="store_true", help="with a model server of no latency (default: offline)")
    chosen = options.parse_args()
    report = Report(chosen.seed, chosen.json)
    sizes = chosen.owners, chosen.sessions, chosen.seed
    with tempfile.TemporaryDirectory(prefix="memforest-bench-") as directory:
        row, cells, sent = (with_model if chosen.model else measure)(Path(directory), *sizes)
    for statement, count in sent.by_kind.most_common(chosen.top):
        say(f"{count / cells:7.2f} a cell: {statement}")
    report.end([row], {"what": MEASURED, "model": chosen.model})


def with_model(directory: Path, owners: int, sessions: int, seed: int) -> tuple[Row, int, Sent]:
    """As ``measure``, with a model server in a process of its own; the row also has the calls that it answered."""
    from tests.harness.processes import serving

    with serving("tests.harness.model_server", "--port", "0") as url:
        llm = {"model": "openai/test-model", "api_base": url, "api_key": "test"}
        row, cells, sent = measure(directory, owners, sessions, seed, llm=llm)
        requested = httpx.post(url.removesuffix("/v1") + "/control", json={}, timeout=TIMEOUT_S).raise_for_status()
        calls = requested.json()["requests"]
        with MemForest.embedded(directory, load_settings(llm=llm)) as memory:
            costs = memory.services.inspection.costs(memory.tenant, CostBy.STEP, CallFilter())
    spent, turns = [each.spent for each in costs.rows if each.name in CHAT_STEPS], owners * sessions * TURNS
    tokens = sum(each.prompt_tokens for each in spent), sum(each.completion_tokens for each in spent)
    prices = {name: ListPrices({}, frozenset()).cost_usd(Step.EXTRACT, name, *tokens) or 0.0 for name in PRICED}
    priced: Row = {
        f"dollars_a_thousand_turns:{name}": round(1_000 * price / turns, 4) for name, price in prices.items()
    }
    return row | {"model_calls": calls, "prompt_tokens": tokens[0], "answer_tokens": tokens[1]} | priced, cells, sent


if __name__ == "__main__":
    main()
