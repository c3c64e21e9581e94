"""What sessions, cells and candidates of a source become, by what the target has already."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from uuid import UUID

import pytest

from memforest_core.domain.facts import CORRECTED_ITEM
from memforest_core.domain.ids import CellId, FactId, ForestId, SessionId, cell_id, session_id
from memforest_core.lifecycle.merge.records import Meeting, Overlap, SessionPlan, StoredCell, StoredItem, StoredSession
from memforest_core.lifecycle.merge.switching import meet, named, names, place_cells, place_items

TARGET = ForestId(UUID(int=7))
MINE = SessionId(UUID(int=1))
THEIRS = session_id(TARGET, "s1")
FACT, NEW_FACT = FactId(UUID(int=50)), FactId(UUID(int=60))


def cell(ordinal: int, first: int, last: int, *, session: SessionId = MINE, window: int | None = None) -> StoredCell:
    own = cell_id(session, ordinal)
    window = ordinal if window is None else window
    return StoredCell(own, session, ordinal, window, first, last, 0, 0, 1, True, 2, CORRECTED_ITEM)


def plan(found: Overlap | None, turns: int = 4) -> SessionPlan | None:
    return meet(named(TARGET, StoredSession(MINE, "s1", turns), "s1"), found)


def test_a_session_has_its_own_id_or_one_that_names_its_owner() -> None:
    assert list(islice(names("s1", "bob"), 3)) == ["s1", "s1@bob", "s1@bob#2"]


@pytest.mark.parametrize(
    ("found", "turns", "meeting", "first"),
    [
        (None, 4, Meeting.NEW, 0),
        (Overlap(4, 1, False), 4, Meeting.SAME, 4),
        (Overlap(6, 1, False), 4, Meeting.SAME, 4),
        (Overlap(2, 1, False), 6, Meeting.LONGER, 2),
        (Overlap(4, 1, True), 4, None, 0),
    ],
)
def test_a_session_is_new_the_same_longer_or_has_to_try_another_name(
    found: Overlap | None, turns: int, meeting: Meeting | None, first: int
) -> None:
    met = plan(found, turns)
    got = None if met is None else (met.meeting, met.first_turn, met.target, met.renamed)
    assert got == (None if meeting is None else (meeting, first, THEIRS, False))


def test_of_a_longer_session_only_the_rest_is_copied_and_a_cell_whose_first_turn_is_there_is_cut() -> None:
    longer, cut = plan(Overlap(2, 1, False), 6), plan(Overlap(3, 2, False))
    assert longer is not None and cut is not None
    copies = place_cells([longer], [cell(0, 0, 1), cell(1, 2, 3), cell(2, 4, 5, window=1)])
    assert [(copy.ordinal, copy.window_ordinal, copy.first_turn, copy.cut) for copy in copies] == [
        (1, 1, 2, False),
        (2, 1, 4, False),
    ]
    assert [copy.cell_id for copy in copies] == [cell_id(THEIRS, 1), cell_id(THEIRS, 2)]
    copies = place_cells([cut], [cell(0, 0, 1), cell(1, 2, 3)])
    assert [(copy.ordinal, copy.first_turn, copy.cut) for copy in copies] == [(2, 3, True)]


def test_candidates_stay_with_their_copied_cell() -> None:
    new = plan(None)
    assert new is not None
    copies = {copy.source.id: copy for copy in place_cells([new], [cell(0, 0, 1), cell(1, 2, 3)])}
    items = [StoredItem(cell_id(MINE, 0), 0, (0,), FACT), StoredItem(cell_id(MINE, 1), -1, (2,), None)]
    placed = place_items(items, copies, {}, {FACT: NEW_FACT}, frozenset())
    assert [(each.new_cell, each.new_item, each.fact_id) for each in placed] == [
        (cell_id(THEIRS, 0), 0, NEW_FACT),
        (cell_id(THEIRS, 1), -1, None),
    ]


def attached(*items: StoredItem, missing: bool = True, settled: bool = True) -> list[tuple[CellId, int]]:
    homes = {cell_id(MINE, 0): [replace(cell(0, 0, 1, session=THEIRS), settled=settled)]}
    known = frozenset({NEW_FACT} if missing else ())
    return [(each.new_cell, each.new_item) for each in place_items(items, {}, homes, {FACT: NEW_FACT}, known)]


def test_what_only_the_source_read_out_of_a_shared_session_goes_to_the_targets_cell() -> None:
    items = [StoredItem(cell_id(MINE, 0), number, (1,), FACT) for number in (0, 1, CORRECTED_ITEM)]
    home = cell_id(THEIRS, 0)
    assert attached(*items) == [(home, 2), (home, 3), (home, CORRECTED_ITEM)]
    # What both have or the target will read itself is left, and what has no place there.
    assert attached(items[0], missing=False) == attached(items[0], settled=False) == []
    for changed in ({"item": -1}, {"fact_id": None}, {"turns": (5,)}):
        assert attached(replace(items[0], **changed)) == []
