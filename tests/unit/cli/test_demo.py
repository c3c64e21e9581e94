"""The demo: its stages, when waiting is pointless, and its data."""

from __future__ import annotations

import time
from datetime import datetime
from itertools import pairwise

import pytest

from memforest_core.cli.demo import Stages, refuse_hopeless, stages
from memforest_core.cli.demo_data import DemoQuestion, load_conversation
from memforest_core.errors import ModelRejected
from memforest_core.observe.records import Totals, Trouble


def totals(
    *, cells: dict[str, int] | None = None, indexed: int = 0, rows: dict[str, int] | None = None, dirty: int = 0
) -> Totals:
    return Totals(
        sessions=1,
        turns=8,
        facts=3,
        cells={"ready": 4} if cells is None else cells,
        verbatim_cells=0,
        indexed_cells=indexed,
        index_rows={} if rows is None else rows,
        trees=3,
        dirty_trees=dirty,
        due_trees=0,
        dirty_nodes=dirty,
    )


def test_stages_count_what_is_done() -> None:
    now = totals(cells={"ready": 1, "extracted": 2, "placed": 1}, indexed=3, dirty=2)
    assert stages(now) == {
        "turns accepted": (8, 8),
        "raw cells indexed": (3, 4),
        "cells extracted": (3, 4),
        "cells placed": (1, 4),
        "trees refreshed": (1, 3),
    }


def test_trees_count_as_refreshed_once_no_more_are_coming() -> None:
    """Given clean trees while cells are still unplaced, then refreshing is not complete; at rest it is."""
    seen = Stages(time.perf_counter())
    seen.see(totals(cells={"ready": 2, "placed": 2}, indexed=4))
    assert "trees refreshed" not in seen.reached
    seen.see(totals(cells={"placed": 4}, indexed=4, rows={"done": 9}))
    assert set(seen.reached) == set(stages(totals()))


def test_a_stage_is_dated_by_the_first_time_it_was_complete() -> None:
    seen = Stages(time.perf_counter())
    seen.see(totals())
    first = dict(seen.reached)
    seen.see(totals())
    assert seen.reached == first


@pytest.mark.parametrize(
    "cells, rows, dirty, at_rest",
    [
        ({"placed": 3, "dead": 1}, {"done": 4}, 0, True),
        ({"placed": 3, "extracted": 1}, {"done": 4}, 0, False),
        ({"placed": 4}, {"done": 3, "ready": 1}, 0, False),
        ({"placed": 4}, {"done": 3, "running": 1}, 0, False),
        ({"placed": 4}, {"done": 4}, 1, False),
    ],
)
def test_at_rest_is_when_nothing_is_left_to_do(
    cells: dict[str, int], rows: dict[str, int], dirty: int, at_rest: bool
) -> None:
    assert totals(cells=cells, rows=rows, dirty=dirty).settled is at_rest


def test_a_refused_key_is_not_waited_for() -> None:
    """Given cells that wait for a person, then their model's own sentence ends the demo."""
    trouble = Trouble("cell", "waiting", "model_auth_failed", "Set MEMFOREST_LLM__API_KEY.", 4)
    with pytest.raises(ModelRejected, match="Set MEMFOREST_LLM__API_KEY") as refused:
        refuse_hopeless((Trouble("cell", "waiting", "model_unavailable", "503", 1), trouble))
    assert refused.value.code == "model_auth_failed"


def test_an_outage_is_waited_for() -> None:
    refuse_hopeless((Trouble("cell", "waiting", "model_unavailable", "503", 1),))


def test_the_conversation_has_whole_turns_in_order_with_ids_of_their_own() -> None:
    """What it makes of them, and that its questions are answered, is seen when it runs."""
    turns = [turn for session in load_conversation() for turn in session.turns]
    said = [datetime.fromisoformat(turn["timestamp"]) for turn in turns]

    assert all(set(turn) == {"id", "role", "content", "timestamp", "speaker_id", "name"} for turn in turns)
    assert len({turn["id"] for turn in turns}) == len({turn["content"] for turn in turns}) == len(turns) >= 90
    assert all(earlier < later for earlier, later in pairwise(said))


@pytest.mark.parametrize(
    "texts, place",
    [
        (["Miami it is", "So I live in davis now"], 2),
        (["somewhere in Yolo County"], 1),
        (["Miami it is", "Boston it was", "So I live in Davis now"], None),
        ([], None),
    ],
)
def test_an_answer_counts_only_among_the_first_texts(texts: list[str], place: int | None) -> None:
    assert DemoQuestion("Where?", ("Davis", "Yolo County"), 2, "because").place(texts) == place
