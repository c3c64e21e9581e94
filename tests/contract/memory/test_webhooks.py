"""Webhooks are made, listed, changed and replayed alike in the process, from another one, and over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import httpx
import pytest

from memforest_core.client.api import MemForest
from memforest_core.errors import InvalidInput, NotFound
from memforest_core.observe.webhooks.records import Delivery, Event, NewEndpoint
from memforest_core.work.jobs import WorkState
from tests.contract.memory.conftest import Node

URL = "https://nowhere.invalid/hook"
TURN = {"role": "user", "name": "Bob", "content": "I moved from Boston to Davis.", "timestamp": "2023-05-01T09:00:00Z"}


@pytest.fixture
def made(memory: MemForest) -> Iterator[NewEndpoint]:
    """An endpoint that can't be reached."""
    one = memory.webhooks.create(URL, ["operation.finished"], description="The shop")
    yield one
    memory.webhooks.delete(one.endpoint.id)


def reported(memory: MemForest, made: NewEndpoint, owner: str) -> Delivery:
    """A delivery about an operation that has ended."""
    memory.enqueue(owner, "s1", [TURN], wait="facts")
    memory.lifecycle.forget(owner, session="s1", actor="test", dry_run=True).wait()
    return memory.webhooks.deliveries(made.endpoint.id).items[0]


def test_an_endpoint_is_listed_without_its_secret(memory: MemForest, made: NewEndpoint) -> None:
    (found,) = [each for each in memory.webhooks.list() if each.id == made.endpoint.id]
    assert found == made.endpoint
    assert (found.url, found.events, found.description, found.enabled) == (
        URL,
        (Event.OPERATION_FINISHED,),
        "The shop",
        True,
    )
    assert made.secret.startswith("whsec_")
    assert made.secret not in str(memory.webhooks.list())


def test_it_is_disabled_enabled_and_gets_another_secret(memory: MemForest, made: NewEndpoint) -> None:
    assert not memory.webhooks.enable(made.endpoint.id, False).enabled
    assert memory.webhooks.enable(made.endpoint.id).enabled
    changed = memory.webhooks.rotate(made.endpoint.id)
    assert (changed.endpoint, changed.secret != made.secret) == (made.endpoint, True)


def test_deliveries_are_listed_and_replayed(memory: MemForest, made: NewEndpoint, face: str) -> None:
    owner = f"hooked-{face}"
    delivery = reported(memory, made, owner)
    assert (delivery.event, delivery.data["owner"], delivery.data["outcome"]) == ("operation.finished", owner, "done")
    assert delivery.state in (WorkState.READY, WorkState.RUNNING)
    assert memory.webhooks.deliveries(made.endpoint.id, state="dead").items == ()
    assert memory.webhooks.replay(str(delivery.id)).id == delivery.id


def test_what_is_wrong_is_said(memory: MemForest) -> None:
    with pytest.raises(InvalidInput, match="https") as refused:
        memory.webhooks.create("http://example.com")
    assert refused.value.code == "invalid_url"
    with pytest.raises(InvalidInput, match="events"):
        memory.webhooks.create(URL, ["session.gone"])
    for call in (memory.webhooks.delete, memory.webhooks.enable, memory.webhooks.rotate, memory.webhooks.replay):
        with pytest.raises(NotFound):
            call(uuid4())
    with pytest.raises(InvalidInput, match="cursor"):
        memory.webhooks.deliveries(cursor="x")


@pytest.mark.parametrize("options", [{"scope": "write"}, {"owners": "user-*"}])
def test_webhooks_need_an_admin_key_of_all_owners(node: Node, options: dict[str, object]) -> None:
    key = {"Authorization": f"Bearer {node.key(**options)}"}
    with httpx.Client(base_url=node.address, headers=key) as client:
        assert client.get("/v1/webhooks").status_code == 403
        assert client.post("/v1/webhooks", json={"url": URL}).status_code == 403
