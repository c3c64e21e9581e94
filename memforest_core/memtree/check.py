"""Checks a whole tree against every structural invariant, for `verify` and property tests."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from memforest_core.domain.ids import NodeId, PayloadId
from memforest_core.memtree.nodes import Key, Node, TreeHead, span_of
from memforest_core.memtree.paths import least, order


class Broken(StrEnum):
    """Which invariant a node breaks."""

    REPEATED_ID = "repeated_id"
    WRONG_TREE = "wrong_tree"
    ROOT_MISSING = "root_missing"
    SECOND_ROOT = "second_root"
    HEAD_HEIGHT = "head_height"
    HEAD_LEAF_COUNT = "head_leaf_count"
    PARENT_MISSING = "parent_missing"
    PARENT_LEVEL = "parent_level"
    CHILDLESS = "childless"
    OVERFULL = "overfull"
    UNDERFULL = "underfull"
    INTERVAL = "interval"
    LEAF_COUNT = "leaf_count"
    VERSION = "version"
    PAYLOAD_MISSING = "payload_missing"
    PAYLOAD_UNEXPECTED = "payload_unexpected"
    PAYLOAD_REPEATED = "payload_repeated"
    KEY_MISSING = "key_missing"
    KEY_UNEXPECTED = "key_unexpected"
    KEY_BOUND = "key_bound"
    KEY_ORDER = "key_order"


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken invariant, the node that breaks it, and a sentence for people."""

    code: Broken
    node_id: NodeId
    sentence: str


@dataclass(frozen=True, slots=True)
class _Whole:
    """A tree laid out for checking."""

    head: TreeHead
    nodes: dict[NodeId, Node]
    children: dict[NodeId, list[Node]]

    def under(self, node: Node) -> list[Node]:
        return self.children.get(node.id, [])


def violations(head: TreeHead, nodes: Iterable[Node]) -> list[Violation]:
    """Every broken invariant of the tree whose nodes, in any order, are all in ``nodes``.

    One fault may break several invariants. An empty list means a sound tree. Linear but for sorting
    siblings; the nodes are held in memory once.
    """
    whole = _Whole(head, {}, defaultdict(list))
    found: list[Violation] = []
    for node in nodes:
        if node.id in whole.nodes:
            found.append(_broken(Broken.REPEATED_ID, node, "appears more than once"))
            continue
        whole.nodes[node.id] = node
        if node.parent_id is not None:
            whole.children[node.parent_id].append(node)
    for siblings in whole.children.values():
        siblings.sort(key=order)
    root = whole.nodes.get(head.root_id)
    found += _root(whole, root)
    spine = _right_spine(whole, root)
    payloads: set[PayloadId] = set()
    for node in whole.nodes.values():
        found += _placed(whole, node)
        found += _leaf(node, payloads) if node.level == 0 else _internal(whole, node, spine)
    found += _keys(whole, root)
    return found


def _broken(code: Broken, node: Node, what: str) -> Violation:
    kind = "leaf" if node.level == 0 else f"level-{node.level} node"
    return Violation(code, node.id, f"{kind} {node.id} {what}")


def _root(whole: _Whole, root: Node | None) -> Iterator[Violation]:
    head = whole.head
    if root is None:
        sentence = f"tree {head.tree_id} has no node {head.root_id}, its root"
        yield Violation(Broken.ROOT_MISSING, head.root_id, sentence)
        return
    if root.level != head.height:
        yield _broken(Broken.HEAD_HEIGHT, root, f"is the root of a tree of height {head.height}")
    if root.leaf_count != head.leaf_count:
        yield _broken(Broken.HEAD_LEAF_COUNT, root, f"counts {root.leaf_count} leaves, its head {head.leaf_count}")


def _right_spine(whole: _Whole, root: Node | None) -> set[NodeId]:
    spine: set[NodeId] = set()
    while root is not None and root.id not in spine:
        spine.add(root.id)
        root = next(reversed(whole.under(root)), None)
    return spine


def _placed(whole: _Whole, node: Node) -> Iterator[Violation]:
    """The node is in this tree, under a parent one level up, with possible versions."""
    if node.tree_id != whole.head.tree_id:
        yield _broken(Broken.WRONG_TREE, node, f"is of tree {node.tree_id}")
    if node.clean_version > node.version:
        yield _broken(Broken.VERSION, node, f"was summarized at version {node.clean_version}, but is at {node.version}")
    if (node.id == whole.head.root_id) != (node.parent_id is None):
        yield _broken(Broken.SECOND_ROOT, node, f"has the parent {node.parent_id}: the root alone has none")
    elif node.parent_id is not None:
        parent = whole.nodes.get(node.parent_id)
        if parent is None:
            yield _broken(Broken.PARENT_MISSING, node, f"hangs under {node.parent_id}, which is gone")
        elif parent.level != node.level + 1:
            yield _broken(Broken.PARENT_LEVEL, node, f"hangs under a node of level {parent.level}")


def _leaf(node: Node, payloads: set[PayloadId]) -> Iterator[Violation]:
    if node.leaf_count != 1:
        yield _broken(Broken.LEAF_COUNT, node, f"counts {node.leaf_count} leaves")
    if node.payload_id is None:
        yield _broken(Broken.PAYLOAD_MISSING, node, "has no payload")
    elif node.payload_id in payloads:
        yield _broken(Broken.PAYLOAD_REPEATED, node, f"has payload {node.payload_id}, as another leaf does")
    else:
        payloads.add(node.payload_id)


def _internal(whole: _Whole, node: Node, spine: set[NodeId]) -> Iterator[Violation]:
    children, k = whole.under(node), whole.head.k
    if node.payload_id is not None:
        yield _broken(Broken.PAYLOAD_UNEXPECTED, node, "is internal and has a payload")
    empty_tree = node.id == whole.head.root_id and node.level == 1
    if not children and not empty_tree:
        yield _broken(Broken.CHILDLESS, node, "has no children")
    elif len(children) > k:
        yield _broken(Broken.OVERFULL, node, f"has {len(children)} children, at most {k} may be")
    elif node.id not in spine and len(children) < least(k):
        yield _broken(Broken.UNDERFULL, node, f"has {len(children)} children off the right spine, not {least(k)}")
    span, count = (node.time_start, node.time_end), sum(child.leaf_count for child in children)
    if node.leaf_count != count:
        yield _broken(Broken.LEAF_COUNT, node, f"counts {node.leaf_count} leaves, has {count}")
    if span != (whole_span := span_of(children)):
        yield _broken(Broken.INTERVAL, node, f"spans {span}, its children {whole_span}")


def _keys(whole: _Whole, root: Node | None) -> Iterator[Violation]:
    """Walk down level by level: each level is in key order and inside its parents' separators."""
    level = [root] if root is not None else []
    if root is not None and root.key is not None:
        yield _broken(Broken.KEY_UNEXPECTED, root, "is the root and has a separator")
    seen: set[NodeId] = set()
    while level and not seen.intersection(node.id for node in level):
        seen.update(node.id for node in level)
        uppers = [*(node.key for node in level[1:]), None]
        for parent, upper in zip(level, uppers, strict=True):
            yield from _bounds(parent, whole.under(parent), upper)
        level = [child for parent in level for child in whole.under(parent)]
        yield from _level_order(level)


def _bounds(parent: Node, children: Sequence[Node], upper: Key | None) -> Iterator[Violation]:
    for place, child in enumerate(children):
        if child.level > 0 and place == 0:
            # One seek at level 1 must find what a descent finds, so no gap may open here.
            inside = child.key == parent.key
        elif child.key is None:
            continue
        else:
            inside = parent.key is None or child.key >= parent.key
        if not inside or (upper is not None and child.key is not None and child.key >= upper):
            yield _broken(Broken.KEY_BOUND, child, f"is outside what {parent.id} may hold")


def _level_order(level: Sequence[Node]) -> Iterator[Violation]:
    for place, node in enumerate(level):
        leftmost = node.level > 0 and place == 0
        if leftmost and node.key is not None:
            yield _broken(Broken.KEY_UNEXPECTED, node, "is the leftmost and has a separator")
        elif not leftmost and node.key is None:
            yield _broken(Broken.KEY_MISSING, node, "has no key")
    for left, right in pairwise(level):
        if left.key is not None and right.key is not None and left.key >= right.key:
            yield _broken(Broken.KEY_ORDER, right, f"does not come after {left.id} in key order")
