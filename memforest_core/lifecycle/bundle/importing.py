"""Imports a bundle: checked whole, written batch by batch into a hidden forest, proved, and then made visible."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import islice
from typing import NoReturn
from uuid import UUID, uuid4

from memforest_core.domain.ids import ForestId, NodeId, TenantId, TreeId
from memforest_core.domain.operation_rules import OperationKind
from memforest_core.domain.turns import checked_name
from memforest_core.errors import CallerError, InvalidInput, RetryableError
from memforest_core.lifecycle.bundle.bundle_file import BundleReader
from memforest_core.lifecycle.bundle.checking import RowChecks, check_rules, check_zone, damaged, statement_of, texts_of
from memforest_core.lifecycle.bundle.new_ids import IdTable, NewIds, PreparedRows
from memforest_core.lifecycle.bundle.records import FACT, NAMED, TABLES, VECTOR, BundleTable, Row
from memforest_core.lifecycle.bundle.rows.imported import REFUSED, ImportRows
from memforest_core.lifecycle.rebuild.embedding import TextVectors
from memforest_core.lifecycle.rebuild.records import TextKind
from memforest_core.lifecycle.verify.records import Check
from memforest_core.lifecycle.verify.rows.snapshots import RepairRows, SnapshotRows
from memforest_core.memtree import KeyTaken, build
from memforest_core.models.calls import Embedder
from memforest_core.settings import Settings
from memforest_core.store.engine import Engine
from memforest_core.store.repeating import repeated
from memforest_core.store.vectors import text_hash
from memforest_core.work.messages import Queue, WakeUps
from memforest_core.work.records import AuditEntry, Numbers, OperationTask

PAGE = 1_000
"""Rows in memory at once."""
BATCH = 1_000
"""Rows of one transaction."""
AT_ONCE = 500

_OF_WORK = (
    *(Check.SUMMARIES, Check.TASKS, Check.FORESTS, Check.DUE_TREES),
    *(Check.INDEX_ROWS, Check.UNINDEXED, Check.INDEX_POINTS, Check.ORPHAN_POINTS),
)
"""Checks of work that begins when the forest is shown: nothing is due or indexed before."""


class ImportTakenOver(RetryableError):
    """Another process has continued this import."""

    code = "import_taken_over"


class DoneMeanwhile(Exception):
    """Another process has finished the same import, whose result this is; this one's record is rolled back."""

    def __init__(self, result: Numbers) -> None:
        super().__init__()
        self.result = result


@dataclass(frozen=True, slots=True)
class BundleParts:
    """What exports and imports work with."""

    engine: Engine
    embedder: Embedder
    wakeups: WakeUps
    settings: Settings


@dataclass
class Import:
    """One import: ``inspect``, ``begin`` and ``run`` it, in this order."""

    bundles: BundleParts
    tenant: TenantId
    reader: BundleReader
    ids: IdTable
    owner: str
    subject: str
    """What makes two imports the same."""
    with_vectors: bool
    """Whether the bundle's vectors are taken."""
    to_embed: int = 0
    """Texts that have to be embedded."""
    _task: OperationTask = field(init=False)
    _forest: ForestId = field(init=False)
    _progress: dict[str, str | int] = field(init=False)

    def inspect(self, watch: Callable[[int], None]) -> None:
        """Read all rows once: every value checked, every digest compared. Raises InvalidInput."""
        head, settings = self.reader.head, self.bundles.settings
        checked_name(head.forest.owner, "the bundle's owner")
        if head.forest.display_name is not None:
            checked_name(head.forest.display_name, "the bundle's display name")
        check_zone(head.forest.time_zone)
        check_rules(settings, head.forest.rules)
        checks = RowChecks(settings.accept, head.dimension)
        names = NewIds(self.reader, head.forest.forest_id, self.ids)
        done = 0
        for table in TABLES:
            for page in self.reader.sealed(table, PAGE):
                checks.check(table, page)
                if table is FACT:
                    for row in page:
                        statement_of(FACT, row)
                if table is VECTOR:
                    hashes = [row[0] for row in page if isinstance(row[0], bytes)]
                    if self.ids.drop(hashes) != len(hashes):
                        raise damaged("vector: of a text that is not there")
                self.ids.want(text_hash(text) for text in texts_of(table, page))
                names.learn(table, page)
                done += len(page)
                watch(done)
        self.to_embed = self.ids.wanted() + (0 if self.with_vectors else head.rows[VECTOR.name])

    def planned(self) -> Numbers:
        """What it would do."""
        head = self.reader.head
        return {
            "phase": "planned",
            "rows": head.total,
            **head.rows,
            "same_ids": int(self._chosen() == head.forest.forest_id),
            "with_vectors": int(self.with_vectors),
            "with_summaries": int(head.with_summaries),
            "to_embed": self.to_embed,
        }

    def _chosen(self) -> ForestId:
        """The bundle's own forest, if nothing of it is taken; else a new one, in which everything gets a new id."""
        own = self.reader.head.forest.forest_id
        with self._opened() as rows:
            taken = rows.used("forest", [own]) or any(
                rows.used(table.stored, [UUID(str(row[0])) for row in page])
                for table in NAMED.values()
                for page in self.reader.rows(table, 0, PAGE)
            )
        return ForestId(uuid4()) if taken else own

    @repeated
    def begin(self, actor: str) -> None:
        """Make its record and its hidden forest, or take over what an interrupted run has left. Raises
        DoneMeanwhile."""
        head = self.reader.head
        forest = self._chosen()
        arguments: Numbers = {"rows": head.total, "with_vectors": int(self.with_vectors), "forest": str(forest)}
        with self._opened() as rows:
            held = rows.hold(OperationKind.IMPORT, self.subject, arguments, forest, actor)
            task = rows.take(held)
            if task is None or task.forest_id is None:
                raise ImportTakenOver("This import was cancelled or ended at this moment: import it again.")
            if task.arguments.get("with_vectors") != arguments["with_vectors"]:
                raise InvalidInput(
                    "This import was begun with the other choice of vectors: go on with that one.",
                    code="import_options_differ",
                )
            self._task, self._forest, self._progress = task, task.forest_id, {"phase": "rows", **task.progress}
            if "phase" not in task.progress:
                # Another process may have ended the same import since it was looked for; no other can begin now.
                if (done := self.finished(rows)) is not None:
                    raise DoneMeanwhile(done)
                rows.hide(self._forest, self.owner, head.forest)
                rows.store_progress(task.id, self._progress)
                rows.tasks.note(self._entry("requested", arguments))

    def already(self) -> Numbers | None:
        """What was done when this import was finished before. Raises InvalidInput for an owner with other memory."""
        with self._opened() as rows:
            # The run of an import that was interrupted removes what it wrote before it raises that.
            return None if rows.last_import(self.subject, "held") else self.finished(rows)

    def finished(self, rows: ImportRows) -> Numbers | None:
        """As ``already``, when no run was interrupted."""
        forest = rows.find_forest(self.owner)
        done = None if forest is None else rows.last_import(self.subject, "done", forest.id)
        if forest is not None and done is None:
            raise self._has_memory()
        return None if done is None else {"task": str(done.id), **done.progress, "already": 1}

    def run(self, watch: Callable[[int], None]) -> Numbers:
        """Run the phases that are left; the counts of what was imported. Raises InvalidInput if the owner has a memory
        by now."""
        with self._opened() as rows:
            if rows.find_forest(self.owner) is not None:
                raise self._has_memory()
        new = NewIds(self.reader, self._forest, self.ids)
        new.relearn(PAGE)
        self._progress["same_ids"] = int(not new.renamed)
        phases: Mapping[str, Callable[[], str]] = {
            "rows": lambda: self._rows(new, watch),
            "texts": self._texts,
            "settle": lambda: self._settle(new.renamed),
            "prove": lambda: self._prove(new.renamed),
        }
        while (phase := str(self._progress["phase"])) != "show":
            self._store({"phase": phases[phase](), "table": "", "after": 0})
        return self._show()

    def refuse(self, error: CallerError) -> NoReturn:
        """Delete what was written, record why, and raise the error."""
        with self._opened() as rows:
            if rows.end(self._task.id, self._progress, (error.code, error.message)):
                rows.clear(self._forest)
                rows.tasks.note(self._entry(REFUSED, {"error": error.code}))
        raise error

    def _unread(self) -> Iterator[tuple[BundleTable, Sequence[Row], int]]:
        """Pages that the progress does not have yet, each with its table and the place of its end."""
        reached, after = str(self._progress.get("table", "")), int(self._progress.get("after", 0))
        names = [table.name for table in TABLES]
        for table in TABLES[names.index(reached) if reached else 0 :]:
            place = after if table.name == reached else 0
            for page in self.reader.rows(table, place, BATCH):
                place += len(page)
                yield table, page, place

    def _rows(self, new: NewIds, watch: Callable[[int], None]) -> str:
        model, dimension = self.bundles.embedder.model, self.bundles.embedder.dimension
        preparing = PreparedRows(new, self.with_vectors, self.reader.head.with_summaries, dimension)
        for table, page, place in self._unread():
            done = int(self._progress.get("rows", 0)) + len(page)
            prepared = preparing.prepared(table, page)
            with self._opened() as rows:
                rows.lock_forest(self._forest)
                # Before rows are written: it shows whether the rows are still this process's to write.
                self._store_progress(rows, {"table": table.name, "after": place, "rows": done})
                rows.put(table, self._forest, model, prepared)
            watch(done)
        return "texts"

    def _texts(self) -> str:
        """Embed the texts that have no vector of this memory's model."""
        if self.to_embed:
            head, embedder = self.reader.head, self.bundles.embedder
            vectors = TextVectors(self.bundles.engine, embedder)
            for kind in TextKind:
                for _ in vectors.embed(self.tenant, kind, self._forest):
                    # Shows whether the import is still this process's.
                    self._store({})
            if (head.embedding_model, head.dimension) != (embedder.model, embedder.dimension):
                vectors.recenter(self.tenant, self._forest)
        return "settle"

    @repeated
    def _settle(self, renamed: bool) -> str:
        with self._opened() as rows:
            rows.lock_forest(self._forest)
            rows.settle(self._forest, renamed)
        return "prove"

    def _prove(self, renamed: bool) -> str:
        """Check the hidden forest with the queries of ``memforest verify``; what is stale is summarized again."""
        if renamed:
            self._reorder()
        with SnapshotRows.opened(self.bundles.engine, self.tenant, [self._forest]) as rows:
            for check in Check:
                for found in rows.violations(check) if check not in _OF_WORK else ():
                    raise damaged(f"its {check} are not sound: {found.what}")
            wrong = list(rows.stale_summaries(self.bundles.settings.refresh.budget_chars))
        for at in range(0, len(wrong), AT_ONCE):
            with RepairRows.opened(self.bundles.engine, self.tenant) as repairs:
                repairs.repair(Check.SUMMARIES, wrong[at : at + AT_ONCE])
        return "show"

    def _reorder(self) -> None:
        """Rebuild trees whose leaves have another order under their new ids."""
        trees: set[TreeId] = set()
        with SnapshotRows.opened(self.bundles.engine, self.tenant, [self._forest]) as rows:
            found = rows.violations(Check.TREE_NODES)
            while some := [each.id for each in islice(found, AT_ONCE)]:
                with self._opened() as writer:
                    trees.update(writer.trees_of(some))
        for tree in sorted(trees, key=str):
            with self._opened() as writer:
                whole = writer.leaves(tree)
                if whole is None:
                    continue
                head, leaves = whole
                try:
                    diff = build(
                        tree_id=tree, k=head.k, root_id=head.root_id, leaves=leaves, new_id=lambda: NodeId(uuid4())
                    )
                except KeyTaken:
                    continue
                writer.rebuild(tree, diff)

    @repeated
    def _show(self) -> Numbers:
        head = self.reader.head
        done: Numbers = {**self._progress, "phase": "done", **head.rows, "rows": head.total}
        done = {name: value for name, value in done.items() if name not in ("table", "after")}
        with self._opened() as rows:
            rows.lock_forest(self._forest)
            shown = rows.show(self._forest, self.owner)
            if shown:
                if not rows.end(self._task.id, done):
                    raise self._taken_over()
                rows.tasks.note(self._entry("done", done))
        if not shown:
            raise self._has_memory()
        for queue in (Queue.EXTRACT, Queue.REDUCE, Queue.MAINTAIN, Queue.REFRESH):
            self.bundles.wakeups.send(queue, self.tenant, str(self._forest))
        return {"task": str(self._task.id), **done}

    @repeated
    def _store(self, changed: Numbers) -> None:
        with self._opened() as rows:
            self._store_progress(rows, changed)

    def _store_progress(self, rows: ImportRows, changed: Numbers) -> None:
        """Store progress with what it is about. Raises ImportTakenOver, which takes that back."""
        progress = {**self._progress, **changed}
        if not rows.store_progress(self._task.id, progress):
            raise self._taken_over()
        self._progress = progress

    def _opened(self) -> AbstractContextManager[ImportRows]:
        return ImportRows.opened(self.bundles.engine, self.tenant)

    def _entry(self, outcome: str, detail: Numbers) -> AuditEntry:
        task = self._task
        return AuditEntry(task.actor, task.kind, outcome, self._forest, self.owner, task.id, detail)

    def _taken_over(self) -> ImportTakenOver:
        return ImportTakenOver("Another process has taken over this import, or it was cancelled.")

    def _has_memory(self) -> InvalidInput:
        return InvalidInput(
            f"Owner {self.owner!r:.80} has a memory already: import the bundle for a new owner, then unite the two with"
            " memforest merge.",
            code="owner_exists",
        )
