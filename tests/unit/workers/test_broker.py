"""What a worker reads from the broker: wake-ups as producers of this product write them, and nothing else."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from memforest_workers.broker import MAX_BODY_CHARS, readable

CALL = [[], {"tenant": "acme", "ref": "s1"}, {"callbacks": None, "errbacks": None, "chain": None, "chord": None}]


def encoded(body: str) -> str:
    return base64.b64encode(body.encode()).decode()


def message(**changed: Any) -> dict[str, Any]:
    """A wake-up as Celery writes it."""
    whole: dict[str, Any] = {
        "body": encoded(json.dumps(CALL)),
        "content-type": "application/json",
        "content-encoding": "utf-8",
        "headers": {"task": "memforest.extract.v1", "id": "42", "retries": 0, "eta": None, "expires": None},
        "properties": {
            "delivery_tag": "7",
            "delivery_info": {"exchange": "", "routing_key": "extract"},
            "body_encoding": "base64",
        },
    }
    return whole | changed


def headers(**changed: Any) -> dict[str, Any]:
    return message(headers=message()["headers"] | changed)


def properties(**changed: Any) -> dict[str, Any]:
    return message(properties=message()["properties"] | changed)


def body_of(read: dict[str, Any] | None) -> Any:
    assert read is not None
    return json.loads(base64.b64decode(read["body"]))


@pytest.mark.parametrize("arguments", [[], ["acme"], ["acme", "s1"]])
def test_a_wake_up_arrives_with_its_task_tenant_and_reference(arguments: list[str]) -> None:
    """Given a wake-up, with its arguments by name or by place, then the worker gets the same one."""
    named = {"tenant": "acme", "ref": "s1"} if not arguments else {}
    read = readable(message(body=encoded(json.dumps([arguments, named, None]))))
    ref = "s1" if len(arguments) != 1 else ""
    assert body_of(read)[:2] == [[], {"tenant": "acme", "ref": ref}]
    assert read is not None
    assert (read["headers"]["task"], read["headers"]["id"]) == ("memforest.extract.v1", "42")
    assert read["properties"]["delivery_tag"] == "7"


def test_what_no_producer_sends_does_not_get_through() -> None:
    """Given callbacks, chains, stamps or a time limit in a message, then the worker never sees them."""
    call = [*CALL[:2], {"callbacks": [{"task": "os.system", "args": ["touch x"]}], "chain": [{"task": "x"}]}]
    read = readable(message(body=encoded(json.dumps(call)), **{"content-type": "application/x-yaml"}))
    assert body_of(read) == CALL
    stamped = readable(headers(stamped_headers=["a"], stamps={"a": 5}, timelimit="abc", retries="x"))
    assert stamped is not None
    assert "stamps" not in stamped["headers"]
    assert (stamped["headers"]["timelimit"], stamped["headers"]["retries"]) == ([None, None], 0)


@pytest.mark.parametrize(
    "broken",
    [
        *(None, 5, "x", [], {}),
        *(message(body=body) for body in ("", "%%%", None, encoded(""), encoded("5"), encoded("null"), encoded("}{"))),
        *(message(body=encoded(body)) for body in ("[[]]", '"x"', "[[1,2,3],{},{}]", '[[],{"tenant":{"a":1}},{}]')),
        message(body=encoded("[" * 5_000)),
        message(body=encoded(json.dumps([["x" * 300], {}, None]))),
        message(body=encoded(" " * MAX_BODY_CHARS)),
        message(headers=None),
        message(properties=None),
        *(headers(task=name) for name in ("os.system", "celery.chord_unlock", None, ["memforest.extract.v1"])),
        *(headers(id={"a": 1}), headers(compression="application/x-gzip"), headers(eta="soon"), headers(expires={})),
        *(properties(delivery_tag=5), properties(delivery_info=None), properties(body_encoding=None)),
    ],
)
def test_anything_else_is_no_wake_up(broken: object) -> None:
    """Given a message that is malformed, too large, or for another task, then it is none of ours."""
    assert readable(broken) is None
