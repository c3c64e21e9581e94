"""mem0's own client against the server: only its host and its key are other ones."""

from __future__ import annotations

import pytest
from mem0 import MemoryClient
from mem0.exceptions import MemoryNotFoundError

from memforest_core import RemoteMemForest
from tests.integrations.conftest import Node


@pytest.fixture(scope="module")
def client(node: Node) -> MemoryClient:
    return MemoryClient(api_key=node.key(), host=node.address)


def filters(owner: str, **more: object) -> dict[str, object]:
    return {"AND": [{"user_id": owner}, *({name: value} for name, value in more.items())]}


def test_the_life_of_a_memory(client: MemoryClient, remote: RemoteMemForest, owner: str) -> None:
    """Given mem0's client, then add, search, get_all, get, update, history and delete do what it expects."""
    added = client.add("I live in Lisbon.", user_id=owner, metadata={"app": "web"})
    (one,) = added["results"]
    assert (one["event"], one["user_id"], one["metadata"]) == ("ADD", owner, {"app": "web"})
    assert "Lisbon" in one["memory"]

    (found,) = client.search("Where do I live?", filters=filters(owner))["results"]
    assert (found["id"], found["memory"]) == (one["id"], one["memory"])
    assert found["score"] > 0
    assert client.search("Where do I live?", filters=filters(owner, metadata={"app": "phone"}))["results"] == []
    assert client.get(one["id"])["memory"] == one["memory"]
    page = client.get_all(filters={"user_id": owner})
    assert (page["count"], page["next"], [each["id"] for each in page["results"]]) == (1, None, [one["id"]])

    updated = client.update(one["id"], text="I live in Porto.")
    assert updated["memory"] == "I live in Porto."
    assert client.get(one["id"])["memory"] == "I live in Porto.", "the old id stands for it"
    assert client.get(updated["id"])["created_at"] == one["created_at"]
    assert [each["memory"] for each in client.get_all(filters={"user_id": owner})["results"]] == ["I live in Porto."]
    history = client.history(one["id"])
    assert [(each["event"], each["old_memory"], each["new_memory"]) for each in history] == [
        ("ADD", None, one["memory"]),
        ("UPDATE", one["memory"], "I live in Porto."),
    ]
    assert client.history(updated["id"]) == history

    assert "deleted" in client.delete(one["id"])["message"]
    for id_ in (one["id"], updated["id"]):
        with pytest.raises(MemoryNotFoundError):
            client.get(id_)
    assert client.get_all(filters={"user_id": owner})["count"] == 0
    assert "Lisbon" not in remote.recall(owner, "Where do I live?").text(), "nor do the words stay that say it"


def test_a_memory_can_be_changed_back(client: MemoryClient, owner: str) -> None:
    (one,) = client.add("I live in Lisbon.", user_id=owner)["results"]
    client.update(one["id"], text="I live in Porto.")
    back = client.update(one["id"], text=one["memory"])

    assert back["memory"] == one["memory"]
    assert client.get(one["id"])["memory"] == one["memory"]
    assert [each["memory"] for each in client.get_all(filters={"user_id": owner})["results"]] == [one["memory"]]
    assert [each["new_memory"] for each in client.history(one["id"])] == ["I live in Porto.", one["memory"]]


def test_runs_are_sessions(client: MemoryClient, remote: RemoteMemForest, owner: str) -> None:
    messages = [
        {"role": "user", "content": "My sister Ana lives in Bergen."},
        {"role": "assistant", "content": "Nice."},
    ]
    client.add(messages, user_id=owner, run_id="r1", agent_id="cook")
    client.add("My brother Bo lives in Oslo.", user_id=owner, run_id="r1", timestamp=1_700_000_000)
    client.add("My cat is called Tom.", user_id=owner, run_id="r2")

    assert [turn.content for turn in remote.turns(owner, "r1").items] == [
        "My sister Ana lives in Bergen.",
        "Nice.",
        "My brother Bo lives in Oslo.",
    ]
    first, last = client.get_all(filters=filters(owner, run_id="r1"), page_size=1), None
    assert first["count"] > 1
    assert first["next"] is not None
    last = client.get_all(filters=filters(owner, run_id="r1"), page=first["count"], page_size=1)
    assert (last["next"], len(last["results"])) == (None, 1)
    assert last["results"] != first["results"]
    assert last["previous"] is not None
    cook = client.get_all(filters=filters(owner, agent_id="cook"))["results"]
    assert cook
    assert all(each["agent_id"] == "cook" and each["run_id"] == "r1" for each in cook)
    found = client.search("Who lives where?", filters=filters(owner, run_id="r2"), top_k=5)["results"]
    assert all(each["run_id"] == "r2" for each in found)

    client.delete_all(user_id=owner, run_id="r1")
    assert {each["run_id"] for each in client.get_all(filters={"user_id": owner})["results"]} == {"r2"}
    client.delete_all(user_id=owner)
    assert client.get_all(filters={"user_id": owner})["count"] == 0


def test_a_key_of_one_owner_needs_no_name(node: Node, owner: str) -> None:
    bound = MemoryClient(api_key=node.key(owners=owner), host=node.address)
    (one,) = bound.add("I live in Lisbon.")["results"]

    assert one["user_id"] == owner
    assert [each["id"] for each in bound.get_all()["results"]] == [one["id"]]
