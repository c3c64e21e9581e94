"""Whether everything that a deployment needs is there: each part is tried, and a sentence says what to do."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import redis

from memforest_core.domain.ids import TenantId
from memforest_core.errors import BrokerUnavailable, IndexUnavailable, MemForestError
from memforest_core.index.index_opening import open_index
from memforest_core.index.qdrant.edge_index import ASIDE, read_all
from memforest_core.models.answers import open_prompts
from memforest_core.models.calls import CHAT_STEPS, ChatRequest, Embedder, Message, Step
from memforest_core.models.limits.call_limits import client_address, open_redis
from memforest_core.models.model_opening import open_chat, open_embedder, step_settings
from memforest_core.observe.inspection import open_inspection
from memforest_core.settings import OFFLINE, Settings
from memforest_core.store.connections import check_connections, connection_plan, connections_in_use
from memforest_core.store.engine import Engine, open_engine, place_of, server_time, server_version, transaction
from memforest_core.store.schema import check_ready, current_revision
from memforest_core.work.messages import Queue
from memforest_core.work.rows.pace import MODEL_SLOW

SKEW_WARN_S, SKEW_FAIL_S = 2.0, 60.0
"""Leases keep to the database's clock; undated turns and "yesterday" keep to this machine's."""
DISK_WARN, DISK_FAIL = 2 * 2**30, 200 * 2**20
"""Free bytes."""
PING_MAX_TOKENS = 64


class State(StrEnum):
    """How a check ended."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Check:
    """One line: what was looked at, how it is, and what to do about it. ``code`` names a failure for programs."""

    name: str
    state: State
    says: str
    code: str | None = None


def checkup(settings: Settings, *, call: bool = False, place: Path | None = None) -> Iterator[Check]:
    """Check the parts one after the other; a part that fails does not end it.

    ``call`` sends each chat model one tiny question, which may cost something; ``place`` is the directory whose disk is
    looked at (by default the index's, else that of temporary files). Only an index that is missing is made.
    """
    used = in_use(settings)
    yield Check("settings", State.OK, f"tenant {settings.tenant}")
    engine = open_engine(settings.database)
    try:
        database = _tried("database", lambda: _database(engine, used["database"]), used["database"])
        yield database
        if database.state is not State.FAIL:
            yield _tried("schema", lambda: _schema(engine))
            yield _tried("clock", lambda: _clock(engine))
            yield from _workers(engine, settings)
            yield _tried("connections", lambda: _connections(engine, settings))
    finally:
        engine.dispose()
    yield _tried("broker", lambda: _broker(settings, used["broker"]), used["broker"])
    opened: list[Embedder] = []
    yield _tried("embedding", lambda: _embedding(settings, opened))
    if opened:
        yield _tried("index", lambda: _index(settings, opened[0], used["index"]))
    if settings.prompts:
        own = partial(open_prompts, settings.prompts)
        yield _tried("prompts", lambda: f"own instructions for {', '.join(own().replaced)}")
    yield from _chat(settings, call)
    yield _disk(place or settings.index.path or Path(tempfile.gettempdir()))


def in_use(settings: Settings) -> dict[str, str]:
    """What a process works with, for its first log line: names and hosts, no keys, no passwords.

    The chat model (with steps that have another), the embedding model, the index, the database and the broker.
    """
    chat = settings.llm.model
    models = {step: step_settings(settings.llm, step).model for step in CHAT_STEPS}
    others = [f"{step.value}: {model}" for step, model in models.items() if model != chat]
    return {
        "chat": ", ".join([chat, *others]),
        "embedding": settings.embedding.model,
        "index": f"in {settings.index.path}" if settings.index.kind == "qdrant_edge" else _host_of(settings.index.url),
        "database": place_of(settings.database.url.get_secret_value()),
        "broker": _host_of(settings.broker.url.get_secret_value()),
    }


def _host_of(address: str) -> str:
    """Host and port of an address, or the path of a socket."""
    parts = urlsplit(address)
    return parts.netloc.rpartition("@")[2] or parts.path


def stopped_index(data: Path) -> Iterator[Check]:
    """Whether the points in a node's directory can be read, while no node runs there."""
    for each in sorted((data.expanduser() / "qdrant").glob("memforest-*")):
        if each.suffix != ASIDE:
            yield _tried("index", partial(_readable, each))


def _readable(directory: Path) -> str:
    return f"{directory}, {read_all(directory)} points can be read"


def _tried(name: str, check: Callable[[], Check | str], place: str = "") -> Check:
    """What a check says; a sentence is of a part that is well. A failure names the ``place`` first."""
    try:
        found = check()
    except MemForestError as error:
        return Check(name, State.FAIL, f"{place}: {error.message}" if place else error.message, error.code)
    return found if isinstance(found, Check) else Check(name, State.OK, found)


def _database(engine: Engine, place: str) -> str:
    with transaction(engine) as connection:
        version = server_version(connection)
    return f"{place}, Postgres {version}"


def _schema(engine: Engine) -> str:
    check_ready(engine)
    with transaction(engine) as connection:
        revision = current_revision(connection)
    return f"revision {revision}, tenants are separated"


def _clock(engine: Engine) -> Check:
    with transaction(engine) as connection:
        before = datetime.now(UTC)
        theirs: datetime = server_time(connection)
        after = datetime.now(UTC)
    skew = abs((theirs - (before + (after - before) / 2)).total_seconds())
    state = State.OK if skew < SKEW_WARN_S else State.WARN if skew < SKEW_FAIL_S else State.FAIL
    advice = "" if state is State.OK else ": synchronize both machines' clocks"
    return Check("clock", state, f"{skew:.1f} s apart from the database's{advice}")


def _workers(engine: Engine, settings: Settings) -> Iterator[Check]:
    try:
        system = open_inspection(engine, settings).system(TenantId(settings.tenant))
    except MemForestError as error:
        yield Check("workers", State.FAIL, error.message, error.code)
        return
    for trouble in system.troubles:
        if trouble.code == MODEL_SLOW:
            yield Check("pace", State.WARN, trouble.reason)
    known = State.WARN if system.warnings else State.OK
    yield Check("languages", known, " ".join(system.warnings) or "these models know those of the latest sessions")
    for queue in Queue:
        alive = sum(worker.alive and queue.value in worker.queues for worker in system.workers)
        says = f"{alive} alive" if alive else f"none alive: start memforest worker --queues {queue.value}"
        yield Check(f"workers of {queue.value}", State.OK if alive else State.WARN, says)


def _connections(engine: Engine, settings: Settings) -> str:
    use = connections_in_use(engine, settings)
    if use is None:
        return "a pooler is in front of Postgres: its limits count"
    check_connections(engine, settings)
    wanted = use.wanted(connection_plan(settings))
    return f"{wanted} of {use.allowed} at most, {use.workers} workers live"


def _broker(settings: Settings, place: str) -> Check | str:
    address = client_address(settings.broker.url.get_secret_value())
    if address is None:
        return Check("broker", State.WARN, f"{place}: sentinels are not checked; limits count per process")
    with closing(open_redis(address)) as client:
        try:
            client.ping()
        except redis.AuthenticationError:
            raise BrokerUnavailable("The broker refuses the password: change MEMFOREST_BROKER__URL.") from None
        except redis.RedisError as error:
            raise BrokerUnavailable(
                f"The broker can't be used ({type(error).__name__}): check MEMFOREST_BROKER__URL and that it runs."
            ) from None
    return place


def _embedding(settings: Settings, opened: list[Embedder]) -> str:
    embedder = open_embedder(settings.embedding)
    dimension = embedder.dimension
    opened.append(embedder)
    return f"{embedder.model}, {dimension} dimensions"


def _index(settings: Settings, embedder: Embedder, place: str) -> str:
    with closing(open_index(settings, embedder)) as index:
        try:
            index.prepare()
        except IndexUnavailable as error:
            # Qdrant's client takes 0.4 s to import, and workers of a node use this module without it.
            from memforest_core.index.qdrant.server_index import unreachable

            if unreachable(error):
                raise IndexUnavailable(f"Qdrant can't be reached at {place}: check MEMFOREST_INDEX__URL.") from error
            raise
        points = index.count(TenantId(settings.tenant))
    return f"{place}, {points} points"


def _chat(settings: Settings, call: bool) -> Iterator[Check]:
    """One check for each model that differs; steps without a model of their own share the common one."""
    seen: set[tuple[str, str | None]] = set()
    for step in CHAT_STEPS:
        own = step_settings(settings.llm, step)
        model = (own.model, None if own.model == OFFLINE else own.api_base)
        if model in seen:
            continue
        seen.add(model)
        if model[0] == OFFLINE:
            yield Check("chat", State.OK, "offline: built in, no key needed; set MEMFOREST_LLM__MODEL for a model")
        else:
            yield _tried("chat", partial(_model, settings, step, model[0], call))


def _model(settings: Settings, step: Step, model: str, call: bool) -> str:
    chat = open_chat(settings.llm)
    chat.check(step)
    if not call:
        return f"{model}, not called: memforest doctor --call does"
    started = time.monotonic()
    ask = Message("user", "Answer with the word ready.")
    chat.complete(ChatRequest(step, (ask,), max_tokens=PING_MAX_TOKENS))
    return f"{model} answered in {time.monotonic() - started:.1f} s"


def _disk(place: Path) -> Check:
    there = next((path for path in (place, *place.parents) if path.exists()), Path("/"))
    free = shutil.disk_usage(there).free
    state = State.OK if free >= DISK_WARN else State.WARN if free >= DISK_FAIL else State.FAIL
    advice = "" if state is State.OK else ": make room"
    return Check("disk", state, f"{free / 2**30:.1f} GiB free at {there}{advice}")
