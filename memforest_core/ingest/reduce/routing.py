"""Routing of facts to trees: entities by their names, scenes by online clustering on centroids within a domain, with a
bonus for closeness in time and a cap."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from memforest_core.domain.facts import Origin, Statement
from memforest_core.domain.ids import TreeId, TreeKind
from memforest_core.domain.people import KnownPerson, People, called, found_in
from memforest_core.domain.text import normalize_name
from memforest_core.models.calls import Vectors
from memforest_core.settings import ReduceSettings


def deserves_tree(kind: TreeKind, facts: int, sessions: int, rules: ReduceSettings, *, person: bool = False) -> bool:
    """Whether a scope of so many ``facts`` from so many ``sessions`` has a tree from now on. A session always has one,
    and so has a ``person`` (the owner or a human speaker) from the first fact; other entities at 3 facts from 2
    sessions (artifact), scenes at 3 facts: one of one or two says no more than its facts do."""
    match kind:
        case TreeKind.SESSION:
            return True
        case TreeKind.ENTITY:
            enough = facts >= rules.entity_min_facts and sessions >= rules.entity_min_sessions
            return person or enough
        case TreeKind.SCENE:
            return facts >= rules.scene_min_facts


MAX_ENTITIES = 8
"""The most scopes that one fact joins; a list of twenty names is not about each of them."""


@dataclass(frozen=True, slots=True)
class EntityScope:
    """An entity a fact is about. ``person`` marks the owner and human speakers, whose trees exist at once."""

    key: str
    label: str
    person: KnownPerson | None = None


def subject_of(name: str, people: People, teller: KnownPerson | None = None) -> KnownPerson | None:
    """The speaker whom the name of a fact's subject means: a name of ``teller``, who said it, means the teller."""
    if teller is not None and called(name, teller):
        return teller
    return people.who(name)


def subject_key(statement: Statement, people: People, teller: KnownPerson | None = None) -> str:
    """Under which key a fact's states are found: that of the speaker it is about, else the normalized name."""
    person = subject_of(statement.subject, people, teller)
    return normalize_name(statement.subject) if person is None else person.key


def entity_scopes(statement: Statement, people: People, teller: KnownPerson | None = None) -> tuple[EntityScope, ...]:
    """The entity scopes of a statement, the subject first; ``teller`` is the speaker who said it, if that is known. All
    names of a speaker lead to one scope under the speaker's id. The owner's takes all that is about the owner: also
    what names the owner, and what the owner says of no other speaker."""
    scopes: dict[str, EntityScope] = {}
    for name in (statement.subject, *statement.entities):
        person, key = subject_of(name, people, teller), normalize_name(name)
        if person is not None:
            scopes.setdefault(person.key, scope_of(person))
        elif key:
            scopes.setdefault(key, EntityScope(key, name))
    found = list(scopes.values())[:MAX_ENTITIES]
    own = scope_of(people.owner)
    if own not in found and _about_owner(statement, found, people, teller):
        found = [*found[: MAX_ENTITIES - 1], own]
    return tuple(found)


def scope_of(person: KnownPerson) -> EntityScope:
    """The scope of a speaker."""
    return EntityScope(person.key, person.name, person)


def continued(person: KnownPerson, stored: Mapping[str, int]) -> str:
    """The key of the tree that a speaker's facts go on in. The one under the id; where there is none the largest of
    those under the names, which is from before the id was known. ``stored`` are the keys of the trees that there are,
    with their sizes."""
    own = frozenset() if person.owner else person.keys & stored.keys()
    if person.key in own or not own:
        return person.key
    return min(own, key=lambda key: (-stored[key], key))


def _about_owner(
    statement: Statement, found: Collection[EntityScope], people: People, teller: KnownPerson | None
) -> bool:
    if any(one.person.owner for one in found_in(statement.text, people)):
        return True
    speaker = teller or people.who(statement.speaker)
    by_owner = speaker is not None and speaker.owner and statement.origin is Origin.USER
    return by_owner and all(scope.person is None for scope in found)


DAY_US = 86_400_000_000


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
    begun: bool = False
    """It began with a turn: no other scene absorbs it because of its facts."""

    def take_in(self, absorbed: Scene) -> None:
        """Become the scene that both were."""
        self.total = self.total + absorbed.total
        self.size += absorbed.size
        self.start, self.end = min(self.start, absorbed.start), max(self.end, absorbed.end)
        self.cold = self.cold or absorbed.cold
        self.changed = True


class SceneMap:
    """The scenes that a batch may join, while it is routed; mutated in place, in the order of the facts. A fact joins
    scenes of its own domain only; facts without a domain (those that the offline rules can't name) have scenes of their
    own. A full scene is left out, so that the next fact finds the scene that continues it."""

    def __init__(self, scenes: Sequence[Scene], rules: ReduceSettings, new_id: Callable[[], TreeId]) -> None:
        self.scenes = list(scenes)
        self._rows = {scene.id: row for row, scene in enumerate(scenes)}
        self._rules = rules
        self._new_id = new_id
        width = scenes[0].total.shape[0] if scenes else 0
        self._centroids = np.zeros((max(16, 2 * len(scenes)), width), np.float32)
        for row, scene in enumerate(self.scenes):
            self._centroids[row] = _unit(scene.total)

    def route(self, vector: Vectors, domain: str, span: tuple[int, int]) -> tuple[Scene, ...]:
        """Assign a fact with this unit routing ``vector``, ``domain`` (empty when unknown) and time (microseconds) to
        one or two scenes, or spawn one for it."""
        rules = self._rules
        ranked = self._ranked(vector, domain, span)
        if ranked:
            best, score = ranked[0]
            if score >= rules.scene_assign:
                chosen = [scene for scene, near in ranked if near >= rules.scene_assign]
                for scene in chosen:
                    self._add(scene, vector, span)
                return tuple(chosen)
            if rules.scene_weak <= score < rules.scene_assign and best.size < rules.scene_cap / 2:
                self._add(best, vector, span)
                return (best,)
        return (self._spawn(vector, domain, span),)

    def join(self, scene: TreeId, vector: Vectors, span: tuple[int, int]) -> tuple[Scene]:
        """Add a fact to the scene that its turn belongs to, however near the two are."""
        chosen = self.scenes[self._rows[scene]]
        self._add(chosen, vector, span)
        return (chosen,)

    def mergers(self) -> list[tuple[Scene, Scene]]:
        """Pairs (target, absorbed) of one domain that have grown together; each scene is in at most one pair."""
        rows = [row for row, scene in enumerate(self.scenes) if scene.changed]
        taken: set[TreeId] = set()
        pairs: list[tuple[Scene, Scene]] = []
        for row in rows:
            scene = self.scenes[row]
            if scene.id in taken or scene.begun:
                continue
            scores = self._centroids[: len(self.scenes)] @ self._centroids[row]
            scores[row] = -1.0
            for other_row in np.argsort(-scores, kind="stable"):
                other = self.scenes[other_row]
                if scores[other_row] < self._rules.scene_merge:
                    break
                fits = other.domain == scene.domain and other.size + scene.size <= self._rules.scene_cap
                if fits and other.id not in taken and not other.begun:
                    target, absorbed = (scene, other) if scene.size >= other.size else (other, scene)
                    pairs.append((target, absorbed))
                    taken |= {scene.id, other.id}
                    break
        return pairs

    def _ranked(self, vector: Vectors, domain: str, span: tuple[int, int]) -> list[tuple[Scene, float]]:
        """The two best scenes of the fact's domain that have room, with their scores, the best first."""
        if not self.scenes:
            return []
        rules = self._rules
        scores = self._centroids[: len(self.scenes)] @ vector
        starts = np.array([scene.start for scene in self.scenes], np.int64)
        ends = np.array([scene.end for scene in self.scenes], np.int64)
        gap = np.maximum(0, np.maximum(starts - span[1], span[0] - ends)) / DAY_US
        scores = scores + rules.scene_time_bonus * np.maximum(0.0, 1.0 - gap / rules.scene_time_days)
        best: list[tuple[Scene, float]] = []
        for row in np.argsort(-scores, kind="stable"):
            scene = self.scenes[row]
            if domain != scene.domain or scene.size >= rules.scene_cap:
                continue
            best.append((scene, float(scores[row])))
            if len(best) == 2:
                break
        return best

    def _add(self, scene: Scene, vector: Vectors, span: tuple[int, int]) -> None:
        scene.total = scene.total + vector
        scene.size += 1
        scene.start, scene.end = min(scene.start, span[0]), max(scene.end, span[1])
        scene.changed = True
        self._centroids[self._rows[scene.id]] = _unit(scene.total)

    def _spawn(self, vector: Vectors, domain: str, span: tuple[int, int]) -> Scene:
        scene = Scene(self._new_id(), domain, vector.astype(np.float32), 1, *span, changed=True)
        row = len(self.scenes)
        self.scenes.append(scene)
        self._rows[scene.id] = row
        if self._centroids.shape[1] != vector.shape[0] or row >= self._centroids.shape[0]:
            grown = np.zeros((max(16, 2 * (row + 1)), vector.shape[0]), np.float32)
            if row:
                grown[:row] = self._centroids[:row]
            self._centroids = grown
        self._centroids[row] = _unit(vector)
        return scene


def _unit(vector: Vectors) -> Vectors:
    length = float(np.linalg.norm(vector))
    return vector / length if length else vector
