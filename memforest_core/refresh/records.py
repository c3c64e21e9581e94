"""What refresh needs from the store: ready nodes with their children's texts, and guarded saves."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from memforest_core.domain.ids import ForestId, LeaseToken, NodeId, SessionId, TenantId, TreeId, WorkerId
from memforest_core.domain.indexed import TermCounts
from memforest_core.domain.scopes import TreeKind
from memforest_core.models.calls import CallRecord, Vectors


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
    """As extractive, because the model was away; made again when it is back."""


@dataclass(frozen=True, slots=True)
class ChildText:
    """A child as its parent's summary sees it, in key order.

    ``pooled`` is the mean vector of its leaves (unit, or None when a vector is missing), ``counts`` their terms.
    """

    text: str
    pooled: Vectors | None
    counts: TermCounts
    leaves: int
    embedded: str = ""
    """What is embedded of a leaf; refresh does it when nobody has yet."""


@dataclass(frozen=True, slots=True)
class ReadyNode:
    """A claimed node: what was read, and the version it was read at.

    ``stale`` is True when children were not clean and the node was taken all the same, past the maximum staleness.
    The ``stored_`` fields are those of the summary it has.
    """

    id: NodeId
    tree_id: TreeId
    forest_id: ForestId
    kind: TreeKind
    label: str
    level: int
    version: int
    attempts: int
    stale: bool
    children: tuple[ChildText, ...]
    stored_hash: bytes | None
    stored_text: str | None
    stored_source: SummarySource | None
    trace: str | None = None
    """The W3C traceparent of the session whose tree this is."""


@dataclass(frozen=True, slots=True)
class NodeArtifact:
    """What refresh made for a node. ``paid`` texts are kept for nodes with equal inputs."""

    node: ReadyNode
    text: str
    source: SummarySource
    model: str
    input_hash: bytes
    vector: Vectors
    pooled: Vectors
    counts: TermCounts
    paid: bool


class RefreshRows(Protocol):
    """Rows of one refreshing transaction."""

    def claim_ready(
        self, worker: WorkerId, limit: int, lease_s: float, stale_s: float, model: str
    ) -> tuple[LeaseToken, list[ReadyNode]]:
        """Take nodes of due trees that are dirty and have no dirty child, the lowest level first.

        A node whose refresh has failed before comes alone. In a tree first marked more than twice ``stale_s`` ago,
        dirty children do not hold a node back.
        """
        ...

    def paid_summaries(self, hashes: Sequence[bytes]) -> dict[bytes, str]:
        """Summaries already made from the same inputs."""
        ...

    def save(
        self,
        token: LeaseToken,
        artifacts: Sequence[NodeArtifact],
        vector_model: str,
        redo_after_s: float,
    ) -> Sequence[NodeArtifact]:
        """Keep what is newer than what each node has, end the leases, and mark the nodes for indexing.

        Waits for a node that somebody else has locked only if it is the only one given: else it is left, with its
        lease, and returned, to be saved in a transaction of its own.
        """
        ...

    def release(self, token: LeaseToken, delay_s: float, only: NodeId | None = None) -> Sequence[NodeId]:
        """Give the nodes still held under this lease back for a later try, which they did not fail.

        Returns those that somebody else has locked; each is given back as the ``only`` one of another transaction.
        """
        ...

    def fail(
        self, token: LeaseToken, max_attempts: int, delay_s: float, code: str, text: str, only: NodeId | None = None
    ) -> Sequence[NodeId]:
        """Give the nodes still held under this lease back as failed; after so many attempts they are dead.

        A dead node holds nobody up: the nodes above it are made without its text until somebody revives it. Returns as
        ``release``.
        """
        ...

    def settle(self, trees: Sequence[TreeId]) -> list[float]:
        """A tree without dirty nodes is no longer due; asked after the saves were committed.

        Returns for each tree that is settled how many seconds ago it was first marked.
        """
        ...

    def settle_idle(self, limit: int) -> list[float]:
        """Settle due trees without dirty nodes, which a worker that died between saving and settling left behind."""
        ...

    def redo(self, limit: int) -> int:
        """Mark nodes with a degraded summary, whose time has come, dirty again; how many."""
        ...

    def record_calls(self, calls: Sequence[CallRecord], forest: ForestId | None, session: SessionId | None) -> None:
        """Account for model calls."""
        ...


class RefreshStore(Protocol):
    """Opens refreshing transactions."""

    def refreshing(self, tenant: TenantId) -> AbstractContextManager[RefreshRows]:
        """One transaction of a tenant."""
        ...
