"""A program that adds columns to the tables before anything else is imported, and prints where their values arrive."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import sqlalchemy as sa

from memforest_core.store import tables as m

ADDED = {"session": "mood", "turn": "mood", "cell": "mood", "candidate": "trust", "fact": "mood", "tree": "mood"}
TYPES = {"mood": ("text", "'warm'"), "trust": ("integer NOT NULL DEFAULT 0", "7")}
_OF_OWNER = {
    "session": "f.forest_id = x.forest_id",
    "turn": "x.session_id IN (SELECT session_id FROM memforest.session s WHERE s.forest_id = f.forest_id)",
    "cell": "f.forest_id = x.forest_id",
    "candidate": "x.cell_id IN (SELECT cell_id FROM memforest.cell c WHERE c.forest_id = f.forest_id)",
    "fact": "f.forest_id = x.forest_id",
    "tree": "f.forest_id = x.forest_id",
}


def add_to_metadata() -> None:
    """What a migration and the tables of the next version would have."""
    for table, name in ADDED.items():
        type_ = sa.Text() if name == "mood" else sa.Integer()
        default = None if name == "mood" else sa.text("0")
        policy = m.WORDS if name == "mood" else {}
        column: sa.Column[object] = sa.Column(name, type_, nullable=name == "mood", server_default=default, info=policy)
        m.Base.metadata.tables[f"memforest.{table}"].append_column(column)


def run(postgres_url: str, broker_url: str, redis_url: str, directory: Path) -> dict[str, dict[str, list[int]]]:
    """For each way of copying and each table: rows of the new forest, and rows with the value.

    ``erasure`` has, for the receipt and for rows that outlive their words: values that are left, and rows.
    """
    from tests.harness.sayings import said
    from tests.harness.servers import SessionServers
    from tests.harness.stack import Stack, stack

    def arrived(running: Stack, owner: str) -> dict[str, list[int]]:
        found = {}
        for table, name in ADDED.items():
            row = running.rows(
                f"""SELECT count(*) AS every, count(*) FILTER (WHERE x.{name} = {TYPES[name][1]}) AS filled
                      FROM memforest.{table} x, memforest.forest f
                     WHERE f.owner = :owner AND f.state = 'live' AND {_OF_OWNER[table]}""",
                owner=owner,
            )[0]
            found[table] = [row.every, row.filled]
        return found

    servers = SessionServers(postgres_url, broker_url, redis_url, None)
    with stack(servers, directory) as running:
        for table, name in ADDED.items():
            running.execute(f"ALTER TABLE memforest.{table} ADD COLUMN {name} {TYPES[name][0]}")
        running.memory.ingest("bob", "s1", said("I live in Davis.", "My sister Clara has a dog called Rufus."))
        running.drive()
        for table, name in ADDED.items():
            running.execute(f"UPDATE memforest.{table} SET {name} = {TYPES[name][1]}")
        lifecycle, path = running.services.lifecycle, directory / "bob.memforest"
        lifecycle.bundles.export(running.tenant, "bob", path, actor="test")
        lifecycle.bundles.import_(running.tenant, path, "ann", actor="test")
        found = {"bundle": arrived(running, "ann")}
        lifecycle.merging.ask(running.tenant, ["ann"], "eve", actor="test")
        running.drive()
        found["merge"] = arrived(running, "eve")

        from memforest_core.lifecycle.rebuild.records import Options

        old = running.services.operations.find_forest(running.tenant, "bob")
        lifecycle.rematerializing.ask(running.tenant, "bob", Options({"session_k": 4}), actor="test")
        for _ in range(30):
            running.execute("UPDATE memforest.maintenance SET available_at = now() WHERE state = 'ready'")
            running.drive()
        assert running.services.operations.find_forest(running.tenant, "bob") != old
        found["rebuild"] = arrived(running, "bob")

        for table, name in ADDED.items():
            running.execute(f"UPDATE memforest.{table} SET {name} = {TYPES[name][1]}")
        task = lifecycle.erasure.ask(running.tenant, "bob", session="s1", turns=["turn@0"], actor="test")
        while running.services.maintenance.tasks.run_one(running.tenant, running.runtime.worker):
            pass
        left = lifecycle.erasure.receipt(running.tenant, task).left
        found["receipt"] = {table: [left[f"{table}.mood"], 1] for table in ("turn", "cell", "tree")}
        rows = {
            "turn": f"x.ordinal = 0 AND {_OF_OWNER['turn']}",
            "cell": f"x.first_turn = 1 AND {_OF_OWNER['cell']}",
            "tree": f"x.kind = 'session' AND {_OF_OWNER['tree']}",
            "other turn": f"x.ordinal = 1 AND {_OF_OWNER['turn']}",
        }
        found["erasure"] = {}
        for called, where in rows.items():
            row = running.rows(
                f"""SELECT count(x.mood) AS left, count(*) AS every FROM memforest.{called.split()[-1]} x, memforest.forest f
                     WHERE f.owner = 'bob' AND f.state = 'live' AND {where}"""
            )[0]
            found["erasure"][called] = [row.left, row.every]
    return found


if __name__ == "__main__":
    add_to_metadata()
    sys.stdout.write(json.dumps(run(sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4]))))
