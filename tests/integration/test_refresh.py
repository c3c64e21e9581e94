"""Refresh as a dataflow: who is ready, what a save may overwrite, and what happens when the model is away."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from memforest_core.adapters.postgres.refresh import PostgresRefreshStore
from memforest_core.contexts.refresh.service import RefreshService
from memforest_core.errors import MemForestError, ModelUnavailable
from memforest_core.ports.models import CallRecord
from memforest_core.ports.refresh import ReadyNode
from tests.integration.test_pipeline import said
from tests.support.stack import Stack


@dataclass
class CountingSummarizer:
    """Writes a text that names its inputs; fails while ``fault`` is set."""

    fault: MemForestError | None = None
    asked: list[ReadyNode] = field(default_factory=list)
    model: str = "counting"
    paid: bool = True

    def summarize(self, node: ReadyNode, budget: int, calls: list[CallRecord]) -> str:
        self.asked.append(node)
        if self.fault is not None:
            raise self.fault
        return f"level {node.level} of {len(node.children)}: " + " / ".join(c.text[:20] for c in node.children)


def service(pipeline: Stack, summarizer: CountingSummarizer, **settings: object) -> RefreshService:
    return RefreshService(
        PostgresRefreshStore(pipeline.services.engine),
        summarizer,
        pipeline.services.embedder,
        pipeline.settings.refresh.model_copy(update={"budget_chars": 120, **settings}),
        4,
        random.Random(1),
    )


@pytest.fixture
def grown(pipeline: Stack) -> Stack:
    """A forest whose facts are placed and whose trees are all dirty."""
    pipeline.memory.ingest(
        "bob", "s1", said(*[f"I paid {n} dollars for a brass lamp numbered {n}." for n in range(24)])
    )
    while pipeline.runtime.extract() + pipeline.runtime.reduce():
        pass
    make_due(pipeline)
    return pipeline


def make_due(pipeline: Stack) -> None:
    pipeline.execute("UPDATE memforest.tree SET due_at = now() WHERE due_at IS NOT NULL")


def dirty(pipeline: Stack) -> int:
    return int(pipeline.rows("SELECT count(*) FROM memforest.node WHERE version > clean_version")[0][0])


def refresh_all(pipeline: Stack, refresher: RefreshService) -> int:
    total = 0
    while done := refresher.run_one(pipeline.tenant, pipeline.runtime.worker):
        total += done
    return total


def test_children_come_before_their_parents(grown: Stack) -> None:
    summarizer = CountingSummarizer()
    refresh_all(grown, service(grown, summarizer))
    assert dirty(grown) == 0
    assert grown.rows("SELECT count(*) FROM memforest.tree WHERE due_at IS NOT NULL")[0][0] == 0
    seen: dict[object, int] = {}
    for node in summarizer.asked:
        assert node.level >= seen.get(node.tree_id, 0)
        seen[node.tree_id] = node.level
        assert all(child.text for child in node.children)


def test_a_tree_that_is_not_due_is_left_alone(grown: Stack) -> None:
    grown.execute("UPDATE memforest.tree SET due_at = now() + interval '1 hour'")
    before = dirty(grown)
    assert refresh_all(grown, service(grown, CountingSummarizer())) == 0
    assert dirty(grown) == before


def test_a_mark_during_the_summary_keeps_the_node_dirty_and_the_text(grown: Stack) -> None:
    """Given a node that changes while it is summarized, when it is saved, then the text is kept and the node is dirty."""

    class Marking(CountingSummarizer):
        def summarize(self, node: ReadyNode, budget: int, calls: list[CallRecord]) -> str:
            grown.execute("UPDATE memforest.node SET version = version + 1 WHERE node_id = :n", n=node.id)
            return super().summarize(node, budget, calls)

    refresher = service(grown, Marking())
    refresher.run_one(grown.tenant, grown.runtime.worker)
    kept = grown.rows(
        """SELECT n.version - n.clean_version FROM memforest.node n JOIN memforest.node_summary s USING (tenant_id, node_id)
            WHERE s.source = 'model'"""
    )
    assert kept
    assert {row[0] for row in kept} == {1}


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
    asked = [node.id for node in summarizer.asked]
    saved = grown.rows("SELECT count(*) FROM memforest.node_summary WHERE node_id = ANY(:n)", n=asked)[0][0]
    assert asked
    assert saved == 0


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
    grown.execute(
        """UPDATE memforest.node SET version = version + 1 WHERE level > 0;
           UPDATE memforest.tree SET first_mark_at = now(), due_at = now(), marks = marks + 1 WHERE state = 'active'"""
    )
    again = CountingSummarizer()
    refresh_all(grown, service(grown, again))
    assert dirty(grown) == 0
    assert again.asked == []


def test_while_the_model_is_away_nodes_take_a_marked_extract_and_are_made_again(grown: Stack) -> None:
    away = CountingSummarizer(fault=ModelUnavailable("away"))
    refresh_all(grown, service(grown, away))
    assert dirty(grown) == 0
    degraded = "SELECT count(*) FROM memforest.node_summary WHERE source = 'degraded'"
    assert grown.rows(degraded)[0][0] > 0
    grown.execute("UPDATE memforest.node_summary SET redo_at = now() WHERE redo_at IS NOT NULL")
    assert grown.services.reconciler.run().redone > 0
    make_due(grown)
    refresh_all(grown, service(grown, CountingSummarizer()))
    assert grown.rows(degraded)[0][0] == 0
    assert dirty(grown) == 0


def test_a_tree_is_due_after_quiet_but_no_later_than_its_staleness(pipeline: Stack) -> None:
    """Given marks that keep coming, then a tree is due at the earlier of last mark + quiet and first mark + staleness."""
    settings = pipeline.settings.refresh
    pipeline.memory.ingest("bob", "s1", said("I live in Davis.", "I work at the lab."))
    while pipeline.runtime.extract() + pipeline.runtime.reduce():
        pass
    row = pipeline.rows(
        """SELECT extract(epoch FROM due_at - last_mark_at), first_mark_at = last_mark_at FROM memforest.tree
            WHERE kind = 'session'"""
    )[0]
    assert float(row[0]) == pytest.approx(settings.quiet_s)
    assert row[1]
    pipeline.execute(
        "UPDATE memforest.tree SET first_mark_at = now() - make_interval(secs => :s)", s=settings.max_staleness_s - 0.5
    )
    pipeline.memory.ingest(
        "bob", "s1", said("I live in Davis.", "I work at the lab.") + said("I bought a kite.", start=1_700_900_000)
    )
    while pipeline.runtime.extract() + pipeline.runtime.reduce():
        pass
    left = pipeline.rows("SELECT extract(epoch FROM due_at - last_mark_at) FROM memforest.tree WHERE kind = 'session'")
    assert float(left[0][0]) < 0.6
