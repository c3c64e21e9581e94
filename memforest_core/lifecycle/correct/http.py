"""Routes of corrections and pins."""

from memforest_core.domain.operation_rules import OperationKind
from memforest_core.domain.routes import GET, POST, READ, WRITE, Route

_ALICE = {"owner": "alice"}
_SESSION = {**_ALICE, "session": "2026-05-20"}

ROUTES = (
    Route("lifecycle.correct", POST, "/operations/correct", WRITE, service="correction", starts=OperationKind.CORRECT),
    Route("lifecycle.pin", POST, "/operations/pin", WRITE, example=_SESSION),
    Route("lifecycle.unpin", POST, "/operations/unpin", WRITE, example=_SESSION),
    Route("lifecycle.pins", GET, "/pins", READ, service="correction", example=_ALICE),
)
