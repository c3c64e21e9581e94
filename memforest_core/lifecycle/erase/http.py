"""Routes of deletions and their receipts."""

from __future__ import annotations

from memforest_core.domain.operation_rules import OperationKind
from memforest_core.domain.routes import Route, Scope, Verb

_EXAMPLE = {"owner": "alice", "session": "2026-05-21", "dry_run": True}

ROUTES = (
    Route(
        "lifecycle.forget",
        Verb.POST,
        "/operations/erase",
        Scope.WRITE,
        service="erasure.ask",
        starts=OperationKind.ERASE,
        example=_EXAMPLE,
    ),
    Route("lifecycle.receipt", Verb.GET, "/operations/{operation}/receipt", Scope.READ, service="erasure", owners=()),
)
