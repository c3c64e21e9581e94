"""Many sessions in one request, and progress as events."""

from __future__ import annotations

import json
from collections.abc import Iterator
from uuid import uuid4

import httpx
import pytest

from memforest_core.service.http.streams import LINE_BYTES
from tests.contract.memory.conftest import Node

TURN = {"role": "user", "name": "Bob", "content": "I moved from Boston to Davis.", "timestamp": "2023-05-01T09:00:00Z"}


@pytest.fixture(scope="module")
def client(node: Node) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=node.address, headers={"Authorization": f"Bearer {node.key()}"}, timeout=60) as made:
        yield made


def events(answer: httpx.Response) -> list[tuple[str, dict[str, object]]]:
    blocks = [block for block in answer.text.split("\n\n") if block.startswith("event")]
    return [(block.split("\n")[0][7:], json.loads(block.split("\n")[1][6:])) for block in blocks]


def test_each_line_is_answered_by_a_line(node: Node, client: httpx.Client) -> None:
    """Given lines of which some are no sessions, when they are streamed, then the others are stored, in order."""
    owner = f"bulk-{uuid4()}"
    lines = [
        json.dumps({"owner": owner, "session_id": "a", "turns": [TURN]}),
        "{",
        json.dumps({"owner": owner, "session_id": "b", "turns": [TURN], "colour": 1}),
        "",
        json.dumps({"owner": owner, "session_id": "a", "turns": [TURN | {"content": "Other."}]}),
        json.dumps({"owner": owner, "session_id": "c", "turns": [TURN]}),
    ]
    answer = client.post("/v1/sessions/stream", content=(f"{line}\n".encode() for line in lines))

    reported = [json.loads(line) for line in answer.text.splitlines()]
    assert [each["line"] for each in reported] == [1, 2, 3, 5, 6]
    assert [each["stored"]["session_id"] for each in reported if "stored" in each] == ["a", "c"]
    assert [each["problem"]["code"] for each in reported if "problem" in each] == [
        "invalid_request",
        "invalid_request",
        "session_conflict",
    ]
    assert {session.id for session in node.memory.sessions(owner).items} == {"a", "c"}


def test_a_line_that_is_too_long_is_refused(client: httpx.Client) -> None:
    """Given a stream without ends of lines, when it is longer than a line may be, then its answer says so."""
    answer = client.post("/v1/sessions/stream", content=(b"x" * (1 << 20) for _ in range((LINE_BYTES >> 20) + 2)))

    assert [json.loads(line)["problem"]["code"] for line in answer.text.splitlines()] == ["line_too_long"]


def test_a_key_of_some_owners_stores_for_no_other(node: Node) -> None:
    key = node.key(owners="mine-*", scope="write")
    lines = [json.dumps({"owner": owner, "session_id": "a", "turns": [TURN]}) for owner in ("mine-1", "theirs")]
    answer = httpx.post(
        f"{node.address}/v1/sessions/stream",
        content="\n".join(lines),
        headers={"Authorization": f"Bearer {key}"},
        timeout=60,
    )
    first, second = (json.loads(line) for line in answer.text.splitlines())

    assert first["stored"]["owner"] == "mine-1"
    assert second["problem"]["code"] == "owner_not_allowed"


def test_the_progress_of_a_session_comes_until_it_is_ready(node: Node, client: httpx.Client) -> None:
    owner = f"seen-{uuid4()}"
    node.memory.enqueue(owner, "s", [TURN])  # type: ignore[list-item]
    reported = events(client.get("/v1/sessions/events", params={"owner": owner, "session_id": "s"}))

    assert reported[-1][0] == "end"
    assert reported[-1][1]["stage"] == "summaries"
    assert all(name == "progress" for name, _ in reported[:-1])


def test_the_progress_of_an_operation_comes_until_it_has_ended(node: Node, client: httpx.Client) -> None:
    owner = f"seen-{uuid4()}"
    node.memory.enqueue(owner, "s", [TURN], wait="facts")  # type: ignore[list-item]
    requested = node.memory.lifecycle.forget(owner, session="s", actor="test")
    reported = events(client.get(f"/v1/operations/{requested.id}/events"))

    assert reported[-1][0] == "end"
    assert reported[-1][1]["state"] == "done"


def test_events_of_what_is_not_there_are_problems(client: httpx.Client) -> None:
    assert client.get("/v1/sessions/events", params={"owner": "nobody", "session_id": "s"}).status_code == 404
    assert client.get(f"/v1/operations/{uuid4()}/events").status_code == 404


def test_events_end_when_their_time_is_over(node: Node, client: httpx.Client) -> None:
    owner = f"held-{uuid4()}"
    node.memory.append(owner, "s", {"role": "user", "content": "Held back."})
    reported = events(client.get("/v1/sessions/events", params={"owner": owner, "session_id": "s", "timeout_s": 1}))

    assert reported[-1][0] == "timeout"
