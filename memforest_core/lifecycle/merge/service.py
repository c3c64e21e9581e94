"""Merges forests into a new or a live one: freezes the sources, copies one after the other, then releases them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID, uuid4

from memforest_core.domain.ids import FactId, ForestId, TenantId
from memforest_core.domain.operation_rules import OperationKind, Role
from memforest_core.domain.turns import checked_actor, checked_name
from memforest_core.errors import FROZEN_S, ForestChanged, ForestFrozen, InvalidInput, NotFound, RetryableError
from memforest_core.ingest.reduce.records import ruled
from memforest_core.lifecycle.hidden_forest_rows import StoredForest
from memforest_core.lifecycle.merge.records import (
    NAMED,
    ConflictReport,
    Counted,
    NearDuplicate,
    RenamedSession,
    Tally,
    ValueConflict,
    numbers,
)
from memforest_core.lifecycle.merge.rows.merge_forests import MergeRows
from memforest_core.lifecycle.merge.switching import Switched, Switching, near_duplicates
from memforest_core.settings import Settings
from memforest_core.store.engine import Engine
from memforest_core.store.owners import known
from memforest_core.store.repeating import repeated
from memforest_core.work.operations import Clear, Operations, merge_moved, request, undone
from memforest_core.work.records import CANCELLED, Numbers, OperationTask, TaskId

LOOKED_AT = 1_000
"""Newest merges among which the same one is looked for."""
MAX_SOURCES = 64
_NOTHING = "Owner {!r:.80} has no memory yet: there is nothing to merge."


@dataclass(frozen=True, slots=True)
class _Merge:
    """The forests of a task; in a dry run a target of None is a new forest."""

    sources: tuple[ForestId, ...]
    target: ForestId | None
    keep_sources: bool


@dataclass
class Merging:
    """Requests merges and runs their steps. Thread-safe."""

    engine: Engine
    operations: Operations
    model: str
    """The embedding model."""
    settings: Settings
    clear: Clear
    """Deletes what moved sources leave behind."""

    @repeated
    def ask(
        self,
        tenant: TenantId,
        sources: Sequence[str],
        into: str,
        *,
        keep_sources: bool = False,
        actor: str,
        dry_run: bool = False,
    ) -> TaskId:
        """Merge the forests of these owners (``sources``) into the forest of another owner (``into``), old or new.

        The sources take no sessions meanwhile, and are gone afterwards unless ``keep_sources``. Calls no model but for
        nodes above what was joined.
        """
        actor = checked_actor(actor)
        with MergeRows.opened(self.engine, tenant) as rows:
            merge = self._resolved(rows, sources, into, keep_sources)
            arguments: dict[str, str | int] = {f"source_{at}": str(id_) for at, id_ in enumerate(merge.sources)}
            arguments["keep_sources"] = int(keep_sources)
            target = merge.target
            if not dry_run:
                begun = self._begun(rows, arguments, into)
                if begun is not None:
                    return begun
            self._check_live(rows, merge)
            touches = dict.fromkeys(merge.sources, Role.MERGE_FROM)
            if target is not None:
                touches[target] = Role.MERGE_INTO
            deleted = target is not None and rows.to_be_deleted(target)
            if (target is None or deleted) and not dry_run:
                # After a deletion of the whole target, which this waits for, the sources go to a new forest.
                target = rows.new_forest(into, merge.sources[0])
                touches[target] = Role.MERGE_INTO
            kind = OperationKind.MERGE
            task = request(
                rows.tasks, kind, target, arguments, actor=actor, owner=into, dry_run=dry_run, touches=touches
            )
            if merge.target is not None and not deleted and rows.to_be_deleted(merge.target):
                raise ForestChanged("The deletion of this owner was requested at this moment: try again.")
        self.operations.wake(tenant, task)
        return task

    @repeated
    def conflicts(self, tenant: TenantId, sources: Sequence[str], into: str) -> ConflictReport:
        """What a merge of ``sources`` into the owner ``into`` would do, and which facts contradict; changes nothing."""
        with MergeRows.opened(self.engine, tenant) as rows, rows.undone():
            merge = self._resolved(rows, sources, into, True)
            self._check_live(rows, merge)
            return self._tried(rows, merge, into)

    def _resolved(self, rows: MergeRows, sources: Sequence[str], into: str, keep_sources: bool) -> _Merge:
        if isinstance(sources, str) or not sources:
            raise InvalidInput("Name at least one owner to merge from, as a list.", code="no_sources")
        if len(sources) > MAX_SOURCES:
            raise InvalidInput(f"Merge at most {MAX_SOURCES} forests at once.", code="too_many_sources")
        into = checked_name(into, "into")
        owners = [checked_name(owner, "source") for owner in sources]
        if len(set(owners)) < len(owners):
            raise InvalidInput("Name each source once.", code="repeated_source")
        if into in owners:
            raise InvalidInput("A forest can't be merged into itself: name another owner.", code="same_forest")
        ids: list[ForestId] = []
        for owner in owners:
            ids.append(known(rows.find_forest(owner), owner, _NOTHING).id)
        target = rows.find_forest(into)
        return _Merge(tuple(sorted(ids)), None if target is None else target.id, keep_sources)

    @staticmethod
    def _begun(rows: MergeRows, arguments: Numbers, into: str) -> TaskId | None:
        """The same merge, if it is requested already and not done: it may have frozen its own sources."""
        for task in rows.tasks.list((OperationKind.MERGE,), LOOKED_AT):
            if not task.finished and task.arguments == arguments:
                targets = rows.forests([task.forest_id] if task.forest_id is not None else [])
                if any(forest.owner == into for forest in targets):
                    return task.id
        return None

    @staticmethod
    def _check_live(rows: MergeRows, merge: _Merge) -> None:
        for forest in rows.forests([*merge.sources, *([merge.target] if merge.target is not None else [])]):
            if forest.state != "live":
                raise ForestFrozen(f"The memory of {forest.owner!r:.80} is being merged: ask again when that is done.")

    def step(self, tenant: TenantId, task: OperationTask, progress: Numbers) -> Numbers | None:
        """One step; None when all is done. Raises NotFound, RetryableError, StoreUnavailable."""
        merge = _merge_of(task)
        match progress.get("phase"):
            case None if task.dry_run:
                with MergeRows.opened(self.engine, tenant) as rows, rows.undone():
                    counts = self._tried(rows, merge, "").counts
                return {"phase": "planned", **counts}
            case None:
                return self._freeze(tenant, task, merge)
            case "merge" | "fold":
                return self._move(tenant, task, merge, progress)
            case "end":
                return self._end(tenant, task, merge, progress)
            case "clear":
                return self._cleared(tenant, progress)
            case _:
                return None

    def undo(self, tenant: TenantId, task: OperationTask, progress: Numbers) -> Numbers | None:
        """One step of undoing a merge: the sources are released, a new target is deleted.

        Once a source was merged, the merge continues to its end. Raises as ``step``.
        """
        merge = _merge_of(task)
        target = merge.target
        if task.dry_run or target is None or progress.get("phase") == CANCELLED:
            return undone(progress)
        if progress.get("phase") == "undo":
            return undone(progress) if self.clear(tenant, target) else progress
        with MergeRows.opened(self.engine, tenant) as rows:
            forests = rows.lock_forests([*merge.sources, target], changing=True)
            progress = rows.progress(task.id) or progress
            states = {id_: forest.state for id_, forest in forests.items()}
            late = merge_moved(replace(task, progress=progress), states) is not None
            if not late:
                if states.get(target) == "hidden":
                    rows.set_forest_state(target, "gone")
                if progress:
                    for id_ in _frozen(merge, forests):
                        rows.set_forest_state(id_, "live")
                hidden = states.get(target) in ("hidden", "gone")
                progress = dict(progress) | {"phase": "undo" if hidden else CANCELLED}
                rows.tasks.advance(task.id, progress)
        return self.step(tenant, task, progress) if late else progress

    def _freeze(self, tenant: TenantId, task: OperationTask, merge: _Merge) -> Numbers:
        """From here on the sources take no sessions."""
        with MergeRows.opened(self.engine, tenant) as rows:
            forests = self._present(rows, merge, changing=True)
            begun = rows.progress(task.id)
            if begun:
                return begun
            if rows.contended(task.id, merge.sources, _target(merge)):
                raise RetryableError("Another merge moves one of these forests.", retry_after=FROZEN_S)
            for id_ in merge.sources:
                if forests[id_].state not in ("live", "frozen"):
                    raise NotFound("A forest to merge is gone.")
                rows.set_forest_state(id_, "frozen")
            sizes = rows.fact_counts(merge.sources)
            largest = sorted(range(len(merge.sources)), key=lambda at: (-sizes[merge.sources[at]], at))
            order = ",".join(str(at) for at in largest)
            started: Numbers = {"phase": "merge", "order": order, "next": 0, "sources": len(merge.sources)}
            return rows.tasks.advance(task.id, started)

    def _move(self, tenant: TenantId, task: OperationTask, merge: _Merge, progress: Numbers) -> Numbers:
        """One source, or a new target whose owner got a forest meanwhile: compare with nothing locked, then switch."""
        folding, at = progress["phase"] == "fold", int(progress["next"])
        into = ForestId(UUID(str(progress.get("into", _target(merge)))))
        source = _target(merge) if folding else merge.sources[int(str(progress["order"]).split(",")[at])]
        near = self._compared(tenant, source, into)
        with MergeRows.opened(self.engine, tenant) as rows:
            rows.unhurried()
            forests = rows.lock_forests([*merge.sources, _target(merge), into], changing=folding)
            stored = rows.progress(task.id)
            if stored and (stored.get("phase"), stored.get("next")) != (progress["phase"], at):
                return stored
            target = forests.get(into)
            if target is None or target.state == "gone":
                if not folding:
                    return self._abandon(rows, task, merge, forests, progress)
                back = {name: value for name, value in progress.items() if name != "into"}
                return rows.tasks.advance(task.id, back | {"phase": "end"})
            if target.state == "frozen" and not folding:
                raise RetryableError("The forest to merge into is being merged itself.", retry_after=FROZEN_S)
            tally = Counter(numbers(progress))
            # A source that was deleted meanwhile is skipped.
            if source in forests and forests[source].state != "gone":
                tally = self._switched(rows, forests[source], target, near, tally).tally
            if folding:
                rows.set_forest_state(source, "gone")
                return self._release(rows, task, merge, forests, progress, source)
            phase = "end" if at + 1 == len(merge.sources) else "merge"
            return rows.tasks.advance(task.id, {**progress, **numbers(tally), "phase": phase, "next": at + 1})

    def _compared(self, tenant: TenantId, source: ForestId, target: ForestId) -> Mapping[FactId, FactId]:
        with MergeRows.opened(self.engine, tenant) as rows:
            rows.unhurried()
            return {} if (found := rows.forest(target)) is None else self._near(rows, source, found)

    def _near(self, rows: MergeRows, source: ForestId, target: StoredForest) -> Mapping[FactId, FactId]:
        return near_duplicates(rows, self.model, source, target.id, self._ruled(target).reduce.near_duplicate)

    def _ruled(self, forest: StoredForest) -> Settings:
        return ruled(self.settings, forest.rules)

    def _switched(
        self, rows: MergeRows, source: StoredForest, target: StoredForest, near: Mapping[FactId, FactId], before: Tally
    ) -> Switched:
        """The switch, with its counts added to those from before."""
        conflicting, _ = rows.value_conflicts(source.id, target.id, 0)
        done = Switching(rows, source, target, near, self._ruled(target)).run()
        done.tally[Counted.CONFLICTS] += conflicting + len(done.renamed)
        done.tally.update(before)
        return done

    def _end(self, tenant: TenantId, task: OperationTask, merge: _Merge, progress: Numbers) -> Numbers | None:
        """Show a new target and release the sources, in one commit."""
        with MergeRows.opened(self.engine, tenant) as rows:
            forests = rows.lock_forests([*merge.sources, _target(merge)], changing=True)
            stored = rows.progress(task.id)
            if stored and stored.get("phase") != "end":
                return stored
            target = forests.get(_target(merge))
            if target is None or target.state == "gone":
                return self._abandon(rows, task, merge, forests, progress)
            if target.state == "hidden":
                existing = rows.find_forest(target.owner)
                if existing is not None:
                    # The owner got a forest meanwhile: the merged forest is merged into that one.
                    if not rows.tasks.join(task.id, existing.id, Role.MERGE_INTO):
                        raise RetryableError("Another operation is at the forest to merge into.", retry_after=FROZEN_S)
                    return rows.tasks.advance(task.id, {**progress, "phase": "fold", "into": str(existing.id)})
                rows.set_forest_state(target.id, "live")
            return self._release(rows, task, merge, forests, progress)

    def _release(
        self,
        rows: MergeRows,
        task: OperationTask,
        merge: _Merge,
        forests: Mapping[ForestId, StoredForest],
        progress: Numbers,
        *more: ForestId,
    ) -> Numbers:
        present = _frozen(merge, forests)
        for id_ in present:
            rows.set_forest_state(id_, "live" if merge.keep_sources else "gone")
        leaving = [*(() if merge.keep_sources else present), *more]
        rows.move_deliveries(leaving, ForestId(UUID(str(progress.get("into", _target(merge))))))
        gone = {f"gone_{at}": str(id_) for at, id_ in enumerate(leaving)}
        after: Numbers = {**progress, **gone, "phase": "clear" if leaving else "merged", "next": 0}
        return rows.tasks.advance(task.id, after)

    @staticmethod
    def _abandon(
        rows: MergeRows, task: OperationTask, merge: _Merge, forests: Mapping[ForestId, StoredForest], progress: Numbers
    ) -> Numbers:
        """The target was deleted: the sources stay as they were."""
        frozen = _frozen(merge, forests)
        rows.lock_forests(frozen, changing=True)
        for id_ in frozen:
            rows.set_forest_state(id_, "live")
        after: Numbers = {**progress, "phase": "abandoned"}
        return rows.tasks.advance(task.id, after)

    def _cleared(self, tenant: TenantId, progress: Numbers) -> Numbers | None:
        at = int(progress["next"])
        leaving = progress.get(f"gone_{at}")
        if leaving is None:
            return None
        done = self.clear(tenant, ForestId(UUID(str(leaving))))
        return {**progress, "next": at + 1 if done else at}

    def _present(self, rows: MergeRows, merge: _Merge, *, changing: bool = False) -> dict[ForestId, StoredForest]:
        """All forests of a merge, locked."""
        wanted = [*merge.sources, _target(merge)]
        forests = dict(rows.lock_forests(wanted, changing=changing))
        if len(forests) < len(wanted):
            raise NotFound("A forest of this merge is gone.")
        return forests

    def _tried(self, rows: MergeRows, merge: _Merge, into: str) -> ConflictReport:
        """Merge and report in a transaction that is undone: the numbers are those of a real merge."""
        rows.unhurried()
        # A task has no owner's name; the counts do not depend on it.
        target = merge.target or rows.new_forest(into or str(uuid4()), merge.sources[0])
        forests = self._present(rows, replace(merge, target=target))
        tally: Tally = Counter()
        values: list[ValueConflict] = []
        sessions: list[RenamedSession] = []
        exact: list[str] = []
        near: list[NearDuplicate] = []
        sizes = rows.fact_counts(merge.sources)
        for source in sorted(merge.sources, key=lambda id_: (-sizes[id_], str(id_))):
            values += rows.value_conflicts(source, target, NAMED)[1]
            twins = self._near(rows, source, forests[target])
            done = self._switched(rows, forests[source], forests[target], twins, tally)
            tally, owner = done.tally, forests[source].owner
            sessions += [RenamedSession(owner, plan.source.external_id, plan.name) for plan in done.renamed]
            exact += done.exact
            near += _sentences(rows, done)
        return ConflictReport(
            numbers(tally), tuple(sessions[:NAMED]), tuple(values[:NAMED]), tuple(exact[:NAMED]), tuple(near[:NAMED])
        )


def _sentences(rows: MergeRows, done: Switched) -> list[NearDuplicate]:
    said = rows.statements([id_ for pair in done.near for id_ in pair])
    pairs = [pair for pair in done.near if said.keys() >= set(pair)]
    return [NearDuplicate(said[mine].text, said[theirs].text) for mine, theirs in pairs]


def _merge_of(task: OperationTask) -> _Merge:
    sources: list[ForestId] = []
    while (id_ := task.arguments.get(f"source_{len(sources)}")) is not None:
        sources.append(ForestId(UUID(str(id_))))
    return _Merge(tuple(sources), task.forest_id, bool(task.arguments.get("keep_sources")))


def _frozen(merge: _Merge, forests: Mapping[ForestId, StoredForest]) -> list[ForestId]:
    return [id_ for id_ in merge.sources if id_ in forests and forests[id_].state == "frozen"]


def _target(merge: _Merge) -> ForestId:
    if merge.target is None:
        raise NotFound("This merge has no forest to merge into.")
    return merge.target
