"""Files, and what comes line by line: many sessions in one request, and progress as events."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, TypeAdapter, ValidationError
from starlette.background import BackgroundTask
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.types import Receive, Send
from starlette.types import Scope as ASGIScope

from memforest_core.client.async_memory import AsyncMemForest
from memforest_core.client.remote.records import Stored
from memforest_core.client.route_table import BUNDLE, COUNTS, MAX_WAIT_S, ROUTES
from memforest_core.domain.routes import Route, Scope, Verb
from memforest_core.errors import CallerError, MemForestError, QuotaExceeded
from memforest_core.lifecycle.bundle.bundle_file import HEAD_BYTES, check_beginning
from memforest_core.lifecycle.bundle.records import ExportFormat
from memforest_core.service.http.endpoints import (
    JSON,
    Memories,
    admission_of,
    allowed,
    called_on,
    caller_of,
    check_owners,
    check_scope,
    method_of,
)
from memforest_core.service.http.gate import Admission
from memforest_core.service.http.problems import RESPONSES, Problem, Refused, answer, invalid, problem_of
from memforest_core.service.http.wire import body_model, of_value, parameters, wire_value
from memforest_core.service.keys.records import Caller
from memforest_core.work.records import Numbers, OperationTask, TaskId

MEDIA_TYPE = "application/octet-stream"
EXPORT = Route("lifecycle.export", Verb.GET, BUNDLE, Scope.READ)
IMPORT = Route("lifecycle.import_", Verb.POST, BUNDLE, Scope.ADMIN)

_FILE = {MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}}

Flag = Annotated[bool, Query()]
Timeout = Annotated[float, Query(ge=0, le=MAX_WAIT_S)]
Owner = Annotated[str, Query(json_schema_extra=of_value("", "owner"))]
Actor = Annotated[
    str | None, Query(description="The caller; the key is named anyway.", json_schema_extra=of_value("", "actor"))
]


def register_files(router: APIRouter, memories: Memories) -> None:
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
        format: Annotated[ExportFormat, Query()] = "bundle",
        vectors: Annotated[bool | None, Query()] = None,
        summaries: Flag = True,
        dry_run: Flag = False,
        actor: Actor = None,
    ) -> Response:
        caller, memory = allowed(request, memories, EXPORT, {"owner": owner})
        with ExitStack() as leaving:
            path = Path(leaving.enter_context(tempfile.TemporaryDirectory(prefix="memforest-export-"))) / "bundle"
            counts = await memory.lifecycle.export(
                owner,
                path,
                format=format,
                vectors=vectors,
                summaries=summaries,
                actor=caller.acting(actor),
                dry_run=dry_run,
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
        request: Request, owner: Owner | None = None, vectors: Flag = True, dry_run: Flag = False, actor: Actor = None
    ) -> Numbers:
        caller, memory = allowed(request, memories, IMPORT, {"owner": owner})
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
                path, owner, vectors=vectors, actor=caller.acting(actor), dry_run=dry_run
            )


POLL_S = 0.5
REST = 3.0
"""A stream pauses after a poll for so many times what it took: many streams do not slow down other requests."""


NDJSON = "application/x-ndjson"
EVENTS = "text/event-stream"
BULK = Route("sessions_stream", Verb.POST, "/sessions/stream", Scope.WRITE)
OF_SESSION = Route("session_events", Verb.GET, "/sessions/events", Scope.READ)
OF_OPERATION = Route("operation_events", Verb.GET, "/operations/{operation}/events", Scope.READ, owners=())
LINE_BYTES = 16 << 20
"""One session of a stream has at most so many bytes."""
ALIVE_S = 15.0
"""A comment is sent after so long without an event: proxies close silent connections."""
ROOM_S = 60.0
"""A stream waits so long for room in the queue, for one session."""


class Line(BaseModel):
    """What became of one line of a stream."""

    line: int
    stored: Stored | None = None
    problem: Problem | None = None


def register(router: APIRouter, memories: Memories) -> None:
    """Serve all three."""
    enqueue = ROUTES["enqueue"]
    session = body_model("enqueue", parameters(method_of(enqueue)), {})
    open_streams, turn = Counter[UUID](), asyncio.Lock()

    @router.post(
        BULK.path,
        operation_id=BULK.id,
        summary="Store many sessions: one a line, each as in POST /sessions.",
        description="Each line is answered by a line, in order, when it is stored. A line that is refused leaves the"
        " others as they are; what was stored before an error of the service stays, and may be sent again.",
        response_class=Response,
        responses={**RESPONSES, 200: {"content": {NDJSON: {"schema": {"type": "string"}}}}},
        openapi_extra={"requestBody": {"required": True, "content": {NDJSON: {"schema": {"type": "string"}}}}},
    )
    async def bulk(request: Request) -> Response:
        caller = caller_of(request)
        check_scope(caller, BULK)
        memory = memories.of(caller.tenant)
        return _Bounded(_Answers(_bulk(request, caller, memory, session)), open_streams, request)

    @router.get(
        OF_SESSION.path,
        operation_id=OF_SESSION.id,
        summary="The progress of a session as server-sent events, until it is ready.",
        response_class=Response,
        responses={**RESPONSES, 200: {"content": {EVENTS: {"schema": {"type": "string"}}}}},
    )
    async def session_events(request: Request, owner: Owner, session_id: Owner, timeout_s: Timeout = 300.0) -> Response:
        _, memory = allowed(request, memories, OF_SESSION, {"owner": owner})
        first = await memory.status(owner, session_id)  # an unknown session is a problem, not an event
        reads = _Reads(lambda: memory.status(owner, session_id), lambda found: found.ready, turn)
        return _Bounded(_events(first, reads, admission_of(request), timeout_s), open_streams, request)

    @router.get(
        OF_OPERATION.path,
        operation_id=OF_OPERATION.id,
        summary="The progress of an operation as server-sent events, until it has ended.",
        response_class=Response,
        responses={**RESPONSES, 200: {"content": {EVENTS: {"schema": {"type": "string"}}}}},
    )
    async def operation_events(request: Request, operation: UUID, timeout_s: Timeout = 300.0) -> Response:
        _, memory = allowed(request, memories, OF_OPERATION, {})
        task = TaskId(operation)
        first: OperationTask = await memory.lifecycle.operation(task)
        reads = _Reads(lambda: memory.lifecycle.operation(task), lambda found: found.finished, turn)
        return _Bounded(_events(first, reads, admission_of(request), timeout_s), open_streams, request)


class _Bounded(Response):
    """A stream, unless its key has as many open as it may."""

    def __init__(self, stream: Response, open_streams: Counter[UUID], request: Request) -> None:
        super().__init__()
        self._stream = stream
        self._open = open_streams
        self._key = caller_of(request).key_id
        self._most = admission_of(request).limits.streams_per_key

    async def __call__(self, scope: ASGIScope, receive: Receive, send: Send) -> None:
        if self._open[self._key] >= self._most:
            sentence = f"This key has {self._most} streams open, which is its limit: end one of them first."
            too_many = Refused(HTTPStatus.TOO_MANY_REQUESTS, "too_many_streams", sentence, retry_after=POLL_S)
            await answer(too_many.problem)(scope, receive, send)
            return
        self._open[self._key] += 1
        try:
            await self._stream(scope, receive, send)
        finally:
            self._open[self._key] -= 1
            self._open += Counter()  # drops keys that have none


class _Answers(Response):
    """Lines that are sent while the request is still being read: nobody else may receive meanwhile."""

    media_type = NDJSON

    def __init__(self, lines: AsyncIterator[bytes]) -> None:
        super().__init__()
        del self.headers["content-length"]
        self._lines = lines

    async def __call__(self, scope: ASGIScope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        async for line in self._lines:
            await send({"type": "http.response.body", "body": line, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


async def _bulk(
    request: Request, caller: Caller, memory: AsyncMemForest, model: type[BaseModel]
) -> AsyncIterator[bytes]:
    """One answer a line."""
    admission, number = admission_of(request), 0
    try:
        async for line in _lines(request):
            number += 1
            if not line.strip():
                continue
            answered = Line(line=number)
            try:
                arguments = _arguments(line, model)
                check_owners(caller, BULK, arguments)
            except ValidationError as error:
                answered.problem = invalid(error.errors(), known=model.model_fields)
            except Refused as error:
                answered.problem = problem_of(error)
            else:
                await admission.count()
                try:
                    # A line waits for room: the key may be revoked meanwhile.
                    stored = await admission.during(called_on(memory, ROUTES["enqueue"])(**arguments))
                    answered.stored = wire_value(stored)
                except CallerError as error:
                    if isinstance(error, QuotaExceeded):
                        raise
                    answered.problem = problem_of(error)
            yield _line(answered)
    except (Refused, MemForestError) as error:
        # What follows would fail alike: the caller sends it again later.
        yield _line(Line(line=number, problem=problem_of(error)))


def _arguments(line: bytes, model: type[BaseModel]) -> dict[str, Any]:
    """The arguments of a line's session. Raises Refused, ValidationError."""
    if len(line) > LINE_BYTES:
        raise Refused(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            "line_too_long",
            f"Send at most {LINE_BYTES} bytes a line: give this session by several requests.",
        )
    given = model.model_validate_json(line)
    arguments = {name: getattr(given, name) for name in given.model_fields_set}
    return {"backfill": True, "room_timeout_s": ROOM_S, **arguments}


def _line(answered: Line) -> bytes:
    return answered.model_dump_json(exclude_none=True, exclude_defaults=True).encode() + b"\n"


async def _lines(request: Request) -> AsyncIterator[bytes]:
    """The lines of a body as they come; one that is too long is cut, and the last."""
    rest = bytearray()
    async for chunk in request.stream():
        *ended, last = chunk.split(b"\n")
        for part in ended:
            rest += part
            yield bytes(rest)
            rest.clear()
        rest += last
        if len(rest) > LINE_BYTES:
            break
    if rest:
        yield bytes(rest)


@dataclass(slots=True)
class _Reads:
    """What one stream reads again and again; of all streams one at a time, while it has its ``turn``."""

    read: Callable[[], Awaitable[Any]]
    ended: Callable[[Any], bool]
    turn: asyncio.Lock
    _took_s: float = 0.0

    async def next(self) -> Any:
        """The value after a pause. Raises MemForestError."""
        loop = asyncio.get_running_loop()
        await asyncio.sleep(max(POLL_S, REST * self._took_s))
        began = loop.time()
        async with self.turn:
            found = await self.read()
        self._took_s = loop.time() - began
        return found


def _events(found: Any, reads: _Reads, admission: Admission, timeout_s: float) -> Response:
    """Each change as an event ``progress``, the last one as ``end``; ``timeout`` when the time is over.

    ``found`` is what was read just now. A key that is revoked ends the stream with a ``problem``.
    """

    async def events() -> AsyncIterator[bytes]:
        nonlocal found
        loop = asyncio.get_running_loop()
        ends, spoke, shown = loop.time() + timeout_s, loop.time(), None
        while True:
            if reads.ended(found):
                yield _event("end", _data(found))
                return
            if found != shown:
                yield _event("progress", _data(found))
                shown, spoke = found, loop.time()
            elif loop.time() - spoke > ALIVE_S:
                yield b": still waiting\n\n"
                spoke = loop.time()
            if loop.time() >= ends:
                yield _event("timeout", b"{}")
                return
            try:
                async with asyncio.timeout_at(ends):
                    found = await admission.during(reads.next())
            except TimeoutError:
                pass
            except (Refused, MemForestError) as error:
                yield _event("problem", problem_of(error).model_dump_json(exclude_none=True).encode())
                return

    return StreamingResponse(events(), media_type=EVENTS, headers={"Cache-Control": "no-store"})


def _data(found: Any) -> bytes:
    return TypeAdapter(type(found)).dump_json(found)


def _event(name: str, data: bytes) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + data + b"\n\n"
