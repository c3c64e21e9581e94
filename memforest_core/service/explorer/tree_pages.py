"""Trees: listed, and one drawn over time, with what a node says and where each sentence of it comes from."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from memforest_core.domain.evidence import Mode
from memforest_core.domain.ids import NodeId, TreeId, TreeKind
from memforest_core.domain.pages import checked_id
from memforest_core.ingest.refresh.records import SummarySource
from memforest_core.observe.records import TreeOverview
from memforest_core.service.explorer.drawing import TICKS, Axis, Bar, Tick
from memforest_core.service.explorer.page_requests import Moved, Outcome, Shown, Visit, href, listed
from memforest_core.service.explorer.rows import DrawnNode, ExplorerRows, Leaf, SaidTurn

ENOUGH = 0.5
"""The share of a sentence's words that a leaf must have to be named as where it comes from."""
_SENTENCE = re.compile(r"(?<=[.!?…])\s+|\n+")
_WORD = re.compile(r"\w{3,}")


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of a summary and the leaf it comes from, None when none says enough of it."""

    text: str
    leaf: Leaf | None
    turns: tuple[SaidTurn, ...]
    """The turns of the leaf that say it: of several in one cell the one that has most of its words."""
    verbatim: bool
    """The leaf, or a turn that it rests on, has it word for word; else it has most of its words."""


def sentences(summary: str, leaves: Sequence[Leaf]) -> list[Sentence]:
    """Each sentence of a summary with the leaf that has it, or else the leaf that has most of its words."""
    texts = [(leaf, _plain("\n".join((leaf.text, *(turn.text for turn in leaf.turns))))) for leaf in leaves]
    words = [(leaf, frozenset(_WORD.findall(text))) for leaf, text in texts]
    return [_found(part.strip(), texts, words) for part in _SENTENCE.split(summary) if part.strip()]


def _found(text: str, texts: Sequence[tuple[Leaf, str]], words: Sequence[tuple[Leaf, frozenset[str]]]) -> Sentence:
    plain = _plain(text)
    wanted = frozenset(_WORD.findall(plain))
    for leaf, said in texts:
        if plain in said:
            return Sentence(text, leaf, _telling(leaf, wanted), True)
    if not wanted or not words:
        return Sentence(text, None, (), False)
    best, shared = max(((leaf, len(wanted & own) / len(wanted)) for leaf, own in words), key=lambda each: each[1])
    if shared < ENOUGH:
        return Sentence(text, None, (), False)
    return Sentence(text, best, _telling(best, wanted), False)


def _telling(leaf: Leaf, wanted: frozenset[str]) -> tuple[SaidTurn, ...]:
    """All turns of a fact; of a cell's the one that has most of these words."""
    if leaf.fact_id is not None or len(leaf.turns) < 2:
        return leaf.turns
    return (max(leaf.turns, key=lambda turn: len(wanted & frozenset(_WORD.findall(_plain(turn.text))))),)


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


MOST = 400
"""Nodes of one level that are drawn; of more, the level is there once one zooms in."""
LEAVES = 300
"""Leaves below a node in which its sentences are looked for."""
CHILDREN = 200
TREES = 100
"""Trees on one page."""
LEGIBLE = 3.0
"""A node that takes so many per cent of the width, and is not covered, has the beginning of its text on it."""
K = 10
"""Evidence items whose paths are lit."""


def trees(visit: Visit) -> Outcome:
    """An owner's trees of one kind."""
    owner, kind, cursor = visit.owner("trees"), visit.parameter("kind") or TreeKind.ENTITY, visit.parameter("cursor")
    return listed("trees", owner, visit.memory.trees(owner, kind=kind, limit=TREES, cursor=cursor), kind=kind)


def tree(visit: Visit) -> Outcome:
    """One tree, drawn below the node that was zoomed to, and the chosen node."""
    owner, wanted = visit.owner("trees"), checked_id(visit.needed("tree"), "tree")
    tenant, memory = visit.caller.tenant, visit.memory
    overview = memory.services.inspection.tree_overview(tenant, owner, TreeId(wanted))
    zoom, chosen = visit.parameter("zoom"), visit.parameter("node")
    with ExplorerRows.opened(memory.services.engine, tenant) as rows:
        root = rows.drawn_node(overview.id, overview.root_id)
        top = root if zoom is None else _node(rows, overview, zoom)
        node = top if chosen is None else _node(rows, overview, chosen)
        above = _above(rows, overview, top)
        levels, complete = _levels(rows, overview, top)
        leaves = rows.leaves(overview.id, node.id, LEAVES)
    axis = _axis(top, visit.parameter("axis"))
    question = visit.parameter("question")
    lit, items = (frozenset[NodeId](), 0) if question is None else _lit(visit, owner, question, overview.id, levels)
    drawn = _drawn(top, levels, axis)
    detail = memory.services.reading.node(tenant, node.id, limit=CHILDREN, cursor=visit.parameter("cursor"))
    lower = detail.node.level == 0
    values = {
        "owner": owner,
        "tree": overview,
        "root": root,
        "top": top,
        "node": node,
        "detail": detail,
        "above": above,
        "axis": axis,
        "ticks": _dates(drawn) if axis is None else axis.ticks,
        "levels": drawn,
        "question": question,
        "lit": lit,
        "items": items,
        "complete": complete,
        "sentences": [] if lower else sentences(detail.node.text, leaves),
        "leaf": leaves[0] if lower and leaves else None,
        "source": _source(detail.node.source),
        "zoom": zoom,
    }
    return Shown("tree.html", values)


def node(visit: Visit) -> Outcome:
    """The page of the tree that a node is in."""
    owner, wanted = visit.owner("trees"), visit.needed("node")
    found = visit.memory.services.reading.node(visit.caller.tenant, wanted, limit=1)
    visit.memory.services.inspection.tree_overview(visit.caller.tenant, owner, found.tree_id)
    return Moved(href("/tree", owner=owner, tree=found.tree_id, node=wanted, question=visit.parameter("question")))


def _node(rows: ExplorerRows, tree: TreeOverview, node: str) -> DrawnNode:
    return rows.drawn_node(tree.id, NodeId(checked_id(node, "node")))


def _above(rows: ExplorerRows, tree: TreeOverview, node: DrawnNode) -> list[DrawnNode]:
    """The nodes from the root down to a node's parent."""
    above: list[DrawnNode] = []
    while (parent := (above[0] if above else node).parent_id) is not None:
        above.insert(0, rows.drawn_node(tree.id, parent))
    return above


def _lit(
    visit: Visit, owner: str, question: str, tree: TreeId, levels: Sequence[Sequence[DrawnNode]]
) -> tuple[frozenset[NodeId], int]:
    """The nodes on the paths to what answers a question, and how many items of evidence are below the drawn node."""
    # Looking counts as no visit, and calls no chat model.
    service = replace(visit.memory.services.recall, visits=None)
    found = service.recall(visit.caller.tenant, owner, question, K, Mode.EMBEDDING).evidence
    top = levels[0][0].id
    paths = [frozenset(step.node_id for step in piece.path) for piece in found]
    return frozenset().union(*paths), sum(top in path for path in paths)


def _levels(rows: ExplorerRows, tree: TreeOverview, top: DrawnNode) -> tuple[list[Sequence[DrawnNode]], bool]:
    """The levels from a node down, and whether the leaves are among them."""
    levels: list[Sequence[DrawnNode]] = [[top]]
    while levels[-1][0].level > 0:
        if levels[-1][0].level == 1 and top.leaves > MOST:
            return levels, False
        below = rows.below(tree.id, levels[-1], MOST + 1)
        if not below or len(below) > MOST:
            return levels, False
        levels.append(below)
    return levels, True


def _axis(top: DrawnNode, wanted: str | None) -> Axis | None:
    """The axis of time; None: leaves side by side, all equally wide, as without known times."""
    if wanted != "time" or top.start is None or top.end is None or top.start == top.end:
        return None
    return Axis.over([top.start, top.end])


def _drawn(top: DrawnNode, levels: list[Sequence[DrawnNode]], axis: Axis | None) -> list[dict[str, Any]]:
    """Each level with its number, its nodes, and where each of them lies."""
    if axis is not None:
        return [{"number": each[0].level, "bars": _over_time(each, axis)} for each in levels]
    lefts, whole, drawn = {top.id: 0}, max(1, top.leaves), []
    for nodes in levels:
        bars = []
        for node in nodes:
            left = lefts[node.id] if node.parent_id not in lefts or node is top else lefts[node.parent_id]
            if node is not top and node.parent_id is not None:
                lefts[node.parent_id] += node.leaves
            lefts[node.id] = left
            bar = Bar(round(100.0 * left / whole, 3), round(100.0 * node.leaves / whole, 3))
            bars.append({"node": node, "bar": bar, "legible": bar.width >= LEGIBLE})
        drawn.append({"number": nodes[0].level, "bars": bars})
    return drawn


def _dates(levels: Sequence[dict[str, Any]]) -> list[Tick]:
    """Days along an axis of leaves: where the lowest level's nodes begin."""
    ticks: list[Tick] = []
    for drawn in levels[-1]["bars"]:
        node, x = drawn["node"], drawn["bar"].x
        if node.start is not None and (not ticks or x - ticks[-1].x >= 100 / TICKS) and x <= 96:
            ticks.append(Tick(x, f"{node.start:%-d %b %Y}"))
    return ticks


def _over_time(nodes: Sequence[DrawnNode], axis: Axis) -> list[dict[str, Any]]:
    bars = [(node, axis.bar(node.start, node.end or node.start)) for node in nodes if node.start is not None]
    lefts = sorted(bar.x for _, bar in bars)
    drawn = [
        {"node": node, "bar": bar, "legible": bar.width >= LEGIBLE and not _covered(bar, lefts)} for node, bar in bars
    ]
    # Of bars that overlap the narrow ones lie on top.
    return sorted(drawn, key=lambda each: -each["bar"].width)


def _covered(bar: Bar, lefts: Sequence[float]) -> bool:
    """Whether another bar begins within this one, but for its last per cent."""
    return bisect_left(lefts, bar.x + bar.width - 1) - bisect_right(lefts, bar.x) > 0 or lefts.count(bar.x) > 1


def _source(source: str) -> str:
    """How a node's text was made, in a sentence."""
    return {
        "": "It has no summary yet.",
        "fact": "A leaf: one fact.",
        "cell": "A leaf: consecutive turns.",
        SummarySource.MODEL: "A model wrote this summary from the node's children.",
        SummarySource.JOINED: "The texts of the node's children fit: they stand here as they are.",
        SummarySource.PASSED: "The text of the only child.",
        SummarySource.EXTRACTIVE: "Rules picked these sentences from the node's children.",
        SummarySource.DEGRADED: "Rules picked these sentences since the model was unavailable; it rewrites them later.",
    }.get(source, f"Made as: {source}.")
