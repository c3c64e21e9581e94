"""Placing one batch under the lock of its forest (canonicalize, route, insert), uniting scenes, deleting leaves."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from itertools import count
from uuid import UUID, uuid4

from memforest_core.domain.facts import Fact
from memforest_core.domain.ids import CellId, FactId, ForestId, NodeId, PayloadId, SessionId, TreeId, TreeKind, tree_id
from memforest_core.domain.people import KnownPerson, called
from memforest_core.domain.temperature import united_tags
from memforest_core.domain.times import from_micros, micros
from memforest_core.index.records import PointLease
from memforest_core.ingest.reduce.canonical import Known, attach, identify, present
from memforest_core.ingest.reduce.records import (
    Member,
    ReduceBatch,
    ScopeDraft,
    ScopeHead,
    WaitingCandidate,
    WaitingCell,
)
from memforest_core.ingest.reduce.routing import Scene, SceneMap, continued, deserves_tree, entity_scopes, subject_key
from memforest_core.ingest.reduce.rows import NO_EVIDENCE, ReduceRows
from memforest_core.memtree import Diff, Key, Node, NotLoaded, TreeHead, build, delete, insert, leaf
from memforest_core.models.calls import Vectors
from memforest_core.settings import Settings
from memforest_core.store.removal import RemovalRows, Retired
from memforest_core.store.trees import SceneSpan, TreeChange


def retire(rows: RemovalRows, forest: ForestId, cells: Sequence[CellId], model: str, settings: Settings) -> Retired:
    """Delete the candidates that better extractions of these cells superseded, after the new ones were placed."""
    retired = rows.retire_superseded(forest, cells, model)
    rows.mark_payloads(cells)
    remove_leaves(rows, retired.leaves, settings)
    return retired


def remove_leaves(rows: RemovalRows, leaves: dict[TreeId, list[NodeId]], settings: Settings) -> tuple[NodeId, ...]:
    """Remove leaves from their trees; the cost follows the touched paths. Returns the nodes that went, leaves too."""
    if not leaves:
        return ()
    heads = rows.shrinking(list(leaves))
    loaded = rows.load_leaves([one for group in leaves.values() for one in group])
    changes: list[TreeChange] = []
    for tree, head in heads.items():
        diff = _removed(rows, head, loaded.get(tree, []), leaves[tree])
        changes.append(TreeChange(diff))
    rows.write_trees(changes, settings.refresh.quiet_of, settings.refresh.max_staleness_s)
    empty = [change for change in changes if change.head.leaf_count == 0]
    rows.drop_empty([change.head.tree_id for change in empty])
    return (*(node for change in changes for node in change.diff.deleted), *(change.head.root_id for change in empty))


def _removed(rows: RemovalRows, head: TreeHead, loaded: list[Node], leaves: Collection[NodeId]) -> Diff:
    """The diff; children of a neighbour are loaded when one is needed."""
    while True:
        try:
            return delete(head, loaded, leaves)
        except NotLoaded as missing:
            if missing.parent is None:
                raise
            loaded = [*loaded, *rows.load_children([missing.parent])]


NEWEST_SCENES = 256
"""Scenes that a batch may join while the vector index is unavailable, which finds near ones."""


def _new_node() -> NodeId:
    return NodeId(uuid4())


def fact_span(fact: Fact) -> tuple[int, int]:
    """Where a fact lies in time, in microseconds: its event's interval, else its mention time."""
    span = fact.statement.time
    start: datetime = span.start or fact.statement.mentioned_at
    return micros(start), micros(span.end or start)


class Placing:
    """One batch on its way into a forest."""

    def __init__(
        self,
        rows: ReduceRows,
        batch: ReduceBatch,
        compared: Mapping[FactId, Known],
        settings: Settings,
        nearby: Sequence[FactId] | None = None,
        lease: PointLease | None = None,
    ) -> None:
        """``compared`` are facts that may be the same as one of the batch; ``nearby`` those whose scenes it may join
        in addition to theirs, None when the vector index is unavailable. ``lease``: see ``add_facts``."""
        self._lease = lease
        self._rows = rows
        self._batch = batch
        self._forest = batch.forest_id
        self._compared = compared
        self._nearby = nearby
        self._settings = settings
        self._leaves: dict[TreeId, dict[UUID, Node]] = defaultdict(dict)
        self._sessions: dict[FactId, SessionId] = {}
        self._keys: dict[FactId, Key] = {}
        self._persons: set[TreeId] = set()
        self._members: list[Member] = []
        self._people = rows.canon.people(batch.forest_id)
        self._said_by: dict[FactId, KnownPerson | None] = {}
        self._stirred: set[TreeId] = set()
        self._turns: dict[FactId, list[tuple[SessionId, int]]] = {}

    def run(self) -> int:
        """Place everything; the number of new facts."""
        facts, routing = self._canonicalize()
        drafts = self._route_sessions()
        entity_drafts = self._route_entities(facts)
        scene_drafts, mergers = self._route_scenes(facts, routing)
        heads = self._rows.scopes.open_scopes(self._forest, [*drafts, *entity_drafts, *scene_drafts])
        merging = [(target.id, absorbed.id) for target, absorbed in mergers]
        uniting = [scene for pair in merging for scene in pair]
        self._rows.scopes.add_members([member for member in self._members if member.tree_id in uniting])
        tags = self._rows.scopes.tags(uniting) if merging else {}
        for target, absorbed in merging:
            self._rows.scopes.move_members(absorbed, target)
        spans = {draft.id: draft.span for draft in scene_drafts if draft.span is not None}
        self._insert(heads, spans, {target for target, _ in merging}, {absorbed for _, absorbed in merging})
        for target, absorbed in merging:
            self._rows.scopes.move_turns(absorbed, target)
            if absorbed in tags:
                self._rows.scopes.set_tags(target, united_tags(tags.get(target), tags[absorbed]))
        self._rows.scopes.assign([cell.id for cell in self._batch.cells])
        self._rows.warm(sorted(self._stirred, key=str))
        return len(facts)

    def _canonicalize(self) -> tuple[list[Fact], dict[FactId, Vectors]]:
        waiting = [(cell, item) for cell in self._batch.cells for item in cell.candidates]
        if not waiting:
            return [], {}
        incoming = [item for _, item in waiting]
        exact = [identify(self._forest, item.candidate.statement)[0] for item in incoming]
        stored = self._rows.canon.stored_facts(exact)
        # In a stable order, so that a batch merges alike each time.
        compared = [self._compared[key] for key in sorted(self._compared, key=str)]
        threshold = self._settings.reduce.near_duplicate
        attached, new = attach(self._forest, incoming, stored, compared, threshold)
        routing: dict[FactId, Vectors] = {}
        for (cell, item), fact_id in zip(waiting, attached, strict=True):
            self._sessions.setdefault(fact_id, cell.session_id)
            self._turns.setdefault(fact_id, [(cell.session_id, turn) for turn in item.candidate.turn_ordinals])
            routing.setdefault(fact_id, present(item.routing_vector))
        self._keys = {fact.id: Key(fact_span(fact)[0], fact.cell_ordinal, fact.item, fact.id.hex) for fact in new}
        self._said_by = self._tellers(waiting, attached)
        subjects = {fact.id: subject_key(fact.statement, self._people, self._said_by.get(fact.id)) for fact in new}
        self._rows.canon.add_facts(self._forest, new, self._keys, subjects, self._lease)
        self._rows.canon.add_occurrences(waiting, attached)
        self._rows.revive(self._repeated(stored, attached))
        noted = {fact for (cell, _), fact in zip(waiting, attached, strict=True) if cell.note}
        self._rows.canon.pin(sorted(noted, key=str))
        return new, routing

    def _tellers(
        self, waiting: Sequence[tuple[WaitingCell, WaitingCandidate]], facts: Sequence[FactId]
    ) -> dict[FactId, KnownPerson | None]:
        """Who said each fact first; where several have the name, the turns tell who it was."""
        people = self._people
        unsure = {
            (cell.session_id, ordinal)
            for cell, item in waiting
            if people.shared(item.candidate.statement.speaker)
            for ordinal in item.candidate.turn_ordinals
        }
        speakers = self._rows.canon.tellers(unsure)
        tellers: dict[FactId, KnownPerson | None] = {}
        for (cell, item), fact in zip(waiting, facts, strict=True):
            name = item.candidate.statement.speaker
            ids = (speakers.get((cell.session_id, ordinal)) for ordinal in item.candidate.turn_ordinals)
            persons = (people.by_id(speaker) for speaker in ids if speaker is not None)
            said = next((person for person in persons if person is not None and called(name, person)), None)
            tellers.setdefault(fact, said or people.who(name))
        return tellers

    def _repeated(self, stored: frozenset[FactId], facts: Sequence[FactId]) -> dict[FactId, datetime]:
        """Facts that were there and are said in cells that are placed for the first time (what is extracted again or
        corrected was said before), and when they are said last."""
        said: dict[FactId, datetime] = {}
        waiting = [(cell, item) for cell in self._batch.cells for item in cell.candidates]
        for (cell, item), fact in zip(waiting, facts, strict=True):
            if fact in stored and not cell.reopened:
                moment = item.candidate.statement.mentioned_at
                said[fact] = max(moment, said.get(fact, moment))
        return said

    def _route_sessions(self) -> list[ScopeDraft]:
        """Every cell is a leaf of its session's tree, facts or not."""
        drafts: dict[TreeId, ScopeDraft] = {}
        for cell in self._batch.cells:
            tree = tree_id(self._forest, TreeKind.SESSION, str(cell.session_id))
            drafts[tree] = ScopeDraft(
                tree,
                TreeKind.SESSION,
                str(cell.session_id),
                cell.session_label,
                self._settings.tree.session_k,
                session_id=cell.session_id,
            )
            payload = PayloadId(cell.id)
            key = Key(0, cell.first_turn, cell.char_start, cell.id.hex)
            self._leaves[tree][payload] = leaf(tree, payload, key, micros(cell.time_start), micros(cell.time_end))
            self._members.append(Member(tree, payload, cell.session_id))
        return list(drafts.values())

    def _fact_leaf(self, tree: TreeId, fact: Fact) -> None:
        payload = PayloadId(fact.id)
        self._leaves[tree][payload] = leaf(tree, payload, self._keys[fact.id], *fact_span(fact))
        self._members.append(Member(tree, payload, self._sessions[fact.id]))

    def _route_entities(self, facts: Sequence[Fact]) -> list[ScopeDraft]:
        if not facts:
            return []
        drafts: dict[TreeId, ScopeDraft] = {}
        scopes = {fact.id: entity_scopes(fact.statement, self._people, self._said_by.get(fact.id)) for fact in facts}
        keys = self._trees_of({scope.person for each in scopes.values() for scope in each if scope.person is not None})
        for fact in facts:
            for scope in scopes[fact.id]:
                person, key = scope.person is not None, keys.get(scope.key, scope.key)
                tree = tree_id(self._forest, TreeKind.ENTITY, key)
                k = self._settings.tree.entity_k
                drafts.setdefault(tree, ScopeDraft(tree, TreeKind.ENTITY, key, scope.label, k, person=person))
                if person:
                    self._persons.add(tree)
                self._fact_leaf(tree, fact)
        return list(drafts.values())

    def _trees_of(self, people: Collection[KnownPerson]) -> dict[str, str]:
        """For each speaker's key that of the tree which the speaker has already."""
        keys = {key for person in people if not person.owner and len(person.keys) > 1 for key in person.keys}
        stored = self._rows.scopes.entity_trees(self._forest, keys)
        return {person.key: continued(person, stored) for person in people}

    def _route_scenes(
        self, facts: Sequence[Fact], routing: Mapping[FactId, Vectors]
    ) -> tuple[list[ScopeDraft], list[tuple[Scene, Scene]]]:
        if not facts:
            return [], []
        last = self._rows.scopes.last_scene(self._forest)
        numbers = count(last + 1)
        topics = self._topics(facts)
        scenes = SceneMap(
            self._near_scenes(set(topics.values())),
            self._settings.reduce,
            lambda: tree_id(self._forest, TreeKind.SCENE, str(next(numbers))),
        )
        for fact in facts:
            vector, span = routing[fact.id], fact_span(fact)
            own = topics.get(fact.id)
            domain = fact.statement.domain
            chosen = scenes.join(own, vector, span) if own is not None else scenes.route(vector, domain, span)
            for scene in chosen:
                self._fact_leaf(scene.id, fact)
        taken = next(numbers) - 1
        if taken > last:
            self._rows.scopes.set_last_scene(self._forest, taken)
        mergers = scenes.mergers()
        for target, absorbed in mergers:
            self._leaves.pop(absorbed.id, None)
            target.take_in(absorbed)
        gone = {absorbed.id for _, absorbed in mergers}
        growing = [scene for scene in scenes.scenes if scene.changed]
        self._stirred = {scene.id for scene in growing if scene.cold and scene.id not in gone}
        return [self._scene_draft(scene) for scene in scenes.scenes if scene.changed], mergers

    def _scene_draft(self, scene: Scene) -> ScopeDraft:
        return ScopeDraft(
            scene.id,
            TreeKind.SCENE,
            str(scene.id),
            scene.domain,
            self._settings.tree.scene_k,
            domain=scene.domain,
            span=SceneSpan(scene.total, from_micros(scene.start), from_micros(scene.end)),
        )

    def _topics(self, facts: Sequence[Fact]) -> dict[FactId, TreeId]:
        """The topics of facts that were said in turns which ``append`` gave to one."""
        matched = self._rows.scopes.matched([cell.id for cell in self._batch.cells])
        if not matched:
            return {}
        there = self._rows.scopes.scenes(self._forest, list(set(matched.values())))
        found = ((fact.id, matched.get(turn)) for fact in facts for turn in reversed(self._turns[fact.id]))
        return {fact: topic for fact, topic in found if topic is not None and topic in there}

    def _near_scenes(self, topics: Collection[TreeId]) -> list[Scene]:
        """The scenes that the batch may join: a bounded number, however many the forest has."""
        scopes = self._rows.scopes
        near = scopes.scenes(self._forest, list(topics))
        near |= {scene.id: scene for scene in scopes.scenes_of(self._forest, [*self._compared, *(self._nearby or ())])}
        if self._nearby is None:
            near |= {scene.id: scene for scene in scopes.newest_scenes(self._forest, NEWEST_SCENES)}
        return [near[id_] for id_ in sorted(near, key=str)]

    def _insert(
        self,
        heads: Mapping[TreeId, ScopeHead],
        spans: Mapping[TreeId, SceneSpan],
        rebuilt: set[TreeId],
        retired: set[TreeId],
    ) -> None:
        """Insert the collected leaves; scopes that have become active are built from all their facts."""
        touched = [tree for tree in {*self._leaves, *rebuilt} if tree not in retired]
        candidates = {tree for tree in touched if heads[tree].head is None}
        evidence = self._rows.scopes.evidence([tree for tree in candidates if heads[tree].kind is not TreeKind.SESSION])
        to_build = {tree for tree in candidates if self._deserves_tree(tree, heads[tree], evidence, tree in rebuilt)}
        waiting = candidates - to_build - rebuilt
        self._rows.scopes.add_members([member for member in self._members if member.tree_id in waiting])
        grown = {tree: head for tree in touched if (head := heads[tree].head) is not None}
        changes: list[TreeChange] = []
        whole = self._rows.scopes.members([*(to_build & evidence.keys() - rebuilt), *rebuilt])
        for tree, members in whole.items():
            self._leaves[tree] |= {member[0]: leaf(tree, *member) for member in members}
        for tree in to_build:
            k = getattr(self._settings.tree, f"{heads[tree].kind.value}_k")
            leaves = self._leaves[tree].values()
            diff = build(tree_id=tree, k=k, root_id=_new_node(), leaves=leaves, new_id=_new_node)
            changes.append(TreeChange(diff, spans.get(tree), placed=tree in whole))
        loaded = self._rows.load_paths([one for tree in grown for one in self._leaves[tree].values()])
        for tree, head in grown.items():
            diff = insert(head, loaded[tree], list(self._leaves[tree].values()), _new_node)
            changes.append(TreeChange(diff, spans.get(tree), placed=tree in whole))
        refresh = self._settings.refresh
        self._rows.write_trees(changes, refresh.quiet_of, refresh.max_staleness_s, list(retired))
        written = retired | {change.head.tree_id for change in changes if change.diff.inserted}
        self._rows.scopes.set_spans({tree: span for tree, span in spans.items() if tree not in written})

    def _deserves_tree(
        self, tree: TreeId, scope: ScopeHead, evidence: Mapping[TreeId, tuple[int, frozenset[SessionId]]], placed: bool
    ) -> bool:
        """Whether a scope gets a tree now; ``placed`` says that the batch's facts are among its placements already."""
        facts, sessions = evidence.get(tree, NO_EVIDENCE)
        if not placed and scope.kind is not TreeKind.SESSION:
            facts += len(self._leaves[tree])
            sessions |= {self._sessions[FactId(payload)] for payload in self._leaves[tree]}
        return deserves_tree(scope.kind, facts, len(sessions), self._settings.reduce, person=tree in self._persons)


def unite(rows: ReduceRows, forest: ForestId, target: Scene, absorbed: Scene, settings: Settings) -> int:
    """Move all facts and turns of the ``absorbed`` scene, which ends, to the ``target``, both of this forest; how many
    facts that has now. The target has the tags of both, and is hot."""
    scopes = rows.scopes
    tags = scopes.tags([target.id, absorbed.id])
    head = scopes.scopes([target.id])[target.id].head
    start, end = from_micros(min(target.start, absorbed.start)), from_micros(max(target.end, absorbed.end))
    together = SceneSpan(target.total + absorbed.total, start, end)
    scopes.move_members(absorbed.id, target.id)
    leaves = [leaf(target.id, *member) for member in scopes.members([target.id]).get(target.id, [])]
    changes: list[TreeChange] = []
    if head is not None:
        diff = insert(head, rows.load_paths(leaves).get(target.id, []), leaves, _new_node)
        changes = [TreeChange(diff, together, placed=True)]
    elif len(leaves) >= settings.reduce.scene_min_facts:
        k = settings.tree.scene_k
        diff = build(tree_id=target.id, k=k, root_id=_new_node(), leaves=leaves, new_id=_new_node)
        changes = [TreeChange(diff, together, placed=True)]
    else:
        scopes.set_spans({target.id: together})
    refresh = settings.refresh
    rows.write_trees(changes, refresh.quiet_of, refresh.max_staleness_s, [absorbed.id])
    scopes.move_turns(absorbed.id, target.id)
    if absorbed.id in tags:
        scopes.set_tags(target.id, united_tags(tags.get(target.id), tags[absorbed.id]))
    rows.warm([target.id])
    return changes[0].head.leaf_count if changes else len(leaves)
