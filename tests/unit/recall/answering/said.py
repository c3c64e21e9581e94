"""Evidence and models made by hand: what was recalled, and a chat model with scripted answers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from uuid import UUID
from zoneinfo import ZoneInfo

from memforest_core.domain.evidence import Evidence, EvidenceKind, Mode, RecallResult, day_label
from memforest_core.domain.ids import ForestId, TenantId
from memforest_core.domain.times import UNKNOWN_TIME, Precision, TimeSpan
from memforest_core.errors import MemForestError, StoreUnavailable
from memforest_core.models.calls import CallRecord, ChatReply, ChatRequest, Step
from memforest_core.store.owners import ForestRef

TENANT = TenantId("acme")
FOREST = ForestId(UUID(int=7))
BERLIN = ZoneInfo("Europe/Berlin")
REQUESTED = datetime(2023, 6, 15, 14, 5, tzinfo=BERLIN)
BOUNDARY = "b0b0b0b0b0b0b0b0"


def moment(when: str) -> TimeSpan:
    """When a turn was said."""
    said = datetime.fromisoformat(when).replace(tzinfo=UTC)
    return TimeSpan(said, said, Precision.MINUTE)


def piece(
    text: str = "Bob: I moved to Davis.",
    when: str | None = "2023-05-08T10:00",
    *,
    session: str = "s1",
    ordinal: int = 0,
    speaker: str = "Bob",
    kind: EvidenceKind = EvidenceKind.TURN,
    event: TimeSpan = UNKNOWN_TIME,
    predecessors: tuple[Evidence, ...] = (),
    successors: tuple[Evidence, ...] = (),
) -> Evidence:
    """A piece of evidence; its turn is called after its place."""
    time = UNKNOWN_TIME if when is None else moment(when)
    return Evidence(
        text=text,
        time=time,
        time_label=day_label(time, BERLIN),
        score=1.0,
        kind=kind,
        fact_ids=(),
        session_id=session,
        turn_ids=(f"t{ordinal}",),
        ordinal=ordinal,
        speaker=speaker,
        event=event,
        predecessors=predecessors,
        successors=successors,
    )


def recalled(*parts: Evidence, degraded: tuple[str, ...] = (), completed_question: str = "") -> RecallResult:
    """What was recalled, best first."""
    return RecallResult(
        question="Where does Bob live?",
        mode=Mode.EMBEDDING,
        evidence=parts,
        timings_ms={},
        degraded=degraded,
        completed_question=completed_question,
    )


def says(answer: str = "Davis", citations: Sequence[object] = (1,), supported: object = True) -> str:
    """A reply of the model."""
    return json.dumps({"answer": answer, "citations": list(citations), "supported": supported})


def record(outcome: str = "ok") -> CallRecord:
    """What a call cost."""
    return CallRecord(Step.ANSWER, "test/model", 900, 30, 0, 0.002, 12.0, outcome)


@dataclass
class ScriptedChat:
    """A chat model that gives these replies, or raises these errors, in order."""

    script: list[str | MemForestError]
    requests: list[ChatRequest] = field(default_factory=list)

    def model_name(self, step: Step) -> str:
        return "test/model"

    def complete(self, request: ChatRequest) -> ChatReply:
        self.requests.append(request)
        reply = self.script.pop(0)
        if isinstance(reply, MemForestError):
            reply.call = record(reply.code)
            raise reply
        return ChatReply(reply, record())


@dataclass
class Ledger:
    """The owner bob's forest, and the calls that were recorded for it."""

    recorded: list[CallRecord] = field(default_factory=list)
    unavailable: bool = False

    def forest(self, tenant: TenantId, owner: str) -> ForestRef | None:
        return ForestRef(FOREST, owner, BERLIN.key) if (tenant, owner) == (TENANT, "bob") else None

    def record(self, tenant: TenantId, forest: ForestId, calls: Sequence[CallRecord]) -> None:
        if self.unavailable:
            raise StoreUnavailable("Postgres can't be reached.")
        assert (tenant, forest) == (TENANT, FOREST)
        self.recorded.extend(calls)
