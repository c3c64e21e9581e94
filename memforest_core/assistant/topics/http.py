"""Where scenes are seen as topics."""

from __future__ import annotations

from memforest_core.domain.routes import Route, Scope, Verb

ROUTES = (
    Route("topics", Verb.GET, "/topics", Scope.READ, example={"owner": "alice"}),
    Route("topic_context", Verb.GET, "/topics/{topic}/context", Scope.READ),
    Route("topic_history", Verb.GET, "/topics/{topic}/turns", Scope.READ),
    Route("topic_stats", Verb.GET, "/topics/{topic}/stats", Scope.READ),
    Route("topic_tag", Verb.PUT, "/topics/{topic}/tags", Scope.WRITE),
    Route("topic_merge", Verb.POST, "/topics/merge", Scope.WRITE),
)
