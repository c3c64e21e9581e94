"""Routes of topics."""

from memforest_core.domain.routes import GET, POST, PUT, READ, WRITE, Route

ROUTES = (
    Route("topics", GET, "/topics", READ, service="topics", example={"owner": "alice"}),
    Route("topic_context", GET, "/topics/{topic}/context", READ, service="topics"),
    Route("topic_history", GET, "/topics/{topic}/turns", READ, service="topics"),
    Route("topic_stats", GET, "/topics/{topic}/stats", READ, service="topics"),
    Route("topic_tag", PUT, "/topics/{topic}/tags", WRITE, service="topics"),
    Route("topic_rate", PUT, "/topics/{topic}/importance", WRITE, service="topics"),
    Route("topic_merge", POST, "/topics/merge", WRITE, service="topics"),
)
