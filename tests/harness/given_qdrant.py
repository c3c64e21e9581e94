"""A Qdrant server given by its URL (``make qdrant URL=...``), in place of the embedded engine."""

from __future__ import annotations

import os
from contextlib import closing

from qdrant_client import QdrantClient

from memforest_core.index.qdrant.collection_schema import collection_name

VARIABLE = "MEMFOREST_TEST_QDRANT_URL"
URL = os.environ.get(VARIABLE, "")
"""Empty where none is given."""


def drop_collection(model: str, dimension: int) -> None:
    """Delete what an earlier test left on the given server, if there is one."""
    if URL:
        with closing(QdrantClient(url=URL, check_compatibility=False)) as client:
            name = collection_name(model, dimension)
            if client.collection_exists(name):
                client.delete_collection(name)
