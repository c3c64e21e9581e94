"""The checked-in TypeScript client is of the document as it is now."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

from memforest_core.client.route_table import ROUTES
from memforest_core.domain.routes import Scope, Verb
from memforest_core.service.http.http_app import openapi

FOLDER = Path(__file__).parents[3] / "examples" / "typescript"
GENERATE = runpy.run_path(str(FOLDER / "generate.py"))
REPEATED = "Run make typescript: the client is of another OpenAPI document."


def test_it_has_every_operation() -> None:
    """Given a new route, then the client is missing its function until it is generated again."""
    written = (FOLDER / "client" / "sdk.gen.ts").read_text(encoding="utf-8")
    # A name that browsers have for something else gets an underscore (window_).
    functions = {name.lower().rstrip("_") for name in re.findall(r"^export const (\w+) =", written, re.MULTILINE)}
    named = {each["operationId"] for path in openapi()["paths"].values() for each in path.values()}

    assert functions == {name.replace("_", "").lower() for name in named}, REPEATED


def test_it_is_of_this_document() -> None:
    assert GENERATE["FINGERPRINT"].read_text().strip() == GENERATE["fingerprint"](openapi()), REPEATED


def test_what_it_repeats_changes_nothing_more() -> None:
    """Given the operations that its retries send again by POST, then they read, or store what is the same again."""
    written = (FOLDER / "src" / "transport.ts").read_text(encoding="utf-8")
    [names] = re.findall(r'new Set\(\s*"([\w ]+)"\.split', written)
    posts = {route.id: route for route in ROUTES.values() if route.verb is Verb.POST}
    reads = {name for name, route in posts.items() if route.scope is Scope.READ}

    repeated = {re.sub(r"([A-Z])", r"_\1", name).lower() for name in names.split()}
    assert repeated == reads | {"enqueue", "sessions_stream"}
