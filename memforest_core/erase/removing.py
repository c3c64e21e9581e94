"""Taking words or facts out of a forest under its lock: persistent state first, then only the paths above it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from memforest_core.domain.ids import CellId, FactId, ForestId, NodeId, SessionId, TreeId
from memforest_core.erase.records import HeldCell, ItemKey, Removed, TouchedFact, TurnKey
from memforest_core.erase.rows.erasing import ErasureRows
from memforest_core.reduce.canonical import Known
from memforest_core.reduce.placing import Placing
from memforest_core.reduce.records import WaitingForest
from memforest_core.reduce.removing import remove_leaves
from memforest_core.reduce.rules import ruled
from memforest_core.reduce.service import UNSEEN_LIMIT
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
"""What a batch counts: rows that went, facts that were worded anew (``reworded``), tree nodes that went or were marked
(``nodes``), points that went or are written again (``points``), cells whose extraction begins anew (``fenced``)."""

LEFT = "left."
"""Before the name of a column in which references were left."""


@dataclass(frozen=True, slots=True)
class _Doomed:
    """What a batch takes out, besides the facts that follow."""

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
    """One batch that leaves a forest; the caller holds its row. Nothing here is slow."""

    def __init__(self, rows: ErasureRows, forest: ForestId, model: str, settings: Settings) -> None:
        """``model`` is the embedding model, by whose routing vectors scenes forget and take facts."""
        self._rows = rows
        self._forest = forest
        self._model = model
        self._settings = settings
        self._counts: Counter[str] = Counter(dict.fromkeys(COUNTED, 0))

    def words(self, turns: Sequence[TurnKey], *, whole: bool = False) -> Counter[str]:
        """Take out turns with all that was made of them; ``whole`` says that they are the tail of their session and
        their rows go too. Returns what went, and under ``left.`` what refers to it still."""
        cells = self._rows.hold_cells(turns)
        gone = [cell.id for cell in cells if cell.gone]
        return self._run(_Doomed(turns, cells, self._rows.doomed_items(turns, gone), whole))

    def facts(self, facts: Sequence[FactId]) -> Counter[str]:
        """Take out facts with all their occurrences and candidates; what was said stays."""
        items = self._rows.items_of(facts)
        self._rows.quiet(sorted({item.cell_id for item in items}, key=str))
        return self._run(_Doomed(items=items))

    def session(self, session: SessionId, tree: TreeId) -> Counter[str]:
        """Take out a session without turns, and its scope if that is empty still. Returns all that this has counted."""
        self._counts["scopes"] += self._rows.drop_scopes([tree])
        self._counts["sessions"] += self._rows.drop_session(session)
        self._counts["cached"] += self._rows.drop_caches(self._forest, [session], [tree])
        return self._counts

    def _run(self, doomed: _Doomed) -> Counter[str]:
        rows, counts = self._rows, self._counts
        hashes = rows.hashes_of([cell.id for cell in doomed.cells], doomed.items, ())
        counts["fenced"] += rows.fence(doomed.turns)
        lost, touched = rows.detach(doomed.items)
        counts["occurrences"] += lost
        leaving = [fact for fact in touched if not fact.told]
        reworded = [fact for fact in leaving if any(item.item >= 0 for item in fact.others)]
        # What a better extraction has superseded already is not worth another place.
        aside = [item for fact in leaving for item in fact.others if item.item < 0]
        hashes |= rows.hashes_of([], [item for fact in leaving for item in fact.others], [f.id for f in leaving])
        payloads = [*(cell.id for cell in doomed.cells), *(fact.id for fact in leaving)]
        path = rows.path(payloads)
        counts["points"] += rows.hold_path(path.nodes, payloads)
        masked = rows.mask(path.nodes)
        counts["summaries"] += len(masked)

        rows.free([fact.id for fact in leaving])
        rows.attest([fact.id for fact in touched if fact.told])
        leaves = rows.take_out({fact.id: fact.routing_hash for fact in leaving}, self._model)
        counts["candidates"] += rows.drop_items([*doomed.items, *aside])
        for tree, group in rows.drop_cells(doomed.gone).items():
            leaves.setdefault(tree, []).extend(group)
        counts["cells"] += len(doomed.gone)
        nodes = remove_leaves(rows, leaves, self._settings)
        counts["leaves"] += sum(len(group) for group in leaves.values())
        anew = self._reword(reworded)
        gone = [fact.id for fact in leaving if fact.id not in anew]
        counts["facts"] += len(leaving) - len(reworded)
        counts["reworded"] += len(reworded)
        rows.unpoint(self._forest, gone)

        self._silence(doomed)
        marked = rows.mark(path)
        counts["nodes"] += len(marked) + len(set(nodes) - {leaf for group in leaves.values() for leaf in group})
        counts["scopes"] += rows.drop_scopes(path.trees)
        went = Removed(
            turns=tuple(doomed.turns),
            cells=tuple(doomed.gone),
            items=(*doomed.items, *aside),
            facts=tuple(gone),
            nodes=_without(nodes, anew, leaves),
            masked=tuple(marked),
            trees=path.trees,
            hashes=(*hashes, *masked),
        )
        return self._forget(went, doomed)

    def _silence(self, doomed: _Doomed) -> None:
        """The turns themselves, and the cells that keep some of theirs."""
        rows = self._rows
        if doomed.rewritten:
            rows.rewrite_cells(self._forest, doomed.rewritten)
        if not doomed.turns:
            return
        rows.rehead(doomed.sessions)
        take = rows.cut_tail if doomed.whole else rows.blank_turns
        self._counts["turns"] += take(self._forest, doomed.turns)

    def _forget(self, went: Removed, doomed: _Doomed) -> Counter[str]:
        """What is kept beside the memory itself; then the search for references."""
        rows, counts = self._rows, self._counts
        sessions = doomed.sessions or rows.sessions_of([item.cell_id for item in doomed.items])
        counts["visits"] += rows.forget_visits([*went.cells, *went.facts, *went.nodes])
        counts["cached"] += rows.drop_caches(self._forest, sessions, went.trees)
        counts["vectors"] += rows.drop_vectors(self._forest, went.hashes)
        for column, found in rows.left(self._forest, went).items():
            counts[LEFT + column] += found
        return counts

    def _reword(self, facts: Sequence[TouchedFact]) -> frozenset[FactId]:
        """Facts whose wording went are made anew from the candidates that are left; the ids that there are again.

        The reducer's own placing does it, with nothing but these candidates: whatever else their cells say stays as
        it is.
        """
        if not facts:
            return frozenset()
        freed = {item for fact in facts for item in fact.others if item.item >= 0}
        cells = tuple(sorted({item.cell_id for item in freed}, key=str))
        batch = self._rows.queue.load(
            WaitingForest(self._forest, self._rows.owner_of(self._forest), cells, {}), self._model
        )
        batch = replace(
            batch,
            cells=tuple(
                replace(
                    cell,
                    candidates=tuple(
                        waiting for waiting in cell.candidates if ItemKey(cell.id, waiting.candidate.item) in freed
                    ),
                )
                for cell in batch.cells
            ),
        )
        if any(item.vector is None or item.routing_vector is None for cell in batch.cells for item in cell.candidates):
            # Nothing is embedded while the forest is held: the reducer does that, and makes the facts.
            self._rows.queue.hand_back(cells)
            return frozenset()
        settings = ruled(self._settings, batch.rules, held=batch.held)
        compared = {
            fact.id: Known(fact.id, fact.statement, fact.vector)
            for fact in self._rows.canon.unseen_facts(self._forest, UNSEEN_LIMIT, self._model)
        }
        Placing(self._rows, batch, compared, settings).run()
        self._rows.carry_over(self._forest, facts)
        return self._rows.canon.stored_facts([fact.id for fact in facts])


def _without(
    nodes: Sequence[NodeId], anew: frozenset[FactId], leaves: dict[TreeId, list[NodeId]]
) -> tuple[NodeId, ...]:
    """The nodes that went for good: a fact that is there again under its id has its leaves again."""
    if not anew:
        return tuple(nodes)
    back = {leaf for group in leaves.values() for leaf in group}
    return tuple(node for node in nodes if node not in back)
