"""What the benchmarks share: options, progress, the printed report, and a forest with one tree in real Postgres."""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import sqlalchemy as sa

from memforest_core.adapters.postgres.accept import PostgresAcceptStore
from memforest_core.adapters.postgres.engine import open_engine
from memforest_core.adapters.postgres.reduce import PostgresReduceStore
from memforest_core.adapters.postgres.schema import check_ready, upgrade
from memforest_core.contexts.canonical.identity import identify
from memforest_core.domain.facts import Change, Fact, Modality, Origin, Polarity, Statement
from memforest_core.domain.ids import (
    ForestId,
    NodeId,
    PayloadId,
    SessionId,
    TenantId,
    TreeId,
    leaf_id,
    tree_id,
)
from memforest_core.domain.scopes import TreeKind
from memforest_core.domain.times import UNKNOWN_TIME, micros
from memforest_core.embedded.servers import EmbeddedServers
from memforest_core.memtree import Key, Leaf, build, insert
from memforest_core.ports.reduce import Member, ScopeDraft, TreeChange
from memforest_core.settings import DatabaseSettings, TreeSettings

TENANT = TenantId("benchmark")
SERVICE_ROLE = "memforest_app"
BATCH = 20
"""Facts inserted at once: about what a few extracted windows bring."""
ENTITY_K = TreeSettings().entity_k
START = datetime(2023, 1, 1, tzinfo=UTC)
SETUP_TIMEOUT_MS = 600_000

Row = dict[str, object]


def parser(description: str) -> argparse.ArgumentParser:
    """The options that every benchmark has."""
    options = argparse.ArgumentParser(description=description)
    options.add_argument("--json", action="store_true", help="print one JSON object as the last line of stdout")
    options.add_argument("--seed", type=int, default=7, help="makes runs repeatable (default: %(default)s)")
    return options


def say(text: str) -> None:
    """Progress, on stderr."""
    print(text, file=sys.stderr, flush=True)


@dataclass(frozen=True, slots=True)
class Report:
    """One run's answer; made before the work begins, because the load that matters is that of others."""

    seed: int
    as_json: bool
    load_before: float = field(default_factory=lambda: os.getloadavg()[0])

    def end(self, rows: Sequence[Row], measured: Mapping[str, object]) -> None:
        """Print the rows; ``measured`` says what was measured, and with which parameters."""
        if not self.as_json:
            for row in rows:
                print("  ".join(f"{name}={value}" for name, value in row.items()))
            return
        machine = {
            "cores": os.cpu_count(),
            "python": platform.python_version(),
            "platform": platform.platform(),
            "load": [round(self.load_before, 2), round(os.getloadavg()[0], 2)],
        }
        print(json.dumps({"rows": rows, "seed": self.seed, "machine": machine, "measured": measured}), flush=True)


@dataclass(frozen=True, slots=True)
class Database:
    """A migrated Postgres of this run's own: ``service`` is bound by row-level security, ``owner`` is not."""

    service: sa.Engine
    owner: sa.Engine

    def tidy(self) -> None:
        """What autovacuum would have done by the time a memory has grown: fresh statistics, no dead rows."""
        with self.owner.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.exec_driver_sql("VACUUM (ANALYZE)")
            connection.exec_driver_sql("CHECKPOINT")


@contextmanager
def database() -> Iterator[Database]:
    """Start Postgres in a temporary directory, migrate it, and connect as the service role."""
    with ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="memforest-bench-"))
        servers = stack.enter_context(EmbeddedServers.start(Path(directory), valkey=False))
        assert servers.postgres is not None
        owner_url = servers.postgres.url()
        settings = DatabaseSettings.model_validate(
            {"url": servers.postgres.url(user=SERVICE_ROLE), "migration_url": owner_url}
        )
        upgrade(settings)
        # Setting up and tidying take longer than any statement of a service may.
        patient = settings.model_copy(update={"statement_timeout_ms": SETUP_TIMEOUT_MS})
        service, owner = open_engine(patient), open_engine(patient, owner_url)
        stack.callback(owner.dispose)
        stack.callback(service.dispose)
        check_ready(service)
        yield Database(service, owner)


def seeded_ids(rng: random.Random) -> Callable[[], NodeId]:
    """Node ids that look random and repeat with the seed."""
    return lambda: NodeId(UUID(int=rng.getrandbits(128), version=4))


def made_fact(forest: ForestId, number: int, said: datetime, chars: int) -> Fact:
    """An undated statement of about ``chars`` characters, which no other number shares."""
    words = f"Bob said in note {number} that parcel {number * 7919} went to shelf {number % 97}"
    filler = " after the count of the brass lamps in the second hall was written down by the night clerk"
    text = (words + filler * (chars // len(filler) + 1))[: chars - 1] + "."
    statement = Statement(
        text=text,
        time=UNKNOWN_TIME,
        mentioned_at=said,
        speaker="Bob",
        subject="Bob",
        attribute="",
        value="",
        previous_value="",
        change=Change.NONE,
        polarity=Polarity.POSITIVE,
        modality=Modality.ASSERTED,
        entities=(),
        scene="",
        origin=Origin.USER,
        verbatim=False,
    )
    id_, normalized = identify(forest, statement)
    return Fact(id_, statement, normalized, cell_ordinal=number % 1000, item=number % 16)


def minute(number: float) -> datetime:
    """The moment of the ``number``-th fact of a memory that grows by one a minute."""
    return START + timedelta(minutes=number)


def made_leaf(tree: TreeId, fact: Fact) -> Leaf:
    """The leaf that routing makes for a fact without an event time of its own."""
    at = micros(fact.statement.mentioned_at)
    payload = PayloadId(fact.id)
    return Leaf(leaf_id(tree, payload), Key(at, fact.cell_ordinal, fact.item, fact.id.hex), at, at, payload)


@dataclass(frozen=True, slots=True)
class OneTree:
    """A forest whose facts all belong to one entity tree, and the reducer's step that inserts into it."""

    engine: sa.Engine
    forest: ForestId
    new_id: Callable[[], NodeId]
    chars: int
    """Length of a fact's text."""

    @classmethod
    def plant(cls, engine: sa.Engine, rng: random.Random, chars: int) -> OneTree:
        """A new forest without facts."""
        new_id = seeded_ids(rng)
        forest = ForestId(new_id())
        with PostgresAcceptStore(engine).accepting(TENANT) as rows:
            rows.ensure_forest(str(forest), forest, "UTC")
        return cls(engine, forest, new_id, chars)

    @property
    def tree(self) -> TreeId:
        return tree_id(self.forest, TreeKind.ENTITY, "bob")

    def facts(self, numbered: Sequence[tuple[int, float]]) -> list[Fact]:
        """Facts of (number, minute); numbers are used once in a forest."""
        return [made_fact(self.forest, number, minute(at), self.chars) for number, at in numbered]

    def insert(self, facts: Sequence[Fact], quiet_s: float, stale_s: float) -> float:
        """One reducing transaction: facts, placements, structure, marks; seconds of the tree's part of it."""
        leaves = [made_leaf(self.tree, fact) for fact in facts]
        keys = {fact.id: leaf.key for fact, leaf in zip(facts, leaves, strict=True)}
        session = SessionId(self.forest)
        with PostgresReduceStore(self.engine).reducing(TENANT) as rows:
            assert rows.lock_forest(self.forest)
            rows.add_facts(self.forest, facts, keys, dict.fromkeys(keys, "bob"))
            rows.put_scopes(self.forest, [ScopeDraft(self.tree, TreeKind.ENTITY, "bob", "Bob", ENTITY_K)])
            rows.add_members([Member(self.tree, leaf.payload_id, session) for leaf in leaves])
            started = time.perf_counter()
            head = rows.scopes([self.tree])[self.tree].head
            if head is None:
                diff = build(tree_id=self.tree, k=ENTITY_K, root_id=self.new_id(), leaves=leaves, new_id=self.new_id)
            else:
                loaded = rows.load_paths([(self.tree, leaf.key) for leaf in leaves])
                diff = insert(head, loaded[self.tree], leaves, self.new_id)
            rows.write_trees([TreeChange(self.tree, diff.head, diff)], quiet_s, stale_s)
            return time.perf_counter() - started
