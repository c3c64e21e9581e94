"""Routes of the assistant: context, profile, window, days and topics."""

from __future__ import annotations

from memforest_core.domain.routes import Route, Scope, Verb

_ALICE = {"owner": "alice"}

CONTEXT = (
    Route(
        "context",
        Verb.POST,
        "/context",
        Scope.READ,
        example={**_ALICE, "question": "Where does Alice live?", "max_tokens": 800},
    ),
)
PROFILE = (
    Route("remember", Verb.POST, "/notes", Scope.WRITE, example={**_ALICE, "text": "I moved to Porto."}),
    Route(
        "forget",
        Verb.POST,
        "/forget",
        Scope.WRITE,
        example={**_ALICE, "words": "my flat in Lisbon", "dry_run": True},
    ),
    Route("profile", Verb.GET, "/profile", Scope.READ, example=_ALICE),
    Route("intent", Verb.POST, "/intent", Scope.READ, owners=(), example={"text": "Please forget where I live."}),
)
WINDOW = (
    Route("window", Verb.GET, "/window", Scope.READ, example=_ALICE),
    Route(
        "window_put",
        Verb.POST,
        "/window/items",
        Scope.WRITE,
        example={**_ALICE, "session_id": "2026-05-20", "items": [["2026-05-20", "0"]]},
    ),
)
CALENDAR = (
    Route("today", Verb.GET, "/today", Scope.READ, example=_ALICE),
    Route("day", Verb.GET, "/day", Scope.READ, example={**_ALICE, "date": "2026-05-20"}),
    Route("week", Verb.GET, "/week", Scope.READ, example=_ALICE),
    Route("days", Verb.GET, "/days", Scope.READ, example=_ALICE),
    Route("period", Verb.GET, "/period", Scope.READ, example={**_ALICE, "period": "2026-05"}),
    Route("summarize", Verb.POST, "/summarize", Scope.WRITE, example={**_ALICE, "day": "2026-05-20"}),
)
TOPICS = (
    Route("topics", Verb.GET, "/topics", Scope.READ, example=_ALICE),
    Route("topic_context", Verb.GET, "/topics/{topic}/context", Scope.READ),
    Route("topic_history", Verb.GET, "/topics/{topic}/turns", Scope.READ),
    Route("topic_stats", Verb.GET, "/topics/{topic}/stats", Scope.READ),
    Route("topic_tag", Verb.PUT, "/topics/{topic}/tags", Scope.WRITE),
    Route("topic_merge", Verb.POST, "/topics/merge", Scope.WRITE),
)
