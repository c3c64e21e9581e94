"""Routes of merges."""

from memforest_core.domain.operation_rules import OperationKind
from memforest_core.domain.routes import ADMIN, POST, Route

_MERGED = {"sources": ["alice-phone"], "into": "alice"}
_MERGING = ("sources", "into")

ROUTES = (
    Route(
        "lifecycle.merge",
        POST,
        "/operations/merge",
        ADMIN,
        service="merging.ask",
        starts=OperationKind.MERGE,
        owners=_MERGING,
        example={**_MERGED, "dry_run": True},
    ),
    Route(
        "lifecycle.merge_conflicts",
        POST,
        "/merge/conflicts",
        ADMIN,
        service="merging.conflicts",
        owners=_MERGING,
        example=_MERGED,
    ),
)
