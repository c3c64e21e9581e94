"""Where deletions are asked for."""

from __future__ import annotations

from memforest_core.domain.routes import Route, Scope, Verb

ROUTES = (
    Route(
        "lifecycle.forget",
        Verb.POST,
        "/operations/erase",
        Scope.WRITE,
        example={"owner": "alice", "session": "2026-05-21", "dry_run": True},
    ),
    Route(
        "lifecycle.receipt",
        Verb.GET,
        "/operations/{operation}/receipt",
        Scope.READ,
        owners=(),
    ),
)
