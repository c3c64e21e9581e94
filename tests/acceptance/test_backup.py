"""Backup and restore by their commands, with kill -9 in between: never half a memory, and always a way on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

from memforest_core.assistant.topics.cooling import TopicCooling
from memforest_core.cli.program import app
from memforest_core.client.api import MemForest
from memforest_core.errors import InvalidSettings
from memforest_core.lifecycle.rebuild.records import Options
from memforest_core.store.schema import head_revision
from tests.harness.next_version import become_next_version
from tests.harness.processes import MEMFOREST, IndexServer, environment, settings_from
from tests.harness.sayings import said
from tests.harness.servers import SessionServers
from tests.harness.stack import Stack, admin, at, stack

TIMEOUT_S = 150.0
QUESTION = "Where do I live?"


class Ended(NamedTuple):
    """How a command ended."""

    returncode: int
    stdout: str
    stderr: str


def run(*command: str | Path, **variables: str) -> Ended:
    """A command that nobody kills, in this process: starting one takes longer than its work."""
    ended = CliRunner().invoke(app, list(map(str, command)), env=variables)
    return Ended(ended.exit_code, ended.stdout, " ".join(ended.stderr.split()))


def done(*command: str | Path, **variables: str) -> dict[str, Any]:
    """What a command that ends well prints."""
    ended = run(*command, "--json", **variables)
    assert ended.returncode == 0, ended.stderr
    printed: dict[str, Any] = json.loads(ended.stdout)
    return printed


@contextmanager
def begun(*command: str | Path, **variables: str) -> Iterator[subprocess.Popen[bytes]]:
    """A command that is killed with -9 at the end."""
    process = subprocess.Popen([*MEMFOREST, *map(str, command)], env=environment(**variables))
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def value(url: str, statement: str, **values: object) -> Any:
    """What a query finds, in a transaction of its own."""
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.connect() as connection:
        return connection.scalar(sa.text(statement), values)


def until(condition: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert process.poll() is None, "it ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.02)


@contextmanager
def locked(url: str, table: str, mode: str) -> Iterator[None]:
    """A lock that stops every process at this table."""
    engine = sa.create_engine(url)
    try:
        with engine.begin() as connection:
            connection.execute(sa.text(f"LOCK TABLE memforest.{table} IN {mode} MODE"))
            yield
    finally:
        engine.dispose()


def waits_for(servers: SessionServers, table: str, database: str) -> bool:
    return bool(
        value(
            at(servers.postgres_url, database=database),
            "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = to_regclass(:t)"
            " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
            t=f"memforest.{table}",
        )
    )


@pytest.fixture
def source(servers: SessionServers, tmp_path: Path) -> Iterator[Stack]:
    """A memory with facts, summaries and vectors."""
    with stack(servers, tmp_path / "source") as made:
        made.memory.ingest("bob", "s1", said("I live in Oslo.", "Nice.", "I work at Acme.", "Good."))
        made.drive()
        yield made


def owner_variables(source: Stack) -> dict[str, str]:
    database = source.settings.database
    assert database.migration_url is not None
    return {
        "MEMFOREST_DATABASE__URL": database.url.get_secret_value(),
        "MEMFOREST_DATABASE__MIGRATION_URL": database.migration_url.get_secret_value(),
    }


@pytest.fixture
def target(servers: SessionServers, tmp_path: Path) -> Iterator[Mapping[str, str]]:
    """The settings of a new deployment: an empty database, an empty index."""
    name = f"restored_{uuid4().hex}"
    admin(servers, f"CREATE DATABASE {name}")
    index = IndexServer(tmp_path / "qdrant")
    index.start()
    try:
        yield {
            "MEMFOREST_DATABASE__URL": at(servers.postgres_url, database=name, user="memforest_app"),
            "MEMFOREST_DATABASE__MIGRATION_URL": at(servers.postgres_url, database=name),
            "MEMFOREST_BROKER__URL": servers.broker_url,
            "MEMFOREST_INDEX__URL": index.url,
            "INDEX_PID": str(index.pid),
            "DATABASE": name,
        }
    finally:
        os.kill(index.pid, signal.SIGCONT)
        index.kill()
        admin(servers, f"DROP DATABASE {name} WITH (FORCE)")


def contents(url: str) -> dict[str, list[str]]:
    """Every row of every table that a backup is of, as text."""
    engine = sa.create_engine(url)
    left_out = ("worker", "migration", "schema_version", "collection", "index_row", "maintenance", "maintenance_forest")
    try:
        with engine.connect() as connection:
            names = connection.scalars(sa.text("SELECT tablename FROM pg_tables WHERE schemaname = 'memforest'")).all()
            return {
                name: sorted(map(str, connection.scalars(sa.text(f"SELECT t::text FROM memforest.{name} t"))))
                for name in names
                if name not in left_out
            }
    finally:
        engine.dispose()


def has_facts(url: str) -> bool:
    """A read of one table: of all of them in one transaction it could be what a restore waits for, and the reverse."""
    there = value(url, "SELECT to_regclass('memforest.fact') IS NOT NULL")
    return bool(there and value(url, "SELECT EXISTS (SELECT 1 FROM memforest.fact)"))


LONG = {"tea": "I drink jasmine tea. ", "boat": "I own a boat called Plimsoll. "}


def packed(source: Stack) -> dict[str, list[str]]:
    """Two topics, of which one is cold and packed; what was said in both."""
    said_there = {name: [f"{line}{n} " * 120 for n in range(2)] for name, line in LONG.items()}
    for number, (name, lines) in enumerate(said_there.items()):
        source.memory.ingest("sam", name, said(*lines, start=1_700_000_000 + number * 8_640_000))
    source.drive()
    hurried = {"max_topics": 1, "half_life_s": 1e-6}
    TopicCooling(source.services.engine, source.settings.topics.model_copy(update=hurried)).run()
    assert source.rows("SELECT 1 FROM memforest.turn WHERE content IS NULL")
    return {name: [turn.content for turn in source.memory.turns("sam", name).items] for name in LONG}


def answer(variables: Mapping[str, str]) -> str:
    """What the restored memory answers, over its index."""
    own = {name: value for name, value in variables.items() if name.startswith("MEMFOREST_")}
    with MemForest.connect(settings_from(own)) as memory:
        result = memory.recall("bob", QUESTION)
        assert not result.degraded
        return result.evidence[0].text


def test_a_memory_goes_to_another_place(
    source: Stack, target: Mapping[str, str], servers: SessionServers, tmp_path: Path
) -> None:
    """Given a backup, when it is restored into an empty database with an empty index, then every row is there, packs
    with their texts, the index is built without a model, nothing is broken, and numbers go on where they were."""
    directory = tmp_path / "backup"
    source.memory.lifecycle.set_policy("bob", max_facts=100, actor="tester")
    texts = packed(source)
    head = source.memory.lifecycle.audit_head()
    shown = done("backup", directory, **owner_variables(source))
    assert shown["rows"]["fact"] == source.counts()["fact"] > 0
    assert directory.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in directory.iterdir()} == {0o600}
    before = contents(owner_variables(source)["MEMFOREST_DATABASE__MIGRATION_URL"])
    source.memory.lifecycle.clear_policy("bob", actor="tester")
    later = source.memory.lifecycle.audit_head()

    restored = done("restore", directory, **target)
    assert (restored["violations"], restored["complete"]) == (0, True)
    owner = target["MEMFOREST_DATABASE__MIGRATION_URL"]
    assert contents(owner) == before
    assert "Oslo" in answer(target)
    with MemForest.connect(settings_from({k: v for k, v in target.items() if k.startswith("MEMFOREST_")})) as memory:
        assert {name: [turn.content for turn in memory.turns("sam", name).items] for name in texts} == texts
        for word in ("jasmine", "Plimsoll"):
            assert word in memory.recall("sam", f"What about {word}?").evidence[0].text
        assert memory.lifecycle.audit_verify(head).sound
        assert memory.lifecycle.audit_verify(later).findings == ["Row 2 is not the one of the given head."]

    second = run("restore", directory, **target)
    assert second.returncode == 2
    assert "has memory already" in second.stderr
    highest = value(owner, "SELECT max(seq) FROM memforest.fact")
    assert value(owner, "SELECT nextval(pg_get_serial_sequence('memforest.fact', 'seq'))") == highest + 1
    assert value(owner, "SELECT count(*) FROM pg_class WHERE relname = 'fact' AND relforcerowsecurity") == 1


def test_a_backup_of_an_older_version_is_upgraded(
    source: Stack, target: Mapping[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given a backup that this version made, when the next version restores it, then its rows come to that version."""
    directory, variables = tmp_path / "backup", owner_variables(source)
    before = contents(variables["MEMFOREST_DATABASE__MIGRATION_URL"])
    done("backup", directory, **variables)
    with monkeypatch.context() as later:
        become_next_version(later, tmp_path)
        assert done("restore", directory, **target)["violations"] == 0
        after = contents(target["MEMFOREST_DATABASE__MIGRATION_URL"])
        assert "Oslo" in answer(target)
    assert [row.removesuffix(",calm)") + ",)" for row in after.pop("forest")] == [
        row.removesuffix(")") + ",)" for row in before.pop("forest")
    ]
    assert after == before


def test_a_backup_that_was_killed_is_never_taken_for_a_whole_one(
    source: Stack, target: Mapping[str, str], servers: SessionServers, tmp_path: Path
) -> None:
    """Given kill -9 in the middle of a backup, then restore refuses it, and a backup to the same place succeeds."""
    directory, variables = tmp_path / "backup", owner_variables(source)
    with (
        locked(variables["MEMFOREST_DATABASE__MIGRATION_URL"], "turn", "ACCESS EXCLUSIVE"),
        begun("backup", directory, **variables) as process,
    ):
        until(lambda: waits_for(servers, "turn", source.database), process)
    assert (directory / "session.copy").stat().st_size > 0

    refused = run("restore", directory, **target)
    assert refused.returncode == 2
    assert "has no whole backup" in refused.stderr

    assert run("backup", directory, **variables).returncode == 0
    assert run("backup", directory, **variables).returncode == 2
    manifest = directory / "manifest.json"
    now = manifest.read_text()
    manifest.write_text(json.dumps(json.loads(now) | {"revision": "0027"}))
    refused = run("restore", directory, **target)
    assert refused.returncode == 2
    assert "0027 of a development version" in refused.stderr and "memforest export" in refused.stderr
    manifest.write_text(now)
    damaged = directory / "turn.copy"
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[:-1])
    refused = run("restore", directory, **target)
    assert refused.returncode == 2
    assert "turn.copy" in refused.stderr
    damaged.write_bytes(whole)
    assert run("restore", directory, **target).returncode == 0


def test_a_restore_that_was_killed_is_run_again(
    source: Stack, target: Mapping[str, str], servers: SessionServers, tmp_path: Path
) -> None:
    """Given kill -9 while rows are loaded, then none is there; given kill -9 while the index is built, then the next
    run goes on there; after both the memory is whole."""
    directory = tmp_path / "backup"
    done("backup", directory, **owner_variables(source))
    assert run("db", "upgrade", **target).returncode == 0
    owner = target["MEMFOREST_DATABASE__MIGRATION_URL"]
    with locked(owner, "node", "ACCESS SHARE"), begun("restore", directory, **target) as process:
        until(lambda: waits_for(servers, "node", target["DATABASE"]), process)
    assert not any(contents(owner).values())

    os.kill(int(target["INDEX_PID"]), signal.SIGSTOP)
    with begun("restore", directory, **target) as process:
        until(lambda: has_facts(owner), process)
    os.kill(int(target["INDEX_PID"]), signal.SIGCONT)

    restored = run("restore", directory, **target)
    assert restored.returncode == 0, restored.stderr
    assert "the rows are loaded already" in restored.stderr
    assert contents(owner) == contents(owner_variables(source)["MEMFOREST_DATABASE__MIGRATION_URL"])
    assert "Oslo" in answer(target)


KEY = {"MEMFOREST_DATABASE__ERASURES_KEY": "a secret of the operator"}


def forgotten(source: Stack, owner: str, **target: Any) -> None:
    source.services.lifecycle.erasure.ask(source.tenant, owner, actor="test", **target)
    source.drive()


def tables_with(url: str, word: str) -> list[str]:
    return [name for name, rows in contents(url).items() if any(word.lower() in row.lower() for row in rows)]


def test_deletions_since_a_backup_are_repeated_before_the_restored_database_serves(
    source: Stack, target: Mapping[str, str], servers: SessionServers, tmp_path: Path
) -> None:
    """Given a backup, then a deleted owner and session, and after a rebuild a deleted fact, turn and speaker, when the
    backup is restored with their list and killed with -9 within a deletion, then nothing serves until it is run again
    with the list, and no word of them is left."""
    memory, operations = source.memory, source.services.operations
    memory.ingest("eve", "s1", said("I live in Wellington.", "Nice."))
    memory.ingest("old", "s1", said("I live in Quito.", "Nice."))
    source.drive()
    forgotten(source, "old", everything=True)
    memory.ingest("ann", "whole", said("I have a parrot called Zorblax.", "Nice."))
    spoken = said(
        "I bought an oboe named Kvintonia.", "I own a kayak named Plimsoll.", "I paid 5 dollars for a Brumblelamp."
    )
    spoken[1] |= {"speaker_id": "sam", "name": "Sam"}
    memory.ingest("ann", "mixed", [*spoken, *said("I work at Globex.", "Good.", start=1_800_000_000)])
    source.drive()
    directory, listed = tmp_path / "backup", tmp_path / "deletions"
    done("backup", directory, **owner_variables(source))

    memory.ingest("late", "s1", said("I live in Lima.", "Nice."))
    source.drive()
    forgotten(source, "late", everything=True)
    forgotten(source, "eve", everything=True)
    forgotten(source, "ann", session="whole")
    before = operations.find_forest(source.tenant, "ann")
    source.services.lifecycle.rematerializing.ask(source.tenant, "ann", Options({"session_k": 4}), actor="test")
    while operations.find_forest(source.tenant, "ann") == before:
        source.execute("UPDATE memforest.maintenance SET available_at = now() WHERE state = 'ready'")
        source.drive()
    forest = operations.find_forest(source.tenant, "ann")
    lamp = "SELECT fact_id FROM memforest.fact WHERE forest_id = :f AND text LIKE '%Brumblelamp%'"
    forgotten(source, "ann", fact=source.rows(lamp, f=forest)[0].fact_id)
    forgotten(source, "ann", session="mixed", turns=["turn@0"])
    forgotten(source, "ann", speaker="sam")

    assert "MEMFOREST_DATABASE__ERASURES_KEY" in run("erasures", "export", listed, **owner_variables(source)).stderr
    exported = run("erasures", "export", listed, **owner_variables(source), **KEY)
    assert (exported.returncode, listed.stat().st_mode & 0o777) == (0, 0o600)
    assert len(listed.read_bytes().splitlines()) == 7 + 1
    assert not [name for name in ("eve", "ann", "sam", "whole", "mixed") if f'"{name}"' in listed.read_text()]
    signed = listed.read_bytes()
    listed.write_bytes(b"".join(signed.splitlines(keepends=True)[1:]))
    assert "was changed" in run("restore", directory, "--erasures", listed, **target, **KEY).stderr
    listed.write_bytes(signed)

    owner = target["MEMFOREST_DATABASE__MIGRATION_URL"]
    os.kill(int(target["INDEX_PID"]), signal.SIGSTOP)
    with begun("restore", directory, "--erasures", listed, **target, **KEY) as process:
        until(lambda: has_facts(owner), process)
        # A deletion of a whole memory comes to its speakers in the middle.
        with locked(owner, "speaker", "SHARE"):
            os.kill(int(target["INDEX_PID"]), signal.SIGCONT)
            until(lambda: waits_for(servers, "speaker", target["DATABASE"]), process)
            process.kill()
            process.wait()
    with pytest.raises(InvalidSettings, match="has not ended"):
        answer(target)
    assert "give --erasures again" in run("restore", directory, **target).stderr

    restored = run("restore", directory, "--erasures", listed, **target, **KEY)
    assert restored.returncode == 0, restored.stderr
    # What was deleted before the backup is gone there, and what came after it is not there.
    assert "6 of 7 deletions were repeated" in restored.stdout
    for word in ("Wellington", "Zorblax", "Kvintonia", "Plimsoll"):
        assert tables_with(owner, word) == [], word
    assert "fact" not in tables_with(owner, "Brumblelamp")
    assert "turn" in tables_with(owner, "Brumblelamp")
    assert "fact" in tables_with(owner, "Globex")
    assert "Oslo" in answer(target)


def test_only_the_owner_can_back_up(source: Stack, tmp_path: Path) -> None:
    """Given the service's role alone, which would see no row, then nothing is written that looks like a backup."""
    variables = owner_variables(source)
    del variables["MEMFOREST_DATABASE__MIGRATION_URL"]
    refused = run("backup", tmp_path / "backup", **variables)
    assert refused.returncode == 2
    assert "MEMFOREST_DATABASE__MIGRATION_URL" in refused.stderr
    assert not (tmp_path / "backup" / "manifest.json").exists()


def test_a_node_goes_to_another_directory(tmp_path: Path) -> None:
    """Given an embedded node, running or not, then its backup is restored into a new directory."""
    old, new, directory = tmp_path / "old", tmp_path / "new", tmp_path / "backup"
    with MemForest.embedded(old) as memory:
        memory.ingest("bob", "s1", said("I live in Oslo.", "Nice."), wait="summaries")
        live = done("backup", tmp_path / "live", "--data", old)
    made = done("backup", directory, "--data", old)
    assert made["rows"]["turn"] == live["rows"]["turn"] == 2
    assert made["revision"] == head_revision()

    assert done("restore", directory, "--data", new)["violations"] == 0
    with MemForest.embedded(new) as memory:
        assert "Oslo" in memory.recall("bob", QUESTION).evidence[0].text
