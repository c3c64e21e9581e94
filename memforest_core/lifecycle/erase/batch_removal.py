"""Removing words or facts from a forest under its lock: persistent state first, then only the paths above it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from memforest_core.domain.ids import CellId, FactId, ForestId, SessionId, TreeId
from memforest_core.ingest.reduce.canonical import Known
from memforest_core.ingest.reduce.placing import Placing, remove_leaves
from memforest_core.ingest.reduce.records import WaitingForest, ruled
from memforest_core.ingest.reduce.service import UNSEEN_LIMIT
from memforest_core.lifecycle.erase.records import LEFT, ItemKey, RemainingTurns, Removed, TouchedFact, TurnKey
from memforest_core.lifecycle.erase.rows.deletion import ErasureRows
from memforest_core.lifecycle.erase.rows.targets import sessions_of
from memforest_core.settings import Settings

COUNTED = (
    *("turns", "cells", "candidates", "occurrences", "facts", "reworded", "leaves", "summaries", "nodes", "scopes"),
    *("sessions", "visits", "cached", "vectors", "points", "fenced"),
)
"""What a batch counts: deleted rows, facts that got another wording (``reworded``), tree nodes that were deleted or
marked (``nodes``), points that were deleted or will be rewritten (``points``), cells whose extraction restarts
(``fenced``)."""


class Removal:
    """Removes one batch from a forest; the caller has locked its row. Nothing here is slow."""

    def __init__(self, rows: ErasureRows, forest: ForestId, model: str, settings: Settings) -> None:
        """``model`` is the embedding model, by whose routing vectors scenes forget and take facts."""
        self._rows = rows
        self._forest = forest
        self._model = model
        self._settings = settings
        self._counts: Counter[str] = Counter(dict.fromkeys(COUNTED, 0))

    def words(self, turns: Sequence[TurnKey]) -> Counter[str]:
        """Blank turns and remove all that was made of them; what went, and under ``left.`` what refers to it still."""
        cells = self._rows.targets.lock_cells(turns)
        gone = [cell for cell, remaining in cells.items() if not remaining]
        return self._remove(self._rows.targets.items_of_turns(turns, gone), turns, cells)

    def facts(self, facts: Sequence[FactId]) -> Counter[str]:
        """Remove facts with all their occurrences and candidates; the turns stay."""
        items = self._rows.targets.items_of_facts(facts)
        self._rows.words.stop_retries(sorted({item.cell_id for item in items}, key=str))
        return self._remove(items, (), {})

    def session(self, session: SessionId, tree: TreeId) -> Counter[str]:
        """Remove a session without words, and its scope if that is empty still. Returns all that was counted so far."""
        self._counts["scopes"] += self._rows.words.drop_scopes([tree])
        self._counts["sessions"] += self._rows.words.drop_session(session)
        self._counts["cached"] += self._rows.words.drop_caches(self._forest, [session], [tree])
        return self._counts

    def _remove(
        self, items: Sequence[ItemKey], turns: Sequence[TurnKey], cells: Mapping[CellId, RemainingTurns]
    ) -> Counter[str]:
        """Remove candidates, turns and cells at once; facts that have no other source are removed with them."""
        targets, words, counts = self._rows.targets, self._rows.words, self._counts
        gone_cells = [cell for cell, remaining in cells.items() if not remaining]
        rewritten = {cell: remaining for cell, remaining in cells.items() if remaining}
        hashes = targets.hashes_of(list(cells), items, ())
        times = words.times_of(turns, items)
        counts["fenced"] += words.end_extractions(turns)
        lost, touched = words.detach(items)
        counts["occurrences"] += lost
        leaving = [fact for fact in touched if not fact.stated]
        reworded = [fact for fact in leaving if any(item.item >= 0 for item in fact.others)]
        # Facts that a better extraction has superseded are not placed anymore.
        superseded = [item for fact in leaving for item in fact.others if item.item < 0]
        hashes |= targets.hashes_of([], [item for fact in leaving for item in fact.others], [f.id for f in leaving])
        payloads = [*cells, *(fact.id for fact in leaving)]
        path, trees = targets.path_above(payloads)
        counts["points"] += words.lock_path(path, payloads)
        masked = words.drop_summaries(path)
        counts["summaries"] += len(masked)

        words.detach_facts([fact.id for fact in leaving])
        self._rows.reducing.set_sources([fact.id for fact in touched if fact.stated])
        leaves = self._rows.reducing.take_out({fact.id: fact.routing_hash for fact in leaving}, self._model)
        counts["candidates"] += words.drop_items([*items, *superseded])
        for tree, group in words.drop_cells(gone_cells).items():
            leaves.setdefault(tree, []).extend(group)
        counts["cells"] += len(gone_cells)
        nodes = remove_leaves(self._rows.reducing, leaves, self._settings)
        all_leaves = {leaf for group in leaves.values() for leaf in group}
        counts["leaves"] += sum(len(group) for group in leaves.values())
        replaced = self._reword(reworded)
        facts = [fact.id for fact in leaving if fact.id not in replaced]
        counts["facts"] += len(leaving) - len(reworded)
        counts["reworded"] += len(reworded)
        words.clear_superseded_by(self._forest, facts)

        if rewritten:
            words.rewrite_cells(self._forest, rewritten)
        if turns:
            words.repair_windows(sessions_of(turns))
            counts["turns"] += words.blank_turns(self._forest, turns)
        marked = self._rows.reducing.mark_dirty(path, trees)
        counts["nodes"] += len(marked) + len(set(nodes) - all_leaves)
        trees = [*trees, *words.drop_topics(turns)] if turns else trees
        counts["scopes"] += words.drop_scopes(trees)
        removed = Removed(
            turns=turns,
            cells=gone_cells,
            items=[*items, *superseded],
            facts=facts,
            # A fact that exists again under its id has its leaves again.
            nodes=[node for node in nodes if node not in all_leaves] if replaced else nodes,
            masked=marked,
            rewritten=list(rewritten),
            trees=trees,
            hashes=[*hashes, *masked],
            times=times,
        )
        return self._finish(removed, items)

    def _finish(self, removed: Removed, items: Sequence[ItemKey]) -> Counter[str]:
        """Visits, caches and points; then the search for references."""
        words, counts = self._rows.words, self._counts
        sessions = sessions_of(removed.turns) or self._rows.targets.sessions_of([item.cell_id for item in items])
        counts["visits"] += words.drop_visits([*removed.cells, *removed.facts, *removed.nodes])
        counts["cached"] += words.drop_caches(self._forest, sessions, removed.trees)
        counts["cached"] += words.drop_windows(removed.turns)
        counts["cached"] += words.drop_days(self._forest, removed.times)
        counts["vectors"] += self._rows.vectors.drop_unused(self._forest, removed.hashes)
        words.rename_trees(self._forest)
        found = self._rows.remaining.of_batch(self._forest, removed)
        found["candidate.turn_ordinals"] = len(self._rows.targets.items_of_turns(removed.turns))
        for column, count in found.items():
            counts[LEFT + column] += count
        return counts

    def _reword(self, facts: Sequence[TouchedFact]) -> frozenset[FactId]:
        """Have the reducer place facts once more, from the candidates left, never embedding; ids that exist again."""
        if not facts:
            return frozenset()
        reducing = self._rows.reducing
        freed = {item for fact in facts for item in fact.others if item.item >= 0}
        cells = tuple(sorted({item.cell_id for item in freed}, key=str))
        owner = self._rows.targets.owner_of(self._forest)
        loaded = reducing.queue.load(WaitingForest(self._forest, owner, cells, {}), self._model)
        chosen = [
            replace(cell, candidates=tuple(c for c in cell.candidates if ItemKey(cell.id, c.candidate.item) in freed))
            for cell in loaded.cells
        ]
        batch = replace(loaded, cells=tuple(chosen))
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
