"""Reading what is stored: pages in a stable order, what each item says, and whose it is."""

from __future__ import annotations

from itertools import pairwise
from uuid import uuid4

import pytest

from memforest_core import InvalidInput, MemForest, NotFound
from memforest_core.domain.pages import Page
from tests.harness.sayings import said
from tests.harness.stack import Stack

HOBBIES = [f"I bought item{number} for {number + 3} dollars in Denver." for number in range(14)]


def tell(running: Stack) -> None:
    client = running.memory.client
    client.enqueue("bob", "shopping", said(*HOBBIES))
    client.enqueue("bob", "moving", said("I live in Davis.", "I moved to Boston.", start=1_710_000_000))
    client.enqueue("bob", "friends", said("My friend Ann works at Acme.", name="Bob", start=1_720_000_000))
    client.enqueue("carol", "tea", said("I love tea.", name="Carol"))


@pytest.fixture(scope="module")
def memory(grown_once: Stack) -> MemForest:
    return grown_once.memory


def pages(read: object, **options: object) -> list[Page[object]]:
    """All pages, by their cursors."""
    found = [read(**options)]  # type: ignore[operator]
    while found[-1].cursor is not None:
        found.append(read(cursor=found[-1].cursor, **options))  # type: ignore[operator]
        assert len(found) < 100
    return found


def all_of(read: object, **options: object) -> list[object]:
    return [item for page in pages(read, **options) for item in page.items]


def test_sessions_come_newest_first_and_page_by_page(memory: MemForest) -> None:
    found = all_of(lambda **more: memory.sessions("bob", **more), limit=1)

    assert [session.id for session in found] == ["friends", "moving", "shopping"]  # type: ignore[attr-defined]
    assert [session.turns for session in found] == [1, 2, 14]  # type: ignore[attr-defined]


def test_turns_come_in_order_from_the_first_or_as_the_last_ones(memory: MemForest) -> None:
    whole = memory.turns("bob", "shopping").items
    assert [turn.content for turn in whole] == HOBBIES
    assert all_of(lambda **more: memory.turns("bob", "shopping", **more), limit=4) == list(whole)
    assert memory.turns("bob", "shopping", last=3).items == whole[-3:]
    assert memory.turns("bob", "shopping", last=3, before=whole[5].id).items == whole[2:5]
    assert memory.turns("bob", "shopping", before=whole[2].id).items == whole[:2]


def test_facts_name_their_turns_and_are_filtered(memory: MemForest) -> None:
    found = all_of(lambda **more: memory.facts("bob", **more), limit=3)
    assert len(found) == len({fact.id for fact in found}) >= 16  # type: ignore[attr-defined]

    [boston] = [fact for fact in memory.facts("bob", session_id="moving").items if "Boston" in fact.text]
    [source] = boston.sources
    assert source.session_id == "moving"
    assert [memory.turns("bob", "moving").items[1].id] == list(source.turn_ids)
    assert boston in memory.facts("bob", attribute="residence").items
    assert boston in memory.facts("bob", about="bob", since="2024-03-01", until="2024-04-01").items
    assert boston not in memory.facts("bob", until="2024-01-01").items
    assert memory.facts("bob", pinned=True).items == ()
    assert len(memory.facts("bob", superseded=False).items) == len(found)


def test_trees_and_nodes_lead_from_a_root_to_what_was_said(memory: MemForest) -> None:
    [tree] = [tree for tree in memory.trees("bob", kind="session").items if tree.label == "shopping"]
    assert tree.leaves == 7
    assert tree.summary
    root = memory.node(tree.root_id)
    assert (root.parent, root.predecessor, root.successor) == (None, None, None)
    assert root.node.text == tree.summary

    level = [root.node]
    while level[0].level > 0:
        below = []
        for node in level:
            children = all_of(lambda _node=node, **more: memory.node(_node.id, **more).children, limit=1)
            assert all(memory.node(child.id).parent == node for child in children)  # type: ignore[attr-defined]
            below += children
        level = below  # type: ignore[assignment]
    assert len(level) == tree.leaves
    assert "item0" in level[0].text
    assert "item13" in level[-1].text
    for before, after in pairwise(level):
        assert memory.node(before.id).successor == after
        assert memory.node(after.id).predecessor == before


def test_all_trees_come_once(memory: MemForest) -> None:
    found = all_of(lambda **more: memory.trees("bob", **more), limit=2)
    assert found == list(memory.trees("bob").items)
    assert {tree.kind for tree in found} >= {"session", "entity"}  # type: ignore[attr-defined]


def test_an_unknown_owner_has_nothing_and_others_see_nothing(memory: MemForest) -> None:
    for page in (
        memory.sessions("nobody"),
        memory.facts("nobody"),
        memory.trees("nobody"),
        memory.turns("nobody", "s"),
    ):
        assert (page.items, page.owner_known) == ((), False)
    assert [session.id for session in memory.sessions("carol").items] == ["tea"]
    with pytest.raises(NotFound, match="no session 'tea'"):
        memory.turns("bob", "tea")
    with pytest.raises(NotFound, match="no session 'tea'"):
        memory.facts("bob", session_id="tea")
    with pytest.raises(NotFound, match="no node"):
        memory.node(uuid4())
    with pytest.raises(NotFound, match="no turn"):
        memory.turns("bob", "moving", before="x")


@pytest.mark.parametrize(
    "options, code",
    [({"limit": 0}, "invalid_limit"), ({"limit": 1_001}, "invalid_limit"), ({"cursor": "?"}, "invalid_cursor")],
)
def test_wrong_options_are_refused_with_what_to_change(
    memory: MemForest, options: dict[str, object], code: str
) -> None:
    tree = memory.trees("bob").items[0]
    for read in (
        lambda: memory.sessions("bob", **options),  # type: ignore[arg-type]
        lambda: memory.turns("bob", "moving", **options),  # type: ignore[arg-type]
        lambda: memory.facts("bob", **options),  # type: ignore[arg-type]
        lambda: memory.trees("bob", **options),  # type: ignore[arg-type]
        lambda: memory.node(tree.root_id, **options),  # type: ignore[arg-type]
    ):
        with pytest.raises(InvalidInput) as refused:
            read()
        assert refused.value.code == code
    for read, other in (
        (lambda: memory.trees("bob", kind="leaf"), "invalid_kind"),
        (lambda: memory.turns("bob", "moving", last=0), "invalid_last"),
        (lambda: memory.node("x"), "invalid_node_id"),
    ):
        with pytest.raises(InvalidInput) as refused:
            read()
        assert refused.value.code == other
