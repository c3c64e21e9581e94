"""HTTP routes of notes, profiles and forgetting by words."""

from __future__ import annotations

from memforest_core.domain.routes import Route, Scope, Verb

ROUTES = (
    Route("remember", Verb.POST, "/notes", Scope.WRITE, example={"owner": "alice", "text": "I moved to Porto."}),
    Route(
        "forget",
        Verb.POST,
        "/forget",
        Scope.WRITE,
        example={"owner": "alice", "words": "my flat in Lisbon", "dry_run": True},
    ),
    Route("profile", Verb.GET, "/profile", Scope.READ, example={"owner": "alice"}),
    Route("intent", Verb.POST, "/intent", Scope.READ, owners=(), example={"text": "Please forget where I live."}),
)
