"""The operations on stored memory, and which may run concurrently: one table for every pair on the same forest.

The database enforces the table: ``memforest db upgrade`` makes the function ``memforest.operation_rule`` from it. A
test compares it with the page docs/lifecycle.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class OperationKind(StrEnum):
    """The tasks that this version knows. A row may carry another kind, of another version: it is left alone."""

    REBUILD = "index_rebuild"
    """Rewrite all points of a tenant, or of one forest."""
    PARITY = "index_parity"
    """Make a tenant's rows and points agree after one of the stores was restored or lost."""
    ERASE = "erase"
    """Delete turns, a fact, a session, a time range, a speaker's words, or a whole forest."""
    CORRECT = "correct"
    """Give a fact another text or time, or pin it."""
    MERGE = "merge"
    """Move forests into another one."""
    EXPORT = "export"
    """Write a forest to a bundle."""
    IMPORT = "import"
    """Read a forest from a bundle."""
    REMATERIALIZE = "rematerialize"
    """Rebuild a forest's facts, trees and summaries next to the live ones."""
    RETAIN = "retain"
    """Apply a retention policy to a forest."""
    VACUUM = "vacuum"
    """Take deleted rows out of the pages of all tables and their indexes."""


FOLDERS: Mapping[OperationKind, str] = {
    OperationKind.ERASE: "erase",
    OperationKind.CORRECT: "correct",
    OperationKind.MERGE: "merge",
    OperationKind.EXPORT: "bundle",
    OperationKind.IMPORT: "bundle",
    OperationKind.REMATERIALIZE: "rebuild",
    OperationKind.RETAIN: "retain",
}
"""The package of each public operation below ``memforest_core.lifecycle``."""

OPERATIONS = tuple(FOLDERS)


class Role(StrEnum):
    """What an operation does to a forest that it touches."""

    ERASE = "erase"
    CORRECT = "correct"
    """Corrects, pins or unpins a fact."""
    MERGE_FROM = "merge_from"
    """The forest is a source of a merge."""
    MERGE_INTO = "merge_into"
    """The forest is the target of a merge."""
    EXPORT = "export"
    IMPORT = "import"
    """The hidden forest that an import fills."""
    REMATERIALIZE = "rematerialize"
    RETAIN = "retain"


class Answer(StrEnum):
    """What becomes of the operation that was requested later, while the earlier one is not done."""

    CONCURRENT = "concurrent"
    """Both run."""
    WAITS = "waits"
    """It waits until the earlier one is done or given up."""
    OUTWAITS = "outwaits"
    """It waits until the earlier one is done, also while that is given up: it would move the memory that the earlier
    one has to go on with."""
    REFUSED = "refused"
    """It is refused with a sentence: what it names will be somewhere else."""
    OVERTAKES = "overtakes"
    """It goes first, and the earlier one starts again after it."""


_W, _H, _R, _O = Answer.WAITS, Answer.OUTWAITS, Answer.REFUSED, Answer.OVERTAKES

RULES: Mapping[Role, Mapping[Role, Answer]] = {
    Role.ERASE: {
        Role.ERASE: _W,
        Role.MERGE_FROM: _H,
        Role.MERGE_INTO: _W,
        Role.EXPORT: _R,
        Role.REMATERIALIZE: _H,
        Role.RETAIN: _W,
    },
    Role.CORRECT: {Role.MERGE_FROM: _H, Role.MERGE_INTO: _W},
    Role.MERGE_FROM: {
        Role.ERASE: _R,
        Role.CORRECT: _R,
        Role.MERGE_FROM: _R,
        Role.MERGE_INTO: _R,
        Role.REMATERIALIZE: _R,
        Role.RETAIN: _W,
    },
    Role.MERGE_INTO: {
        Role.ERASE: _W,
        Role.MERGE_FROM: _H,
        Role.MERGE_INTO: _W,
        Role.REMATERIALIZE: _H,
        Role.RETAIN: _W,
    },
    Role.EXPORT: {},
    Role.IMPORT: {Role.ERASE: _W},
    Role.REMATERIALIZE: {
        Role.ERASE: _O,
        Role.MERGE_FROM: _R,
        Role.MERGE_INTO: _R,
        Role.REMATERIALIZE: _R,
        Role.RETAIN: _W,
    },
    Role.RETAIN: {Role.MERGE_FROM: _W, Role.MERGE_INTO: _W, Role.REMATERIALIZE: _W, Role.RETAIN: _W},
}
"""The answer by the role of the earlier operation, then of the later one; what is not named runs concurrently."""


def answer(earlier: Role, later: Role) -> Answer:
    """What becomes of the later one."""
    return RULES[earlier].get(later, Answer.CONCURRENT)
