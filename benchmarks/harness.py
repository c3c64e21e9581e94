"""What the benchmarks share: options, progress, the report, and one growing tree, in real Postgres and in memory."""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import sqlalchemy as sa

from memforest_core.client.embedded.servers import EmbeddedServers
from memforest_core.domain.facts import Change, Fact, Modality, Origin, Polarity, Statement
from memforest_core.domain.ids import (
    ForestId,
    LeaseToken,
    NodeId,
    PayloadId,
    SessionId,
    TenantId,
    TreeId,
    WorkerId,
    leaf_id,
    tree_id,
)
from memforest_core.domain.indexed import TermCounts
from memforest_core.domain.scopes import TreeKind
from memforest_core.domain.times import UNKNOWN_TIME, micros
from memforest_core.index.records import PointLease
from memforest_core.ingest.accept.rows.accepting import AcceptRows
from memforest_core.ingest.reduce.identity import identify
from memforest_core.ingest.reduce.records import Member, ScopeDraft
from memforest_core.ingest.reduce.rows import ReduceRows
from memforest_core.ingest.refresh.records import ChildText, NodeArtifact, ReadyNode
from memforest_core.memtree import Diff, Key, Leaf, Node, TreeHead, build, insert
from memforest_core.memtree.paths import order
from memforest_core.models.calls import CallRecord
from memforest_core.settings import DatabaseSettings, TreeSettings
from memforest_core.store.engine import open_engine
from memforest_core.store.schema import check_ready, upgrade
from memforest_core.store.trees import TreeChange

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


COUNTED = ("n", "cells", "windows", "model_calls")
"""What a row counts of what it measured."""


def unmeasured(rows: Sequence[Row]) -> str:
    """Which row measured nothing, and by which count; empty if each measured something."""
    if not rows:
        return "there is no row"
    zeros = ((number, name) for number, row in enumerate(rows, 1) for name in COUNTED if row.get(name, 1) == 0)
    return next((f"row {number} has {name}=0" for number, name in zeros), "")


@dataclass(frozen=True, slots=True)
class Report:
    """One run's answer; made before the work begins, because the load that matters is that of others."""

    seed: int
    as_json: bool
    load_before: float = field(default_factory=lambda: os.getloadavg()[0])

    def end(self, rows: Sequence[Row], measured: Mapping[str, object]) -> None:
        """Print the rows; ``measured`` says what was measured, and with which parameters. Ends the program with a
        sentence and exit code 1 when a row measured nothing."""
        if nothing := unmeasured(rows):
            raise SystemExit(f"Nothing was measured: {nothing}.")
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
    """An undated statement of about ``chars`` characters, which no other forest or number has."""
    words = f"Bob said in note {number} of book {str(forest)[:8]} that parcel {number * 7919} is on shelf {number % 97}"
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
        with AcceptRows.opened(engine, TENANT) as rows:
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
        with ReduceRows.opened(self.engine, TENANT) as rows:
            assert rows.lock_forest(self.forest)
            rows.canon.add_facts(self.forest, facts, keys, dict.fromkeys(keys, "bob"))
            drafts = [ScopeDraft(self.tree, TreeKind.ENTITY, "bob", "Bob", ENTITY_K)]
            head = rows.scopes.open_scopes(self.forest, drafts)[self.tree].head
            rows.scopes.add_members([Member(self.tree, leaf.payload_id, session) for leaf in leaves], {self.tree})
            started = time.perf_counter()
            if head is None:
                diff = build(tree_id=self.tree, k=ENTITY_K, root_id=self.new_id(), leaves=leaves, new_id=self.new_id)
            else:
                loaded = rows.load_paths([(self.tree, leaf.key) for leaf in leaves])
                diff = insert(head, loaded[self.tree], leaves, self.new_id)
            rows.write_trees([TreeChange(self.tree, diff.head, diff, noted=True)], lambda _leaves: quiet_s, stale_s)
            return time.perf_counter() - started


class MemoryTree:
    """The tree of ``OneTree`` in this process: RefreshRows for one thread, as plain objects.

    It keeps what decides about model calls (structure, versions, texts, paid summaries) and nothing else.
    """

    def __init__(self, tree: TreeId, new_id: Callable[[], NodeId]) -> None:
        self._tree = tree
        self._new_id = new_id
        self._head: TreeHead | None = None
        self._nodes: dict[NodeId, Node] = {}
        self._under: dict[NodeId, set[NodeId]] = defaultdict(set)
        self._dirty: set[NodeId] = set()
        self._facts: dict[PayloadId, str] = {}
        self._summaries: dict[NodeId, NodeArtifact] = {}
        self._paid: dict[bytes, str] = {}

    def insert(self, facts: Sequence[Fact]) -> None:
        """As the reducer does."""
        leaves = [made_leaf(self._tree, fact) for fact in facts]
        self._facts.update((PayloadId(fact.id), fact.statement.text) for fact in facts)
        if self._head is None:
            self._keep(
                build(tree_id=self._tree, k=ENTITY_K, root_id=self._new_id(), leaves=leaves, new_id=self._new_id)
            )
        else:
            loaded = [node for leaf in leaves for node in self._path(self._head, leaf.key)]
            self._keep(insert(self._head, loaded, leaves, self._new_id))

    def _keep(self, diff: Diff) -> None:
        self._head = diff.head
        for node in (*diff.inserted, *diff.updated):
            before = self._nodes.get(node.id)
            if before is not None and before.parent_id is not None:
                self._under[before.parent_id].discard(node.id)
            if node.parent_id is not None:
                self._under[node.parent_id].add(node.id)
            self._put(node)

    def _put(self, node: Node) -> None:
        self._nodes[node.id] = node
        (self._dirty.add if node.dirty else self._dirty.discard)(node.id)

    def _children(self, node: NodeId) -> list[Node]:
        return sorted((self._nodes[child] for child in self._under[node]), key=order)

    def _path(self, head: TreeHead, key: Key) -> Iterator[Node]:
        """The nodes that ``key`` descends through, with all their children."""
        node = self._nodes[head.root_id]
        yield node
        while node.level > 0:
            children = self._children(node.id)
            yield from children
            below = [child for child in children if child.key is None or child.key <= key]
            node = below[-1] if below else children[0]

    @contextmanager
    def refreshing(self, tenant: TenantId) -> Iterator[MemoryTree]:
        yield self

    def claim_ready(
        self, worker: WorkerId, limit: int, lease_s: float, stale_s: float
    ) -> tuple[LeaseToken, list[ReadyNode]]:
        dirty = [self._nodes[id_] for id_ in self._dirty]
        waiting = {node.parent_id for node in dirty if node.dirty}
        free = [node for node in dirty if node.dirty and node.id not in waiting]
        nodes = sorted(free, key=lambda node: (node.level, order(node)))[:limit]
        return LeaseToken(UUID(int=0)), [self._read(node) for node in nodes]

    def with_inputs(self, nodes: Sequence[ReadyNode], model: str) -> list[ReadyNode]:
        return list(nodes)

    def _read(self, node: Node) -> ReadyNode:
        stored = self._summaries.get(node.id)
        return ReadyNode(
            id=node.id,
            tree_id=self._tree,
            forest_id=ForestId(self._tree),
            kind=TreeKind.ENTITY,
            label="Bob",
            level=node.level,
            version=node.version,
            attempts=1,
            stale=False,
            children=tuple(
                ChildText(self._text(child), None, TermCounts(()), child.leaf_count)
                for child in self._children(node.id)
            ),
            stored_hash=stored.input_hash if stored else None,
            stored_text=stored.text if stored else None,
            stored_source=stored.source if stored else None,
        )

    def _text(self, node: Node) -> str:
        return self._summaries[node.id].text if node.payload_id is None else self._facts[node.payload_id]

    def terms_of_scenes(self, forests: Collection[ForestId], limit: int) -> dict[ForestId, list[TermCounts]]:
        """None: the tree is no scene's, so it gets no title."""
        return {}

    def paid_summaries(self, hashes: Sequence[bytes]) -> dict[bytes, str]:
        return {key: self._paid[key] for key in hashes if key in self._paid}

    def save(
        self,
        token: LeaseToken,
        artifacts: Sequence[NodeArtifact],
        vector_model: str,
        redo_after_s: float,
        lease: PointLease | None = None,
    ) -> Sequence[NodeArtifact]:
        for artifact in artifacts:
            self._summaries[artifact.node.id] = artifact
            self._put(replace(self._nodes[artifact.node.id], clean_version=artifact.node.version))
            if artifact.paid:
                self._paid[artifact.input_hash] = artifact.text
        return ()

    def release(self, token: LeaseToken, delay_s: float, only: NodeId | None = None) -> Sequence[NodeId]:
        """Nothing is leased: there is one thread."""
        return ()

    def fail(
        self, token: LeaseToken, max_attempts: int, delay_s: float, code: str, text: str, only: NodeId | None = None
    ) -> Sequence[NodeId]:
        """Nothing is leased: there is one thread."""
        return ()

    def settle(self, trees: Sequence[TreeId]) -> list[float]:
        """The tree is always due."""
        return []

    def settle_idle(self, limit: int) -> list[float]:
        return []

    def redo(self, limit: int) -> int:
        return 0

    def record_calls(self, calls: Sequence[CallRecord], forest: ForestId | None, session: SessionId | None) -> None:
        """The summarizer counts."""
