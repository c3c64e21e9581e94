"""The trees of a source in the target: copied whole where it has none, else its own take the source's leaves."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID, uuid4

import numpy as np

from memforest_core.domain.ids import NodeId, PayloadId, ScopeState, SessionId, TreeId, TreeKind, tree_id
from memforest_core.domain.times import from_micros
from memforest_core.ingest.reduce.records import Member
from memforest_core.ingest.reduce.routing import continued, deserves_tree
from memforest_core.ingest.reduce.rows import NO_EVIDENCE
from memforest_core.lifecycle.hidden_forest_rows import StoredForest
from memforest_core.lifecycle.merge.records import Counted, ScopeCopy, SessionPlan, StoredScope, Tally
from memforest_core.lifecycle.merge.rows.merge_forests import MergeRows
from memforest_core.lifecycle.merge.transplanting import Successor, transplant
from memforest_core.memtree import build, insert, leaf
from memforest_core.models.calls import Vectors
from memforest_core.settings import Settings
from memforest_core.store.topics import CopiedTurns
from memforest_core.store.trees import SceneSpan, TreeChange


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


def _new_node() -> NodeId:
    return NodeId(uuid4())


class Uniting:
    """Brings the scopes and trees of one source into the target."""

    def __init__(
        self, rows: MergeRows, source: StoredForest, target: StoredForest, settings: Settings, tally: Tally
    ) -> None:
        self._rows = rows
        self._source = source
        self._target = target
        self._settings = settings
        self._tally = tally
        self._successors: Mapping[PayloadId, Successor] = {}
        self._people = rows.reduce.canon.people(target.id)
        self._names: Mapping[str, str] = {}

    def run(
        self, plans: Mapping[SessionId, SessionPlan], successors: Mapping[PayloadId, Successor]
    ) -> Mapping[UUID, UUID]:
        """Unite and copy everything; what the copied internal nodes and the scenes are called now.

        ``successors`` says what each payload of the source becomes; one that is not in it stays behind.
        """
        self._successors = successors
        said = CopiedTurns({plan.source.id: (plan.target, plan.first_turn) for plan in plans.values()})
        scopes, pairs = self._scopes(plans, self._rows.trees.topics_of(said))
        self._transplant([scope for scope in scopes if scope.transplanted])
        copies = [scope.copy for scope in scopes if scope.copy is not None]
        self._rows.trees.copy_scopes(
            self._target.id, [scope for scope in scopes if scope.there is None], self._settings.refresh.quiet_s
        )
        members = [
            Member(scope.id, successor.payload_id, session) for scope in scopes for successor, session in scope.members
        ]
        growing = {scope.id for scope in scopes if scope.copy is not None or (scope.there and scope.there.head)}
        self._rows.reduce.scopes.add_members([member for member in members if member.tree_id not in growing])
        changes = self._grow(scopes, pairs)
        # Nodes first, then index rows, then trees, as all writers lock them.
        self._rows.trees.add_nodes([node for copy in copies for node in copy.nodes])
        refresh = self._settings.refresh
        self._rows.reduce.write_trees(changes, refresh.quiet_of, refresh.max_staleness_s)
        self._rows.reduce.scopes.name_people(self._target.id, self._names)
        renamed = {id_: new for copy in copies for id_, new in copy.renamed.items()}
        self._rows.trees.copy_summaries(self._target.id, renamed)
        scenes = {scope.source.id: scope.id for scope in scopes if scope.source.kind is TreeKind.SCENE}
        self._rows.trees.copy_topics(said, self._target.id, scenes)
        became: list[tuple[UUID, UUID]] = [*renamed.items(), *scenes.items()]
        return dict(became)

    def _scopes(
        self, plans: Mapping[SessionId, SessionPlan], said: Collection[TreeId]
    ) -> tuple[list[ScopeCopy], list[ScenePair]]:
        """The scopes that bring something, each with its place in the target."""
        mine = self._rows.trees.all_scopes(self._source.id)
        members: dict[TreeId, list[tuple[Successor, SessionId]]] = defaultdict(list)
        seen: set[tuple[TreeId, PayloadId]] = set()
        for member in self._rows.trees.all_members(self._source.id):
            successor = self._successors.get(member.payload_id)
            if successor is not None and (member.tree_id, successor.payload_id) not in seen:
                seen.add((member.tree_id, successor.payload_id))
                members[member.tree_id].append((successor, plans[member.session_id].target))
        bringing = [scope for scope in mine if members[scope.id] or scope.id in said]
        pairs = self._pair_scenes(bringing)
        counterparts = self._counterparts(bringing, pairs, plans)
        there = self._rows.trees.scopes_of([id_ for id_, _ in counterparts.values()])
        scopes = []
        for scope in bringing:
            id_, key = counterparts[scope.id]
            plan = plans[_session_of(scope)] if scope.kind is TreeKind.SESSION else None
            scopes.append(ScopeCopy(scope, id_, key, there.get(id_), plan, members[scope.id]))
        return scopes, pairs

    def _pair_scenes(self, scopes: Sequence[StoredScope]) -> list[ScenePair]:
        mine = [scope for scope in scopes if scope.kind is TreeKind.SCENE]
        if not mine:
            return []
        theirs = [
            scope
            for scope in self._rows.trees.all_scopes(self._target.id)
            if scope.kind is TreeKind.SCENE and scope.state is ScopeState.ACTIVE
        ]
        rules = self._settings.reduce
        return match_scenes(mine, theirs, rules.scene_merge, rules.scene_cap)

    def _counterparts(
        self, scopes: Sequence[StoredScope], pairs: Sequence[ScenePair], plans: Mapping[SessionId, SessionPlan]
    ) -> dict[TreeId, tuple[TreeId, str]]:
        """The target's scope, by id and key, for each of the source's; new scenes are numbered in their order."""
        target = self._target.id
        counterparts = {pair.source.id: (pair.target.id, pair.target.key) for pair in pairs}
        alone = [scope for scope in scopes if scope.kind is TreeKind.SCENE and scope.id not in counterparts]
        if alone:
            last = self._rows.reduce.scopes.last_scene(target)
            self._rows.reduce.scopes.set_last_scene(target, last + len(alone))
            for number, scope in enumerate(alone, last + 1):
                id_ = tree_id(target, TreeKind.SCENE, str(number))
                counterparts[scope.id] = (id_, str(id_))
        entities = self._entity_keys([scope.key for scope in scopes if scope.kind is TreeKind.ENTITY])
        for scope in scopes:
            if scope.kind is TreeKind.SCENE:
                continue
            key = entities[scope.key] if scope.kind is TreeKind.ENTITY else str(plans[_session_of(scope)].target)
            counterparts[scope.id] = (tree_id(target, scope.kind, key), key)
        return counterparts

    def _entity_keys(self, keys: Sequence[str]) -> dict[str, str]:
        """For each key of an entity in the source that of its tree in the target."""
        people = self._people
        persons = {key: person for key in keys if (person := people.by_key(key)) is not None}
        names = {name for person in persons.values() for name in person.keys} | set(keys)
        stored = self._rows.reduce.scopes.entity_trees(self._target.id, names)
        found = {key: key for key in keys if key in stored}
        # The tree under a speaker's id chooses first, so that no other comes to its place.
        own = {person.key for person in persons.values()}
        for key in sorted(set(keys) - found.keys(), key=lambda key: (key not in own, key)):
            person = persons.get(key)
            there = key if person is None else continued(person, stored)
            found[key] = key if there in found.values() else there
        self._names = {found[key]: person.name for key, person in persons.items()}
        return found

    def _transplant(self, scopes: Sequence[ScopeCopy]) -> None:
        """Make the copies."""
        nodes = self._rows.trees.nodes(self._source.id) if scopes else {}
        for scope in scopes:
            if scope.source.head is not None:
                own = nodes[scope.source.id]
                scope.copy = transplant(scope.source.head, own, scope.id, self._successors, _new_node)
                self._tally[Counted.TREES_COPIED] += 1
                self._tally[Counted.LEAVES_INSERTED] += scope.copy.inserted
                self._tally[Counted.NODES_DIRTY] += scope.copy.dirtied

    def _grow(self, scopes: Sequence[ScopeCopy], pairs: Sequence[ScenePair]) -> list[TreeChange]:
        """What happens to trees that take the source's leaves, and to scopes that are active from now on."""
        rest = [scope for scope in scopes if scope.copy is None]
        growing = [
            (scope, scope.there.head)
            for scope in rest
            if scope.leaves and scope.there is not None and scope.there.head is not None
        ]
        loaded = self._rows.reduce.load_paths([one for scope, _ in growing for one in scope.leaves])
        scenes = {pair.target.id: pair for pair in pairs}
        changes = []
        for scope, head in growing:
            diff = insert(head, loaded[scope.id], scope.leaves, _new_node)
            pair = scenes.get(scope.id)
            span = None if pair is None else united(pair, diff.head.leaf_count - head.leaf_count)
            changes.append(TreeChange(diff, span))
            self._tally[Counted.TREES_MATCHED] += 1
            self._tally[Counted.LEAVES_INSERTED] += sum(node.level == 0 for node in diff.inserted)
        changes += self._build([scope for scope in rest if not (scope.there and scope.there.head)])
        touched = [node for change in changes for node in (*change.diff.inserted, *change.diff.updated)]
        self._tally[Counted.NODES_DIRTY] += sum(node.level > 0 and node.dirty for node in touched)
        return changes

    def _build(self, scopes: Sequence[ScopeCopy]) -> list[TreeChange]:
        """Trees for sessions, and for entities and scenes that have enough facts now."""
        counted = [scope.id for scope in scopes if scope.source.kind is not TreeKind.SESSION]
        evidence = self._rows.reduce.scopes.evidence(counted)
        active = [
            scope
            for scope in scopes
            for facts, sessions in [evidence.get(scope.id, NO_EVIDENCE)]
            if deserves_tree(
                scope.source.kind,
                facts,
                len(sessions),
                self._settings.reduce,
                person=scope.source.kind is TreeKind.ENTITY and self._people.by_key(scope.key) is not None,
            )
        ]
        whole = self._rows.reduce.scopes.members(
            [scope.id for scope in active if scope.source.kind is not TreeKind.SESSION]
        )
        changes = []
        for scope in active:
            stored = whole.get(scope.id)
            leaves = scope.leaves if stored is None else [leaf(scope.id, *member) for member in stored]
            k = scope.there.k if scope.there is not None else scope.source.k
            diff = build(tree_id=scope.id, k=k, root_id=_new_node(), leaves=leaves, new_id=_new_node)
            changes.append(TreeChange(diff, placed=True))
        return changes


def _session_of(scope: StoredScope) -> SessionId:
    """The session that a session scope is about: its key."""
    return SessionId(UUID(scope.key))
