"""HTTP routes of operations on stored memory: deletions, corrections, pins, merges, rebuilds, retention policies."""

from __future__ import annotations

from memforest_core.domain.operation_rules import OperationKind
from memforest_core.domain.routes import ADMIN, GET, POST, PUT, READ, WRITE, Route

_ALICE = {"owner": "alice"}
_SESSION = {**_ALICE, "session": "2026-05-20"}
_MERGED = {"sources": ["alice-phone"], "into": "alice"}
_MERGING = ("sources", "into")

ROUTES = (
    Route(
        "lifecycle.forget",
        POST,
        "/operations/erase",
        WRITE,
        service="erasure.ask",
        starts=OperationKind.ERASE,
        example={**_ALICE, "session": "2026-05-21", "dry_run": True},
    ),
    Route("lifecycle.receipt", GET, "/operations/{operation}/receipt", READ, service="erasure", owners=()),
    Route("lifecycle.correct", POST, "/operations/correct", WRITE, service="correction", starts=OperationKind.CORRECT),
    Route("lifecycle.pin", POST, "/operations/pin", WRITE, example=_SESSION),
    Route("lifecycle.unpin", POST, "/operations/unpin", WRITE, example=_SESSION),
    Route("lifecycle.pins", GET, "/pins", READ, service="correction", example=_ALICE),
    Route(
        "lifecycle.merge",
        POST,
        "/operations/merge",
        ADMIN,
        service="merging.ask",
        starts=OperationKind.MERGE,
        owners=_MERGING,
        example={**_MERGED, "dry_run": True},
    ),
    Route(
        "lifecycle.merge_conflicts",
        POST,
        "/merge/conflicts",
        ADMIN,
        service="merging.conflicts",
        owners=_MERGING,
        example=_MERGED,
    ),
    Route("lifecycle.rematerialize_plan", POST, "/rebuild/plan", ADMIN, example={**_ALICE, "summaries": True}),
    Route("lifecycle.rematerialize", POST, "/operations/rebuild", ADMIN, example={**_ALICE, "dry_run": True}),
    Route(
        "lifecycle.rematerialize_abandon",
        POST,
        "/rebuild/abandon",
        ADMIN,
        service="rematerializing.abandon",
        example=_ALICE,
    ),
    Route(
        "lifecycle.set_policy", PUT, "/policies", ADMIN, service="retention", example={**_ALICE, "max_age_days": 365}
    ),
    Route("lifecycle.clear_policy", POST, "/policies/clear", ADMIN, service="retention", example=_ALICE),
    Route("lifecycle.policies", GET, "/policies", ADMIN, service="retention", owners=()),
    Route("lifecycle.apply_policy", POST, "/operations/retain", ADMIN, example={"dry_run": True}),
    Route("lifecycle.preview_policy", GET, "/policies/preview", ADMIN, service="retention.preview", example=_ALICE),
)
