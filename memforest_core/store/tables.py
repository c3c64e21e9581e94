"""The tables. The tenant leads every key; work rows carry a lease; derived artifacts have their own tables.

Statements in text call the tables alike: f forest, s session (or node_summary), t turn, c cell, k candidate (or
maintenance, the operations), o occurrence, x fact, p placement, r tree, n node, i index_row. A second row of one table
has a word for a name: head, other, child, newer, parent.
"""

from __future__ import annotations

from datetime import date, datetime
from typing import Annotated, Any
from uuid import UUID

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Computed,
    Constraint,
    Date,
    Double,
    ForeignKeyConstraint,
    Identity,
    Index,
    LargeBinary,
    MetaData,
    SmallInteger,
    Text,
    UniqueConstraint,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, TIMESTAMP
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

SCHEMA = "memforest"

NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}


class Base(DeclarativeBase):
    """Declarative base: our own schema, named constraints, aware timestamps, native UUIDs."""

    metadata = MetaData(schema=SCHEMA, naming_convention=NAMING)
    type_annotation_map = {  # noqa: RUF012 - SQLAlchemy reads this name off the class
        str: Text(),
        datetime: TIMESTAMP(timezone=True),
        UUID: Uuid(),
        dict[str, Any]: JSONB(),
        list[str]: ARRAY(Text()),
        bytes: LargeBinary(),
        date: Date(),
        float: Double(),
    }

    def __init_subclass__(cls, *, table: str = "", **named: Any) -> None:
        if table:
            cls.__tablename__ = table
        super().__init_subclass__(**named)


NOW = text("clock_timestamp()")

# A column's policy. Each column of text, bytes or JSON has one of the first three; all that is erased, counted, copied
# and exported is derived from them.
WORDS = {"personal": "words"}
"""What was said or made of it: blanked in a row that outlives its words, deleted with any other."""
NAME = {"personal": "row"}
"""Somebody's name or id, or made of one: deleted with its row."""
CODE = {"personal": ""}
"""Nothing of a person."""
NOT_COPIED = {"copied": False}
"""Who works on a row."""
NOT_EXPORTED = {"exported": False}
"""What an import computes, or what only this database needs."""
Words = Annotated[str, mapped_column(info=WORDS)]
Name = Annotated[str, mapped_column(info=NAME)]
Code = Annotated[str, mapped_column(info=CODE)]


def _belongs_to(parent: str, *keys: str, onupdate: str | None = None, ondelete: str | None = None) -> Constraint:
    """The reference to a parent row of the same tenant, whose key columns have the same names."""
    columns = ["tenant_id", *keys]
    parents = [f"{SCHEMA}.{parent}.{column}" for column in columns]
    return ForeignKeyConstraint(columns, parents, onupdate=onupdate, ondelete=ondelete)


def _index(name: str, *columns: str, unique: bool = False, where: str | None = None) -> Index:
    """An index, over the rows of the condition ``where`` if that is given."""
    return Index(name, *columns, unique=unique, postgresql_where=None if where is None else text(where))


TRANSITIONS = {
    "held": ("ready",),
    "ready": ("running",),
    "running": ("ready", "done", "dead"),
    "done": ("ready", "dead"),
    "dead": ("ready", "done"),
}
"""The states of a work row, and those that may follow each: triggers refuse any other change."""
WORK_STATES = str(tuple(TRANSITIONS))


class OfTenant:
    """The column that leads the key of every table with a tenant's rows."""

    tenant_id: Mapped[Code] = mapped_column(primary_key=True, sort_order=-1)


class Work:
    """The columns of every unit of work: its state, its attempts, and the lease with its worker and deadline."""

    state: Mapped[Code] = mapped_column(server_default="ready")
    lane: Mapped[int] = mapped_column(SmallInteger, server_default="0")
    attempts: Mapped[int] = mapped_column(SmallInteger, server_default="0")
    lost_leases: Mapped[int] = mapped_column(SmallInteger, server_default="0", info=NOT_COPIED)
    available_at: Mapped[datetime] = mapped_column(server_default=NOW)
    lease_token: Mapped[UUID | None] = mapped_column(info=NOT_COPIED)
    lease_until: Mapped[datetime | None] = mapped_column(info=NOT_COPIED)
    worker_id: Mapped[UUID | None] = mapped_column(info=NOT_COPIED)
    error_code: Mapped[Code | None]
    error_text: Mapped[Code | None]


class Tenant(OfTenant, Base, table="tenant"):
    """An API-key holder."""

    created_at: Mapped[datetime] = mapped_column(server_default=NOW)
    max_waiting_cells: Mapped[int | None]
    max_turns_per_day: Mapped[int | None]


class TenantRole(Base, table="tenant_role"):
    """A tenant that a login role of the group memforest_limited may bind to; read by ``granted_tenants()`` only."""

    role: Mapped[Code] = mapped_column(primary_key=True)
    tenant: Mapped[Code] = mapped_column(primary_key=True)
    granted_at: Mapped[datetime] = mapped_column(server_default=NOW)


class MovedTenant(Base, table="moved_tenant"):
    """A tenant that another database has or is getting: its transactions are refused here, with the ``place``;
    or one that a move has brought."""

    tenant: Mapped[Code] = mapped_column(primary_key=True)
    place: Mapped[Code | None]
    move_id: Mapped[UUID | None]
    """The move that has not ended here."""
    brought_by: Mapped[UUID | None]


class ApiKey(OfTenant, Base, table="api_key"):
    """A key with which programs reach the tenant over HTTP; the secret itself is not stored."""

    __table_args__ = (
        CheckConstraint("scope IN ('read', 'write', 'admin')", name="scope"),
        UniqueConstraint("secret_hash"),
    )

    key_id: Mapped[UUID] = mapped_column(primary_key=True)
    secret_hash: Mapped[bytes] = mapped_column(info=CODE)
    """SHA-256; ``memforest.key_caller`` finds the key by it in whichever tenant."""
    name: Mapped[Code]
    scope: Mapped[Code]
    owners: Mapped[Code | None]
    requests_per_minute: Mapped[int | None]
    created_at: Mapped[datetime] = mapped_column(server_default=NOW)
    revoked_at: Mapped[datetime | None]
    last_used_at: Mapped[datetime | None]
    expires_at: Mapped[datetime | None]


class WebhookEndpoint(OfTenant, Base, table="webhook_endpoint"):
    """An address of a tenant that events are posted to."""

    endpoint_id: Mapped[UUID] = mapped_column(primary_key=True)
    url: Mapped[Code]
    events: Mapped[list[str]] = mapped_column(info=CODE)
    description: Mapped[Code] = mapped_column(server_default="")
    secret: Mapped[Code]
    """As it was shown: each message is signed with it."""
    former_secret: Mapped[Code | None]
    """The one before, with which messages are signed too until ``former_until``."""
    former_until: Mapped[datetime | None]
    enabled: Mapped[bool] = mapped_column(server_default="true")
    created_at: Mapped[datetime] = mapped_column(server_default=NOW)


class WebhookDelivery(OfTenant, Work, Base, table="webhook_delivery"):
    """An event for one endpoint, and the work row of its delivery. Rows are written by ``tell_webhooks()``.

    ``held`` waits for the session's summaries; ``available_at`` of what is done or dead says when it is deleted.
    """

    __table_args__ = (
        CheckConstraint(f"state IN {WORK_STATES}", name="state"),
        _belongs_to("webhook_endpoint", "endpoint_id", ondelete="CASCADE"),
        _index("ix_webhook_delivery_due", "tenant_id", "available_at", where="state IN ('held', 'ready')"),
        _index("ix_webhook_delivery_past", "tenant_id", "available_at", where="state IN ('done', 'dead')"),
        _index("ix_webhook_delivery_lease", "lease_until", where="state = 'running'"),
        _index("ix_webhook_delivery_newest", "tenant_id", "created_at", "delivery_id"),
        _index("ix_webhook_delivery_endpoint", "tenant_id", "endpoint_id", "created_at", "delivery_id"),
        _index("ix_webhook_delivery_forest", "tenant_id", "forest_id", where="forest_id IS NOT NULL"),
    )

    delivery_id: Mapped[UUID] = mapped_column(primary_key=True)
    endpoint_id: Mapped[UUID]
    event: Mapped[Code]
    data: Mapped[dict[str, Any]] = mapped_column(info=NAME)
    """Ids only; an owner's name only together with their ``forest_id``."""
    forest_id: Mapped[UUID | None]
    created_at: Mapped[datetime] = mapped_column(server_default=NOW)
    finished_at: Mapped[datetime | None]
    status: Mapped[int | None] = mapped_column(SmallInteger)
    """Of the last answer over HTTP."""


class Forest(OfTenant, Base, table="forest"):
    """The whole memory of one owner: the unit of isolation and of write ordering."""

    __table_args__ = (
        CheckConstraint("state IN ('live', 'frozen', 'hidden', 'gone')", name="state"),
        _index("ix_forest_owner", "tenant_id", "owner", unique=True, where="state IN ('live', 'frozen')"),
        _index("ix_forest_unseen", "tenant_id", "owner", where="state IN ('hidden', 'gone')"),
    )

    forest_id: Mapped[UUID] = mapped_column(primary_key=True)
    owner: Mapped[Name]
    time_zone: Mapped[Code] = mapped_column(server_default="UTC")
    created_at: Mapped[datetime] = mapped_column(server_default=NOW)
    reduce_available_at: Mapped[datetime] = mapped_column(server_default=NOW)
    reduce_failures: Mapped[int] = mapped_column(SmallInteger, server_default="0")
    scene_seq: Mapped[int] = mapped_column(server_default="0")
    state: Mapped[Code] = mapped_column(server_default="live")
    """``frozen`` takes no sessions, ``hidden`` is being built while another is live, ``gone`` is being deleted."""
    rules: Mapped[dict[str, Any]] = mapped_column(server_default="{}", info=CODE)
    """The branching and thresholds it was materialized with, where they differ from the settings."""
    display_name: Mapped[Name | None]
    """The owner's display name, when the id is no name."""


class Session(OfTenant, Base, table="session"):
    """One bounded conversation."""

    __table_args__ = (
        UniqueConstraint("tenant_id", "forest_id", "external_id"),
        _belongs_to("forest", "forest_id"),
        _index("ix_session_updated", "tenant_id", "updated_at"),
        _index("ix_session_channel", "tenant_id", "forest_id", "channel", where="channel IS NOT NULL"),
        _index("ix_session_pinned", "tenant_id", "forest_id", where="pinned"),
    )

    session_id: Mapped[UUID] = mapped_column(primary_key=True)
    forest_id: Mapped[UUID]
    external_id: Mapped[Name]
    time_zone: Mapped[Code]
    started_at: Mapped[datetime]
    turn_count: Mapped[int] = mapped_column(server_default="0")
    cell_count: Mapped[int] = mapped_column(server_default="0")
    lane: Mapped[int] = mapped_column(SmallInteger, server_default="0")
    metadata_: Mapped[dict[str, Any]] = mapped_column("metadata", server_default="{}", info=NAME)
    trace: Mapped[Code | None]
    created_at: Mapped[datetime] = mapped_column(server_default=NOW)
    updated_at: Mapped[datetime] = mapped_column(server_default=NOW)
    origin_owner: Mapped[Name | None]
    """Whose forest it was accepted in, when it came here by a merge."""
    note: Mapped[bool] = mapped_column(server_default="false")
    """What is said in it is pinned: the reducer pins its facts in the transaction that stores them."""
    channel: Mapped[Name | None]
    """Where it took place, as the caller names it."""
    pinned: Mapped[bool] = mapped_column(server_default="false")
    """No policy takes anything of it."""


class Speaker(OfTenant, Base, table="speaker"):
    """The human speakers of a forest, and their names."""

    forest_id: Mapped[UUID] = mapped_column(primary_key=True)
    speaker_id: Mapped[Name] = mapped_column(primary_key=True)
    name: Mapped[Name] = mapped_column(primary_key=True)
    since: Mapped[datetime | None]
    """When the first turn under the name was said, as far as it was accepted then; the latest is the newest name."""


class TurnRow(OfTenant, Base, table="turn"):
    """One utterance, as accepted."""

    __table_args__ = (
        UniqueConstraint("tenant_id", "session_id", "external_id"),
        _belongs_to("session", "session_id"),
        CheckConstraint("(content IS NULL) = (pack IS NOT NULL)", name="text"),
        _index("ix_turn_pinned", "tenant_id", "session_id", "ordinal", where="pinned"),
    )

    session_id: Mapped[UUID] = mapped_column(primary_key=True)
    ordinal: Mapped[int] = mapped_column(primary_key=True)
    external_id: Mapped[Name]
    role: Mapped[Code]
    content: Mapped[str | None] = mapped_column(info=WORDS | {"blank": "''"})
    """None while it is in a pack: ``store/packs.py`` reads both."""
    occurred_at: Mapped[datetime]
    dated: Mapped[bool]
    speaker_id: Mapped[Words]
    name: Mapped[Words]
    metadata_: Mapped[dict[str, Any]] = mapped_column("metadata", server_default="{}", info=WORDS)
    erased: Mapped[bool] = mapped_column(server_default="false")
    """The content is deleted; the row retains its ordinal and id, so that sending the session again changes nothing."""
    pinned: Mapped[bool] = mapped_column(server_default="false")
    """No policy takes it, nor a fact that rests on it."""
    utc_offset: Mapped[int | None] = mapped_column(SmallInteger)
    """Minutes by which the sender's clock was ahead of UTC; null where it is that of the forest's time zone."""
    pack: Mapped[int | None] = mapped_column(info=NOT_COPIED)
    """The row of ``turn_pack`` that has its text; no key, because an index would take what packing saves."""
    is_question: Mapped[bool | None] = mapped_column(info=NOT_COPIED)
    """Of a packed turn: its text ends with a question mark."""


class TurnPack(OfTenant, Base, table="turn_pack"):
    """The texts of turns of a topic that became cold, compressed together. Copies and bundles have them unpacked."""

    __table_args__ = (_index("ix_turn_pack_topic", "tenant_id", "forest_id", "tree_id"),)

    pack: Mapped[int] = mapped_column(Identity(), primary_key=True)
    forest_id: Mapped[UUID]
    tree_id: Mapped[UUID]
    """The topic's, which may be gone."""
    texts: Mapped[bytes] = mapped_column(info=WORDS)
    turns: Mapped[int]
    text_bytes: Mapped[int]
    """Of the texts in UTF-8."""


class Cell(OfTenant, Work, Base, table="cell"):
    """Consecutive turns: the unit of provenance and the work row of extraction.

    ``done`` means extracted; ``placed`` means that the reducer has put it into the trees.
    """

    __table_args__ = (
        UniqueConstraint("tenant_id", "session_id", "ordinal"),
        _belongs_to("session", "session_id"),
        CheckConstraint(f"state IN {WORK_STATES}", name="state"),
        _index(
            *("ix_cell_claim", "tenant_id", "lane", "forest_id", "available_at"),
            where="state = 'ready' AND ordinal = window_ordinal",
        ),
        _index(
            "ix_cell_reduce", "tenant_id", "forest_id", "session_id", "ordinal", where="state = 'done' AND NOT placed"
        ),
        _index("ix_cell_reduce_lane", "tenant_id", "lane", "extracted_at", where="state = 'done' AND NOT placed"),
        _index("ix_cell_retry", "tenant_id", "retry_at", where="retry_at IS NOT NULL"),
        _index("ix_cell_dead", "tenant_id", where="state = 'dead'"),
        _index("ix_cell_lease", "lease_until", where="state = 'running'"),
        _index("ix_cell_held", "tenant_id", "available_at", where="state = 'held'"),
        _index("ix_cell_forest", "tenant_id", "forest_id", "text_hash"),
        _index("ix_cell_time", "tenant_id", "forest_id", "time_end", "time_start"),
    )

    cell_id: Mapped[UUID] = mapped_column(primary_key=True)
    forest_id: Mapped[UUID]
    session_id: Mapped[UUID]
    ordinal: Mapped[int]
    window_ordinal: Mapped[int]
    first_turn: Mapped[int]
    last_turn: Mapped[int]
    char_start: Mapped[int | None]
    char_end: Mapped[int | None]
    text: Mapped[Words]
    text_hash: Mapped[bytes] = mapped_column(info=WORDS)
    time_start: Mapped[datetime]
    time_end: Mapped[datetime]
    placed: Mapped[bool] = mapped_column(server_default="false")
    outcome: Mapped[Code | None]
    summary: Mapped[Words | None]
    created_at: Mapped[datetime] = mapped_column(server_default=NOW)
    extracted_at: Mapped[datetime | None]
    placed_at: Mapped[datetime | None]
    retry_at: Mapped[datetime | None]
    agains: Mapped[int] = mapped_column(SmallInteger, server_default="0")


class CandidateRow(OfTenant, Base, table="candidate"):
    """One item of one extraction call, stored so that memory can be rebuilt without a model."""

    __table_args__ = (
        _belongs_to("cell", "cell_id"),
        _index("ix_candidate_text_hash", "tenant_id", "text_hash"),
        _index("ix_candidate_routing_hash", "tenant_id", "routing_hash"),
    )

    cell_id: Mapped[UUID] = mapped_column(primary_key=True)
    item: Mapped[int] = mapped_column(SmallInteger, primary_key=True)
    turn_ordinals: Mapped[list[int]] = mapped_column(ARRAY(BigInteger))
    quote: Mapped[Words]
    statement: Mapped[dict[str, Any]] = mapped_column(info=WORDS)
    text_hash: Mapped[bytes] = mapped_column(info=WORDS)
    routing_hash: Mapped[bytes] = mapped_column(info=WORDS)


class FactRow(OfTenant, Base, table="fact"):
    """A canonical fact. The statement is stored whole; fields that queries filter or join on have columns."""

    __table_args__ = (
        _belongs_to("forest", "forest_id"),
        _index("ix_fact_seq", "tenant_id", "forest_id", "seq"),
        _index(
            "ix_fact_chain", "tenant_id", "forest_id", "subject_key", "attribute", "key_time", where="attribute <> ''"
        ),
        _index("ix_fact_text_hash", "tenant_id", "forest_id", "text_hash"),
        _index("ix_fact_pinned", "tenant_id", "forest_id", where="pinned"),
        _index("ix_fact_superseded", "tenant_id", "superseded_by", where="superseded_by IS NOT NULL"),
        _index("ix_fact_wrong", "tenant_id", "fact_id", where="superseded_at IS NOT NULL"),
    )

    fact_id: Mapped[UUID] = mapped_column(primary_key=True)
    forest_id: Mapped[UUID]
    seq: Mapped[int] = mapped_column(BigInteger, Identity())
    text: Mapped[Words]
    normalized: Mapped[Words]
    text_hash: Mapped[bytes] = mapped_column(info=WORDS)
    time_start: Mapped[datetime | None]
    time_end: Mapped[datetime | None]
    mentioned_at: Mapped[datetime]
    subject_key: Mapped[Name]
    attribute: Mapped[Name]
    statement: Mapped[dict[str, Any]] = mapped_column(info=WORDS)
    key_time: Mapped[int] = mapped_column(BigInteger)
    key_ordinal: Mapped[int]
    key_item: Mapped[int]
    created_at: Mapped[datetime] = mapped_column(server_default=NOW)
    pinned: Mapped[bool] = mapped_column(server_default="false")
    superseded_by: Mapped[UUID | None]
    superseded_at: Mapped[datetime | None]


class OccurrenceRow(OfTenant, Base, table="occurrence"):
    """Provenance: each candidate is attached to exactly one fact."""

    __table_args__ = (
        _belongs_to("fact", "fact_id"),
        _belongs_to("candidate", "cell_id", "item", onupdate="CASCADE"),
        _index("ix_occurrence_fact", "tenant_id", "fact_id"),
    )

    cell_id: Mapped[UUID] = mapped_column(primary_key=True)
    item: Mapped[int] = mapped_column(SmallInteger, primary_key=True)
    fact_id: Mapped[UUID]
    session_id: Mapped[UUID]
    turn_ordinals: Mapped[list[int]] = mapped_column(ARRAY(BigInteger))


class Tree(OfTenant, Base, table="tree"):
    """A scope and, once it is active, the tree that materializes it."""

    __table_args__ = (
        UniqueConstraint("tenant_id", "forest_id", "kind", "scope_key"),
        _belongs_to("forest", "forest_id"),
        _index("ix_tree_due", "tenant_id", "due_at", where="due_at IS NOT NULL"),
        _index(
            "ix_tree_topic",
            *("tenant_id", "forest_id", "time_end", "tree_id"),
            where="kind = 'scene' AND state = 'active'",
        ),
    )

    tree_id: Mapped[UUID] = mapped_column(primary_key=True)
    forest_id: Mapped[UUID]
    kind: Mapped[Code]
    scope_key: Mapped[Name]
    label: Mapped[Name]
    state: Mapped[Code]
    k: Mapped[int] = mapped_column(SmallInteger)
    root_id: Mapped[UUID | None]
    height: Mapped[int] = mapped_column(SmallInteger, server_default="0")
    leaf_count: Mapped[int] = mapped_column(server_default="0")
    session_id: Mapped[UUID | None]
    domain: Mapped[Name] = mapped_column(server_default="")
    centroid: Mapped[bytes | None] = mapped_column(info=NAME)
    time_start: Mapped[datetime | None]
    time_end: Mapped[datetime | None]
    marks: Mapped[int] = mapped_column(BigInteger, server_default="0", info=NOT_EXPORTED)
    first_mark_at: Mapped[datetime | None] = mapped_column(info=NOT_EXPORTED)
    last_mark_at: Mapped[datetime | None] = mapped_column(info=NOT_EXPORTED)
    due_at: Mapped[datetime | None] = mapped_column(info=NOT_EXPORTED)
    created_at: Mapped[datetime] = mapped_column(server_default=NOW)
    title: Mapped[Words | None]
    """What a scene is called; like its tags it is cleared when a fact of the scene is deleted."""
    title_size: Mapped[int | None] = mapped_column(info=WORDS)
    title_source: Mapped[Words | None]
    """How refresh made the title; None for one that it did not make, which it leaves alone."""
    tags: Mapped[Words | None]
    """The tags that a user gave a scene, a line each."""
    rated: Mapped[int | None] = mapped_column(SmallInteger)
    """Its importance as a user set or moved it, in thousandths; no word is part of it, so it stays with the scene."""
    cold_at: Mapped[datetime | None] = mapped_column(info=NOT_EXPORTED)
    """Since when a scene's facts are out of the vector index; None while it is hot."""
    begun_at: Mapped[datetime | None]
    """When a scene began with a turn that was appended; None for one that began with a fact."""


class TurnTopic(OfTenant, Base, table="turn_topic"):
    """The topic that a turn belongs to, a scope of kind ``scene``: at most one. The row goes with the turn's words."""

    __table_args__ = (
        _belongs_to("turn", "session_id", "ordinal", ondelete="CASCADE"),
        _belongs_to("tree", "tree_id"),
        _index("ix_turn_topic_tree", "tenant_id", "tree_id", "occurred_at"),
        _index("ix_turn_topic_newest", "tenant_id", "forest_id", "occurred_at"),
    )

    session_id: Mapped[UUID] = mapped_column(primary_key=True)
    ordinal: Mapped[int] = mapped_column(primary_key=True)
    forest_id: Mapped[UUID]
    tree_id: Mapped[UUID]
    occurred_at: Mapped[datetime]
    """That of the turn."""
    matched: Mapped[bool] = mapped_column(server_default="false")
    """Whether ``append`` chose the topic: then the turn's facts go there. Otherwise the turn followed its facts."""
    vector: Mapped[bytes | None] = mapped_column(info=WORDS | NOT_EXPORTED)
    """Of the turn's text, in half precision; None for a turn that was not compared with others."""
    vector_model: Mapped[str | None] = mapped_column(info=CODE | NOT_EXPORTED)


class Placement(OfTenant, Base, table="placement"):
    """A fact in a scope that has no tree: of a tree its leaves say what it has. ``MEMBERS`` is both."""

    __table_args__ = (_belongs_to("tree", "tree_id"), _index("ix_placement_payload", "tenant_id", "payload_id"))

    tree_id: Mapped[UUID] = mapped_column(primary_key=True)
    payload_id: Mapped[UUID] = mapped_column(primary_key=True)
    session_id: Mapped[UUID]


class NodeRow(OfTenant, Base, table="node"):
    """A node of a tree; narrow, because inserts and browses read many. Leaves are level 0.

    An internal node's key is its separator; the leftmost of a level has the lowest key of all.
    """

    __table_args__ = (
        _belongs_to("tree", "tree_id"),
        _index("ix_node_order", "tenant_id", "tree_id", "level", "key_time", "key_ordinal", "key_item"),
        _index("ix_node_parent", "tenant_id", "parent_id"),
        _index("ix_node_payload", "tenant_id", "payload_id", where="payload_id IS NOT NULL"),
        _index("ix_node_dirty", "tenant_id", "tree_id", "level", where="version > clean_version"),
        _index("ix_node_dead", "tenant_id", where="dead"),
        CheckConstraint("clean_version <= version", name="clean"),
    )

    node_id: Mapped[UUID] = mapped_column(primary_key=True)
    tree_id: Mapped[UUID]
    parent_id: Mapped[UUID | None]
    level: Mapped[int] = mapped_column(SmallInteger)
    key_time: Mapped[int] = mapped_column(BigInteger)
    key_ordinal: Mapped[int]
    key_item: Mapped[int]
    key_id: Mapped[Code] = mapped_column(Text(collation="C"))
    time_start: Mapped[int | None] = mapped_column(BigInteger)
    time_end: Mapped[int | None] = mapped_column(BigInteger)
    leaf_count: Mapped[int]
    version: Mapped[int] = mapped_column(BigInteger)
    clean_version: Mapped[int] = mapped_column(BigInteger)
    erased_version: Mapped[int] = mapped_column(BigInteger, server_default="0", info=NOT_EXPORTED)
    payload_id: Mapped[UUID | None]
    state: Mapped[Code] = mapped_column(
        Computed(
            "CASE WHEN dead THEN 'dead' WHEN lease_token IS NOT NULL THEN 'running'"
            " WHEN version > clean_version THEN 'ready' ELSE 'done' END",
            persisted=True,
        )
    )
    attempts: Mapped[int] = mapped_column(SmallInteger, server_default="0")
    lost_leases: Mapped[int] = mapped_column(SmallInteger, server_default="0", info=NOT_COPIED)
    available_at: Mapped[datetime] = mapped_column(server_default=NOW)
    lease_token: Mapped[UUID | None] = mapped_column(info=NOT_COPIED)
    lease_until: Mapped[datetime | None] = mapped_column(info=NOT_COPIED)
    worker_id: Mapped[UUID | None] = mapped_column(info=NOT_COPIED)
    dead: Mapped[bool] = mapped_column(server_default="false")
    error_code: Mapped[Code | None]
    error_text: Mapped[Code | None]


class NodeSummary(OfTenant, Base, table="node_summary"):
    """A node's derived text: how it was made and from which inputs."""

    __table_args__ = (
        _belongs_to("node", "node_id", ondelete="CASCADE"),
        _index("ix_node_summary_redo", "tenant_id", "redo_at", where="redo_at IS NOT NULL"),
    )

    node_id: Mapped[UUID] = mapped_column(primary_key=True)
    text_: Mapped[Words] = mapped_column("text")
    source: Mapped[Code]
    model: Mapped[Code]
    input_hash: Mapped[bytes] = mapped_column(info=WORDS)
    version: Mapped[int] = mapped_column(BigInteger)
    vector: Mapped[bytes] = mapped_column(info=WORDS)
    vector_model: Mapped[str] = mapped_column(info=CODE | NOT_EXPORTED)
    pooled: Mapped[bytes | None] = mapped_column(info=WORDS)
    """The mean vector of its leaves, where that is not its ``vector``."""
    terms: Mapped[bytes] = mapped_column(info=WORDS)
    redo_at: Mapped[datetime | None]
    created_at: Mapped[datetime] = mapped_column(server_default=NOW)


class Summary(OfTenant, Base, table="summary_cache"):
    """Summaries already paid for, by the hash of their inputs, prompt version and model."""

    __table_args__ = (
        _index("ix_summary_cache_tree", "tenant_id", "tree_id"),
        _index("ix_summary_cache_forest", "tenant_id", "forest_id"),
    )

    input_hash: Mapped[bytes] = mapped_column(primary_key=True, info=WORDS)
    text: Mapped[Words]
    created_at: Mapped[datetime] = mapped_column(server_default=NOW)
    forest_id: Mapped[UUID | None]
    tree_id: Mapped[UUID | None]
    """The tree that it is about; the forest's own id for a text about the whole of it (a profile)."""


class VectorRow(OfTenant, Base, table="vector"):
    """The vector of a text of a forest under its model and content hash: nothing of a forest is embedded twice."""

    __table_args__ = (_belongs_to("forest", "forest_id"),)

    forest_id: Mapped[UUID] = mapped_column(primary_key=True)
    model: Mapped[str] = mapped_column(primary_key=True, info=CODE | NOT_EXPORTED)
    text_hash: Mapped[bytes] = mapped_column(primary_key=True, info=WORDS)
    vector: Mapped[bytes] = mapped_column(info=WORDS)
    tokens: Mapped[bytes | None] = mapped_column(info=WORDS | NOT_EXPORTED)
    """Of a cell's text, if its model gives them: its token vectors (``models/token_vectors.py``)."""


class ExtractionCache(OfTenant, Base, table="extraction_cache"):
    """Answers already paid for, by the hash of the rendered prompt, its version and the model."""

    __table_args__ = (
        _index("ix_extraction_cache_session", "tenant_id", "session_id"),
        _index("ix_extraction_cache_forest", "tenant_id", "forest_id"),
    )

    input_hash: Mapped[bytes] = mapped_column(primary_key=True, info=WORDS)
    answer: Mapped[dict[str, Any]] = mapped_column(info=WORDS)
    created_at: Mapped[datetime] = mapped_column(server_default=NOW)
    forest_id: Mapped[UUID | None]
    session_id: Mapped[UUID | None]


class RunningSession(OfTenant, Base, table="running_session"):
    """The session that turns without a session id go to: at most one of a forest."""

    __table_args__ = (_belongs_to("forest", "forest_id", ondelete="CASCADE"),)

    forest_id: Mapped[UUID] = mapped_column(primary_key=True)
    external_id: Mapped[Name]
    """The caller's id; the session has no row before its first turn."""
    started_at: Mapped[datetime] = mapped_column(server_default=NOW)


class SessionWindow(OfTenant, Base, table="session_window"):
    """The summary of a session's first turns, as the session's window shows them. It can always be made again."""

    __table_args__ = (
        _belongs_to("session", "session_id", ondelete="CASCADE"),
        _index("ix_session_window_forest", "tenant_id", "forest_id"),
    )

    session_id: Mapped[UUID] = mapped_column(primary_key=True)
    forest_id: Mapped[UUID]
    turns: Mapped[int]
    """It summarizes the turns before this ordinal."""
    text_: Mapped[Words] = mapped_column("text")
    source: Mapped[Code]
    model: Mapped[Code]
    input_hash: Mapped[bytes] = mapped_column(info=WORDS)
    """A digest of those turns, made from the one before and the turns that were added."""
    version: Mapped[UUID]
    """New with each text, so that of two that are made at once only the first one is stored."""
    updated_at: Mapped[datetime] = mapped_column(server_default=NOW)


class WindowItem(OfTenant, Base, table="window_item"):
    """What recall found and a session's conversation window has: a reference to a fact or a turn, never words."""

    __table_args__ = (
        _belongs_to("session", "session_id", ondelete="CASCADE"),
        _belongs_to("fact", "fact_id", ondelete="CASCADE"),
        CheckConstraint("(fact_id IS NULL) <> (said_in IS NULL) AND (said_in IS NULL) = (ordinal IS NULL)", name="one"),
        _index("ix_window_item_forest", "tenant_id", "forest_id"),
        _index("ix_window_item_fact", "tenant_id", "fact_id", where="fact_id IS NOT NULL"),
        _index("ix_window_item_turn", "tenant_id", "said_in", "ordinal", where="said_in IS NOT NULL"),
    )

    session_id: Mapped[UUID] = mapped_column(primary_key=True)
    item_id: Mapped[UUID] = mapped_column(primary_key=True)
    """The fact's id, or one made of the turn's session and ordinal."""
    forest_id: Mapped[UUID]
    place: Mapped[int] = mapped_column(BigInteger)
    """The lowest of a session falls out first."""
    fact_id: Mapped[UUID | None]
    said_in: Mapped[UUID | None]
    """The session of a turn."""
    ordinal: Mapped[int | None]
    put_at: Mapped[datetime] = mapped_column(server_default=NOW)
    """When it was put in last."""


class CalendarDigest(OfTenant, Base, table="calendar_digest"):
    """What happened on a day of a forest, speaker by speaker, or in a longer time made of days. It can always be made
    again. A row goes with any turn of its time that is deleted."""

    __table_args__ = (
        _belongs_to("forest", "forest_id", ondelete="CASCADE"),
        CheckConstraint("span IN ('day', 'week', 'month', 'year', 'life')", name="span"),
    )

    forest_id: Mapped[UUID] = mapped_column(primary_key=True)
    span: Mapped[Code] = mapped_column(primary_key=True)
    first_day: Mapped[date] = mapped_column(primary_key=True)
    """In the forest's time zone."""
    person: Mapped[Name] = mapped_column(primary_key=True, server_default="")
    """Of a longer time the speaker's id that it is about, empty for everybody; a day has the texts of all speakers."""
    start_at: Mapped[datetime]
    end_at: Mapped[datetime]
    """It summarizes turns from the one timestamp to before the other."""
    texts: Mapped[list[Any]] = mapped_column(JSONB, info=WORDS)
    """Of a day a text for each speaker, else one text."""
    sources: Mapped[list[Any]] = mapped_column(JSONB, info=WORDS)
    """Of a day the sessions, with the caller's ids of their first and last turn; else the days that have digests."""
    turns: Mapped[int]
    left_out: Mapped[int]
    """Turns that were too many: the oldest ones of those who said most."""
    source: Mapped[Code]
    model: Mapped[Code]
    input_hash: Mapped[bytes] = mapped_column(info=WORDS)
    """A digest of the turns, or of the versions of the rows that it was made from."""
    version: Mapped[UUID]
    """New with each text, so that of two that are made at once only the first one is stored."""
    made_at: Mapped[datetime] = mapped_column(server_default=NOW)


BEHIND = "indexed_version < version"
"""The condition of an index row from when its point is wanted until it is written, claimed or not."""


class IndexRow(OfTenant, Work, Base, table="index_row"):
    """What the vector index should hold for a row; out of date while ``indexed_version`` is lower than the version."""

    __table_args__ = (
        CheckConstraint(f"state IN {WORK_STATES}", name="state"),
        _index("ix_index_row_behind", "tenant_id", "kind", "lane", "available_at", where=BEHIND),
        _index("ix_index_row_forest", "tenant_id", "forest_id"),
        _index("ix_index_row_unseen", "tenant_id", "forest_id", "kind", where="indexed_version = 0"),
        _index("ix_index_row_erased", "tenant_id", "forest_id", where="erased_version > 0"),
        _index("ix_index_row_cold", "tenant_id", "forest_id", "kind", where="cold"),
    )

    point_id: Mapped[UUID] = mapped_column(primary_key=True)
    forest_id: Mapped[UUID]
    kind: Mapped[Code]
    version: Mapped[int] = mapped_column(BigInteger, server_default=text("nextval('memforest.point_version')"))
    """From one sequence: a point that is deleted and written again has a higher version than before."""
    erased_version: Mapped[int] = mapped_column(BigInteger, server_default="0")
    """Points up to this version hold words that were erased; 0 once a newer one is written."""
    indexed_version: Mapped[int] = mapped_column(BigInteger, server_default="0")
    deleted: Mapped[bool] = mapped_column(server_default="false")
    cold: Mapped[bool] = mapped_column(server_default="false")
    """The index should have no point for it now: a topic that it belongs to is cold, and no other needs it."""


class OperationRow(OfTenant, Work, Base, table="maintenance"):
    """A resumable task on the maintain queue: what it is about, and how far it has come (ids and numbers only)."""

    __table_args__ = (
        CheckConstraint(f"state IN {WORK_STATES}", name="state"),
        _index(
            "ix_maintenance_once",
            "tenant_id",
            "kind",
            "subject",
            unique=True,
            where="state IN ('held', 'ready', 'running')",
        ),
        _index("ix_maintenance_claim", "tenant_id", "available_at", where="state = 'ready'"),
        _index("ix_maintenance_forest", "tenant_id", "forest_id"),
        _index("ix_maintenance_lease", "lease_until", where="state = 'running'"),
        _index("ix_maintenance_dead", "tenant_id", where="state = 'dead'"),
    )

    task_id: Mapped[UUID] = mapped_column(primary_key=True)
    kind: Mapped[Code]
    subject: Mapped[Code] = mapped_column(server_default="")
    arguments: Mapped[dict[str, Any]] = mapped_column(server_default="{}", info=CODE)
    progress: Mapped[dict[str, Any]] = mapped_column(server_default="{}", info=CODE)
    created_at: Mapped[datetime] = mapped_column(server_default=NOW)
    finished_at: Mapped[datetime | None]
    forest_id: Mapped[UUID | None]
    actor: Mapped[Code] = mapped_column(server_default="")
    sequence: Mapped[int] = mapped_column(BigInteger, Identity())
    """Its position in the order of requests: of two tasks that exclude each other the later one waits."""
    cancelled_by: Mapped[Code | None]
    """The actor that cancelled it: workers undo it instead of continuing."""


class OperationForestRow(OfTenant, Base, table="maintenance_forest"):
    """Which forests a task touches until it is done, and what it does to each; see domain/operation_rules.py."""

    __table_args__ = (
        _belongs_to("maintenance", "task_id", ondelete="CASCADE"),
        _index("ix_maintenance_forest_forest_id", "tenant_id", "forest_id"),
    )

    task_id: Mapped[UUID] = mapped_column(primary_key=True)
    forest_id: Mapped[UUID] = mapped_column(primary_key=True)
    role: Mapped[Code]


class Visit(OfTenant, Base, table="visit"):
    """How often recall returned a fact, a cell or a node above them, and when last; counted in batches."""

    __table_args__ = (_index("ix_visit_forest", "tenant_id", "forest_id"),)

    item_id: Mapped[UUID] = mapped_column(primary_key=True)
    forest_id: Mapped[UUID]
    visits: Mapped[int] = mapped_column(server_default="1")
    last_visit_at: Mapped[datetime] = mapped_column(server_default=NOW)


class RetentionPolicy(OfTenant, Base, table="retention_policy"):
    """What a forest may hold; the row of the nil forest is for all forests of the tenant that have none."""

    __table_args__ = (
        CheckConstraint("fraction > 0 AND fraction <= 1", name="fraction"),
        CheckConstraint("first_out IN ('age', 'visits', 'relevance', 'centrality')", name="first_out"),
    )

    forest_id: Mapped[UUID] = mapped_column(primary_key=True)
    max_age_s: Mapped[int | None] = mapped_column(BigInteger)
    max_facts: Mapped[int | None]
    max_bytes: Mapped[int | None] = mapped_column(BigInteger)
    fraction: Mapped[float] = mapped_column(server_default="0.1")
    facts_max_age_s: Mapped[int | None] = mapped_column(BigInteger)
    digests_max_age_s: Mapped[int | None] = mapped_column(BigInteger)
    window_max_age_s: Mapped[int | None] = mapped_column(BigInteger)
    faded_max_age_s: Mapped[int | None] = mapped_column(BigInteger)
    first_out: Mapped[Code] = mapped_column(server_default="age")
    """What goes first of what is too much."""
    updated_at: Mapped[datetime] = mapped_column(server_default=NOW)


class Audit(OfTenant, Base, table="audit"):
    """The log of requests: actor, action, time and rows, as ids and counts; rows can only be added.

    An owner is stored as a hash, so that a deletion can be proven without the name.
    """

    __table_args__ = (
        _index("ix_audit_forest", "tenant_id", "forest_id", "at"),
        _index("ix_audit_owner_hash", "tenant_id", "owner_hash", "at"),
        _index("ix_audit_place", "tenant_id", "place", unique=True),
    )

    audit_id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    at: Mapped[datetime] = mapped_column(server_default=NOW)
    actor: Mapped[Code]
    action: Mapped[Code]
    outcome: Mapped[Code]
    forest_id: Mapped[UUID | None]
    owner_hash: Mapped[bytes | None] = mapped_column(info=CODE)
    task_id: Mapped[UUID | None]
    detail: Mapped[dict[str, Any]] = mapped_column(server_default="{}", info=CODE)
    place: Mapped[int | None] = mapped_column(BigInteger)
    """Its position in the order of commits, from 1 for each tenant without gaps; ``seal_audit()`` sets it at commit."""
    hash: Mapped[bytes | None] = mapped_column(info=CODE)
    """SHA-256 of the hash of the row before it and of all other columns."""


class LlmCall(OfTenant, Base, table="llm_call"):
    """One model call: what it was for and what it cost."""

    __table_args__ = (
        _index("ix_llm_call_at", "tenant_id", "at"),
        _index("ix_llm_call_session", "tenant_id", "session_id"),
    )

    call_id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    at: Mapped[datetime] = mapped_column(server_default=NOW)
    step: Mapped[Code]
    model: Mapped[Code]
    forest_id: Mapped[UUID | None]
    session_id: Mapped[UUID | None]
    prompt_tokens: Mapped[int]
    completion_tokens: Mapped[int]
    cached_tokens: Mapped[int]
    cost_usd: Mapped[float]
    latency_ms: Mapped[float]
    outcome: Mapped[Code]


class Worker(Base, table="worker"):
    """A worker process and its heartbeat, on the database's clock."""

    worker_id: Mapped[UUID] = mapped_column(primary_key=True)
    name: Mapped[Code]
    queues: Mapped[list[str]] = mapped_column(info=CODE)
    connections: Mapped[int] = mapped_column(server_default="0")
    version: Mapped[Code] = mapped_column(server_default="")
    started_at: Mapped[datetime] = mapped_column(server_default=NOW)
    heartbeat_at: Mapped[datetime] = mapped_column(server_default=NOW)


class Collection(Base, table="collection"):
    """Which vector collection is live, and for which embedding model."""

    name: Mapped[Code] = mapped_column(primary_key=True)
    model: Mapped[Code]
    dimension: Mapped[int]
    live: Mapped[bool]
    created_at: Mapped[datetime] = mapped_column(server_default=NOW)
    generation: Mapped[UUID | None]
    """The mark written to the index last; another mark there means that one of the stores was restored."""
    store_started: Mapped[Code | None]
    """Which start of which Postgres server the generation was confirmed under."""


class MigrationRow(Base, table="migration"):
    """Each applied migration, and whether workers of the version before may go on with it."""

    revision: Mapped[Code] = mapped_column(primary_key=True)
    follows: Mapped[Code | None]
    compatible: Mapped[bool]
    applied_at: Mapped[datetime] = mapped_column(server_default=NOW)
