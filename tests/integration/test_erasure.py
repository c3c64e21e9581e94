"""Deleting: what was said is nowhere any more, what is left is whole, and the receipt says so."""

from __future__ import annotations

import bz2
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import numpy as np
import pytest
import qdrant_edge as engine
import sqlalchemy as sa

from memforest_core.domain.ids import ForestId, NodeId
from memforest_core.errors import ForestFrozen, InvalidInput, NotFound, RetryableError
from memforest_core.index.qdrant.edge_index import EdgeIndex
from memforest_core.index.records import PointLease
from memforest_core.index.vector_index import PointKind
from memforest_core.ingest.extract.rows import ExtractRows
from memforest_core.ingest.reduce.rows import ReduceRows
from memforest_core.lifecycle.erase import steps
from memforest_core.lifecycle.erase.records import Receipt, Removed
from memforest_core.lifecycle.erase.rows.deletion import _FORESTS_OF_OWNER, ErasureRows
from memforest_core.models.calls import Embedder, Vectors
from memforest_core.recall.deliver import Deliverer
from memforest_core.store.engine import tenant_transaction
from memforest_core.store.vectors import text_hash
from memforest_core.work.records import Numbers, OperationTask, TaskId
from memforest_core.work.waiting import polled, waited
from tests.harness.model_server import ModelServer
from tests.harness.sayings import said
from tests.harness.servers import SessionServers
from tests.harness.stack import MEMBERS, Stack, stack
from tests.integration.test_pipeline import assert_trees_hold
from tests.integration.test_recall import FILL, VOLUME

ACTOR = "tester"
START = 1_700_000_000
DAY = 86_400

GARAGE = said(
    "I keep a zorblax telescope in the garage.",
    "I bought three copper kettles for the kitchen.",
    "I paid 40 dollars for a quibbert lamp.",
    "I live in Davis.",
    "I adopted a dog named Wumpel.",
    "My sister moved to Boston.",
    start=START,
)
PARTY = [
    *said("I live in Davis.", "I started to learn the vorpal flute.", start=START + 10 * DAY),
    *said("I sold my drimble boat.", "I am allergic to peanuts.", start=START + 10 * DAY + 120, name="Ysolde"),
    *said("I visited the museum of clocks.", "I painted the fence green.", start=START + 10 * DAY + 240),
]
LAMPS = said(*[f"I paid {n} dollars for a brass lamp numbered {n}." for n in range(24)], start=START + 20 * DAY)


def tell(running: Stack) -> None:
    for session, turns in (("garage", GARAGE), ("party", PARTY), ("lamps", LAMPS)):
        running.memory.client.enqueue("bob", session, turns)
        running.runtime.extract()
        running.runtime.reduce()
    running.memory.client.enqueue("carol", "garage", said("I live in Davis.", "I love tea.", name="Carol"))


def ask(pipeline: Stack, owner: str = "bob", **target: Any) -> TaskId:
    return pipeline.services.lifecycle.erasure.ask(pipeline.tenant, owner, actor=ACTOR, **target)


def work(pipeline: Stack) -> None:
    """Run the requested operations, and nothing else: no refresh, no indexer."""
    while pipeline.services.maintenance.tasks.run_one(pipeline.tenant, pipeline.runtime.worker):
        pass


def receipt(pipeline: Stack, task: TaskId) -> Receipt:
    return pipeline.services.lifecycle.erasure.receipt(pipeline.tenant, task)


def erase(pipeline: Stack, owner: str = "bob", **target: Any) -> Receipt:
    """Delete, before anything is refreshed; nothing may be left."""
    task = ask(pipeline, owner, **target)
    work(pipeline)
    found = receipt(pipeline, task)
    assert found.finished_at is not None
    assert {name: count for name, count in found.left.items() if count} == {}
    assert found.clean
    return found


def texts_with(pipeline: Stack, phrase: str) -> list[str]:
    """The tables any column of which contains a phrase, as text, as bytes, or in a pack of turns."""
    inside = phrase.lower().encode().hex()
    every = " UNION ALL ".join(
        f"SELECT '{table}' FROM memforest.{table} r"
        f" WHERE lower(CAST(r AS text)) LIKE '%{phrase.lower()}%' OR CAST(r AS text) LIKE '%{inside}%'"
        for table in pipeline.counts()
    )
    packed = [bz2.decompress(bytes(row[0])) for row in pipeline.rows("SELECT texts FROM memforest.turn_pack")]
    packs = ["turn_pack"] if any(phrase.lower() in pack.decode().lower() for pack in packed) else []
    return sorted({*packs, *(str(row[0]) for row in pipeline.rows(every))})


def payloads_with(pipeline: Stack, phrase: str) -> int:
    index = pipeline.services.index
    assert isinstance(index, EdgeIndex)
    records, _ = index._opened().scroll(engine.ScrollRequest(limit=10_000, with_payload=True, with_vector=False))
    return sum(phrase.lower() in str(record.payload).lower() for record in records)


def assert_nowhere(pipeline: Stack, *phrases: str) -> None:
    for phrase in phrases:
        assert texts_with(pipeline, phrase) == [], phrase
        assert payloads_with(pipeline, phrase) == 0


def assert_whole(pipeline: Stack) -> None:
    """Everything agrees, now and when all derived work is done."""
    assert_verified(pipeline)
    pipeline.drive()
    assert_verified(pipeline)


def assert_verified(pipeline: Stack) -> None:
    pipeline.assert_verified()
    assert_trees_hold(pipeline)


def one(pipeline: Stack, statement: str, **values: object) -> Any:
    return pipeline.rows(statement, **values)[0][0]


def fact_saying(pipeline: Stack, words: str, owner: str = "bob") -> UUID:
    found = pipeline.rows(
        "SELECT fact_id FROM memforest.fact JOIN memforest.forest USING (tenant_id, forest_id)"
        " WHERE owner = :o AND text ILIKE :w",
        o=owner,
        w=f"%{words}%",
    )
    assert len(found) == 1, words
    return UUID(str(found[0][0]))


def reported(pipeline: Stack, question: str, owner: str = "bob") -> str:
    """What recall answers; every piece of it says something, and somebody said it."""
    evidence = pipeline.memory.recall(owner, question).evidence
    assert all(piece.speaker and piece.text.partition(":")[2].strip() for piece in evidence)
    return "\n".join(piece.text for piece in evidence).lower()


def seen(pipeline: Stack) -> str:
    """What Bob's timeline and the view of all his trees show."""
    shown = [str(pipeline.memory.timeline("bob", entity="bob"))]
    inspection = pipeline.services.inspection
    for tree in inspection.trees(pipeline.tenant, "bob"):
        shown.append(str(inspection.tree(pipeline.tenant, "bob", str(tree.id))))
    return "\n".join(shown).lower()


def everything(pipeline: Stack) -> dict[str, list[str]]:
    """All rows of all tables but those that tell of the request itself."""
    own = {"maintenance", "audit", "worker"}
    return {
        table: sorted(str(row[0]) for row in pipeline.rows(f"SELECT CAST(r AS text) FROM memforest.{table} r"))
        for table in pipeline.counts()
        if table not in own
    }


def test_a_deleted_turn_is_nowhere_and_its_ordinal_remains(rested: Stack) -> None:
    """Given a cell of two turns, when one of them is deleted, then its words are in no store from the commit on, the
    other turn is still recalled, and the session sent again is the same one."""
    assert texts_with(rested, "zorblax")
    found = erase(rested, session="garage", turns=["turn@0"])

    assert_nowhere(rested, "zorblax", "telescope")
    assert (found.removed["turns"], found.removed["cells"], found.removed["facts"]) == (1, 0, 1)
    assert found.removed["summaries"] > 0 and found.removed["vectors"] > 0
    assert "telescope" not in reported(rested, "What does Bob keep in the garage?")
    assert "telescope" not in seen(rested)
    assert "kettles" in seen(rested)
    # The cell's point is gone with the words it had, until the indexer has rewritten the rest of the cell.
    rested.services.indexer.run_one(rested.tenant, rested.runtime.worker, tuple(PointKind))
    assert "kettles" in reported(rested, "How many copper kettles did Bob buy?")
    assert_whole(rested)
    assert_nowhere(rested, "zorblax", "telescope")
    assert "kettles" in reported(rested, "How many copper kettles did Bob buy?")

    before = rested.counts()
    repeated = rested.memory.client.enqueue("bob", "garage", GARAGE)
    rested.drive()
    assert rested.counts() == before
    assert repeated.status().turns == 6
    assert_nowhere(rested, "zorblax")


def test_nothing_of_a_deleted_turn_remains_but_its_ordinal_and_the_callers_id(rested: Stack) -> None:
    """Given a turn with metadata and a speaker of its own, when it is deleted, then each column of words is blank and
    was looked at for the receipt, and the cell that outlives it has no summary of it."""
    turns = [dict(turn) for turn in GARAGE]
    turns[0] |= {"metadata": {"mark": "quibovix"}, "speaker_id": "lurovix", "name": "Nezovix"}
    rested.memory.client.enqueue("bob", "marked", turns)
    rested.runtime.extract()
    rested.runtime.reduce()
    rested.execute("UPDATE memforest.cell SET summary = 'of quibovix'")
    assert "turn" in texts_with(rested, "quibovix")

    found = erase(rested, session="marked", turns=["turn@0"])

    row = rested.rows(
        """SELECT t.* FROM memforest.turn t JOIN memforest.session s USING (tenant_id, session_id)
            WHERE s.external_id = 'marked' AND t.ordinal = 0"""
    )[0]
    assert (row.content, row.name, row.speaker_id, row.metadata, row.erased) == ("", "", "", {}, True)
    assert row.external_id == "turn@0"
    assert found.left.keys() >= {"turn.content", "turn.name", "turn.speaker_id", "turn.metadata", "cell.summary"}
    for word in ("lurovix", "nezovix"):
        assert texts_with(rested, word) == []
    rested.execute("UPDATE memforest.cell SET summary = NULL WHERE summary IS NOT NULL")
    assert texts_with(rested, "quibovix") == []


def test_summaries_of_removed_nodes_and_of_masked_ones_are_counted_as_left(rested: Stack) -> None:
    one_node, other = [NodeId(row[0]) for row in rested.rows("SELECT node_id FROM memforest.node_summary LIMIT 2")]
    nothing = dict.fromkeys((each.name for each in fields(Removed)), ())
    forest = ForestId(one(rested, "SELECT forest_id FROM memforest.forest LIMIT 1"))
    counts = []
    with ErasureRows.opened(rested.services.engine, rested.tenant) as rows:
        for given in ({"nodes": [one_node]}, {"masked": [other]}, {"nodes": [one_node], "masked": [other]}):
            found = rows.remaining.of_batch(forest, Removed(**nothing | given))
            counts.append(found["node_summary.node_id"])
    assert counts == [1, 1, 2]


def test_a_cell_without_words_leaves_its_session(rested: Stack) -> None:
    """Given both turns of a cell, when they are deleted, then the cell goes, and the session can still grow."""
    found = erase(rested, session="garage", turns=["turn@2", "turn@3"])

    assert (found.removed["turns"], found.removed["cells"]) == (2, 1)
    assert_nowhere(rested, "quibbert")
    assert one(rested, "SELECT count(*) FROM memforest.turn WHERE erased") == 2
    assert_whole(rested)

    longer = [*GARAGE, *said("I baked a plum cake.", start=START + 600)]
    assert rested.memory.client.enqueue("bob", "garage", longer).status().turns == 7
    rested.drive()
    assert "plum" in reported(rested, "What did Bob bake?")
    assert_whole(rested)


def test_a_fact_that_others_have_said_too_stays(rested: Stack) -> None:
    """Given a fact said in two sessions, when the turn that worded it is deleted, then it is worded by the other."""
    davis = "SELECT o.session_id FROM memforest.occurrence o WHERE o.fact_id = :f"
    before = rested.rows(davis, f=fact_saying(rested, "lives in Davis"))
    assert len(before) == 2
    when = "SELECT mentioned_at FROM memforest.fact WHERE fact_id = :f"
    first = one(rested, when, f=fact_saying(rested, "lives in Davis"))

    found = erase(rested, session="garage", turns=["turn@3"])

    fact = fact_saying(rested, "lives in Davis")
    assert found.removed["reworded"] == 1 and found.removed["occurrences"] >= 1
    left = rested.rows(davis, f=fact)
    assert len(left) == 1
    assert one(rested, when, f=fact) > first
    assert one(rested, f"SELECT count(*) FROM {MEMBERS} p WHERE payload_id = :f", f=fact) >= 1
    assert_whole(rested)
    assert "davis" in reported(rested, "Where does Bob live?")
    fact_saying(rested, "lives in Davis", owner="carol")


def test_pins_and_supersessions_outlive_a_new_wording_and_end_with_their_fact(rested: Stack) -> None:
    davis, clocks = fact_saying(rested, "lives in Davis"), fact_saying(rested, "museum of clocks")
    rested.execute("UPDATE memforest.fact SET pinned = true WHERE fact_id = :f", f=davis)
    rested.execute(
        "UPDATE memforest.fact SET superseded_by = :f, superseded_at = now() WHERE fact_id = :c", f=davis, c=clocks
    )
    erase(rested, session="garage", turns=["turn@3"])
    rebuilt = fact_saying(rested, "lives in Davis")
    state = "SELECT pinned, superseded_by FROM memforest.fact WHERE fact_id = :f"
    assert rested.rows(state, f=rebuilt) == [(True, None)]
    assert rested.rows(state, f=clocks) == [(False, rebuilt)]
    erase(rested, fact=rebuilt)
    assert rested.rows(state, f=clocks) == [(False, None)]


def test_a_deleted_fact_leaves_what_was_said(rested: Stack) -> None:
    fact = fact_saying(rested, "vorpal")
    found = erase(rested, fact=str(fact))

    assert (found.removed["turns"], found.removed["facts"], found.removed["occurrences"]) == (0, 1, 1)
    assert set(texts_with(rested, "vorpal")) <= {"cell", "turn", "node_summary"}
    facts = "SELECT count(*) FROM memforest.node_summary JOIN memforest.node USING (tenant_id, node_id)"
    facts += " JOIN memforest.tree USING (tenant_id, tree_id) WHERE kind <> 'session' AND text ILIKE '%vorpal%'"
    assert one(rested, facts) == 0
    assert rested.versions([fact]) == {}
    with pytest.raises(NotFound):
        ask(rested, fact=fact)


def test_a_deleted_session_leaves_nothing_and_can_come_again(rested: Stack) -> None:
    found = erase(rested, session="party")

    assert_nowhere(rested, "vorpal", "drimble", "Ysolde", "museum of clocks")
    assert (found.removed["turns"], found.removed["cells"], found.removed["sessions"]) == (6, 3, 1)
    assert one(rested, "SELECT count(*) FROM memforest.session WHERE external_id = 'party'") == 0
    assert_whole(rested)
    assert "davis" in reported(rested, "Where does Bob live?")

    rested.memory.client.enqueue("bob", "party", PARTY)
    rested.drive()
    assert "flute" in reported(rested, "Which flute does Bob learn?")
    assert_whole(rested)


def test_a_long_session_goes_in_parts_and_is_whole_at_any_time(rested: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    """Given a session of more cells than one batch, then after each step what is left of it breaks no promise."""
    monkeypatch.setattr(steps, "BATCH_CELLS", 5)
    task, step = held(rested, session="lamps"), rested.services.lifecycle.erasing.step
    progress: Numbers | None = {}
    left = []
    while progress is not None and progress.get("phase") != "index":
        progress = step(rested.tenant, task, progress)
        left.append(one(rested, "SELECT count(*) FROM memforest.cell WHERE text LIKE '%brass lamp%'"))
        assert_verified(rested)
    assert left == [7, 2, 0]
    assert_nowhere(rested, "brass lamp")


def test_a_time_range_takes_what_was_said_in_it(rested: Stack) -> None:
    """Given [since, until), then what was said at its start goes, and what was said at its end stays."""
    found = erase(rested, since=START + 60, until=START + 10 * DAY + 60)

    assert found.removed["turns"] == 6
    assert_nowhere(rested, "kettles", "quibbert", "Wumpel")
    assert texts_with(rested, "zorblax") and texts_with(rested, "vorpal")
    assert rested.memory.status("bob", "party").turns == 6


def test_a_speakers_words_go_from_all_sessions(rested: Stack) -> None:
    found = erase(rested, speaker="ysolde")

    assert (found.removed["turns"], found.removed["cells"]) == (2, 1)
    assert_nowhere(rested, "drimble", "peanuts", "ysolde")
    assert one(rested, "SELECT count(*) FROM memforest.speaker WHERE name = 'Ysolde'") == 0
    with pytest.raises(NotFound):
        ask(rested, speaker="ysolde")


def test_a_deleted_owner_is_nobody_at_once_and_nowhere_in_the_end(rested: Stack) -> None:
    """Given another owner with some of the same words, when one is deleted, then the other is as before."""
    gone = one(rested, "SELECT forest_id FROM memforest.forest WHERE owner = 'bob'")
    task = ask(rested, everything=True)
    with pytest.raises(NotFound):
        rested.memory.status("bob", "garage")
    with pytest.raises(NotFound):
        ask(rested, everything=True)
    work(rested)
    found = receipt(rested, task)

    assert found.clean
    assert found.removed["turns"] == 36 and found.removed["forests"] == 1
    assert rested.services.index.count(rested.tenant, ForestId(gone)) == 0
    assert_nowhere(rested, "bob", "zorblax", "brass lamp", "Ysolde", "vorpal")
    assert texts_with(rested, str(gone)) == ["audit", "llm_call", "maintenance"]
    assert_whole(rested)
    assert "davis" in reported(rested, "Where does Carol live?", "carol")
    given_of = rested.services.operations.audit(rested.tenant, "bob")
    assert [(entry.action, entry.outcome) for entry in given_of] == [("erase", "done"), ("erase", "requested")]

    rested.memory.client.enqueue("bob", "garage", GARAGE)
    rested.drive()
    assert one(rested, "SELECT forest_id FROM memforest.forest WHERE owner = 'bob'") != gone
    assert_whole(rested)


def test_finding_the_forests_of_an_owner_reads_no_other_forest(rested: Stack) -> None:
    """Given many owners, then the live and the hidden forests of one are found by indexes, and none that is gone."""
    rested.execute(
        """INSERT INTO memforest.forest (tenant_id, forest_id, owner, state)
           SELECT :t, gen_random_uuid(), CASE WHEN n <= 3 THEN 'many' ELSE 'other-' || n END,
                  (ARRAY['frozen', 'hidden', 'gone'])[CASE WHEN n <= 3 THEN n ELSE 1 + n % 3 END]
             FROM generate_series(1, 3000) n""",
        t=rested.tenant,
    )
    rested.execute("ANALYZE memforest.forest")
    with tenant_transaction(rested.services.engine, rested.tenant) as connection:
        values = {"t": rested.tenant, "owner": "many"}
        found = connection.scalars(_FORESTS_OF_OWNER, values).all()
        plan = "\n".join(connection.scalars(sa.text(f"EXPLAIN {_FORESTS_OF_OWNER.text}"), values))
    states = dict(rested.rows("SELECT forest_id, state FROM memforest.forest WHERE owner = 'many'"))
    assert [states[forest] for forest in found] == ["frozen", "hidden"]
    assert "Seq Scan" not in plan, plan


def test_an_owner_deleted_in_the_middle_of_work_gets_no_more_of_it(rested: Stack) -> None:
    """Given a session that waits to be extracted, one that waits to be placed and dirty trees, when their owner is
    deleted, then no worker finds any of it."""
    rested.memory.client.enqueue("bob", "next", said("I planted an oak tree.", start=START + 50 * DAY))
    rested.services.extraction.run_one(rested.tenant, rested.runtime.worker)
    rested.memory.client.enqueue("bob", "later", said("I planted an elm tree.", start=START + 51 * DAY))
    rested.memory.client.append("bob", "talk", {"role": "user", "content": "I planted a fig tree."})
    ask(rested, everything=True)

    assert rested.runtime.extract() == rested.runtime.reduce() == rested.runtime.refresh() == 0
    rested.drive()
    assert_nowhere(rested, "oak tree", "elm tree", "fig tree", "bob")
    assert_whole(rested)


def held(pipeline: Stack, **target: Any) -> OperationTask:
    """A requested task that no worker takes, for a test to step through."""
    task = ask(pipeline, **target)
    pipeline.execute("UPDATE memforest.maintenance SET available_at = now() + interval '1 day'")
    return pipeline.services.operations.get(pipeline.tenant, task)


TARGETS: dict[str, Callable[[Stack], dict[str, Any]]] = {
    "turns": lambda _: {"session": "lamps", "turns": [f"turn@{n}" for n in range(1, 12)]},
    "fact": lambda pipeline: {"fact": fact_saying(pipeline, "lives in Davis")},
    "speaker": lambda _: {"speaker": "ysolde"},
    "session": lambda _: {"session": "party"},
    "range": lambda _: {"since": START, "until": START + DAY},
    "owner": lambda _: {"everything": True},
}
"""Each in the forest that those before have left."""


def test_a_step_taken_twice_ends_the_same(rested: Stack) -> None:
    """Given a kill after each step's commit, when the step is taken again from the progress before it, then the end
    is the same and nothing is counted twice or lost; a dry run had said the same numbers and written nothing."""
    for target, choose in TARGETS.items():
        before, chosen = everything(rested), choose(rested)
        plan = ask(rested, dry_run=True, **chosen)
        work(rested)
        planned = receipt(rested, plan).removed
        assert everything(rested) == before

        task = held(rested, **chosen)
        step = rested.services.lifecycle.erasing.step
        progress: Numbers | None = {}
        while progress is not None:
            step(rested.tenant, task, progress)
            progress = step(rested.tenant, task, progress)
            if progress is not None:
                stored(rested, task.id, progress)
        ended = receipt(rested, task.id)

        assert {name: count for name, count in ended.left.items() if count} == {}
        same = {name for name in planned if target != "owner" or name not in ("vectors", "forests", "scopes")}
        assert {name: ended.removed.get(name, 0) for name in same} == {name: planned[name] for name in same}
        assert planned["turns"] + planned["facts"] > 0
        rested.execute("DELETE FROM memforest.maintenance")
        rested.drive()
        assert_verified(rested)


def stored(pipeline: Stack, task: TaskId, progress: Numbers) -> None:
    with ErasureRows.opened(pipeline.services.engine, pipeline.tenant) as rows:
        rows.deletion.tasks.advance(task, progress)


REAL = (
    "UPDATE memforest.cell SET text_hash = sha256(cell_id::text::bytea) WHERE forest_id = :f",
    "UPDATE memforest.fact SET text_hash = sha256(fact_id::text::bytea) WHERE forest_id = :f",
    "UPDATE memforest.turn SET speaker_id = 'bob', name = 'Bob' WHERE session_id = :f",
    "ANALYZE",
)
"""Texts differ, and who speaks has spoken before."""
READ = """SELECT relname, coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0) FROM pg_stat_user_tables
    WHERE schemaname = 'memforest'"""


def read_rows(pipeline: Stack) -> dict[str, int]:
    """How many rows were read of each table, once all connections have said so by their end."""
    pipeline.disconnect()
    others = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    assert waited(polled(lambda: not pipeline.rows(others) or None, 10.0, 0.05))
    return {str(name): int(read) for name, read in pipeline.rows(READ)}


def test_neither_adding_nor_erasing_a_session_reads_the_forest(rested: Stack) -> None:
    """At a volume where it matters, under row security, with the planner's own estimates."""
    for statement in (*FILL, *REAL):
        rested.execute(statement, f=UUID(int=5), n=VOLUME)
    before = read_rows(rested)
    rested.memory.client.enqueue("many", "garage", GARAGE)
    while rested.runtime.extract() + rested.runtime.reduce():
        pass
    added = read_rows(rested)
    assert erase(rested, "many", session="garage").removed["facts"] >= 5
    erased = read_rows(rested)
    for more, less in ((added, before), (erased, added)):
        assert {name: read - less[name] for name, read in more.items() if read - less[name] > VOLUME / 4} == {}


def test_a_running_extraction_of_deleted_words_is_never_saved(rested: Stack) -> None:
    """Given an extraction that has read a window, when one of its turns is deleted before it answers, then the answer
    is refused, and the window is extracted again without these words."""
    rested.memory.client.enqueue(
        "bob", "secrets", said("I hid a flumox in the attic.", "I live near a lake.", start=START + 60 * DAY)
    )
    service = rested.services.extraction
    with ExtractRows.opened(rested.services.engine, rested.tenant) as rows:
        claim = rows.claim_window(rested.runtime.worker, 60.0)
    assert claim is not None
    calls: list[Any] = []
    answer = service._read(rested.tenant, claim, None, calls, ())
    assert any("flumox" in new.statement.text for cell in answer.cells for new in cell.candidates)

    found = erase(rested, session="secrets", turns=["turn@0"])
    assert found.removed["fenced"] == 1
    assert service._stored(rested.tenant, claim, answer, calls) is False
    assert_nowhere(rested, "flumox")
    rested.drive()
    assert_nowhere(rested, "flumox")
    assert "lake" in reported(rested, "What does Bob live near?")
    assert_whole(rested)


def test_what_the_reducer_has_read_of_deleted_words_is_never_placed(rested: Stack) -> None:
    rested.memory.client.enqueue(
        "bob", "secrets", said("I hid a flumox in the attic.", "I live near a lake.", start=START + 60 * DAY)
    )
    rested.services.extraction.run_one(rested.tenant, rested.runtime.worker)
    with ReduceRows.opened(rested.services.engine, rested.tenant) as rows:
        waiting = rows.queue.waiting(10)
        assert waiting is not None
        batch = rows.queue.load(waiting, rested.services.embedder.model)
    erase(rested, session="secrets", turns=["turn@0"])
    with ReduceRows.opened(rested.services.engine, rested.tenant) as rows:
        assert rows.lock_forest(batch.forest_id)
        assert rows.queue.still_waiting(batch) == frozenset()
    rested.drive()
    assert_nowhere(rested, "flumox")
    assert "lake" in reported(rested, "What does Bob live near?")
    assert_whole(rested)


@pytest.mark.parametrize("target", ["session", "owner"])
def test_a_receipt_waits_for_an_indexer_that_is_writing_points(rested: Stack, target: str) -> None:
    """Given an indexer that has read a cell, when it is deleted before its point is written, then there is no receipt
    before the indexer has ended, and then neither vector nor point is left."""
    said_late(rested)
    indexer = rested.services.indexer
    with indexer.open_rows(rested.tenant) as rows:
        lease = PointLease(rested.runtime.worker)
        token, points = lease.token, rows.claim_points(tuple(PointKind), lease, 500)
        held = rows.hold_points(token, {point.id: point.version for point in points})
    (late,) = points
    assert held == {late.id}
    task = ask(rested, everything=True) if target == "owner" else ask(rested, session="secrets")
    rested.drive()
    indexer.index.upsert([late.point(rested.tenant, {late.own_text: unit_vector()})])
    waiting = rested.rows("SELECT state, error_code FROM memforest.maintenance WHERE task_id = :i", i=task)
    assert [tuple(row) for row in waiting] == [("ready", "writer_at_work")]
    assert not receipt(rested, task).clean

    with indexer.open_rows(rested.tenant) as rows:
        ended = rows.finish_points(token, [late.id], {late.id: late.version}, {})
    indexer._undo(rested.tenant, token, [point for point in points if point.id not in ended])
    finish(rested, task)
    assert receipt(rested, task).clean
    assert rested.versions([late.id]) == {}
    assert rested.services.index.count(rested.tenant, late.forest_id) == len(
        rested.rows("SELECT 1 FROM memforest.index_row WHERE forest_id = :f", f=late.forest_id)
    )
    assert_nowhere(rested, "flumox")
    assert_verified(rested)


@pytest.mark.parametrize("target", ["session", "turns", "owner"])
@pytest.mark.parametrize("claimed", ["before the vectors", "before the points"])
def test_an_indexer_that_lost_its_lease_removes_what_it_writes_late(rested: Stack, target: str, claimed: str) -> None:
    """Given an indexer that paused until its lease was lost and the cell was forgotten with a clean receipt, when
    it goes on, then it puts no vector and leaves no point of it."""
    said_late(rested)
    indexer = rested.services.indexer
    with indexer.open_rows(rested.tenant) as rows:
        lease = PointLease(rested.runtime.worker)
        token, points = lease.token, rows.claim_points(tuple(PointKind), lease, 500)
        if claimed == "before the points":
            rows.hold_points(token, {point.id: point.version for point in points})
    (late,) = points
    rested.execute("UPDATE memforest.index_row SET lease_until = now() WHERE state = 'running'")
    rested.services.reconciler.run()
    named = {"owner": {"everything": True}, "session": {"session": "secrets"}}
    task = ask(rested, **named.get(target, {"session": "secrets", "turns": ["turn@0"]}))
    finish(rested, task)
    assert receipt(rested, task).clean

    if claimed == "before the points":
        indexer.index.upsert([late.point(rested.tenant, {late.own_text: unit_vector()})])
        indexer._undo(rested.tenant, token, points)
    else:
        indexer._write(rested.tenant, token, points, {})
    rested.drive()
    own = {late.id: 1} if target == "turns" else {}
    assert rested.versions([late.id]).keys() == own.keys()
    assert rested.rows("SELECT 1 FROM memforest.vector WHERE text_hash = :h", h=text_hash(late.text)) == []
    assert_nowhere(rested, "flumox")
    assert_verified(rested)


def said_late(rested: Stack) -> None:
    """One cell that waits to be indexed."""
    turns = said("I hid a flumox in the attic.", "I live in Davis.", start=START + 60 * DAY)
    rested.memory.client.enqueue("bob", "secrets", turns)


def unit_vector() -> Vectors:
    """Some direction of the embedding model's."""
    return np.eye(1, 384, dtype=np.float32)[0]


def finish(rested: Stack, task: TaskId) -> None:
    """Take a task's steps until it is done, however often it waits."""
    for _ in range(20):
        rested.drive()
        if receipt(rested, task).finished_at is not None:
            return
        rested.hurry()
    raise AssertionError("the operation does not come to an end")


def test_what_models_were_paid_for_goes_too(servers: SessionServers, tmp_path: Path, embedder: Embedder) -> None:
    """Given cached answers and summaries, paid for once, when what they quote is deleted, then they go."""
    with ModelServer() as model:
        llm = {"model": "openai/test-model", "api_base": model.url, "api_key": "test-key", "timeout_s": 5}
        with stack(servers, tmp_path, embedder=embedder, llm=llm, refresh={"budget_chars": 100}) as running:
            running.memory.client.enqueue("bob", "garage", GARAGE[:4])
            running.memory.client.enqueue("bob", "party", PARTY[:2])
            running.drive()
            assert {"extraction_cache", "summary_cache"} <= set(texts_with(running, "kettles"))
            other = running.rows("SELECT count(*) FROM memforest.extraction_cache WHERE answer::text LIKE '%vorpal%'")

            found = erase(running, session="garage", turns=["turn@1"])

            assert found.removed["cached"] >= 2
            assert_nowhere(running, "kettles")
            same = running.rows("SELECT count(*) FROM memforest.extraction_cache WHERE answer::text LIKE '%vorpal%'")
            assert same == other
            assert_verified(running)


def test_a_forest_that_is_being_merged_is_waited_for_and_one_that_was_is_not_what_was_meant(rested: Stack) -> None:
    task, step = held(rested, session="garage"), rested.services.lifecycle.erasing.step
    rested.execute("UPDATE memforest.forest SET state = 'frozen' WHERE owner = 'bob'")
    with pytest.raises(ForestFrozen):
        ask(rested, session="garage")
    with pytest.raises(RetryableError):
        step(rested.tenant, task, {})
    rested.execute("UPDATE memforest.forest SET state = 'gone' WHERE owner = 'bob'")
    with pytest.raises(NotFound):
        step(rested.tenant, task, {})
    assert texts_with(rested, "zorblax")


def test_a_summary_that_was_read_before_a_deletion_is_never_saved_after_it(rested: Stack) -> None:
    """Given a refresh that has read the children of dirty nodes, when some of them are deleted meanwhile, then what it
    saves afterwards is refused for every node above them."""
    rested.execute(
        "UPDATE memforest.node SET version = version + 1 WHERE level > 0;"
        "UPDATE memforest.tree SET due_at = now(), first_mark_at = now() WHERE state = 'active'"
    )
    refresh = rested.services.refresh
    with refresh._open_rows(rested.tenant) as rows:
        token, claimed = rows.claim_ready(rested.runtime.worker, 500, 60.0, 60.0)
        children = rows.children_of([node.id for node in claimed], rested.services.embedder.model)
        nodes = [replace(node, children=tuple(children[node.id])) for node in claimed]
    reading = {node.id for node in nodes if any("telescope" in child.text for child in node.children)}
    assert reading
    erase(rested, session="garage", turns=["turn@0"])
    refresh._refresh(rested.tenant, token, nodes, {}, {}, None)
    assert_nowhere(rested, "telescope")
    rested.drive()
    assert_nowhere(rested, "telescope")
    assert_whole(rested)


def test_a_turn_that_is_deleted_during_a_recall_is_not_delivered(
    rested: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given a recall that has read the turn's text for its token vectors, when the turn is deleted before delivery."""
    question, deliver = "Who keeps a zorblax telescope?", Deliverer.deliver
    assert "zorblax" in rested.memory.recall("bob", question).evidence[0].text

    def late(*given: Any) -> Any:
        erase(rested, session="garage", turns=["turn@0"])
        return deliver(*given)

    monkeypatch.setattr(Deliverer, "deliver", late)
    assert not any("zorblax" in item.text for item in rested.memory.recall("bob", question).evidence)


def test_the_open_end_of_a_running_session_is_closed_or_goes(rested: Stack) -> None:
    def turn(text: str) -> dict[str, object]:
        return {"role": "user", "content": text}

    rested.memory.client.append("bob", "talk", turn("I lost my grimbold hat."))
    erase(rested, session="talk", turns=["turn@0"])
    assert_nowhere(rested, "grimbold")
    assert_whole(rested)
    rested.memory.client.append("bob", "talk", turn("I bought a straw hat."))
    rested.memory.client.append("bob", "talk", turn("I wear it each day."))
    rested.drive()
    assert_whole(rested)
    assert rested.memory.status("bob", "talk").turns == 3
    assert "straw" in reported(rested, "Which hat did Bob buy?")


def test_a_turn_longer_than_a_cell_goes_with_all_its_cells(rested: Stack) -> None:
    letter = "We met a snorf by the river and talked about boats. " * 400
    turns = said("I live in Davis.", letter, "She moved to Miami.", start=START + 70 * DAY)
    rested.memory.client.enqueue("bob", "letter", turns)
    rested.drive()
    found = erase(rested, session="letter", turns=["turn@1"])
    assert found.removed["cells"] >= 3
    assert_nowhere(rested, "snorf")
    assert_whole(rested)


def test_vectors_go_unless_somebody_else_says_the_same(rested: Stack) -> None:
    vectors = rested.counts()["vector"]
    shared = """SELECT count(*) FROM memforest.vector v JOIN memforest.fact f USING (tenant_id, text_hash)
                 WHERE f.fact_id = :f"""
    carols = fact_saying(rested, "love", owner="carol")
    erase(rested, session="garage")
    assert rested.counts()["vector"] < vectors
    assert one(rested, shared, f=carols) == 1
    missing = """SELECT count(*) FROM memforest.fact f WHERE NOT EXISTS (
                   SELECT 1 FROM memforest.vector v WHERE v.tenant_id = f.tenant_id AND v.text_hash = f.text_hash)"""
    assert one(rested, missing) == 0


def test_what_does_not_name_one_thing_is_refused(rested: Stack) -> None:
    wrong: list[dict[str, Any]] = [
        {},
        {"everything": True, "session": "garage"},
        {"turns": ["turn@1"]},
        {"fact": "no id"},
        {"since": START, "until": START},
        {"since": "yesterday"},
    ]
    missing: list[dict[str, Any]] = [
        {"session": "nowhere"},
        {"session": "garage", "turns": ["turn@99"]},
        {"fact": str(uuid4())},
        {"speaker": "nobody"},
        {"owner": "nobody", "everything": True},
    ]
    for error, targets in ((InvalidInput, wrong), (NotFound, missing)):
        for target in targets:
            with pytest.raises(error):
                ask(rested, **target)
    assert rested.counts()["maintenance"] == 0


def test_a_batch_costs_as_many_statements_whatever_it_takes(rested: Stack) -> None:
    """Given one batch of one cell and one of twelve, then they take about the same number of statements."""
    seen: list[object] = []

    def statements(turns: Sequence[str]) -> int:
        task = held(rested, session="lamps", turns=turns)
        seen.clear()
        rested.services.lifecycle.erasing.step(rested.tenant, task, {})
        return len(seen)

    sa.event.listen(rested.services.engine, "before_cursor_execute", lambda *given: seen.append(given))
    assert statements(["turn@0", "turn@1"]) + 12 >= statements([f"turn@{n}" for n in range(2, 24)])
    assert seen


def test_no_word_is_in_a_task_row(rested: Stack) -> None:
    ask(rested, speaker="ysolde")
    ask(rested, session="garage", turns=["turn@1", "turn@2", "turn@4"])
    rows = rested.rows("SELECT arguments FROM memforest.maintenance ORDER BY created_at")
    assert len(rows[0][0]["speaker"]) == 64
    assert rows[1][0]["turns"] == "1,2,4"
    assert not {"maintenance", "audit"} & set(texts_with(rested, "ysolde"))
