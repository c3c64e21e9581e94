"""What sessions, cells and candidates of a source become: copied, recognized, or the rest of a shorter session."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import count

from memforest_core.domain.facts import CORRECTED_ITEM
from memforest_core.domain.ids import CellId, FactId, ForestId, SessionId, cell_id, session_id
from memforest_core.transfer.merge.records import (
    CellCopy,
    ItemCopy,
    NamedSession,
    Overlap,
    StoredCell,
    StoredItem,
    StoredSession,
)


class Meeting(StrEnum):
    """How a source's session meets what the target has."""

    NEW = "new"
    SAME = "same"
    """The target has all of its turns."""
    LONGER = "longer"
    """The target has its first turns."""


@dataclass(frozen=True, slots=True)
class SessionPlan:
    """What a session becomes; turns from ``first_turn`` on are copied, into cells from ``first_cell`` on."""

    source: StoredSession
    target: SessionId
    meeting: Meeting
    name: str
    first_turn: int = 0
    first_cell: int = 0

    @property
    def renamed(self) -> bool:
        """The target has another session of its id."""
        return self.name != self.source.external_id


def names(external_id: str, owner: str) -> Iterator[str]:
    """The ids to try for a session: its own, then ones that say where it came from."""
    yield external_id
    yield f"{external_id}@{owner}"
    for number in count(2):
        yield f"{external_id}@{owner}#{number}"


def named(target: ForestId, session: StoredSession, name: str) -> NamedSession:
    """A session of the source under a name of the target."""
    return NamedSession(session.id, session_id(target, name), name)


def meet(session: StoredSession, name: NamedSession, overlap: Overlap | None) -> SessionPlan | None:
    """What the session becomes under this name; None when the target has other turns there."""
    if overlap is None:
        return SessionPlan(session, name.target, Meeting.NEW, name.name)
    if overlap.differs:
        return None
    longer = session.turns > overlap.turns
    return SessionPlan(
        session,
        name.target,
        Meeting.LONGER if longer else Meeting.SAME,
        name.name,
        overlap.turns if longer else session.turns,
        overlap.cells,
    )


def place_cells(plans: Sequence[SessionPlan], cells: Sequence[StoredCell]) -> list[CellCopy]:
    """The cells to copy: all of new sessions, those with turns that the target lacks of longer ones.

    ``cells`` are the source's, by session and ordinal.
    """
    by_session: dict[SessionId, list[StoredCell]] = defaultdict(list)
    for cell in cells:
        by_session[cell.session_id].append(cell)
    copies: list[CellCopy] = []
    for plan in plans:
        if plan.meeting is Meeting.SAME:
            continue
        lacking = [cell for cell in by_session[plan.source.id] if cell.last_turn >= plan.first_turn]
        for cell in lacking:
            head = max(cell.window, lacking[0].ordinal)
            shift = plan.first_cell - lacking[0].ordinal
            copies.append(
                CellCopy(
                    source=cell,
                    target=cell_id(plan.target, cell.ordinal + shift),
                    session_id=plan.target,
                    ordinal=cell.ordinal + shift,
                    window=head + shift,
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
    lacking: Container[FactId],
) -> list[ItemCopy]:
    """Where the candidates of a source go.

    Those of copied cells stay with them. Of what both forests have read, only candidates of facts that the target lacks
    are kept (``lacking``, of the target's ids in ``facts``): with the target's cell that holds their turns. ``homes``
    are the cells of the target's session for each source cell that is not copied whole.
    """
    taken: dict[tuple[CellId, bool], int] = {}
    placed: list[ItemCopy] = []
    for item in items:
        copy = copies.get(item.cell_id)
        fact = None if item.fact_id is None else facts[item.fact_id]
        if copy is not None and (not copy.cut or max(item.turns, default=-1) >= copy.first_turn):
            placed.append(ItemCopy(item.cell_id, item.item, copy.target, item.item, copy.session_id, fact))
            continue
        if fact is None or fact not in lacking or item.item < 0:
            continue
        home = _home(item, homes.get(item.cell_id, ()))
        if home is not None:
            correction = item.item >= CORRECTED_ITEM
            number = taken.get((home.id, correction), home.next_correction if correction else home.next_item)
            taken[home.id, correction] = number + 1
            placed.append(ItemCopy(item.cell_id, item.item, home.id, number, home.session_id, fact))
    return placed


def _home(item: StoredItem, cells: Sequence[StoredCell]) -> StoredCell | None:
    """The first settled cell that holds one of the item's turns, the last one by preference."""
    for turn in sorted(item.turns, reverse=True):
        for cell in cells:
            if cell.settled and cell.first_turn <= turn <= cell.last_turn:
                return cell
    return None
