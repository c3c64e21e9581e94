"""Bundles as files that are sent and received: export and import."""

from __future__ import annotations

import json
import tempfile
from contextlib import ExitStack
from http import HTTPStatus
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.background import BackgroundTask
from starlette.responses import FileResponse, JSONResponse, Response

from memforest_core.client.remote.route_table import BUNDLE, COUNTS
from memforest_core.domain.routes import Route, Scope, Verb
from memforest_core.lifecycle.bundle.bundle_file import HEAD_BYTES, check_beginning
from memforest_core.service.http.endpoints import JSON, Memories, caller_of, check_owners, check_scope
from memforest_core.service.http.problems import RESPONSES
from memforest_core.service.http.wire import of_value
from memforest_core.work.records import Numbers

MEDIA_TYPE = "application/octet-stream"
EXPORT = Route("lifecycle.export", Verb.GET, BUNDLE, Scope.READ)
IMPORT = Route("lifecycle.import_", Verb.POST, BUNDLE, Scope.ADMIN)

_FILE = {MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}}

Flag = Annotated[bool, Query()]
Owner = Annotated[str, Query(json_schema_extra=of_value("", "owner"))]
Actor = Annotated[
    str | None, Query(description="The caller; the key is named anyway.", json_schema_extra=of_value("", "actor"))
]


def register(router: APIRouter, memories: Memories) -> None:
    """Serve both."""

    @router.get(
        BUNDLE,
        operation_id=EXPORT.id,
        name=EXPORT.name,
        summary="An owner's forest as a file, as it is at this moment.",
        description=f"The header {COUNTS} has its counts as JSON; a dry run answers with them alone.",
        response_class=Response,
        responses={**RESPONSES, 200: {"content": {**_FILE, JSON: {"schema": {"type": "object"}}}}},
    )
    async def export(
        request: Request,
        owner: Owner,
        vectors: Flag = True,
        summaries: Flag = True,
        dry_run: Flag = False,
        actor: Actor = None,
    ) -> Response:
        caller = caller_of(request)
        check_scope(caller, EXPORT)
        check_owners(caller, EXPORT, {"owner": owner})
        lifecycle = memories.of(caller.tenant).lifecycle
        with ExitStack() as leaving:
            path = Path(leaving.enter_context(tempfile.TemporaryDirectory(prefix="memforest-export-"))) / "bundle"
            counts = await lifecycle.export(
                owner, path, vectors=vectors, summaries=summaries, actor=_named(caller.name, actor), dry_run=dry_run
            )
            if dry_run:
                return JSONResponse(dict(counts))
            return FileResponse(
                path,
                media_type=MEDIA_TYPE,
                headers={COUNTS: json.dumps(dict(counts))},
                background=BackgroundTask(leaving.pop_all().close),
            )

    @router.post(
        BUNDLE,
        operation_id=IMPORT.id,
        name=IMPORT.name,
        summary="Read a forest from a file, for an owner who has none.",
        status_code=HTTPStatus.OK,
        responses={**RESPONSES},
        openapi_extra={"requestBody": {"required": True, "content": _FILE}},
    )
    async def import_(
        request: Request,
        owner: Owner | None = None,
        vectors: Flag = True,
        dry_run: Flag = False,
        actor: Actor = None,
    ) -> Numbers:
        caller = caller_of(request)
        check_scope(caller, IMPORT)
        check_owners(caller, IMPORT, {"owner": owner})
        memory = memories.of(caller.tenant)
        with tempfile.TemporaryDirectory(prefix="memforest-import-") as place:
            path = Path(place) / "bundle"
            with path.open("wb") as file:
                head = b""
                async for chunk in request.stream():
                    if len(head) < HEAD_BYTES and chunk:
                        head += chunk[:HEAD_BYTES]
                        if len(head) >= HEAD_BYTES:
                            check_beginning(head)
                    await memory.threads.run(file.write, chunk)
            return await memory.lifecycle.import_(
                path, owner, vectors=vectors, actor=_named(caller.name, actor), dry_run=dry_run
            )


def _named(key: str, actor: str | None) -> str:
    return f"{key}: {actor}" if actor else key
