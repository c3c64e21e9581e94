"""Candidates that a better extraction superseded leave no trace: not in rows, not in trees, not in the index."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from uuid import UUID

import numpy as np
import pytest

from memforest_core.domain.ids import CellId, ForestId, NodeId, TreeId
from memforest_core.ingest.reduce.placing import retire
from memforest_core.ingest.reduce.rows import ReduceRows
from memforest_core.memtree import Node, TreeHead, delete
from memforest_core.models.calls import Vectors
from memforest_core.store.removal import Retired
from memforest_core.store.trees import node_of
from memforest_core.store.vectors import from_bytes
from tests.harness.sayings import said
from tests.harness.stack import MEMBERS, Stack
from tests.integration.test_pipeline import assert_trees_hold

LAMPS = said(*[f"I paid {n} dollars for a brass lamp numbered {n}." for n in range(24)])
HIKING = "I love hiking."


def ids(pipeline: Stack, statement: str, **values: object) -> list[UUID]:
    return [row[0] for row in pipeline.rows(statement, **values)]


def cells(pipeline: Stack, session: str) -> list[CellId]:
    found = ids(
        pipeline,
        """SELECT c.cell_id FROM memforest.cell c JOIN memforest.session s USING (tenant_id, session_id)
            WHERE s.external_id = :s ORDER BY c.ordinal""",
        s=session,
    )
    return [CellId(id_) for id_ in found]


def facts_of(pipeline: Stack, of: Sequence[CellId]) -> list[UUID]:
    return ids(pipeline, "SELECT DISTINCT fact_id FROM memforest.occurrence WHERE cell_id = ANY(:c)", c=list(of))


def supersede(pipeline: Stack, of: Sequence[CellId]) -> None:
    """What storing a new extraction does to the candidates of the one before; this one found nothing."""
    pipeline.execute(
        "UPDATE memforest.candidate SET item = -1 - item WHERE cell_id = ANY(:c) AND item >= 0", c=list(of)
    )
    pipeline.execute("UPDATE memforest.cell SET outcome = 'empty' WHERE cell_id = ANY(:c)", c=list(of))


@contextmanager
def reducing(pipeline: Stack) -> Iterator[tuple[ReduceRows, ForestId]]:
    """Rows under the lock of the only forest."""
    forest = ForestId(ids(pipeline, "SELECT forest_id FROM memforest.forest")[0])
    with ReduceRows.opened(pipeline.services.engine, pipeline.tenant) as rows:
        assert isinstance(rows, ReduceRows)
        assert rows.lock_forest(forest)
        yield rows, forest


def retire_cells(pipeline: Stack, of: Sequence[CellId]) -> Retired:
    with reducing(pipeline) as (rows, forest):
        return retire(rows, forest, of, pipeline.services.embedder.model, pipeline.settings)


def assert_verified(pipeline: Stack) -> None:
    """Trees, placements, provenance, summaries and both stores agree."""
    pipeline.assert_verified()
    assert_trees_hold(pipeline)


def assert_gone(pipeline: Stack, facts: Sequence[UUID]) -> None:
    for statement in (
        "SELECT fact_id FROM memforest.fact WHERE fact_id = ANY(:f)",
        "SELECT payload_id FROM memforest.placement WHERE payload_id = ANY(:f)",
        "SELECT payload_id FROM memforest.node WHERE payload_id = ANY(:f)",
        "SELECT point_id FROM memforest.index_row WHERE point_id = ANY(:f)",
    ):
        assert ids(pipeline, statement, f=list(facts)) == []
    assert pipeline.versions(facts) == {}


def head_of(pipeline: Stack, tree: UUID) -> tuple[TreeHead, list[Node]]:
    row = pipeline.rows("SELECT root_id, k, height, leaf_count FROM memforest.tree WHERE tree_id = :t", t=tree)[0]
    nodes = [node_of(row) for row in pipeline.rows("SELECT * FROM memforest.node WHERE tree_id = :t", t=tree)]
    return TreeHead(TreeId(tree), NodeId(row.root_id), row.k, row.height, row.leaf_count), nodes


def tell(running: Stack) -> None:
    running.memory.ingest("bob", "lamps", LAMPS)
    running.memory.ingest("bob", "other", said("I adopted a dog named Rex.", HIKING, start=1_700_900_000))


@pytest.fixture
def lamps(rested: Stack) -> Stack:
    """Bob's session of 24 facts and a few others, all at rest."""
    return rested


def test_facts_that_lose_their_last_occurrence_leave_no_trace(lamps: Stack) -> None:
    """Given a cell whose extraction was superseded, when its candidates are retired, then nothing of them is left, the
    other facts stay, and recall answers without them."""
    chosen = cells(lamps, "lamps")[3:6]
    facts = facts_of(lamps, chosen)
    others = set(ids(lamps, "SELECT fact_id FROM memforest.fact")) - set(facts)
    requested = "How much was the brass lamp numbered 7?"
    assert set(facts) & {id_ for piece in lamps.memory.recall("bob", requested).evidence for id_ in piece.fact_ids}

    supersede(lamps, chosen)
    retired = retire_cells(lamps, chosen)
    lamps.drive()

    assert (retired.occurrences, retired.facts) == (6, 6)
    assert_gone(lamps, facts)
    assert ids(lamps, "SELECT cell_id FROM memforest.candidate WHERE cell_id = ANY(:c)", c=chosen) == []
    assert set(ids(lamps, "SELECT fact_id FROM memforest.fact")) == others
    assert ids(lamps, "SELECT point_id FROM memforest.index_row WHERE deleted") == []
    found = lamps.memory.recall("bob", requested)
    assert not set(facts) & {id_ for piece in found.evidence for id_ in piece.fact_ids}
    assert found.evidence, "what was said stays"
    assert_verified(lamps)


def test_until_they_are_refreshed_the_trees_are_whole_dirty_and_due(lamps: Stack) -> None:
    """Given retired candidates, when nothing has been refreshed yet, then every tree that lost a leaf, and the session
    tree whose cell reads otherwise now, is dirty up to its root and due."""
    chosen = cells(lamps, "lamps")[3:5]
    facts = facts_of(lamps, chosen)
    touched = ids(
        lamps,
        f"""SELECT DISTINCT p.tree_id FROM {MEMBERS} p JOIN memforest.tree r USING (tenant_id, tree_id)
            WHERE p.payload_id = ANY(:p) AND r.state = 'active'""",
        p=[*facts, *chosen],
    )
    before = dict(lamps.rows("SELECT tree_id, marks FROM memforest.tree"))
    supersede(lamps, chosen)
    retire_cells(lamps, chosen)
    assert_trees_hold(lamps)
    left = lamps.rows(
        """SELECT r.tree_id, r.marks, r.due_at IS NOT NULL AS due, n.version > n.clean_version AS dirty,
                  n.erased_version, n.clean_version FROM memforest.tree r
             JOIN memforest.node n ON n.tenant_id = r.tenant_id AND n.node_id = r.root_id WHERE r.tree_id = ANY(:t)""",
        t=touched,
    )
    assert {row.tree_id for row in left} == set(touched)
    for row in left:
        assert row.due
        assert row.dirty
        assert row.marks > before[row.tree_id]
        assert row.erased_version >= row.clean_version
    assert not lamps.rows(
        """SELECT 1 FROM memforest.node n JOIN memforest.node p ON p.tenant_id = n.tenant_id AND p.node_id = n.parent_id
            WHERE n.version > n.clean_version AND p.version = p.clean_version"""
    )


def test_a_fact_that_was_said_elsewhere_too_loses_only_that_occurrence(pipeline: Stack) -> None:
    """Given a fact said in two sessions, when one occurrence is retired, then the fact stays where it was, and speaks
    for the session that is left."""
    pipeline.memory.ingest("bob", "one", said(HIKING))
    pipeline.drive()
    pipeline.memory.ingest("bob", "two", said(HIKING, start=1_700_900_000))
    pipeline.drive()
    first, second = cells(pipeline, "one"), cells(pipeline, "two")
    facts = facts_of(pipeline, first)
    assert facts_of(pipeline, second) == facts
    points = pipeline.rows("SELECT version FROM memforest.index_row WHERE point_id = ANY(:f)", f=facts)

    supersede(pipeline, first)
    retired = retire_cells(pipeline, first)

    assert (retired.occurrences, retired.facts, retired.leaves) == (len(facts), 0, {})
    assert facts_of(pipeline, second) == facts
    assert facts_of(pipeline, first) == []
    sessions = """SELECT DISTINCT s.external_id FROM memforest.placement p
                    JOIN memforest.session s ON s.tenant_id = p.tenant_id AND s.session_id = p.session_id
                   WHERE p.payload_id = ANY(:f)"""
    assert pipeline.rows(sessions, f=facts) == [("two",)]
    assert pipeline.rows("SELECT version FROM memforest.index_row WHERE point_id = ANY(:f)", f=facts) == points
    pipeline.drive()
    assert_verified(pipeline)


def test_a_fact_that_its_new_extraction_has_again_stays(lamps: Stack) -> None:
    """Given cells extracted again with the same result, when they are reduced, then old candidates go and no fact."""
    chosen = cells(lamps, "lamps")[2:5]
    before = lamps.rows("SELECT fact_id, seq FROM memforest.fact ORDER BY seq")
    attached = lamps.rows("SELECT cell_id, item, fact_id FROM memforest.occurrence ORDER BY 1, 2")
    supersede(lamps, chosen)
    lamps.execute(
        """INSERT INTO memforest.candidate
           SELECT tenant_id, cell_id, -1 - item, turn_ordinals, quote, statement, text_hash, routing_hash
             FROM memforest.candidate WHERE cell_id = ANY(:c)""",
        c=chosen,
    )
    lamps.execute("UPDATE memforest.cell SET outcome = 'ok', placed = false WHERE cell_id = ANY(:c)", c=chosen)
    lamps.drive()
    assert lamps.rows("SELECT fact_id, seq FROM memforest.fact ORDER BY seq") == before
    assert lamps.rows("SELECT cell_id, item, fact_id FROM memforest.occurrence ORDER BY 1, 2") == attached
    assert lamps.rows("SELECT 1 FROM memforest.candidate WHERE item < 0") == []
    assert_verified(lamps)


def test_scopes_that_lose_everything_lose_their_tree_and_may_have_one_again(lamps: Stack) -> None:
    """Given a forest whose facts all go, then scenes, which have turns still, and entities wait as candidates, the session tree stays;
    when the same is said again, facts and trees come back."""
    every = [*cells(lamps, "lamps"), *cells(lamps, "other")]
    facts = ids(lamps, "SELECT fact_id FROM memforest.fact")
    supersede(lamps, every)
    retire_cells(lamps, every)
    lamps.drive()

    assert_gone(lamps, facts)
    states = dict(lamps.rows("SELECT kind, array_agg(DISTINCT state) FROM memforest.tree GROUP BY kind"))
    assert states == {"session": ["active"], "entity": ["candidate"], "scene": ["candidate"]}
    heads = (
        "SELECT DISTINCT root_id, height, leaf_count, due_at, first_mark_at FROM memforest.tree WHERE kind <> 'session'"
    )
    assert lamps.rows(heads) == [(None, 0, 0, None, None)]
    assert (
        ids(lamps, "SELECT node_id FROM memforest.node n JOIN memforest.tree r USING (tree_id) WHERE kind = 'scene'")
        == []
    )
    assert_verified(lamps)

    lamps.memory.ingest("bob", "again", said(HIKING, "I adopted a dog named Rex.", start=1_701_900_000))
    lamps.drive()
    kinds = "SELECT DISTINCT kind FROM memforest.tree WHERE state = 'active'"
    assert set(ids(lamps, kinds)) == {"session", "entity"}
    waiting = lamps.rows("SELECT 1 FROM memforest.tree WHERE kind = 'scene' AND state = 'candidate'")
    assert waiting != []
    assert_verified(lamps)


def test_a_scene_forgets_the_vectors_and_the_times_of_removed_facts(lamps: Stack) -> None:
    """Given scenes, when facts go, then each centroid is the sum of the routing vectors of the facts that stayed, and
    each span theirs."""
    chosen = [*cells(lamps, "lamps")[:4], *cells(lamps, "lamps")[10:]]
    supersede(lamps, chosen)
    retire_cells(lamps, chosen)
    scenes = lamps.rows(
        f"""SELECT r.tree_id, r.centroid, r.time_start, r.time_end, min(f.mentioned_at) AS first, max(f.mentioned_at) AS last
             FROM memforest.tree r JOIN {MEMBERS} p USING (tenant_id, tree_id)
             JOIN memforest.fact f ON f.tenant_id = r.tenant_id AND f.fact_id = p.payload_id
            WHERE r.kind = 'scene' GROUP BY r.tenant_id, r.tree_id"""
    )
    assert scenes
    for scene in scenes:
        assert np.allclose(from_bytes(scene.centroid), sum_of_facts(lamps, scene.tree_id), atol=1e-4)
        assert (scene.time_start, scene.time_end) == (scene.first, scene.last)


def sum_of_facts(pipeline: Stack, scene: UUID) -> Vectors:
    """The sum of the stored routing vectors of a scene's facts."""
    vectors = pipeline.rows(
        f"""SELECT v.vector FROM {MEMBERS} p
             JOIN memforest.occurrence o ON o.tenant_id = p.tenant_id AND o.fact_id = p.payload_id
             JOIN memforest.candidate k ON k.tenant_id = o.tenant_id AND k.cell_id = o.cell_id AND k.item = o.item
             JOIN memforest.tree r ON r.tenant_id = p.tenant_id AND r.tree_id = p.tree_id
             JOIN memforest.vector v ON v.tenant_id = k.tenant_id AND v.forest_id = r.forest_id
              AND v.text_hash = k.routing_hash
            WHERE p.tree_id = :t""",
        t=scene,
    )
    total: Vectors = np.sum([from_bytes(row.vector) for row in vectors], axis=0)
    return total


def test_what_a_removal_loads_is_what_it_needs(lamps: Stack) -> None:
    """Given a tree of several levels, when any leaves are to go, then the loaded nodes give the diff of the whole tree."""
    lamps.memory.ingest(
        "bob",
        "more",
        said(*[f"I sold a copper kettle numbered {n} for {n} dollars." for n in range(150)], start=1_701_000_000),
    )
    while lamps.runtime.extract() + lamps.runtime.reduce():
        pass
    rng = random.Random(3)
    for kind in ("session", "entity"):
        tree = ids(
            lamps, "SELECT tree_id FROM memforest.tree WHERE kind = :k ORDER BY leaf_count DESC LIMIT 1", k=kind
        )[0]
        head, nodes = head_of(lamps, tree)
        assert head.height >= 3
        leaves = sorted((node for node in nodes if node.level == 0), key=lambda node: node.key or ())
        known = {node.id: node for node in nodes}
        with reducing(lamps) as (rows, _):
            for _ in range(25):
                count, at = rng.choice((1, 2, 7, len(leaves) // 3)), rng.randrange(len(leaves))
                group = leaves[at : at + count] if rng.random() < 0.5 else rng.sample(leaves, count)
                gone = [leaf.id for leaf in group]
                loaded = rows.load_leaves(gone)
                assert loaded.keys() == {TreeId(tree)}
                assert all(known[node.id] == node for node in loaded[TreeId(tree)])
                assert delete(head, loaded[TreeId(tree)], gone) == delete(head, nodes, gone)
            one = rows.load_leaves([leaves[len(leaves) // 2].id])[TreeId(tree)]
            assert len(one) <= 1 + 3 * head.k * head.height
