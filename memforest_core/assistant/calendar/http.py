"""HTTP routes of days, weeks, months and years."""

from __future__ import annotations

from memforest_core.domain.routes import Route, Scope, Verb

ROUTES = (
    Route("today", Verb.GET, "/today", Scope.READ, example={"owner": "alice"}),
    Route("day", Verb.GET, "/day", Scope.READ, example={"owner": "alice", "date": "2026-05-20"}),
    Route("week", Verb.GET, "/week", Scope.READ, example={"owner": "alice"}),
    Route("days", Verb.GET, "/days", Scope.READ, example={"owner": "alice"}),
    Route("period", Verb.GET, "/period", Scope.READ, example={"owner": "alice", "period": "2026-05"}),
    Route("summarize", Verb.POST, "/summarize", Scope.WRITE, example={"owner": "alice", "day": "2026-05-20"}),
)
