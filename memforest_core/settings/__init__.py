"""Every setting, in one tree, read once from the environment (``MEMFOREST_<GROUP>__<FIELD>``) and a settings file."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from math import log2
from pathlib import Path
from typing import Annotated, Literal, Self, get_args
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ImportString,
    JsonValue,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_settings import BaseSettings, EnvSettingsSource, SettingsConfigDict

from memforest_core.errors import InvalidSettings
from memforest_core.settings.file import read_file, read_named, setting_names

OFFLINE = "offline"
"""The model name of the built-in provider that needs no network and no key."""

ENGLISH_EMBEDDINGS = frozenset({"all-minilm-l6-v2-int8"})
"""Built-in embedding models that know English alone: their vectors say little about other languages."""

E5 = {"near_duplicate": 0.88, "scene_assign": 0.924, "scene_weak": 0.9, "scene_merge": 0.984, "scene_time_bonus": 0.017}
COSINES = {"multilingual-e5-small-4bit": E5}
"""Settings of ``reduce`` with an embedding model, where they are not set: by ``memforest calibrate``;
``near_duplicate`` is reached by as many pairs of its sample as with the default model."""

PREFIX = "MEMFOREST_"
"""Every variable of ours begins so."""

CONFIG_VARIABLE = "MEMFOREST_CONFIG"
"""Names a settings file in YAML."""

_BROKER_SCHEMES = {"redis", "rediss", "redis+socket"}


class Group(BaseModel):
    """A group of settings: unknown names are errors, values do not change after start."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


NotNegative = Annotated[float, Field(ge=0)]


def completed_by(usual: Mapping[str, float]) -> AfterValidator:
    """A table of numbers: what is not given is as usual; another name than those is an error."""

    def complete(given: dict[str, float]) -> dict[str, float]:
        if unknown := given.keys() - usual.keys():
            raise ValueError(f"there is no {min(unknown)}: give some of {', '.join(usual)}")
        return {**usual, **given}

    return AfterValidator(complete)


class DatabaseSettings(Group):
    """Postgres. The service role is neither owner nor superuser; migrations use another URL."""

    url: SecretStr = SecretStr("postgresql+psycopg://memforest_app@localhost/memforest")
    migration_url: SecretStr | None = None
    """The owner's URL, for ``memforest db upgrade``; the service URL when unset."""
    erasures_key: SecretStr | None = None
    """Signs the list of ``memforest erasures``, and checks it when a backup is restored: the same for both."""
    audit_key: SecretStr | None = Field(default=None, min_length=16)
    """Signs heads of the audit (``memforest audit head --sign``), and checks them: at least 16 characters."""
    pool_size: int = Field(default=5, ge=1)
    """Pooled connections of a process. No call to a model or the index needs one, so its threads use a few."""
    max_overflow: int = Field(default=5, ge=0)
    """Further ones while many threads read or write at the same moment."""
    statement_timeout_ms: int = Field(default=30_000, ge=100)
    lock_timeout_ms: int = Field(default=5_000, ge=100)
    answer_timeout_s: float = Field(default=10.0, ge=0.1)
    """Seconds that a library call waits for an answer of Postgres, as from a server that hangs; a call that waits for a
    stage also ends with its ``timeout_s``. A worker waits 5 s longer than ``statement_timeout_ms``."""
    pooler: Literal["auto", "transaction"] = "auto"
    """``transaction``: PgBouncer or another pooler is before Postgres and gives each transaction any session of the
    server. Statements are then not prepared, and connections not counted at start. Most poolers are noticed without."""


class BrokerSettings(Group):
    """The Redis-protocol broker; it carries wake-ups only."""

    url: SecretStr = SecretStr("redis://localhost:6379/0")
    publish_timeout_s: float = Field(default=3.0, gt=0)
    """A publish to a frozen broker fails after this long; the work is already stored."""

    @field_validator("url")
    @classmethod
    def _redis_address(cls, url: SecretStr) -> SecretStr:
        """Refused here, where it can still be repaired: the first message is sent after a session was stored."""
        scheme, separator, rest = url.get_secret_value().partition("://")
        if separator and rest and scheme == "sentinel":
            return url
        parts = urlsplit(url.get_secret_value())
        place = parts.path if scheme == "redis+socket" else parts.hostname
        if scheme not in _BROKER_SCHEMES or not place or parts.port == 0:
            raise ValueError("give an address such as redis://host:6379/0")
        return url


class IndexSettings(Group):
    """The vector index: a Qdrant server, or the Qdrant engine inside this process."""

    kind: Literal["qdrant", "qdrant_edge"] = "qdrant"
    url: str = "http://localhost:6333"
    api_key: SecretStr | None = None
    path: Path | None = None
    """Directory of the in-process engine."""
    timeout_s: float = Field(default=10.0, gt=0)
    batch: int = Field(default=128, ge=1, le=1024)
    mark_s: float = Field(default=3_600.0, gt=0)
    """How often both stores get a new common mark, by which a restored one is recognized."""
    shards: int | None = Field(default=None, ge=1)
    """Of a collection that is made on a Qdrant server from now on; by default the server's choice."""
    replicas: int | None = Field(default=None, ge=1)
    """Copies of each of these shards on different servers."""


class LimitSettings(Group):
    """What all worker processes together may request of one chat or embedding model; counted in Redis."""

    requests_per_minute: int | None = Field(default=None, ge=1)
    tokens_per_minute: int | None = Field(default=None, ge=1)
    concurrent_calls: int | None = Field(default=None, ge=1)
    circuit_failures: int = Field(default=5, ge=1)
    """Calls to a model that fail in a row, over all workers, until it is left alone for a while."""
    circuit_open_s: float = Field(default=15.0, gt=0)
    """The first pause; it doubles with each failed trial, up to the longest."""
    circuit_longest_s: float = Field(default=300.0, gt=0)
    retry_after_longest_s: float = Field(default=60.0, gt=0)
    """A provider that wants a longer pause (Retry-After) is retried after this long."""


_OWN_PARAMETERS = {
    *("api_base", "api_key", "base_url", "model", "messages", "max_tokens", "temperature", "response_format"),
    *("timeout", "max_retries", "num_retries", "stream", "drop_params"),
}
"""What a call is made with anyway; most have settings of their own."""


def _others_only(parameters: dict[str, JsonValue]) -> dict[str, JsonValue]:
    ours = sorted(parameters.keys() & _OWN_PARAMETERS)
    if ours:
        raise ValueError(f"leave {ours[0]} out: MemForest sets it itself")
    return parameters


Parameters = Annotated[dict[str, JsonValue], AfterValidator(_others_only)]


class ModelPrice(Group):
    """US dollars for a million tokens of a model, in place of litellm's price list."""

    input: float = Field(ge=0)
    cached_input: float | None = Field(default=None, ge=0)
    """Of prompt tokens that the provider's cache knew; as the others when unset."""
    output: float = Field(default=0.0, ge=0)


class StepOverride(Group):
    """What one step sets differently from ``llm``; unset fields inherit."""

    model: str | None = None
    api_base: str | None = None
    api_key: SecretStr | None = None
    timeout_s: float | None = None
    concurrency: int | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    parameters: Parameters | None = Field(default=None, repr=False)
    """Added to ``llm.parameters``."""


class LlmSettings(Group):
    """Chat models, through litellm; ``offline`` needs neither network nor key."""

    model: str = OFFLINE
    api_base: str | None = None
    api_key: SecretStr | None = None
    timeout_s: float = Field(default=90.0, gt=0)
    """A hard deadline for one call, whatever the provider does. The longest answer is that of a whole window, some
    2,000 tokens."""
    concurrency: int = Field(default=32, ge=1)
    """Calls under way at once, per process and step."""
    max_tokens: int = Field(default=4096, ge=64)
    temperature: float = Field(default=0.0, ge=0, le=2)
    schema_mode: Literal["auto", "json_schema", "json_object", "prompt"] = "auto"
    parameters: Parameters = Field(default={}, repr=False)
    """Further parameters of a call as litellm knows them, as a JSON object: {"reasoning_effort": "low"}."""
    prices: dict[str, ModelPrice] = {}
    """Prices of models, as a JSON object: {"openai/own": {"input": 2, "cached_input": 0.5, "output": 10}}."""
    extract: StepOverride = StepOverride()
    summarize: StepOverride = StepOverride()
    browse: StepOverride = StepOverride()
    plan: StepOverride = StepOverride()
    answer: StepOverride = StepOverride()
    profile: StepOverride = StepOverride()
    """Profiles, what to forget, and what somebody wants of the memory."""


class EmbeddingSettings(Group):
    """The sentence embedding model; the dimension is found from the model itself."""

    model: str = "all-minilm-l6-v2-int8"
    """all-minilm-l6-v2-int8 (built in), multilingual-e5-small-4bit (``memforest[e5]``), or any litellm embedding
    model."""
    api_base: str | None = None
    api_key: SecretStr | None = None
    timeout_s: float = Field(default=30.0, gt=0)
    batch: int = Field(default=64, ge=1)
    input_usd_per_mtok: float | None = None


Marker = Annotated[str, Field(min_length=3, max_length=60, pattern=r"^[^\x00-\x1f\s][^\x00-\x1f]*$")]


PatternName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9 _-]{0,39}$")]


class RedactSettings(Group):
    """What is masked before a text is stored, embedded or shown to a model; nothing unless set (docs/input.md)."""

    kinds: tuple[Literal["api_key", "card", "iban", "email"], ...] = ()
    """Of these, as a JSON list."""
    patterns: dict[PatternName, Annotated[str, Field(min_length=1, max_length=1_000)]] = {}
    """Expressions of RE2 by name, as a JSON object: what matches becomes ``[name]``."""
    function: ImportString[Callable[[str], str]] | None = None
    """A function of the application, ``package.module.name``, that is given what is left and returns what to store."""


class AcceptSettings(Group):
    """What is accepted, and how turns are cut into cells (artifact: 2 turns, 8,000 characters, 6 h)."""

    max_turns: int = Field(default=20_000, ge=1)
    max_turn_bytes: int = Field(default=262_144, ge=1_024)
    cell_turns: int = Field(default=2, ge=1, le=16)
    cell_chars: int = Field(default=8_000, ge=200)
    """Of the turns of a cell together."""
    part_chars: int = Field(default=800, ge=200)
    """A turn of more characters is cut into cells of its own, each a part of it that is found and delivered alone."""
    tool_part_chars: int = Field(default=400, ge=200)
    """The same for turns of the role tool: JSON, logs, tables."""
    cell_gap_h: float = Field(default=6.0, gt=0)
    topic_markers: tuple[Marker, ...] = Field(
        default=("--- topic", "--- session", "new topic:", "switching gears"), max_length=32
    )
    """Beginnings of a line, as a JSON list, with which a turn starts a cell of its own (artifact); [] for none."""
    window_tokens: int = Field(default=1_200, ge=50, le=32_000)
    """Estimated tokens of talk that one extraction call reads; a longer cell is read alone."""
    window_turns: int = Field(default=64, ge=1, le=64)
    """Turns that it reads at most."""
    quiet_s: float = Field(default=20.0, ge=0)
    """An appended turn waits this long for the second turn of its cell."""
    time_zone: str = "UTC"
    """Of a new forest: where naive timestamps and relative dates are read."""
    session_gap_h: float = Field(default=6.0, gt=0)
    """A turn that comes without a session id this long after the one before begins a new session."""
    max_waiting_cells: int = Field(default=200_000, ge=1)
    """Cells of a tenant that wait for extraction; past it ``enqueue`` refuses, saying when to come back."""
    max_turns_per_day: int | None = Field(default=None, ge=1)
    """Turns that a tenant may store in 24 hours; without a limit when unset."""
    redact: RedactSettings = RedactSettings()


Category = Annotated[str, Field(min_length=1, max_length=60, pattern=r"^[^\x00-\x1f,]+$")]


class ExtractSettings(Group):
    """Extraction."""

    instructions: str = Field(default="", max_length=4_000)
    """Instructions of the model beyond the built-in prompt, such as what matters to this application. Changing it
    changes the key of answers already paid for."""
    categories: tuple[Category, ...] = Field(default=(), max_length=64)
    """Domains that scenes are given, as a JSON list; the model's own choice when empty. Part of the same key."""
    repairs: int = Field(default=1, ge=0, le=5)
    """How often an answer of which less than half can be read is shown to the model with what is wrong, before the
    fallback."""
    lease_s: float = Field(default=300.0, gt=0)
    max_attempts: int = Field(default=5, ge=1)
    retry_s: float = Field(default=60.0, gt=0)
    """A cell that was stored word by word is extracted once more after this long, then after twice that, and so on."""
    retry_longest_s: float = Field(default=86_400.0, gt=0)


PromptName = Literal["extract", "summarize", "browse", "plan", "rewrite", "answer", "profile", "window", "calendar"]


class ReduceSettings(Group):
    """Canonicalization and routing. The cosines belong to an embedding model (artifact values)."""

    near_duplicate: float = Field(default=0.65, ge=0, le=1)
    """From this cosine on two facts are compared: they are one if their wording certainly says the same."""
    entity_min_facts: int = Field(default=3, ge=1)
    entity_min_sessions: int = Field(default=2, ge=1)
    scene_assign: float = Field(default=0.70, ge=0, le=1)
    scene_weak: float = Field(default=0.58, ge=0, le=1)
    scene_merge: float = Field(default=0.88, ge=0, le=1)
    scene_cap: int = Field(default=60, ge=2)
    scene_min_facts: int = Field(default=3, ge=1)
    """A scene has a tree from so many facts on; before that it waits as a candidate, as entities do."""
    scene_time_bonus: float = Field(default=0.08, ge=0, le=1)
    scene_time_days: float = Field(default=45.0, gt=0)


class TreeSettings(Group):
    """Branching factors (artifact: session 3, entity 8, scene 10)."""

    session_k: int = Field(default=3, ge=3, le=64)
    entity_k: int = Field(default=8, ge=3, le=64)
    scene_k: int = Field(default=10, ge=3, le=64)


QUIET_LEAVES = 64
"""A tree of more leaves waits longer for quiet, by ``quiet_s`` for each doubling: frequent sessions then cost large
trees fewer summaries. A caller that waits for summaries, or flushes, waits for no quiet period."""


class RefreshSettings(Group):
    """When dirty trees are refreshed, and how long their texts are."""

    quiet_s: float = Field(default=2.0, ge=0)
    """A tree is refreshed when nothing was inserted for so long."""
    max_staleness_s: float = Field(default=30.0, ge=0)
    """No insertion puts a refresh off for longer than this after the first one that it is for."""
    batch_nodes: int = Field(default=16, ge=1)
    lease_s: float = Field(default=300.0, gt=0)
    max_attempts: int = Field(default=5, ge=1)
    budget_chars: int = Field(default=800, ge=100)
    """Length of a summary; children whose texts fit together are joined without a model."""
    model_from_leaves: int = Field(default=128, ge=1)
    """A chat model summarizes nodes above so many leaves or more; below, rules pick from the children's texts, as
    without a model. 1 calls the model for every text that does not fit. A change is valid for what is summarized from
    then on: texts whose children stay as they are stay too."""
    model_reads_last: bool = False
    """Whether the model reads a node's last child too. Else rules pick from that one, and what the model wrote of the
    others stays as long as they do: trees grow at their end."""
    title_sizes: tuple[Annotated[int, Field(ge=1)], ...] = Field(default=(20,), max_length=16)
    """A chat model names a scene when it has so many facts, once for each number, as a JSON list; with [] titles are
    made of terms, as without a model."""

    def quiet_of(self, leaves: int) -> float:
        """The quiet period in seconds of a tree with so many leaves: quiet_s x (1 + log2(leaves / 64)), not
        less than quiet_s."""
        return self.quiet_s * (1 + max(0.0, log2(max(1, leaves) / QUIET_LEAVES)))


class WorkerSettings(Group):
    """Worker processes."""

    heartbeat_s: float = Field(default=5.0, gt=0)
    dead_after_s: float = Field(default=30.0, gt=0)
    """A worker without a heartbeat for this long is dead, and its leases with it."""
    poll_s: float = Field(default=1.0, gt=0)
    """How often a worker polls for due trees."""
    reconcile_s: float = Field(default=5.0, gt=0)
    task_budget_s: float = Field(default=2.0, gt=0)
    """One task works on for at most this long before it hands over to a new message: other queues get their turn."""
    vacuum_every_s: float = Field(default=300.0, ge=1)
    """How often tables are vacuumed at most, after rows of this tenant were deleted."""
    stuck_s: float = Field(default=900.0, gt=0)
    """A unit of work that takes this long is stuck: its process is restarted. At least ten timeouts of a chat model,
    unless it is set."""
    health_file: Path | None = None

    @model_validator(mode="after")
    def _alive_between_heartbeats(self) -> Self:
        if self.dead_after_s < 3 * self.heartbeat_s:
            raise ValueError("worker.dead_after_s must be at least 3 times worker.heartbeat_s")
        return self


class DeploymentSettings(Group):
    """How many processes a deployment has, to know their connections before they are opened."""

    worker_processes: int = Field(default=2, ge=1)
    client_processes: int = Field(default=1, ge=0)
    """App servers that accept sessions and recall."""


class ObserveSettings(Group):
    """What can be seen from outside."""

    metrics_host: str = "127.0.0.1"
    metrics_port: int | None = Field(default=None, ge=0, le=65_535)
    """Workers serve Prometheus metrics here; each process of one command takes the next port. None: no metrics."""
    otlp_endpoint: str | None = None
    """Base URL of an OpenTelemetry collector (OTLP over HTTP); needs ``pip install memforest[tracing]``."""


class ServerSettings(Group):
    """The service over HTTP (``memforest serve``)."""

    host: str = "127.0.0.1"
    """The address to listen on; 0.0.0.0 for all of the machine's."""
    port: int = Field(default=8080, ge=0, le=65_535)
    """0 takes a free one."""
    threads: int = Field(default=32, ge=1, le=1_024)
    """Calls at once in each process; waiting clients hold none."""
    max_body_mb: float = Field(default=16.0, gt=0)
    """Of one request; streams of sessions may be longer."""
    max_bundle_mb: float = Field(default=4_096.0, gt=0)
    """Of a bundle that is imported over HTTP."""
    max_connections: int = Field(default=1_000, ge=2)
    """Of one process; one address gets half of them, unless ``proxy`` is set."""
    streams_per_key: int = Field(default=100, ge=1)
    """Streams of events and of sessions that one key has open at once in each process."""
    proxy: str = ""
    """Addresses or networks of the proxies before this server, with commas between; ``*`` for all. Their
    ``X-Forwarded-For`` and ``X-Forwarded-Proto`` are believed, nobody else's."""
    requests_per_minute: int = Field(default=6_000, ge=1)
    """Of one key over all processes, unless the key has a limit of its own."""
    metrics_port: int | None = Field(default=None, ge=0, le=65_535)
    """Prometheus metrics of ``memforest serve`` at ``observe.metrics_host``; each further process has the next."""
    key_label: str = Field(default="", pattern="^[a-z0-9]{0,16}$")
    """Begins the secrets that are made here, after ``mf_``, and ends with ``_``: a proxy before several databases sends
    each request by it to the servers of its own."""


class RerankSettings(Group):
    """A cross-encoder over the first evidence items; none unless a model or a directory is named."""

    model: str | None = None
    """A rerank model that litellm knows, such as ``cohere/rerank-v3.5``."""
    path: Path | None = None
    """A directory with ``model.onnx`` and ``tokenizer.json`` of a cross-encoder, run in this process."""
    api_base: str | None = None
    api_key: SecretStr | None = None
    first: int = Field(default=50, ge=2, le=500)
    """Evidence items that are reranked."""
    timeout_s: float = Field(default=5.0, gt=0)


class WindowSettings(Group):
    """The window of a session: what a model is shown of the conversation that runs."""

    enabled: bool = True
    """Off: windows are empty, and nothing is stored for them."""
    max_tokens: int = Field(default=2_000, ge=1)
    """Estimated tokens of a window, as recall counts them."""
    last_turns: int = Field(default=4, ge=1, le=200)
    """The last turns that stay word for word."""
    summary_chars: int = Field(default=800, ge=100, le=20_000)
    """Length of the summary."""
    items: int = Field(default=50, ge=1, le=1_000)
    """Items of a window; what does not fit any more falls out."""
    eviction: Literal["LRU", "FIFO"] = "LRU"
    """LRU: the item falls out that was put in, or put in again, the longest ago. FIFO: putting in again counts not."""


class SourceSettings(Group):
    """An external Qdrant collection that recall may read in addition to the forest: which fields of a point's payload
    are what.

    Names of fields may have dots for fields within fields.
    """

    url: str = Field(pattern=r"^https?://[^@\s]+$", max_length=2_000)
    """Where the server is; its key is never part of it."""
    collection: str = Field(min_length=1, max_length=255)
    text: str = Field(min_length=1, max_length=200)
    """The field with the text that is shown; points without it are left out."""
    time: str | None = None
    """The field with the timestamp: ISO 8601, or unix seconds or milliseconds."""
    metadata: tuple[str, ...] = Field(default=(), max_length=64)
    """Fields that are shown with the text, and that conditions on metadata look at."""
    tenant: str | None = None
    """A field that must have this deployment's tenant; every tenant sees every point when unset."""
    owner: str | None = None
    """A field that must have the requested owner; every owner sees every point when unset."""
    vector: str = ""
    """The name of the vector; empty for a collection with one vector without a name. It must come from the embedding
    model of MemForest, with the distance Cosine."""
    key_variable: str | None = Field(default=None, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    """The environment variable with the server's api key; not one that begins with MEMFOREST_."""
    limit: int = Field(default=20, ge=1, le=200)
    """Points that one recall reads, the nearest ones."""
    max_chars: int = Field(default=8_000, ge=1, le=65_536)
    """Longer texts are cut; as long as a cell may be."""
    timeout_s: float = Field(default=2.0, gt=0, le=60)
    """A recall waits for it at most this long."""

    @field_validator("url")
    @classmethod
    def _address(cls, url: str) -> str:
        parts = urlsplit(url)
        if not parts.hostname or parts.port == 0:
            raise ValueError("give an address such as http://host:6333")
        return url

    @field_validator("key_variable")
    @classmethod
    def _not_a_setting(cls, name: str | None) -> str | None:
        if name is not None and name.upper().startswith(PREFIX):
            raise ValueError(f"give the variable a name that does not begin with {PREFIX}: that would be a setting")
        return name


class CalendarSettings(Group):
    """Digests of an owner's days. They are made when they are read."""

    day_chars: int = Field(default=300, ge=50, le=5_000)
    """Length of what a day's digest says of one speaker."""
    week_chars: int = Field(default=500, ge=100, le=10_000)
    """Length of the text of days 2 to 7, and of a month, a year, or the whole life."""
    today_s: int = Field(default=3_600, ge=0)
    """Seconds after which a digest is made again when turns have come since; 0: at every reading."""
    at_once: int = Field(default=8, ge=1)
    """Digests that one reading makes at most, the newest days first; the rest is made by the next readings."""


WEIGHTS: dict[str, float] = {
    "lexical": 0.7,
    "dense": 1.3,
    "cell": 0.5,
    "fact": 1.0,
    "root": 0.5,
    "wording": 0.65,
    "next_but_one": 0.2,
    "answer": 0.15,
    "speaker": 0.3,
    "tokens": 0.15,
    "series": 1.0,
    "current": 1.0,
    "exact": 1.0,
    "time": 0.3,
    "ranked": 1.0,
    "recency": 0.0,
}
"""The usual weights of the signals; each list of scores is scaled to [0, 1]. What each is for: docs/retrieval.md."""


class RecallSettings(Group):
    """Recall: how many of what, and the weights of the signals."""

    k: int = Field(default=10, ge=1, le=1000)
    mode: Literal["auto", "flat", "embedding", "llm", "planner"] = "embedding"
    trees: tuple[Literal["session", "entity", "scene"], ...] = ("session", "entity", "scene")
    """Families of trees that take part: those of sessions vote, all are browsed where a chat model ranks (ADR 7)."""
    flat_limit: int = Field(default=60, ge=1)
    """Cells that words and vectors bring, each (more when more evidence is wanted)."""
    fact_limit: int = Field(default=60, ge=1)
    """Facts that words and vectors bring, each (paper 4.3: 30 by vectors alone)."""
    tree_limit: int = Field(default=6, ge=2)
    """Trees that a chat model browses for one question: of named people first, then the best roots and of the hits."""
    beam: int = Field(default=10, ge=1)
    """Beam width per tree and level (paper)."""
    weights: Annotated[dict[str, NotNegative], completed_by(WEIGHTS)] = WEIGHTS
    """How much each signal counts, as a JSON object of those that differ from the usual: {"speaker": 0.5}; 0 switches
    one off. Each is described in docs/retrieval.md."""
    half_life_days: float = Field(default=30.0, gt=0)
    """Days before the question after which the signal ``recency``, off by default, has half of its weight."""
    list_more: int = Field(default=10, ge=0, le=100)
    """Items beyond ``k`` that are delivered when a question wants all of several things ("which cars has she had");
    none when the caller sets ``k`` or ``max_tokens``."""
    at_once: int = Field(default=3, ge=1, le=1_024)
    """Recalls that compute at the same time in one process, where no model is called meanwhile; others wait for them,
    which is faster for all. More where Postgres or Qdrant are distant."""
    rerank: RerankSettings = RerankSettings()
    sources: dict[Annotated[str, Field(min_length=1, max_length=60)], SourceSettings] = {}
    """External Qdrant collections by name, as a JSON object, that ``recall(sources=[...])`` reads; never written."""


class TopicSettings(Group):
    """Topics: which one a turn belongs to, and how fast what is not read becomes cold."""

    match: float = Field(default=0.30, ge=0, le=1)
    """Score from which a turn belongs to a topic: a cosine without what all topics have in common, and shared words."""
    match_on_append: bool | None = None
    """Find the topic of each turn when it is appended: one embedding more, of a user's turn that has words of a topic.
    Unset: where the embedding model is built in."""
    context_tokens: int = Field(default=2_000, ge=50)
    """Estimated tokens of a topic's context."""
    importance: float = Field(default=0.5, ge=0, le=1)
    """Of a turn whose metadata has no ``importance``."""
    half_life_s: float = Field(default=86_400.0, gt=0)
    """Seconds in which a topic that nobody reads loses half of its priority."""
    max_topics: int = Field(default=20, ge=1)
    """Topics of an owner that stay hot whatever their priority."""
    cold_below: float = Field(default=0.05, ge=0, le=1)
    """Above ``max_topics``, topics with a lower priority become cold."""
    cooling: bool = True
    """Whether topics become cold at all; those that are cold are warmed when it is switched off."""
    pack: bool = True
    """Compress the turns of topics that become cold; what is compressed is unpacked when it is switched off."""


class ProfileSettings(Group):
    """Profiles of people, and forgetting by words."""

    max_facts: int = Field(default=2_000, ge=1, le=10_000)
    """Facts that the states of one person are read from; of more, the latest."""
    max_chars: int = Field(default=2_000, ge=100, le=20_000)
    """Length of a profile that a model writes."""
    cached: int = Field(default=50, ge=0)
    """Texts of profiles that are cached for one memory; the oldest go. 0 caches none."""


FRACTIONS: dict[str, float] = {"profile": 0.2, "week": 0.1, "today": 0.1, "evidence": 0.25, "window": 0.35}
"""The usual fractions of a context's sections."""


class ContextSettings(Group):
    """What goes into the prompt of one chat turn. Shares count relative to their sum; 0 leaves a section out."""

    max_tokens: int = Field(default=2_000, ge=1)
    """Estimated tokens of a context, as recall counts them."""
    fractions: Annotated[dict[str, NotNegative], completed_by(FRACTIONS)] = FRACTIONS
    """Of each section, as a JSON object of those that differ from the usual. What a section does not use goes to the
    window (the running session), then to evidence (what a recall finds), profile, today, week (the days before)."""
    complete_questions: bool = False
    """Let a chat model complete a follow-up question from the session's last turns before it is looked for: a call."""
    profile_every_s: float = Field(default=3_600.0, ge=0)
    """A model writes one person's profile at most once in so many seconds; what is new since is a list below it."""
    merge: bool = False
    """Let a chat model (that of ``llm.profile``) make one text of profile, today and the days before: a call whenever
    one of them has changed."""

    @field_validator("fractions")
    @classmethod
    def _something_is_shown(cls, fractions: dict[str, float]) -> dict[str, float]:
        if not any(fractions.values()):
            raise ValueError("set at least one of the fractions above 0")
        return fractions


class WebhookSettings(Group):
    """Telling other programs of events over HTTP."""

    allow_private: bool = False
    """Deliver to private, loopback and link-local addresses too, and over plain HTTP: for a network of one's own."""
    timeout_s: float = Field(default=15.0, gt=0, le=60)
    """Seconds that one delivery may take, its answer included (Standard Webhooks recommends 15 to 30)."""
    retain_days: float = Field(default=30.0, gt=0, le=3_650)
    """Days for which deliveries that are over stay listed, and can be replayed."""


class GatewaySettings(Group):
    """The OpenAI-compatible paths of the server (``/openai/v1``): which model answers. They are off without one."""

    model: str | None = None
    """litellm's name of the model, such as openai/gpt-4.1-mini."""
    api_base: str | None = None
    api_key: SecretStr | None = None
    timeout_s: float = Field(default=600.0, gt=0)
    """Seconds for a whole answer; of a stream for its beginning, and from part to part."""
    context_tokens: int = Field(default=2_000, ge=1, le=1_000_000)
    """Estimated tokens of memory that are added to a request."""


class Settings(BaseSettings):
    """The whole configuration of a process."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_nested_delimiter="__",
        env_ignore_empty=True,
        extra="forbid",
        frozen=True,
        use_attribute_docstrings=True,
    )

    tenant: str = Field(default="default", min_length=1, max_length=64)
    database: DatabaseSettings = DatabaseSettings()
    broker: BrokerSettings = BrokerSettings()
    index: IndexSettings = IndexSettings()
    llm: LlmSettings = LlmSettings()
    limits: LimitSettings = LimitSettings()
    embedding: EmbeddingSettings = EmbeddingSettings()
    accept: AcceptSettings = AcceptSettings()
    extract: ExtractSettings = ExtractSettings()
    prompts: dict[PromptName, Path] = {}
    """Files of instructions in place of the built-in ones (UTF-8, at most 20,000 characters). What a model is shown,
    that it is data, and the answer's shape follow them. They are part of the keys of what is stored."""
    reduce: ReduceSettings = ReduceSettings()
    tree: TreeSettings = TreeSettings()
    refresh: RefreshSettings = RefreshSettings()
    worker: WorkerSettings = WorkerSettings()
    deployment: DeploymentSettings = DeploymentSettings()
    observe: ObserveSettings = ObserveSettings()
    server: ServerSettings = ServerSettings()
    recall: RecallSettings = RecallSettings()
    window: WindowSettings = WindowSettings()
    calendar: CalendarSettings = CalendarSettings()
    topics: TopicSettings = TopicSettings()
    profile: ProfileSettings = ProfileSettings()
    context: ContextSettings = ContextSettings()
    webhooks: WebhookSettings = WebhookSettings()
    gateway: GatewaySettings = GatewaySettings()

    @model_validator(mode="after")
    def _cosines_of_the_model(self) -> Self:
        usual, given = COSINES.get(self.embedding.model, {}), self.reduce.model_fields_set
        unset = {name: value for name, value in usual.items() if name not in given}
        object.__setattr__(self, "reduce", self.reduce.model_copy(update=unset))  # settings are frozen
        return self

    @property
    def only_english(self) -> str:
        """What sessions in other languages go without by these settings, and what to set; empty when nothing."""
        parts = []
        if (self.llm.extract.model or self.llm.model) == OFFLINE:
            parts.append("the rules read no states from them (set MEMFOREST_LLM__MODEL to a chat model)")
        if self.embedding.model in ENGLISH_EMBEDDINGS:
            # Talk in five languages, found within 500 / 2,000 tokens (docs/offline.md).
            parts.append(
                f"{self.embedding.model} finds less of them (71.7 / 97.5 instead of 86.7 / 100 percent of the"
                " turns found within 500 / 2,000 tokens: set MEMFOREST_EMBEDDING__MODEL=multilingual-e5-small-4bit)"
            )
        return ", and ".join(parts)


def load_settings(**overrides: object) -> Settings:
    """Settings from the file that MEMFOREST_CONFIG names, if it is set, then the environment, then ``overrides``.

    InvalidSettings names what to change. A variable that begins with MEMFOREST_, and a name in the file, that is no
    setting is refused: it would be a setting that is silently not set.
    """
    return _loaded({}, overrides)


def load_default_config(name: str = "default", **overrides: object) -> Settings:
    """Settings that come along under a name, below those of ``load_settings``, which win.

    ``default`` sets nothing, ``offline`` needs no network and no key, ``chat`` is for one person and an assistant,
    ``group`` for several people in a channel, ``import`` for archives, ``paper`` has the paper's values. Raises
    InvalidSettings with these names for another.
    """
    return _loaded(read_named(name, Settings), overrides)


def _loaded(base: dict[str, object], overrides: Mapping[str, object]) -> Settings:
    for name in unknown_variables(os.environ):
        near = nearest_variable(name)
        advice = "unset it (memforest config lists all)" if near is None else f"did you mean {near}"
        raise InvalidSettings(f"{name} is no setting: {advice}{'.' if near is None else '?'}")
    place = settings_place(os.environ)
    written = base if place is None else _merged(base, read_file(place, Settings))
    environment = EnvSettingsSource(Settings)() if written else {}
    try:
        return Settings(**_merged(_merged(written, environment), overrides))  # type: ignore[arg-type]
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        loc = [str(part) for part in first["loc"]]
        if place is not None and _has(written, loc) and not _has(environment, loc):
            raise InvalidSettings(f"{place}: set {'.'.join(loc)} to a valid value: {first['msg']}.") from None
        variable, within = _variable_at(loc)
        where = f"{within}: " if within else ""
        raise InvalidSettings(f"Set {variable} to a valid value: {where}{first['msg']}.") from None


def _variable_at(loc: Sequence[str]) -> tuple[str, str]:
    """The variable of a path in the settings, and the way from there to a value within what is in it."""
    known = set(setting_names(Settings))
    at = next((at for at in range(len(loc), 0, -1) if ".".join(loc[:at]) in known), len(loc))
    return _variable_of(".".join(loc[:at])), ".".join(loc[at:])


def _variable_of(name: str) -> str:
    return f"{PREFIX}{name.replace('.', '__').upper()}"


def settings_place(environment: Mapping[str, str]) -> str | None:
    """The settings file that MEMFOREST_CONFIG names, in whatever case it is written; None when it is unset or empty."""
    return next((value for name, value in environment.items() if name.upper() == CONFIG_VARIABLE and value), None)


def _merged(lower: Mapping[str, object], upper: Mapping[str, object]) -> dict[str, object]:
    """Both; of a setting that both have, the upper one."""
    merged = dict(lower)
    for name, value in upper.items():
        known = merged.get(name)
        merged[name] = _merged(known, value) if isinstance(known, dict) and isinstance(value, dict) else value
    return merged


def _has(settings: Mapping[str, object], loc: Sequence[str]) -> bool:
    """Whether there is a value at a place, or around it."""
    value: object = settings
    for name in loc:
        if not isinstance(value, dict):
            return True
        if name not in value:
            return False
        value = value[name]
    return True


_OURS = re.compile(
    r"MEMFOREST_TEST_\w+|MEMFOREST_(APP_PASSWORD|VERSION)"  # read by the tests, and by the compose file
    r"|MEMFOREST_(URL|KEY|OWNER)"  # read by what reaches a server over HTTP
    r"|MEMFOREST\w*_SERVICE_(HOST|PORT\w*)|MEMFOREST\w*_PORT_\d+_(TCP|UDP)\w*"  # Kubernetes' for services called so
)
_LINK = re.compile(r"(tcp|udp)://")
"""Kubernetes' address of a service, in a variable that ends with _PORT."""


def unknown_variables(environment: Mapping[str, str]) -> list[str]:
    """The variables that look like ours, have a value and are no setting, sorted."""
    known = {CONFIG_VARIABLE, *_variables(), *map(_variable_of, setting_names(Settings, groups=True))}
    return sorted(
        name
        for name, value in environment.items()
        if name.upper().startswith(PREFIX)
        and value
        and name.upper() not in known
        and not _OURS.fullmatch(name)
        and not (name.endswith("_PORT") and _LINK.match(value))
    )


def nearest_variable(name: str) -> str | None:
    """The setting's variable that is written most like ``name``; None when nothing is like it."""
    bare = {variable.removeprefix(PREFIX): variable for variable in (*_variables(), CONFIG_VARIABLE)}
    near = get_close_matches(name.upper().removeprefix(PREFIX), bare, n=1)
    return bare[near[0]] if near else None


def _variables() -> Iterator[str]:
    """The variables of all settings, and of the known keys of those that are tables."""
    tables = {"prompts": get_args(PromptName), "recall.weights": WEIGHTS, "context.fractions": FRACTIONS}
    yield from map(_variable_of, setting_names(Settings))
    yield from (_variable_of(f"{table}.{key}") for table, keys in tables.items() for key in keys)
