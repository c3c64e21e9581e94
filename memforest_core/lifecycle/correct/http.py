"""Where facts are corrected and pinned."""

from __future__ import annotations

from memforest_core.domain.operation_rules import OperationKind
from memforest_core.domain.routes import Route, Scope, Verb

ROUTES = (
    Route(
        "lifecycle.correct",
        Verb.POST,
        "/operations/correct",
        Scope.WRITE,
        service="correction",
        starts=OperationKind.CORRECT,
    ),
    Route(
        "lifecycle.pin", Verb.POST, "/operations/pin", Scope.WRITE, example={"owner": "alice", "session": "2026-05-20"}
    ),
    Route(
        "lifecycle.unpin",
        Verb.POST,
        "/operations/unpin",
        Scope.WRITE,
        example={"owner": "alice", "session": "2026-05-20"},
    ),
    Route("lifecycle.pins", Verb.GET, "/pins", Scope.READ, service="correction", example={"owner": "alice"}),
)
