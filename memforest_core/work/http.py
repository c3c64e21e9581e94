"""Where operations, dead letters and the audit are seen."""

from __future__ import annotations

from memforest_core.domain.routes import Route, Scope, Verb

ROUTES = (
    Route("lifecycle.operations", Verb.GET, "/operations", Scope.READ, service="operations.list", owners=()),
    Route("lifecycle.operation", Verb.GET, "/operations/{operation}", Scope.READ, service="operations.get", owners=()),
    Route(
        "lifecycle.wait",
        Verb.GET,
        "/operations/{operation}/wait",
        Scope.READ,
        service="operations.wait_steps",
        owners=(),
    ),
    Route(
        "lifecycle.ended",
        Verb.GET,
        "/operations/{operation}/ended",
        Scope.READ,
        service="operations.ended_steps",
        owners=(),
    ),
    Route("lifecycle.cancel", Verb.POST, "/operations/{operation}/cancel", Scope.WRITE, owners=()),
    Route("lifecycle.audit", Verb.GET, "/audit", Scope.ADMIN, service="operations"),
    Route("dead.list", Verb.GET, "/dead", Scope.ADMIN),
    Route("dead.show", Verb.GET, "/dead/{id_}", Scope.ADMIN, owners=()),
    Route("dead.retry", Verb.POST, "/dead/retry", Scope.ADMIN, owners=()),
    Route("dead.retry_all", Verb.POST, "/dead/retry-all", Scope.ADMIN),
    Route("dead.discard", Verb.POST, "/dead/discard", Scope.ADMIN, owners=()),
)
