"""Routes of webhooks and their deliveries."""

from memforest_core.domain.routes import ADMIN, DELETE, GET, POST, PUT, Route

_HOOK = {"url": "https://example.com/hook", "events": ["session.ready"]}

ROUTES = (
    Route("webhooks.create", POST, "/webhooks", ADMIN, owners=(), example=_HOOK),
    Route("webhooks.list", GET, "/webhooks", ADMIN, owners=()),
    Route("webhooks.delete", DELETE, "/webhooks/{endpoint}", ADMIN, owners=()),
    Route("webhooks.enable", PUT, "/webhooks/{endpoint}/enabled", ADMIN, owners=()),
    Route("webhooks.rotate", POST, "/webhooks/{endpoint}/secret", ADMIN, owners=()),
    Route("webhooks.deliveries", GET, "/deliveries", ADMIN, owners=()),
    Route("webhooks.replay", POST, "/deliveries/{delivery}/replay", ADMIN, owners=()),
)
