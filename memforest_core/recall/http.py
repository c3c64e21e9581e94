"""Routes of recall, answers and timelines."""

from __future__ import annotations

from memforest_core.domain.routes import Route, Scope, Verb

ROUTES = (
    Route(
        "recall",
        Verb.POST,
        "/recall",
        Scope.READ,
        owners=("owner", "owners"),
        example={"owner": "alice", "question": "Where does Alice live?", "k": 5},
    ),
    Route(
        "recall_many",
        Verb.POST,
        "/recall/many",
        Scope.READ,
        owners=("questions",),
        example={"questions": [["alice", "Where does Alice live?"]], "k": 5},
    ),
    Route(
        "answer",
        Verb.POST,
        "/answer",
        Scope.READ,
        owners=("owner", "owners"),
        example={"owner": "alice", "question": "Where does Alice live?"},
    ),
    Route(
        "timeline",
        Verb.GET,
        "/timeline",
        Scope.READ,
        example={"owner": "alice", "attribute": "residence"},
    ),
)
