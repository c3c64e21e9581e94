"""HTTP routes of operations on stored memory: deletions, corrections, pins, merges, rebuilds, retention policies."""

from __future__ import annotations

from memforest_core.domain.operation_rules import OperationKind
from memforest_core.domain.routes import Route, Scope, Verb

_ALICE = {"owner": "alice"}
_SESSION = {**_ALICE, "session": "2026-05-20"}
_MERGED = {"sources": ["alice-phone"], "into": "alice"}
_MERGING = ("sources", "into")

ROUTES = (
    Route(
        "lifecycle.forget",
        Verb.POST,
        "/operations/erase",
        Scope.WRITE,
        service="erasure.ask",
        starts=OperationKind.ERASE,
        example={**_ALICE, "session": "2026-05-21", "dry_run": True},
    ),
    Route("lifecycle.receipt", Verb.GET, "/operations/{operation}/receipt", Scope.READ, service="erasure", owners=()),
    Route(
        "lifecycle.correct",
        Verb.POST,
        "/operations/correct",
        Scope.WRITE,
        service="correction",
        starts=OperationKind.CORRECT,
    ),
    Route("lifecycle.pin", Verb.POST, "/operations/pin", Scope.WRITE, example=_SESSION),
    Route("lifecycle.unpin", Verb.POST, "/operations/unpin", Scope.WRITE, example=_SESSION),
    Route("lifecycle.pins", Verb.GET, "/pins", Scope.READ, service="correction", example=_ALICE),
    Route(
        "lifecycle.merge",
        Verb.POST,
        "/operations/merge",
        Scope.ADMIN,
        service="merging.ask",
        starts=OperationKind.MERGE,
        owners=_MERGING,
        example={**_MERGED, "dry_run": True},
    ),
    Route(
        "lifecycle.merge_conflicts",
        Verb.POST,
        "/merge/conflicts",
        Scope.ADMIN,
        service="merging.conflicts",
        owners=_MERGING,
        example=_MERGED,
    ),
    Route(
        "lifecycle.rematerialize_plan", Verb.POST, "/rebuild/plan", Scope.ADMIN, example={**_ALICE, "summaries": True}
    ),
    Route(
        "lifecycle.rematerialize", Verb.POST, "/operations/rebuild", Scope.ADMIN, example={**_ALICE, "dry_run": True}
    ),
    Route(
        "lifecycle.rematerialize_abandon",
        Verb.POST,
        "/rebuild/abandon",
        Scope.ADMIN,
        service="rematerializing.abandon",
        example=_ALICE,
    ),
    Route(
        "lifecycle.set_policy",
        Verb.PUT,
        "/policies",
        Scope.ADMIN,
        service="retention",
        example={**_ALICE, "max_age_days": 365},
    ),
    Route("lifecycle.clear_policy", Verb.POST, "/policies/clear", Scope.ADMIN, service="retention", example=_ALICE),
    Route("lifecycle.policies", Verb.GET, "/policies", Scope.ADMIN, service="retention", owners=()),
    Route("lifecycle.apply_policy", Verb.POST, "/operations/retain", Scope.ADMIN, example={"dry_run": True}),
    Route(
        "lifecycle.preview_policy",
        Verb.GET,
        "/policies/preview",
        Scope.ADMIN,
        service="retention.preview",
        example=_ALICE,
    ),
)
