"""Imports a bundle: batch by batch into a hidden forest, which is checked as a whole and then made visible."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import NoReturn

from memforest_core.domain.ids import ForestId, TenantId, TreeId
from memforest_core.errors import CallerError, InvalidInput, RetryableError
from memforest_core.lifecycle.bundle.checking import WITH_TEXTS, damaged, routing_parts, texts_of
from memforest_core.lifecycle.bundle.inspecting import Seen, rename
from memforest_core.lifecycle.bundle.new_ids import NewIds, PreparedRows
from memforest_core.lifecycle.bundle.records import TABLES, BundleTable, Row
from memforest_core.lifecycle.bundle.rows.imported import REFUSED, ImportRows
from memforest_core.lifecycle.bundle.soundness import Soundness
from memforest_core.lifecycle.verify.rows.snapshots import VerifyStore
from memforest_core.models.calls import Embedder, OwnText
from memforest_core.models.statement_vectors import Parts, StatementEmbedder
from memforest_core.settings import Settings
from memforest_core.store.engine import Engine
from memforest_core.store.repeating import repeated
from memforest_core.work.messages import Queue, WakeUps
from memforest_core.work.records import AuditEntry, Numbers, OperationTask

BATCH = 1_000
"""Rows of one transaction."""
EMBEDDED = 64
"""Rows whose texts are embedded and stored together."""


class ImportTakenOver(RetryableError):
    """Another process has continued this import."""

    code = "import_taken_over"


@dataclass(frozen=True, slots=True)
class BundleParts:
    """What exports and imports work with."""

    engine: Engine
    verify: VerifyStore
    embedder: Embedder
    wakeups: WakeUps
    settings: Settings


class Import:
    """One running import."""

    def __init__(
        self,
        parts: BundleParts,
        tenant: TenantId,
        owner: str,
        task: OperationTask,
        forest: ForestId,
        seen: Seen,
    ) -> None:
        self._parts = parts
        self._statements = StatementEmbedder(parts.embedder)
        self._tenant = tenant
        self._owner = owner
        self._task = task
        self._seen = seen
        self._forest = forest
        self._progress: dict[str, str | int] = {"phase": "rows", **task.progress}

    def run(self, watch: Callable[[int], None]) -> Numbers:
        """Run the phases that are left; the counts of what was imported. Raises InvalidInput if the owner has a memory
        by now."""
        with self._opened() as rows:
            if rows.find_forest(self._owner) is not None:
                raise has_memory(self._owner)
        new = rename(self._seen, self._forest)
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
        with_summaries = self._seen.reader.head.with_summaries
        return PreparedRows(new, self._seen.with_vectors, with_summaries, self._parts.embedder.dimension)

    def refuse(self, error: CallerError) -> NoReturn:
        """Delete what was written, record why, and raise the error."""
        with self._opened() as rows:
            if rows.end(self._task.id, self._progress, (error.code, error.message)):
                rows.clear(self._forest)
                rows.tasks.note(self._entry(REFUSED, {"error": error.code}))
        raise error

    def _unread(self, tables: Sequence[BundleTable], size: int) -> Iterator[tuple[BundleTable, Sequence[Row], int]]:
        """Pages of these tables that the progress does not have yet, each with its table and the place of its end."""
        reached, after = str(self._progress.get("table", "")), int(self._progress.get("after", 0))
        names = [table.name for table in tables]
        for table in tables[names.index(reached) if reached else 0 :]:
            place = after if table.name == reached else 0
            for page in self._seen.reader.rows(table, place, size):
                place += len(page)
                yield table, page, place

    def _rows(self, preparing: PreparedRows, watch: Callable[[int], None]) -> str:
        for table, page, place in self._unread(TABLES, BATCH):
            done = int(self._progress.get("rows", 0)) + len(page)
            prepared = preparing.prepared(table, page)
            with self._opened() as rows:
                rows.lock_forest(self._forest)
                # Before rows are written: it shows whether the rows are still this process's to write.
                self._store_progress(rows, {"table": table.name, "after": place, "rows": done})
                rows.put(table, self._forest, self._parts.embedder.model, prepared)
            watch(done)
        return "texts"

    def _texts(self) -> str:
        """Embed the texts that have no vector of this memory's model."""
        if self._seen.to_embed == 0:
            return "settle"
        for table, page, place in self._unread(WITH_TEXTS, EMBEDDED):
            texts = list(dict.fromkeys(texts_of(table, page)))
            self._embed(texts, routing_parts(table, page), table.name, place)
        head = self._seen.reader.head
        same = (head.embedding_model, head.dimension) == (self._parts.embedder.model, self._parts.embedder.dimension)
        return "settle" if same else "scenes"

    def _embed(self, texts: list[str], parts: Parts, table: str, place: int) -> None:
        own = [OwnText(self._forest, text) for text in texts]
        model = self._parts.embedder.model
        with self._opened() as rows:
            known = rows.vectors.known_vectors(model, own)
        missing = [each for each in own if each not in known]
        embedded = self._statements.embed([each.text for each in missing], parts) if missing else None
        with self._opened() as rows:
            if embedded is not None:
                rows.vectors.put_vectors(model, dict(zip(missing, embedded.vectors, strict=True)))
                rows.record_calls([embedded.record])
            self._store_progress(rows, {"table": table, "after": place})

    def _scenes(self) -> str:
        """What routing compares with a scene is the sum of its facts' vectors, which are another model's now."""
        after: TreeId | None = None
        model = (self._parts.embedder.model, self._parts.embedder.dimension)
        while True:
            with self._opened() as rows:
                rows.lock_forest(self._forest)
                after = rows.recenter(after, model, BATCH, self._forest)
            if after is None:
                return "settle"

    @repeated
    def _settle(self, renamed: bool) -> str:
        with self._opened() as rows:
            rows.lock_forest(self._forest)
            rows.settle(self._forest, renamed)
        return "prove"

    def _prove(self, renamed: bool) -> str:
        soundness = Soundness(self._parts.engine, self._parts.verify, self._tenant, self._forest)
        if renamed:
            soundness.reorder()
        broken = soundness.broken()
        if broken is not None:
            raise damaged(broken)
        soundness.repair_summaries(self._parts.settings.refresh.budget_chars)
        return "show"

    @repeated
    def _show(self) -> Numbers:
        head = self._seen.reader.head
        done: Numbers = {**self._progress, "phase": "done", **head.rows, "rows": head.total}
        done = {name: value for name, value in done.items() if name not in ("table", "after")}
        with self._opened() as rows:
            rows.lock_forest(self._forest)
            shown = rows.show(self._forest, self._owner)
            if shown:
                if not rows.end(self._task.id, done):
                    raise ImportTakenOver("Another process has taken over this import, or it was cancelled.")
                rows.tasks.note(self._entry("done", done))
        if not shown:
            raise has_memory(self._owner)
        for queue in (Queue.EXTRACT, Queue.REDUCE, Queue.MAINTAIN, Queue.REFRESH):
            self._parts.wakeups.send(queue, self._tenant, str(self._forest))
        return {"task": str(self._task.id), **done}

    @repeated
    def _store(self, changed: Numbers) -> None:
        with self._opened() as rows:
            self._store_progress(rows, changed)

    def _store_progress(self, rows: ImportRows, changed: Numbers) -> None:
        """Store progress with what it is about. Raises ImportTakenOver, which takes that back."""
        progress = {**self._progress, **changed}
        if not rows.store_progress(self._task.id, progress):
            raise ImportTakenOver("Another process has taken over this import, or it was cancelled.")
        self._progress = progress

    def _opened(self) -> AbstractContextManager[ImportRows]:
        return ImportRows.opened(self._parts.engine, self._tenant)

    def _entry(self, outcome: str, detail: Numbers) -> AuditEntry:
        return AuditEntry(self._task.actor, self._task.kind, outcome, self._forest, self._owner, self._task.id, detail)


def has_memory(owner: str) -> InvalidInput:
    """The answer to an import for an owner whose memory would be replaced."""
    return InvalidInput(
        f"Owner {owner!r:.80} has a memory already: import the bundle for a new owner, then unite the two with"
        " memforest merge.",
        code="owner_exists",
    )
