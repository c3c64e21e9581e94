"""Titles of scenes on the whole stack: of terms, of a model over HTTP with its faults, and gone with deleted words."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from memforest_core.ingest.refresh.records import Title, TitleSource
from memforest_core.ingest.refresh.rows import RefreshRows
from memforest_core.models.calls import Embedder
from memforest_core.observe.reading.records import StoredTree
from tests.harness.model_answers import default_answer, last_user_text, wants_title
from tests.harness.model_faults import Fault
from tests.harness.model_server import ModelServer
from tests.harness.sayings import said
from tests.harness.searching import in_tables
from tests.harness.servers import SessionServers
from tests.harness.stack import Grown, Stack, cloned

PLANTED = "quibovix"
FIRST = 4
"""Sessions at first: fewer facts than the second size."""


def lamps(first: int, last: int) -> list[str]:
    return [f"I bought {n} brass lamps for the long house by the harbour." for n in range(first, last)]


def tell(running: Stack) -> None:
    for number, text in enumerate([*lamps(2, 2 + FIRST), f"I bought 40 {PLANTED} lamps for the long house."]):
        running.memory.enqueue("bob", f"s{number}", said(text, start=1_700_000_000 + number * 86_400))


def more(running: Stack) -> None:
    for number, text in enumerate(lamps(20, 30)):
        running.memory.enqueue("bob", f"m{number}", said(text, start=1_710_000_000 + number * 86_400))
    running.drive()


def scene(running: Stack) -> StoredTree:
    """The largest scene."""
    return max(running.memory.trees("bob", kind="scene").items, key=lambda tree: tree.leaves)


def answer(body: Mapping[str, Any]) -> str:
    """A model that quotes the last text in its title."""
    if wants_title(body) and last_user_text(body).startswith('{"domain"'):
        return json.dumps({"title": f"Named: {json.loads(last_user_text(body))['texts'][-1][:50]}"})
    return default_answer(body)


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(retry_after_s=0.1, answer=answer) as running:
        yield running


@pytest.fixture
def bob(
    servers: SessionServers, grown: Grown, tmp_path: Path, embedder: Embedder, server: ModelServer
) -> Iterator[Stack]:
    """Bob's memory, made offline; scenes are named by a model from now on."""
    one = {"model": "openai/test-model", "api_base": server.url, "api_key": "key-1", "timeout_s": 5.0}
    with cloned(servers, grown, tmp_path, embedder, llm={"summarize": one}) as running:
        yield running


def title_requests(server: ModelServer) -> int:
    return sum(wants_title(call.body) for call in server.requests)


def touch(running: Stack) -> None:
    """Have all roots refreshed."""
    running.execute(
        """UPDATE memforest.node SET version = version + 1 WHERE parent_id IS NULL;
           UPDATE memforest.tree SET first_mark_at = now(), due_at = now(), marks = marks + 1 WHERE state = 'active'"""
    )
    running.drive()


def test_offline_scenes_with_a_tree_are_named_by_their_terms(grown_once: Stack) -> None:
    trees = grown_once.memory.trees("bob").items
    named = [tree for tree in trees if tree.title]
    assert named and {tree.kind.value for tree in named} == {"scene"}
    assert all(tree.title_source == "terms" and len(tree.title) <= 80 for tree in named)
    assert "lamps" in scene(grown_once).title
    assert len(named) == len(grown_once.memory.trees("bob", kind="scene").items)


def test_the_model_names_a_scene_once_at_each_size(bob: Stack, server: ModelServer) -> None:
    """Given a scene of a few facts, when its root is refreshed repeatedly, then the model is called once, and once
    more when the scene has grown past the next size; every call is recorded."""
    touch(bob)
    first = scene(bob)
    assert (first.title_source, first.title[:6]) == ("model", "Named:")
    scenes = len([tree for tree in bob.memory.trees("bob", kind="scene").items if tree.leaves >= 3])
    assert title_requests(server) == scenes
    touch(bob)
    assert title_requests(server) == scenes

    more(bob)

    grown = scene(bob)
    assert grown.leaves >= 10 and grown.title != first.title
    size = bob.rows("SELECT title_size FROM memforest.tree WHERE tree_id = :t", t=grown.id)[0][0]
    assert 10 <= size <= grown.leaves
    recorded = bob.rows("SELECT count(*) FROM memforest.llm_call WHERE step = 'summarize' AND forest_id IS NOT NULL")
    assert recorded[0][0] == len(server.requests)


@pytest.mark.parametrize(
    ("fault", "size"),
    [
        (Fault.SERVER_ERROR, 0),
        (Fault.DISCONNECT, 0),
        (Fault.RATE_LIMIT, 0),
        (Fault.MALFORMED, 5),
        (Fault.WRONG_SCHEMA, 5),
        (Fault.EMPTY, 5),
        (Fault.CONTENT_FILTER, 5),
    ],
)
def test_a_model_that_fails_leaves_terms_that_are_marked(
    bob: Stack, server: ModelServer, fault: Fault, size: int
) -> None:
    """Given a model that fails, then the refresh goes on, and the title says how it was made; a model that was unavailable is
    called once more when it is back."""
    bob.execute("UPDATE memforest.tree SET title = NULL, title_size = NULL, title_source = NULL")
    server.script(*[fault] * 20)
    touch(bob)
    found = scene(bob)
    assert found.title_source == "degraded" and "lamps" in found.title
    stored = bob.rows("SELECT title_size FROM memforest.tree WHERE tree_id = :t", t=found.id)[0][0]
    assert stored == (0 if size == 0 else found.leaves)
    waiting = bob.rows("SELECT count(*) FROM memforest.node_summary WHERE redo_at IS NOT NULL")[0][0]
    assert (waiting > 0) == (size == 0)


def test_a_model_that_was_unavailable_names_the_scene_when_it_is_back(bob: Stack, server: ModelServer) -> None:
    bob.execute("UPDATE memforest.tree SET title = NULL, title_size = NULL, title_source = NULL")
    server.script(Fault.SERVER_ERROR)
    touch(bob)
    bob.execute("UPDATE memforest.node_summary SET redo_at = now() WHERE redo_at IS NOT NULL")
    bob.services.reconciler.run()
    bob.drive()
    assert {tree.title_source for tree in bob.memory.trees("bob", kind="scene").items if tree.leaves >= 3} == {"model"}


def test_words_of_a_deleted_fact_are_in_no_title(bob: Stack, server: ModelServer) -> None:
    """Given a title that quotes a fact, when the fact goes, then the title is gone at once and a new one has none of
    its words."""
    touch(bob)
    assert PLANTED in scene(bob).title
    assert "tree.title" in in_tables(bob, [PLANTED])[PLANTED]

    operation = bob.memory.lifecycle.forget("bob", session=f"s{FIRST}", actor="test")
    bob.drive()

    assert bob.memory.lifecycle.receipt(operation.id).clean
    assert in_tables(bob, [PLANTED]) == {}
    assert scene(bob).title_source == "model"


def test_words_of_a_corrected_fact_leave_the_title(bob: Stack) -> None:
    touch(bob)
    fact = next(each for each in bob.memory.facts("bob").items if PLANTED in each.text)
    assert PLANTED in scene(bob).title
    bob.memory.lifecycle.correct("bob", fact.id, text="Bob bought 40 plain lamps for the long house.", actor="test")
    bob.drive()
    assert PLANTED not in scene(bob).title and scene(bob).title


def test_a_title_that_is_made_while_its_words_are_deleted_is_not_stored(bob: Stack, server: ModelServer) -> None:
    """Given a model that answers after the deletion of what it was shown, then its title is not saved."""
    deleted: list[bool] = []

    def slow(body: Mapping[str, Any]) -> str:
        if wants_title(body) and not deleted:
            deleted.append(True)
            bob.memory.lifecycle.forget("bob", session=f"s{FIRST}", actor="test")
            while bob.runtime.maintain():
                pass
        return answer(body)

    server.answer = slow
    touch(bob)

    assert deleted
    assert in_tables(bob, [PLANTED]) == {}


def test_nothing_older_than_a_deletion_is_saved_as_a_title(bob: Stack) -> None:
    """The statement itself: a root whose texts were read before its words were erased gives no title; a title that
    refresh did not make is left alone."""
    touch(bob)
    root = scene(bob)
    ((version,),) = bob.rows("SELECT version FROM memforest.node WHERE node_id = :n", n=root.root_id)

    def put(text: str) -> bool:
        node, title = _Root(root.root_id, root.id, version), Title(text, 5, TitleSource.MODEL)
        with RefreshRows.opened(bob.services.engine, bob.tenant) as rows:
            assert rows.put_titles([(node, title)]) == []  # type: ignore[list-item]
        return scene(bob).title == text

    assert put("New")
    bob.execute("UPDATE memforest.node SET erased_version = version WHERE node_id = :n", n=root.root_id)
    assert not put("Newer")
    bob.execute("UPDATE memforest.node SET erased_version = 0 WHERE node_id = :n", n=root.root_id)
    bob.execute("UPDATE memforest.tree SET title = 'Mine', title_source = NULL WHERE tree_id = :t", t=root.id)
    assert not put("Newest") and scene(bob).title == "Mine"


class _Root:
    """What ``put_titles`` reads of a node."""

    def __init__(self, node: object, tree: object, version: int) -> None:
        self.id, self.tree_id, self.version = node, tree, version
