"""What the queries of verification share."""

from __future__ import annotations

from memforest_core.store.trees import LOWEST as LOWEST_KEY

# Parameters: t (tenant), f (forests of the snapshot).
F = "forest_id = ANY(CAST(:f AS uuid[]))"
TREES = f"r.tenant_id = :t AND r.{F}"
CELLS = f"c.tenant_id = :t AND c.{F}"
LOWEST = f"({LOWEST_KEY.time}, {LOWEST_KEY.ordinal}, {LOWEST_KEY.item}, '')"


def codes(**conditions: str) -> str:
    """One row for each condition that holds."""
    rows = ", ".join(f"(({condition}), '{what}')" for what, condition in conditions.items())
    return f"CROSS JOIN LATERAL (VALUES {rows}) AS broken(yes, what) WHERE broken.yes"
