"""Routes of days, weeks and periods."""

from memforest_core.domain.routes import GET, POST, READ, WRITE, Route

ROUTES = (
    Route("today", GET, "/today", READ, service="calendar", example={"owner": "alice"}),
    Route("day", GET, "/day", READ, service="calendar", example={"owner": "alice", "date": "2026-05-20"}),
    Route("week", GET, "/week", READ, service="calendar", example={"owner": "alice"}),
    Route("days", GET, "/days", READ, service="calendar", example={"owner": "alice"}),
    Route("period", GET, "/period", READ, service="calendar", example={"owner": "alice", "period": "2026-05"}),
    Route("summarize", POST, "/summarize", WRITE, service="calendar", example={"owner": "alice", "day": "2026-05-20"}),
)
