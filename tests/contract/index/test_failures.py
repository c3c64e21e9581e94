"""What a server's failures become: wait and retry, or one sentence that says what to fix."""

from __future__ import annotations

import json
from collections.abc import Callable

import httpx
import pytest
from qdrant_client import QdrantClient

from memforest_core.errors import IndexUnavailable, InvalidSettings, InvariantViolated, MemForestError
from memforest_core.index.qdrant import collection_schema as schema
from memforest_core.index.qdrant.server_index import QdrantServerIndex
from memforest_core.index.vector_index import VectorIndex
from tests.contract.index.builders import ACME, DIMENSION, MODEL, keys, named, point, querying


def server_that(answers: Callable[[httpx.Request], httpx.Response]) -> QdrantServerIndex:
    """The index on a server whose every answer is made up."""
    return QdrantServerIndex(
        lambda: QdrantClient(
            url="http://qdrant.invalid", check_compatibility=False, transport=httpx.MockTransport(answers)
        ),
        MODEL,
        DIMENSION,
    )


def refusing(status: int, reason: str = "because", **headers: str) -> QdrantServerIndex:
    def answer(_: httpx.Request) -> httpx.Response:
        return httpx.Response(status, json={"status": {"error": reason}}, headers=headers)

    return server_that(answer)


CALLS: list[Callable[[VectorIndex], object]] = [
    lambda index: index.prepare(),
    lambda index: index.upsert([point()]),
    lambda index: index.delete(keys(named("a"))),
    lambda index: index.search([querying()]),
    lambda index: index.versions(keys(named("a"))),
    lambda index: index.count(ACME),
]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    ("status", "expected", "sentence"),
    [
        (500, IndexUnavailable, "500.*because"),
        (503, IndexUnavailable, "503"),
        (408, IndexUnavailable, "408"),
        (429, IndexUnavailable, "429"),
        (401, InvalidSettings, "api key"),
        (403, InvalidSettings, "api key"),
        (400, InvariantViolated, "because"),
        (422, InvariantViolated, "because"),
        (404, IndexUnavailable, "rebuild"),
    ],
)
def test_a_status_decides_who_has_to_act(
    call: Callable[[VectorIndex], object], status: int, expected: type[MemForestError], sentence: str
) -> None:
    with pytest.raises(expected, match=sentence):
        call(refusing(status))


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    "error",
    [
        httpx.ConnectError("refused"),
        httpx.ReadTimeout("slow"),
        httpx.RemoteProtocolError("cut"),
        httpx.PoolTimeout("busy"),
    ],
)
def test_a_broken_connection_is_worth_a_retry(call: Callable[[VectorIndex], object], error: httpx.HTTPError) -> None:
    def answer(_: httpx.Request) -> httpx.Response:
        raise error

    with pytest.raises(IndexUnavailable, match=type(error).__name__):
        call(server_that(answer))


def test_a_rate_limit_says_how_long_to_wait() -> None:
    with pytest.raises(IndexUnavailable) as raised:
        refusing(429, **{"Retry-After": "7"}).count(ACME)
    assert raised.value.retry_after == 7.0


def test_a_rate_limit_with_an_unreadable_wait_is_worth_a_retry() -> None:
    with pytest.raises(IndexUnavailable):
        refusing(429, **{"Retry-After": "Fri, 31 Dec 1999 23:59:59 GMT"}).count(ACME)


def test_junk_instead_of_an_answer_is_worth_a_retry() -> None:
    with pytest.raises(IndexUnavailable):
        server_that(lambda _: httpx.Response(200, content=b"<html>")).count(ACME)


def test_the_servers_word_on_dimensions_says_what_to_set() -> None:
    reason = "Wrong input: Vector dimension error: expected dim: 8, got 4"
    with pytest.raises(InvalidSettings, match="expected dim: 8, got 4; set the embedding model"):
        refusing(400, reason).upsert([point()])


def test_a_lost_race_to_create_the_collection_is_not_an_error() -> None:
    sent: list[tuple[str, str]] = []
    requested: list[str] = []
    collection = {
        "status": "green",
        "optimizer_status": "ok",
        "segments_count": 1,
        "config": {
            "params": {"vectors": {"dense": {"size": DIMENSION, "distance": "Cosine"}}},
            "hnsw_config": {"m": 0, "ef_construct": 100, "full_scan_threshold": 10000},
            "optimizer_config": {
                "deleted_threshold": 0.2,
                "vacuum_min_vector_number": 1000,
                "default_segment_number": 0,
                "flush_interval_sec": 5,
            },
        },
        "payload_schema": {},
    }

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append((request.method, request.url.path.rsplit("/", 1)[-1]))
        result: object = {"operation_id": 1, "status": "completed"}
        if sent[-1][1] == "exists":
            requested.append(request.url.path.split("/")[-2])
            result = {"exists": requested[-1] == schema.collection_name(MODEL, DIMENSION) and len(sent) > 1}
        elif request.method == "PUT" and "vectors" in json.loads(request.content):
            return httpx.Response(409, json={"status": {"error": "already exists"}})
        elif request.method == "GET":
            result = collection
        return httpx.Response(200, json={"result": result, "status": "ok", "time": 0.0})

    server_that(answer).prepare()
    own = schema.collection_name(MODEL, DIMENSION)
    assert requested == [own, own, *schema.former_names(MODEL, DIMENSION)]
    assert [name for _, name in sent].count("index") == 11
