"""``python -m benchmarks.chaos``: every disturbance, one after the other; exit code 1 when one broke a promise."""

from __future__ import annotations

import argparse
import logging
import sys
import time
from dataclasses import replace

from benchmarks.chaos.conversations import conversations
from benchmarks.chaos.ground import Ground, NotSettled, Scene, ground
from benchmarks.chaos.outcome import Facts, difference, facts, ready_sessions, violations
from benchmarks.chaos.scenarios import SCENARIOS, Scenario
from benchmarks.harness import Report, Row, parser, say
from memforest_core.cli.toolkit.logs import configure_logs

SESSIONS = 200
QUICK_SESSIONS = 40
MEASURED = (
    "sessions of four turns (two cells, one extraction call) through real workers, Postgres, Valkey, the Qdrant"
    " engine over HTTP and a model server with 0.2 s latency. accepted: enqueue returned; ready: all cells placed, none"
    " dead or verbatim, summaries up to date; lost: accepted and not ready; missing_facts: candidates of the calm run"
    " attached to no fact; duplicate_facts: candidates the calm run does not have, attached twice, and doubled facts or"
    " leaves; verify: violations found by memforest verify; unkept: what the scenario promises besides;"
    " recover_s: from the end of the disturbance until nothing is left to do, indexing included"
)
ZERO = ("lost", "duplicate_facts", "missing_facts", "verify", "unkept")


def calm(place: Ground) -> Facts:
    """What comes out when nothing is disturbed: each candidate is attached to one fact."""
    started = time.monotonic()
    with place.scene("calm") as scene:
        scene.running.start_worker(processes=2)
        begun = time.monotonic()
        scene.enqueue(place.sessions)
        settled = scene.settle()
        found = facts(scene.running)
        broken = violations(scene.running)
    if not found.attached or set(found.attached.values()) != {1} or found.doubled or broken:
        raise SystemExit(f"The calm run is not right: {found.doubled} doubled, {broken} violations.")
    say(f"calm: {len(found.attached)} candidates, {settled - begun:.1f} s, {time.monotonic() - started:.1f} s in all")
    return found


def played(place: Ground, scenario: Scenario, expected: Facts, n: int) -> Row:
    """Play one scenario and count."""
    started = time.monotonic()
    name = f"{scenario.number}-{scenario.name}"
    with place.scene(
        name, faults=scenario.faults, without_index=scenario.without_index, settings=scenario.settings
    ) as scene:
        result = scenario.play(scene)
        settled, stuck = _settled(scene)
        if scenario.after is not None:
            more, unkept = scenario.after(scene)
            result = replace(result, details=result.details | more, faults=result.faults + unkept)
        accepted = len(scene.accepted)
        ready = ready_sessions(scene.client, scene.accepted)
        against = difference(expected, facts(scene.running))
        row: Row = {
            "scenario": scenario.number,
            "name": scenario.name,
            "n": n,
            "seed": place.seed,
            "accepted": accepted,
            "ready": ready,
            "lost": accepted - ready,
            "duplicate_facts": against.duplicate,
            "missing_facts": against.missing,
            "recover_s": None if stuck else round(max(0.0, settled - result.ended), 2),
            "verify": violations(scene.running),
            "unkept": result.faults + (n - accepted),
            **result.details,
        }
    row["duration_s"] = round(time.monotonic() - started, 1)
    say("  ".join(f"{key}={value}" for key, value in row.items()))
    return row


def _settled(scene: Scene) -> tuple[float, bool]:
    """When everything was done, and whether it never was."""
    try:
        return scene.settle(), False
    except NotSettled as error:
        say(str(error))
        return time.monotonic(), True


def passed(row: Row) -> bool:
    """Whether no promise was broken and the system recovered."""
    return all(row[name] == 0 for name in ZERO) and row["recover_s"] is not None


def numbers(text: str) -> list[int]:
    """Scenario numbers from a list with commas."""
    known = {scenario.number for scenario in SCENARIOS}
    try:
        wanted = [int(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError("give numbers, such as 1,2") from None
    if unknown := [number for number in wanted if number not in known]:
        raise argparse.ArgumentTypeError(f"there is no scenario {unknown[0]}")
    return wanted


def main() -> None:
    """Run from the command line."""
    options = parser(__doc__ or "")
    options.add_argument("--scenario", type=numbers, metavar="1,2", help="which scenarios (default: all)")
    options.add_argument("--sessions", type=int, default=SESSIONS, metavar="N", help="in each (default: %(default)s)")
    options.add_argument("--quick", action="store_true", help=f"{QUICK_SESSIONS} sessions in each")
    chosen = options.parse_args()
    configure_logs(logging.ERROR)
    report = Report(chosen.seed, chosen.json)
    count = QUICK_SESSIONS if chosen.quick else chosen.sessions
    wanted = chosen.scenario or [scenario.number for scenario in SCENARIOS]
    started = time.monotonic()
    with ground(conversations(count, chosen.seed), chosen.seed) as place:
        expected = calm(place)
        rows = [played(place, one, expected, count) for one in SCENARIOS if one.number in wanted]
    candidates = len(expected.attached)
    seconds = round(time.monotonic() - started, 1)
    report.end(rows, {"what": MEASURED, "sessions": count, "candidates": candidates, "seconds": seconds})
    sys.exit(0 if all(passed(row) for row in rows) else 1)


if __name__ == "__main__":
    main()
