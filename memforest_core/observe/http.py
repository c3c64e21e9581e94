"""Routes of reading what is stored, and of the log of model calls."""

from memforest_core.domain.routes import GET, READ, Route

_ALICE = {"owner": "alice"}

ROUTES = (
    Route("sessions", GET, "/sessions", READ, service="reading", example=_ALICE),
    Route("turns", GET, "/turns", READ, service="reading", example={**_ALICE, "session_id": "2026-05-20"}),
    Route("facts", GET, "/facts", READ, service="reading", example={**_ALICE, "attribute": "residence"}),
    Route("trees", GET, "/trees", READ, service="reading", example={**_ALICE, "kind": "entity"}),
    Route("node", GET, "/nodes/{node_id}", READ, service="reading", owners=()),
    Route("calls", GET, "/calls", READ, service="inspection", example=_ALICE),
)
