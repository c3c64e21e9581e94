"""Inserting batches of leaves into a tree."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from memforest_core.memtree import KeyTaken, NotLoaded, insert
from tests.unit.memtree.tree_store import Counted, TreeStore, leaf, leaves


def sizes(store: TreeStore, level: int) -> list[int]:
    return [len(store.children(node.id)) for node in store.level(level)]


def test_elsewhere_a_node_splits_evenly() -> None:
    store = TreeStore(k=4, first=leaves(12))
    store.insert([leaf(1, 100)])
    assert sizes(store, 1) == [3, 2, 4, 4]
    store.insert([leaf(0, 200 + n) for n in range(10)])
    assert all(2 <= size <= 4 for size in sizes(store, 1))
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
