"""Items of a model's answer that belong to another window, on answers written for it (tests/data/foreign_answers.json)."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from memforest_core.domain.cells import Window, WindowTurn
from memforest_core.domain.turns import Role
from memforest_core.errors import ContentFault
from memforest_core.ingest.extract.answer_checks import grounded
from memforest_core.ingest.extract.extraction_prompt import CellSummary, ExtractionAnswer, Item

WINDOWS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[2] / "data/foreign_answers.json").read_text(encoding="utf-8")
)
ANCHOR = Item(text=".", turns=[1])
"""An item without words is of any window: with it a strange one is no majority."""


def window_of(case: dict[str, Any]) -> Window:
    at = datetime(2023, 5, 8, 12, tzinfo=UTC)
    turns = tuple(
        WindowTurn(number, 1, number - 1, Role.USER, speaker, text, at)
        for number, (speaker, text) in enumerate(case["turns"], 1)
    )
    return Window(case["turns"][0][0], "UTC", (), turns, 1)


def item_of(case: str | dict[str, str]) -> Item:
    return Item.model_validate({"turns": [1], **({"text": case} if isinstance(case, str) else case)})


def stored(window: Window, item: Item) -> bool:
    return item in grounded(ExtractionAnswer(items=[item, ANCHOR]), window)[0].items


CASES = [(case, kind, item) for case in WINDOWS for kind in ("honest", "foreign") for item in case[kind]]


@pytest.mark.parametrize(("case", "kind", "item"), CASES, ids=[str(each[2]) for each in CASES])
def test_an_honest_paraphrase_stays_and_an_item_of_another_window_goes(
    case: dict[str, Any], kind: str, item: str | dict[str, str]
) -> None:
    assert stored(window_of(case), item_of(item)) is (kind == "honest")


def test_of_one_windows_honest_items_nearly_none_is_grounded_in_another() -> None:
    pairs = [(window, other) for window in WINDOWS for other in WINDOWS if other is not window]
    passed = [item for window, other in pairs for item in other["honest"] if stored(window_of(window), item_of(item))]

    assert passed == []


def test_most_of_an_answer_being_foreign_is_a_fault_that_names_the_remedy() -> None:
    answer = ExtractionAnswer(items=[item_of(text) for text in WINDOWS[6]["honest"]])

    with pytest.raises(ContentFault, match=r'7 of 7 items are not about the turns to extract from.*"quote"'):
        grounded(answer, window_of(WINDOWS[0]))


def test_a_summary_of_another_window_goes_and_is_counted() -> None:
    own = CellSummary(cell=1, text="Melanie tells about her new puppy Biscuit, who chewed her sneakers.")
    other = CellSummary(cell=1, text="Tim tells Priya about his promotion at Northwind; she starts at Contoso in July.")

    answer, left_out = grounded(ExtractionAnswer(items=[], summaries=[own, other]), window_of(WINDOWS[0]))

    assert (answer.summaries, left_out.total()) == ([own], 1)


def test_a_similar_sentence_with_another_identifier_or_another_name_as_value_is_of_another_window() -> None:
    case = {"turns": [["Bob", "I bought mwa4w5 for 8 dollars in Delhi."]]}

    assert stored(window_of(case), item_of({"text": "Bob bought mwa4w5 for 8 dollars in Delhi.", "value": "mwa4w5"}))
    assert not stored(window_of(case), item_of("Bob bought mwa4w4 for 8 dollars in Delhi."))
    assert not stored(window_of(case), item_of({"text": "Bob bought it for 8 dollars in Cairo.", "value": "Cairo"}))
