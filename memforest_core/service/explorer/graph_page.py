"""People and things, linked by the facts that they share: laid out by forces, here and not in the browser."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC
from math import log1p, sqrt

import numpy as np

from memforest_core.domain.ids import TreeId
from memforest_core.domain.pages import checked_id
from memforest_core.domain.text import normalize_name
from memforest_core.recall.timeline import Speakers
from memforest_core.service.explorer.drawn_rows import MOST_LINKS, DrawnRows, Link
from memforest_core.service.explorer.finding_rows import SEARCHED_FACTS
from memforest_core.service.explorer.page_requests import Outcome, Shown, Visit
from memforest_core.service.explorer.ranges import chosen_range
from memforest_core.store.owners import known

NODES = 36
"""People and things that are drawn, those that share most facts."""
NARROW = 14
"""As many of them on a phone."""
PAIRS = 200
"""Rows of the table."""
FACTS = 30
"""Shared facts of the chosen one that are listed."""
STEPS = 160
LARGEST, SMALLEST = 20.0, 5.0
"""Radiuses, in pixels."""
LABEL_X, LABEL_Y = 9.0, 5.5
"""What a label takes, in per cent of width and height."""
UNSTACKING = 40
_EDGE_X, _EDGE_Y = 9.0, 8.0


@dataclass(frozen=True, slots=True)
class Entity:
    """A person or thing in the drawing, its place in per cent."""

    id: TreeId
    label: str
    person: bool
    shared: int
    radius: float
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class Pair:
    """Two that share facts."""

    one: TreeId
    other: TreeId
    links: tuple[Link, ...]

    @property
    def width(self) -> float:
        """Of its line, in pixels."""
        return round(1 + 1.6 * log1p(len(self.links) - 1), 2)


def graph(visit: Visit) -> Outcome:
    """Those that share most facts of a time, or the neighbours of one."""
    owner, node = visit.owner("facts"), visit.parameter("node")
    chosen = None if node is None else TreeId(checked_id(node, "node"))
    with DrawnRows.opened(visit.memory.services.engine, visit.caller.tenant) as rows:
        forest = known(rows.find_forest(owner), owner)
        links, trees = rows.links(forest.id), rows.entities(forest.id)
        labels = {tree: label for tree, (label, _) in trees.items()}
        people = Speakers(owner, rows.speakers(forest.id)).people
        values = {"owner": owner, "tab": "/graph", "chosen": chosen, "labels": labels, "span": None}
        if not links:
            return Shown("graph.html", values)
        span = chosen_range(visit, [link.at.astimezone(UTC) for link in links])
        pairs = _pairs([link for link in links if span.shown.start <= link.at < span.shown.end], chosen)
        own = [link for pair in pairs if chosen in (pair.one, pair.other) for link in pair.links]
        facts = {link.fact: link for link in sorted(own, key=lambda link: link.at)[-FACTS:]}
        texts = rows.texts(list(facts))
    shared = _shared(pairs)
    drawn = [each for each, _ in sorted(shared.items(), key=lambda each: (-each[1], labels[each[0]]))[:NODES]]
    if chosen is not None and chosen in shared and chosen not in drawn:
        drawn[-1] = chosen
    lines = [pair for pair in pairs if pair.one in drawn and pair.other in drawn]
    persons = {each for each in drawn if people.by_key(normalize_name(labels[each])) is not None}
    entities = _entities(drawn, lines, shared, labels, persons | {e for e in drawn if labels[e] == owner})
    left_out = {"nodes": len(shared) - len(drawn), "pairs": max(0, len(pairs) - PAIRS), "all": len(shared)}
    minor = {each.id for each in entities[NARROW:]} - {chosen}
    bounds = {
        "minor": minor,
        "searched": SEARCHED_FACTS,
        "cut": len(links) == MOST_LINKS,
        "grown": chosen is not None and trees.get(chosen, ("", False))[1],
    }
    listed = [(link, texts[fact]) for fact, link in facts.items() if fact in texts][::-1]
    shown = {"span": span, "entities": entities, "lines": lines, "pairs": pairs[:PAIRS], "left_out": left_out}
    return Shown("graph.html", {**values, **shown, **bounds, "facts": listed})


def _pairs(links: Sequence[Link], chosen: TreeId | None) -> list[Pair]:
    """Pairs with what they share, most first; with a chosen one its own and those between its neighbours."""
    grouped: dict[tuple[TreeId, TreeId], list[Link]] = defaultdict(list)
    for link in links:
        grouped[link.one, link.other].append(link)
    around = {each for ends in grouped if chosen in ends for each in ends}
    wanted = (ends for ends in grouped if chosen is None or around.issuperset(ends))
    pairs = [Pair(*ends, tuple(grouped[ends])) for ends in wanted]
    return sorted(pairs, key=lambda pair: -len(pair.links))


def _shared(pairs: Sequence[Pair]) -> Counter[TreeId]:
    """How many facts each shares with others."""
    facts: dict[TreeId, set[object]] = defaultdict(set)
    for pair in pairs:
        for end in (pair.one, pair.other):
            facts[end].update(link.fact for link in pair.links)
    return Counter({end: len(own) for end, own in facts.items()})


def _entities(
    drawn: Sequence[TreeId],
    lines: Sequence[Pair],
    shared: Mapping[TreeId, int],
    labels: Mapping[TreeId, str],
    persons: set[TreeId],
) -> list[Entity]:
    number = {each: at for at, each in enumerate(drawn)}
    points = laid_out(len(drawn), [(number[pair.one], number[pair.other], len(pair.links)) for pair in lines])
    most = max((shared[each] for each in drawn), default=1)
    sizes = [SMALLEST + (LARGEST - SMALLEST) * sqrt(shared[each] / most) for each in drawn]
    return [
        Entity(each, labels[each], each in persons, shared[each], round(size, 1), x, y)
        for each, size, (x, y) in zip(drawn, sizes, points, strict=True)
    ]


def laid_out(count: int, lines: Sequence[tuple[int, int, int]]) -> list[tuple[float, float]]:
    """Positions in per cent of width and height: all push each other off, and linked ones (with a weight) attract.

    The same graph gives the same drawing (Fruchterman and Reingold, from a spiral).
    """
    if count < 2:
        return [(50.0, 50.0)] * count
    turns = np.arange(count) * 2.399963
    at = np.sqrt((np.arange(count) + 0.5) / count)[:, None] * np.stack([np.cos(turns), np.sin(turns)], 1)
    pull = np.zeros((count, count))
    for one, other, weight in lines:
        pull[one, other] = pull[other, one] = 1 + log1p(weight)
    ideal = 1.6 / sqrt(count)
    for step in range(STEPS):
        offset = at[:, None] - at[None]
        distance = np.sqrt((offset**2).sum(-1)) + 1e-3
        force = ideal**2 / distance**2 - pull * distance / ideal * 0.35
        moved = (offset * force[..., None]).sum(1) - 0.6 * at
        length = np.sqrt((moved**2).sum(-1, keepdims=True)) + 1e-9
        at = at + moved / length * np.minimum(length, 0.12 * (1 - step / STEPS))
    at = (at - at.min(0)) / np.maximum(np.ptp(at, axis=0), 1e-9)
    edge = np.array([_EDGE_X, _EDGE_Y])
    return [(round(float(x), 2), round(float(y), 2)) for x, y in _unstacked(edge + at * (100 - 2 * edge))]


def _unstacked(at: np.ndarray) -> np.ndarray:
    """Points moved up or down until no label is on another one."""
    for _ in range(UNSTACKING):
        across, down = (at[:, None] - at[None]).transpose(2, 0, 1)
        near = (np.abs(across) < LABEL_X) & (np.abs(down) < LABEL_Y) & ~np.eye(len(at), dtype=bool)
        sign = np.where(down == 0, np.sign(np.arange(len(at))[:, None] - np.arange(len(at))), np.sign(down))
        at[:, 1] += (near * sign * (LABEL_Y - np.abs(down)) / 2.2).sum(1)
        at[:, 1] = np.clip(at[:, 1], _EDGE_Y / 2, 100 - _EDGE_Y)
    return at
