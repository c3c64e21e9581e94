"""Where sessions are handed over and waited for."""

from memforest_core.domain.routes import ADMIN, GET, POST, PUT, READ, WRITE, Route

ROUTES = (
    Route(
        "enqueue",
        POST,
        "/sessions",
        WRITE,
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
        POST,
        "/turns",
        WRITE,
        example={
            "owner": "alice",
            "session_id": "2026-05-21",
            "turn": {"role": "user", "content": "The flat has a view of the river."},
            "close": True,
        },
    ),
    Route("status", GET, "/sessions/status", READ, example={"owner": "alice", "session_id": "2026-05-20"}),
    Route(
        "wait", GET, "/sessions/wait", READ, example={"owner": "alice", "session_id": "2026-05-20", "stage": "facts"}
    ),
    Route("flush", POST, "/flush", READ, example={"owner": "alice"}),
    Route("session_start", POST, "/running/start", WRITE, example={"owner": "alice"}),
    Route("session_switch", POST, "/running/switch", WRITE, example={"owner": "alice", "session_id": "2026-05-20"}),
    Route("session_close", POST, "/running/close", WRITE, example={"owner": "alice"}),
    Route("session_current", GET, "/running", READ, example={"owner": "alice"}),
    Route("quota", GET, "/quota", READ, owners=()),
    Route("set_limits", PUT, "/quota", ADMIN, owners=(), example={"limits": {"max_waiting_cells": 10000}}),
)
