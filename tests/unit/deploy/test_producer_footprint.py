"""An app server pays for no model library, no vector store and no worker; one that only recalls for no broker."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

HEAVY = [
    "litellm",
    "openai",
    "celery.worker",
    "celery.bin",
    "flower",
    "qdrant_client",
    "qdrant_edge",
    "onnxruntime",
    "tokenizers",
    "memforest_workers",
    "alembic",
    "typer",
    "fastapi",
    "celery",
    "kombu",
    "redis",
    "httpx",
    "httpcore",
]


@pytest.mark.parametrize(
    "statement",
    [
        "from memforest_core import MemForestClient, MemForest",
        "from memforest_core.client.services.producer_services import open_producer;"
        "from memforest_core.settings import load_settings; open_producer(load_settings()).close()",
    ],
    ids=["imported", "opened"],
)
def test_the_client_loads_nothing_heavy(statement: str) -> None:
    """Given a new process, when it imports the client or opens a producer, then nothing heavy is loaded."""
    loaded = subprocess.run(
        [sys.executable, "-c", f"import json, sys; {statement}; print(json.dumps(sorted(sys.modules)))"],
        check=True,
        capture_output=True,
        text=True,
    )
    modules = set(json.loads(loaded.stdout))
    assert "memforest_core.client.services.producer_services" in modules
    assert modules & set(HEAVY) == set()
