"""Routes of reading what is stored, of the log of model calls, and of webhooks with their deliveries."""

from __future__ import annotations

from memforest_core.domain.routes import ADMIN, DELETE, GET, POST, PUT, READ, Route

_ALICE = {"owner": "alice"}

ROUTES = (
    Route("sessions", GET, "/sessions", READ, service="reading", example=_ALICE),
    Route("turns", GET, "/turns", READ, service="reading", example={**_ALICE, "session_id": "2026-05-20"}),
    Route("facts", GET, "/facts", READ, service="reading", example={**_ALICE, "attribute": "residence"}),
    Route("trees", GET, "/trees", READ, service="reading", example={**_ALICE, "kind": "entity"}),
    Route("node", GET, "/nodes/{node_id}", READ, service="reading", owners=()),
    Route("calls", GET, "/calls", READ, service="inspection", example=_ALICE),
)
_HOOK = {"url": "https://example.com/hook", "events": ["session.ready"]}

WEBHOOKS = (
    Route("webhooks.create", POST, "/webhooks", ADMIN, owners=(), example=_HOOK),
    Route("webhooks.list", GET, "/webhooks", ADMIN, owners=()),
    Route("webhooks.delete", DELETE, "/webhooks/{endpoint}", ADMIN, owners=()),
    Route("webhooks.enable", PUT, "/webhooks/{endpoint}/enabled", ADMIN, owners=()),
    Route("webhooks.rotate", POST, "/webhooks/{endpoint}/secret", ADMIN, owners=()),
    Route("webhooks.deliveries", GET, "/deliveries", ADMIN, owners=()),
    Route("webhooks.replay", POST, "/deliveries/{delivery}/replay", ADMIN, owners=()),
)
