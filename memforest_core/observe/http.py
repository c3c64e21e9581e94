"""Routes of reading what is stored, page by page, and of the log of model calls."""

from __future__ import annotations

from memforest_core.domain.routes import Route, Scope, Verb

_ALICE = {"owner": "alice"}

ROUTES = (
    Route("sessions", Verb.GET, "/sessions", Scope.READ, service="reading", example=_ALICE),
    Route("turns", Verb.GET, "/turns", Scope.READ, service="reading", example={**_ALICE, "session_id": "2026-05-20"}),
    Route("facts", Verb.GET, "/facts", Scope.READ, service="reading", example={**_ALICE, "attribute": "residence"}),
    Route("trees", Verb.GET, "/trees", Scope.READ, service="reading", example={**_ALICE, "kind": "entity"}),
    Route("node", Verb.GET, "/nodes/{node_id}", Scope.READ, service="reading", owners=()),
    Route("calls", Verb.GET, "/calls", Scope.READ, service="inspection", example=_ALICE),
)
