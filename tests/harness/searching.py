"""Searches everything that is stored for words: all columns of all tables, all payloads, all keys of the broker."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import redis
import sqlalchemy as sa
from qdrant_edge import ScrollRequest

from memforest_core.index.qdrant.edge_index import EdgeIndex
from tests.harness.stack import Stack

PAGE = 500


def in_tables(pipeline: Stack, words: Sequence[str]) -> dict[str, list[str]]:
    """For each word the columns (``table.column``) that hold it somewhere, bytes read as text included."""
    found: dict[str, list[str]] = {}
    engine = pipeline.owner_engine()
    try:
        with engine.connect() as connection:
            columns = connection.execute(
                sa.text(
                    "SELECT c.table_name, c.column_name, c.data_type FROM information_schema.columns c"
                    " JOIN information_schema.tables t USING (table_schema, table_name)"
                    " WHERE c.table_schema = 'memforest' AND t.table_type = 'BASE TABLE' ORDER BY 1, 2"
                )
            ).all()
            assert len(columns) > 150, "the schema was not read"
            for table, column, kind in columns:
                shown = f"encode({column}, 'escape')" if kind == "bytea" else f"{column}::text"
                texts = connection.scalars(sa.text(f"SELECT {shown} FROM memforest.{table}"))
                everything = "\n".join(text.lower() for text in texts if text is not None)
                for word in words:
                    if word.lower() in everything:
                        found.setdefault(word, []).append(f"{table}.{column}")
    finally:
        engine.dispose()
    return found


def in_points(pipeline: Stack, words: Sequence[str]) -> list[str]:
    """The words that the payload of some point contains."""
    everything = "\n".join(_payloads(pipeline)).lower()
    return [word for word in words if word.lower() in everything]


def _payloads(pipeline: Stack) -> Iterator[str]:
    index = pipeline.services.index
    assert isinstance(index, EdgeIndex)
    offset = None
    while True:
        request = ScrollRequest(limit=PAGE, offset=offset, with_payload=True, with_vector=False)
        points, offset = index._opened().scroll(request)
        yield from (f"{point.id} {point.payload}" for point in points)
        if offset is None:
            return


def in_index_files(pipeline: Stack, words: Sequence[str]) -> list[str]:
    """The words that some file of the index contains, logs and segments alike."""
    path = pipeline.settings.index.path
    assert path is not None
    contents = [file.read_bytes().lower() for file in Path(path).rglob("*") if file.is_file()]
    assert contents, "the index has no files"
    return [word for word in words if any(word.lower().encode() in content for content in contents)]


def in_broker(url: str, words: Sequence[str]) -> list[str]:
    """The words that some key or value of the Redis protocol contains, in any of its databases."""
    client = redis.Redis.from_url(url, single_connection_client=True)
    everything: list[bytes] = []
    try:
        for space in client.info("keyspace"):
            client.select(int(space.removeprefix("db")))
            for key in client.scan_iter(count=1_000):
                everything += [key, *_values(client, key)]
    finally:
        client.close()
    joined = b"\n".join(everything).lower()
    return [word for word in words if word.lower().encode() in joined]


def _values(client: redis.Redis, key: bytes) -> list[bytes]:
    match client.type(key):
        case b"string":
            return [client.get(key) or b""]
        case b"list":
            return list(client.lrange(key, 0, -1))
        case b"set":
            return list(client.smembers(key))
        case b"zset":
            return list(client.zrange(key, 0, -1))
        case b"hash":
            return [part for pair in client.hgetall(key).items() for part in pair]
        case _:
            return []
