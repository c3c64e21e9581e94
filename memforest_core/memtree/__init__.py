"""MemTrees as pure functions: loaded nodes and a change in, a diff out; no storage."""

from memforest_core.memtree.check import Broken, Violation, violations
from memforest_core.memtree.delete import delete
from memforest_core.memtree.insert import KeyTaken, build, insert
from memforest_core.memtree.nodes import MIN_BRANCHING, Diff, Key, Node, TreeHead, leaf
from memforest_core.memtree.paths import NotLoaded

__all__ = [
    "MIN_BRANCHING",
    "Broken",
    "Diff",
    "Key",
    "KeyTaken",
    "Node",
    "NotLoaded",
    "TreeHead",
    "Violation",
    "build",
    "delete",
    "insert",
    "leaf",
    "violations",
]
