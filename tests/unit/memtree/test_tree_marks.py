"""Dirty paths and the nodes that can be summarized now."""

from __future__ import annotations

from dataclasses import replace

import pytest

from memforest_core.domain.ids import NodeId
from memforest_core.memtree import Node, NotLoaded, mark_dirty, ready
from tests.unit.memtree.tree_store import ROOT, TreeStore, leaf, leaves


def clean_tree() -> TreeStore:
    store = TreeStore(k=3, first=leaves(27))
    store.refresh()
    return store


def write(store: TreeStore, nodes: tuple[Node, ...]) -> None:
    store.nodes.update((node.id, node) for node in nodes)


def test_a_mark_raises_the_node_and_every_ancestor_once() -> None:
    store = clean_tree()
    first, second, *_ = store.level(1)
    before = dict(store.nodes)
    marked = mark_dirty(store.nodes.values(), [first.id, second.id, first.id])
    expected = {first.id, second.id, *(node.id for node in store.ancestors(first.id))}
    assert {node.id for node in marked} == expected
    for node in marked:
        assert node == replace(before[node.id], version=before[node.id].version + 1)
        assert node.dirty


def test_a_mark_counts_on_a_dirty_node_too() -> None:
    store = TreeStore(k=3, first=leaves(3))
    (root,) = mark_dirty(store.nodes.values(), [ROOT])
    assert (root.version, root.clean_version) == (2, 0)


def test_a_marked_leaf_stays_clean_and_its_ancestors_do_not() -> None:
    store = clean_tree()
    *above, marked = mark_dirty(store.nodes.values(), [leaves(27)[0].id])
    assert (marked.level, marked.version, marked.dirty) == (0, 2, False)
    assert [node.level for node in above] == [3, 2, 1]
    assert all(node.dirty for node in above)


def test_a_mark_needs_only_the_path() -> None:
    store = clean_tree()
    node = store.level(1)[4]
    path = [node, *store.ancestors(node.id)]
    assert len(mark_dirty(path, [node.id])) == 3
    for missing in path:
        with pytest.raises(NotLoaded):
            mark_dirty([other for other in path if other is not missing], [node.id])


def test_nothing_is_ready_in_a_clean_tree() -> None:
    assert ready(clean_tree().nodes.values()) == ()


def test_a_new_tree_is_ready_from_the_bottom_up() -> None:
    store = TreeStore(k=3, first=leaves(27))
    rounds: list[int] = []
    while found := ready(store.nodes.values()):
        assert len({store.nodes[node_id].level for node_id in found}) == 1
        rounds.append(len(found))
        write(store, tuple(_cleaned(store, node_id) for node_id in found))
    assert rounds == [9, 3, 1]


def test_ready_nodes_come_lowest_level_first_in_key_order() -> None:
    store = clean_tree()
    low, high = store.level(1)[0], store.level(2)[2]
    middle = store.level(1)[2]
    write(store, mark_dirty(store.nodes.values(), [high.id, middle.id, low.id]))
    assert ready(store.nodes.values()) == (low.id, middle.id, high.id)


def test_an_insert_makes_only_its_path_ready() -> None:
    store = TreeStore(k=3, first=leaves(25))
    store.refresh()
    store.insert([leaf(1000, 100)])
    dirty = [node for node in store.nodes.values() if node.dirty]
    (lowest,) = ready(dirty)
    assert store.nodes[lowest].level == 1
    assert store.children(lowest)[-1].id == leaf(1000, 100).id
    assert len(dirty) == store.head.height


def _cleaned(store: TreeStore, node_id: NodeId) -> Node:
    node = store.nodes[node_id]
    return replace(node, clean_version=node.version)
