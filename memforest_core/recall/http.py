"""Routes of recall, answers and timelines."""

from memforest_core.domain.routes import GET, POST, READ, Route

_QUESTION = {"owner": "alice", "question": "Where does Alice live?"}
_OWNERS = ("owner", "owners")

ROUTES = (
    Route("recall", POST, "/recall", READ, service="recall", owners=_OWNERS, example=_QUESTION | {"k": 5}),
    Route(
        "recall_many",
        POST,
        "/recall/many",
        READ,
        owners=("questions",),
        example={"questions": [list(_QUESTION.values())], "k": 5},
    ),
    Route("answer", POST, "/answer", READ, service="contextual_answers", owners=_OWNERS, example=_QUESTION),
    Route("timeline", GET, "/timeline", READ, service="timeline", example={"owner": "alice", "attribute": "residence"}),
)
