"""Routes of recall, answers and timelines."""

from __future__ import annotations

from memforest_core.domain.routes import Route, Scope, Verb

_QUESTION = {"owner": "alice", "question": "Where does Alice live?"}
_OWNERS = ("owner", "owners")

ROUTES = (
    Route("recall", Verb.POST, "/recall", Scope.READ, service="recall", owners=_OWNERS, example=_QUESTION | {"k": 5}),
    Route(
        "recall_many",
        Verb.POST,
        "/recall/many",
        Scope.READ,
        owners=("questions",),
        example={"questions": [list(_QUESTION.values())], "k": 5},
    ),
    Route("answer", Verb.POST, "/answer", Scope.READ, service="contextual_answers", owners=_OWNERS, example=_QUESTION),
    Route(
        "timeline",
        Verb.GET,
        "/timeline",
        Scope.READ,
        service="timeline",
        example={"owner": "alice", "attribute": "residence"},
    ),
)
