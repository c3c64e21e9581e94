"""Naming a tree: by id, label, or the unique beginning of either."""

from __future__ import annotations

from uuid import UUID

import pytest

from memforest_core.domain.ids import NodeId, TreeId, TreeKind
from memforest_core.errors import InvalidInput, NotFound
from memforest_core.observe.inspection import chosen
from memforest_core.observe.records import TreeOverview


def tree(number: int, kind: TreeKind, label: str) -> TreeOverview:
    identity = TreeId(UUID(int=number << 100))
    root = NodeId(UUID(int=1))
    return TreeOverview(identity, kind, label, 3, 1, 8, root, None, None, "", scope_key=label.casefold())


BOB = tree(1, TreeKind.ENTITY, "Bob")
BOBBY = tree(2, TreeKind.ENTITY, "Bobby Brown")
MAYA = tree(3, TreeKind.ENTITY, "Maya")
WORK = tree(4, TreeKind.SCENE, "work")
WORK_SESSION = tree(5, TreeKind.SESSION, "work")
TREES = [BOB, BOBBY, MAYA, WORK, WORK_SESSION]


@pytest.mark.parametrize(
    "wanted, found",
    [
        (str(MAYA.id), MAYA),
        (MAYA.id.hex[:8], MAYA),
        ("Maya", MAYA),
        (" maya ", MAYA),
        ("ma", MAYA),
        ("bob", BOB),
        ("bobb", BOBBY),
        ("entity:bob", BOB),
        ("scene:work", WORK),
        ("session:w", WORK_SESSION),
    ],
)
def test_one_tree_is_meant(wanted: str, found: TreeOverview) -> None:
    assert chosen(TREES, wanted) is found


def test_several_are_listed_with_their_ids() -> None:
    with pytest.raises(InvalidInput, match="2 trees match 'work'") as refused:
        chosen(TREES, "work")
    assert refused.value.code == "ambiguous_tree"
    assert str(WORK.id) in refused.value.message
    assert "scene:work" in refused.value.message


def test_none_is_not_found_and_nothing_names_nothing() -> None:
    with pytest.raises(NotFound, match="'zoe'"):
        chosen(TREES, "zoe")
    with pytest.raises(InvalidInput):
        chosen(TREES, "  ")
