"""The stages of the write path while they happen: what is shown of them, and when each was complete."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Self

from memforest_core.cli.toolkit.output import console, printable
from memforest_core.errors import ModelRejected
from memforest_core.work.rows.pace import NEEDS_A_PERSON
from memforest_core.work.waiting import WaitTimeout, polled, waited

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from memforest_core.client.api import MemForest
    from memforest_core.observe.records import Totals, Trouble

POLL_S = 0.05
NUDGE_S = 1.0
NUDGE_TIMEOUT_S = 0.02
LINE_S = 3.0
"""Without a terminal a line is written this often at most."""


def stages(totals: Totals) -> dict[str, tuple[int, int]]:
    """(done, of how many) per stage."""
    cells = totals.cells_total
    return {
        "turns accepted": (totals.turns, totals.turns),
        "raw cells indexed": (totals.indexed_cells, cells),
        "cells extracted": (totals.cells_extracted, cells),
        "cells placed": (totals.cells.get("placed", 0), cells),
        "trees refreshed": (totals.trees - totals.dirty_trees, totals.trees),
    }


@dataclass(slots=True)
class Milestones:
    """When each stage was first seen complete, in seconds since ``started`` (perf_counter)."""

    started: float
    reached: dict[str, float] = field(default_factory=dict)

    def see(self, totals: Totals) -> None:
        """Note what is complete now. Trees count once every cell is placed: before that more are coming."""
        now = time.perf_counter() - self.started
        seen = stages(totals)
        for name, (done, of) in seen.items():
            complete = done >= of > 0
            if name == "trees refreshed":
                complete = complete and totals.settled
            if complete:
                self.reached.setdefault(name, now)


class StageProgress:
    """One bar a stage on stderr; lines where stderr is no terminal."""

    def __init__(self, *, shown: bool) -> None:
        self._shown = shown
        self._bars: Progress | None = None
        self._tasks: dict[str, TaskID] = {}
        self._next_line = 0.0
        self._last: dict[str, tuple[int, int]] = {}
        self._printed: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Draw no more."""
        if self._bars is not None:
            self._bars.stop()

    def show(self, totals: Totals, troubles: Sequence[Trouble] = ()) -> None:
        """Draw what is done now; name each reason to wait once."""
        now = stages(totals)
        if not self._shown:
            return
        for trouble in troubles:
            if trouble.reason not in self._printed:
                self._printed.add(trouble.reason)
                where = console(stderr=True) if self._bars is None else self._bars.console
                where.print(f"{trouble.state}: {printable(trouble.reason)} [{trouble.code}]", style="yellow")
        if sys.stderr.isatty():
            self._draw(now)
        elif now != self._last and (time.monotonic() >= self._next_line or totals.settled):
            self._last, self._next_line = now, time.monotonic() + LINE_S
            print(" · ".join(f"{name} {done}/{of}" for name, (done, of) in now.items()), file=sys.stderr, flush=True)

    def _draw(self, now: dict[str, tuple[int, int]]) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        if self._bars is None:
            self._bars = Progress(
                TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), console=console(stderr=True)
            )
            self._bars.start()
            self._tasks = {name: self._bars.add_task(name) for name in now}
        for name, (done, of) in now.items():
            self._bars.update(self._tasks[name], completed=done, total=of)


def follow(memory: MemForest, owner: str, watch: StageProgress, milestones: Milestones, timeout_s: float) -> Totals:
    """Show progress until everything accepted for the owner is placed, refreshed and indexed; the final totals.

    Raises WaitTimeout, and ModelRejected as soon as a model refuses what only a person can change.
    """
    inspection, tenant = memory.services.inspection, memory.client.tenant

    def poll() -> Totals | None:
        state = inspection.forest(tenant, owner)
        watch.show(state.totals, state.troubles)
        milestones.see(state.totals)
        if state.totals.settled:
            return state.totals
        refuse_hopeless(state.troubles)
        return None

    nudge = partial(_nudge, memory, owner)
    totals = waited(polled(poll, timeout_s, POLL_S, nudge=nudge, nudge_s=NUDGE_S, first_nudge_s=0.0))
    if totals is None:
        raise WaitTimeout(f"The demo is not done after {timeout_s:g} s: give it longer with --timeout.")
    return totals


def refuse_hopeless(troubles: tuple[Trouble, ...]) -> None:
    """Raise ModelRejected with the model's own reason when waiting can't help."""
    for trouble in troubles:
        if trouble.code in NEEDS_A_PERSON:
            raise ModelRejected(trouble.reason, code=trouble.code)


def _nudge(memory: MemForest, owner: str) -> None:
    """Make dirty trees due now instead of after their quiet period."""
    with suppress(WaitTimeout):
        memory.flush(owner, timeout_s=NUDGE_TIMEOUT_S)
