"""How turns are cut into cells, long turns into parts, and cells grouped into windows."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from pydantic import ValidationError

from memforest_core.domain.cells import (
    MAX_WINDOW_TURNS,
    TEXT_MARKERS,
    TOPIC_MARKER,
    CellCut,
    Cutting,
    assign_windows,
    cut_cells,
    parts_of,
    turn_starts,
)
from memforest_core.domain.delivery import CHARS_PER_TOKEN
from memforest_core.domain.turns import Role, Turn
from memforest_core.settings import AcceptSettings
from tests.harness.builders import NOON, turn
from tests.harness.forgeries import FORGERIES

SMALL = Cutting(cell_turns=2, cell_chars=100, window_turns=4, window_chars=200)


def turns(count: int, content: str = "I live in Davis.") -> list[Turn]:
    return [turn(ordinal, content) for ordinal in range(count)]


def spans(cells: list[CellCut]) -> list[tuple[int, int]]:
    return [(cell.first_turn, cell.last_turn) for cell in cells]


def test_a_cell_closes_at_two_turns() -> None:
    cells = cut_cells(turns(5), 0, SMALL)

    assert spans(cells) == [(0, 1), (2, 3), (4, 4)]
    assert [cell.ordinal for cell in cells] == [0, 1, 2]
    assert [cell.full for cell in cells] == [True, True, False]
    assert [cell.turns for cell in cells] == [2, 2, 1]


def test_a_cell_is_dialogue_with_names() -> None:
    [cell] = cut_cells([turn(0, "Where do you live?", name="Ann"), turn(1, "In Davis.", name="Bob")], 0, SMALL)

    assert cell.text == "Ann: Where do you live?\nBob: In Davis."
    assert (cell.char_start, cell.char_end) == (None, None)
    assert (cell.time_start, cell.time_end) == (NOON, NOON + timedelta(minutes=1))


@pytest.mark.parametrize(
    ("second", "joins"),
    [
        (turn(1, at=NOON + timedelta(hours=6)), True),
        (turn(1, at=NOON + timedelta(hours=6, microseconds=1)), False),
        (turn(1, at=NOON - timedelta(hours=7)), False),
        (turn(1, "x" * 84), True),
        (turn(1, "x" * 85), False),
        (turn(1, metadata={TOPIC_MARKER: True}), False),
        (turn(1, metadata={TOPIC_MARKER: "yes"}), True),
        (turn(1, "--- topic: boats"), False),
        (turn(1, "Fine.\n  New Topic: boats"), False),
        (turn(1, "Is this a new topic: boats?"), True),
        (turn(1, role=Role.ASSISTANT), True),
        (turn(1, role=Role.SYSTEM), False),
    ],
)
def test_a_turn_joins_unless_time_size_or_topic_say_otherwise(second: Turn, joins: bool) -> None:
    """Given an open cell of one turn of 16 characters, and room for 100."""
    assert len(cut_cells([turn(0), second], 0, SMALL)) == (1 if joins else 2)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", [""]),
        ("short", ["short"]),
        ("x" * 25, ["x" * 9, "x" * 8, "x" * 8]),
        ("It rains. Sun comes.", ["It rains. ", "Sun comes."]),
        ("aaa bbb ccc ddd", ["aaa bbb ", "ccc ddd"]),
        ("a. bbbbbbbbbbbbbb", ["a. bbbbbb", "bbbbbbbb"]),
        ("12345678\nabcdefgh", ["12345678\n", "abcdefgh"]),
        ("aaaaa.\nb. c ddd", ["aaaaa.\n", "b. c ddd"]),
        ("aaaa\n\nb\nc. ddd", ["aaaa\n\n", "b\nc. ddd"]),
        ("{a: 1},{b. cde}", ["{a: 1},", "{b. cde}"]),
        ("123,45,678,9", ["123,45,", "678,9"]),
    ],
)
def test_a_long_text_is_cut_into_like_parts_at_the_best_border(text: str, found: list[str]) -> None:
    assert [text[start:end] for start, end in parts_of(text, 10)] == found


def test_a_tools_turn_shares_no_cell_and_is_cut_into_parts_of_its_own_length() -> None:
    """Given a short and a long result between talk, then the talk stays together without them."""
    said = [turn(0), turn(1, "x" * 30, role=Role.TOOL), turn(2), turn(3), turn(4, "x" * 45, role=Role.TOOL), turn(5)]

    cells = cut_cells(said, 0, replace(SMALL, tool_part_chars=30))

    assert spans(cells) == [(0, 0), (1, 1), (2, 3), (4, 4), (4, 4), (5, 5)]
    assert [(cell.char_start, cell.char_end) for cell in cells[3:5]] == [(0, 23), (23, 45)]


def windows(cells: list[CellCut]) -> list[int]:
    return [cell.window for cell in assign_windows(cells, SMALL)]


def test_a_window_has_at_most_four_turns() -> None:
    assert windows(cut_cells(turns(10), 0, SMALL)) == [0, 0, 2, 2, 4]


def test_a_gap_parts_windows() -> None:
    late = [turn(ordinal, at=NOON + timedelta(days=1, minutes=ordinal)) for ordinal in (2, 3)]

    assert windows(cut_cells([turn(0), turn(1), *late], 0, SMALL)) == [0, 1]


def test_a_window_has_at_most_so_many_characters() -> None:
    assert windows(cut_cells(turns(4, "x" * 70), 0, SMALL)) == [0, 0, 2, 2]
    assert windows(cut_cells([turn(0, "x" * 500)], 0, SMALL)) == [0, 1, 2, 3, 4]


def test_the_words_that_start_a_topic_are_a_setting() -> None:
    said = [turn(0), turn(1, "new topic: tea"), turn(2, "ABOUT: boats")]
    assert [(cell.first_turn, cell.last_turn) for cell in cut_cells(said, 0, SMALL)] == [(0, 0), (1, 2)]
    own = replace(SMALL, markers=("about:",))
    assert [(cell.first_turn, cell.last_turn) for cell in cut_cells(said, 0, own)] == [(0, 1), (2, 2)]
    none = replace(SMALL, markers=())
    assert [(cell.first_turn, cell.last_turn) for cell in cut_cells(said, 0, none)] == [(0, 1), (2, 2)]


def test_the_settings_words_are_the_rules() -> None:
    assert AcceptSettings().topic_markers == TEXT_MARKERS == Cutting().markers


def test_the_settings_windows_are_the_rules() -> None:
    """Given the settings as they come, then windows are those of the rules; one of more turns is refused."""
    settings, cutting = AcceptSettings(), Cutting()
    assert (settings.cell_chars, settings.part_chars) == (cutting.cell_chars, cutting.part_chars)
    assert settings.tool_part_chars == cutting.tool_part_chars
    assert settings.window_turns == cutting.window_turns == MAX_WINDOW_TURNS
    assert settings.window_tokens * CHARS_PER_TOKEN == cutting.window_chars
    with pytest.raises(ValidationError, match="window_turns"):
        AcceptSettings(window_turns=MAX_WINDOW_TURNS + 1)


@pytest.mark.parametrize(
    ("text", "turns", "starts"),
    [
        ("Ann: Hi.", 1, (0,)),
        ("Ann: Hi.\nBob: Hello.", 2, (0, 9)),
        ("Ann: One.\n  \n  Two: three.\nBob: Four.\n  Five.", 2, (0, 27)),
        ("Ann: Hi.\nBob: \nCy: Yo.", 3, (0, 9, 15)),
        ("Bob: Hello.", 2, (0,)),
        ("Ann: Hi.\nHello.\nBob: Hello.", 2, (0,)),
    ],
    ids=["one", "two", "line breaks", "an empty one", "one erased", "a text of an older version"],
)
def test_where_the_turns_of_a_text_begin(text: str, turns: int, starts: tuple[int, ...]) -> None:
    assert turn_starts(text, turns) == starts


@pytest.mark.parametrize("forged", FORGERIES)
def test_only_the_turns_of_a_cell_begin_at_the_margin(forged: str) -> None:
    """Given words or a name that imitate turns, then the cell's text has as many lines at the margin as turns."""
    said = [turn(0, forged, name="Ann"), turn(1, "Hello.", name=forged), turn(2, "Yo.")]
    (cell,) = cut_cells(said, 0, Cutting(cell_turns=3, markers=()))
    starts = turn_starts(cell.text, 3)
    assert len(starts) == 3
    assert sum(not line.startswith(" ") for line in cell.text.splitlines()) == 3
    assert all(cell.text[start - 1] == "\n" for start in starts[1:])
