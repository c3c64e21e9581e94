"""Taking words or facts out of a forest under its lock: persistent state first, then only the paths above it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from memforest_core.domain.ids import CellId, FactId, ForestId, NodeId, SessionId, TreeId
from memforest_core.ingest.reduce.canonical import Known
from memforest_core.ingest.reduce.placing import Placing
from memforest_core.ingest.reduce.records import WaitingForest
from memforest_core.ingest.reduce.removing import remove_leaves
from memforest_core.ingest.reduce.rules import ruled
from memforest_core.ingest.reduce.service import UNSEEN_LIMIT
from memforest_core.lifecycle.erase.records import LEFT, HeldCell, ItemKey, Removed, TouchedFact, TurnKey
from memforest_core.lifecycle.erase.rows.erasing import ErasureRows
from memforest_core.settings import Settings

COUNTED = (
    "turns",
    "cells",
    "candidates",
    "occurrences",
    "facts",
    "reworded",
    "leaves",
    "summaries",
    "nodes",
    "scopes",
    "sessions",
    "visits",
    "cached",
    "vectors",
    "points",
    "fenced",
)
"""What a batch counts: deleted rows, facts that got another wording (``reworded``), tree nodes that were deleted or
marked (``nodes``), points that were deleted or are written again (``points``), cells whose extraction restarts
(``fenced``)."""


@dataclass(frozen=True, slots=True)
class _Batch:
    """What is removed at once; facts that have no other source are removed with it."""

    turns: Sequence[TurnKey] = ()
    cells: Sequence[HeldCell] = ()
    items: Sequence[ItemKey] = ()
    whole: bool = False
    """Turns go with their rows, not only with their words."""

    @property
    def gone(self) -> list[CellId]:
        return [cell.id for cell in self.cells if cell.gone]

    @property
    def rewritten(self) -> list[HeldCell]:
        return [cell for cell in self.cells if not cell.gone]

    @property
    def sessions(self) -> list[SessionId]:
        return sorted({turn.session_id for turn in self.turns}, key=str)


class Removal:
    """Removes one batch from a forest; the caller holds its row. Nothing here is slow."""

    def __init__(self, rows: ErasureRows, forest: ForestId, model: str, settings: Settings) -> None:
        """``model`` is the embedding model, by whose routing vectors scenes forget and take facts."""
        self._rows = rows
        self._forest = forest
        self._model = model
        self._settings = settings
        self._counts: Counter[str] = Counter(dict.fromkeys(COUNTED, 0))

    def words(self, turns: Sequence[TurnKey], *, whole: bool = False) -> Counter[str]:
        """Remove turns with all that was made of them; ``whole`` says that they are the tail of their session and
        their rows go too. Returns what was removed, and under ``left.`` what refers to it still."""
        cells = self._rows.targets.lock_cells(turns)
        gone = [cell.id for cell in cells if cell.gone]
        return self._remove(_Batch(turns, cells, self._rows.targets.items_of_turns(turns, gone), whole))

    def facts(self, facts: Sequence[FactId]) -> Counter[str]:
        """Remove facts with all their occurrences and candidates; what was said stays."""
        items = self._rows.targets.items_of_facts(facts)
        self._rows.words.stop_retries(sorted({item.cell_id for item in items}, key=str))
        return self._remove(_Batch(items=items))

    def session(self, session: SessionId, tree: TreeId) -> Counter[str]:
        """Remove a session without turns, and its scope if that is empty still. Returns all that was counted so far."""
        self._counts["scopes"] += self._rows.derived.drop_scopes([tree])
        self._rows.derived.drop_running(session)
        self._counts["sessions"] += self._rows.words.drop_session(session)
        self._counts["cached"] += self._rows.derived.drop_caches(self._forest, [session], [tree])
        return self._counts

    def _remove(self, batch: _Batch) -> Counter[str]:
        targets, words, derived, counts = self._rows.targets, self._rows.words, self._rows.derived, self._counts
        hashes = targets.hashes_of([cell.id for cell in batch.cells], batch.items, ())
        moments = derived.moments(batch.turns, batch.items)
        counts["fenced"] += words.end_extractions(batch.turns)
        lost, touched = words.detach(batch.items)
        counts["occurrences"] += lost
        leaving = [fact for fact in touched if not fact.stated]
        reworded = [fact for fact in leaving if any(item.item >= 0 for item in fact.others)]
        # Facts that a better extraction has superseded are not placed again.
        superseded = [item for fact in leaving for item in fact.others if item.item < 0]
        hashes |= targets.hashes_of([], [item for fact in leaving for item in fact.others], [f.id for f in leaving])
        payloads = [*(cell.id for cell in batch.cells), *(fact.id for fact in leaving)]
        path = targets.path_above(payloads)
        counts["points"] += derived.lock_path(path.nodes, payloads)
        masked = derived.drop_summaries(path.nodes)
        counts["summaries"] += len(masked)

        words.detach_facts([fact.id for fact in leaving])
        self._rows.reducing.set_sources([fact.id for fact in touched if fact.stated])
        leaves = self._rows.reducing.take_out({fact.id: fact.routing_hash for fact in leaving}, self._model)
        counts["candidates"] += words.drop_items([*batch.items, *superseded])
        for tree, group in words.drop_cells(batch.gone).items():
            leaves.setdefault(tree, []).extend(group)
        counts["cells"] += len(batch.gone)
        nodes = remove_leaves(self._rows.reducing, leaves, self._settings)
        counts["leaves"] += sum(len(group) for group in leaves.values())
        placed_again = self._reword(reworded)
        gone = [fact.id for fact in leaving if fact.id not in placed_again]
        counts["facts"] += len(leaving) - len(reworded)
        counts["reworded"] += len(reworded)
        words.clear_superseded_by(self._forest, gone)

        self._remove_words(batch)
        marked = self._rows.reducing.mark_dirty(path.nodes, path.trees)
        counts["nodes"] += len(marked) + len(set(nodes) - {leaf for group in leaves.values() for leaf in group})
        counts["scopes"] += derived.drop_scopes(path.trees)
        removed = Removed(
            turns=tuple(batch.turns),
            cells=tuple(batch.gone),
            items=(*batch.items, *superseded),
            facts=tuple(gone),
            nodes=_without(nodes, placed_again, leaves),
            masked=tuple(marked),
            rewritten=tuple(cell.id for cell in batch.rewritten),
            trees=path.trees,
            hashes=(*hashes, *masked),
            moments=moments,
        )
        return self._finish(removed, batch)

    def _remove_words(self, batch: _Batch) -> None:
        """The turns themselves, and the cells that keep some of theirs."""
        words = self._rows.words
        if batch.rewritten:
            words.rewrite_cells(self._forest, batch.rewritten)
        if not batch.turns:
            return
        words.repair_windows(batch.sessions)
        remove = words.drop_turns if batch.whole else words.blank_turns
        self._counts["turns"] += remove(self._forest, batch.turns)

    def _finish(self, removed: Removed, batch: _Batch) -> Counter[str]:
        """Visits, caches and points; then the search for references."""
        derived, counts = self._rows.derived, self._counts
        sessions = batch.sessions or self._rows.targets.sessions_of([item.cell_id for item in batch.items])
        counts["visits"] += derived.drop_visits([*removed.cells, *removed.facts, *removed.nodes])
        counts["cached"] += derived.drop_caches(self._forest, sessions, removed.trees)
        counts["cached"] += derived.drop_windows(removed.turns)
        counts["cached"] += derived.drop_days(self._forest, removed.moments)
        counts["vectors"] += self._rows.vectors.drop_unused(self._forest, removed.hashes)
        self._rows.words.rename_trees(self._forest)
        found = self._rows.remaining.of_batch(self._forest, removed)
        found["candidate.turn_ordinals"] = len(self._rows.targets.items_of_turns(removed.turns))
        for column, count in found.items():
            counts[LEFT + column] += count
        return counts

    def _reword(self, facts: Sequence[TouchedFact]) -> frozenset[FactId]:
        """Place facts again whose wording was removed, from the candidates that are left; which ids exist again.

        The reducer's own placing does it, with nothing but these candidates: whatever else their cells say stays as
        it is.
        """
        if not facts:
            return frozenset()
        reducing = self._rows.reducing
        freed = {item for fact in facts for item in fact.others if item.item >= 0}
        cells = tuple(sorted({item.cell_id for item in freed}, key=str))
        owner = self._rows.targets.owner_of(self._forest)
        loaded = reducing.queue.load(WaitingForest(self._forest, owner, cells, {}), self._model)
        batch = replace(
            loaded,
            cells=tuple(
                replace(
                    cell,
                    candidates=tuple(
                        each for each in cell.candidates if ItemKey(cell.id, each.candidate.item) in freed
                    ),
                )
                for cell in loaded.cells
            ),
        )
        if any(item.vector is None or item.routing_vector is None for cell in batch.cells for item in cell.candidates):
            # Nothing is embedded under the lock: the reducer embeds these texts later, and makes the facts.
            reducing.queue.hand_back(cells)
            return frozenset()
        settings = ruled(self._settings, batch.rules, held=batch.held)
        compared = {
            fact.id: Known(fact.id, fact.statement, fact.vector)
            for fact in reducing.canon.unseen_facts(self._forest, UNSEEN_LIMIT, self._model)
        }
        Placing(reducing, batch, compared, settings).run()
        self._rows.words.carry_over(self._forest, facts)
        return reducing.canon.stored_facts([fact.id for fact in facts])


def _without(
    nodes: Sequence[NodeId], placed_again: frozenset[FactId], leaves: dict[TreeId, list[NodeId]]
) -> tuple[NodeId, ...]:
    """The nodes that went for good: a fact that exists again under its id has its leaves again."""
    if not placed_again:
        return tuple(nodes)
    back = {leaf for group in leaves.values() for leaf in group}
    return tuple(node for node in nodes if node not in back)
