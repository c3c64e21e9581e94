"""Routes of retention policies."""

from __future__ import annotations

from memforest_core.domain.routes import Route, Scope, Verb

_ALICE = {"owner": "alice"}

ROUTES = (
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
