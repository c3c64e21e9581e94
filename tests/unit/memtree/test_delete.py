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


def test_a_leaf_goes_and_the_nodes_above_it_count_one_less() -> None:
    store = tree(27)
    above = {node.id for node in store.ancestors(ids([4])[0])}
    before = versions(store)
    diff = store.remove(ids([4]))
    assert diff.deleted == tuple(ids([4]))
    assert diff.inserted == ()
    assert {node.id for node in diff.updated} == above == raised(store, before)
    assert all(node.dirty and node.clean_version == 1 for node in diff.updated)
    assert diff.head == TreeHead(TREE, ROOT, 3, height=3, leaf_count=26)
    store.assert_sound()


def test_an_interval_shrinks_to_what_is_left() -> None:
    store = tree(9)
    store.remove(ids([0, 8]))
    assert (store.nodes[ROOT].time_start, store.nodes[ROOT].time_end) == (10, 70)
    store.assert_sound()


def test_leaves_of_no_tree_change_nothing() -> None:
    store = tree(9)
    stranger = leaf(5, 500).id
    assert store.remove([stranger]) == Diff((), (), (), store.head)
    internal = store.level(1)[0].id
    assert store.remove([internal]) == Diff((), (), (), store.head)


def test_a_leaf_named_twice_goes_once() -> None:
    store = tree(9)
    assert store.remove(ids([4, 4])).deleted == tuple(ids([4]))
    store.assert_sound()


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


def test_the_first_node_borrows_from_its_right_neighbour() -> None:
    store = tree(12, k=4)
    first, right, _ = store.level(1)
    store.remove(ids([0, 1, 2]))
    assert sizes(store) == [3, 2, 4]
    assert store.nodes[first.id].key is None
    assert store.nodes[right.id].key == leaf(60, 6).key
    store.assert_sound()


def test_the_right_spine_may_stay_small() -> None:
    store = tree(12, k=4)
    store.remove(ids([9, 10, 11]))
    assert sizes(store) == [4, 4, 1]
    store.assert_sound()


def test_a_node_left_empty_disappears_without_touching_its_neighbours() -> None:
    store = tree(18)
    middle = store.level(1)[1]
    before = versions(store)
    diff = store.remove(ids([3, 4, 5]))
    assert set(diff.deleted) == {middle.id, *ids([3, 4, 5])}
    assert sizes(store) == [3, 3, 3, 3, 3]
    assert raised(store, before) == {store.level(2)[0].id, ROOT}
    store.assert_sound()


def test_who_becomes_the_first_takes_over_the_separator_on_every_level() -> None:
    """Given three levels, when the leftmost third goes, then the next nodes are leftmost and have no separator."""
    store = tree(54)
    _, second, *_ = store.level(2)
    before = versions(store)
    store.remove(ids(range(9)))
    assert [store.level(level)[0].key for level in (1, 2)] == [None, None]
    assert store.level(2)[0].id == second.id
    assert store.nodes[second.id].version == before[second.id], "only its separator changed"
    store.assert_sound()


def test_the_first_of_an_inner_node_passes_its_separator_on() -> None:
    store = tree(54)
    separator = store.level(2)[1].key
    store.remove(ids(range(9, 12)))
    assert store.level(2)[1].key == store.children(store.level(2)[1].id)[0].key == separator
    store.assert_sound()


def test_what_is_inserted_later_finds_its_place_where_nodes_disappeared() -> None:
    store = tree(54)
    store.remove(ids([*range(12), *range(20, 40)]))
    store.insert([leaf(10 * place + 1, 200 + place) for place in (0, 5, 11, 20, 33, 39, 53)])
    store.assert_sound()
    assert [node.key for node in store.walk()] == sorted(node.key for node in store.level(0) if node.key)


def test_the_root_takes_the_place_of_an_only_child() -> None:
    store = tree(9)
    diff = store.remove(ids(range(1, 8)))
    assert diff.head == TreeHead(TREE, ROOT, 3, height=1, leaf_count=2)
    assert store.nodes[ROOT].version == 2
    assert set(store.nodes) == {ROOT, *ids([0, 8])}
    assert {node.parent_id for node in store.level(0)} == {ROOT}
    store.assert_sound()


def test_the_root_may_fall_by_several_levels_at_once() -> None:
    store = tree(200)
    assert store.head.height == 5
    before = store.nodes[ROOT].version
    store.remove(ids(range(1, 200)))
    assert store.head == TreeHead(TREE, ROOT, 3, height=1, leaf_count=1)
    assert store.nodes[ROOT].version == before + 1
    store.assert_sound()


def test_a_tree_without_leaves_is_an_empty_root_and_grows_again() -> None:
    store = tree(40)
    internal = {node.id for node in store.internal()}
    diff = store.remove(ids(range(40)))
    assert diff.head == TreeHead(TREE, ROOT, 3, height=1, leaf_count=0)
    assert set(diff.deleted) == (internal - {ROOT}) | set(ids(range(40)))
    assert set(store.nodes) == {ROOT}
    store.assert_sound()
    store.insert(leaves(12))
    store.assert_sound()


def test_a_neighbour_whose_children_stay_the_same_is_raised_with_the_child_that_grew() -> None:
    """Given a node left with one small child, when that child is joined with the last child of the node before, then
    that node has the same children, and is dirty all the same: what is below it changed."""
    store = tree(54)
    store.remove(ids([8]))
    store.refresh()
    first, second, *_ = store.level(2)
    stored = {node.id for node in store.children(first.id)}
    before = versions(store)
    store.remove(ids([10, 11, *range(12, 18)]))
    assert {node.id for node in store.children(first.id)} == stored
    assert second.id not in store.nodes
    assert first.id in raised(store, before)
    for node in store.nodes.values():
        if node.dirty and node.parent_id is not None:
            assert store.nodes[node.parent_id].dirty
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
