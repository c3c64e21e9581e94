"""Routes of the window of a conversation."""

from memforest_core.domain.routes import GET, POST, READ, WRITE, Route

ROUTES = (
    Route("window", GET, "/window", READ, service="window", example={"owner": "alice"}),
    Route(
        "window_put",
        POST,
        "/window/items",
        WRITE,
        service="window",
        example={"owner": "alice", "session_id": "2026-05-20", "items": [["2026-05-20", "0"]]},
    ),
)
