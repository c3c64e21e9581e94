"""Routes of reading what is stored, of the log of model calls, and of webhooks with their deliveries."""

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
_HOOK = {"url": "https://example.com/hook", "events": ["session.ready"]}

WEBHOOKS = (
    Route("webhooks.create", Verb.POST, "/webhooks", Scope.ADMIN, owners=(), example=_HOOK),
    Route("webhooks.list", Verb.GET, "/webhooks", Scope.ADMIN, owners=()),
    Route("webhooks.delete", Verb.DELETE, "/webhooks/{endpoint}", Scope.ADMIN, owners=()),
    Route("webhooks.enable", Verb.PUT, "/webhooks/{endpoint}/enabled", Scope.ADMIN, owners=()),
    Route("webhooks.rotate", Verb.POST, "/webhooks/{endpoint}/secret", Scope.ADMIN, owners=()),
    Route("webhooks.deliveries", Verb.GET, "/deliveries", Scope.ADMIN, owners=()),
    Route("webhooks.replay", Verb.POST, "/deliveries/{delivery}/replay", Scope.ADMIN, owners=()),
)
