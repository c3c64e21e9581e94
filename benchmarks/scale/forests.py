"""One large forest, and many small ones: writing, refreshing, recalling, verifying and exporting what is there."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.lives import period
from benchmarks.recall_latency.__main__ import FOREST_FACTS
from benchmarks.scale.filled import ACTOR, Place, Requested
from benchmarks.scale.measuring import Costs, Meter
from memforest_core.lifecycle.verify.service import open_verification

DAY_SESSIONS = 5
"""What a day brings: 100 turns."""
RECALLS = 40
WARM_UP = 5


def one_forest(place: Place, facts: int, seed: int) -> Costs:
    """A day's sessions are reduced into one forest and refreshed; 40 recalls; verify; export."""
    with place.stack(1, facts, seed) as (meter, requested):
        _a_day(meter, "owner-0", seed)
        _recalls(meter, requested)
        _verify(meter)
        with meter.of("export"):
            meter.running.memory.lifecycle.export("owner-0", meter.index.parent / "forest.bundle", actor=ACTOR)
    return meter.costs


def many_forests(place: Place, forests: int, seed: int) -> Costs:
    """As for one forest, with so many of 100 facts: a day of one owner, recalls of 40, and all of them verified."""
    with place.stack(forests, FOREST_FACTS, seed) as (meter, requested):
        _a_day(meter, "owner-0", seed)
        _recalls(meter, requested)
        _verify(meter)
    return meter.costs


def _a_day(meter: Meter, owner: str, seed: int) -> None:
    running = meter.running
    with meter.of("enqueue"):
        for described in period(0, DAY_SESSIONS, seed):
            running.memory.client.enqueue(owner, described.session_id, described.turns)
    while running.runtime.extract():
        pass
    with meter.of("tree_insert"):
        while running.runtime.reduce():
            pass
    running.execute("UPDATE memforest.tree SET due_at = now() WHERE due_at IS NOT NULL")
    with meter.of("refresh"):
        while running.runtime.refresh():
            pass
    running.drive(rounds=10_000)


def _recalls(meter: Meter, requested: Sequence[Requested]) -> None:
    questions = [requested[number % len(requested)] for number in range(WARM_UP + RECALLS)]
    for one in questions[:WARM_UP]:
        meter.running.memory.recall(one.owner, one.text)
    with meter.of("recall"):
        for one in questions[WARM_UP:]:
            if not meter.running.memory.recall(one.owner, one.text).evidence:
                raise SystemExit(f"Nothing was found for {one.text!r}.")


def _verify(meter: Meter) -> None:
    """All forests of the tenant. Ends the program when what was filled in is not what the pipeline leaves."""
    services = meter.running.services
    with meter.of("verify"):
        report = open_verification(services.engine, services.index, services.settings).run()
    broken = {check.check.value: check.violations for check in report.checks if check.violations}
    if broken:
        raise SystemExit(f"The forests are not sound: {broken}")
