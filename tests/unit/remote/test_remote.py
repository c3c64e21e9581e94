"""The remote face has the library's methods and signatures, and imports next to nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from memforest_core.client.api import MemForest
from memforest_core.client.lifecycle import Lifecycle
from memforest_core.client.remote.remote_memory import (
    AsyncRemoteDeadLetters,
    AsyncRemoteLifecycle,
    AsyncRemoteMemForest,
    AsyncRemoteWebhooks,
    RemoteDeadLetters,
    RemoteLifecycle,
    RemoteMemForest,
    RemoteWebhooks,
)
from memforest_core.errors import InvalidInput
from memforest_core.observe.webhooks.service import Webhooks
from memforest_core.work.dead import DeadLetters

IN_A_PROCESS = {"connect", "embedded", "embedded_node", "for_tenant", "services", "settings"}
FACES = [
    (MemForest, RemoteMemForest),
    (MemForest, AsyncRemoteMemForest),
    (Lifecycle, RemoteLifecycle),
    (Lifecycle, AsyncRemoteLifecycle),
    (DeadLetters, RemoteDeadLetters),
    (DeadLetters, AsyncRemoteDeadLetters),
    (Webhooks, RemoteWebhooks),
    (Webhooks, AsyncRemoteWebhooks),
]
STUBS = Path(__file__).parents[3] / ".ci" / "stubs.py"


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


@pytest.mark.parametrize(("library", "face"), FACES)
def test_every_method_is_there(library: type, face: type) -> None:
    """Their signatures are those of the stub, which is made of the library."""
    assert public(library) - IN_A_PROCESS == public(face)


def test_the_stubs_are_those_of_the_library() -> None:
    """When this fails: python .ci/stubs.py."""
    subprocess.run([sys.executable, str(STUBS), "--check"], check=True)


def test_it_imports_neither_the_database_nor_the_broker() -> None:
    code = (
        "import sys\n"
        "from memforest_core import RemoteMemForest, AsyncRemoteMemForest\n"
        "heavy = ('sqlalchemy', 'psycopg', 'celery', 'kombu', 'redis', 'litellm', 'qdrant_client', 'onnxruntime')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert found.stdout.strip() == "[]"


@pytest.mark.parametrize("key", ["", "with\nnewline", "schlüssel"])
def test_a_key_that_no_header_can_hold_is_refused(key: str) -> None:
    with pytest.raises(InvalidInput, match="memforest keys create"):
        RemoteMemForest("http://127.0.0.1:1", key)


def test_an_address_without_a_scheme_is_refused() -> None:
    with pytest.raises(InvalidInput, match="http://"):
        RemoteMemForest("localhost:8080", "mf_x")
