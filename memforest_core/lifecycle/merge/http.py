"""HTTP routes of merges."""

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
)
