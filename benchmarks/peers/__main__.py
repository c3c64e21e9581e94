"""MemForest, mem0 and hindsight with the same sessions, the same model server over HTTP and the same embedder.

A row a system and latency of the model's chat: sessions a minute until their facts can be recalled, calls and tokens
until nothing is left to do, recall, memory of all processes, and what is left after kill -9 in the middle. ``make
peers`` installs the peers first. A system that can't run here gets a row that says why.
"""

from __future__ import annotations

import subprocess
from importlib.metadata import version
from pathlib import Path

from benchmarks.harness import Report, Row, parser, say
from benchmarks.peers.measuring import SYSTEMS, K, in_peace, with_kill
from benchmarks.peers.sessions import made, read
from benchmarks.peers.systems import PeerUnavailable, environment_of
from tests.harness.provider_tokens import NAME

PACKAGES = {"mem0": "mem0ai", "hindsight": "hindsight-api-slim"}
MEASURED = (
    "the same facts for all, stated by our offline rules; MiniLM for all, over HTTP, without added latency; p50 and p95"
    f" in ms over all questions, one at a time; found: share of questions whose detail is in the first {K} pieces;"
    " memory_mb: PSS of all its processes and its database"
)


def version_of(system: str) -> str:
    """Of the package that is measured. Raises PeerAway."""
    peer = system.split(",")[0]
    if peer not in PACKAGES:
        return version("memforest")
    requested = f"import importlib.metadata as m; print(m.version({PACKAGES[peer]!r}))"
    python = environment_of(peer) / "python"
    return subprocess.run([python, "-c", requested], capture_output=True, text=True, check=True).stdout.strip()


def main() -> None:
    """Run and print."""
    options = parser(__doc__ or "")
    options.add_argument("--sessions", type=int, default=60, metavar="N")
    options.add_argument("--turns", type=int, default=20, metavar="N", help="of a session")
    options.add_argument("--file", type=Path, help="sessions to use instead: JSON lines, see sessions.read")
    options.add_argument("--latency-ms", type=int, nargs="+", default=[0, 300], metavar="MS")
    options.add_argument("--systems", nargs="+", choices=list(SYSTEMS), default=list(SYSTEMS))
    chosen = options.parse_args()
    report = Report(chosen.seed, chosen.json)
    sessions = read(chosen.file) if chosen.file else made(chosen.sessions, chosen.turns, chosen.seed)
    rows: list[Row] = []
    for latency in chosen.latency_ms:
        for name in chosen.systems:
            row: Row = {"system": name, "latency_ms": latency, "sessions": len(sessions)}
            try:
                row["version"] = version_of(name)
                measured, calls = in_peace(SYSTEMS[name], sessions, latency / 1_000, chosen.seed)
                row |= measured | with_kill(SYSTEMS[name], sessions, latency / 1_000, chosen.seed, calls)
            except PeerUnavailable as why:
                row["failed"] = str(why)
            say(f"{row}")
            rows.append(row)
    turns = sum(len(each.turns) for each in sessions)
    report.end(rows, {"what": MEASURED, "turns": turns, "tokens": NAME})


if __name__ == "__main__":
    main()
