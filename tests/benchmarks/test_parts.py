"""Parts are switched off for a while and one at a time, and timed in turn."""

from __future__ import annotations

from uuid import UUID

import pytest

from benchmarks.eval.parts import SETTINGS, Part, without
from benchmarks.eval.variants import GROUPS, MEMFOREST, variants
from memforest_core.domain.scoring import ENOUGH, Item, Scores, Weights, floor_of, vote
from memforest_core.domain.words import words_of
from memforest_core.settings import LlmSettings, RecallSettings

SESSION = UUID(int=1)
GERMAN = "Wo wohnt sie jetzt, und seit wann ist sie dort?"


def turn(ordinal: int) -> Item:
    return Item((SESSION, ordinal, 0), UUID(int=ordinal + 10), ())


def test_without_the_floor_cosines_in_a_narrow_band_are_nearly_alike() -> None:
    """Given cosines from 0.80 to 0.90, when the floor is off, then votes no longer tell them apart as they did."""
    weights = Weights(**dict.fromkeys(Weights.__dataclass_fields__, 0.0) | {"dense": 1.0, "cell": 1.0})
    several = [turn(number) for number in range(ENOUGH + 1)]
    cells = Scores(dense={one.cell: 0.80 + 0.005 * at for at, one in enumerate(several)})

    def spread() -> float:
        scores = [one.score for one in vote(several, cells, Scores(), Scores(), weights)]
        return max(scores) - min(scores)

    with without(Part.FLOOR):
        assert spread() == pytest.approx(0.1 / 0.9)
    assert floor_of(list(cells.dense.values())) == pytest.approx(0.8)
    assert spread() == pytest.approx(1.0)


def test_without_word_lists_questions_are_read_by_english() -> None:
    with without(Part.WORD_LISTS):
        assert [one.language for one in words_of(GERMAN)] == ["english"]
    assert [one.language for one in words_of(GERMAN)] == ["german"]


def test_a_failure_leaves_no_part_switched_off() -> None:
    with pytest.raises(ZeroDivisionError), without(Part.WORD_LISTS):
        _ = 1 / 0
    assert [one.language for one in words_of(GERMAN)] == ["german"]


def test_each_part_is_a_row_and_every_setting_is_the_products() -> None:
    """Given the group of parts, when rows are made, then each differs from the default in one part that is on there."""
    rows = variants("parts", LlmSettings())
    assert [one.name for one in rows] == [
        MEMFOREST,
        *(f"{MEMFOREST}:no-{name}" for name in SETTINGS),
        *(f"{MEMFOREST}:no-{part}" for part in Part),
    ]
    usual = RecallSettings()
    for changed in SETTINGS.values():
        assert all(getattr(usual, name) > 0 for name in changed)
    assert [one.timed for one in rows] == [True] + [False] * (len(rows) - 1)


@pytest.mark.parametrize("group", GROUPS)
def test_no_group_has_a_row_twice(group: str) -> None:
    names = [one.name for one in variants(group, LlmSettings())]
    assert len(set(names)) == len(names)
