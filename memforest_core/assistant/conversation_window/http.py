"""Where the running conversation is seen as a model should see it."""

from __future__ import annotations

from memforest_core.domain.routes import Route, Scope, Verb

ROUTES = (
    Route("window", Verb.GET, "/window", Scope.READ, example={"owner": "alice"}),
    Route(
        "window_put",
        Verb.POST,
        "/window/items",
        Scope.WRITE,
        example={"owner": "alice", "session_id": "2026-05-20", "items": [["2026-05-20", "0"]]},
    ),
)
