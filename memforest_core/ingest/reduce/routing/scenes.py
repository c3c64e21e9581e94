"""Scene scopes: online clustering on centroids within a domain, with a bonus for closeness in time and a cap."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from memforest_core.domain.ids import FactId, TreeId
from memforest_core.models.calls import Vectors

DAY_US = 86_400_000_000


@dataclass(frozen=True, slots=True)
class SceneRules:
    """The thresholds (artifact values); they belong to an embedding model."""

    assign: float = 0.70
    weak: float = 0.58
    merge: float = 0.88
    cap: int = 60
    time_bonus: float = 0.08
    time_days: float = 45.0


@dataclass(slots=True, eq=False)
class Scene:
    """A cluster: the sum of its routing vectors, its size and the time it spans (microseconds)."""

    id: TreeId
    domain: str
    total: Vectors
    size: int
    start: int
    end: int
    changed: bool = False
    cold: bool = False
    """Its facts are out of the vector index."""

    def take_in(self, absorbed: Scene) -> None:
        """Become the scene that both were."""
        self.total = self.total + absorbed.total
        self.size += absorbed.size
        self.start, self.end = min(self.start, absorbed.start), max(self.end, absorbed.end)
        self.cold = self.cold or absorbed.cold
        self.changed = True


@dataclass(frozen=True, slots=True)
class SceneFact:
    """A fact to route: its routing vector (unit), domain (empty when unknown) and time (microseconds)."""

    id: FactId
    vector: Vectors
    domain: str
    start: int
    end: int


class SceneMap:
    """The scenes that a batch may join, while it is routed; mutated in place, in the order of the facts.

    A fact joins scenes of its own domain only; facts without a domain (those that the offline rules can't name) have
    scenes of their own. A full scene is left out, so that the next fact finds the scene that continues it.
    """

    def __init__(self, scenes: Sequence[Scene], rules: SceneRules, new_id: Callable[[], TreeId]) -> None:
        self.scenes = list(scenes)
        self._rows = {scene.id: row for row, scene in enumerate(scenes)}
        self._rules = rules
        self._new_id = new_id
        width = scenes[0].total.shape[0] if scenes else 0
        self._centroids = np.zeros((max(16, 2 * len(scenes)), width), np.float32)
        for row, scene in enumerate(self.scenes):
            self._centroids[row] = _unit(scene.total)

    def route(self, fact: SceneFact) -> tuple[Scene, ...]:
        """Assign a fact to one or two scenes, or spawn one for it."""
        rules = self._rules
        ranked = self._ranked(fact)
        if ranked:
            best, score = ranked[0]
            if score >= rules.assign:
                chosen = [scene for scene, near in ranked if near >= rules.assign]
                for scene in chosen:
                    self._add(scene, fact)
                return tuple(chosen)
            if rules.weak <= score < rules.assign and best.size < rules.cap / 2:
                self._add(best, fact)
                return (best,)
        return (self._spawn(fact),)

    def mergers(self) -> list[tuple[Scene, Scene]]:
        """Pairs (kept, absorbed) of one domain that have grown together; each scene is in at most one pair."""
        rows = [row for row, scene in enumerate(self.scenes) if scene.changed]
        taken: set[TreeId] = set()
        pairs: list[tuple[Scene, Scene]] = []
        for row in rows:
            scene = self.scenes[row]
            if scene.id in taken:
                continue
            scores = self._centroids[: len(self.scenes)] @ self._centroids[row]
            scores[row] = -1.0
            for other_row in np.argsort(-scores, kind="stable"):
                other = self.scenes[other_row]
                if scores[other_row] < self._rules.merge:
                    break
                fits = other.domain == scene.domain and other.size + scene.size <= self._rules.cap
                if fits and other.id not in taken:
                    kept, absorbed = (scene, other) if scene.size >= other.size else (other, scene)
                    pairs.append((kept, absorbed))
                    taken |= {scene.id, other.id}
                    break
        return pairs

    def _ranked(self, fact: SceneFact) -> list[tuple[Scene, float]]:
        """The two best scenes of the fact's domain that have room, with their scores, the best first."""
        if not self.scenes:
            return []
        rules = self._rules
        scores = self._centroids[: len(self.scenes)] @ fact.vector
        starts = np.array([scene.start for scene in self.scenes], np.int64)
        ends = np.array([scene.end for scene in self.scenes], np.int64)
        gap = np.maximum(0, np.maximum(starts - fact.end, fact.start - ends)) / DAY_US
        scores = scores + rules.time_bonus * np.maximum(0.0, 1.0 - gap / rules.time_days)
        best: list[tuple[Scene, float]] = []
        for row in np.argsort(-scores, kind="stable"):
            scene = self.scenes[row]
            if fact.domain != scene.domain or scene.size >= rules.cap:
                continue
            best.append((scene, float(scores[row])))
            if len(best) == 2:
                break
        return best

    def _add(self, scene: Scene, fact: SceneFact) -> None:
        scene.total = scene.total + fact.vector
        scene.size += 1
        scene.start, scene.end = min(scene.start, fact.start), max(scene.end, fact.end)
        scene.changed = True
        self._centroids[self._rows[scene.id]] = _unit(scene.total)

    def _spawn(self, fact: SceneFact) -> Scene:
        total = fact.vector.astype(np.float32)
        scene = Scene(self._new_id(), fact.domain, total, 1, fact.start, fact.end, changed=True)
        row = len(self.scenes)
        self.scenes.append(scene)
        self._rows[scene.id] = row
        if self._centroids.shape[1] != fact.vector.shape[0] or row >= self._centroids.shape[0]:
            grown = np.zeros((max(16, 2 * (row + 1)), fact.vector.shape[0]), np.float32)
            if row:
                grown[:row] = self._centroids[:row]
            self._centroids = grown
        self._centroids[row] = _unit(fact.vector)
        return scene


def _unit(vector: Vectors) -> Vectors:
    length = float(np.linalg.norm(vector))
    return vector / length if length else vector
