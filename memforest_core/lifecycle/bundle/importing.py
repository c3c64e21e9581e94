"""Imports a bundle: checked whole, written batch by batch into a hidden forest, proved, and then made visible."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import islice
from typing import NoReturn
from uuid import UUID, uuid4

from memforest_core.domain.ids import ForestId, NodeId, TenantId, TreeId
from memforest_core.domain.turns import checked_name
from memforest_core.errors import CallerError, InvalidInput, RetryableError
from memforest_core.lifecycle.bundle.bundle_file import BundleReader
from memforest_core.lifecycle.bundle.checking import RowChecks, check_rules, check_zone, damaged, statement_of, texts_of
from memforest_core.lifecycle.bundle.new_ids import IdTable, NewIds, PreparedRows
from memforest_core.lifecycle.bundle.records import FACT, NAMED, TABLES, VECTOR, BundleTable, Digests, Row
from memforest_core.lifecycle.bundle.rows.imported import REFUSED, ImportRows
from memforest_core.lifecycle.rebuild.embedding import TextVectors
from memforest_core.lifecycle.rebuild.records import TextKind
from memforest_core.lifecycle.verify.records import Check
from memforest_core.lifecycle.verify.rows.snapshots import VerifyStore
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


@dataclass(frozen=True, slots=True)
class Seen:
    """A bundle that was checked."""

    reader: BundleReader
    ids: IdTable
    with_vectors: bool
    """Whether its vectors are taken."""
    to_embed: int
    """Texts that have to be embedded."""


def accepted_model(reader: BundleReader, embedder: Embedder, without_vectors: bool) -> bool:
    """Whether the bundle's vectors are taken. Raises InvalidInput when they are another model's and requested."""
    head = reader.head
    same = (head.embedding_model, head.dimension) == (embedder.model, embedder.dimension)
    if head.with_vectors and not same and not without_vectors:
        raise InvalidInput(
            f"This bundle's vectors are of {head.embedding_model} ({head.dimension} dimensions), this memory uses"
            f" {embedder.model} ({embedder.dimension}): import it without vectors and its texts are embedded.",
            code="other_embedding_model",
        )
    return head.with_vectors and not without_vectors


def inspect(
    reader: BundleReader,
    ids: IdTable,
    embedder: Embedder,
    settings: Settings,
    without_vectors: bool,
    watch: Callable[[int], None],
) -> Seen:
    """Read all rows once: every value checked, every digest compared. Raises InvalidInput."""
    head = reader.head
    with_vectors = accepted_model(reader, embedder, without_vectors)
    checked_name(head.forest.owner, "the bundle's owner")
    if head.forest.display_name is not None:
        checked_name(head.forest.display_name, "the bundle's display name")
    check_zone(head.forest.time_zone)
    check_rules(settings, head.forest.rules)
    checks = RowChecks(settings.accept, head.dimension)
    names = NewIds(reader, head.forest.forest_id, ids)
    digests, done = Digests(), 0
    for table in TABLES:
        found = 0
        for page in reader.rows(table, 0, PAGE):
            checks.check(table, page)
            digests.add(table, page)
            if table is FACT:
                for row in page:
                    statement_of(FACT, row)
            if table is VECTOR:
                hashes = [bytes(row[0]) for row in page if isinstance(row[0], bytes)]
                if ids.drop(hashes) != len(hashes):
                    raise damaged("vector: of a text that is not there")
            ids.want(text_hash(text) for text in texts_of(table, page))
            names.learn(table, page)
            found += len(page)
            done += len(page)
            watch(done)
        if found != head.rows[table.name] or digests.of(table) != head.digests[table.name]:
            raise damaged(f"{table.name}: its checksum is another")
    to_embed = ids.wanted() + (0 if with_vectors else head.rows[VECTOR.name])
    return Seen(reader, ids, with_vectors, to_embed)


def choose_forest(tenant: TenantId, seen: Seen, engine: Engine) -> ForestId:
    """The bundle's own forest, if nothing of it is taken; else a new one, in which everything gets a new id.

    Rows of other tenants may have the same ids: their keys and their points' ids are made of the tenant too.
    """
    own = seen.reader.head.forest.forest_id
    with ImportRows.opened(engine, tenant) as rows:
        if rows.used("forest", [own]):
            return ForestId(uuid4())
        for table in NAMED.values():
            for page in seen.reader.rows(table, 0, PAGE):
                if rows.used(table.stored, [UUID(str(row[0])) for row in page]):
                    return ForestId(uuid4())
    return own


def rename(seen: Seen, forest: ForestId) -> NewIds:
    """The ids that everything gets in ``forest``."""
    new = NewIds(seen.reader, forest, seen.ids)
    if new.renamed:
        seen.ids.clear()
        for table in NAMED.values():
            for page in seen.reader.rows(table, 0, PAGE):
                new.learn(table, page)
    return new


AT_ONCE = 500

_OF_WORK = (
    Check.SUMMARIES,
    Check.TASKS,
    Check.FORESTS,
    Check.DUE_TREES,
    Check.INDEX_ROWS,
    Check.UNINDEXED,
    Check.INDEX_POINTS,
    Check.ORPHAN_POINTS,
)
"""Checks of work that begins when the forest is shown: nothing is due or indexed before."""

CHECKS = tuple(check for check in Check if check not in _OF_WORK)


@dataclass(frozen=True, slots=True)
class Soundness:
    """Checks one hidden forest with the queries of ``memforest verify``."""

    engine: Engine
    verify: VerifyStore
    tenant: TenantId
    forest: ForestId

    def broken(self) -> str | None:
        """Which check found a broken promise first, and what it found."""
        with self.verify.snapshot(self.tenant, [self.forest]) as rows:
            for check in CHECKS:
                for found in rows.violations(check):
                    return f"its {check} are not sound: {found.what}"
        return None

    def reorder(self) -> None:
        """Rebuild trees whose leaves have another order under their new ids.

        Leaves of one time, cell ordinal and item are ordered by id alone. What else is wrong stays wrong.
        """
        trees: set[TreeId] = set()
        with self.verify.snapshot(self.tenant, [self.forest]) as rows:
            found = rows.violations(Check.TREE_NODES)
            while some := [each.id for each in islice(found, AT_ONCE)]:
                with ImportRows.opened(self.engine, self.tenant) as writer:
                    trees.update(writer.trees_of(some))
        for tree in sorted(trees, key=str):
            with ImportRows.opened(self.engine, self.tenant) as writer:
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

    def repair_summaries(self, budget_chars: int) -> None:
        """Mark every summary that does not follow from the nodes beneath it, so that refresh writes it again."""
        with self.verify.snapshot(self.tenant, [self.forest]) as rows:
            wrong = list(rows.stale_summaries(budget_chars))
        for at in range(0, len(wrong), AT_ONCE):
            with self.verify.repairing(self.tenant) as repairs:
                repairs.repair(Check.SUMMARIES, wrong[at : at + AT_ONCE])


BATCH = 1_000
"""Rows of one transaction."""


class ImportTakenOver(RetryableError):
    """Another process has continued this import."""

    code = "import_taken_over"


@dataclass(frozen=True, slots=True)
class BundleParts:
    """What exports and imports work with."""

    engine: Engine
    embedder: Embedder
    wakeups: WakeUps
    settings: Settings


@dataclass
class Import:
    """One running import."""

    parts: BundleParts
    tenant: TenantId
    owner: str
    task: OperationTask
    forest: ForestId
    seen: Seen
    _progress: dict[str, str | int] = field(init=False)

    def __post_init__(self) -> None:
        self._progress = {"phase": "rows", **self.task.progress}

    def run(self, watch: Callable[[int], None]) -> Numbers:
        """Run the phases that are left; the counts of what was imported. Raises InvalidInput if the owner has a memory
        by now."""
        with self._opened() as rows:
            if rows.find_forest(self.owner) is not None:
                raise has_memory(self.owner)
        new = rename(self.seen, self.forest)
        self._progress["same_ids"] = int(not new.renamed)
        phases: Mapping[str, Callable[[], str]] = {
            "rows": lambda: self._rows(self._preparing(new), watch),
            "texts": self._texts,
            "scenes": self._scenes,
            "settle": lambda: self._settle(new.renamed),
            "prove": lambda: self._prove(new.renamed),
        }
        while (phase := str(self._progress["phase"])) != "show":
            following = phases[phase]()
            self._store({"phase": following, "table": "", "after": 0})
        return self._show()

    def _preparing(self, new: NewIds) -> PreparedRows:
        with_summaries = self.seen.reader.head.with_summaries
        return PreparedRows(new, self.seen.with_vectors, with_summaries, self.parts.embedder.dimension)

    def refuse(self, error: CallerError) -> NoReturn:
        """Delete what was written, record why, and raise the error."""
        with self._opened() as rows:
            if rows.end(self.task.id, self._progress, (error.code, error.message)):
                rows.clear(self.forest)
                rows.tasks.note(self._entry(REFUSED, {"error": error.code}))
        raise error

    def _unread(self) -> Iterator[tuple[BundleTable, Sequence[Row], int]]:
        """Pages that the progress does not have yet, each with its table and the place of its end."""
        reached, after = str(self._progress.get("table", "")), int(self._progress.get("after", 0))
        names = [table.name for table in TABLES]
        for table in TABLES[names.index(reached) if reached else 0 :]:
            place = after if table.name == reached else 0
            for page in self.seen.reader.rows(table, place, BATCH):
                place += len(page)
                yield table, page, place

    def _rows(self, preparing: PreparedRows, watch: Callable[[int], None]) -> str:
        for table, page, place in self._unread():
            done = int(self._progress.get("rows", 0)) + len(page)
            prepared = preparing.prepared(table, page)
            with self._opened() as rows:
                rows.lock_forest(self.forest)
                # Before rows are written: it shows whether the rows are still this process's to write.
                self._store_progress(rows, {"table": table.name, "after": place, "rows": done})
                rows.put(table, self.forest, self.parts.embedder.model, prepared)
            watch(done)
        return "texts"

    def _texts(self) -> str:
        """Embed the texts that have no vector of this memory's model."""
        if self.seen.to_embed == 0:
            return "settle"
        vectors = TextVectors(self.parts.engine, self.parts.embedder)
        for kind in TextKind:
            for _ in vectors.embed(self.tenant, kind, self.forest):
                # Shows whether the import is still this process's.
                self._store({})
        head = self.seen.reader.head
        same = (head.embedding_model, head.dimension) == (self.parts.embedder.model, self.parts.embedder.dimension)
        return "settle" if same else "scenes"

    def _scenes(self) -> str:
        """What routing compares with a scene is the sum of its facts' vectors, which are another model's now."""
        TextVectors(self.parts.engine, self.parts.embedder).recenter(self.tenant, self.forest)
        return "settle"

    @repeated
    def _settle(self, renamed: bool) -> str:
        with self._opened() as rows:
            rows.lock_forest(self.forest)
            rows.settle(self.forest, renamed)
        return "prove"

    def _prove(self, renamed: bool) -> str:
        soundness = Soundness(self.parts.engine, VerifyStore(self.parts.engine), self.tenant, self.forest)
        if renamed:
            soundness.reorder()
        broken = soundness.broken()
        if broken is not None:
            raise damaged(broken)
        soundness.repair_summaries(self.parts.settings.refresh.budget_chars)
        return "show"

    @repeated
    def _show(self) -> Numbers:
        head = self.seen.reader.head
        done: Numbers = {**self._progress, "phase": "done", **head.rows, "rows": head.total}
        done = {name: value for name, value in done.items() if name not in ("table", "after")}
        with self._opened() as rows:
            rows.lock_forest(self.forest)
            shown = rows.show(self.forest, self.owner)
            if shown:
                if not rows.end(self.task.id, done):
                    raise ImportTakenOver("Another process has taken over this import, or it was cancelled.")
                rows.tasks.note(self._entry("done", done))
        if not shown:
            raise has_memory(self.owner)
        for queue in (Queue.EXTRACT, Queue.REDUCE, Queue.MAINTAIN, Queue.REFRESH):
            self.parts.wakeups.send(queue, self.tenant, str(self.forest))
        return {"task": str(self.task.id), **done}

    @repeated
    def _store(self, changed: Numbers) -> None:
        with self._opened() as rows:
            self._store_progress(rows, changed)

    def _store_progress(self, rows: ImportRows, changed: Numbers) -> None:
        """Store progress with what it is about. Raises ImportTakenOver, which takes that back."""
        progress = {**self._progress, **changed}
        if not rows.store_progress(self.task.id, progress):
            raise ImportTakenOver("Another process has taken over this import, or it was cancelled.")
        self._progress = progress

    def _opened(self) -> AbstractContextManager[ImportRows]:
        return ImportRows.opened(self.parts.engine, self.tenant)

    def _entry(self, outcome: str, detail: Numbers) -> AuditEntry:
        return AuditEntry(self.task.actor, self.task.kind, outcome, self.forest, self.owner, self.task.id, detail)


def has_memory(owner: str) -> InvalidInput:
    """The answer to an import for an owner whose memory would be replaced."""
    return InvalidInput(
        f"Owner {owner!r:.80} has a memory already: import the bundle for a new owner, then unite the two with"
        " memforest merge.",
        code="owner_exists",
    )
