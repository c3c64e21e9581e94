"""What a process's first log line names."""

from __future__ import annotations

from memforest_core.client.services.checkup import in_use
from memforest_core.settings import load_settings


def test_models_and_servers_are_named_without_secrets() -> None:
    settings = load_settings(
        database={"url": "postgresql://app:pa55@db.example/memory"},
        broker={"url": "redis://:pa55@redis.example:6379/0"},
        index={"url": "http://qdrant.example:6333", "api_key": "pa55"},
        llm={"model": "openai/m", "api_key": "pa55", "answer": {"model": "openai/large"}},
    )
    used = in_use(settings)
    assert used == {
        "chat": "openai/m, answer: openai/large",
        "embedding": "all-minilm-l6-v2-int8",
        "index": "qdrant.example:6333",
        "database": "memory at db.example",
        "broker": "redis.example:6379",
    }
    assert "pa55" not in str(used)
