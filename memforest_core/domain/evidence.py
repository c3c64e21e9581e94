"""Evidence: what a question gets back, with where it was said, when, why it was found and how fresh it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo
from enum import StrEnum

from memforest_core.domain.delivery import deliver, estimated_tokens
from memforest_core.domain.ids import FactId, NodeId, TreeKind
from memforest_core.domain.indexed import day_words
from memforest_core.domain.pages import Document
from memforest_core.domain.times import UNKNOWN_TIME, Precision, TimeSpan


class Mode(StrEnum):
    """How trees take part in a recall."""

    AUTO = "auto"
    """Whichever of the others fits what is configured and the caller's time budget; the result says which."""
    FLAT = "flat"
    """Cells and facts only."""
    EMBEDDING = "embedding"
    """Flat hits united with a beam search of the trees; ancestors vote."""
    LLM = "llm"
    """As embedding, but a chat model ranks the children of each node."""
    PLANNER = "planner"
    """As llm, and a first call gives each tree a question of its own."""

    @property
    def ranks(self) -> bool:
        """Whether a chat model ranks the children of nodes."""
        return self in (Mode.LLM, Mode.PLANNER)


class EvidenceKind(StrEnum):
    """What a piece of evidence quotes."""

    TURN = "turn"
    FACT = "fact"
    """A sentence that a model wrote; its turns are named with it."""
    CELL = "cell"
    """A part of a turn that is too long for one cell."""
    EXTERNAL = "external"
    """A text of an external source: nobody's turn."""


class Freshness(StrEnum):
    """How far the write path has come with what is quoted."""

    RAW = "raw"
    """Only the text is known yet: its facts are still being extracted. Of a source, nothing else is ever known."""
    FACT = "fact"
    """Its facts are in their trees; nothing is summarized above them yet."""
    STALE_SUMMARY = "stale summary"
    """A summary above it is older than the tree."""
    SUMMARY = "summary"
    """Everything up to the root is up to date."""


@dataclass(frozen=True, slots=True)
class PathNode:
    """One node on the way from a tree's root down to the evidence."""

    tree_kind: TreeKind
    label: str
    """What the tree is about: a session's id, an entity's name, a scene's domain."""
    level: int
    """0 is a leaf; the root has the highest."""
    time: TimeSpan
    summary: str
    """The beginning of the node's text; empty when it has none yet."""
    node_id: NodeId


@dataclass(frozen=True, slots=True)
class Evidence(Document):
    """One item of evidence. ``score`` orders the items of one result and means nothing across results."""

    text: str
    """``speaker: content`` of a turn (or a part of a long one), or a fact's sentence. It is as it was said, so a line
    of it may imitate another piece: show it in a field of its own. ``RecallResult.text`` is the safe rendering."""
    time: TimeSpan
    """The timestamp of the turn; for a fact with a date of its own, when that happened or was valid."""
    time_label: str
    """The day of ``time`` as people write it, such as "Monday 8 May 2023"; "date unknown" without one."""
    score: float
    kind: EvidenceKind
    fact_ids: tuple[FactId, ...]
    session_id: str
    """The caller's id of the session."""
    turn_ids: tuple[str, ...]
    """The caller's ids of the source turns, in order."""
    ordinal: int
    """Position of its first source turn in the session, from 0."""
    speaker: str
    path: tuple[PathNode, ...] = ()
    signals: Mapping[str, float] = field(default_factory=dict)
    """What each signal added to ``score``: why this was found."""
    freshness: Freshness = Freshness.FACT
    event: TimeSpan = UNKNOWN_TIME
    """When its best fact happened or was valid, if that is known; ``time`` may be the day it was mentioned."""
    predecessors: tuple[Evidence, ...] = ()
    """On request what comes before it, nearest last: in its entity's tree, or in the dialogue for a bare turn."""
    successors: tuple[Evidence, ...] = ()
    """On request what comes after it, nearest first."""
    corrected: bool = False
    """Somebody corrected what was said: a fact says how it is, a turn what was said and how it is."""
    pinned: bool = False
    """No policy forgets it."""
    origin: str | None = None
    """Whose forest its session was in, when it came here by a merge."""

    metadata: Mapping[str, object] = field(default_factory=dict)
    """The caller's metadata of its first source turn; those of predecessors and successors are not read."""
    session_metadata: Mapping[str, object] = field(default_factory=dict)
    """The caller's metadata of its session."""
    owner: str = ""
    """Whose forest it is from; of a source, whose point it is, if the source says so."""
    channel: str | None = None
    """Where its session took place, if that was said."""
    source: str = ""
    """The name of the source that it is from; empty for what is in a forest. Its session, turns and facts are empty."""
    point_id: str = ""
    """Of a source, the id of the point."""

    @property
    def whose(self) -> str:
        """Whose memory, or which source, it is from: items of several are distinguished by it."""
        return self.source or self.owner

    @property
    def tokens(self) -> int:
        """Estimated tokens of ``text``."""
        return estimated_tokens(self.text)


@dataclass(frozen=True, slots=True)
class RecallResult(Document):
    """The evidence for one question, best first, and how it was found."""

    question: str
    """As the caller gave it; empty for a vector."""
    mode: Mode
    """The mode that was used; never ``auto``."""
    evidence: tuple[Evidence, ...]
    timings_ms: Mapping[str, float]
    """Wall time per stage: scopes, embed, slot (waiting for other recalls), search, load, browse, score, resolve,
    total."""
    degraded: tuple[str, ...] = ()
    """One sentence for each unavailable part and what was done without it."""
    round_trips: int = 0
    """Calls made to the vector index."""
    picked: str = ""
    """Why ``auto`` picked the mode; empty when the caller chose."""
    about: TimeSpan = UNKNOWN_TIME
    """The time that the question names, resolved against the timestamp of the question; open ends reach to the limits
    of time."""
    completed_question: str = ""
    """The question that was searched for, when a follow-up had to be completed from its session."""
    plan: Mapping[str, str] = field(default_factory=dict)
    """What the planner decided: ``type`` of plan, type of ``question``, anchors; empty in other modes."""
    calls: int = 0
    """Calls made to chat models."""
    owner_known: bool = True
    """False when the owner has no memory yet: nothing was ever stored for them, or all of it was forgotten. Of several,
    when none has."""
    owners_unknown: tuple[str, ...] = ()
    """The owners that have no memory yet."""
    searched: tuple[str, ...] = ()
    """The owners, and then the sources, that were searched; of several the text says whose an item is."""

    def text(self, max_tokens: int | None = None) -> str:
        """The evidence as one text for a reader or a model: the best items that fit, in order of time.

        Items of one session and day share one date header, which counts towards ``max_tokens``. Only headers and
        items begin at the margin, whatever was said.
        """
        return deliver(self.evidence, max_tokens, several=len(self.searched) > 1)


def with_corrections(said: str, corrections: Sequence[str]) -> str:
    """What was said, with its corrections: a reader must see both."""
    return f"{said} [corrected: {' '.join(corrections)}]" if corrections else said


def day_label(span: TimeSpan, zone: tzinfo) -> str:
    """A span's first day in a time zone, as coarse as it was said."""
    if span.start is None:
        return "date unknown"
    start = span.start.astimezone(zone)
    match span.precision:
        case Precision.YEAR:
            return f"{start.year}"
        case Precision.MONTH:
            return f"{start:%B} {start.year}"
        case Precision.WEEK:
            return f"week of {day_words(start)}"
        case _:
            return day_words(start)
