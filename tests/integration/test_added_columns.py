"""A column that is added to a table is copied and exported by bundles, merges and rebuilds, and erased with its words, though none of them names it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.harness.servers import SessionServers


@pytest.fixture(scope="module")
def arrived(servers: SessionServers, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, list[int]]]:
    """Rows of each copied forest, and those that have the values of the added columns."""
    place = tmp_path_factory.mktemp("added")
    command = [sys.executable, "-m", "tests.harness.added_column"]
    addresses = [servers.postgres_url, servers.broker_url, servers.redis_url, str(place)]
    done = subprocess.run([*command, *addresses], capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr[-4_000:]
    found: dict[str, dict[str, list[int]]] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize(
    ("way", "tables"),
    [
        ("bundle", ("session", "turn", "cell", "candidate", "fact")),
        ("merge", ("session", "turn", "cell", "candidate", "fact")),
        # Its facts are rebuilt from the candidates.
        ("rebuild", ("session", "turn", "cell", "candidate")),
    ],
)
def test_a_new_column_travels(arrived: dict[str, dict[str, list[int]]], way: str, tables: tuple[str, ...]) -> None:
    for table in tables:
        every, stored = arrived[way][table]
        assert every == stored > 0, (way, table)


def test_a_new_column_of_words_is_erased_and_counted(arrived: dict[str, dict[str, list[int]]]) -> None:
    assert arrived["receipt"] == {table: [0, 1] for table in ("turn", "cell", "tree")}
    for table in ("turn", "cell", "tree"):
        left, every = arrived["erasure"][table]
        assert left == 0 < every, table
    assert arrived["erasure"]["other turn"] == [1, 1]
