"""Carrying trees into another forest and pairing scenes, under generated trees, ids and facts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from uuid import UUID

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from memforest_core.domain.ids import NodeId, PayloadId, ScopeState, TreeId, TreeKind
from memforest_core.lifecycle.merge.records import StoredScope
from memforest_core.lifecycle.merge.transplanting import Successor, Transplant, transplant
from memforest_core.lifecycle.merge.tree_union import match_scenes
from memforest_core.memtree import Key, Node, TreeHead, build, violations
from memforest_core.memtree import leaf as new_leaf
from memforest_core.memtree.paths import order

OLD, NEW = TreeId(UUID(int=1)), TreeId(UUID(int=2))
KS = st.integers(3, 5)
TIMES = st.lists(st.integers(0, 6), min_size=1, max_size=40)
"""Few moments, so that many leaves are of the same time and their ids decide."""


def payload(number: int) -> PayloadId:
    return PayloadId(UUID(int=number))


def leaf(tree: TreeId, number: int, time: int) -> Node:
    key = Key(time, 0, 0, payload(number).hex)
    return new_leaf(tree, payload(number), key, time, time)


def clean(k: int, leaves: Sequence[Node]) -> tuple[TreeHead, list[Node]]:
    """A tree in which every node is summarized."""
    ids = count(1_000_000)
    diff = build(
        tree_id=OLD, k=k, root_id=NodeId(UUID(int=999)), leaves=leaves, new_id=lambda: NodeId(UUID(int=next(ids)))
    )
    return diff.head, [replace(node, clean_version=node.version) for node in diff.inserted]


def carried(head: TreeHead, nodes: Sequence[Node], successors: Mapping[PayloadId, Successor]) -> Transplant:
    ids = count(5_000_000)
    return transplant(head, nodes, NEW, successors, lambda: NodeId(UUID(int=next(ids))))


def successor(number: int, time: int, *, same: bool = True) -> Successor:
    return Successor(payload(number), Key(time, 0, 0, payload(number).hex), time, time, same)


def children(nodes: Sequence[Node]) -> dict[NodeId, list[Node]]:
    found: dict[NodeId, list[Node]] = defaultdict(list)
    for node in sorted(nodes, key=order):
        if node.parent_id is not None:
            found[node.parent_id].append(node)
    return found


def payloads(nodes: Sequence[Node]) -> list[PayloadId]:
    return [node.payload_id for node in sorted(nodes, key=order) if node.payload_id is not None]


@given(KS, TIMES, st.data())
def test_a_tree_is_sound_in_the_other_forest_and_what_is_clean_is_still_true(
    k: int, times: list[int], data: st.DataObject
) -> None:
    head, nodes = clean(k, [leaf(OLD, at, time) for at, time in enumerate(times)])
    names = data.draw(st.permutations(range(100, 100 + len(times))))
    kinds = data.draw(st.lists(st.sampled_from("ssssdmg"), min_size=len(times), max_size=len(times)))
    successors = {
        payload(at): successor(names[at], time + (kind == "m"), same=kind == "s")
        for at, (time, kind) in enumerate(zip(times, kinds, strict=True))
        if kind != "g"
    }
    result = carried(head, nodes, successors)

    assert violations(result.head, result.nodes) == []
    wanted = [(each.key, each.payload_id) for each in successors.values()]
    assert payloads(result.nodes) == [payload_id for _, payload_id in sorted(wanted)]
    before, after = children(nodes), children(result.nodes)
    for old, new in result.renamed.items():
        node = next((each for each in result.nodes if each.id == new), None)
        if node is None or node.dirty:
            continue
        mine = [
            result.renamed.get(child.id) or successors[child.payload_id or payload(0)].payload_id
            for child in before[old]
        ]
        assert mine == [child.payload_id or child.id for child in after[new]]
        assert all(child.payload_id is None or successors[child.payload_id].same for child in before[old])
    dirty = {node.id for node in result.nodes if node.dirty}
    assert all(node.parent_id is None or node.parent_id in dirty for node in result.nodes if node.id in dirty)


@given(KS, TIMES)
def test_a_tree_whose_facts_are_all_new_is_carried_as_it_is(k: int, times: list[int]) -> None:
    head, nodes = clean(k, [leaf(OLD, at, time) for at, time in enumerate(times)])
    result = carried(head, nodes, {payload(at): successor(at + 100, time) for at, time in enumerate(times)})
    assert (result.dirty, result.inserted, result.dirtied) == (False, 0, 0)
    assert len(result.nodes) == len(nodes)
    versions = {node.id: node.version for node in result.nodes}
    assert all(versions[result.renamed[node.id]] == node.version for node in nodes if node.level > 0)


@given(KS, TIMES)
def test_two_facts_that_become_one_have_one_leaf(k: int, times: list[int]) -> None:
    head, nodes = clean(k, [leaf(OLD, at, time) for at, time in enumerate(times)])
    one = {payload(at): successor(500, times[0]) for at in range(len(times))}
    result = carried(head, nodes, one)
    assert violations(result.head, result.nodes) == []
    assert payloads(result.nodes) == [payload(500)]


SCENES = st.lists(st.tuples(st.sampled_from(["", "home", "work"]), st.integers(0, 7), st.integers(1, 40)), max_size=8)


def scene(number: int, domain: str, angle: int, size: int) -> StoredScope:
    id_ = TreeId(UUID(int=number))
    turned = angle * np.pi / 16
    total = (size * np.array([np.cos(turned), np.sin(turned)])).astype(np.float32)
    head = TreeHead(id_, NodeId(UUID(int=number)), 10, 1, size)
    return StoredScope(id_, TreeKind.SCENE, str(id_), ScopeState.ACTIVE, 10, head, domain, total, 0, 1)


@given(SCENES, SCENES)
def test_scenes_pair_once_in_one_domain_within_the_cap(
    mine: list[tuple[str, int, int]], theirs: list[tuple[str, int, int]]
) -> None:
    source = [scene(at, *each) for at, each in enumerate(mine)]
    target = [scene(100 + at, *each) for at, each in enumerate(theirs)]
    pairs = match_scenes(source, target, 0.88, 60)
    for side in ([pair.source.id for pair in pairs], [pair.target.id for pair in pairs]):
        assert len(side) == len(set(side))
    for pair in pairs:
        assert pair.source.domain == pair.target.domain
        assert pair.source.head is not None
        assert pair.target.head is not None
        assert pair.source.head.leaf_count + pair.target.head.leaf_count <= 60
        assert pair.source.total is not None
        assert pair.target.total is not None
        cosine = pair.source.total @ pair.target.total
        assert cosine >= 0.8799 * np.linalg.norm(pair.source.total) * np.linalg.norm(pair.target.total)
    # None is left that could have been a pair.
    left = {pair.source.id for pair in pairs} | {pair.target.id for pair in pairs}
    assert not match_scenes([s for s in source if s.id not in left], [t for t in target if t.id not in left], 0.88, 60)
