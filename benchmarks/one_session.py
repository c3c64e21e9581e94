"""How long one session waits from ``enqueue`` until all its facts are in their trees, and where that time goes."""

from __future__ import annotations

import logging
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

import httpx

from benchmarks.chaos.ground import Scene, ground
from benchmarks.harness import Report, Row, parser, say
from benchmarks.lives import TURNS, period
from memforest_core.cli.toolkit.logs import configure_logs
from memforest_core.domain.chat_messages import TurnInput

CELLS = 40
"""80 turns, of which the user states something in every second one."""
RUNS = 20
LATENCY_S = 0.3
CONCURRENCY = 8
OVER = 1.15
SLACK_S = 0.2
"""What is allowed: so many times one call, and so many seconds."""
WAIT_TIMEOUT_S = 120.0
MEASURED = (
    "one session at a time on an idle deployment with one worker process: seconds from the call of enqueue until"
    " handle.wait('facts') returns. to_call_s: until the model is first asked (accepting, waking, raw cells' vectors);"
    " calling_s: until its last answer of this session; calls_in_sequence: the most of these calls that followed each"
    " other; extracting_s: until the last cell is extracted (parsing, facts' vectors); reducing_s: until its facts are"
    " in the trees; noticing_s: the caller's polling. All medians. most_s: 1.15 times one call and the slack"
)
_ENDED = """
    SELECT extract(epoch FROM clock_timestamp() - max(c.extracted_at))::float8 AS extracted_ago,
           extract(epoch FROM clock_timestamp() - max(c.placed_at))::float8 AS placed_ago, count(*) AS cells
      FROM memforest.cell c JOIN memforest.session s USING (tenant_id, session_id) WHERE s.external_id = :session
"""


@dataclass(frozen=True, slots=True)
class Waited:
    """One session's way, in seconds from the call of enqueue."""

    accepted: float
    called: float
    answered: float
    extracted: float
    placed: float
    noticed: float
    calls: int
    in_sequence: int
    cells: int

    def parts(self) -> dict[str, float]:
        """Each from the one before."""
        return {
            "accepting_s": self.accepted,
            "to_call_s": self.called - self.accepted,
            "calling_s": self.answered - self.called,
            "extracting_s": self.extracted - self.answered,
            "reducing_s": self.placed - self.extracted,
            "noticing_s": self.noticed - self.placed,
        }


def session(number: int, cells: int, seed: int) -> list[TurnInput]:
    """Turns that state something, each followed by a short answer."""
    told = [turn for each in period(number, -(-cells // TURNS), seed) for turn in each.turns][:cells]
    made: list[TurnInput] = []
    for turn in told:
        made += [turn, {"role": "assistant", "content": "I see.", "timestamp": turn["timestamp"]}]
    return made


def in_sequence(calls: Sequence[tuple[float, float]]) -> int:
    """The longest chain of (start, end) that each began after the one before had ended."""
    longest: list[tuple[float, int]] = []
    for start, end in sorted(calls, key=lambda call: call[1]):
        longest.append((end, 1 + max((count for before, count in longest if before <= start), default=0)))
    return max((count for _, count in longest), default=0)


def waited(scene: Scene, number: int, cells: int, seed: int) -> Waited:
    """Enqueue one session of a new owner and wait for its facts."""
    running, name = scene.running, f"one-{number}"
    assert running.model is not None
    turns, asked = session(number, cells, seed), running.control_model()["requests"]
    began = time.monotonic()
    handle = scene.client.enqueue(f"owner-{number}", name, turns)
    accepted = time.monotonic()
    handle.wait("facts", WAIT_TIMEOUT_S)
    noticed = time.monotonic()
    row = running.rows(_ENDED, session=name)[0]
    looked = time.monotonic()
    # The server's clock is this machine's monotonic one. Calls for summaries come when the facts are there.
    extracted = looked - row.extracted_ago
    received = httpx.get(running.model.removesuffix("/v1") + "/requests", timeout=60.0).raise_for_status().json()
    calls = [
        (call["started"], call["ended"])
        for call in received[asked:]
        if call["ended"] is not None and call["ended"] <= extracted
    ]
    return Waited(
        accepted - began,
        min(start for start, _ in calls) - began,
        max(end for _, end in calls) - began,
        extracted - began,
        looked - row.placed_ago - began,
        noticed - began,
        len(calls),
        in_sequence(calls),
        row.cells,
    )


def main() -> None:
    """Run from the command line."""
    options = parser(__doc__ or "")
    options.add_argument("--cells", type=int, default=CELLS, metavar="N", help="of each session (default: %(default)s)")
    options.add_argument("--runs", type=int, default=RUNS, metavar="N", help="sessions (default: %(default)s)")
    options.add_argument("--latency", type=float, default=LATENCY_S, metavar="S", help="of the model server")
    options.add_argument("--slack", type=float, default=SLACK_S, metavar="S", help="allowed beside the call")
    chosen = options.parse_args()
    configure_logs(logging.ERROR)
    report = Report(chosen.seed, chosen.json)
    found: list[Waited] = []
    with ground([], chosen.seed) as place, place.scene("one", latency_s=chosen.latency, measured=True) as scene:
        scene.running.start_worker(concurrency=CONCURRENCY)
        for number in range(chosen.runs + 1):
            one = waited(scene, number, chosen.cells, chosen.seed)
            say("  ".join(f"{name}={value:.3f}" for name, value in one.parts().items()) + f"  calls={one.calls}")
            # The first one warms up.
            found += [one] if number else []
            scene.settle()
    seconds = sorted(one.noticed for one in found)
    most = OVER * chosen.latency + chosen.slack
    row: Row = {
        "cells": found[0].cells,
        "n": len(found),
        "seed": chosen.seed,
        "p50_s": round(statistics.median(seconds), 3),
        "p90_s": round(seconds[int(0.9 * (len(seconds) - 1))], 3),
        "most_s": round(most, 3),
        "calls": round(statistics.median(one.calls for one in found), 1),
        "calls_in_sequence": max(one.in_sequence for one in found),
        **{name: round(statistics.median(one.parts()[name] for one in found), 3) for name in found[0].parts()},
    }
    report.end([row], {"what": MEASURED, "latency_s": chosen.latency, "concurrency": CONCURRENCY})
    sys.exit(0 if statistics.median(seconds) <= most else 1)


if __name__ == "__main__":
    main()
