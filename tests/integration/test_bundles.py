"""Bundles: a forest goes out to a file and comes in elsewhere as it was, whatever interrupts it; bad files come to nothing."""

from __future__ import annotations

import shutil
import sqlite3
import tracemalloc
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import numpy as np
import pytest

from memforest_core.domain.ids import ForestId, TenantId, cell_id, session_id
from memforest_core.domain.indexed import cell_text
from memforest_core.domain.times import from_micros
from memforest_core.errors import InvalidInput
from memforest_core.ingest.refresh.summarizer import OfflineSummarizer
from memforest_core.lifecycle.bundle import importing, service
from memforest_core.lifecycle.bundle.bundle_file import reading, writing
from memforest_core.lifecycle.bundle.records import CELL, SESSION, TURN, VECTOR, ExportFormat, ForestHead, Row
from memforest_core.lifecycle.bundle.service import Bundles
from memforest_core.models.calls import Embedder
from memforest_core.store.vectors import text_hash
from memforest_core.work.records import Numbers
from tests.harness.close import Close
from tests.harness.model_answers import HASH_DIMENSION
from tests.harness.sayings import said
from tests.harness.sealing import reseal
from tests.harness.servers import SessionServers
from tests.harness.stack import Stack, stack
from tests.integration.test_reembedding import Hashed
from tests.integration.test_refresh import CountingSummarizer, refresh_all
from tests.integration.test_refresh import service as refreshing

LAMPS = said(*[f"I paid {n} dollars for a brass lamp numbered {n}." for n in range(16)])
HOMES = said("I live in Davis.", "She moved to Miami.", "My sister Clara visited me with Rufus.", start=1_700_900_000)
REPEATED = said("I live in Davis.", "She moved to Miami.", "My brother Tom has a red boat.", start=1_700_900_000)
LATER = said("I bought a violin in Vienna.", "The violin has four new strings.", start=1_701_900_000)
QUESTIONS = (
    "What did the lamp number 7 cost?",
    "Where does Bob live?",
    "Who moved to Miami?",
    "Who visited Bob?",
    "What is the name of the dog?",
    "Who has a boat?",
    "Which colour has the boat?",
    "Where was the violin bought?",
    "How many strings are new?",
    "What did Bob buy?",
    "How many lamps are there?",
    "What happened in November 2023?",
)


class Killed(BaseException):
    """Raised in place of the death of a process."""


@dataclass(frozen=True)
class Source:
    """A stack with one forest that has everything a forest can have, and its bundle."""

    stack: Stack
    bundles: Bundles
    path: Path


@pytest.fixture(scope="module")
def source(servers: SessionServers, tmp_path_factory: pytest.TempPathFactory, embedder: Embedder) -> Iterator[Source]:
    directory = tmp_path_factory.mktemp("source")
    with stack(servers, directory, embedder=embedder) as running:
        for name, turns in (("lamps", LAMPS), ("homes", HOMES), ("repeated", REPEATED)):
            running.memory.ingest("bob", name, turns)
        running.drive()
        for statement in (
            "UPDATE memforest.fact SET pinned = true WHERE text LIKE '%Rufus%'",
            """UPDATE memforest.fact SET superseded_at = now(), superseded_by = (
                   SELECT fact_id FROM memforest.fact WHERE text LIKE '%numbered 3.')
                WHERE text LIKE '%numbered 2.'""",
            """INSERT INTO memforest.visit (tenant_id, item_id, forest_id, visits)
               SELECT tenant_id, fact_id, forest_id, 5 FROM memforest.fact WHERE pinned""",
            """UPDATE memforest.forest SET rules = '{"scene_assign": 0.71}'""",
            "UPDATE memforest.node SET version = version + 1 WHERE level > 0",
            "UPDATE memforest.tree SET due_at = now(), first_mark_at = now() WHERE root_id IS NOT NULL",
        ):
            running.execute(statement)
        running.drive()
        assert running.broken() == {}
        # Accepted, and not extracted yet.
        running.memory.ingest("bob", "later", LATER)
        bundles, path = running.services.lifecycle.bundles, directory / "bob.memforest"
        bundles.export(running.tenant, "bob", path, actor="tester")
        yield Source(running, bundles, path)


@pytest.fixture
def target(pipeline: Stack) -> tuple[Stack, Bundles]:
    return pipeline, pipeline.services.lifecycle.bundles


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a small forest has many batches."""
    monkeypatch.setattr(importing, "BATCH", 40)


def counts(running: Stack) -> dict[str, int]:
    tables = {"session", "speaker", "turn", "cell", "candidate", "fact", "occurrence", "tree", "placement", "node"}
    return {table: n for table, n in running.counts().items() if table in tables}


def answers(running: Stack, owner: str = "bob") -> list[list[tuple[object, ...]]]:
    """What recall finds, in its order; scores but for what the engine's own sums of floats leave open."""
    found = [running.memory.recall(owner, question, k=8).evidence for question in QUESTIONS]
    return [
        [(*e.fact_ids, e.text, Close(e.score), e.turn_ids, e.path, sorted(e.signals), e.pinned) for e in some]
        for some in found
    ]


def texts(running: Stack, owner: str) -> list[list[str]]:
    return [[e.text for e in running.memory.recall(owner, question, k=1).evidence] for question in QUESTIONS[:9]]


def copied(source: Source, tmp_path: Path) -> Path:
    return Path(shutil.copy(source.path, tmp_path / "copy.memforest"))


def hidden(running: Stack) -> int:
    return len(running.rows("SELECT 1 FROM memforest.forest WHERE state <> 'live'"))


def test_a_forest_comes_in_elsewhere_as_it_was(source: Source, target: tuple[Stack, Bundles]) -> None:
    running, bundles = target
    done = bundles.import_(running.tenant, source.path, actor="tester")
    assert (done["phase"], done["same_ids"]) == ("done", 1)
    for each in (source.stack, running):
        while each.runtime.maintain():
            pass
    assert answers(running) == answers(source.stack)
    assert counts(running) == counts(source.stack)
    for what in (
        "SELECT fact_id, pinned, superseded_by, superseded_at, created_at, statement FROM memforest.fact ORDER BY 1",
        "SELECT item_id, forest_id, visits, last_visit_at FROM memforest.visit ORDER BY 1",
        "SELECT forest_id, owner, time_zone, scene_seq, rules, state FROM memforest.forest",
        "SELECT * FROM memforest.turn ORDER BY session_id, ordinal",
        "SELECT node_id, tree_id, parent_id, level, key_id, leaf_count, version, clean_version FROM memforest.node"
        " ORDER BY 1",
        "SELECT node_id, text, source, model, version, vector, pooled, terms FROM memforest.node_summary ORDER BY 1",
        "SELECT tree_id, scope_key, state, k, root_id, height, leaf_count, centroid FROM memforest.tree ORDER BY 1",
        "SELECT cell_id, window_ordinal, text_hash, state, placed, outcome, summary FROM memforest.cell ORDER BY 1",
        "SELECT cell_id, item, text_hash, routing_hash FROM memforest.candidate ORDER BY 1, 2",
    ):
        assert running.rows(what) == source.stack.rows(what), what
    running.drive()
    assert running.broken() == {}
    assert "violin" in running.memory.recall("bob", "Where was the violin bought?").evidence[0].text


def test_a_second_time_nothing_is_done_and_the_audit_has_the_actor(
    source: Source, target: tuple[Stack, Bundles]
) -> None:
    running, bundles = target
    first = bundles.import_(running.tenant, source.path, actor="tester")
    before = running.counts()
    second = bundles.import_(running.tenant, source.path, actor="another")
    assert (second["already"], second["task"]) == (1, first["task"])
    assert running.counts() == before
    operations = running.services.operations
    entries = [(each.actor, each.action, each.outcome) for each in operations.audit(running.tenant, "bob")]
    assert entries == [("tester", "import", "done"), ("tester", "import", "requested")]
    record = operations.list(running.tenant)[0]
    assert (str(record.id), record.kind, record.state) == (first["task"], "import", "done")


def test_one_bundle_becomes_the_memory_of_several_owners(source: Source, target: tuple[Stack, Bundles]) -> None:
    running, bundles = target
    same = [
        bundles.import_(running.tenant, source.path, owner, actor="tester")["same_ids"] for owner in ("a", "b", "c")
    ]
    assert same == [1, 0, 0]
    running.drive()
    assert running.broken() == {}
    assert texts(running, "a") == texts(running, "b") == texts(running, "c")
    # What is said again is the same fact under the new ids too.
    before = running.counts()["fact"]
    running.memory.ingest("b", "more", [dict(HOMES[0], content="My sister Clara visited me with Rufus.")])
    running.memory.ingest("b", "homes", HOMES)
    running.drive()
    assert running.counts()["fact"] == before
    assert running.broken() == {}
    # Another tenant's keys and points are its own, whatever ids its rows have.
    assert bundles.import_(TenantId("other"), source.path, "a", actor="tester")["same_ids"] == 1


def test_a_tree_whose_leaves_differ_by_id_alone_is_rebuilt(pipeline: Stack, tmp_path: Path) -> None:
    # Given: a dozen sessions of one moment, whose facts stand in the owner's tree in the order of their ids
    for n in range(12):
        pipeline.memory.ingest("bob", f"s{n}", said(f"I bought a lamp numbered {n}."))
    pipeline.drive()
    bundles, path = pipeline.services.lifecycle.bundles, tmp_path / "bob.memforest"
    bundles.export(pipeline.tenant, "bob", path, actor="tester")
    # When: everything gets new ids, twice
    for owner in ("a", "b"):
        bundles.import_(pipeline.tenant, path, owner, actor="tester")
    # Then
    assert hidden(pipeline) == 0
    pipeline.drive()
    assert pipeline.broken() == {}


def bytes_in(path: Path) -> int:
    """Bytes of all values of a bundle, without SQLite's pages and indexes, whose number depends on random ids."""
    total = 0
    with closing(sqlite3.connect(path)) as bundle:
        for (table,) in bundle.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            for row in bundle.execute(f'SELECT * FROM "{table}"'):
                total += sum(len(value if isinstance(value, bytes) else str(value).encode()) for value in row)
    return total


def vectors_in(path: Path) -> int:
    with closing(sqlite3.connect(path)) as bundle:
        return int(bundle.execute("SELECT (SELECT count(*) FROM vector) + count(vector) FROM summary").fetchone()[0])


def test_an_import_for_an_owner_with_a_memory_is_refused(source: Source, target: tuple[Stack, Bundles]) -> None:
    running, bundles = target
    running.memory.ingest("bob", "own", HOMES)
    with pytest.raises(InvalidInput, match="memforest merge") as refused:
        bundles.import_(running.tenant, source.path, actor="tester")
    assert refused.value.code == "owner_exists"
    assert hidden(running) == 0


def test_without_vectors_texts_are_embedded_by_the_import_and_summaries_stay(
    source: Source, target: tuple[Stack, Bundles], tmp_path: Path
) -> None:
    running, bundles = target
    path = tmp_path / "bare.memforest"
    source.bundles.export(source.stack.tenant, "bob", path, vectors=False, actor="tester")
    assert vectors_in(path) == 0 < vectors_in(source.path)
    assert bytes_in(path) < bytes_in(source.path) / 2
    bundles.import_(running.tenant, path, actor="tester")
    # Of the same name as the one that wrote the summaries, but paid by the call.
    paid = CountingSummarizer(model=OfflineSummarizer.model)
    refresher = refreshing(running, paid, budget_chars=running.settings.refresh.budget_chars)
    while running.runtime.maintain() + refresh_all(running, refresher):
        pass
    assert running.rows("SELECT 1 FROM memforest.node_summary WHERE source = 'extractive'")
    assert paid.requested == []
    for what in (
        "SELECT text_hash, vector FROM memforest.vector v WHERE EXISTS ("
        " SELECT 1 FROM memforest.candidate k WHERE k.text_hash = v.text_hash) ORDER BY 1",
        "SELECT node_id, text, source, input_hash FROM memforest.node_summary ORDER BY 1",
    ):
        assert source.stack.rows(what) == running.rows(what), what
    running.drive()
    assert running.broken() == {}


def test_without_summaries_refresh_makes_them(source: Source, target: tuple[Stack, Bundles], tmp_path: Path) -> None:
    running, bundles = target
    path = tmp_path / "plain.memforest"
    done = source.bundles.export(source.stack.tenant, "bob", path, summaries=False, actor="tester")
    assert done["summary"] == 0
    bundles.import_(running.tenant, path, actor="tester")
    assert running.rows("SELECT 1 FROM memforest.node_summary") == []
    assert running.rows("SELECT 1 FROM memforest.tree WHERE root_id IS NOT NULL AND due_at IS NULL") == []
    running.drive()
    assert running.broken() == {}
    assert running.memory.recall("bob", "Who has a boat?").evidence[0].freshness == "summary"


def test_another_embedding_model(source: Source, servers: SessionServers, tmp_path: Path) -> None:
    with stack(servers, tmp_path, embedder=Hashed()) as running:
        bundles = running.services.lifecycle.bundles
        with pytest.raises(InvalidInput, match="without vectors") as refused:
            bundles.import_(running.tenant, source.path, actor="tester")
        assert refused.value.code == "other_embedding_model"
        bundles.import_(running.tenant, source.path, vectors=False, actor="tester")
        running.drive()
        assert running.broken() == {}
        sizes = running.rows("SELECT DISTINCT octet_length(centroid) FROM memforest.tree WHERE kind = 'scene'")
        assert [row[0] for row in sizes] == [4 * HASH_DIMENSION]
        # Routing goes on with the new centroids.
        running.memory.ingest("bob", "more", LATER)
        running.drive()
        assert running.broken() == {}


def test_a_dry_run_writes_nothing(source: Source, target: tuple[Stack, Bundles]) -> None:
    running, bundles = target
    before = running.counts()
    plan = bundles.import_(running.tenant, source.path, actor="tester", dry_run=True)
    assert (plan["phase"], plan["same_ids"], plan["session"]) == ("planned", 1, 4)
    assert running.counts() == before
    planned = source.bundles.export(source.stack.tenant, "bob", source.path, actor="tester", dry_run=True)
    assert planned["session"] == 4


def test_a_process_that_takes_over_leaves_the_other_nothing_to_write(
    source: Source, target: tuple[Stack, Bundles]
) -> None:
    running, bundles = target
    ended: list[Numbers] = []

    def overtaken(done: int, total: int) -> None:
        if done > total // 2 and not ended:
            ended.append(bundles.import_(running.tenant, source.path, actor="another"))

    with pytest.raises(importing.ImportTakenOver):
        bundles.import_(running.tenant, source.path, actor="tester", watch=overtaken)
    assert ended[0]["run"] == 2
    assert (hidden(running), counts(running)) == (0, counts(source.stack))


@pytest.mark.parametrize("phase", ["_texts", "_settle", "_prove", "_show"])
def test_an_import_killed_between_two_phases_goes_on(
    source: Source, target: tuple[Stack, Bundles], monkeypatch: pytest.MonkeyPatch, phase: str
) -> None:
    running, bundles = target

    def die(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(importing.Import, phase, die)
        with pytest.raises(Killed):
            bundles.import_(running.tenant, source.path, actor="tester")
    bundles.import_(running.tenant, source.path, actor="tester")
    assert (hidden(running), counts(running)) == (0, counts(source.stack))


def test_a_killed_export_leaves_no_bundle_and_starts_from_the_beginning(source: Source, tmp_path: Path) -> None:
    path = tmp_path / "killed.memforest"

    def die(done: int, total: int) -> None:
        raise Killed

    with pytest.raises(Killed):
        source.bundles.export(source.stack.tenant, "bob", path, actor="tester", watch=die)
    assert not path.exists()
    path.with_name("killed.memforest.part").write_bytes(b"what a kill left")
    source.bundles.export(source.stack.tenant, "bob", path, actor="tester")
    assert list(tmp_path.iterdir()) == [path]
    assert path.stat().st_mode & 0o077 == 0
    with pytest.raises(InvalidInput, match="already"):
        source.bundles.export(source.stack.tenant, "bob", path, actor="tester")
    with reading(path) as one, reading(source.path) as other:
        # The indexer may have embedded something in between.
        changed = {name for name, digest in one.head.digests.items() if digest != other.head.digests[name]}
        assert changed <= {"vector"}


def test_what_its_process_refuses_leaves_nothing_dead(source: Source, tmp_path: Path) -> None:
    path = tmp_path / "bob.memforest"
    operations = source.stack.services.operations
    before = len(operations.list(source.stack.tenant))

    def full(done: int, total: int) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    # When: another export writes the file, and then the disk is full
    with writing(path, False), pytest.raises(InvalidInput) as busy:
        source.bundles.export(source.stack.tenant, "bob", path, actor="tester")
    unasked = len(operations.list(source.stack.tenant))
    with pytest.raises(InvalidInput):
        source.bundles.export(source.stack.tenant, "bob", path, actor="tester", watch=full)
    # Then: the first was not requested at all, and the second ended undone
    assert (busy.value.code, unasked) == ("file_in_use", before)
    failed = operations.list(source.stack.tenant)[0]
    assert (failed.state, failed.cancelled, failed.error_code) == ("done", True, "file_not_writable")
    entries = operations.audit(source.stack.tenant, operation=failed.id)
    assert [each.outcome for each in entries] == ["refused", "requested"]
    assert list(tmp_path.iterdir()) == []


def test_what_another_process_imported_meanwhile_is_not_imported_again(
    source: Source, target: tuple[Stack, Bundles]
) -> None:
    running, bundles = target
    other: list[Numbers] = []

    def overtake(done: int, total: int) -> None:
        if not other:
            other.append({})
            other.append(bundles.import_(running.tenant, source.path, actor="another"))

    done = bundles.import_(running.tenant, source.path, actor="tester", watch=overtake)
    assert (done["task"], done["already"]) == (other[1]["task"], 1)
    assert len([each for each in running.services.operations.list(running.tenant) if each.kind == "import"]) == 1
    assert hidden(running) == 0


@pytest.mark.parametrize("killed", [False, True])
def test_an_import_whose_owner_appears_meanwhile_ends_undone(
    source: Source, target: tuple[Stack, Bundles], killed: bool
) -> None:
    running, bundles = target
    made: list[int] = []

    def appear(done: int, total: int) -> None:
        if done > total // 2 and not made:
            made.append(done)
            running.memory.ingest("bob", "own", HOMES)
            if killed:
                raise Killed

    if killed:
        with pytest.raises(Killed):
            bundles.import_(running.tenant, source.path, actor="tester", watch=appear)
    with pytest.raises(InvalidInput) as refused:
        bundles.import_(running.tenant, source.path, actor="tester", watch=appear)
    assert refused.value.code == "owner_exists"
    record = next(each for each in running.services.operations.list(running.tenant) if each.kind == "import")
    assert (record.state, record.cancelled, record.error_code) == ("done", True, "owner_exists")
    assert hidden(running) == 0
    # And for another owner the same bundle is imported.
    assert bundles.import_(running.tenant, source.path, "carol", actor="tester")["phase"] == "done"


def test_a_summary_that_may_quote_what_was_erased_stays_behind(pipeline: Stack, tmp_path: Path) -> None:
    pipeline.memory.ingest("bob", "lamps", LAMPS)
    pipeline.drive()
    pipeline.execute("UPDATE memforest.node SET version = version + 1, erased_version = version WHERE level > 1")
    bundles, path = pipeline.services.lifecycle.bundles, tmp_path / "bob.memforest"
    done = bundles.export(pipeline.tenant, "bob", path, actor="tester")
    left = pipeline.rows("SELECT count(*) FROM memforest.node WHERE level = 1")[0][0]
    assert done["summary"] == left


# Files that lie. Each change is made to a copy; where it says so the checksums are made right again, as somebody would
# who means harm.
def _run(path: Path, *statements: str, resealed: bool = False) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        for statement in statements:
            database.execute(statement)
        if resealed:
            reseal(database)


UNSEALED = {
    "a changed word": "UPDATE turn SET content = 'I live in Rome.' WHERE n = 1",
    "a missing row": "DELETE FROM fact WHERE n = (SELECT max(n) FROM fact)",
    "a gap": "DELETE FROM fact WHERE n = 1",
    "meta that is no JSON": "UPDATE meta SET value = '{' WHERE name = 'rules'",
    "an unknown zone": "UPDATE meta SET value = '\"../etc/passwd\"' WHERE name = 'time_zone'",
    "rules that nobody can follow": "UPDATE meta SET value = '{\"session_k\": 1}' WHERE name = 'rules'",
    "an owner without a name": "UPDATE meta SET value = '\" \"' WHERE name = 'owner'",
}

SEALED = {
    "an id that is none": "UPDATE session SET session_id = 'x'' OR 1=1 --' WHERE n = 1",
    "an id twice": "UPDATE fact SET fact_id = (SELECT fact_id FROM fact WHERE n = 2) WHERE n = 1",
    "a name of nobody": "UPDATE occurrence SET fact_id = '00000000-0000-4000-8000-000000000000' WHERE n = 1",
    "a fact as session": "UPDATE turn SET session_id = (SELECT fact_id FROM fact LIMIT 1) WHERE n = 1",
    "a NUL in a document": 'UPDATE turn SET metadata = \'{"a": "\\u0000"}\' WHERE n = 1',
    "no statement": "UPDATE candidate SET statement = '{\"text\": 1}' WHERE n = 1",
    "a text too long to search": "UPDATE cell SET text = hex(randomblob(500000)) || ' ' || text",
    "a vector of another text": "UPDATE vector SET text_hash = zeroblob(32) WHERE n = 1",
    "two turns in one place": "UPDATE turn SET ordinal = 0 WHERE session_id = (SELECT session_id FROM session LIMIT 1)",
    "a wrong count": "UPDATE node SET leaf_count = leaf_count + 1 WHERE level = 1 AND n = (SELECT min(n) FROM node WHERE level = 1)",
    "a wrong height": "UPDATE scope SET height = height + 1 WHERE root_id IS NOT NULL",
    "a wrong parent": "UPDATE node SET parent_id = node_id WHERE level = 0",
    "a wrong key": "UPDATE node SET key_ordinal = key_ordinal + 5 WHERE level = 0",
    "a node of all children": "UPDATE scope SET k = 3000",
    "no root": "UPDATE scope SET root_id = NULL WHERE state = 'active'",
    "an occurrence less": "DELETE FROM occurrence WHERE n > 0",
    "a cell nobody can claim": "UPDATE cell SET ordinal = ordinal + 1",
    "no version": "UPDATE node SET version = 0, clean_version = 0",
    "more turns than there are": "UPDATE session SET turn_count = 99",
}


@pytest.fixture(scope="module")
def judge(servers: SessionServers, tmp_path_factory: pytest.TempPathFactory, embedder: Embedder) -> Iterator[Stack]:
    """One empty stack for all refusals: none of them leaves anything."""
    with stack(servers, tmp_path_factory.mktemp("judge"), embedder=embedder) as running:
        yield running


def refused(judge: Stack, path: Path) -> InvalidInput:
    with pytest.raises(InvalidInput) as raised:
        judge.services.lifecycle.bundles.import_(judge.tenant, path, actor="tester")
    left = judge.rows(
        "SELECT (SELECT count(*) FROM memforest.forest) + (SELECT count(*) FROM memforest.turn)"
        " + (SELECT count(*) FROM memforest.fact) + (SELECT count(*) FROM memforest.node)"
        " + (SELECT count(*) FROM memforest.maintenance WHERE state IN ('held', 'ready', 'running'))"
    )
    assert left[0][0] == 0
    assert raised.value.message.count(". ") == 0
    return raised.value


@pytest.mark.parametrize("statement", UNSEALED.values(), ids=UNSEALED)
def test_a_bundle_that_was_changed_is_refused(source: Source, judge: Stack, tmp_path: Path, statement: str) -> None:
    path = copied(source, tmp_path)
    _run(path, statement)
    refused(judge, path)


@pytest.mark.parametrize("statement", SEALED.values(), ids=SEALED)
def test_a_bundle_that_was_made_to_harm_is_refused(
    source: Source, judge: Stack, tmp_path: Path, statement: str
) -> None:
    path = copied(source, tmp_path)
    _run(path, statement, resealed=True)
    refused(judge, path)


def test_a_bundle_from_before_a_column_was_added_is_read_without_it(
    source: Source, target: tuple[Stack, Bundles], tmp_path: Path
) -> None:
    running, bundles = target
    path = copied(source, tmp_path)
    _run(path, "ALTER TABLE session DROP COLUMN channel", "ALTER TABLE turn DROP COLUMN utc_offset", resealed=True)
    assert bundles.import_(running.tenant, path, actor="tester")["phase"] == "done"
    assert counts(running) == counts(source.stack)


def test_files_that_are_no_bundles_are_refused(source: Source, judge: Stack, tmp_path: Path) -> None:
    whole = source.path.read_bytes()
    for name, content in {
        "empty": b"",
        "text": b"hello",
        "half": whole[: len(whole) // 2],
        "head": whole[:100],
        "noise": whole[:4096] + bytes(len(whole) - 4096),
    }.items():
        path = tmp_path / name
        path.write_bytes(content)
        refused(judge, path)
    refused(judge, tmp_path / "nowhere")
    refused(judge, tmp_path)


def test_a_summary_that_does_not_follow_is_written_again(
    source: Source, target: tuple[Stack, Bundles], tmp_path: Path
) -> None:
    running, bundles = target
    path = copied(source, tmp_path)
    _run(path, "UPDATE summary SET text = 'Bob owes everybody money.'", resealed=True)
    bundles.import_(running.tenant, path, actor="tester")
    running.drive()
    assert running.broken() == {}
    assert (
        running.rows("SELECT 1 FROM memforest.node_summary WHERE text LIKE '%owes%' AND source <> 'extractive'") == []
    )


SESSIONS, TURNS = 30, 120


def _large(path: Path, dimension: int, model: str, owner: str = "many", sessions: int = SESSIONS) -> int:
    """A bundle of many sessions that were never extracted, with the vectors of their cells."""
    forest = ForestId(UUID(int=77 + sessions))
    ids = [session_id(forest, f"s{number}") for number in range(sessions)]
    vector = np.ones(dimension, "<f4").tobytes()
    rest: Row = (0, "ready", 0, None, None, 0, None, None, 0, 0, None, None)
    with writing(path, False) as writer:
        for n, session in enumerate(ids):
            writer.add(SESSION, [(str(session), f"s{n}", "UTC", 0, TURNS, TURNS // 2, "{}", 0, 0, None, 0, None, 0)])
        for n, session in enumerate(ids):
            said = [f"{n} {at} " + "word " * 40 for at in range(TURNS)]
            turns = [(text, 0, 1, "bob", "Bob", "{}", 0, 0, None) for text in said]
            writer.add(TURN, [(str(session), at, f"t{at}", "user", *turn) for at, turn in enumerate(turns)])
        for n, session in enumerate(ids):
            cells = [(str(cell_id(session, at)), str(session), at, at - at % 2, 2 * at) for at in range(TURNS // 2)]
            writer.add(CELL, [(*c, c[4] + 1, None, None, f"Bob: {n} {c[2]}", 0, *rest) for c in cells])
        for n in range(sessions):
            texts = (cell_text(f"Bob: {n} {at}", from_micros(0)) for at in range(TURNS // 2))
            writer.add(VECTOR, [(text_hash(text), vector) for text in texts])
        writer.finish(ForestHead(forest, owner, "UTC", 0, {}), (model, dimension), [], (True, True))
    return sessions * (1 + 2 * TURNS)


@pytest.mark.parametrize("format", ["bundle", "jsonl"])
def test_memory_stays_flat_however_large_the_bundle(
    target: tuple[Stack, Bundles], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: ExportFormat
) -> None:
    running, bundles = target
    path, back = tmp_path / "large.memforest", tmp_path / "back.memforest"
    embedder = running.services.embedder
    rows = _large(path, embedder.dimension, embedder.model)
    # What is imported and compiled at the first use is no part of a bundle's memory.
    small = tmp_path / "small.memforest"
    _large(small, embedder.dimension, embedder.model, "few", 1)
    bundles.import_(running.tenant, small, actor="tester")
    bundles.export(running.tenant, "few", tmp_path / "small-back.memforest", actor="tester")
    for module, name in ((importing, "BATCH"), (importing, "PAGE"), (service, "PAGE")):
        monkeypatch.setattr(module, name, 50)
    tracemalloc.start()
    try:
        done = bundles.import_(running.tenant, path, actor="tester")
        bundles.export(running.tenant, "many", back, format=format, vectors=True, actor="tester")
        bundles.import_(running.tenant, back, "again", actor="tester", dry_run=True)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert done["rows"] == rows
    assert peak < path.stat().st_size / 2
    with reading(back) as reader:
        assert reader.head.rows["turn"] == SESSIONS * TURNS
