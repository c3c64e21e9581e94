"""Routes of webhooks and their deliveries."""

from __future__ import annotations

from memforest_core.domain.routes import Route, Scope, Verb

_EXAMPLE = {"url": "https://example.com/hook", "events": ["session.ready"]}

ROUTES = (
    Route("webhooks.create", Verb.POST, "/webhooks", Scope.ADMIN, owners=(), example=_EXAMPLE),
    Route("webhooks.list", Verb.GET, "/webhooks", Scope.ADMIN, owners=()),
    Route("webhooks.delete", Verb.DELETE, "/webhooks/{endpoint}", Scope.ADMIN, owners=()),
    Route("webhooks.enable", Verb.PUT, "/webhooks/{endpoint}/enabled", Scope.ADMIN, owners=()),
    Route("webhooks.rotate", Verb.POST, "/webhooks/{endpoint}/secret", Scope.ADMIN, owners=()),
    Route("webhooks.deliveries", Verb.GET, "/deliveries", Scope.ADMIN, owners=()),
    Route("webhooks.replay", Verb.POST, "/deliveries/{delivery}/replay", Scope.ADMIN, owners=()),
)
