"""What a session says of itself: each cell by how it ended, its coverage, and that the dead hold nobody back."""

from __future__ import annotations

from typing import Any

import pytest

from memforest_core.ingest.accept.records import SessionProgress, Stage
from memforest_core.ingest.extract.rows import ExtractRows
from tests.harness.sayings import said
from tests.harness.stack import Stack

NAMES = ("ok", "empty", "repaired", "verbatim", "failed", "dead", "waiting")


def progress(pipeline: Stack) -> SessionProgress:
    return pipeline.memory.status("bob", "s1")


def counted(pipeline: Stack) -> dict[str, int]:
    """Cells by how they ended, without the zeros; each cell is in exactly one."""
    found = progress(pipeline)
    counts = {name: int(getattr(found, name)) for name in NAMES}
    assert sum(counts.values()) == found.cells
    return {name: count for name, count in counts.items() if count}


def set_cells(pipeline: Stack, ordinal: int, **values: Any) -> None:
    assigned = ", ".join(f"{name} = :{name}" for name in values)
    pipeline.execute(f"UPDATE memforest.cell SET {assigned} WHERE ordinal = :n", n=ordinal, **values)


def bury_next_window(pipeline: Stack) -> None:
    with ExtractRows.opened(pipeline.services.engine, pipeline.tenant) as rows:
        window = rows.claim_window(pipeline.runtime.worker, 60.0)
        assert window is not None
        rows.bury_window(window, "crashed", "Its extraction crashed.")


def test_every_cell_counts_once_by_how_it_ended(pipeline: Stack) -> None:
    """Given cells that ended in every way there is, then the session names each, and covers what a model has read."""
    pipeline.memory.client.enqueue("bob", "s1", said(*[f"Sentence {n}." for n in range(18)]))
    pipeline.drive()
    assert (progress(pipeline).cells, progress(pipeline).coverage) == (9, 1.0)

    set_cells(pipeline, 0, outcome="ok")
    set_cells(pipeline, 1, outcome="empty")
    set_cells(pipeline, 2, outcome="repaired")
    set_cells(pipeline, 3, outcome="verbatim")
    set_cells(pipeline, 4, outcome=None, state="ready", placed=False)
    set_cells(pipeline, 4, error_code="model_rate_limited")
    set_cells(pipeline, 5, outcome="dead", state="dead", placed=False)
    set_cells(pipeline, 6, outcome="dead")
    set_cells(pipeline, 7, outcome=None, state="ready", placed=False)
    set_cells(pipeline, 8, outcome="ok", placed=False)

    assert counted(pipeline) == {
        "ok": 2,
        "empty": 1,
        "repaired": 1,
        "verbatim": 1,
        "failed": 1,
        "dead": 2,
        "waiting": 1,
    }
    assert progress(pipeline).coverage == pytest.approx(3 / 9)
    assert not progress(pipeline).ready


def test_a_cell_opened_again_retains_its_outcome_until_it_has_another(pipeline: Stack) -> None:
    pipeline.memory.client.enqueue("bob", "s1", said("One.", "Two."))
    pipeline.drive()
    set_cells(pipeline, 0, outcome="verbatim", state="ready", error_code="model_unavailable")
    assert counted(pipeline) == {"verbatim": 1}
    assert progress(pipeline).stage is Stage.SUMMARIES


def test_waiting_for_facts_passes_by_a_dead_cell_and_says_so(pipeline: Stack) -> None:
    """Given one window that was given up, then the session reaches its facts and its summaries without it."""
    handle = pipeline.memory.client.enqueue("bob", "s1", said(*[f"I paid {n} dollars for lamp {n}." for n in range(8)]))
    bury_next_window(pipeline)
    pipeline.drive()

    found = handle.wait("facts", timeout_s=5.0)

    assert counted(pipeline) == {"ok": 2, "dead": 2}
    assert (found.dead, found.coverage, found.facts > 0) == (2, 0.5, True)
    assert handle.wait("summaries", timeout_s=5.0).ready


def test_a_dead_cell_in_the_trees_does_not_stand_in_for_a_live_one_that_is_not(pipeline: Stack) -> None:
    """Given a placed cell whose second extraction died and a cell not placed yet, then the facts are not there yet."""
    pipeline.memory.client.enqueue("bob", "s1", said("One.", "Two.", "Three.", "Four."))
    pipeline.drive()
    set_cells(pipeline, 0, state="dead", outcome="dead")
    set_cells(pipeline, 1, placed=False)
    assert progress(pipeline).stage is Stage.RAW
