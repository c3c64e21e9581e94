"""Any session: cells hold every turn once, in order, within their caps; windows partition the cells."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from memforest_core.domain.cells import TOPIC_MARKER, CellCut, Cutting, assign_windows, cut_cells, parts_of
from memforest_core.domain.rendering import speech
from memforest_core.domain.turns import Role, Turn
from tests.harness.builders import NOON, turn

CUTTINGS = st.builds(
    Cutting,
    cell_turns=st.integers(1, 4),
    cell_chars=st.integers(3, 60),
    part_chars=st.integers(3, 60),
    tool_part_chars=st.integers(3, 60),
    gap=st.just(timedelta(hours=6)),
    window_turns=st.integers(1, 8),
    window_chars=st.integers(20, 1_000),
)
CONTENTS = st.text("ab .!?\né", min_size=1, max_size=150)
MINUTES = st.sampled_from([0, 1, 30, 359, 360, 361, 2_000, -500])


@st.composite
def sessions(draw: st.DrawFn, max_size: int = 14) -> list[Turn]:
    """Turns of any length, order of times, role and topic marks."""
    drawn = draw(st.lists(st.tuples(CONTENTS, MINUTES, st.sampled_from(list(Role)), st.booleans()), max_size=max_size))
    turns: list[Turn] = []
    moment = NOON
    for ordinal, (content, minutes, role, marked) in enumerate(drawn):
        moment += timedelta(minutes=minutes)
        metadata = {TOPIC_MARKER: True} if marked else {}
        turns.append(turn(ordinal, content, at=moment, role=role, metadata=metadata))
    return turns


def cut(turns: list[Turn], cutting: Cutting, first_ordinal: int = 0) -> list[CellCut]:
    return assign_windows(cut_cells(turns, first_ordinal, cutting), cutting)


@given(sessions(), CUTTINGS, st.integers(0, 50))
def test_cells_hold_every_turn_once_and_in_order(turns: list[Turn], cutting: Cutting, first: int) -> None:
    """Given any turns, when they are cut, then reading the cells one after the other gives the session back."""
    cells = cut_cells(turns, first, cutting)

    assert [cell.ordinal for cell in cells] == list(range(first, first + len(cells)))
    read: dict[int, str] = {}
    for cell in cells:
        for ordinal in range(cell.first_turn, cell.last_turn + 1):
            content = turns[ordinal].content[cell.char_start : cell.char_end]
            if cell.char_start is not None:
                assert cell.first_turn == cell.last_turn
                assert cell.char_start == len(read.get(ordinal, ""))
            else:
                assert ordinal not in read
            read[ordinal] = read.get(ordinal, "") + content
    assert list(read) == list(range(len(turns)))
    assert list(read.values()) == [each.content for each in turns]


@given(sessions(), CUTTINGS)
def test_cells_keep_their_caps(turns: list[Turn], cutting: Cutting) -> None:
    for cell in cut_cells(turns, 0, cutting):
        held = turns[cell.first_turn : cell.last_turn + 1]
        moments = [each.occurred_at for each in held]
        assert cell.turns <= cutting.cell_turns
        assert (cell.time_start, cell.time_end) == (min(moments), max(moments))
        if cell.char_start is not None and cell.char_end is not None:
            assert len(held[0].content) > cutting.whole_chars(held[0])
            assert 0 < cell.char_end - cell.char_start <= cutting.whole_chars(held[0])
            continue
        assert all(len(each.content) <= cutting.whole_chars(each) for each in held)
        assert cell.turns == 1 or all(each.role is not Role.TOOL for each in held)
        assert sum(len(each.content) for each in held) <= cutting.cell_chars
        assert cell.text == "\n".join(speech(each.name, each.content) for each in held)
        assert cell.full is (cell.turns == cutting.cell_turns)
        assert all(abs(later - sooner) <= cutting.gap for sooner, later in pairwise(moments))
        assert all(each.metadata.get(TOPIC_MARKER) is not True for each in held[1:])


@given(sessions(), CUTTINGS)
def test_windows_partition_the_cells(turns: list[Turn], cutting: Cutting) -> None:
    """Given any cells, then each window is a run of them, named by its first, and within its caps unless alone."""
    cells = cut(turns, cutting)

    groups: dict[int, list[CellCut]] = {}
    for cell in cells:
        groups.setdefault(cell.window, []).append(cell)
    assert [cell for group in groups.values() for cell in group] == cells
    for head, group in groups.items():
        assert group[0].ordinal == head
        if len(group) > 1:
            assert sum(cell.turns for cell in group) <= cutting.window_turns
            assert sum(len(cell.text) for cell in group) <= cutting.window_chars


@given(sessions(), CUTTINGS, st.data())
def test_a_longer_session_has_the_same_cells_where_it_was_cut_before(
    turns: list[Turn], cutting: Cutting, data: st.DataObject
) -> None:
    """Given a session that ended with a full cell, when it is sent again with more turns, then that part cuts alike."""
    whole = cut_cells(turns, 0, cutting)
    ends = [0, *(cell.last_turn + 1 for cell in whole if cell.full)]
    length = data.draw(st.sampled_from(ends))

    before = cut_cells(turns[:length], 0, cutting)
    after = cut_cells(turns[length:], len(before), cutting)

    assert before + after == whole


@given(sessions(), CUTTINGS, st.data())
def test_turns_that_come_one_by_one_make_the_same_cells(
    turns: list[Turn], cutting: Cutting, data: st.DataObject
) -> None:
    """Given an open last cell, when the next turns are cut together with it, then the cells are those of one cut."""
    length = data.draw(st.integers(0, len(turns)))
    before = cut_cells(turns[:length], 0, cutting)
    if before and not before[-1].full:
        tail = before.pop()
        length = tail.first_turn

    assert before + cut_cells(turns[length:], len(before), cutting) == cut_cells(turns, 0, cutting)


@given(st.text("ab .!?\né", max_size=400), st.integers(1, 40))
def test_the_parts_are_the_text(text: str, limit: int) -> None:
    found = list(parts_of(text, limit))

    assert "".join(text[start:end] for start, end in found) == text
    assert all(0 < end - start <= limit for start, end in found) or not text
    assert all(end == start for (_, end), (start, _) in pairwise(found))
