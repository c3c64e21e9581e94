"""What the checks' queries share: the rows of a snapshot's forests, their counts, and violations by their codes."""

# ruff: noqa: S608 - statements are made of constants of this package

from __future__ import annotations

# Parameters: t (tenant), f (forests of the snapshot).
F = "forest_id = ANY(CAST(:f AS uuid[]))"
TREES = f"r.tenant_id = :t AND r.{F}"
CELLS = f"c.tenant_id = :t AND c.{F}"
FACTS = f"x.tenant_id = :t AND x.{F}"
SESSIONS = f"s.tenant_id = :t AND s.{F}"

NODES_OF_TREES = "memforest.tree r JOIN memforest.node n ON n.tenant_id = :t AND n.tree_id = r.tree_id"

COUNT_SESSIONS = f"SELECT count(*) FROM memforest.session s WHERE {SESSIONS}"
COUNT_CELLS = f"SELECT count(*) FROM memforest.cell c WHERE {CELLS}"
COUNT_FACTS = f"SELECT count(*) FROM memforest.fact x WHERE {FACTS}"
COUNT_TREES = f"SELECT count(*) FROM memforest.tree r WHERE {TREES}"
COUNT_NODES = f"SELECT count(*) FROM {NODES_OF_TREES} WHERE {TREES}"
COUNT_POINTS = f"SELECT count(*) FROM memforest.index_row i WHERE i.tenant_id = :t AND i.{F}"


def codes(**conditions: str) -> str:
    """One row for each condition that holds."""
    rows = ", ".join(f"(({condition}), '{what}')" for what, condition in conditions.items())
    return f"CROSS JOIN LATERAL (VALUES {rows}) AS broken(yes, what) WHERE broken.yes"
