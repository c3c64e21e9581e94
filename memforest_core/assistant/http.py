"""HTTP routes of the assistant: windows, days, topics, notes, profiles, intents, and whole contexts."""

from __future__ import annotations

from memforest_core.domain.routes import GET, POST, PUT, READ, WRITE, Route

CONTEXT = (
    Route(
        "context",
        POST,
        "/context",
        READ,
        service="context",
        example={"owner": "alice", "question": "Where does Alice live?", "max_tokens": 800},
    ),
)
PROFILE = (
    Route("remember", POST, "/notes", WRITE, example={"owner": "alice", "text": "I moved to Porto."}),
    Route(
        "forget",
        POST,
        "/forget",
        WRITE,
        service="forgetter",
        example={"owner": "alice", "words": "my flat in Lisbon", "dry_run": True},
    ),
    Route("profile", GET, "/profile", READ, service="describer", example={"owner": "alice"}),
    Route(
        "intent", POST, "/intent", READ, service="intents", owners=(), example={"text": "Please forget where I live."}
    ),
)
WINDOW = (
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
CALENDAR = (
    Route("today", GET, "/today", READ, service="calendar", example={"owner": "alice"}),
    Route("day", GET, "/day", READ, service="calendar", example={"owner": "alice", "date": "2026-05-20"}),
    Route("week", GET, "/week", READ, service="calendar", example={"owner": "alice"}),
    Route("days", GET, "/days", READ, service="calendar", example={"owner": "alice"}),
    Route("period", GET, "/period", READ, service="calendar", example={"owner": "alice", "period": "2026-05"}),
    Route("summarize", POST, "/summarize", WRITE, service="calendar", example={"owner": "alice", "day": "2026-05-20"}),
)
TOPICS = (
    Route("topics", GET, "/topics", READ, service="topics", example={"owner": "alice"}),
    Route("topic_context", GET, "/topics/{topic}/context", READ, service="topics"),
    Route("topic_history", GET, "/topics/{topic}/turns", READ, service="topics"),
    Route("topic_stats", GET, "/topics/{topic}/stats", READ, service="topics"),
    Route("topic_tag", PUT, "/topics/{topic}/tags", WRITE, service="topics"),
    Route("topic_merge", POST, "/topics/merge", WRITE, service="topics"),
)
