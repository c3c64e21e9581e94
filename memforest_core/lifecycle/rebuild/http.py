"""Routes of rebuilds."""

from memforest_core.domain.routes import ADMIN, POST, Route

_ALICE = {"owner": "alice"}

ROUTES = (
    Route("lifecycle.rematerialize_plan", POST, "/rebuild/plan", ADMIN, example={**_ALICE, "summaries": True}),
    Route("lifecycle.rematerialize", POST, "/operations/rebuild", ADMIN, example={**_ALICE, "dry_run": True}),
    Route(
        "lifecycle.rematerialize_abandon",
        POST,
        "/rebuild/abandon",
        ADMIN,
        service="rematerializing.abandon",
        example=_ALICE,
    ),
)
