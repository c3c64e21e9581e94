"""MemForest: long-term memory for LLM agents.

All public names but errors are imported when they are first used, so that a producer pays for the client alone.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from memforest_core.domain.extras import uncollected
from memforest_core.errors import (
    BrokerUnavailable,
    CallerError,
    ContentFault,
    ContentRefused,
    ContextTooLong,
    ForestChanged,
    ForestFrozen,
    IndexUnavailable,
    InvalidInput,
    InvalidSettings,
    InvariantViolated,
    MemForestError,
    ModelAuthFailed,
    ModelRateLimited,
    ModelRejected,
    ModelUnavailable,
    NotFound,
    PermanentError,
    QuotaExceeded,
    RetryableError,
    SessionConflict,
    StoreContended,
    StoreRefused,
    StoreUnavailable,
    TenantMoved,
)

if TYPE_CHECKING:
    from memforest_core.assistant.calendar.records import DayDigest, DaySource, PeriodDigest, SpeakerDigest
    from memforest_core.assistant.context.records import Context, ContextPart, Omission
    from memforest_core.assistant.conversation_window.records import HeldItems, LeftOut, SessionWindow, WindowPart
    from memforest_core.assistant.profile.records import (
        Forgetting,
        FoundFact,
        Intent,
        IntentKind,
        Made,
        Profile,
        ProfileSentence,
        ProfileState,
        SaidIn,
    )
    from memforest_core.assistant.topics.records import (
        MatchedTopic,
        Temperature,
        Topic,
        TopicContext,
        TopicStats,
        TopicTurn,
    )
    from memforest_core.client.api import MemForest
    from memforest_core.client.async_memory import AsyncMemForest
    from memforest_core.client.embedded.account import NoServerAccount
    from memforest_core.client.embedded.directory import DataDirectoryInUse, DataDirectoryUnusable, UsedAfterFork
    from memforest_core.client.embedded.process import EmbeddedPartMissing, ServerFailed
    from memforest_core.client.handles import Operation, SessionHandle
    from memforest_core.client.lifecycle import Lifecycle
    from memforest_core.client.producer import MemForestClient
    from memforest_core.client.remote.remote_memory import AsyncRemoteMemForest, AsyncSessionHandle, RemoteMemForest
    from memforest_core.domain.chat_messages import TurnInput
    from memforest_core.domain.evidence import Evidence, RecallResult
    from memforest_core.domain.pages import Page
    from memforest_core.domain.turns import Turn
    from memforest_core.ingest.accept.records import Accepted, Backlog, RunningSession, SessionProgress, Stage
    from memforest_core.lifecycle.erase.records import Receipt
    from memforest_core.models.limits.model_limits import ModelPaused
    from memforest_core.observe.reading.records import StoredFact, StoredNode, StoredSession, StoredTree
    from memforest_core.observe.records import LoggedCall
    from memforest_core.recall.answer import Answer, Citation
    from memforest_core.recall.states import Timeline, TimelineState
    from memforest_core.settings import Settings, load_default_config, load_settings
    from memforest_core.work.jobs import WorkError
    from memforest_core.work.records import OperationTask
    from memforest_core.work.waiting import OperationFailed, WaitTimeout

__version__ = "0.1.0"

_NAMES = {
    "memforest_core.ingest.accept.records": "Accepted Backlog RunningSession SessionProgress Stage",
    "memforest_core.client.async_memory": "AsyncMemForest",
    "memforest_core.client.api": "MemForest",
    "memforest_core.assistant.calendar.records": "DayDigest DaySource PeriodDigest SpeakerDigest",
    "memforest_core.client.producer": "MemForestClient",
    "memforest_core.client.handles": "Operation SessionHandle",
    "memforest_core.domain.chat_messages": "TurnInput",
    "memforest_core.assistant.context.records": "Context ContextPart Omission",
    "memforest_core.domain.evidence": "Evidence RecallResult",
    "memforest_core.domain.pages": "Page",
    "memforest_core.domain.turns": "Turn",
    "memforest_core.client.embedded.account": "NoServerAccount",
    "memforest_core.client.embedded.directory": "DataDirectoryInUse DataDirectoryUnusable UsedAfterFork",
    "memforest_core.client.embedded.process": "EmbeddedPartMissing ServerFailed",
    "memforest_core.lifecycle.erase.records": "Receipt",
    "memforest_core.client.lifecycle": "Lifecycle",
    "memforest_core.models.limits.model_limits": "ModelPaused",
    "memforest_core.observe.records": "LoggedCall",
    "memforest_core.assistant.profile.records": (
        "Forgetting FoundFact Intent IntentKind Made Profile ProfileSentence ProfileState SaidIn"
    ),
    "memforest_core.observe.reading.records": "StoredFact StoredNode StoredSession StoredTree",
    "memforest_core.recall.answer": "Answer Citation",
    "memforest_core.recall.states": "Timeline TimelineState",
    "memforest_core.client.remote.remote_memory": "AsyncRemoteMemForest AsyncSessionHandle RemoteMemForest",
    "memforest_core.settings": "Settings load_default_config load_settings",
    "memforest_core.assistant.topics.records": "MatchedTopic Temperature Topic TopicContext TopicStats TopicTurn",
    "memforest_core.assistant.conversation_window.records": "HeldItems LeftOut SessionWindow WindowPart",
    "memforest_core.work.jobs": "WorkError",
    "memforest_core.work.records": "OperationTask",
    "memforest_core.work.waiting": "OperationFailed WaitTimeout",
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = [
    "Accepted",
    "Answer",
    "AsyncMemForest",
    "AsyncRemoteMemForest",
    "AsyncSessionHandle",
    "Backlog",
    "BrokerUnavailable",
    "CallerError",
    "Citation",
    "ContentFault",
    "ContentRefused",
    "Context",
    "ContextPart",
    "ContextTooLong",
    "DataDirectoryInUse",
    "DataDirectoryUnusable",
    "DayDigest",
    "DaySource",
    "EmbeddedPartMissing",
    "Evidence",
    "ForestChanged",
    "ForestFrozen",
    "Forgetting",
    "FoundFact",
    "HeldItems",
    "IndexUnavailable",
    "Intent",
    "IntentKind",
    "InvalidInput",
    "InvalidSettings",
    "InvariantViolated",
    "LeftOut",
    "Lifecycle",
    "LoggedCall",
    "Made",
    "MatchedTopic",
    "MemForest",
    "MemForestClient",
    "MemForestError",
    "ModelAuthFailed",
    "ModelPaused",
    "ModelRateLimited",
    "ModelRejected",
    "ModelUnavailable",
    "NoServerAccount",
    "NotFound",
    "Omission",
    "Operation",
    "OperationFailed",
    "OperationTask",
    "Page",
    "PeriodDigest",
    "PermanentError",
    "Profile",
    "ProfileSentence",
    "ProfileState",
    "QuotaExceeded",
    "RecallResult",
    "Receipt",
    "RemoteMemForest",
    "RetryableError",
    "RunningSession",
    "SaidIn",
    "ServerFailed",
    "SessionConflict",
    "SessionHandle",
    "SessionProgress",
    "SessionWindow",
    "Settings",
    "SpeakerDigest",
    "Stage",
    "StoreContended",
    "StoreRefused",
    "StoreUnavailable",
    "StoredFact",
    "StoredNode",
    "StoredSession",
    "StoredTree",
    "Temperature",
    "TenantMoved",
    "Timeline",
    "TimelineState",
    "Topic",
    "TopicContext",
    "TopicStats",
    "TopicTurn",
    "Turn",
    "TurnInput",
    "UsedAfterFork",
    "WaitTimeout",
    "WindowPart",
    "WorkError",
    "load_default_config",
    "load_settings",
]


def __getattr__(name: str) -> object:
    try:
        home = _HOMES[name]
    except KeyError:
        raise AttributeError(f"module 'memforest_core' has no attribute {name!r}") from None
    with uncollected():
        return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
