"""Routes of deletions and their receipts."""

from memforest_core.domain.operation_rules import OperationKind
from memforest_core.domain.routes import GET, POST, READ, WRITE, Route

_ALICE = {"owner": "alice"}

ROUTES = (
    Route(
        "lifecycle.forget",
        POST,
        "/operations/erase",
        WRITE,
        service="erasure.ask",
        starts=OperationKind.ERASE,
        example={**_ALICE, "session": "2026-05-21", "dry_run": True},
    ),
    Route("lifecycle.receipt", GET, "/operations/{operation}/receipt", READ, service="erasure", owners=()),
)
