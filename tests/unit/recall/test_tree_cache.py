"""Children of nodes in memory: those of the right version, of the right tenant, and not too many."""

from __future__ import annotations

from uuid import UUID

import pytest

from memforest_core.domain.ids import NodeId, TenantId, TreeId
from memforest_core.recall import browse
from memforest_core.recall.browse import TreeCache
from memforest_core.recall.records import Below, TreeChild

ACME, OTHER = TenantId("acme"), TenantId("other")


def below(number: int, version: int = 1, children: int = 2) -> Below:
    """A node with children."""
    parent, tree = NodeId(UUID(int=number)), TreeId(UUID(int=7))
    ids = [NodeId(UUID(int=1_000 * number + at)) for at in range(children)]
    return Below(parent, version, tuple(TreeChild(id_, tree, parent, 1, None, id_, None, None) for id_ in ids))


def test_children_are_found_at_their_version_by_their_tenant() -> None:
    cache = TreeCache()
    cache.store(ACME, [below(1, version=3)])
    node = below(1).parent
    assert cache.known(ACME, {node: 3}) == {node: below(1, version=3)}
    assert cache.known(ACME, {node: 2}) == cache.known(ACME, {node: 4}) == cache.known(OTHER, {node: 3}) == {}


def test_a_newer_version_takes_the_place_of_an_older_one() -> None:
    cache = TreeCache()
    cache.store(ACME, [below(1, version=3)])
    cache.store(ACME, [below(1, version=4, children=5)])
    node = below(1).parent
    assert cache.known(ACME, {node: 3}) == {}
    assert cache.known(ACME, {node: 4}) == {node: below(1, version=4, children=5)}


def test_what_was_not_used_for_longest_is_dropped_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browse, "CACHED_CHILDREN", 6)
    cache = TreeCache()
    cache.store(ACME, [below(1), below(2), below(3)])
    first, second, third, fourth = (below(number).parent for number in (1, 2, 3, 4))
    cache.known(ACME, {first: 1})
    cache.store(ACME, [below(4)])
    assert set(cache.known(ACME, dict.fromkeys((first, second, third, fourth), 1))) == {first, third, fourth}


def test_the_same_node_stored_many_times_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browse, "CACHED_CHILDREN", 4)
    cache = TreeCache()
    cache.store(ACME, [below(1)])
    for version in range(2, 9):
        cache.store(ACME, [below(2, version)])
    assert cache.known(ACME, {below(1).parent: 1}) != {}
