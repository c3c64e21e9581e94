"""Routes of profiles, notes, intents and forgetting by words."""

from memforest_core.domain.routes import GET, POST, READ, WRITE, Route

ROUTES = (
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
    Route("intent", POST, "/intent", READ, service="intents", example={"text": "Please forget where I live."}),
)
