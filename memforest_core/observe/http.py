"""Where calls to models are looked up."""

from __future__ import annotations

from memforest_core.domain.routes import Route, Scope, Verb

ROUTES = (
    Route(
        "calls",
        Verb.GET,
        "/calls",
        Scope.READ,
        example={"owner": "alice"},
    ),
)
