"""A receipt is what the last progress of its task says, and clean only when it is done and nothing was left."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from memforest_core.lifecycle.erase.records import receipt_of
from tests.unit.erase.test_arguments import task

DONE = datetime(2024, 1, 1, tzinfo=UTC)
PROGRESS: dict[str, str | int] = {
    "phase": "scanned",
    "steps": 4,
    "at": "",
    "turns": 2,
    "facts": 1,
    "left.fact.fact_id": 0,
}


def test_counts_are_separate_from_what_was_left() -> None:
    receipt = receipt_of(replace(task({"target": "turns"}), progress=PROGRESS, state="done", finished_at=DONE))
    assert receipt.target == "turns" and receipt.actor == "tester"
    assert dict(receipt.removed) == {"turns": 2, "facts": 1}
    assert dict(receipt.left) == {"fact.fact_id": 0}
    assert receipt.clean and receipt.finished_at == DONE


def test_it_is_not_clean_while_anything_is_left_or_to_be_done() -> None:
    done = replace(task({"target": "turns"}), progress=PROGRESS, state="done", finished_at=DONE)
    assert not receipt_of(replace(done, progress=PROGRESS | {"left.fact.fact_id": 1})).clean
    assert not receipt_of(replace(done, state="running", finished_at=None)).clean
    assert not receipt_of(replace(done, state="dead")).clean
