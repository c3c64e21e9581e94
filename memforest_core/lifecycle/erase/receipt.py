"""The receipt of a deletion: what was removed, and what a search for it found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from memforest_core.domain.documents import plain
from memforest_core.lifecycle.erase.records import LEFT
from memforest_core.work.records import OperationTask, TaskId


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a deletion removed, and what a search for it found.

    ``removed`` counts by what it was: turns, cells, facts, leaves, summaries, points and so on; ``left`` counts
    references that were found afterwards, by table.column, and points of the index: all 0 when it is ``clean``.
    """

    task: TaskId
    target: str
    actor: str
    removed: Mapping[str, int]
    left: Mapping[str, int]
    asked_at: datetime
    finished_at: datetime | None
    planned: bool = False
    """It was a dry run: nothing was removed."""
    vacuumed: bool = False
    """Whether Postgres has since removed the deleted rows from its files (VACUUM); no query reads them before."""

    @property
    def clean(self) -> bool:
        """Whether it is done and nothing was left."""
        return self.finished_at is not None and not any(self.left.values())

    def to_dict(self) -> dict[str, Any]:
        """The receipt as JSON values, by the names of the fields, and whether it is ``clean``."""
        return {**plain(self), "clean": self.clean}


_NOT_COUNTS = ("phase", "steps", "at", "after", "mark")


def receipt_of(task: OperationTask) -> Receipt:
    """The receipt that a task's last progress is."""
    counts = {name: int(count) for name, count in task.progress.items() if name not in _NOT_COUNTS}
    return Receipt(
        task=task.id,
        target=str(task.arguments.get("target", "")),
        actor=task.actor,
        removed={name: count for name, count in counts.items() if not name.startswith(LEFT)},
        left={name.removeprefix(LEFT): count for name, count in counts.items() if name.startswith(LEFT)},
        asked_at=task.created_at,
        finished_at=task.finished_at if task.fulfilled else None,
        planned=task.dry_run,
    )
