"""Where operations, dead letters and the audit are seen."""

from memforest_core.domain.routes import ADMIN, GET, POST, READ, WRITE, Route

ROUTES = (
    Route("lifecycle.operations", GET, "/operations", READ, service="operations.list", owners=()),
    Route("lifecycle.operation", GET, "/operations/{operation}", READ, service="operations.get", owners=()),
    Route("lifecycle.wait", GET, "/operations/{operation}/wait", READ, service="operations.wait_steps", owners=()),
    Route("lifecycle.ended", GET, "/operations/{operation}/ended", READ, service="operations.ended_steps", owners=()),
    Route("lifecycle.cancel", POST, "/operations/{operation}/cancel", WRITE, owners=()),
    Route("lifecycle.audit", GET, "/audit", ADMIN, service="operations"),
    Route("lifecycle.audit_head", GET, "/audit/head", ADMIN, service="audit_log.head", owners=()),
    Route("lifecycle.audit_verify", POST, "/audit/verify", ADMIN, service="audit_log.verify", owners=()),
    Route("dead.list", GET, "/dead", ADMIN),
    Route("dead.show", GET, "/dead/{id_}", ADMIN, owners=()),
    Route("dead.retry", POST, "/dead/retry", ADMIN, owners=()),
    Route("dead.retry_all", POST, "/dead/retry-all", ADMIN),
    Route("dead.discard", POST, "/dead/discard", ADMIN, owners=()),
)
