"""What sessions, cells and candidates of a source become: copied, recognized, or the rest of a shorter session."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count

from memforest_core.domain.facts import CORRECTED_ITEM
from memforest_core.domain.ids import CellId, FactId, ForestId, SessionId, cell_id, session_id
from memforest_core.lifecycle.merge.records import (
    CellCopy,
    ItemCopy,
    Meeting,
    Overlap,
    SessionPlan,
    StoredCell,
    StoredItem,
    StoredSession,
)


def names(external_id: str, owner: str) -> Iterator[str]:
    """The ids to try for a session: its own, then ones that say where it came from."""
    yield external_id
    yield f"{external_id}@{owner}"
    for number in count(2):
        yield f"{external_id}@{owner}#{number}"


def named(target: ForestId, session: StoredSession, name: str) -> SessionPlan:
    """A session of the source as a new one of the target, under this name."""
    return SessionPlan(session, session_id(target, name), name)


def meet(plan: SessionPlan, overlap: Overlap | None) -> SessionPlan | None:
    """What a session becomes under its name in the target; None when the target has other turns there."""
    if overlap is None:
        return plan
    if overlap.differs:
        return None
    longer = plan.source.turns > overlap.turns
    return replace(
        plan,
        meeting=Meeting.LONGER if longer else Meeting.SAME,
        first_turn=overlap.turns if longer else plan.source.turns,
        first_cell=overlap.cells,
    )


def place_cells(plans: Sequence[SessionPlan], cells: Sequence[StoredCell]) -> list[CellCopy]:
    """The cells to copy: all of new sessions, of longer ones the cells with turns that are missing in the target.

    ``cells`` are the source's, by session and ordinal.
    """
    by_session: dict[SessionId, list[StoredCell]] = defaultdict(list)
    for cell in cells:
        by_session[cell.session_id].append(cell)
    copies: list[CellCopy] = []
    for plan in plans:
        if plan.meeting is Meeting.SAME:
            continue
        later = [cell for cell in by_session[plan.source.id] if cell.last_turn >= plan.first_turn]
        for cell in later:
            head = max(cell.window, later[0].ordinal)
            shift = plan.first_cell - later[0].ordinal
            copies.append(
                CellCopy(
                    source=cell,
                    cell_id=cell_id(plan.target, cell.ordinal + shift),
                    session_id=plan.target,
                    ordinal=cell.ordinal + shift,
                    window_ordinal=head + shift,
                    first_turn=max(cell.first_turn, plan.first_turn),
                    cut=cell.first_turn < plan.first_turn,
                )
            )
    return copies


def place_items(
    items: Sequence[StoredItem],
    copies: Mapping[CellId, CellCopy],
    homes: Mapping[CellId, Sequence[StoredCell]],
    facts: Mapping[FactId, FactId],
    missing: Container[FactId],
) -> list[ItemCopy]:
    """Where the candidates of a source go.

    Those of copied cells stay with them. Of what both forests have read, only candidates of facts that are
    ``missing`` in the target (its ids in ``facts``) are copied: to the target's cell with their turns. ``homes``
    are the cells of the target's session for each source cell that is not copied whole.
    """
    taken: dict[tuple[CellId, bool], int] = {}
    placed: list[ItemCopy] = []
    for item in items:
        copy = copies.get(item.cell_id)
        fact = None if item.fact_id is None else facts[item.fact_id]
        if copy is not None and (not copy.cut or max(item.turns, default=-1) >= copy.first_turn):
            placed.append(ItemCopy(item.cell_id, item.item, copy.cell_id, item.item, copy.session_id, fact))
            continue
        if fact is None or fact not in missing or item.item < 0:
            continue
        home = _home(item, homes.get(item.cell_id, ()))
        if home is not None:
            correction = item.item >= CORRECTED_ITEM
            number = taken.get((home.id, correction), home.next_correction if correction else home.next_item)
            taken[home.id, correction] = number + 1
            placed.append(ItemCopy(item.cell_id, item.item, home.id, number, home.session_id, fact))
    return placed


def _home(item: StoredItem, cells: Sequence[StoredCell]) -> StoredCell | None:
    """The first settled cell with one of the item's turns, the last one by preference."""
    for turn in sorted(item.turns, reverse=True):
        for cell in cells:
            if cell.settled and cell.first_turn <= turn <= cell.last_turn:
                return cell
    return None
