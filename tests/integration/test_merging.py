"""Merging forests over the real pipeline: one memory of both, nothing extracted, and summaries only where they meet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from memforest_core.errors import ForestFrozen, InvalidInput, NotFound
from memforest_core.lifecycle.merge.records import NearDuplicate, RenamedSession
from memforest_core.lifecycle.merge.service import MAX_SOURCES, Merging
from memforest_core.work.records import Numbers, OperationTask, TaskId
from tests.harness.sayings import said
from tests.harness.stack import Stack

DAY = 86_400
MONDAY = 1_700_000_000
LAMPS = [f"I paid {n} dollars for a brass lamp numbered {n}." for n in range(12)]
SEA = ("I want to see the sea at Miami.", "Clara knows a hotel there.")
WALK = ("I walked along the river.", "Clara found a silver ring.", "We ate soup at noon.")
OWNERS: Mapping[str, Mapping[str, list[dict[str, object]]]] = {
    "bob": {
        "home": said("I live in Davis.", "My sister Clara has a dog named Rufus.", "I work at a bicycle workshop."),
        "garden": said("I planted tomatoes behind the house.", "Clara gave me a watering can.", start=MONDAY + DAY),
        "lamps": said(*LAMPS, start=MONDAY + 2 * DAY),
        "trip": said(*SEA, start=MONDAY + 3 * DAY),
        "walk": said(*WALK, start=MONDAY + 4 * DAY),
    },
    "alice": {
        "home": said("I live in Boston.", "I adopted a cat named Rex.", name="Alice"),
        "trip": said(*SEA, "The hotel costs 90 dollars.", "It has a garden.", start=MONDAY + 3 * DAY),
        "walk": said(*WALK, "Then it rained on Clara.", start=MONDAY + 4 * DAY),
        "music": said(
            "I play the violin on Thursdays.", "Clara plays the piano.", start=MONDAY + 5 * DAY, name="Alice"
        ),
    },
    "robert": {
        "notes": said("I live in Lisbon.", "I paid 3 dollars for the brass lamp numbered 3.", start=MONDAY + 2 * DAY)
    },
}


def tell(running: Stack) -> None:
    for owner, sessions in OWNERS.items():
        for session, turns in sessions.items():
            running.memory.client.enqueue(owner, session, turns)


@pytest.fixture
def forests(rested: Stack) -> Stack:
    """The forests of Bob, Alice and Robert at rest."""
    return rested


def merging(forests: Stack) -> Merging:
    return forests.services.lifecycle.merging


def ask(forests: Stack, *sources: str, into: str, keep_sources: bool = False, dry_run: bool = False) -> TaskId:
    return merging(forests).ask(
        forests.tenant, sources, into, keep_sources=keep_sources, actor="tests", dry_run=dry_run
    )


def task_of(forests: Stack, task: TaskId) -> OperationTask:
    return forests.services.operations.get(forests.tenant, task)


def finished(forests: Stack, task: TaskId) -> Numbers:
    """Carry out a merge, and nothing else; its numbers."""
    for _ in range(20):
        forests.runtime.maintain()
        if task_of(forests, task).finished:
            break
    found = task_of(forests, task)
    assert (found.state, found.error_text) == ("done", None)
    return found.progress


def owners(forests: Stack) -> dict[str, str]:
    return {row.owner: row.state for row in forests.rows("SELECT owner, state FROM memforest.forest")}


def sessions(forests: Stack, owner: str) -> dict[str, str | None]:
    rows = forests.rows(
        "SELECT s.external_id, s.origin_owner FROM memforest.session s JOIN memforest.forest f USING (forest_id)"
        " WHERE f.owner = :o ORDER BY 1",
        o=owner,
    )
    return {row.external_id: row.origin_owner for row in rows}


def facts(forests: Stack, owner: str) -> list[str]:
    rows = forests.rows(
        "SELECT x.text FROM memforest.fact x JOIN memforest.forest f USING (forest_id) WHERE f.owner = :o", o=owner
    )
    return sorted(row.text for row in rows)


def about(forests: Stack, owner: str, entity: str) -> list[str]:
    """What the leaves of an entity's tree say."""
    rows = forests.rows(
        """SELECT x.text FROM memforest.forest f JOIN memforest.tree r USING (forest_id)
             JOIN memforest.node n ON n.tree_id = r.tree_id JOIN memforest.fact x ON x.fact_id = n.payload_id
            WHERE f.owner = :o AND r.kind = 'entity' AND r.scope_key = :e ORDER BY 1""",
        o=owner,
        e=entity,
    )
    return [row.text for row in rows]


def calls_of_models(forests: Stack) -> int:
    """Calls of chat models so far."""
    return int(forests.rows("SELECT count(*) FROM memforest.llm_call WHERE step IN ('extract', 'summarize')")[0][0])


def summaries(forests: Stack, owner: str) -> dict[tuple[str, str], list[tuple[Any, ...]]]:
    """For each tree what its nodes say, when that was written, and whether they are clean."""
    rows = forests.rows(
        """SELECT r.kind, r.label, n.level, s.text, s.version, s.created_at, n.version = n.clean_version AS clean
             FROM memforest.forest f JOIN memforest.tree r USING (forest_id)
             JOIN memforest.node n ON n.tree_id = r.tree_id AND n.level > 0
             LEFT JOIN memforest.node_summary s ON s.node_id = n.node_id
            WHERE f.owner = :o ORDER BY 1, 2, 3, 4""",
        o=owner,
    )
    found: dict[tuple[str, str], list[tuple[Any, ...]]] = {}
    for row in rows:
        found.setdefault((row.kind, row.label), []).append(tuple(row)[2:])
    return found


def said_in(forests: Stack, owner: str, question: str) -> list[str]:
    return [piece.text for piece in forests.memory.recall(owner, question, k=3).evidence]


def test_two_forests_become_a_new_one(forests: Stack) -> None:
    counts = finished(forests, ask(forests, "bob", "alice", into="both"))
    assert forests.broken() == {}
    assert owners(forests) == {"both": "live", "robert": "live"}
    assert sessions(forests, "both") == {
        "garden": "bob", "home": "bob", "home@alice": "alice", "lamps": "bob", "music": "alice", "trip": "bob",
        "walk": "bob",
    }  # fmt: skip
    assert (counts["sessions"], counts["sessions_same"], counts["sessions_conflicting"]) == (7, 2, 1)
    assert "Bob: I live in Davis." in said_in(forests, "both", "Where does Bob live?")
    assert "Alice: I play the violin on Thursdays." in said_in(forests, "both", "Who plays the violin?")
    forests.drive()
    assert forests.broken() == {}
    # What only one of two readers of the same session was given follows the turns that both have.
    assert "Bob: The hotel costs 90 dollars." in said_in(forests, "both", "What does the hotel cost?")
    assert "Bob: Then it rained on Clara." in said_in(forests, "both", "On whom did it rain?")
    assert not forests.memory.recall("alice", "Who plays the violin?").owner_known


def test_trees_of_one_side_are_copied_with_their_summaries(forests: Stack) -> None:
    before = {owner: summaries(forests, owner) for owner in ("bob", "alice")}
    calls = calls_of_models(forests)
    counts = finished(forests, ask(forests, "bob", "alice", into="both", keep_sources=True))
    after = summaries(forests, "both")
    for owner, label, name in (("bob", "lamps", "lamps"), ("alice", "home", "home@alice"), ("alice", "music", "music")):
        assert after["session", name] == before[owner]["session", label]
    dirty = {tree for tree, nodes in after.items() if not all(node[-1] for node in nodes)}
    assert ("entity", "Clara") in dirty
    assert dirty <= {("entity", "Clara"), ("session", "trip"), ("session", "walk")} | {
        tree for tree in after if tree[0] != "session" and tree in before["bob"] and tree in before["alice"]
    }
    assert sum(not node[-1] for nodes in after.values() for node in nodes) <= int(counts["nodes_dirty"])
    assert calls_of_models(forests) == calls
    assert {owner: summaries(forests, owner) for owner in ("bob", "alice")} == before


def test_a_live_forest_takes_another_in(forests: Stack) -> None:
    mine, theirs = facts(forests, "bob"), facts(forests, "alice")
    clara = {*about(forests, "bob", "clara"), *about(forests, "alice", "clara")}
    counts = finished(forests, ask(forests, "alice", into="bob"))
    assert forests.broken() == {}
    assert owners(forests) == {"bob": "live", "robert": "live"}
    merged = facts(forests, "bob")
    assert set(merged) == {*mine, *theirs}
    assert len(merged) == len(mine) + int(counts["facts"]) == len(set(merged))
    assert counts["facts_exact"] == len(theirs) - int(counts["facts"])
    assert set(about(forests, "bob", "clara")) == clara
    assert sessions(forests, "bob")["music"] == "alice"
    assert sessions(forests, "bob")["lamps"] is None


def test_nearly_the_same_sentence_of_one_day_is_one_fact(forests: Stack) -> None:
    counts = finished(forests, ask(forests, "robert", into="bob", keep_sources=True))
    assert counts["facts_near"] == 1
    assert "Bob paid 3 dollars for the brass lamp numbered 3." not in facts(forests, "bob")
    provenance = forests.rows(
        """SELECT s.external_id FROM memforest.fact x JOIN memforest.forest f USING (forest_id)
             JOIN memforest.occurrence o USING (fact_id) JOIN memforest.session s ON s.session_id = o.session_id
            WHERE f.owner = 'bob' AND x.text LIKE '%numbered 3.' ORDER BY 1"""
    )
    assert [row.external_id for row in provenance] == ["lamps", "notes"]
    assert forests.broken() == {}


def test_sources_take_no_sessions_until_it_is_done(forests: Stack) -> None:
    service, task = merging(forests), task_of(forests, ask(forests, "alice", into="bob", keep_sources=True))
    frozen = service.step(forests.tenant, task, {})
    assert frozen is not None
    with pytest.raises(ForestFrozen) as refused:
        forests.memory.client.enqueue("alice", "new", said("I bought a drum."))
    assert refused.value.retry_after > 0
    with pytest.raises(ForestFrozen):
        ask(forests, "alice", into="robert")
    assert ask(forests, "alice", into="bob", keep_sources=True) == task.id
    assert said_in(forests, "alice", "Who plays the violin?")
    forests.memory.client.enqueue("bob", "new", said("I bought a drum."))
    finished(forests, task.id)
    forests.memory.client.enqueue("alice", "new", said("I bought a drum."))
    assert owners(forests) == dict.fromkeys(("alice", "bob", "robert"), "live")


def test_every_step_can_be_taken_again(forests: Stack) -> None:
    service, id_ = merging(forests), ask(forests, "bob", "alice", into="both")
    progress: Numbers | None = {}
    phases = []
    while progress is not None and progress.get("phase") != "clear":
        phases.append(progress.get("phase"))
        after = service.step(forests.tenant, task_of(forests, id_), progress)
        counts = forests.counts()
        assert service.step(forests.tenant, task_of(forests, id_), progress) == after
        assert forests.counts() == counts
        progress = after
    assert phases == [None, "merge", "merge", "end"]
    finished(forests, id_)
    assert owners(forests) == {"both": "live", "robert": "live"}
    assert forests.broken() == {}


def test_a_dry_run_counts_and_writes_nothing(forests: Stack) -> None:
    before, states = forests.counts(), owners(forests)
    planned = dict(finished(forests, ask(forests, "bob", "alice", into="both", dry_run=True)))
    assert planned.pop("phase") == "planned"
    left = forests.counts()
    assert {name for name in left if left[name] != before[name]} == {"maintenance", "audit"}
    assert owners(forests) == states
    done = finished(forests, ask(forests, "bob", "alice", into="both", keep_sources=True))
    assert planned == {name: done[name] for name in planned}
    assert int(planned["trees_copied"]) > int(planned["trees_matched"]) > 0


def test_the_conflict_report_names_what_meets(forests: Stack) -> None:
    counts = forests.counts()
    report = merging(forests).conflicts(forests.tenant, ["alice", "robert"], "bob")
    assert forests.counts() == counts
    assert report.sessions == (RenamedSession("alice", "home", "home@alice"),)
    assert [(each.subject, each.source_value, each.target_value) for each in report.values] == [
        ("bob", "Lisbon", "Davis")
    ]
    assert report.conflicts == 2
    assert "Clara knows a hotel there." in report.exact
    near = "Bob paid 3 dollars for {} brass lamp numbered 3."
    assert report.near == (NearDuplicate(near.format("the"), near.format("a")),)


def test_what_is_still_on_its_way_goes_on_in_the_target(forests: Stack) -> None:
    forests.memory.client.enqueue("alice", "late", said("I bought a drum in Oslo.", "It is red.", name="Alice"))
    finished(forests, ask(forests, "alice", into="bob"))
    forests.drive()
    assert "Alice bought a drum in Oslo." in facts(forests, "bob")
    assert forests.memory.status("bob", "late").placed == 1
    assert forests.broken() == {}


def test_who_writes_for_the_new_owner_meanwhile_loses_nothing(forests: Stack) -> None:
    service, id_ = merging(forests), ask(forests, "alice", into="both")
    progress = service.step(forests.tenant, task_of(forests, id_), {})
    forests.memory.client.enqueue("both", "early", said("I sold a boat.", name="Igor"))
    while progress is not None and progress.get("phase") != "clear":
        progress = service.step(forests.tenant, task_of(forests, id_), progress)
    finished(forests, id_)
    assert owners(forests) == {"both": "live", "bob": "live", "robert": "live"}
    found = sessions(forests, "both")
    assert found == {"early": None, "home": "alice", "music": "alice", "trip": "alice", "walk": "alice"}
    assert forests.broken() == {}


def test_corrections_come_along(forests: Stack) -> None:
    correction = forests.services.lifecycle.correction
    for old, new in (
        ("Clara knows a hotel there.", "Clara knows a small inn there."),
        ("Bob works at a bicycle workshop.", "Bob works at a boat yard."),
    ):
        fact = forests.rows(
            "SELECT fact_id FROM memforest.fact JOIN memforest.forest f USING (forest_id)"
            " WHERE f.owner = 'bob' AND text = :x",
            x=old,
        )[0].fact_id
        correction.correct(forests.tenant, "bob", fact, text=new, actor="tests")
        forests.drive()
    finished(forests, ask(forests, "bob", into="alice"))
    assert forests.broken() == {}
    pairs = forests.rows(
        """SELECT o.text, n.text AS successor FROM memforest.fact o JOIN memforest.forest f USING (forest_id)
             JOIN memforest.fact n ON n.fact_id = o.superseded_by AND n.forest_id = o.forest_id
            WHERE f.owner = 'alice' ORDER BY 1"""
    )
    assert [tuple(pair) for pair in pairs] == [
        ("Bob works at a bicycle workshop.", "Bob works at a boat yard."),
        ("Clara knows a hotel there.", "Clara knows a small inn there."),
    ]
    forests.drive()
    assert forests.broken() == {}


def test_pins_and_visits_come_along(forests: Stack) -> None:
    forests.execute("UPDATE memforest.fact SET pinned = true WHERE text LIKE 'Bob paid 3 dollars for the%'")
    forests.execute(
        """INSERT INTO memforest.visit (tenant_id, item_id, forest_id, visits)
           SELECT tenant_id, fact_id, forest_id, 2 FROM memforest.fact
           UNION ALL SELECT tenant_id, cell_id, forest_id, 3 FROM memforest.cell
           UNION ALL SELECT tenant_id, root_id, forest_id, 5 FROM memforest.tree WHERE root_id IS NOT NULL"""
    )
    finished(forests, ask(forests, "robert", into="bob"))
    merged = forests.rows("SELECT fact_id, pinned FROM memforest.fact WHERE text LIKE 'Bob paid 3 dollars for a%'")
    assert merged[0].pinned
    visits = forests.rows("SELECT visits FROM memforest.visit WHERE item_id = :f", f=merged[0].fact_id)
    assert visits[0].visits == 4
    unknown = forests.rows(
        """SELECT 1 FROM memforest.visit v WHERE NOT EXISTS (SELECT 1 FROM memforest.fact WHERE fact_id = item_id)
              AND NOT EXISTS (SELECT 1 FROM memforest.cell WHERE cell_id = item_id)
              AND NOT EXISTS (SELECT 1 FROM memforest.node WHERE node_id = item_id)"""
    )
    assert unknown == []
    assert forests.rows("SELECT 1 FROM memforest.visit JOIN memforest.cell ON cell_id = item_id JOIN memforest.session s"
             " USING (session_id) WHERE s.external_id = 'notes' AND visits = 3")  # fmt: skip


def test_what_is_deleted_meanwhile_stays_deleted(forests: Stack) -> None:
    service, id_ = merging(forests), ask(forests, "alice", "robert", into="bob", keep_sources=True)
    service.step(forests.tenant, task_of(forests, id_), {})
    forests.execute("UPDATE memforest.forest SET state = 'gone' WHERE owner = 'robert'")
    assert finished(forests, id_)["phase"] == "merged"
    assert "notes" not in sessions(forests, "bob")
    id_ = ask(forests, "alice", into="bob")
    service.step(forests.tenant, task_of(forests, id_), {})
    forests.execute("UPDATE memforest.forest SET state = 'gone' WHERE owner = 'bob'")
    assert finished(forests, id_)["phase"] == "abandoned"
    assert owners(forests)["alice"] == "live"


def test_merges_meet_again_without_a_trace(forests: Stack) -> None:
    finished(forests, ask(forests, "alice", into="bob", keep_sources=True))
    before = facts(forests, "bob")
    second = finished(forests, ask(forests, "alice", into="bob", keep_sources=True))
    assert facts(forests, "bob") == before
    assert (second["sessions"], second["facts"], second["nodes_dirty"]) == (0, 0, 0)
    assert forests.broken() == {}


def test_what_cannot_be_merged_is_refused_before_anything_is_changed(forests: Stack) -> None:
    before = forests.counts()
    for sources, into, error in (
        ([], "bob", InvalidInput),
        (["bob"], "bob", InvalidInput),
        (["alice", "alice"], "bob", InvalidInput),
        ([f"owner{n}" for n in range(MAX_SOURCES + 1)], "bob", InvalidInput),
        (["nobody"], "bob", NotFound),
        (["alice"], "", InvalidInput),
    ):
        with pytest.raises(error):
            ask(forests, *sources, into=into)
    assert forests.counts() == before
