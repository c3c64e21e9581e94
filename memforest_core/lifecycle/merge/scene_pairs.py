"""Which scopes of two forests are one: entities by key, sessions by session, scenes by domain and centroid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from memforest_core.domain.ids import TreeId
from memforest_core.domain.times import from_micros
from memforest_core.lifecycle.merge.records import StoredScope
from memforest_core.models.calls import Vectors
from memforest_core.store.trees import SceneSpan


@dataclass(frozen=True, slots=True)
class ScenePair:
    """Two scenes that become one."""

    source: StoredScope
    target: StoredScope


def match_scenes(
    source: Sequence[StoredScope], target: Sequence[StoredScope], merge: float, cap: int
) -> list[ScenePair]:
    """Pair active scenes of one domain whose centroids reach ``merge`` (cosine), the closest first.

    Each is in at most one pair, and together they hold at most ``cap`` facts (DESIGN section 4).
    """
    scored: list[tuple[float, int, int]] = []
    for row, mine in enumerate(source):
        if mine.total is None or mine.head is None:
            continue
        fitting = [
            (column, scene.total)
            for column, scene in enumerate(target)
            if scene.total is not None
            and scene.head is not None
            and scene.total.shape == mine.total.shape
            and scene.domain == mine.domain
            and _size(scene) + _size(mine) <= cap
        ]
        if fitting:
            scores = np.stack([_unit(total) for _, total in fitting]) @ _unit(mine.total)
            close = zip(scores, fitting, strict=True)
            scored += [(float(score), row, column) for score, (column, _) in close if score >= merge]
    scored.sort(key=lambda each: (-each[0], str(source[each[1]].id), str(target[each[2]].id)))
    pairs: list[ScenePair] = []
    taken: set[TreeId] = set()
    for _, row, column in scored:
        pair = ScenePair(source[row], target[column])
        if not {pair.source.id, pair.target.id} & taken:
            taken |= {pair.source.id, pair.target.id}
            pairs.append(pair)
    return pairs


def united(pair: ScenePair, new: int) -> SceneSpan:
    """The sum and the interval of the united scene; the target's scene does not have ``new`` of the source's facts.

    A scene is the sum of its facts' vectors. Which of them the two have in common is not looked up: the source's sum is
    scaled by the part of its facts that it brings.
    """
    mine, theirs = pair.source, pair.target
    if mine.total is None or theirs.total is None:
        raise ValueError("a scene without a centroid can't be united")
    part = np.float32(new / max(1, _size(mine)))
    starts = [each.start for each in (mine, theirs) if each.start is not None]
    ends = [each.end for each in (mine, theirs) if each.end is not None]
    return SceneSpan(theirs.total + mine.total * part, from_micros(min(starts)), from_micros(max(ends)))


def _size(scope: StoredScope) -> int:
    return scope.head.leaf_count if scope.head else 0


def _unit(vector: Vectors) -> Vectors:
    length = float(np.linalg.norm(vector))
    return vector / np.float32(length) if length else vector
