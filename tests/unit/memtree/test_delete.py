"""Removing batches of leaves from a tree."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from memforest_core.domain.ids import NodeId
from memforest_core.memtree import Diff, NotLoaded, TreeHead, delete
from tests.unit.memtree.tree_store import ROOT, TREE, TreeStore, leaf, leaves


def tree(count: int, k: int = 3) -> TreeStore:
    """Appended leaves, so full nodes, all clean."""
    store = TreeStore(k=k, first=leaves(count))
    store.refresh()
    return store


def ids(locations: Iterable[int]) -> list[NodeId]:
    known = leaves(1 + max(locations := list(locations)))
    return [known[place].id for place in locations]


def sizes(store: TreeStore, level: int = 1) -> list[int]:
    return [len(store.children(node.id)) for node in store.level(level)]


def versions(store: TreeStore) -> dict[NodeId, int]:
    return {node.id: node.version for node in store.nodes.values()}


def raised(store: TreeStore, before: dict[NodeId, int]) -> set[NodeId]:
    """The nodes whose version rose, each by one."""
    rose = {id_ for id_, version in versions(store).items() if version != before[id_]}
    assert all(store.nodes[id_].version == before[id_] + 1 for id_ in rose)
    return rose


def test_leaves_of_no_tree_change_nothing() -> None:
    store = tree(9)
    stranger = leaf(5, 500).id
    assert store.remove([stranger]) == Diff((), (), (), store.head)
    internal = store.level(1)[0].id
    assert store.remove([internal]) == Diff((), (), (), store.head)


def test_a_node_left_too_small_is_joined_with_its_neighbour() -> None:
    """Given neighbours of 2 and 2 leaves, when one is left with a single leaf, then there is one node of 3."""
    store = tree(12, k=4)
    store.remove(ids([4, 5]))
    assert sizes(store) == [4, 2, 4]
    left, small, _ = store.level(1)
    store.remove(ids([0, 1]))
    before = versions(store)
    diff = store.remove(ids([6]))
    assert sizes(store) == [3, 4]
    assert {node.id for node in store.children(left.id)} == set(ids([2, 3, 7]))
    assert set(diff.deleted) == {small.id, *ids([6])}
    assert raised(store, before) == {left.id, ROOT}
    store.assert_sound()


def test_a_node_left_too_small_borrows_from_a_full_neighbour() -> None:
    store = tree(12, k=4)
    left, small, untouched = store.level(1)
    before = versions(store)
    store.remove(ids([4, 5, 6]))
    assert sizes(store) == [3, 2, 4]
    assert raised(store, before) == {left.id, small.id, ROOT}
    assert store.nodes[small.id].key == leaf(30, 3).key
    assert store.nodes[untouched.id] == untouched
    moved = store.nodes[ids([3])[0]]
    assert (moved.parent_id, moved.version) == (small.id, 1)
    store.assert_sound()


def test_the_right_spine_may_stay_small() -> None:
    store = tree(12, k=4)
    store.remove(ids([9, 10, 11]))
    assert sizes(store) == [4, 4, 1]
    store.assert_sound()


def test_the_root_may_fall_by_several_levels_at_once() -> None:
    store = tree(200)
    assert store.head.height == 5
    before = store.nodes[ROOT].version
    store.remove(ids(range(1, 200)))
    assert store.head == TreeHead(TREE, ROOT, 3, height=1, leaf_count=1)
    assert store.nodes[ROOT].version == before + 1
    store.assert_sound()


def test_a_batch_opens_at_most_three_nodes_for_each_one_on_its_paths() -> None:
    store = tree(3_000, k=8)
    gone = ids([5, 777, 2_900])
    above = {node.id for id_ in gone for node in store.ancestors(id_)}
    assert len(store.load_leaves(gone)) <= 1 + 8 * 3 * len(above)


@pytest.mark.parametrize("missing", ["leaf's sibling", "ancestor", "neighbour's child"])
def test_a_missing_node_is_named_loudly(missing: str) -> None:
    store = tree(12, k=4)
    gone = ids([4, 5, 6])
    small = store.level(1)[1]
    without = {"leaf's sibling": ids([7])[0], "ancestor": small.id, "neighbour's child": ids([3])[0]}[missing]
    loaded = [node for node in store.load_leaves(gone) if node.id != without]
    with pytest.raises(NotLoaded):
        delete(store.head, loaded, gone)


def test_head_and_root_of_different_times_are_refused() -> None:
    store = tree(12, k=4)
    with pytest.raises(NotLoaded):
        delete(replace(store.head, leaf_count=11), store.load_leaves(ids([4])), ids([4]))
