"""Routes of retention policies."""

from memforest_core.domain.routes import ADMIN, GET, POST, PUT, Route

_ALICE = {"owner": "alice"}

ROUTES = (
    Route(
        "lifecycle.set_policy", PUT, "/policies", ADMIN, service="retention", example={**_ALICE, "max_age_days": 365}
    ),
    Route("lifecycle.clear_policy", POST, "/policies/clear", ADMIN, service="retention", example=_ALICE),
    Route("lifecycle.policies", GET, "/policies", ADMIN, service="retention", owners=()),
    Route("lifecycle.apply_policy", POST, "/operations/retain", ADMIN, example={"dry_run": True}),
    Route("lifecycle.preview_policy", GET, "/policies/preview", ADMIN, service="retention.preview", example=_ALICE),
)
