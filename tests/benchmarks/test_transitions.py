"""Questions about what changes in a life find their evidence, on an embedded node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.transitions import CHANGES, TRANSITIONS, Asked, ask, people, store
from memforest_core.client.api import MemForest


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, list[Asked]]]:
    home: Path = tmp_path_factory.mktemp("transitions") / "node"
    with MemForest.embedded(home) as memory:
        store(memory, [*people(TRANSITIONS), *people(CHANGES)])
        yield {data: list(ask(memory, people(data), "embedding")) for data in (TRANSITIONS, CHANGES)}


def test_every_transition_question_has_its_evidence_within_the_first_five(asked: dict[str, list[Asked]]) -> None:
    topics = Counter(one.topic for one in asked[TRANSITIONS])
    assert len(asked[TRANSITIONS]) >= 60
    assert set(topics) == {"residence", "job", "pet", "weight", "project"}
    assert [one.question for one in asked[TRANSITIONS] if not one.found] == []


def test_changes_of_anything_are_found_by_their_order_in_time(asked: dict[str, list[Asked]]) -> None:
    """Well below what was measured (58 of 65 within five, 38 first), well above 44 and 23 without the series."""
    assert len(asked[CHANGES]) == 65
    assert sum(one.found for one in asked[CHANGES]) >= 54
    assert sum(one.first for one in asked[CHANGES]) >= 34


def test_what_is_driven_now_is_the_last_car(asked: dict[str, list[Asked]]) -> None:
    assert next(one.ranks for one in asked[CHANGES] if one.question == "What does Yusuf drive now?") == (1,)


def test_where_somebody_is_back_is_among_the_first(asked: dict[str, list[Asked]]) -> None:
    assert next(one for one in asked[CHANGES] if one.question == "Where does he live now?").within(3)
