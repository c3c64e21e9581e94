"""The checker finds every way to break a tree."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from uuid import UUID

import pytest

from memforest_core.domain.ids import NodeId, PayloadId, TreeId
from memforest_core.memtree import Broken, Key, Node, violations
from tests.unit.memtree.tree_store import ROOT, TreeStore, leaves

Break = Callable[[TreeStore], None]
NOWHERE = NodeId(UUID(int=99))
PAST_ALL = Key(10**9, 0, 0, "")


def good() -> TreeStore:
    """k=4, 45 leaves: levels of 45, 12, 3 and 1 nodes; the right spine has 1 leaf."""
    store = TreeStore(k=4, first=leaves(45))
    assert [len(store.level(level)) for level in range(4)] == [45, 12, 3, 1]
    return store


def change(store: TreeStore, node: Node, **fields: object) -> None:
    store.nodes[node.id] = replace(node, **fields)  # type: ignore[arg-type]


def drop(store: TreeStore, *nodes: Node) -> None:
    for node in nodes:
        del store.nodes[node.id]


def move_leaf(store: TreeStore, parent: int) -> None:
    change(store, store.level(0)[0], parent_id=store.level(1)[parent].id)


def swap_keys(store: TreeStore, level: int, left: int, right: int) -> None:
    a, b = store.level(level)[left], store.level(level)[right]
    change(store, a, key=b.key)
    change(store, b, key=a.key)


def hang_leaf_under_level_2(store: TreeStore) -> None:
    change(store, store.level(0)[0], parent_id=store.level(2)[0].id)


def leaf_without_a_path(store: TreeStore) -> None:
    for node in store.level(0)[:4]:
        drop(store, node)


def one_more_root(store: TreeStore) -> None:
    change(store, store.level(2)[1], parent_id=None)


def root_under_itself(store: TreeStore) -> None:
    change(store, store.nodes[ROOT], parent_id=ROOT)


def root_under_a_child(store: TreeStore) -> None:
    change(store, store.nodes[ROOT], parent_id=store.level(2)[0].id)


def leave_a_gap_below_a_separator(store: TreeStore) -> None:
    first = store.level(1)[4]
    assert first.key is not None
    change(store, first, key=first.key._replace(item=1))


BREAKS: list[tuple[Broken, Break]] = [
    (Broken.WRONG_TREE, lambda s: change(s, s.level(1)[0], tree_id=TreeId(UUID(int=7)))),
    (Broken.ROOT_MISSING, lambda s: drop(s, s.nodes[ROOT])),
    (Broken.SECOND_ROOT, one_more_root),
    (Broken.SECOND_ROOT, root_under_itself),
    (Broken.SECOND_ROOT, root_under_a_child),
    (Broken.HEAD_HEIGHT, lambda s: setattr(s, "head", replace(s.head, height=2))),
    (Broken.HEAD_LEAF_COUNT, lambda s: setattr(s, "head", replace(s.head, leaf_count=44))),
    (Broken.PARENT_MISSING, lambda s: change(s, s.level(0)[3], parent_id=NOWHERE)),
    (Broken.PARENT_MISSING, lambda s: drop(s, s.level(1)[5])),
    (Broken.PARENT_LEVEL, hang_leaf_under_level_2),
    (Broken.PARENT_LEVEL, lambda s: change(s, s.level(1)[1], level=2)),
    (Broken.CHILDLESS, leaf_without_a_path),
    (Broken.CHILDLESS, lambda s: drop(s, s.level(0)[-1])),
    (Broken.OVERFULL, lambda s: move_leaf(s, 1)),
    (Broken.UNDERFULL, lambda s: drop(s, *s.level(0)[1:4])),
    (Broken.INTERVAL, lambda s: change(s, s.level(1)[3], time_end=1)),
    (Broken.INTERVAL, lambda s: change(s, s.level(2)[0], time_start=None)),
    (Broken.INTERVAL, lambda s: change(s, s.level(0)[8], time_start=-1)),
    (Broken.LEAF_COUNT, lambda s: change(s, s.level(1)[2], leaf_count=5)),
    (Broken.LEAF_COUNT, lambda s: change(s, s.level(0)[0], leaf_count=2)),
    (Broken.LEAF_COUNT, lambda s: drop(s, s.level(0)[9])),
    (Broken.VERSION, lambda s: change(s, s.level(1)[0], clean_version=2)),
    (Broken.PAYLOAD_MISSING, lambda s: change(s, s.level(0)[6], payload_id=None)),
    (Broken.PAYLOAD_UNEXPECTED, lambda s: change(s, s.level(1)[6], payload_id=PayloadId(UUID(int=3)))),
    (Broken.PAYLOAD_REPEATED, lambda s: change(s, s.level(0)[6], payload_id=s.level(0)[7].payload_id)),
    (Broken.KEY_MISSING, lambda s: change(s, s.level(0)[5], key=None)),
    (Broken.KEY_MISSING, lambda s: change(s, s.level(1)[5], key=None)),
    (Broken.KEY_UNEXPECTED, lambda s: change(s, s.level(1)[0], key=s.level(0)[0].key)),
    (Broken.KEY_UNEXPECTED, lambda s: change(s, s.nodes[ROOT], key=s.level(0)[0].key)),
    (Broken.KEY_BOUND, lambda s: change(s, s.level(0)[4], key=s.level(0)[0].key)),
    (Broken.KEY_BOUND, lambda s: change(s, s.level(0)[0], key=PAST_ALL)),
    (Broken.KEY_BOUND, leave_a_gap_below_a_separator),
    (Broken.KEY_BOUND, lambda s: swap_keys(s, 1, 5, 9)),
    (Broken.KEY_BOUND, lambda s: change(s, s.level(1)[6], key=PAST_ALL)),
    (Broken.KEY_ORDER, lambda s: change(s, s.level(0)[1], key=s.level(0)[0].key)),
    (Broken.KEY_ORDER, lambda s: change(s, s.level(1)[2], key=s.level(1)[1].key)),
    (Broken.KEY_ORDER, lambda s: swap_keys(s, 0, 3, 4)),
]


def test_every_violation_can_be_provoked() -> None:
    assert {code for code, _ in BREAKS} | {Broken.REPEATED_ID} == set(Broken)


@pytest.mark.parametrize(("code", "spoil"), BREAKS, ids=[f"{at}-{code}" for at, (code, _) in enumerate(BREAKS)])
def test_a_broken_tree_is_reported(code: Broken, spoil: Break) -> None:
    store = good()
    spoil(store)
    found = violations(store.head, store.nodes.values())
    assert code in {violation.code for violation in found}
    assert all(str(violation.node_id) in violation.sentence for violation in found)


def test_a_node_given_twice_is_reported() -> None:
    store = good()
    found = violations(store.head, [*store.nodes.values(), store.level(1)[3]])
    assert [violation.code for violation in found] == [Broken.REPEATED_ID]


def test_a_hundred_thousand_nodes_are_checked_in_seconds() -> None:
    store = TreeStore(k=8, first=leaves(87_500))
    assert len(store.nodes) > 100_000
    started = time.thread_time()
    store.assert_sound()
    assert time.thread_time() - started < 5
