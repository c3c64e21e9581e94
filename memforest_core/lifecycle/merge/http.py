"""HTTP routes of merges."""

from __future__ import annotations

from memforest_core.domain.operation_rules import OperationKind
from memforest_core.domain.routes import Route, Scope, Verb

ROUTES = (
    Route(
        "lifecycle.merge",
        Verb.POST,
        "/operations/merge",
        Scope.ADMIN,
        service="merging.ask",
        starts=OperationKind.MERGE,
        owners=("sources", "into"),
        example={"sources": ["alice-phone"], "into": "alice", "dry_run": True},
    ),
    Route(
        "lifecycle.merge_conflicts",
        Verb.POST,
        "/merge/conflicts",
        Scope.ADMIN,
        service="merging.conflicts",
        owners=("sources", "into"),
        example={"sources": ["alice-phone"], "into": "alice"},
    ),
)
