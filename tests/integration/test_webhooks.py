"""Webhooks on the real pipeline: what is posted, to which endpoints, how often, and when no more."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

from memforest_core.cli.program import app as program
from memforest_core.errors import InvalidInput
from memforest_core.ingest.extract.rows import ExtractRows
from memforest_core.models.calls import Embedder
from memforest_core.observe.webhooks import cli
from memforest_core.observe.webhooks.records import Delivery, Event, NewEndpoint
from memforest_core.observe.webhooks.rows import WebhookRows
from memforest_core.store.engine import tenant_transaction
from memforest_core.work.jobs import WorkKind
from tests.harness.receiver import Receiver
from tests.harness.receiver import receiver as running_receiver
from tests.harness.sayings import said
from tests.harness.servers import SessionServers
from tests.harness.stack import Stack, stack

POSTED = said("I moved from Boston to Davis.", "I live with my sister Ann.", "My dog is called Rex.", "He is four.")


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with running_receiver() as running:
        yield running


@pytest.fixture
def own(servers: SessionServers, tmp_path: Path, embedder: Embedder) -> Iterator[Stack]:
    """A pipeline that may post to this machine."""
    with stack(servers, tmp_path, embedder=embedder, webhooks={"allow_private": True}) as running:
        yield running


def hook(own: Stack, receiver: Receiver, *events: Event) -> NewEndpoint:
    return own.memory.webhooks.create(receiver.url, events or None)


def deliveries(own: Stack) -> list[Delivery]:
    return list(own.memory.webhooks.deliveries().items)


def hurry(own: Stack) -> None:
    """All deliveries that wait are due now."""
    own.execute("UPDATE memforest.webhook_delivery SET available_at = now() WHERE state IN ('held', 'ready')")


def flush(own: Stack) -> None:
    own.drive()
    hurry(own)
    own.drive()


def some_event(own: Stack) -> None:
    """An operation that ends: the smallest event."""
    own.memory.client.enqueue("bob", "s1", POSTED[:2])
    own.drive()
    own.memory.lifecycle.forget("bob", session="s1", actor="test", dry_run=True)
    own.drive()


def test_a_session_is_posted_when_its_facts_and_when_its_summaries_are_ready(own: Stack, receiver: Receiver) -> None:
    made = hook(own, receiver)
    own.memory.client.enqueue("bob", "s1", POSTED)
    own.runtime.extract()
    own.runtime.reduce()
    assert [(each.event, each.state) for each in deliveries(own)] in (
        [("session.facts_ready", "ready"), ("session.ready", "held")],
        [("session.ready", "held"), ("session.facts_ready", "ready")],
    )

    flush(own)

    messages = receiver.verified(made.secret)
    assert {message["type"] for message in messages} == {"session.facts_ready", "session.ready"}
    assert len(messages) == 2
    assert {str(message["data"]) for message in messages} == {
        str({"tenant": own.tenant, "owner": "bob", "session_id": "s1"})
    }
    assert [each.state for each in deliveries(own)] == ["done", "done"]
    assert not any(word in body for _, body in receiver.got for word in (b"Boston", b"Rex"))

    own.memory.client.enqueue("bob", "s1", [*POSTED, *said("I have a red bike.", "It is new.")])
    flush(own)
    assert len(receiver.verified(made.secret)) == 4
    assert len(set(receiver.ids)) == 4


def test_no_summaries_are_posted_while_a_tree_of_the_session_waits(own: Stack, receiver: Receiver) -> None:
    hook(own, receiver, Event.READY)
    own.memory.client.enqueue("bob", "s1", POSTED)
    own.runtime.extract()
    own.runtime.reduce()
    hurry(own)
    own.runtime.maintain()
    (held,) = deliveries(own)
    assert (held.state, receiver.got) == ("held", [])
    assert own.memory.status("bob", "s1").dirty_trees > 0
    flush(own)
    assert own.memory.status("bob", "s1").ready
    assert len(receiver.got) == 1


def test_a_tenant_without_an_enabled_endpoint_has_no_deliveries(own: Stack, receiver: Receiver) -> None:
    webhooks = own.memory.webhooks
    webhooks.create(receiver.url, [Event.WORK_DEAD])
    webhooks.enable(webhooks.create(receiver.url).endpoint.id, False)
    own.memory.for_tenant("other").webhooks.create(receiver.url)
    some_event(own)
    assert deliveries(own) == []
    assert own.rows("SELECT 1 FROM memforest.webhook_delivery") == []


def test_operations_are_posted_as_they_end(own: Stack, receiver: Receiver) -> None:
    made = hook(own, receiver, Event.OPERATION_FINISHED)
    some_event(own)
    requested = own.memory.lifecycle.forget("bob", session="s1", actor="test")
    own.memory.lifecycle.cancel(requested.id, actor="test")
    flush(own)
    messages = [message["data"] for message in receiver.verified(made.secret)]
    assert [(each["kind"], each["outcome"], each["owner"]) for each in messages] == [
        ("erase", "done", "bob"),
        ("erase", "cancelled", "bob"),
    ]
    assert messages[1]["operation"] == str(requested.id)


def test_what_is_given_up_is_posted_as_a_dead_letter(own: Stack, receiver: Receiver) -> None:
    made = hook(own, receiver)
    own.memory.client.enqueue("bob", "s1", POSTED)
    with ExtractRows.opened(own.services.engine, own.tenant) as rows:
        window = rows.claim_window(own.runtime.worker, 60.0)
        assert window is not None
        rows.bury_window(window, "crashed", "Its extraction crashed.")
    flush(own)
    messages = receiver.verified(made.secret)
    dead = [message["data"] for message in messages if message["type"] == "work.dead"]
    assert {each["id"] for each in dead} == {str(letter.id) for letter in own.memory.dead.list()}
    assert {(each["kind"], each["step"], each["code"], each["session_id"]) for each in dead} == {
        ("cell", "extract", "crashed", "s1")
    }
    assert sorted(message["type"] for message in messages if message["type"] != "work.dead") == [
        "session.facts_ready",
        "session.ready",
    ]


def test_of_two_last_cells_that_settle_at_once_one_posts_the_session(own: Stack, receiver: Receiver) -> None:
    hook(own, receiver, Event.FACTS_READY)
    own.memory.client.enqueue("bob", "s1", POSTED)
    assert [row[0] for row in own.rows("SELECT ordinal FROM memforest.cell ORDER BY 1")] == [0, 1]

    def settle(ordinal: int, values: str) -> None:
        with tenant_transaction(own.services.engine, own.tenant) as connection:
            connection.execute(sa.text(f"UPDATE memforest.cell SET {values} WHERE ordinal = {ordinal}"))
            time.sleep(0.5)

    own.execute("UPDATE memforest.cell SET state = 'running'")
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(settle, 0, "placed = true")
        second = threads.submit(settle, 1, "state = 'dead'")
        first.result()
        second.result()
    assert [each.data["session_id"] for each in deliveries(own)] == ["s1"]


@pytest.mark.parametrize("change", ["node SET dead = true", "maintenance SET state = 'dead'"])
def test_dead_nodes_and_tasks_are_posted(own: Stack, receiver: Receiver, change: str) -> None:
    own.memory.client.enqueue("bob", "s1", POSTED)
    own.drive()
    own.memory.lifecycle.forget("bob", session="s1", actor="test", dry_run=True)
    own.runtime.maintain()
    made = hook(own, receiver, Event.WORK_DEAD)
    table = change.split()[0]
    only = "level > 0 AND parent_id IS NULL" if table == "node" else "kind = 'erase'"
    own.execute(f"UPDATE memforest.{change} WHERE {only}")
    flush(own)
    letters = {str(letter.id) for letter in own.memory.dead.list()}
    assert letters
    assert {message["data"]["id"] for message in receiver.verified(made.secret)} == letters


def test_a_failed_delivery_is_tried_again_under_the_same_id(own: Stack, receiver: Receiver) -> None:
    made = hook(own, receiver, Event.OPERATION_FINISHED)
    receiver.answers += [(500, {}), (503, {"retry-after": "60"})]
    some_event(own)
    (failed,) = deliveries(own)
    assert (failed.state, failed.attempts, failed.status, failed.error_code) == ("ready", 1, 500, "refused")
    assert failed.next_at is not None and 3 < (failed.next_at - failed.created_at).total_seconds() < 10

    flush(own)
    (failed,) = deliveries(own)
    assert failed.next_at is not None and (failed.next_at - failed.created_at).total_seconds() > 290
    flush(own)

    (done,) = deliveries(own)
    assert (done.state, done.attempts, done.status, done.error_code, done.next_at) == ("done", 3, 204, None, None)
    assert receiver.ids == [str(done.id)] * 3
    assert len({body for _, body in receiver.got}) == 1
    assert len(receiver.verified(made.secret)) == 3


def test_what_never_succeeds_is_dead_and_can_be_replayed(own: Stack, receiver: Receiver) -> None:
    hook(own, receiver, Event.OPERATION_FINISHED)
    receiver.answers += [(500, {})]
    own.execute("ALTER TABLE memforest.webhook_delivery ALTER COLUMN attempts SET DEFAULT 9")
    some_event(own)
    (dead,) = deliveries(own)
    assert (dead.state, dead.attempts, dead.status) == ("dead", 10, 500)
    assert own.memory.webhooks.deliveries(state="dead").items == (dead,)

    assert own.memory.webhooks.replay(dead.id).state == "ready"
    own.drive()

    (done,) = deliveries(own)
    assert (done.id, done.state, done.attempts) == (dead.id, "done", 1)
    own.memory.webhooks.replay(done.id)
    own.drive()
    assert receiver.ids == [str(dead.id)] * 3


def test_an_endpoint_that_is_gone_is_disabled(own: Stack, receiver: Receiver) -> None:
    made = hook(own, receiver, Event.OPERATION_FINISHED)
    receiver.answers += [(410, {})]
    some_event(own)
    (dead,) = deliveries(own)
    assert (dead.state, dead.attempts, dead.error_code) == ("dead", 1, "endpoint_gone")
    assert [each.enabled for each in own.memory.webhooks.list()] == [False]
    some_event(own)
    assert len(deliveries(own)) == 1

    own.memory.webhooks.replay(dead.id)
    own.drive()
    assert [each.error_code for each in deliveries(own)] == ["endpoint_disabled"]
    own.memory.webhooks.enable(made.endpoint.id)
    own.memory.webhooks.replay(dead.id)
    own.drive()
    assert [each.state for each in deliveries(own)] == ["done"]


def test_a_private_address_is_refused_when_it_is_given_and_when_it_is_posted_to(
    servers: SessionServers, tmp_path: Path, embedder: Embedder, receiver: Receiver
) -> None:
    """Given the settings as they are by default, then no endpoint has such an address, and one that was made before
    is not posted to."""
    with stack(servers, tmp_path, embedder=embedder) as strict:
        for url in (receiver.url, receiver.url.replace("http", "https"), "https://[::1]/", "https://localhost/"):
            with pytest.raises(InvalidInput, match="allow_private"):
                strict.memory.webhooks.create(url)
        strict.memory.webhooks.create("https://example.com/hook", [Event.OPERATION_FINISHED])
        # It is in place of a name whose address has changed since.
        port = receiver.url.split(":")[2].split("/")[0]
        strict.execute("UPDATE memforest.webhook_endpoint SET url = :url", url=f"https://hooks.example:{port}/")
        strict.services.webhooks.poster._resolve = lambda host, port: ["127.0.0.1"]
        some_event(strict)
        (failed,) = deliveries(strict)
        assert (failed.state, failed.error_code, failed.status) == ("ready", "address_refused", None)
        assert receiver.got == []


def test_an_owner_that_is_deleted_is_named_by_no_delivery(own: Stack, receiver: Receiver) -> None:
    hook(own, receiver)
    own.memory.client.enqueue("ann", "s1", POSTED[:2])
    own.memory.client.enqueue("bob", "s1", POSTED[:2])
    own.drive()
    receiver.answers += [(500, {})] * 20
    with WebhookRows.opened(own.services.engine, own.tenant) as rows:
        hurry(own)
        rows.check_held(10, 1.0, 1.0)
    with WebhookRows.opened(own.services.engine, own.tenant) as rows:
        token, messages = rows.claim(own.runtime.worker, 16, 60.0)
    requested = own.memory.lifecycle.forget("bob", everything=True, actor="test")
    own.drive()
    receipt = own.memory.lifecycle.receipt(requested.id)
    assert receipt.clean
    left = deliveries(own)
    assert {each.data.get("owner") for each in left} == {"ann", None}
    assert [each.data["kind"] for each in left if "owner" not in each.data] == ["erase"]
    for message in messages:
        own.services.webhooks._settle(own.tenant, token, message, own.services.webhooks._post(own.tenant, message))
    assert {each.id for each in deliveries(own)} == {each.id for each in left}


def test_a_session_that_is_deleted_is_named_by_no_delivery(own: Stack, receiver: Receiver) -> None:
    hook(own, receiver, Event.FACTS_READY, Event.READY)
    own.memory.client.enqueue("bob", "s1", POSTED[:2])
    own.memory.client.enqueue("bob", "s2", POSTED[2:])
    flush(own)
    own.memory.lifecycle.forget("bob", session="s1", actor="test")
    own.drive()
    assert {each.data["session_id"] for each in deliveries(own)} == {"s2"}


@pytest.mark.parametrize("owner", ["bob", "ann"])
def test_a_rebuild_and_a_merge_leave_what_is_held_and_post_no_copy(own: Stack, receiver: Receiver, owner: str) -> None:
    hook(own, receiver, Event.FACTS_READY, Event.READY)
    own.memory.client.enqueue("bob", "s1", POSTED)
    own.runtime.extract()
    own.runtime.reduce()
    if owner == "bob":
        own.memory.lifecycle.rematerialize("bob", actor="test")
    else:
        own.memory.lifecycle.merge(["bob"], "ann", actor="test")
    for _ in range(20 if owner == "bob" else 5):
        own.hurry()
        flush(own)
    assert own.memory.status(owner, "s1").ready
    assert sorted(each.event for each in deliveries(own)) == ["session.facts_ready", "session.ready"]
    assert {each.state for each in deliveries(own)} == {"done"}


def test_deliveries_are_listed_page_by_page_and_dropped_when_they_are_old(own: Stack, receiver: Receiver) -> None:
    hook(own, receiver, Event.OPERATION_FINISHED)
    for _ in range(3):
        some_event(own)
    first = own.memory.webhooks.deliveries(limit=2)
    second = own.memory.webhooks.deliveries(limit=2, cursor=first.cursor)
    assert (len(first.items), len(second.items), second.cursor) == (2, 1, None)
    assert [*first.items, *second.items] == deliveries(own)
    assert own.services.jobs.waiting(WorkKind.PAST) == []

    days = "now() - interval '1 day'"
    own.execute(
        f"UPDATE memforest.webhook_delivery SET available_at = {days} WHERE delivery_id = :id", id=first.items[0].id
    )
    assert own.services.jobs.waiting(WorkKind.PAST) == [own.tenant]
    assert own.services.webhooks.drop_past(own.tenant) == 1
    assert deliveries(own) == [first.items[1], *second.items]
    storage_days = own.rows(
        "SELECT DISTINCT round(extract(epoch FROM available_at - finished_at) / 86400) AS days FROM memforest.webhook_delivery"
    )
    assert [int(row.days) for row in storage_days] == [30]


def test_both_secrets_sign_after_a_change(own: Stack, receiver: Receiver) -> None:
    made = hook(own, receiver, Event.OPERATION_FINISHED)
    changed = own.memory.webhooks.rotate(made.endpoint.id)
    some_event(own)
    assert changed.secret != made.secret
    assert receiver.verified(made.secret) == receiver.verified(changed.secret)
    own.execute("UPDATE memforest.webhook_endpoint SET former_until = now()")
    some_event(own)
    assert receiver.got[-1][0]["webhook-signature"].count("v1,") == 1


def test_all_of_it_by_command(own: Stack, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    client = SimpleNamespace(client=own.memory)
    monkeypatch.setattr(cli, "opened_store", lambda _: nullcontext(client))

    def run(*arguments: str, shown: bool = False) -> dict[str, Any]:
        for form in ([], ["--json"]) if shown else (["--json"],):
            done = CliRunner().invoke(program, ["webhooks", *arguments, *form])
            assert done.exit_code == 0, (done.stdout, done.exception)
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    made = run("create", receiver.url, "--event", "operation.finished", "--description", "The shop")
    id_ = made["endpoint"]["id"]
    some_event(own)
    assert receiver.verified(made["secret"])
    (listed,) = run("list", shown=True)["endpoints"]
    assert (listed["id"], listed["events"], "secret" in listed) == (id_, ["operation.finished"], False)
    (delivered,) = run("deliveries", "--endpoint", id_, "--state", "done", shown=True)["deliveries"]
    assert run("replay", delivered["id"])["state"] == "ready"
    assert not run("enable", id_, "--off")["enabled"]
    assert run("rotate", id_)["secret"] != made["secret"]
    run("delete", id_)
    assert (run("list")["endpoints"], run("deliveries")["deliveries"]) == ([], [])
