"""What sessions, cells and candidates of a source become, by what the target has already."""

from __future__ import annotations

from itertools import islice
from uuid import UUID

from memforest_core.domain.facts import CORRECTED_ITEM
from memforest_core.domain.ids import CellId, FactId, ForestId, SessionId, cell_id, session_id
from memforest_core.lifecycle.merge.records import Meeting, Overlap, SessionPlan, StoredCell, StoredItem, StoredSession
from memforest_core.lifecycle.merge.switching import meet, named, names, place_cells, place_items

TARGET = ForestId(UUID(int=7))
MINE = SessionId(UUID(int=1))
FACT, NEW_FACT = FactId(UUID(int=50)), FactId(UUID(int=60))


def session(turns: int = 4, external_id: str = "s1") -> StoredSession:
    return StoredSession(MINE, external_id, turns)


def overlap(turns: int, *, cells: int = 1, differs: bool = False) -> Overlap:
    return Overlap(turns, cells, differs)


def cell(ordinal: int, first: int, last: int, *, session: SessionId = MINE, window: int | None = None) -> StoredCell:
    return StoredCell(
        cell_id(session, ordinal),
        session,
        ordinal,
        ordinal if window is None else window,
        first,
        last,
        0,
        0,
        1,
        True,
        2,
        CORRECTED_ITEM,
    )


def plan(found: Overlap | None, turns: int = 4) -> SessionPlan:
    met = meet(named(TARGET, session(turns), "s1"), found)
    assert met is not None
    return met


def test_a_session_has_its_own_id_or_one_that_names_its_owner() -> None:
    assert list(islice(names("s1", "bob"), 3)) == ["s1", "s1@bob", "s1@bob#2"]


def test_a_session_that_is_missing_in_the_target_is_new() -> None:
    met = plan(None)
    assert (met.meeting, met.target, met.first_turn, met.renamed) == (Meeting.NEW, session_id(TARGET, "s1"), 0, False)


def test_a_session_with_other_turns_has_to_try_another_name() -> None:
    assert meet(named(TARGET, session(), "s1"), overlap(4, differs=True)) is None


def test_a_session_that_the_target_has_whole_is_the_same() -> None:
    assert plan(overlap(4)).meeting is plan(overlap(6)).meeting is Meeting.SAME


def test_of_a_longer_session_only_the_rest_is_copied_behind_what_is_there() -> None:
    met = plan(overlap(2, cells=1), turns=6)
    copies = place_cells([met], [cell(0, 0, 1), cell(1, 2, 3), cell(2, 4, 5, window=1)])
    assert met.meeting is Meeting.LONGER
    assert [(copy.ordinal, copy.window_ordinal, copy.first_turn, copy.cut) for copy in copies] == [
        (1, 1, 2, False),
        (2, 1, 4, False),
    ]
    assert [copy.cell_id for copy in copies] == [cell_id(met.target, 1), cell_id(met.target, 2)]


def test_a_cell_whose_first_turn_is_there_is_cut() -> None:
    copies = place_cells([plan(overlap(3, cells=2))], [cell(0, 0, 1), cell(1, 2, 3)])
    assert [(copy.ordinal, copy.first_turn, copy.cut) for copy in copies] == [(2, 3, True)]


def test_candidates_stay_with_their_copied_cell() -> None:
    copies = {copy.source.id: copy for copy in place_cells([plan(None)], [cell(0, 0, 1), cell(1, 2, 3)])}
    items = [StoredItem(cell_id(MINE, 0), 0, (0,), FACT), StoredItem(cell_id(MINE, 1), -1, (2,), None)]
    placed = place_items(items, copies, {}, {FACT: NEW_FACT}, frozenset())
    assert [(each.new_cell, each.new_item, each.fact_id) for each in placed] == [
        (cell_id(session_id(TARGET, "s1"), 0), 0, NEW_FACT),
        (cell_id(session_id(TARGET, "s1"), 1), -1, None),
    ]


def attached(*items: StoredItem, missing: bool = True, settled: bool = True) -> list[tuple[CellId, int]]:
    theirs = session_id(TARGET, "s1")
    home = cell(0, 0, 1, session=theirs)
    if not settled:
        home = StoredCell(home.id, theirs, 0, 0, 0, 1, 0, 0, 1, False, 2, CORRECTED_ITEM)
    homes = {cell_id(MINE, 0): [home]}
    known = frozenset({NEW_FACT} if missing else ())
    return [(each.new_cell, each.new_item) for each in place_items(items, {}, homes, {FACT: NEW_FACT}, known)]


def test_what_only_the_source_read_out_of_a_shared_session_goes_to_the_targets_cell() -> None:
    item, other = (StoredItem(cell_id(MINE, 0), number, (1,), FACT) for number in (0, 1))
    correction = StoredItem(cell_id(MINE, 0), CORRECTED_ITEM, (1,), FACT)
    home = cell_id(session_id(TARGET, "s1"), 0)
    assert attached(item, other, correction) == [(home, 2), (home, 3), (home, CORRECTED_ITEM)]


def test_what_both_have_or_the_target_will_read_itself_is_left() -> None:
    item = StoredItem(cell_id(MINE, 0), 0, (1,), FACT)
    assert attached(item, missing=False) == []
    assert attached(item, settled=False) == []
    assert attached(StoredItem(cell_id(MINE, 0), -1, (1,), FACT)) == []
    assert attached(StoredItem(cell_id(MINE, 0), 0, (1,), None)) == []
    assert attached(StoredItem(cell_id(MINE, 0), 0, (5,), FACT)) == []
