"""What a database and its index have come to, without what no two runs share: random ids, moments, versions."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from memforest_core.domain.ids import TenantId, TreeKind
from memforest_core.domain.operation_rules import OperationKind
from memforest_core.index.vector_index import VectorIndex
from memforest_core.store.engine import tenant_transaction
from memforest_core.store.tables import Base

State = dict[str, list[str]]
"""Canonical rows under the name of what they are, sorted."""

Rows = Mapping[str, list[dict[str, Any]]]

_WORK = {"attempts", "lost_leases", "available_at", "lease_token", "lease_until", "worker_id", "error_text"}
_MOMENTS = {
    "reduce_available_at",
    "created_at",
    "updated_at",
    "extracted_at",
    "placed_at",
    "last_visit_at",
    "made_at",
    "put_at",
    "at",
    "finished_at",
}
_DROPPED = _WORK | _MOMENTS | {"tenant_id", "seq", "audit_id", "task_id"}
_OF_TREE = {"marks", "first_mark_at", "last_mark_at", "root_id"}
_WHETHER = {"due_at", "superseded_at", "retry_at", "redo_at", "cold_at", "title", "title_size", "pack"}
"""Of which only matters whether there is one: moments, and titles, whose terms are weighed against those of the scenes
that were refreshed before."""
_VECTORS = {"centroid", "pooled"}
"""Sums of vectors, of which a length and a weighted sum remain: both forgive the order of adding, nothing else."""
_LEFT_OUT = {
    *("tenant", "worker", "migration", "llm_call", "collection"),
    # Put together below, or numbers of how it went.
    *("tree", "node", "node_summary", "maintenance", "audit", "index_row"),
}
_ID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|\b[0-9a-f]{32}\b")
_PAGE = 500


class _Names:
    """Names for random and derived ids, from what the rows under them say."""

    def __init__(self, rows: Rows) -> None:
        self.of: dict[UUID, str] = {}
        self._taken: Counter[str] = Counter()
        for row in rows["forest"]:
            self._name(row["forest_id"], f"{row['owner']} ({row['state']})")
        for row in rows["session"]:
            self._name(row["session_id"], f"{self.of[row['forest_id']]}/{row['external_id']}")
        for row in rows["cell"]:
            self._name(row["cell_id"], f"{self.of[row['session_id']]}/{row['ordinal']}")
        for row in sorted(rows["fact"], key=lambda each: (each["text"], str(each["mentioned_at"]), each["seq"])):
            self._name(row["fact_id"], f"{self.of[row['forest_id']]}: {row['text']} @{row['time_start']}")
        members: dict[UUID, list[str]] = defaultdict(list)
        for row in (*rows["placement"], *(each for each in rows["node"] if each["level"] == 0)):
            members[row["tree_id"]].append(str(self.plain(row["payload_id"])))
        for row in rows["tree"]:
            # A scene has no name but what it contains: its key is made of ids.
            own = row["kind"] == TreeKind.SCENE
            held = "\n".join(sorted(members[row["tree_id"]]))
            key = hashlib.sha256(held.encode()).hexdigest()[:12] if own else self.plain(row["scope_key"])
            self._name(row["tree_id"], f"{self.of[row['forest_id']]} {row['kind']} {key}")

    def _name(self, id_: UUID, name: str) -> None:
        self._taken[name] += 1
        self.of[id_] = name if self._taken[name] == 1 else f"{name} #{self._taken[name]}"

    def leaves(self, nodes: Iterable[Mapping[str, Any]]) -> None:
        """Name nodes, once trees, cells and facts have names."""
        for row in nodes:
            tree = self.of[row["tree_id"]]
            self.of[row["node_id"]] = f"{tree} > {self.plain(row['payload_id'])}" if row["level"] == 0 else f"{tree} ^"

    def plain(self, value: object) -> object:
        """A value as JSON can keep it and two runs share it."""
        if isinstance(value, UUID):
            return self.of.get(value, "nobody" if value.int else "nil")
        if isinstance(value, str):
            return _ID.sub(lambda found: str(self.plain(UUID(found.group()))), value)
        if isinstance(value, datetime):
            return value.isoformat()
        if isinstance(value, (bytes, memoryview)):
            return bytes(value).hex()
        if isinstance(value, Mapping):
            return {str(self.plain(key)): self.plain(each) for key, each in sorted(value.items())}
        if isinstance(value, (list, tuple)):
            return [self.plain(each) for each in value]
        return value


def _columns(names: _Names, row: Mapping[str, Any], dropped: Iterable[str] = ()) -> dict[str, object]:
    plain: dict[str, object] = {}
    for column, value in row.items():
        if column in _DROPPED or column in dropped:
            continue
        if column in _WHETHER:
            plain[column] = value is not None
        elif column in _VECTORS:
            plain[column] = None if value is None else _marks(np.frombuffer(value, "<f4"))
        else:
            plain[column] = names.plain(value)
    return plain


def _marks(vector: NDArray[np.float32]) -> list[float]:
    weights = np.arange(1, len(vector) + 1) / len(vector)
    return [round(float(np.linalg.norm(vector)), 2), round(float(vector @ weights), 2) + 0.0]


def _line(row: object) -> str:
    return json.dumps(row, sort_keys=True, default=str)


def _nested(
    names: _Names, node: Mapping[str, Any], under: Mapping[UUID, list[dict[str, Any]]], summaries: Mapping[UUID, Any]
) -> object:
    """A node with what is below it, in the order of keys."""
    place = [node["key_time"], node["key_ordinal"], node["key_item"], node["time_start"], node["time_end"]]
    if node["level"] == 0:
        return [names.plain(node["payload_id"]), *place, node["state"]]
    summary = summaries.get(node["node_id"])
    return {
        "place": [*place, node["leaf_count"], node["state"]],
        "summary": None if summary is None else [summary["text"], summary["source"], summary["model"]],
        "indexed_by": None if summary is None else summary["vector_model"],
        "sum": None if summary is None else _columns(names, {"pooled": summary["pooled"]}),
        "children": [_nested(names, child, under, summaries) for child in under.get(node["node_id"], ())],
    }


def _trees(names: _Names, rows: Rows) -> Iterable[str]:
    under: dict[UUID, list[dict[str, Any]]] = defaultdict(list)
    roots: dict[UUID, list[dict[str, Any]]] = defaultdict(list)
    for node in sorted(
        rows["node"], key=lambda each: (each["key_time"], each["key_ordinal"], each["key_item"], each["key_id"])
    ):
        if node["parent_id"] is None:
            roots[node["tree_id"]].append(node)
        else:
            under[node["parent_id"]].append(node)
    summaries = {row["node_id"]: row for row in rows["node_summary"]}
    for tree in rows["tree"]:
        nested = [_nested(names, root, under, summaries) for root in roots[tree["tree_id"]]]
        yield _line(_columns(names, tree, _OF_TREE) | {"nodes": nested})


def _points(names: _Names, index: VectorIndex, tenant: TenantId) -> Iterable[str]:
    cursor: str | None = None
    while True:
        page = index.scan(cursor, _PAGE, tenant)
        for point in page.points:
            yield _line([names.plain(point.id), str(point.kind)])
        cursor = page.cursor
        if cursor is None:
            return


def read_rows(connection: sa.Connection) -> Rows:
    """All rows of all tables that the transaction may see."""
    return {
        table.name: [dict(row) for row in connection.execute(sa.select(table)).mappings()]
        for table in Base.metadata.sorted_tables
        if table.name not in {"worker", "migration", "llm_call", "tenant_role"}
    }


def end_state(engine: sa.Engine, index: VectorIndex, tenant: TenantId) -> State:
    """Everything that a tenant has, of a pipeline at rest. ``differences`` compares two of them."""
    with tenant_transaction(engine, tenant) as connection:
        rows = read_rows(connection)
    names = _Names(rows)
    names.leaves(rows["node"])
    state = {
        table: sorted(_line(_columns(names, row)) for row in found)
        for table, found in rows.items()
        if table not in _LEFT_OUT
    }
    for row in rows["index_row"]:
        row["behind"] = row.pop("version") > row.pop("indexed_version")
    state["index_row"] = sorted(_line(_columns(names, row)) for row in rows["index_row"])
    state["tree"] = sorted(_trees(names, rows))
    state["point"] = sorted(_points(names, index, tenant))
    state["task"] = sorted(
        _line([row["kind"], row["state"], row["error_code"], row["actor"]])
        for row in rows["maintenance"]
        # How many there are depends on the clock: deletions of a span of time share one.
        if row["kind"] != OperationKind.VACUUM
    )
    state["audit"] = sorted(_line([row["action"], row["outcome"], row["actor"]]) for row in rows["audit"])
    return state


def differences(calm: State, other: State, most: int = 5) -> list[str]:
    """The rows that only one of them has, at most ``most`` of each table and side."""
    found = []
    for table in sorted(calm.keys() | other.keys()):
        left, right = Counter(calm.get(table, ())), Counter(other.get(table, ()))
        for side, extra in (("missing", left - right), ("extra", right - left)):
            found += [f"{table} {side}: {row}" for row in list(extra.elements())[:most]]
    return found
