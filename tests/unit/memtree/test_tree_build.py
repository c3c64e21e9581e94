"""Building a whole tree at once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from memforest_core.domain.ids import NodeId
from memforest_core.memtree import KeyTaken, TreeHead, build
from tests.unit.memtree.tree_store import ROOT, TREE, Counted, TreeStore, leaf, leaves


def test_a_tree_without_leaves_is_a_root_without_children() -> None:
    diff = build(tree_id=TREE, k=3, root_id=ROOT, leaves=[], new_id=Counted())
    (root,) = diff.inserted
    assert diff.head == TreeHead(TREE, ROOT, 3, height=1, leaf_count=0)
    assert (root.id, root.level, root.key, root.parent_id) == (ROOT, 1, None, None)
    assert (root.time_start, root.time_end, root.leaf_count) == (None, None, 0)
    assert (root.version, root.clean_version) == (1, 0)


def test_building_gives_the_shape_of_appending() -> None:
    built, appended = TreeStore(k=4, first=leaves(150)), TreeStore(k=4)
    for item in leaves(150):
        appended.insert([item])
    assert built.head.height == appended.head.height
    for level in range(built.head.height + 1):
        shape = [(n.key, n.leaf_count, n.time_end) for n in built.level(level)]
        assert shape == [(n.key, n.leaf_count, n.time_end) for n in appended.level(level)]


def test_parents_come_before_their_children() -> None:
    diff = build(tree_id=TREE, k=3, root_id=ROOT, leaves=leaves(50), new_id=Counted())
    seen: set[NodeId | None] = {None}
    for node in diff.inserted:
        assert node.parent_id in seen
        seen.add(node.id)


def test_the_first_of_repeated_leaves_counts() -> None:
    moved = leaf(500, 0)
    store = TreeStore(k=3, first=[leaf(5, 0), moved, leaf(5, 0)])
    assert [node.key for node in store.walk()] == [leaf(5, 0).key]


def test_two_leaves_cannot_have_one_key() -> None:
    first, other = leaf(1, 1), leaf(2, 2)
    with pytest.raises(KeyTaken):
        TreeStore(k=3, first=[first, replace(other, key=first.key)])


def test_fewer_than_three_children_are_refused() -> None:
    with pytest.raises(ValueError, match="k is 2"):
        TreeStore(k=2)
