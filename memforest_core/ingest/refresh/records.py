"""Records of refresh: ready nodes with their children's texts, and what was made for them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from memforest_core.domain.ids import ForestId, NodeId, TreeId, TreeKind
from memforest_core.domain.indexed import TermCounts
from memforest_core.models.calls import Vectors


class SummarySource(StrEnum):
    """How a node's text was made."""

    MODEL = "model"
    JOINED = "joined"
    """The children's texts together fit the budget."""
    PASSED = "passed"
    """The only child's text."""
    EXTRACTIVE = "extractive"
    """Picked from the children's texts by rules: the offline provider's way."""
    DEGRADED = "degraded"
    """As extractive, because the model was unavailable; made again when it is back."""


class TitleSource(StrEnum):
    """How a scene's title was made."""

    MODEL = "model"
    TERMS = "terms"
    """Of its most telling terms: the offline way."""
    DEGRADED = "degraded"
    """As terms, because the model was unavailable or its answer was of no use."""


@dataclass(frozen=True, slots=True)
class Title:
    """A scene's title."""

    text: str
    size: int
    """Facts that the scene had when the title was made, or requested in vain; 0: the model was unavailable, and is
    called again when it is back."""
    source: TitleSource


@dataclass(frozen=True, slots=True)
class ChildText:
    """A child as its parent's summary sees it, in key order. ``pooled`` is the mean vector of its leaves (unit, None
    when a vector is missing), ``counts`` their terms."""

    text: str
    pooled: Vectors | None
    counts: TermCounts
    leaves: int
    embedded: str = ""
    """The text that is embedded of a leaf; refresh embeds it when it has no vector yet."""


class StoredSummary(NamedTuple):
    """The summary that a node has, and the key of all that it was made from."""

    key: bytes
    text: str
    source: SummarySource


@dataclass(frozen=True, slots=True)
class ReadyNode:
    """A claimed node: the version it had then, and what was read since. ``stale`` is True when children were not clean
    and the node was taken all the same, past the maximum staleness."""

    id: NodeId
    tree_id: TreeId
    forest_id: ForestId
    kind: TreeKind
    label: str
    level: int
    version: int
    attempts: int
    stale: bool
    children: tuple[ChildText, ...] = ()
    stored: StoredSummary | None = None
    trace: str | None = None
    """The W3C traceparent of the session whose tree this is."""
    titled: bool = False
    """It is the root of a scene, whose title refresh makes."""
    title: Title | None = None
    """The scene's title now."""


class Paid(NamedTuple):
    """What a model wrote, under the key of all that it was made from."""

    key: bytes
    text: str


@dataclass(frozen=True, slots=True)
class NodeArtifact:
    """What refresh made for a node. ``paid`` texts are stored for nodes with equal inputs."""

    node: ReadyNode
    text: str
    source: SummarySource
    model: str
    input_hash: bytes
    vector: Vectors
    pooled: Vectors
    counts: TermCounts
    paid: Paid | None
    title: Title | None = None
    """Of a scene's root, if it gets another one."""
