"""What a process works with, for its first log line: names and hosts, no keys, no passwords."""

from __future__ import annotations

from urllib.parse import urlsplit

from memforest_core.models.calls import Step
from memforest_core.models.opening import step_settings
from memforest_core.settings import OFFLINE, Settings
from memforest_core.store.engine import place_of

CHAT_STEPS = tuple(step for step in Step if step is not Step.EMBED)


def in_use(settings: Settings) -> dict[str, str]:
    """The chat model (with steps that have another), the embedding model, the index, the database and the broker."""
    chat = settings.llm.model
    others = {step.value: model for step in CHAT_STEPS if (model := _model(settings, step)) != chat}
    return {
        "chat": ", ".join([chat, *(f"{step}: {model}" for step, model in others.items())]),
        "embedding": settings.embedding.model,
        "index": f"in {settings.index.path}" if settings.index.kind == "qdrant_edge" else _place(settings.index.url),
        "database": place_of(settings.database.url.get_secret_value()),
        "broker": _place(settings.broker.url.get_secret_value()),
    }


def _model(settings: Settings, step: Step) -> str:
    if settings.llm.model == OFFLINE and getattr(settings.llm, step.value).model is None:
        return OFFLINE
    return step_settings(settings.llm, step).model


def _place(address: str) -> str:
    """Host and port of an address, or the path of a socket."""
    parts = urlsplit(address)
    return parts.netloc.rpartition("@")[2] or parts.path
