"""Removals against a sorted list, with exactly the nodes that a removal is promised."""

from __future__ import annotations

import random
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from memforest_core.domain.ids import NodeId
from memforest_core.memtree import Node
from tests.unit.memtree.tree_store import ROOT, TreeStore, leaf


@dataclass(frozen=True)
class Step:
    """Leaves to insert at these times, or leaves to remove: a stretch, or scattered ones."""

    times: tuple[int, ...] = ()
    stretch: tuple[float, float] | None = None
    scattered: tuple[int, ...] = ()


SHARE = st.floats(0, 1)
INSERTS = st.builds(Step, times=st.lists(st.integers(-300, 300), min_size=1, max_size=60).map(tuple))
STRETCHES = st.builds(Step, stretch=st.tuples(SHARE, SHARE))
SCATTERED = st.builds(Step, scattered=st.lists(st.integers(0, 10_000), min_size=1, max_size=60).map(tuple))
STEPS = st.lists(st.one_of(INSERTS, STRETCHES, SCATTERED), min_size=1, max_size=12)


class Both:
    """A tree and the plain list that it must equal."""

    def __init__(self, k: int, first: int) -> None:
        self._count = first
        known = [leaf(n % 301, n) for n in range(first)]
        self.store = TreeStore(k=k, first=known)
        self.list = sorted((item.key, item.id) for item in known)

    def take(self, step: Step) -> None:
        if step.times:
            self._insert(step.times)
        elif step.stretch is not None:
            start, end = sorted(round(share * len(self.list)) for share in step.stretch)
            self._remove([id_ for _, id_ in self.list[start:end]])
        elif self.list:
            self._remove([self.list[place % len(self.list)][1] for place in step.scattered])

    def _insert(self, times: tuple[int, ...]) -> None:
        batch = [leaf(time, self._count + n) for n, time in enumerate(times)]
        self._count += len(times)
        self.store.insert(batch)
        self.list = sorted([*self.list, *((item.key, item.id) for item in batch)])

    def _remove(self, gone: list[NodeId]) -> None:
        before = dict(self.store.nodes)
        children = {id_: self._children(id_) for id_ in before}
        touched = {node.id for id_ in gone for node in self.store.ancestors(id_)}
        diff = self.store.remove(gone)
        self.list = [item for item in self.list if item[1] not in set(gone)]
        assert not diff.inserted
        assert set(diff.deleted) == before.keys() - self.store.nodes.keys()
        assert {node.id for node in diff.updated} == {
            id_ for id_, now in self.store.nodes.items() if now != before[id_]
        }
        self._versions_rose_on_the_paths(before, children, touched)

    def _children(self, node_id: NodeId) -> set[NodeId]:
        return {child.id for child in self.store.children(node_id)}

    def _versions_rose_on_the_paths(
        self, before: dict[NodeId, Node], children: dict[NodeId, set[NodeId]], touched: set[NodeId]
    ) -> None:
        changed = {id_ for id_ in self.store.nodes if self._children(id_) != children[id_]}
        raised = touched | changed | {node.id for id_ in changed for node in self.store.ancestors(id_)}
        for id_, now in self.store.nodes.items():
            assert now.version == before[id_].version + (id_ in raised)
            assert now.clean_version == before[id_].clean_version

    def assert_equal(self) -> None:
        self.store.assert_sound()
        assert [(node.key, node.id) for node in self.store.walk()] == self.list
        assert self.store.head.root_id == ROOT
        assert self.store.head.leaf_count == len(self.list)


@given(k=st.integers(3, 9), first=st.integers(0, 150), steps=STEPS)
@settings(max_examples=250)
def test_any_batches_leave_the_leaves_of_the_sorted_list(k: int, first: int, steps: list[Step]) -> None:
    """Given a tree, when batches come and go, then after each it has what the list has, and no invariant breaks.

    The store loads what ``delete`` promises to need and no more, so a node that is needed besides would be missed.
    """
    both = Both(k, first)
    for step in steps:
        both.take(step)
        both.assert_equal()


@given(k=st.integers(3, 9), count=st.integers(1, 120), order=st.randoms(use_true_random=False))
@settings(max_examples=60)
def test_leaves_may_go_one_by_one_until_none_is_left(k: int, count: int, order: random.Random) -> None:
    both = Both(k, count)
    ids = [id_ for _, id_ in both.list]
    order.shuffle(ids)
    for number, id_ in enumerate(ids):
        both.take(Step(scattered=(next(place for place, item in enumerate(both.list) if item[1] == id_),)))
        if number % 7 == 0:
            both.assert_equal()
    both.assert_equal()
    assert both.store.nodes.keys() == {ROOT}


@given(k=st.integers(3, 9), first=st.integers(1, 150), steps=STEPS)
@settings(max_examples=60)
def test_a_dirty_node_is_never_under_a_clean_one(k: int, first: int, steps: list[Step]) -> None:
    """Given a clean tree, when leaves go, then everything above a changed node is to be summarized again."""
    both = Both(k, first)
    for step in steps:
        both.store.refresh()
        both.take(step)
        nodes = both.store.nodes
        assert all(nodes[node.parent_id].dirty for node in nodes.values() if node.dirty and node.parent_id)
