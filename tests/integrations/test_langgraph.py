"""The store of a graph: exact as a store, and a recall as a search."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from langgraph.store.base import BaseStore, GetOp, PutOp
from langgraph.store.memory import InMemoryStore

from memforest_core import MemForest, RemoteMemForest
from memforest_core.errors import InvalidInput
from memforest_core.service.integrations.langgraph import MemForestStore

Memory = MemForest | RemoteMemForest


@pytest.fixture
def store(memory: Memory, owner: str) -> MemForestStore:
    return MemForestStore(memory, owner)


def until(found: Callable[[], Any], seconds: float = 20.0) -> Any:
    """What is found within some seconds: a search follows a put after about one."""
    ends = time.monotonic() + seconds
    while not (reported := found()) and time.monotonic() < ends:
        time.sleep(0.1)
    return reported


def used(store: BaseStore) -> list[object]:
    """What a store answers to the same calls."""
    reported: list[object] = []

    def tell(item: Any) -> None:
        reported.append(None if item is None else (item.namespace, item.key, item.value))

    store.put(("users", "alice"), "food", {"text": "I like ramen.", "rating": 5})
    store.put(("users", "alice"), "sport", {"text": "I play tennis.", "rating": 3})
    store.put(("users", "bob"), "food", {"text": "Bob likes soup.", "rating": 4, "tags": ["a", {"b": None}]})
    store.put(("docs",), "food", {"text": "About food."}, index=False)
    tell(store.get(("users", "alice"), "food"))
    tell(store.get(("users", "alice"), "nothing"))
    store.put(("users", "alice"), "food", {"text": "I like pizza now.", "rating": 1})
    tell(store.get(("users", "alice"), "food"))
    reported.append({(item.namespace, item.key) for item in store.search(("users",))})
    reported.append({item.key for item in store.search(("users",), filter={"rating": {"$gte": 3}})})
    reported.append({item.key for item in store.search(("users",), filter={"rating": 3})})
    reported.append({item.key for item in store.search(("users",), filter={"rating": {"$eq": 1}})})
    reported.append(len(store.search(("users",), limit=2)) + len(store.search(("users",), limit=2, offset=2)))
    reported.append(store.list_namespaces())
    reported.append(store.list_namespaces(prefix=("users", "*"), max_depth=1))
    reported.append(store.list_namespaces(suffix=("bob",)))
    reported.append(store.list_namespaces(limit=1, offset=1))
    store.delete(("users", "alice"), "food")
    store.delete(("users", "alice"), "never there")
    tell(store.get(("users", "alice"), "food"))
    store.put(("users", "alice"), "food", {"text": "I like bread."})
    tell(store.get(("users", "alice"), "food"))
    results = store.batch(
        [
            PutOp(("users", "alice"), "food", {"n": 1}),
            GetOp(("users", "alice"), "food"),
            PutOp(("users", "alice"), "food", {"n": 2}),
        ]
    )
    tell(results[1])
    tell(store.get(("users", "alice"), "food"))
    tell(store.get(("users",), "food"))
    return reported


def test_it_answers_as_langgraphs_own_store(store: MemForestStore) -> None:
    assert used(store) == used(InMemoryStore())


def test_a_search_is_a_recall(store: MemForestStore, memory: Memory, owner: str) -> None:
    """Given items and a conversation, then a question finds each in its namespace only, and replaced values nowhere."""
    store.put(("users", "alice"), "home", {"text": "I live in Lisbon."})
    store.put(("users", "bob"), "home", {"text": "Bob lives in Oslo."})
    memory.enqueue(owner, "chat-1", [{"role": "user", "content": "My dentist Kim lives in Porto."}], wait="facts")
    memory.flush(owner)

    def found(prefix: tuple[str, ...], **options: Any) -> list[str]:
        return [item.key for item in store.search(prefix, query="Who lives where?", **options)]

    assert set(found(())) == {"home", "turn@0"}
    assert len(found(("users",))) == 2
    (alice,) = store.search(("users", "alice"), query="Where do I live?")
    assert (alice.namespace, alice.key, alice.value) == (("users", "alice"), "home", {"text": "I live in Lisbon."})
    assert alice.score is not None
    assert found(("users",), filter={"text": "Bob lives in Oslo."}) == ["home"]
    (turn,) = store.search(("conversations",), query="Where does Kim live?")
    assert turn.namespace == ("conversations", "chat-1")
    assert "Porto" in turn.value["content"]
    said = store.get(turn.namespace, turn.key)
    assert said is not None
    assert said.value["content"] == "My dentist Kim lives in Porto."
    assert [item.key for item in store.search(("conversations", "chat-1"))] == ["turn@0"]
    assert ("conversations", "chat-1") in store.list_namespaces()

    store.put(("users", "alice"), "home", {"text": "I live in Rome."})
    assert all("Lisbon" not in str(item.value) for item in store.search((), query="Do I live in Lisbon?"))
    assert until(lambda: [one for one in store.search((), query="Do I live in Rome?") if "Rome" in str(one.value)])
    memory.flush(owner)
    assert until(lambda: all("Lisbon" not in one.text for one in memory.recall(owner, "Who lives in Lisbon?").evidence))


def test_what_a_store_can_not_do_is_refused(store: MemForestStore) -> None:
    with pytest.raises(InvalidInput, match="another namespace"):
        store.put(("conversations", "x"), "k", {"a": 1})
    with pytest.raises(NotImplementedError):
        store.put(("a",), "k", {"a": 1}, ttl=5)
    with pytest.raises(InvalidInput, match="JSON"):
        store.put(("a",), "k", {"a": object()})


def test_what_is_not_to_be_searched_is_not_found(store: MemForestStore, memory: Memory, owner: str) -> None:
    store.put(("a",), "hidden", {"text": "The safe is behind the clock."}, index=False)
    store.put(("a",), "part", {"title": "The cellar has wine.", "body": "The attic has bats."}, index=["title"])
    memory.flush(owner)

    assert [item.key for item in store.search(("a",), query="What is in the cellar?")] == ["part"]
    assert "bats" not in memory.recall(owner, "Where are bats?").text()
    assert store.get(("a",), "hidden").value == {"text": "The safe is behind the clock."}  # type: ignore[union-attr]
