"""A Qdrant server for tests: the part of its REST API that MemForest uses, over the real engine.

``python -m tests.harness.qdrant_http --path DIR --port 0`` prints the port and serves until killed;
started again on the same directory it has the same points. Each request is checked against Qdrant's
OpenAPI description and answered with 400 when it does not fit; with ``--unchecked`` none is, as where time is measured.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit
from uuid import UUID

import qdrant_edge as engine

from tests.harness.qdrant_openapi import problem

Json = Any

UNNAMED = ""
"""What the engine calls the vector of a collection that has only one."""


class Refused(Exception):
    """The request is answered with ``status`` and this message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class _EngineRefusal:
    """What the engine refuses (it raises ``Exception`` itself) is a 400, as it is in the server."""

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is Exception:
            raise Refused(400, f"Wrong input: {error}") from error


class Collections:
    """The collections of one directory, each a shard of the engine and the body that created it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._open: dict[str, engine.EdgeShard] = {}
        path.mkdir(parents=True, exist_ok=True)
        for created in sorted(path.glob("*/created.json")):
            shard = created.parent / "shard"
            self._open[created.parent.name] = engine.EdgeShard.load(str(shard))

    def exists(self, name: str) -> bool:
        return name in self._open

    def shard(self, name: str) -> engine.EdgeShard:
        try:
            return self._open[name]
        except KeyError:
            raise Refused(404, f"Not found: Collection `{name}` doesn't exist!") from None

    def created(self, name: str) -> dict[str, Any]:
        self.shard(name)
        body: dict[str, Any] = json.loads((self._path / name / "created.json").read_text())
        return body

    def create(self, name: str, body: dict[str, Any]) -> bool:
        with self._lock, _EngineRefusal():
            if name in self._open:
                raise Refused(409, f"Wrong input: Collection `{name}` already exists!")
            folder = self._path / name / "shard"
            folder.mkdir(parents=True)
            shard = engine.EdgeShard.create(str(folder), _config(body))
            (self._path / name / "created.json").write_text(json.dumps(body))
            self._open[name] = shard  # Last: a reader that finds the collection reads created.json.
        return True

    def drop(self, name: str) -> bool:
        with self._lock:
            shard = self._open.pop(name, None)
            if shard is not None:
                shard.close()
                shutil.rmtree(self._path / name)
        return shard is not None

    def close(self) -> None:
        with self._lock:
            for shard in self._open.values():
                shard.close()
            self._open.clear()


def _config(body: dict[str, Any]) -> engine.EdgeConfig:
    given = body["vectors"]
    dense = {
        name: engine.EdgeVectorParams(
            params["size"],
            getattr(engine.Distance, params["distance"]),
            datatype=getattr(engine.VectorStorageDatatype, (params.get("datatype") or "float32").capitalize()),
        )
        for name, params in ({UNNAMED: given} if "size" in given else given).items()
    }
    sparse = {
        name: engine.EdgeSparseVectorParams(modifier=engine.Modifier.Idf if params.get("modifier") == "idf" else None)
        for name, params in (body.get("sparse_vectors") or {}).items()
    }
    return engine.EdgeConfig(vectors=dense, sparse_vectors=sparse)


def _named(vectors: Json) -> dict[str, Json]:
    return vectors if isinstance(vectors, dict) else {UNNAMED: vectors}


def _vector(raw: Json) -> engine.NamedVector:
    if isinstance(raw, dict):
        return engine.SparseVector(raw["indices"], raw["values"])
    numbers: list[float] = raw
    return numbers


def _filter(raw: dict[str, Any] | None) -> engine.Filter | None:
    if raw is None:
        return None

    def listed(key: str) -> list[engine.ConditionType] | None:
        given = raw.get(key)
        if given is None:
            return None
        return [_condition(one) for one in (given if isinstance(given, list) else [given])]

    return engine.Filter(must=listed("must"), should=listed("should"), must_not=listed("must_not"))


def _condition(raw: dict[str, Any]) -> engine.ConditionType:
    if "has_id" in raw:
        return engine.HasIdCondition({_point_id(one) for one in raw["has_id"]})
    if "key" not in raw:
        nested = _filter(raw)
        assert nested is not None
        return nested
    if raw.get("match") is not None:
        match = raw["match"]
        if "any" in match:
            return engine.FieldCondition(raw["key"], match=engine.MatchAny(match["any"]))
        if "value" in match:
            return engine.FieldCondition(raw["key"], match=engine.MatchValue(match["value"]))
    if raw.get("range") is not None:
        bounds = {key: raw["range"].get(key) for key in ("gt", "gte", "lt", "lte")}
        return engine.FieldCondition(raw["key"], range=engine.RangeFloat(**bounds))
    raise Refused(400, f"this server does not know the condition {json.dumps(raw)[:200]}")


def _point_id(raw: Json) -> engine.PointId:
    return UUID(raw) if isinstance(raw, str) else int(raw)


def _query(raw: dict[str, Any]) -> engine.QueryRequest:
    given = raw.get("query")
    nearest = given["nearest"] if isinstance(given, dict) and "nearest" in given else given
    idf = (raw.get("params") or {}).get("idf")
    corpus = _filter(idf["corpus"]) if isinstance(idf, dict) else None
    return engine.QueryRequest(
        limit=raw.get("limit") or 10,
        offset=raw.get("offset"),
        query=engine.Query.Nearest(_vector(nearest), using=raw.get("using")),
        filter=_filter(raw.get("filter")),
        score_threshold=raw.get("score_threshold"),
        params=engine.SearchParams(idf=engine.IdfParams(corpus=corpus)) if corpus else None,
        with_payload=raw.get("with_payload"),
    )


def _update(raw: dict[str, Any]) -> engine.UpdateOperation:
    if "upsert" in raw:
        body = raw["upsert"]
        points = [
            engine.Point(
                _point_id(one["id"]),
                {name: _vector(vector) for name, vector in _named(one["vector"]).items()},
                one.get("payload"),
            )
            for one in body["points"]
        ]
        return engine.UpdateOperation.upsert_points(points, _filter(body.get("update_filter")))
    if "delete" in raw and "points" in raw["delete"]:
        return engine.UpdateOperation.delete_points([_point_id(p) for p in raw["delete"]["points"]])
    raise Refused(400, f"this server does not know the operation {sorted(raw)}")


def _index_schema(raw: Json) -> Any:
    kind = (raw if isinstance(raw, str) else raw["type"]).capitalize()
    if isinstance(raw, dict) and raw.get("is_tenant"):
        return getattr(engine, f"{kind}IndexParams")(is_tenant=True)
    if isinstance(raw, dict) and kind == "Integer":
        return engine.IntegerIndexParams(lookup=raw.get("lookup"), range=raw.get("range"))
    return getattr(engine.PayloadSchemaType, kind)


class Api:
    """The operations, by the method and the tail of the path below a collection."""

    def __init__(self, collections: Collections, *, checked: bool = True) -> None:
        self._collections = collections
        self._checked = checked
        self._operations: dict[tuple[str, str], Callable[[str, Json], Json]] = {
            ("GET", ""): self._info,
            ("PUT", ""): self._collections.create,
            ("GET", "/exists"): lambda name, _: {"exists": self._collections.exists(name)},
            ("DELETE", ""): lambda name, _: self._collections.drop(name),
            ("PUT", "/index"): self._create_index,
            ("PUT", "/points"): lambda name, body: self._batch(name, {"operations": [{"upsert": body}]})[0],
            ("POST", "/points"): self._retrieve,
            ("POST", "/points/batch"): self._batch,
            ("POST", "/points/delete"): lambda name, body: self._batch(name, {"operations": [{"delete": body}]})[0],
            ("POST", "/points/query"): lambda name, body: self._search(name, {"searches": [body]})[0],
            ("POST", "/points/query/batch"): self._search,
            ("POST", "/points/scroll"): self._scroll,
            ("POST", "/points/count"): self._count,
        }

    def answer(self, method: str, target: str, body: Json) -> Json:
        """The result of one request; raises Refused."""
        parts = urlsplit(target)
        if self._checked and (found := problem(method, parts.path, dict(parse_qsl(parts.query)), body)):
            raise Refused(400, f"Format error in JSON body: {found}")
        matched = re.fullmatch(r"/collections/([^/]+)(/.*)?", parts.path)
        assert matched is not None
        operation = self._operations[method, matched[2] or ""]
        with _EngineRefusal():
            return operation(unquote(matched[1]), body)

    def _info(self, name: str, _: Json) -> Json:
        info = self._collections.shard(name).info()
        created = self._collections.created(name)
        params = {key: created[key] for key in ("vectors", "sparse_vectors") if key in created}
        optimizer = {
            "deleted_threshold": 0.2,
            "vacuum_min_vector_number": 1000,
            "default_segment_number": 0,
            "flush_interval_sec": 5,
        }
        return {
            "status": "green",
            "optimizer_status": "ok",
            "segments_count": info.segments_count,
            "points_count": info.points_count,
            "indexed_vectors_count": info.indexed_vectors_count,
            "config": {
                "params": params,
                "hnsw_config": {"m": 16, "ef_construct": 100, "full_scan_threshold": 10000}
                | (created.get("hnsw_config") or {}),
                "optimizer_config": optimizer,
            },
            "payload_schema": {
                field: {"data_type": str(index.data_type).rsplit(".", 1)[-1].lower(), "points": 0}
                for field, index in info.payload_schema.items()
            },
        }

    def _create_index(self, name: str, body: Json) -> Json:
        schema = _index_schema(body["field_schema"])
        operation = engine.UpdateOperation.create_field_index(body["field_name"], schema)
        self._collections.shard(name).update(operation)
        return _completed()

    def _batch(self, name: str, body: Json) -> list[Json]:
        shard = self._collections.shard(name)
        operations = [_update(raw) for raw in body["operations"]]
        for operation in operations:
            shard.update(operation)
        return [_completed() for _ in operations]

    def _retrieve(self, name: str, body: Json) -> Json:
        ids = [_point_id(one) for one in body["ids"]]
        records = self._collections.shard(name).retrieve(
            ids, body.get("with_payload", True), body.get("with_vector", False)
        )
        return [_record(one) for one in records]

    def _scroll(self, name: str, body: Json) -> Json:
        offset = body.get("offset")
        request = engine.ScrollRequest(
            offset=None if offset is None else _point_id(offset),
            limit=body.get("limit") or 10,
            filter=_filter(body.get("filter")),
            with_payload=body.get("with_payload", True),
            with_vector=body.get("with_vector", False),
        )
        records, following = self._collections.shard(name).scroll(request)
        return {
            "points": [_record(one) for one in records],
            "next_page_offset": None if following is None else str(following),
        }

    def _search(self, name: str, body: Json) -> Json:
        requests = engine.QueryBatchRequest([_query(raw) for raw in body["searches"]])
        found = self._collections.shard(name).query_batch(requests)
        return [{"points": [_scored(point) for point in points]} for points in found]

    def _count(self, name: str, body: Json) -> Json:
        request = engine.CountRequest(body.get("exact", True), _filter(body.get("filter")))
        return {"count": self._collections.shard(name).count(request)}


def _completed() -> Json:
    return {"operation_id": 0, "status": "completed"}


def _record(record: engine.Record) -> Json:
    found: Json = {"id": str(record.id), "payload": record.payload}
    if isinstance(record.vector, dict):
        found["vector"] = {name: _as_json(vector) for name, vector in record.vector.items()}
    return found


def _as_json(vector: Any) -> Json:
    if isinstance(vector, engine.SparseVector):
        return {"indices": vector.indices, "values": vector.values}
    return vector


def _scored(point: engine.ScoredPoint) -> Json:
    return {"id": str(point.id), "version": point.version, "score": point.score, "payload": point.payload}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # One segment for head and body: two would wait for a delayed acknowledgement.
    disable_nagle_algorithm = True
    server: QdrantHttp

    def _serve(self) -> None:
        started = time.perf_counter()
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            result = self.server.api.answer(self.command, self.path, json.loads(raw or b"null"))
            status, answer = 200, {"result": result, "status": "ok"}
        except Refused as refused:
            status, answer = refused.status, {"status": {"error": str(refused)}}
        answer["time"] = time.perf_counter() - started
        sent = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent)

    do_GET = do_PUT = do_POST = do_DELETE = _serve

    def log_message(self, format: str, *args: object) -> None:
        """Quiet: one line a request would drown the test's output."""


class QdrantHttp(ThreadingHTTPServer):
    """The server bound to 127.0.0.1; ``serve_forever`` in a thread or as the process."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, path: Path, port: int = 0, *, checked: bool = True) -> None:
        self.collections = Collections(path)
        self.api = Api(self.collections, checked=checked)
        super().__init__(("127.0.0.1", port), _Handler)

    @property
    def url(self) -> str:
        """Where a client finds it."""
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that was killed in the middle of a request is no error of this server's."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    def server_close(self) -> None:
        """Stop listening and release the directory."""
        super().server_close()
        self.collections.close()


def main(arguments: list[str]) -> None:
    """Serve a directory until the process is killed; the port is the first line of stdout."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--path", type=Path, required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--unchecked", action="store_true", help="believe that requests are as Qdrant describes them")
    options = parser.parse_args(arguments)
    server = QdrantHttp(options.path, options.port, checked=not options.unchecked)
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1:])
