"""Routes of contexts of a chat turn."""

from memforest_core.domain.routes import POST, READ, Route

ROUTES = (
    Route(
        "context",
        POST,
        "/context",
        READ,
        service="context",
        example={"owner": "alice", "question": "Where does Alice live?", "max_tokens": 800},
    ),
)
