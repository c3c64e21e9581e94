"""HTTP routes of the assistant: windows, days, topics, notes, profiles, intents, and whole contexts."""

from __future__ import annotations

from memforest_core.domain.routes import Route, Scope, Verb

CONTEXT = (
    Route(
        "context",
        Verb.POST,
        "/context",
        Scope.READ,
        service="context",
        example={"owner": "alice", "question": "Where does Alice live?", "max_tokens": 800},
    ),
)
PROFILE = (
    Route("remember", Verb.POST, "/notes", Scope.WRITE, example={"owner": "alice", "text": "I moved to Porto."}),
    Route(
        "forget",
        Verb.POST,
        "/forget",
        Scope.WRITE,
        service="forgetter",
        example={"owner": "alice", "words": "my flat in Lisbon", "dry_run": True},
    ),
    Route("profile", Verb.GET, "/profile", Scope.READ, service="describer", example={"owner": "alice"}),
    Route(
        "intent",
        Verb.POST,
        "/intent",
        Scope.READ,
        service="intents",
        owners=(),
        example={"text": "Please forget where I live."},
    ),
)
WINDOW = (
    Route("window", Verb.GET, "/window", Scope.READ, service="window", example={"owner": "alice"}),
    Route(
        "window_put",
        Verb.POST,
        "/window/items",
        Scope.WRITE,
        service="window",
        example={"owner": "alice", "session_id": "2026-05-20", "items": [["2026-05-20", "0"]]},
    ),
)
CALENDAR = (
    Route("today", Verb.GET, "/today", Scope.READ, service="calendar", example={"owner": "alice"}),
    Route("day", Verb.GET, "/day", Scope.READ, service="calendar", example={"owner": "alice", "date": "2026-05-20"}),
    Route("week", Verb.GET, "/week", Scope.READ, service="calendar", example={"owner": "alice"}),
    Route("days", Verb.GET, "/days", Scope.READ, service="calendar", example={"owner": "alice"}),
    Route(
        "period", Verb.GET, "/period", Scope.READ, service="calendar", example={"owner": "alice", "period": "2026-05"}
    ),
    Route(
        "summarize",
        Verb.POST,
        "/summarize",
        Scope.WRITE,
        service="calendar",
        example={"owner": "alice", "day": "2026-05-20"},
    ),
)
TOPICS = (
    Route("topics", Verb.GET, "/topics", Scope.READ, service="topics", example={"owner": "alice"}),
    Route("topic_context", Verb.GET, "/topics/{topic}/context", Scope.READ, service="topics"),
    Route("topic_history", Verb.GET, "/topics/{topic}/turns", Scope.READ, service="topics"),
    Route("topic_stats", Verb.GET, "/topics/{topic}/stats", Scope.READ, service="topics"),
    Route("topic_tag", Verb.PUT, "/topics/{topic}/tags", Scope.WRITE, service="topics"),
    Route("topic_merge", Verb.POST, "/topics/merge", Scope.WRITE, service="topics"),
)
