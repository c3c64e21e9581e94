"""What a run has come to: its candidates and where each is attached, compared with a calm run's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from benchmarks.harness import say
from memforest_core.client.producer import MemForestClient
from memforest_core.client.services.service import open_services
from memforest_core.errors import NotFound
from memforest_core.ingest.accept.records import SessionProgress
from memforest_core.lifecycle.verify.service import open_verification
from tests.harness.processes import Deployment

Candidate = tuple[str, str, int, int, str, tuple[int, ...]]
"""Owner, session, cell ordinal, item, sentence and turn ordinals: what does not depend on a forest's random id."""

_CANDIDATES = """
    SELECT f.owner, s.external_id, c.ordinal, k.item, k.statement->>'text', k.turn_ordinals, count(o.fact_id)
      FROM memforest.candidate k
      JOIN memforest.cell c USING (tenant_id, cell_id)
      JOIN memforest.session s USING (tenant_id, session_id)
      JOIN memforest.forest f ON f.tenant_id = s.tenant_id AND f.forest_id = s.forest_id
      LEFT JOIN memforest.occurrence o ON o.tenant_id = k.tenant_id AND o.cell_id = k.cell_id AND o.item = k.item
     GROUP BY 1, 2, 3, 4, 5, 6
"""

# One sentence and time is one fact of a forest (an undated event is one a day), and one leaf of each of its trees.
_DOUBLED = """
    SELECT coalesce(sum(extra), 0) FROM (
        SELECT count(*) - 1 AS extra FROM memforest.fact
         GROUP BY tenant_id, forest_id, normalized, time_start, time_end,
                  CASE WHEN attribute = '' OR statement->>'change' <> 'none' THEN date_trunc('day', mentioned_at) END
        UNION ALL
        SELECT count(*) - 1 FROM memforest.node WHERE level = 0 GROUP BY tenant_id, tree_id, payload_id) AS groups
"""

_BACKLOG = """
    SELECT (SELECT count(*) FROM memforest.cell WHERE NOT placed AND state <> 'dead') AS cells,
           (SELECT count(*) FROM memforest.cell WHERE outcome = 'verbatim' OR retry_at IS NOT NULL) AS verbatim,
           (SELECT count(*) FROM memforest.tree WHERE due_at IS NOT NULL) AS trees,
           (SELECT count(*) FROM memforest.index_row WHERE state IN ('ready', 'running')) AS points,
           (SELECT count(*) FROM memforest.collection WHERE live AND generation IS NULL)
             + (SELECT count(*) FROM memforest.maintenance
                 WHERE kind = 'index_parity' AND state IN ('held', 'ready', 'running')) AS comparisons
"""


# Which rows hold a run up, without a word of what was said.
_CURRENT = """
    SELECT 'cell ' || state || ' ' || coalesce(outcome, '-') || ' ' || coalesce(error_code, '-') AS what, count(*),
           round(extract(epoch FROM max(lease_until) - clock_timestamp())), max(attempts), max(lost_leases)
      FROM memforest.cell WHERE NOT placed OR outcome = 'verbatim' OR retry_at IS NOT NULL GROUP BY 1
    UNION ALL
    SELECT 'node ' || state || ' ' || coalesce(error_code, '-'), count(*),
           round(extract(epoch FROM max(lease_until) - clock_timestamp())), max(attempts), max(lost_leases)
      FROM memforest.node WHERE state <> 'done' GROUP BY 1
    UNION ALL
    SELECT 'point ' || kind || ' ' || state, count(*),
           round(extract(epoch FROM max(lease_until) - clock_timestamp())), max(attempts), max(lost_leases)
      FROM memforest.index_row WHERE state <> 'done' GROUP BY 1
    UNION ALL
    SELECT 'comparison ' || state, count(*), round(extract(epoch FROM max(lease_until) - clock_timestamp())),
           max(attempts), max(lost_leases)
      FROM memforest.maintenance WHERE kind = 'index_parity' AND state <> 'done' GROUP BY 1
"""


@dataclass(frozen=True, slots=True)
class Left:
    """What is still to be done, over all owners."""

    cells: int
    """Not yet in the trees."""
    verbatim: int
    """Stored word by word for now, or waiting to be extracted again."""
    trees: int
    points: int
    comparisons: int
    """Of the index with its rows. One follows when points were written before the first mark; until it is done answers
    say, as they should, that something may be missing."""

    def __bool__(self) -> bool:
        return bool(self.cells or self.verbatim or self.trees or self.points or self.comparisons)


@dataclass(frozen=True, slots=True)
class Facts:
    """All candidates of a run with the number of facts each is attached to, and how many rows are there twice."""

    attached: Counter[Candidate]
    doubled: int


@dataclass(frozen=True, slots=True)
class Difference:
    """A run against the calm one."""

    missing: int
    """Candidates of the calm run that no fact has."""
    duplicate: int
    """Candidates attached to more than one fact, those the calm run does not have, and doubled rows."""


def left(running: Deployment) -> Left:
    """What is still to be done."""
    row = running.rows(_BACKLOG)[0]
    return Left(row.cells, row.verbatim, row.trees, row.points, row.comparisons)


def current(running: Deployment) -> str:
    """Work that is not done: kind and state, rows, seconds left of the longest lease, most attempts, lost leases."""
    rows = running.rows(_CURRENT)
    return "\n".join(f"{row[0]}: {row[1]} rows, lease {row[2]} s, {row[3]} attempts, {row[4]} lost" for row in rows)


def facts(running: Deployment) -> Facts:
    """Everything that was extracted, and where it is attached."""
    attached: Counter[Candidate] = Counter()
    for owner, session, ordinal, item, text, turns, count in running.rows(_CANDIDATES):
        attached[(owner, session, ordinal, item, text, tuple(turns))] = count
    return Facts(attached, running.scalar(_DOUBLED))


def difference(calm: Facts, run: Facts) -> Difference:
    """What is missing in the run, and what it has too much of."""
    missing = sum(1 for candidate in calm.attached if not run.attached[candidate])
    unexpected = sum(1 for candidate in run.attached if candidate not in calm.attached)
    twice = sum(max(0, count - 1) for count in run.attached.values())
    return Difference(missing, unexpected + twice + run.doubled)


def is_ready(progress: SessionProgress) -> bool:
    """Whether a session has all that was said in it: read by the model, in the trees, summaries up to date."""
    return progress.ready and progress.covered == progress.cells


def ready_sessions(client: MemForestClient, accepted: Iterable[tuple[str, str]]) -> int:
    """How many of these (owner, session id) are ready; one that is unknown is not."""
    count = 0
    for owner, session_id in accepted:
        try:
            count += is_ready(client.status(owner, session_id))
        except NotFound:
            continue
    return count


def violations(running: Deployment) -> int:
    """How many, over everything in the database and the index; a check that could not be made counts as one."""
    services = open_services(running.settings)
    try:
        services.index.prepare()
        report = open_verification(services.engine, services.index, services.settings).run()
    finally:
        services.close()
    count = 0
    for result in report.checks:
        broken = result.violations + (result.not_checked is not None)
        if broken:
            say(f"verify: {result.check.value}: {broken} of {result.checked}, such as {result.examples[:2]}")
        count += broken
    return count
