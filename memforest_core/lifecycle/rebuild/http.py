"""HTTP routes of rebuilds."""

from __future__ import annotations

from memforest_core.domain.routes import Route, Scope, Verb

ROUTES = (
    Route(
        "lifecycle.rematerialize_plan",
        Verb.POST,
        "/rebuild/plan",
        Scope.ADMIN,
        example={"owner": "alice", "summaries": True},
    ),
    Route(
        "lifecycle.rematerialize",
        Verb.POST,
        "/operations/rebuild",
        Scope.ADMIN,
        example={"owner": "alice", "dry_run": True},
    ),
    Route(
        "lifecycle.rematerialize_abandon",
        Verb.POST,
        "/rebuild/abandon",
        Scope.ADMIN,
        service="rematerializing.abandon",
        example={"owner": "alice"},
    ),
)
