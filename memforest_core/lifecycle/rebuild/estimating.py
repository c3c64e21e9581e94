"""Which summaries a tree needs from a model, found by building it level by level from the texts of its leaves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

from memforest_core.domain.extractive import summarize
from memforest_core.domain.ids import ForestId, NodeId
from memforest_core.domain.indexed import TermCounts
from memforest_core.ingest.refresh.records import ChildText, ReadyNode
from memforest_core.ingest.refresh.summarizer import ModelSummarizer, input_hash
from memforest_core.lifecycle.rebuild.records import PlannedTree
from memforest_core.memtree.shape import fill_right
from memforest_core.models.calls import CallRecord, ChatReply, ChatRequest, Step

Paid = Callable[[Sequence[bytes]], dict[bytes, str]]
"""Summaries that were made before, by the hashes of their inputs."""

_NOBODY = UUID(int=0)


@dataclass(frozen=True, slots=True)
class Text:
    """A node's text and its length in characters; the text is None where a model has yet to write it."""

    text: str | None
    chars: int
    leaves: int = 1


@dataclass(slots=True)
class SummaryWork:
    """What writing summaries takes."""

    written: int = 0
    """Summaries that need no model, or were made before."""
    reused: int = 0
    """Those among them that a model made before."""
    calls: int = 0
    prompt_chars: int = 0


@dataclass(frozen=True, slots=True)
class Expected:
    """How summaries are made."""

    model: str
    """As part of their keys."""
    budget: int
    """Their length in characters."""
    usual: int
    """How long a model's usually are."""
    own: str | None = None
    """Instructions in place of the built-in ones."""
    from_leaves: int = 1
    """Above so many leaves or more a model writes them, else rules."""
    reads_last: bool = True
    """Whether a model reads a node's last child."""


class _Counting:
    """A chat model that only counts the characters of its request."""

    def __init__(self) -> None:
        self.chars = 0

    def model_name(self, step: Step) -> str:
        return step.value

    def complete(self, request: ChatRequest) -> ChatReply:
        self.chars = sum(len(message.content) for message in request.messages)
        return ChatReply("counted", CallRecord(request.step, "", 0, 0, 0, 0.0, 0.0, "ok"))


def estimate(tree: PlannedTree, k: int, expected: Expected, paid: Paid) -> SummaryWork:
    """The work for one tree of branching ``k``, in the shape that appending in order gives."""
    work = SummaryWork()
    level = [Text(text, len(text)) for text in tree.texts]
    while level:
        groups = fill_right(level, k)
        keys = [_key(expected, _shown(expected, group)) for group in groups]
        known = paid([key for key in keys if key is not None])
        level = [
            _parent(tree, [child for child in group if child.chars], key, expected, known, work)
            for group, key in zip(groups, keys, strict=True)
        ]
        if len(level) == 1:
            break
    return work


def _shown(expected: Expected, group: Sequence[Text]) -> Sequence[Text]:
    return group if expected.reads_last else group[:-1]


def _key(expected: Expected, children: Sequence[Text]) -> bytes | None:
    texts = [child.text for child in children if child.text is not None]
    return input_hash(expected.model, expected.budget, texts) if len(texts) == len(children) else None


def _parent(
    tree: PlannedTree,
    children: Sequence[Text],
    key: bytes | None,
    expected: Expected,
    known: dict[bytes, str],
    work: SummaryWork,
) -> Text:
    """A node above these children, by the rules of refresh, in its order."""
    work.written += 1
    if len(children) <= 1:
        return children[0] if children else Text("", 0)
    leaves = sum(child.leaves for child in children)
    joined = sum(child.chars for child in children) + len(children) - 1
    texts = [child.text for child in children if child.text is not None]
    if joined <= expected.budget:
        return Text("\n".join(texts) if len(texts) == len(children) else None, joined, leaves)
    if key is not None and key in known:
        work.reused += 1
        # What rules add of the last child is not known here: as where a model has yet to write.
        return Text(known[key] if expected.reads_last else None, len(known[key]), leaves)
    if leaves < expected.from_leaves:
        picked = summarize(texts, expected.budget) if len(texts) == len(children) else None
        return Text(picked, expected.budget if picked is None else len(picked), leaves)
    shown = _shown(expected, children)
    if sum(child.chars for child in shown) + len(shown) - 1 <= expected.budget:
        return Text(None, expected.budget, leaves)
    work.calls += 1
    work.prompt_chars += _prompt_chars(tree, shown, expected)
    return Text(None, expected.usual, leaves)


def _prompt_chars(tree: PlannedTree, children: Sequence[Text], expected: Expected) -> int:
    """Characters of the call, as the summarizer would make it."""
    shown = tuple(ChildText(child.text or "x" * child.chars, None, TermCounts(()), 1) for child in children)
    counting = _Counting()
    node = ReadyNode(
        id=NodeId(_NOBODY),
        tree_id=tree.id,
        forest_id=ForestId(_NOBODY),
        kind=tree.kind,
        label=tree.label,
        level=1,
        version=1,
        attempts=0,
        stale=False,
        children=shown,
        stored_hash=None,
        stored_text=None,
        stored_source=None,
    )
    ModelSummarizer(counting, expected.own).summarize(node, expected.budget, [])
    return counting.chars
