"""Where a chat turn's prompt gets its memory."""

from __future__ import annotations

from memforest_core.domain.routes import Route, Scope, Verb

ROUTES = (
    Route(
        "context",
        Verb.POST,
        "/context",
        Scope.READ,
        example={"owner": "alice", "question": "Where does Alice live?", "max_tokens": 800},
    ),
)
