"""Trees against a plain sorted list: whatever arrives, in whatever order and batches."""

from __future__ import annotations

from uuid import UUID

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from memforest_core.domain.ids import NodeId
from memforest_core.memtree import Diff, Key, Node
from tests.unit.memtree.tree_store import ROOT, TreeStore, leaf

TIMES = st.one_of(st.integers(-3, 3), st.integers(-500, 500), st.integers(-(2**62), 2**62))
ENDS = st.none() | st.integers(-100, 100)
DRAFTS = st.tuples(TIMES, st.none() | st.tuples(ENDS, ENDS))
BATCHES = st.lists(DRAFTS, min_size=1, max_size=60)

Span = tuple[int | None, int | None]
Drafts = list[tuple[int, Span | None]]


class SortedList:
    """What a tree must equal: its keys in order, and nothing clever."""

    def __init__(self) -> None:
        self.keys: list[Key] = []
        self.leaves: dict[Key, Node] = {}

    def add(self, batch: list[Node]) -> None:
        self.leaves.update((leaf.key, leaf) for leaf in batch)
        self.keys = sorted(self.leaves)

    def take(self, keys: set[Key]) -> None:
        for key in keys:
            del self.leaves[key]
        self.keys = sorted(self.leaves)


class TreeAgainstList(RuleBasedStateMachine):
    """Every rule inserts into both; the tree loads only the paths that the store would load."""

    def __init__(self) -> None:
        super().__init__()
        self.store = TreeStore(k=3)
        self.list = SortedList()
        self.count = 0

    def leaf(self, time: int, span: Span | None = None) -> Node:
        # Ids in an order of their own, so that equal times are not settled by arrival.
        self.count += 1
        return leaf(time, self.count * 7919 % 10_007, span=span)

    def drawn(self, drafts: Drafts) -> list[Node]:
        return [self.leaf(time, span) for time, span in drafts]

    @initialize(k=st.integers(3, 12), drafts=st.lists(DRAFTS, max_size=60))
    def built(self, k: int, drafts: Drafts) -> None:
        first = self.drawn(drafts)
        self.list.add(first)
        self.store = TreeStore(k=k, first=first)

    @rule(drafts=BATCHES, refreshed=st.booleans())
    def arrives_in_any_order(self, drafts: Drafts, refreshed: bool) -> None:
        if refreshed:
            self.store.refresh()
        self.insert(self.drawn(drafts))

    @rule(count=st.integers(1, 60), step=st.integers(0, 2))
    def is_appended(self, count: int, step: int) -> None:
        last = self.list.keys[-1].time if self.list.keys else 0
        self.insert([self.leaf(last + 1 + step * n) for n in range(count)])

    @rule(count=st.integers(1, 60))
    def comes_before_everything(self, count: int) -> None:
        first = self.list.keys[0].time if self.list.keys else 0
        self.insert([self.leaf(first - 1 - n) for n in range(count)])

    @precondition(lambda self: self.list.keys)
    @rule(place=st.integers(0), count=st.integers(1, 60))
    def crowds_into_one_place(self, place: int, count: int) -> None:
        time = self.list.keys[place % len(self.list.keys)].time
        self.insert([self.leaf(time) for _ in range(count)])

    @precondition(lambda self: self.list.keys)
    @rule(locations=st.lists(st.integers(0), min_size=1, max_size=20), drafts=st.lists(DRAFTS))
    def known_leaves_come_twice(self, locations: list[int], drafts: Drafts) -> None:
        known = [self.list.leaves[self.list.keys[at % len(self.list.keys)]] for at in locations]
        fresh = self.drawn(drafts)
        self.insert([*known, *fresh, *fresh], fresh)

    @precondition(lambda self: self.list.keys)
    @rule(locations=st.lists(st.integers(0), min_size=1, max_size=80))
    def leaves_are_taken_out(self, locations: list[int]) -> None:
        self.remove({self.list.keys[at % len(self.list.keys)] for at in locations})

    @precondition(lambda self: self.list.keys)
    @rule(start=st.integers(0), count=st.integers(1, 200), whole=st.booleans())
    def a_stretch_is_taken_out(self, start: int, count: int, whole: bool) -> None:
        at = 0 if whole else start % len(self.list.keys)
        self.remove(set(self.list.keys[at : None if whole else at + count]))

    def remove(self, keys: set[Key]) -> None:
        """Delete, then hold what is left against what was stored before."""
        before = dict(self.store.nodes)
        kin = {node_id: {child.id for child in self.store.children(node_id)} for node_id in before}
        gone = [self.list.leaves[key].id for key in keys]
        above = {node.id for leaf in gone for node in self.store.ancestors(leaf)}
        diff = self.store.remove([*gone, *gone[:1]])
        self.list.take(keys)
        assert not diff.inserted
        assert set(diff.deleted) == before.keys() - self.store.nodes.keys()
        assert {node.id for node in diff.updated} == {
            id_ for id_, now in self.store.nodes.items() if now != before[id_]
        }
        changed = {id_ for id_ in self.store.nodes if {child.id for child in self.store.children(id_)} != kin[id_]}
        raised = changed | above | {node.id for id_ in changed for node in self.store.ancestors(id_)}
        for node_id, now in self.store.nodes.items():
            old = before[node_id]
            assert now.version - old.version == (node_id in raised)
            assert (now.clean_version, now.payload_id) == (old.clean_version, old.payload_id)

    @rule()
    def is_refreshed(self) -> None:
        self.store.refresh()

    @rule()
    def is_rebuilt(self) -> None:
        self.store = TreeStore(k=self.store.head.k, first=self.list.leaves.values())

    def insert(self, batch: list[Node], fresh: list[Node] | None = None) -> None:
        """Insert, then hold the version rules against what was stored before."""
        before = dict(self.store.nodes)
        new = batch if fresh is None else fresh
        descended = self.descended(new)
        diff = self.store.insert(batch)
        self.list.add(new)
        self.versions_rose_once(before, descended)
        self.new_nodes_are_as_born(diff, new)

    def descended(self, batch: list[Node]) -> set[NodeId]:
        """The nodes that these leaves go through, by the slow way: from each level's separators."""
        found: set[NodeId] = set()
        for level in range(1, self.store.head.height + 1):
            nodes = self.store.level(level)
            for item in batch:
                below = [node for node in nodes if node.key is None or node.key <= item.key]
                found.add(below[-1].id)
        return found

    def versions_rose_once(self, before: dict[NodeId, Node], descended: set[NodeId]) -> None:
        for node_id, old in before.items():
            now = self.store.nodes[node_id]
            assert now.version == old.version + (node_id in descended)
            assert now.clean_version == old.clean_version
            assert now.level == old.level or node_id == ROOT
            assert (now.key, now.payload_id) == (old.key, old.payload_id)

    def new_nodes_are_as_born(self, diff: Diff, fresh: list[Node]) -> None:
        assert {node.id for node in diff.inserted if node.level == 0} == {leaf.id for leaf in fresh}
        for node in diff.inserted:
            assert (node.version, node.clean_version) == ((1, 0) if node.level else (1, 1))
        for item in fresh:
            assert all(above.dirty for above in self.store.ancestors(item.id))

    @invariant()
    def breaks_no_invariant(self) -> None:
        self.store.assert_sound()

    @invariant()
    def has_no_dirty_node_under_a_clean_one(self) -> None:
        nodes = self.store.nodes
        assert all(nodes[node.parent_id].dirty for node in nodes.values() if node.dirty and node.parent_id)
        assert len(self.list.keys) or nodes.keys() == {ROOT}

    @invariant()
    def reads_like_the_list(self) -> None:
        walked = self.store.walk()
        assert [node.key for node in walked] == self.list.keys
        for node in walked:
            assert node.key is not None
            stored = self.list.leaves[node.key]
            assert (node.id, node.payload_id) == (stored.id, stored.payload_id)
            assert (node.time_start, node.time_end) == (stored.time_start, stored.time_end)

    @invariant()
    def its_root_stays(self) -> None:
        assert self.store.head.root_id == ROOT == NodeId(UUID(int=2))
        assert self.store.head.leaf_count == len(self.list.keys)
        root = self.store.nodes[ROOT]
        known = self.list.leaves.values()
        starts = [leaf.time_start for leaf in known if leaf.time_start is not None]
        ends = [leaf.time_end for leaf in known if leaf.time_end is not None]
        assert root.time_start == min(starts, default=None)
        assert root.time_end == max(ends, default=None)


TestTreeAgainstList = TreeAgainstList.TestCase
TestTreeAgainstList.settings = settings(
    max_examples=250, stateful_step_count=14, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
