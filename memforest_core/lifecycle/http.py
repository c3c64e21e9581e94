"""Routes of deletions, corrections, merges, rebuilds and retention policies."""

from __future__ import annotations

from memforest_core.domain.routes import Route, Scope, Verb

_ALICE = {"owner": "alice"}
_DAY = {**_ALICE, "session": "2026-05-20"}
_ERASED = {**_ALICE, "session": "2026-05-21", "dry_run": True}
_TRIED = {**_ALICE, "dry_run": True}
_WRITTEN = {**_ALICE, "summaries": True}
_MERGED = {"sources": ["alice-phone"], "into": "alice"}
_OWNERS = ("sources", "into")

ROUTES = (
    Route("lifecycle.forget", Verb.POST, "/operations/erase", Scope.WRITE, example=_ERASED),
    Route("lifecycle.receipt", Verb.GET, "/operations/{operation}/receipt", Scope.READ, owners=()),
    Route("lifecycle.correct", Verb.POST, "/operations/correct", Scope.WRITE),
    Route("lifecycle.pin", Verb.POST, "/operations/pin", Scope.WRITE, example=_DAY),
    Route("lifecycle.unpin", Verb.POST, "/operations/unpin", Scope.WRITE, example=_DAY),
    Route("lifecycle.pins", Verb.GET, "/pins", Scope.READ, example=_ALICE),
    Route(
        "lifecycle.merge",
        Verb.POST,
        "/operations/merge",
        Scope.ADMIN,
        owners=_OWNERS,
        example={**_MERGED, "dry_run": True},
    ),
    Route("lifecycle.merge_conflicts", Verb.POST, "/merge/conflicts", Scope.ADMIN, owners=_OWNERS, example=_MERGED),
    Route("lifecycle.rematerialize_plan", Verb.POST, "/rebuild/plan", Scope.ADMIN, example=_WRITTEN),
    Route("lifecycle.rematerialize", Verb.POST, "/operations/rebuild", Scope.ADMIN, example=_TRIED),
    Route("lifecycle.rematerialize_abandon", Verb.POST, "/rebuild/abandon", Scope.ADMIN, example=_ALICE),
    Route("lifecycle.set_policy", Verb.PUT, "/policies", Scope.ADMIN, example={**_ALICE, "max_age_days": 365}),
    Route("lifecycle.clear_policy", Verb.POST, "/policies/clear", Scope.ADMIN, example=_ALICE),
    Route("lifecycle.policies", Verb.GET, "/policies", Scope.ADMIN, owners=()),
    Route("lifecycle.apply_policy", Verb.POST, "/operations/retain", Scope.ADMIN, example={"dry_run": True}),
    Route("lifecycle.preview_policy", Verb.GET, "/policies/preview", Scope.ADMIN, example=_ALICE),
)
