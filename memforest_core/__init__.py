"""MemForest: long-term memory for LLM agents.

All public names are imported when they are first used, so that a producer pays for the client alone. The stub, which
``.ci/stubs.py`` writes, says the same to type checkers.
"""

from __future__ import annotations

from importlib import import_module

from memforest_core.domain.extras import uncollected

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
    "memforest_core.errors": (
        "BrokerUnavailable CallerError ContentFault ContentRefused ContextTooLong ForestChanged ForestFrozen "
        "IndexUnavailable InvalidInput InvalidSettings InvariantViolated MemForestError ModelAuthFailed "
        "ModelRateLimited ModelRejected ModelUnavailable NotFound PermanentError QuotaExceeded RetryableError "
        "SessionConflict StoreContended StoreRefused StoreUnavailable TenantMoved"
    ),
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
"""The public names, by the module that each is imported from."""
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> object:
    try:
        home = _HOMES[name]
    except KeyError:
        raise AttributeError(f"module 'memforest_core' has no attribute {name!r}") from None
    with uncollected():
        return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
