"""Every request that the server adapter sends is one that Qdrant's OpenAPI description allows."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from qdrant_client import QdrantClient

from memforest_core.index.qdrant import collection_schema as schema
from memforest_core.index.qdrant.collection_schema import space
from memforest_core.index.qdrant.server_index import QdrantServerIndex
from memforest_core.index.vector_index import PointKind
from tests.contract.index.builders import ACME, ALICE, DIMENSION, MODEL, named, point, querying, terms
from tests.harness.qdrant_http import QdrantHttp
from tests.harness.qdrant_openapi import operation, problem

COLLECTION = "/collections/{collection_name}"


class Recorder(httpx.BaseTransport):
    """Passes requests on and records them."""

    def __init__(self) -> None:
        self._onward = httpx.HTTPTransport()
        self.requests: list[httpx.Request] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.read()
        self.requests.append(request)
        return self._onward.handle_request(request)

    def close(self) -> None:
        self._onward.close()


@pytest.fixture
def recorded(qdrant_http: QdrantHttp) -> list[httpx.Request]:
    """The requests of every operation of the adapter, with every field in use at least once."""
    recorder = Recorder()
    index = QdrantServerIndex(
        lambda: QdrantClient(url=qdrant_http.url, timeout=5, check_compatibility=False, transport=recorder),
        MODEL,
        DIMENSION,
        shards=6,
        replicas=2,
    )
    index.prepare()
    full = point(
        kind=PointKind.NODE,
        version=3,
        tree_id=named("tree"),
        tree_kind="entity",
        level=2,
        is_root=True,
        session_id=named("session"),
        time_start=1.5,
        time_end=2.5,
    )
    index.upsert([full, point(sparse=terms()), point(version=2)])
    everything: dict[str, Any] = {
        "kinds": (PointKind.NODE, PointKind.CELL),
        "roots_only": True,
        "tree_ids": (named("tree"),),
        "tree_kinds": ("entity", "scene"),
        "session_ids": (named("session"),),
        "ids": (full.id,),
        "overlaps": (0.0, 9.0),
        "min_score": 0.1,
        "limit": 3,
    }
    [[hit], _] = index.search([querying(**everything), querying(terms(t1=1.0), **everything)])
    assert hit.id == full.id
    index.versions([full.key])
    index.count(ACME)
    index.count(ACME, ALICE)
    index.delete([full.key])
    index.close()
    return recorder.requests


def body(request: httpx.Request) -> Any:
    return json.loads(request.content) if request.content else None


def fault(request: httpx.Request, sent: Any) -> str | None:
    return problem(request.method, request.url.path, dict(request.url.params), sent)


def test_every_request_is_described(recorded: list[httpx.Request]) -> None:
    assert [(r.url.path, found) for r in recorded if (found := fault(r, body(r)))] == []


def test_every_operation_was_exercised(recorded: list[httpx.Request]) -> None:
    assert {(r.method, operation(r.method, r.url.path)) for r in recorded} == {
        ("GET", COLLECTION),
        ("PUT", COLLECTION),
        ("GET", f"{COLLECTION}/exists"),
        ("PUT", f"{COLLECTION}/index"),
        ("POST", f"{COLLECTION}/points"),
        ("POST", f"{COLLECTION}/points/batch"),
        ("POST", f"{COLLECTION}/points/query/batch"),
        ("POST", f"{COLLECTION}/points/count"),
        ("POST", f"{COLLECTION}/points/delete"),
    }


def test_writes_wait_until_they_are_applied(recorded: list[httpx.Request]) -> None:
    writes = [r for r in recorded if r.url.path.endswith(("/index", "/batch", "/delete"))]
    writes = [r for r in writes if "query" not in r.url.path]
    assert {r.url.params["wait"] for r in writes} == {"true"}


def test_the_collection_is_partitioned_by_forest_with_no_graph_across(recorded: list[httpx.Request]) -> None:
    [created] = [body(r) for r in recorded if r.method == "PUT" and "hnsw_config" in body(r)]
    assert created["hnsw_config"] == {"m": 0, "payload_m": 16}
    assert created["vectors"] == {"dense": {"size": DIMENSION, "distance": "Cosine", "datatype": "float16"}}
    assert created["sparse_vectors"] == {"terms": {"modifier": "idf"}}
    indexes = {body(r)["field_name"]: body(r)["field_schema"] for r in recorded if r.url.path.endswith("/index")}
    assert set(indexes) == set(schema.FIELD_INDEXES)
    assert [name for name, schema in indexes.items() if schema.get("is_tenant")] == ["forest"]


def test_sparse_queries_carry_the_forest_as_their_corpus(recorded: list[httpx.Request]) -> None:
    [searched] = [body(r)["searches"] for r in recorded if r.url.path.endswith("/query/batch")]
    assert "params" not in searched[0]
    assert searched[1]["params"]["idf"]["corpus"]["must"] == [
        {"key": "forest", "match": {"value": str(space(ACME, ALICE))}}
    ]
