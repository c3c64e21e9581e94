"""Where forests are merged, moved and rebuilt."""

from __future__ import annotations

from memforest_core.domain.routes import Route, Scope, Verb

ROUTES = (
    Route(
        "lifecycle.merge",
        Verb.POST,
        "/operations/merge",
        Scope.ADMIN,
        owners=("sources", "into"),
        example={"sources": ["alice-phone"], "into": "alice", "dry_run": True},
    ),
    Route(
        "lifecycle.merge_conflicts",
        Verb.POST,
        "/merge/conflicts",
        Scope.ADMIN,
        owners=("sources", "into"),
        example={"sources": ["alice-phone"], "into": "alice"},
    ),
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
        example={"owner": "alice"},
    ),
)
