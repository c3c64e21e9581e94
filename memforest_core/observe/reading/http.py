"""Where what is stored can be read, page by page."""

from __future__ import annotations

from memforest_core.domain.routes import Route, Scope, Verb

ROUTES = (
    Route(
        "sessions",
        Verb.GET,
        "/sessions",
        Scope.READ,
        example={"owner": "alice"},
    ),
    Route(
        "turns",
        Verb.GET,
        "/turns",
        Scope.READ,
        example={"owner": "alice", "session_id": "2026-05-20"},
    ),
    Route(
        "facts",
        Verb.GET,
        "/facts",
        Scope.READ,
        example={"owner": "alice", "attribute": "residence"},
    ),
    Route(
        "trees",
        Verb.GET,
        "/trees",
        Scope.READ,
        example={"owner": "alice", "kind": "entity"},
    ),
    Route(
        "node",
        Verb.GET,
        "/nodes/{node_id}",
        Scope.READ,
        owners=(),
    ),
)
