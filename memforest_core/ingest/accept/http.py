"""Where sessions are handed over and waited for."""

from __future__ import annotations

from memforest_core.domain.routes import Route, Scope, Verb

ROUTES = (
    Route(
        "enqueue",
        Verb.POST,
        "/sessions",
        Scope.WRITE,
        example={
            "owner": "alice",
            "session_id": "2026-05-20",
            "turns": [
                {"role": "user", "content": "I moved to Lisbon last week."},
                {"role": "assistant", "content": "How is the new flat?"},
            ],
            "started_at": "2026-05-20T18:00:00Z",
        },
    ),
    Route(
        "append",
        Verb.POST,
        "/turns",
        Scope.WRITE,
        example={
            "owner": "alice",
            "session_id": "2026-05-21",
            "turn": {"role": "user", "content": "The flat has a view of the river."},
            "close": True,
        },
    ),
    Route("status", Verb.GET, "/sessions/status", Scope.READ, example={"owner": "alice", "session_id": "2026-05-20"}),
    Route(
        "wait",
        Verb.GET,
        "/sessions/wait",
        Scope.READ,
        example={"owner": "alice", "session_id": "2026-05-20", "stage": "facts"},
    ),
    Route("flush", Verb.POST, "/flush", Scope.READ, example={"owner": "alice"}),
    Route("session_start", Verb.POST, "/running/start", Scope.WRITE, example={"owner": "alice"}),
    Route(
        "session_switch",
        Verb.POST,
        "/running/switch",
        Scope.WRITE,
        example={"owner": "alice", "session_id": "2026-05-20"},
    ),
    Route("session_close", Verb.POST, "/running/close", Scope.WRITE, example={"owner": "alice"}),
    Route("session_current", Verb.GET, "/running", Scope.READ, example={"owner": "alice"}),
    Route("quota", Verb.GET, "/quota", Scope.READ, owners=()),
    Route("set_limits", Verb.PUT, "/quota", Scope.ADMIN, owners=(), example={"limits": {"max_waiting_cells": 10000}}),
)
