"""Refresh as a dataflow: which nodes are ready, what a save may overwrite, and what an unavailable model changes."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest
import sqlalchemy as sa

from memforest_core.domain.ids import TreeKind
from memforest_core.errors import MemForestError, ModelUnavailable
from memforest_core.ingest.accept.progress_rows import ProgressRows
from memforest_core.ingest.refresh.records import ReadyNode
from memforest_core.ingest.refresh.rows import RefreshRows
from memforest_core.ingest.refresh.service import RefreshService
from memforest_core.models.calls import CallRecord, Embedder
from memforest_core.settings import QUIET_LEAVES, AcceptSettings, RefreshSettings
from memforest_core.store.engine import tenant_transaction
from tests.harness.model_server import ModelServer
from tests.harness.servers import SessionServers
from tests.harness.stack import Stack, stack
from tests.harness.timing import until
from tests.integration.test_erasure import assert_nowhere, erase, texts_with
from tests.integration.test_pipeline import said


@dataclass
class CountingSummarizer:
    """Writes a text that names its inputs; fails while ``fault`` is set."""

    fault: MemForestError | None = None
    requested: list[ReadyNode] = field(default_factory=list)
    model: str = "counting"
    paid: bool = True

    def summarize(self, node: ReadyNode, budget: int, calls: list[CallRecord]) -> str:
        self.requested.append(node)
        if self.fault is not None:
            raise self.fault
        return f"level {node.level} of {len(node.children)}: " + " / ".join(c.text[:20] for c in node.children)


def service(pipeline: Stack, summarizer: CountingSummarizer, **settings: object) -> RefreshService:
    return RefreshService(
        partial(RefreshRows.opened, pipeline.services.engine),
        summarizer,
        pipeline.services.embedder,
        pipeline.settings.refresh.model_copy(update={"budget_chars": 120, **settings}),
        4,
        random.Random(1),
    )


@pytest.fixture
def grown(pipeline: Stack) -> Stack:
    """A forest whose facts are placed and whose trees are all dirty."""
    grow(pipeline, 24)
    return pipeline


def make_due(pipeline: Stack) -> None:
    pipeline.execute("UPDATE memforest.tree SET due_at = now() WHERE due_at IS NOT NULL")


def mark_all(pipeline: Stack) -> None:
    """Make every node of every tree dirty, and the trees due."""
    pipeline.execute(
        """UPDATE memforest.node SET version = version + 1 WHERE level > 0;
           UPDATE memforest.tree SET first_mark_at = now(), due_at = now(), marks = marks + 1 WHERE state = 'active'"""
    )


def dirty(pipeline: Stack) -> int:
    return int(pipeline.rows("SELECT count(*) FROM memforest.node WHERE version > clean_version")[0][0])


LAMP = "I paid {n} dollars for a brass lamp numbered {n}."

SUMMARIES = """
    SELECT r.kind, n.level, n.leaf_count AS leaves, n.parent_id IS NULL AS root, s.source, s.text
      FROM memforest.node n JOIN memforest.tree r USING (tenant_id, tree_id)
      JOIN memforest.node_summary s USING (tenant_id, node_id) ORDER BY n.node_id"""


def grow(pipeline: Stack, turns: int) -> None:
    """Say more of what ``grown`` began with, until there are so many turns."""
    pipeline.memory.ingest("bob", "s1", said(*[LAMP.format(n=n) for n in range(turns)]))
    while pipeline.runtime.extract() + pipeline.runtime.reduce():
        pass
    make_due(pipeline)


def entity_root(pipeline: Stack) -> list[str]:
    """The lines of the summary of all that is known of Bob."""
    [row] = [row for row in pipeline.rows(SUMMARIES) if row.kind == "entity" and row.root]
    return str(row.text).splitlines()


def refresh_all(pipeline: Stack, refresher: RefreshService) -> int:
    total = 0
    while done := refresher.run_one(pipeline.tenant, pipeline.runtime.worker):
        total += done
    return total


def test_due_trees_are_refreshed_children_before_their_parents(grown: Stack) -> None:
    summarizer = CountingSummarizer()
    grown.execute("UPDATE memforest.tree SET due_at = now() + interval '1 hour'")
    assert refresh_all(grown, service(grown, summarizer)) == 0
    make_due(grown)
    refresh_all(grown, service(grown, summarizer))
    assert dirty(grown) == 0
    assert grown.rows("SELECT count(*) FROM memforest.tree WHERE due_at IS NOT NULL")[0][0] == 0
    seen: dict[object, int] = {}
    for node in summarizer.requested:
        assert node.level >= seen.get(node.tree_id, 0)
        seen[node.tree_id] = node.level
        assert all(child.text for child in node.children)


def test_a_node_marked_during_its_summary_stays_dirty_and_the_text_is_saved(grown: Stack) -> None:
    """Given a node that changes during its summary, when it is saved, then the text is stored and the node is dirty."""

    class Marking(CountingSummarizer):
        def summarize(self, node: ReadyNode, budget: int, calls: list[CallRecord]) -> str:
            grown.execute("UPDATE memforest.node SET version = version + 1 WHERE node_id = :n", n=node.id)
            return super().summarize(node, budget, calls)

    refresher = service(grown, Marking())
    refresher.run_one(grown.tenant, grown.runtime.worker)
    stored = grown.rows(
        """SELECT n.version - n.clean_version FROM memforest.node n JOIN memforest.node_summary s USING (tenant_id, node_id)
            WHERE s.source = 'model'"""
    )
    assert stored
    assert {row[0] for row in stored} == {1}


def test_a_summary_read_before_an_erasure_is_never_saved(grown: Stack) -> None:
    """Given a node erased while it is summarized, when the save comes, then it is dropped."""

    class Erasing(CountingSummarizer):
        def summarize(self, node: ReadyNode, budget: int, calls: list[CallRecord]) -> str:
            grown.execute(
                """UPDATE memforest.node SET version = version + 1, erased_version = version + 1
                    WHERE node_id = :n""",
                n=node.id,
            )
            return super().summarize(node, budget, calls)

    summarizer = Erasing()
    service(grown, summarizer).run_one(grown.tenant, grown.runtime.worker)
    requested = [node.id for node in summarizer.requested]
    saved = grown.rows("SELECT count(*) FROM memforest.node_summary WHERE node_id = ANY(:n)", n=requested)[0][0]
    assert requested
    assert saved == 0
    assert grown.rows("SELECT count(*) FROM memforest.summary_cache") == [(0,)]


def test_past_the_maximum_staleness_parents_do_not_wait(grown: Stack) -> None:
    """Given leaves' parents that can't be refreshed, when the tree is far too stale, then the root is summarized all
    the same and stays dirty."""
    grown.execute(
        """UPDATE memforest.node SET available_at = now() + interval '1 hour' WHERE level = 1;
           UPDATE memforest.tree SET first_mark_at = now() - interval '1 hour'"""
    )
    refresh_all_limited = service(grown, CountingSummarizer())
    refresh_all_limited.run_one(grown.tenant, grown.runtime.worker)
    rows = grown.rows(
        """SELECT n.version, n.clean_version FROM memforest.node n JOIN memforest.node_summary s USING (tenant_id, node_id)
            WHERE n.level > 1"""
    )
    assert rows
    assert all(row.version > row.clean_version for row in rows)


def test_equal_inputs_are_summarized_once(grown: Stack) -> None:
    refresh_all(grown, service(grown, CountingSummarizer()))
    mark_all(grown)
    repeated = CountingSummarizer()
    refresh_all(grown, service(grown, repeated))
    assert dirty(grown) == 0
    assert repeated.requested == []


def test_from_so_many_leaves_on_the_model_is_called(grown: Stack) -> None:
    """Given the same trees, when 24 leaves are enough, then it is called for roots that have so many, and no others."""
    summarizer = CountingSummarizer()
    refresh_all(grown, service(grown, summarizer, model_from_leaves=24))
    assert sorted(node.kind for node in summarizer.requested) == ["entity", "scene"]
    written = [(row.kind, row.root, row.leaves) for row in grown.rows(SUMMARIES) if row.source == "model"]
    assert sorted(written) == [("entity", True, 24), ("scene", True, 24)]


def test_another_number_of_leaves_applies_to_what_is_summarized_from_then_on(grown: Stack) -> None:
    """Given texts of rules, when the number is lowered, then a node is the model's once its children are others."""
    refresh_all(grown, service(grown, CountingSummarizer(), model_from_leaves=1_000))
    mark_all(grown)
    summarizer = CountingSummarizer()
    refresher = service(grown, summarizer, model_from_leaves=1)
    refresh_all(grown, refresher)
    assert dirty(grown) == 0
    assert summarizer.requested == []
    grow(grown, 26)
    refresh_all(grown, refresher)
    assert any(node.kind is TreeKind.ENTITY for node in summarizer.requested)


def test_the_model_is_called_again_when_an_earlier_child_changes_and_not_for_growth_at_the_end(grown: Stack) -> None:
    """Given summaries of all children but the last, when facts join the last one, then the model's words stay, and
    lines of the last child bring the new facts; when an earlier child changes, the model is called again."""
    summarizer = CountingSummarizer()
    refresher = service(grown, summarizer, model_from_leaves=20, model_reads_last=False, budget_chars=630)
    grow(grown, 26)
    refresh_all(grown, refresher)
    assert {(node.kind, node.level) for node in summarizer.requested} == {(TreeKind.ENTITY, 2), (TreeKind.SCENE, 2)}
    written, *last = entity_root(grown)
    assert written.startswith("level 2 of 3: Bob paid 0 ")
    assert last == [f"Bob paid {n} dollars for a brass lamp numbered {n}." for n in (24, 25)]

    summarizer.requested.clear()
    grow(grown, 28)
    refresh_all(grown, refresher)
    assert dirty(grown) == 0
    assert summarizer.requested == []
    assert entity_root(grown) == [
        written,
        *(f"Bob paid {n} dollars for a brass lamp numbered {n}." for n in (24, 25, 26, 27)),
    ]

    erase(grown, session="s1", turns=["turn@0"])
    make_due(grown)
    refresh_all(grown, refresher)
    assert {(node.kind, node.level) for node in summarizer.requested} == {(TreeKind.ENTITY, 2), (TreeKind.SCENE, 2)}
    assert not any("numbered 27." in child.text for node in summarizer.requested for child in node.children)
    rewritten, *same = entity_root(grown)
    assert rewritten.startswith("level 2 of 3: Bob paid 1 ")
    assert same == [f"Bob paid {n} dollars for a brass lamp numbered {n}." for n in (24, 25, 26, 27)]


@pytest.mark.parametrize("turns", [31, 47])
def test_a_text_that_a_model_wrote_ends_with_the_newest_fact_however_long_the_last_child_is(
    pipeline: Stack, turns: int
) -> None:
    """Given facts of one kind, and a last child that is longer than its part of the text, when the tree is refreshed with
    a model for large nodes, then its text ends with the newest fact."""
    grow(pipeline, turns)
    summarizer = CountingSummarizer()
    refresh_all(pipeline, service(pipeline, summarizer, model_from_leaves=20, model_reads_last=False, budget_chars=300))
    assert TreeKind.ENTITY in {node.kind for node in summarizer.requested}
    assert entity_root(pipeline)[-1] == f"Bob paid {turns - 1} dollars for a brass lamp numbered {turns - 1}."


def test_with_the_settings_as_they_come_what_is_forgotten_is_in_no_summary(
    servers: SessionServers, tmp_path: Path, embedder: Embedder
) -> None:
    """Given trees with more leaves than a model needs, and nodes with less, when words of theirs are forgotten, then no
    text has them, neither before nor after it is rewritten, and the model never reads them again."""
    own = {"accept": AcceptSettings().model_dump(), "refresh": RefreshSettings().model_dump()}
    enough = RefreshSettings().model_from_leaves
    secret = range(0, enough + 12, 13)
    words = ["marzipan" if n in secret else "brass" for n in range(enough + 12)]
    turns = said(*[f"I paid {n} dollars for a {word} lamp numbered {n}." for n, word in enumerate(words)])
    with (
        ModelServer() as model,
        stack(
            servers,
            tmp_path,
            embedder=embedder,
            llm={"model": "openai/test-model", "api_base": model.url, "api_key": "test-key"},
            **own,
        ) as pipeline,
    ):
        pipeline.memory.client.enqueue("bob", "s1", turns)
        pipeline.drive()
        telling = [row for row in pipeline.rows(SUMMARIES) if "marzipan" in row.text]
        assert {row.source for row in telling} == {"model", "extractive", "joined"}
        assert {row.source for row in telling if row.leaves < enough} == {"extractive", "joined"}
        [root] = [row for row in telling if row.source == "model"]
        assert (root.kind, root.root, root.leaves) == ("entity", True, len(turns))
        written, *last = root.text.splitlines()
        assert "marzipan" in written
        assert f"Bob paid {secret[-1]} dollars for a marzipan lamp numbered {secret[-1]}." in last
        assert "summary_cache" in texts_with(pipeline, "marzipan")

        erase(pipeline, session="s1", turns=[f"turn@{n}" for n in secret])
        assert_nowhere(pipeline, "marzipan")
        before = len(model.requests)
        pipeline.drive()
        assert_nowhere(pipeline, "marzipan")
        [root] = [row for row in pipeline.rows(SUMMARIES) if row.source == "model"]
        assert (root.kind, root.root, root.leaves) == ("entity", True, len(turns) - len(secret))
        assert len(model.requests) > before
        assert not any("marzipan" in json.dumps(call.body) for call in model.requests[before:])


def test_while_the_model_is_unavailable_nodes_take_a_marked_extract_and_are_made_again(grown: Stack) -> None:
    unavailable = CountingSummarizer(fault=ModelUnavailable("away"))
    refresh_all(grown, service(grown, unavailable))
    assert dirty(grown) == 0
    degraded = "SELECT count(*) FROM memforest.node_summary WHERE source = 'degraded'"
    assert grown.rows(degraded)[0][0] > 0
    grown.execute("UPDATE memforest.node_summary SET redo_at = now() WHERE redo_at IS NOT NULL")
    assert grown.services.reconciler.run().redone > 0
    make_due(grown)
    refresh_all(grown, service(grown, CountingSummarizer()))
    assert grown.rows(degraded)[0][0] == 0
    assert dirty(grown) == 0


def test_a_large_tree_is_due_later_than_a_small_one_but_no_later_than_its_staleness(pipeline: Stack) -> None:
    """Given trees of which one has more than the leaves from which the quiet period grows, when a turn comes to both,
    then the large one waits longer, but never beyond its staleness, and not at all when a flush requests it."""
    settings = pipeline.settings.refresh
    many = QUIET_LEAVES * 2
    pipeline.memory.ingest("bob", "s1", said(*[LAMP.format(n=n) for n in range(many - 1)]))
    pipeline.drive()
    pipeline.memory.client.enqueue("bob", "s2", said(LAMP.format(n=many), start=1_700_900_000))
    while pipeline.runtime.extract() + pipeline.runtime.reduce():
        pass
    found = "SELECT kind, leaf_count, extract(epoch FROM due_at - last_mark_at)::float8 AS quiet FROM memforest.tree"
    trees = {(row.kind, row.leaf_count): row.quiet for row in pipeline.rows(f"{found} WHERE due_at IS NOT NULL")}
    assert trees["session", 1] == pytest.approx(settings.quiet_s)
    assert trees["entity", many] == pytest.approx(2 * settings.quiet_s)

    pipeline.execute(
        "UPDATE memforest.tree SET first_mark_at = now() - make_interval(secs => :s)", s=settings.max_staleness_s - 0.5
    )
    pipeline.memory.client.enqueue("bob", "s3", said(LAMP.format(n=many + 1), start=1_701_900_000))
    while pipeline.runtime.extract() + pipeline.runtime.reduce():
        pass
    (entity,) = pipeline.rows(f"{found} WHERE kind = 'entity'")
    assert entity.quiet < 0.6

    pipeline.execute("UPDATE memforest.tree SET due_at = now() + interval '1 hour' WHERE due_at IS NOT NULL")
    with ProgressRows.opened(pipeline.services.engine, pipeline.tenant) as rows:
        forest = rows.find_forest("bob")
        assert forest is not None
        rows.make_due(forest, None)
    pipeline.drive(due=False)
    assert dirty(pipeline) == 0


PAUSE = 4711
"""The advisory lock that holds a claim up in the middle of its first statement."""


@contextmanager
def held_up(pipeline: Stack) -> Iterator[Callable[[], bool]]:
    """While this lasts, a transaction that searches the schema ``hook`` for functions first stops when it reads the
    clock: after its statement's snapshot was taken, and before its rows are locked. Yields whether one has stopped."""
    pipeline.execute("CREATE SCHEMA hook")
    pipeline.execute("GRANT USAGE ON SCHEMA hook TO PUBLIC")
    pipeline.execute(
        f"""CREATE FUNCTION hook.clock_timestamp() RETURNS timestamptz LANGUAGE plpgsql VOLATILE AS $$
            BEGIN
                PERFORM pg_catalog.pg_advisory_xact_lock_shared({PAUSE});
                RETURN pg_catalog.clock_timestamp();
            END $$"""
    )
    engine = pipeline.owner_engine()
    with engine.connect() as holder, holder.begin():
        holder.execute(sa.text(f"SELECT pg_advisory_xact_lock({PAUSE})"))
        stopped = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        yield lambda: bool(pipeline.rows(stopped)[0][0])
    engine.dispose()


def claimed_slowly(pipeline: Stack) -> list[ReadyNode]:
    """Claim all that is ready, on the clock of ``held_up``."""
    with tenant_transaction(pipeline.services.engine, pipeline.tenant) as connection:
        connection.execute(sa.text("SET LOCAL search_path = hook, pg_catalog"))
        rows = RefreshRows(connection, pipeline.tenant)
        return rows.claim_ready(pipeline.runtime.worker, 100, 60.0, 3_600.0)[1]


BEHIND = """
    SELECT p.node_id FROM memforest.node p JOIN memforest.node c ON c.tenant_id = p.tenant_id AND c.parent_id = p.node_id
      JOIN memforest.node_summary ps ON ps.tenant_id = p.tenant_id AND ps.node_id = p.node_id
      JOIN memforest.node_summary cs ON cs.tenant_id = c.tenant_id AND cs.node_id = c.node_id
     WHERE p.version = p.clean_version AND ps.created_at < cs.created_at"""
"""Clean nodes with a summary that is older than a child's."""


def test_a_node_whose_child_is_marked_while_it_is_claimed_is_left_to_its_child(grown: Stack) -> None:
    """Given roots that are ready, and a claim that has seen them so, when facts are placed below them before the claim
    locks them, then it takes none of them: their children's new summaries come first."""
    refresher = service(grown, CountingSummarizer(), batch_nodes=1)
    below = "SELECT count(*) FROM memforest.node WHERE version > clean_version AND level > 0 AND parent_id IS NOT NULL"
    while grown.rows(below)[0][0]:
        assert refresher.run_one(grown.tenant, grown.runtime.worker) == 1
    assert dirty(grown) > 0
    grown.memory.client.enqueue("bob", "s1", said(*[LAMP.format(n=n) for n in range(28)]))
    while grown.runtime.extract():
        pass
    with ThreadPoolExecutor(1) as pool:
        with held_up(grown) as stopped:
            claim = pool.submit(claimed_slowly, grown)
            until(stopped)
            assert grown.services.reduction.run_one(grown.tenant).cells == 2
        claimed = claim.result()
    ids = [node.id for node in claimed if not node.stale]
    assert not grown.rows(
        """SELECT c.node_id FROM memforest.node c
            WHERE c.parent_id = ANY(CAST(:ids AS uuid[])) AND c.version > c.clean_version""",
        ids=ids,
    )
    grown.execute("UPDATE memforest.node SET lease_token = NULL, lease_until = NULL, worker_id = NULL")
    make_due(grown)
    refresh_all(grown, refresher)
    assert dirty(grown) == 0
    assert not grown.rows(BEHIND)


def test_however_placing_and_refreshing_interleave_no_clean_summary_is_older_than_a_child(pipeline: Stack) -> None:
    sentences = [f"I moved to city {n % 7} and bought pen {n}." for n in range(60)]
    placed = threading.Event()

    def place() -> None:
        try:
            for end in range(4, len(sentences) + 1, 4):
                pipeline.memory.client.enqueue("bob", "s1", said(*sentences[:end]))
                while pipeline.runtime.extract() + pipeline.runtime.reduce():
                    pass
                make_due(pipeline)
        finally:
            placed.set()

    def refresh(batch: int) -> int:
        refresher, done = service(pipeline, CountingSummarizer(), batch_nodes=batch), 0
        while not placed.is_set():
            done += refresher.run_one(pipeline.tenant, pipeline.runtime.worker)
        return done

    with ThreadPoolExecutor(4) as pool:
        placing = pool.submit(place)
        refreshed = [pool.submit(refresh, batch) for batch in (1, 3, 8)]
        placing.result()
        assert sum(each.result() for each in refreshed) > 0
    make_due(pipeline)
    refresh_all(pipeline, service(pipeline, CountingSummarizer()))
    assert dirty(pipeline) == 0
    assert not pipeline.rows(BEHIND)
