"""Inserting batches of leaves into a tree."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

from memforest_core.memtree import KeyTaken, NotLoaded, TreeHead, insert
from tests.unit.memtree.tree_store import ROOT, TREE, Counted, TreeStore, leaf, leaves


def sizes(store: TreeStore, level: int) -> list[int]:
    return [len(store.children(node.id)) for node in store.level(level)]


def test_the_first_leaves_hang_under_the_root() -> None:
    store = TreeStore(k=3)
    diff = store.insert(leaves(3))
    assert {node.parent_id for node in diff.inserted} == {ROOT}
    assert [(node.id, node.version, node.leaf_count) for node in diff.updated] == [(ROOT, 2, 3)]
    assert diff.head == TreeHead(TREE, ROOT, 3, height=1, leaf_count=3)
    store.assert_sound()


def test_leaves_are_born_clean_and_internal_nodes_dirty() -> None:
    store = TreeStore(k=3)
    store.insert(leaves(20))
    for node in store.nodes.values():
        assert node.dirty == (node.level > 0)
    assert all((node.version, node.clean_version) == (1, 1) for node in store.level(0))
    born = [node for node in store.internal() if node.id != ROOT]
    assert {(node.version, node.clean_version) for node in born} == {(1, 0)}


def test_a_full_root_pushes_its_content_down_and_has_the_same_id() -> None:
    store = TreeStore(k=3, first=leaves(3))
    diff = store.insert([leaf(100, 100)])
    assert (diff.head.root_id, diff.head.height) == (ROOT, 2)
    assert sizes(store, 1) == [3, 1]
    assert [node.key for node in store.level(1)] == [None, leaf(100, 100).key]
    store.assert_sound()


def test_one_batch_may_raise_the_root_by_several_levels() -> None:
    store = TreeStore(k=3)
    diff = store.insert(leaves(60))
    assert diff.head == TreeHead(TREE, ROOT, 3, height=4, leaf_count=60)
    store.assert_sound()


def test_the_right_edge_fills_and_leaves_the_rest_to_the_last() -> None:
    store = TreeStore(k=4, first=leaves(10))
    store.insert([leaf(1000 + n, 100 + n) for n in range(11)])
    assert sizes(store, 1) == [4, 4, 4, 4, 4, 1]


def test_elsewhere_a_node_splits_evenly() -> None:
    store = TreeStore(k=4, first=leaves(12))
    store.insert([leaf(1, 100)])
    assert sizes(store, 1) == [3, 2, 4, 4]
    store.insert([leaf(0, 200 + n) for n in range(10)])
    assert all(2 <= size <= 4 for size in sizes(store, 1))
    store.assert_sound()


def test_a_new_leftmost_leaf_changes_no_separator() -> None:
    store = TreeStore(k=3, first=leaves(27))
    before = {node.id: node.key for node in store.internal()}
    store.insert([leaf(-5, 100)])
    assert {id_: store.nodes[id_].key for id_ in before} == before
    assert store.nodes[ROOT].time_start == -5
    assert store.walk()[0].id == leaf(-5, 100).id
    store.assert_sound()


def test_a_batch_raises_each_node_it_descends_through_once() -> None:
    store = TreeStore(k=8, first=leaves(200))
    before = dict(store.nodes)
    batch = [leaf(1, 1000), leaf(2, 1001), leaf(1501, 1002)]
    touched = {above.id for n in (0, 150) for above in store.ancestors(leaves(200)[n].id)}
    store.insert(batch)
    for node_id, old in before.items():
        assert store.nodes[node_id].version == old.version + (node_id in touched)
        assert store.nodes[node_id].clean_version == old.clean_version


def test_a_leaf_that_moves_to_a_new_node_has_the_same_version_and_key() -> None:
    store = TreeStore(k=3, first=leaves(9))
    before = {node.id: node for node in store.level(0)}
    diff = store.insert([leaf(1, 100)])
    moved = [node for node in diff.updated if node.level == 0]
    assert moved
    for node in moved:
        old = before[node.id]
        assert node.parent_id != old.parent_id
        assert (node.version, node.key) == (old.version, old.key)


def test_unknown_times_do_not_narrow_an_interval() -> None:
    store = TreeStore(k=3)
    store.insert([leaf(0, 1, span=(None, None))])
    assert (store.nodes[ROOT].time_start, store.nodes[ROOT].time_end) == (None, None)
    store.insert([leaf(0, 2, span=(-7, None)), leaf(0, 3, span=(3, 9))])
    assert (store.nodes[ROOT].time_start, store.nodes[ROOT].time_end) == (-7, 9)
    store.assert_sound()


def test_inserting_again_changes_nothing() -> None:
    store = TreeStore(k=3, first=leaves(30))
    nodes, head = dict(store.nodes), store.head
    diff = store.insert(leaves(30)[7:19])
    assert (diff.inserted, diff.updated, diff.head) == ((), (), head)
    assert store.nodes == nodes


def test_a_known_leaf_in_a_batch_raises_nothing_on_its_own_path() -> None:
    store = TreeStore(k=3, first=leaves(27))
    first, last = leaves(27)[0], leaf(1000, 100)
    above = store.ancestors(first.id)[0]
    store.insert([first, last, last])
    assert store.nodes[above.id] == above
    assert store.head.leaf_count == 28
    store.assert_sound()


def test_an_empty_batch_needs_nothing_loaded() -> None:
    head = TreeStore(k=3, first=leaves(5)).head
    diff = insert(head, [], [], Counted())
    assert (diff.inserted, diff.updated, diff.deleted, diff.head) == ((), (), (), head)


def test_two_leaves_cannot_have_one_key() -> None:
    store = TreeStore(k=3, first=leaves(5))
    twin, other = leaves(5)[2], leaf(77, 77)
    stolen = replace(other, key=twin.key)
    with pytest.raises(KeyTaken):
        store.insert([stolen])


def test_a_payload_has_one_leaf_under_whatever_id() -> None:
    store = TreeStore(k=3, first=leaves(2))
    stored, fresh = leaf(0, 0), leaf(50, 50)
    repeated = [replace(item, id=leaf(0, 900 + n).id) for n, item in enumerate((stored, fresh))]
    store.insert([fresh, *repeated])
    assert [node.id for node in store.walk()] == [*(leaf.id for leaf in leaves(2)), fresh.id]


def test_a_leaf_at_a_separator_goes_to_the_node_that_it_bounds() -> None:
    store = TreeStore(k=3, first=leaves(8))
    bounded = store.level(1)[1]
    at_the_bound = leaf(25, 100)
    store.nodes[bounded.id] = replace(bounded, key=at_the_bound.key)
    store.insert([at_the_bound])
    assert store.nodes[at_the_bound.id].parent_id == bounded.id
    store.assert_sound()


@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_a_missing_node_is_reported_not_guessed(level: int) -> None:
    store = TreeStore(k=3, first=leaves(25))
    batch = [leaf(121, 500)]
    loaded = store.load([batch[0].key])
    assert store.head.height == 3
    for missing in [node for node in loaded if node.level == level]:
        rest = [node for node in loaded if node.id != missing.id]
        with pytest.raises(NotLoaded):
            insert(store.head, rest, batch, store.new_id)


def test_a_head_older_than_the_root_is_reported() -> None:
    store = TreeStore(k=3, first=leaves(3))
    old = store.head
    store.insert([leaf(100, 100)])
    with pytest.raises(NotLoaded):
        insert(old, store.nodes.values(), [leaf(101, 101)], store.new_id)


def test_what_is_loaded_may_repeat_and_hold_more() -> None:
    store = TreeStore(k=3, first=leaves(40))
    everything = [*store.nodes.values(), *store.nodes.values()]
    store.apply(insert(store.head, everything, [leaf(55, 100), leaf(5, 101)], store.new_id))
    assert store.head.leaf_count == 42
    store.assert_sound()


def test_a_batch_loads_and_writes_only_its_paths() -> None:
    store = TreeStore(k=8, first=leaves(5000))
    batch = [leaf(10 * n + 1, 10_000 + n) for n in range(0, 5000, 250)]
    bound = len(batch) * store.head.height * (store.head.k + 1)
    assert len(store.load([leaf.key for leaf in batch])) <= bound
    diff = store.insert(batch)
    assert len(diff.inserted) + len(diff.updated) <= bound
    store.assert_sound()


def test_ten_thousand_appends_leave_full_nodes_and_few_summaries() -> None:
    """DESIGN section 5 simulated 1,431 internal nodes and 3,519 summary calls."""
    store = TreeStore(k=8)
    calls = 0
    arriving = leaves(10_000)
    for at in range(0, len(arriving), 20):
        store.insert(arriving[at : at + 20])
        calls += store.refresh()
    store.assert_sound()
    assert [node.id for node in store.walk()] == [leaf.id for leaf in arriving]
    assert len(store.internal()) == 1_431
    assert calls == 3_519
    full = Counter(size == 8 for level in (1, 2, 3) for size in sizes(store, level))
    assert full[False] <= 3


def test_arrival_in_any_order_leaves_nodes_at_least_half_full() -> None:
    arriving = leaves(3000)
    random.Random(7).shuffle(arriving)
    store = TreeStore(k=8)
    for at in range(0, len(arriving), 20):
        store.insert(arriving[at : at + 20])
    store.assert_sound()
    assert [node.key for node in store.walk()] == sorted(leaf.key for leaf in arriving)
    assert len(store.level(1)) <= 3000 / 4 + 1
