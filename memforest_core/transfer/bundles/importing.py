"""Reading a forest from a bundle: batch by batch into a hidden forest, checked as a whole, and shown by one switch."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import numpy as np

from memforest_core.domain.ids import ForestId, TenantId, TreeId
from memforest_core.domain.turns import checked_name
from memforest_core.errors import CallerError, InvalidInput, RetryableError
from memforest_core.index.vector_index import VectorIndex
from memforest_core.messages import Queue
from memforest_core.models.calls import Embedder, OwnText, Vectors
from memforest_core.settings import Settings
from memforest_core.store.repeating import repeated
from memforest_core.transfer.bundles.checking import ReadStatement, damaged
from memforest_core.transfer.bundles.export import Watch, unwatched
from memforest_core.transfer.bundles.files import BundleFiles
from memforest_core.transfer.bundles.filling import Filling
from memforest_core.transfer.bundles.inspecting import Seen, accepted_model, choose_forest, inspect, rename
from memforest_core.transfer.bundles.proving import Proof
from memforest_core.transfer.bundles.reader import BundleReader
from memforest_core.transfer.bundles.records import TABLES
from memforest_core.transfer.bundles.rows.exporting import BundleStore
from memforest_core.transfer.bundles.rows.importing import ImportRows
from memforest_core.transfer.bundles.texts import WITH_TEXTS
from memforest_core.verify.rows.snapshots import VerifyStore
from memforest_core.work.records import AuditEntry, MaintenanceKind, MaintenanceTask, Numbers
from memforest_core.work.wakeups import WakeUps

BATCH = 1_000
"""Rows of one transaction."""
EMBEDDED = 64
"""Rows whose texts are embedded and kept together."""


class ImportTakenOver(RetryableError):
    """Another process has begun to go on with this import."""

    code = "import_taken_over"


@dataclass(frozen=True, slots=True)
class ImportParts:
    """What an import works with."""

    store: BundleStore
    files: BundleFiles
    verify: VerifyStore
    index: VectorIndex
    embedder: Embedder
    wakeups: WakeUps
    settings: Settings
    read_statement: ReadStatement


class ImportService:
    """Imports bundles, in the process that has the file. Thread-safe."""

    def __init__(self, parts: ImportParts) -> None:
        self._parts = parts

    def run(
        self,
        tenant: TenantId,
        path: Path,
        owner: str | None = None,
        *,
        actor: str,
        without_vectors: bool = False,
        dry_run: bool = False,
        watch: Watch = unwatched,
    ) -> Numbers:
        """See ``Bundles.import_``."""
        actor = checked_name(actor, "actor")
        with self._parts.files.reading(path) as reader, self._parts.files.ids() as ids:
            owner = checked_name(owner if owner is not None else reader.head.forest.owner, "owner")
            accepted_model(reader, self._parts.embedder, without_vectors)
            subject = _subject(reader, owner)
            already = self._already(tenant, owner, subject)
            if already is not None:
                return already
            total = 2 * reader.head.total
            seen = inspect(
                reader,
                ids,
                self._parts.embedder,
                self._parts.settings,
                self._parts.read_statement,
                without_vectors,
                lambda done: watch(done, total),
            )
            if dry_run:
                return self._planned(tenant, seen)
            one = self._begin(tenant, owner, subject, actor, seen)
            return self._run(one, lambda done: watch(reader.head.total + done, total))

    def _already(self, tenant: TenantId, owner: str, subject: str) -> Numbers | None:
        """What was done when this import was finished before. Raises InvalidInput for an owner with other memory."""
        with self._parts.store.importing(tenant) as rows:
            forest = rows.forest(owner)
            if forest is None:
                return None
            finished = rows.finished_import(subject)
        if finished is not None and finished.forest_id == forest:
            return {"task": str(finished.id), **finished.progress, "already": 1}
        raise _has_memory(owner)

    def _planned(self, tenant: TenantId, seen: Seen) -> Numbers:
        head = seen.reader.head
        kept = choose_forest(tenant, seen, self._parts.store) == head.forest.forest_id
        return {
            "phase": "planned",
            "rows": head.total,
            **head.rows,
            "ids_kept": int(kept),
            "with_vectors": int(seen.with_vectors),
            "with_summaries": int(head.with_summaries),
            "to_embed": seen.to_embed,
        }

    @repeated
    def _begin(self, tenant: TenantId, owner: str, subject: str, actor: str, seen: Seen) -> Import:
        head = seen.reader.head
        forest = choose_forest(tenant, seen, self._parts.store)
        asked: Numbers = {"rows": head.total, "with_vectors": int(seen.with_vectors), "forest": str(forest)}
        with self._parts.store.importing(tenant) as rows:
            held = rows.hold(MaintenanceKind.IMPORT, subject, asked, forest, actor)
            task = rows.take(held)
            if task is None or task.forest_id is None:
                raise ImportTakenOver("This import was cancelled or ended at this moment: look again.")
            if task.arguments.get("with_vectors") != asked["with_vectors"]:
                raise InvalidInput(
                    "This import was begun with the other choice of vectors: go on with that one.",
                    code="import_options_differ",
                )
            if "phase" not in task.progress:
                rows.hide(task.forest_id, owner, head.forest)
                rows.keep(task.id, {**task.progress, "phase": "rows"})
                rows.note(AuditEntry(actor, MaintenanceKind.IMPORT, "asked", task.forest_id, owner, held, asked))
        return Import(self._parts, tenant, owner, task, task.forest_id, seen)

    def _run(self, one: Import, watch: Callable[[int], None]) -> Numbers:
        try:
            return one.run(watch)
        except CallerError as error:
            one.refuse(error)


class Import:
    """One import under way: a run of its record."""

    def __init__(
        self,
        parts: ImportParts,
        tenant: TenantId,
        owner: str,
        task: MaintenanceTask,
        forest: ForestId,
        seen: Seen,
    ) -> None:
        self._parts = parts
        self._tenant = tenant
        self._owner = owner
        self._task = task
        self._seen = seen
        self._forest = forest
        self._progress: dict[str, str | int] = {"phase": "rows", **task.progress}

    def run(self, watch: Callable[[int], None]) -> Numbers:
        """Go on to the end."""
        naming = rename(self._seen, self._forest)
        self._progress["ids_kept"] = int(not naming.renamed)
        phases: Mapping[str, Callable[[], str]] = {
            "rows": lambda: self._rows(Filling(self._seen, naming, self._parts.embedder.dimension), watch),
            "texts": self._texts,
            "scenes": self._scenes,
            "settle": lambda: self._settle(naming.renamed),
            "prove": lambda: self._prove(naming.renamed),
        }
        while (phase := str(self._progress["phase"])) != "show":
            following = phases[phase]()
            self._keep({"phase": following, "table": "", "after": 0})
        return self._show()

    def refuse(self, error: CallerError) -> NoReturn:
        """Take back what was written, and say why."""
        with self._parts.store.importing(self._tenant) as rows:
            if rows.end(self._task.id, self._progress, (error.code, error.message)):
                rows.clear(self._forest)
                rows.note(self._entry("dead", {"error": error.code}))
        raise error

    def _rows(self, filling: Filling, watch: Callable[[int], None]) -> str:
        reached, after = str(self._progress.get("table", "")), int(self._progress.get("after", 0))
        names = [table.name for table in TABLES]
        model = self._parts.embedder.model
        for table in TABLES[names.index(reached) if reached else 0 :]:
            for page in self._seen.reader.rows(table, after if table.name == reached else 0, BATCH):
                start = after if table.name == reached else 0
                reached, after = table.name, start + len(page)
                done = int(self._progress.get("rows", 0)) + len(page)
                filled = filling.filled(table, page)
                with self._parts.store.importing(self._tenant) as rows:
                    rows.lock(self._forest)
                    # Before rows are written: it tells whether they are still this process's to write.
                    self._kept(rows, {"table": table.name, "after": after, "rows": done})
                    rows.put(table, self._forest, model, filled)
                watch(done)
        return "texts"

    def _texts(self) -> str:
        """Embed the texts that have no vector of this memory's model."""
        if self._seen.to_embed == 0:
            return "settle"
        reached, after = str(self._progress.get("table", "")), int(self._progress.get("after", 0))
        names = [table.name for table in WITH_TEXTS]
        for table in WITH_TEXTS[names.index(reached) if reached else 0 :]:
            place = after if table.name == reached else 0
            for page in self._seen.reader.rows(table, place, EMBEDDED):
                place += len(page)
                self._embed(list(dict.fromkeys(self._seen.texts.of(table, page))), table.name, place)
        head = self._seen.reader.head
        same = (head.embedding_model, head.dimension) == (self._parts.embedder.model, self._parts.embedder.dimension)
        return "settle" if same else "scenes"

    def _embed(self, texts: list[str], table: str, place: int) -> None:
        own = [OwnText(self._forest, text) for text in texts]
        model = self._parts.embedder.model
        with self._parts.store.importing(self._tenant) as rows:
            known = rows.known_vectors(model, own)
        missing = [each for each in own if each not in known]
        embedded = self._parts.embedder.embed([each.text for each in missing]) if missing else None
        with self._parts.store.importing(self._tenant) as rows:
            if embedded is not None:
                rows.put_vectors(model, dict(zip(missing, embedded.vectors, strict=True)))
                rows.record_calls([embedded.record])
            self._kept(rows, {"table": table, "after": place})

    def _scenes(self) -> str:
        """What routing compares with a scene is the sum of its facts' vectors, which are another model's now."""
        after: TreeId | None = None
        model, dimension = self._parts.embedder.model, self._parts.embedder.dimension
        while True:
            with self._parts.store.importing(self._tenant) as rows:
                rows.lock(self._forest)
                scenes = rows.scenes(self._forest, after, BATCH)
                for scene in scenes:
                    total: Vectors = np.zeros(dimension, np.float32)
                    for vector in rows.routing_vectors(scene, model):
                        total = total + vector
                    rows.set_centroid(scene, total)
            if not scenes:
                return "settle"
            after = scenes[-1]

    @repeated
    def _settle(self, renamed: bool) -> str:
        with self._parts.store.importing(self._tenant) as rows:
            rows.lock(self._forest)
            rows.settle(self._forest, renamed)
        return "prove"

    def _prove(self, renamed: bool) -> str:
        proof = Proof(self._parts.store, self._parts.verify, self._tenant, self._forest)
        if renamed:
            proof.reorder()
        broken = proof.broken()
        if broken is not None:
            raise damaged(f"its {broken.check} are not sound: {broken.what}")
        proof.mend_summaries(self._parts.settings.refresh.budget_chars)
        return "show"

    @repeated
    def _show(self) -> Numbers:
        head = self._seen.reader.head
        done: Numbers = {**self._progress, "phase": "done", **head.rows, "rows": head.total}
        done = {name: value for name, value in done.items() if name not in ("table", "after")}
        with self._parts.store.importing(self._tenant) as rows:
            rows.lock(self._forest)
            shown = rows.show(self._forest, self._owner)
            if shown:
                if not rows.end(self._task.id, done):
                    raise ImportTakenOver("Another process has taken over this import, or it was cancelled.")
                rows.note(self._entry("done", done))
        if not shown:
            raise _has_memory(self._owner)
        for queue in (Queue.EXTRACT, Queue.REDUCE, Queue.MAINTAIN, Queue.REFRESH):
            self._parts.wakeups.send(queue, self._tenant, str(self._forest))
        return {"task": str(self._task.id), **done}

    @repeated
    def _keep(self, changed: Numbers) -> None:
        with self._parts.store.importing(self._tenant) as rows:
            self._kept(rows, changed)

    def _kept(self, rows: ImportRows, changed: Numbers) -> None:
        """Store progress with what it is about. Raises ImportTakenOver, which takes that back."""
        progress = {**self._progress, **changed}
        if not rows.keep(self._task.id, progress):
            raise ImportTakenOver("Another process has taken over this import, or it was cancelled.")
        self._progress = progress

    def _entry(self, outcome: str, detail: Numbers) -> AuditEntry:
        return AuditEntry(self._task.actor, self._task.kind, outcome, self._forest, self._owner, self._task.id, detail)


def _subject(reader: BundleReader, owner: str) -> str:
    """What makes two imports the same: the bundle and its new owner."""
    return hashlib.sha256(f"{reader.digest}\x1f{owner}".encode()).hexdigest()


def _has_memory(owner: str) -> InvalidInput:
    return InvalidInput(
        f"Owner {owner!r:.80} has a memory already: import the bundle for a new owner, then unite the two with"
        " memforest merge.",
        code="owner_exists",
    )
