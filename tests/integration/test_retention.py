"""Retention: visits are counted in batches, and policies forget what is least important and nothing else."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import sqlalchemy as sa

from memforest_core.domain.ids import TenantId
from memforest_core.errors import InvalidInput, NotFound, StoreUnavailable
from memforest_core.lifecycle.retain.records import Phase, When
from memforest_core.lifecycle.retain.rows import RetentionRows
from memforest_core.lifecycle.retain.service import COUNTS
from memforest_core.models.calls import Embedder
from memforest_core.recall.records import Visited
from memforest_core.recall.rows.visit_rows import add_visits
from memforest_core.recall.visit_counter import VisitCounter
from memforest_core.store.engine import open_engine
from tests.harness.retaining import Bounded, retention
from tests.harness.sayings import said
from tests.harness.servers import SessionServers
from tests.harness.stack import Grown, Stack, cloned

LAMPS = [f"I paid {n} dollars for a brass lamp numbered {n}." for n in range(20)]
MARCH = 1_709_300_000
"""A spring after which nothing else in these tests was said for a year."""


def tell(running: Stack) -> None:
    """Bob's twenty facts and what Eve said, at rest, to be cloned."""
    running.memory.client.enqueue("bob", "lamps", said(*LAMPS))
    river = "I walked by the river on Sunday, and it was lovely."
    running.memory.client.enqueue("bob", "walk", said(river, start=MARCH))
    dog = said("I adopted a dog named Rex.", "I love hiking.", name="Eve", start=MARCH)
    running.memory.client.enqueue("eve", "eve", dog)


@pytest.fixture
def bounded(servers: SessionServers, grown: Grown, tmp_path: Path, embedder: Embedder) -> Iterator[Bounded]:
    with cloned(servers, grown, tmp_path, embedder) as running:
        yield Bounded(running)


@pytest.fixture(scope="module")
def shared(
    servers: SessionServers, grown: Grown, tmp_path_factory: pytest.TempPathFactory, embedder: Embedder
) -> Iterator[Bounded]:
    with cloned(servers, grown, tmp_path_factory.mktemp("shared"), embedder) as running:
        yield Bounded(running)


@pytest.fixture
def unerased(shared: Bounded) -> Iterator[Bounded]:
    """The same for tests that erase nothing, which share it."""
    yield shared
    shared.stack.execute("DELETE FROM memforest.visit; DELETE FROM memforest.retention_policy")


@contextmanager
def statements(engine: sa.Engine) -> Iterator[list[str]]:
    seen: list[str] = []

    def note(*event: object) -> None:
        seen.append(str(event[2]))

    sa.event.listen(engine, "before_cursor_execute", note)
    try:
        yield seen
    finally:
        sa.event.remove(engine, "before_cursor_execute", note)


VISITS = "SELECT item_id, visits FROM memforest.visit"


def test_what_recall_returns_is_counted_with_all_above_it_and_written_at_close(unerased: Bounded) -> None:
    """Given recalls, then nothing is written for them; given the end of the process, then facts, cells and the nodes
    above them are visited as often as they were returned, and nothing else is."""
    memory, services = unerased.stack.memory, unerased.stack.services
    with statements(services.engine) as seen:
        found = [memory.recall("bob", "How much was the brass lamp numbered 7?", k=2) for _ in range(3)]
    assert not [statement for statement in seen if "memforest.visit" in statement]
    assert unerased.stack.rows(VISITS) == []
    with statements(services.engine) as seen:
        services.visits.flush()
    assert len([statement for statement in seen if "INSERT INTO memforest.visit" in statement]) == 1

    visits = dict(unerased.stack.rows(VISITS))
    facts = {fact for piece in found[0].evidence for fact in piece.fact_ids}
    above = {node.node_id for piece in found[0].evidence for node in piece.path}
    assert facts
    assert {visits[fact] for fact in facts} == {3}
    assert above <= visits.keys()
    known = unerased.ids(
        """SELECT item_id FROM memforest.visit v WHERE EXISTS (SELECT 1 FROM memforest.fact WHERE fact_id = item_id)
            OR EXISTS (SELECT 1 FROM memforest.cell WHERE cell_id = item_id)
            OR EXISTS (SELECT 1 FROM memforest.node WHERE node_id = item_id)"""
    )
    assert set(known) == visits.keys()
    cells = unerased.ids("SELECT DISTINCT cell_id FROM memforest.occurrence WHERE fact_id = ANY(:f)", f=list(facts))
    assert set(cells) <= visits.keys()
    root = (
        "SELECT root_id FROM memforest.tree r JOIN memforest.session s USING (session_id) WHERE external_id = 'lamps'"
    )
    assert visits[unerased.ids(root)[0]] == 3 * len(set(cells))
    assert not set(unerased.facts("eve").values()) & visits.keys()


def test_visits_are_added_up_and_the_last_is_stored(unerased: Bounded) -> None:
    """Given counts written out of order and for what is unknown or gone, then they add up, the last visit is the latest,
    and nothing is stored of what is not there."""
    engine, tenant = unerased.stack.services.engine, unerased.stack.tenant
    forest, fact = unerased.forest(), next(iter(unerased.facts().values()))
    add_visits(engine, tenant, [Visited(forest, fact, 2, 100.0), Visited(forest, uuid4(), 5, 0.0)])
    add_visits(engine, tenant, [Visited(forest, fact, 3, 5_000.0), Visited(unerased.forest("eve"), fact, 9, 0.0)])
    add_visits(engine, TenantId("other"), [Visited(forest, fact, 7, 0.0)])
    rows = unerased.stack.rows(
        """SELECT v.visits, extract(epoch FROM now() - last_visit_at) AS ago FROM memforest.visit v
            WHERE v.item_id = :f""",
        f=fact,
    )
    assert [(row.visits, 95 < row.ago < 150) for row in rows] == [(5, True)]
    assert unerased.ids("SELECT count(*) FROM memforest.visit v JOIN memforest.fact ON fact_id = item_id") == [1]
    unerased.stack.execute("UPDATE memforest.forest SET state = 'gone' WHERE owner = 'bob'")
    add_visits(engine, tenant, [Visited(forest, fact, 1, 0.0)])
    unerased.stack.execute("UPDATE memforest.forest SET state = 'live'")
    assert unerased.ids("SELECT visits FROM memforest.visit WHERE item_id = :f", f=fact) == [5]


def test_processes_that_write_the_same_visits_at_once_lose_none(unerased: Bounded) -> None:
    """Given eight threads with counters of their own over the same facts, then every visit is there: no deadlock."""
    engine = open_engine(unerased.stack.settings.database.model_copy(update={"pool_size": 8}))
    facts, forest = sorted(unerased.facts().values()), unerased.forest()
    left: list[VisitCounter] = []

    def recalls(seed: int) -> None:
        counter = VisitCounter(partial(add_visits, engine), items=15)
        for number in range(30):
            start = (number * seed) % len(facts)
            counter.note(unerased.stack.tenant, forest, (facts[start:] + facts[:start])[:: 1 if number % 2 else -1])
            if number % 5 == 0:
                counter.flush()
        counter.flush()
        left.append(counter)

    threads = [threading.Thread(target=recalls, args=(seed,)) for seed in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    engine.dispose()
    assert len(left) == 8
    assert {row.visits for row in unerased.stack.rows(VISITS) if row.item_id in facts} == {240}


def test_an_owner_policy_goes_before_the_one_of_the_tenant(unerased: Bounded) -> None:
    """Given policies of tenant and owner, then each is found where it applies, and who set or cleared it is in the audit."""
    tenant, retention_ = unerased.stack.tenant, unerased.retention
    assert retention_.policies(tenant) == []
    assert retention_.apply(tenant, None, actor="ann") == ()
    with pytest.raises(NotFound, match="No retention policy applies to owner 'bob'"):
        retention_.apply(tenant, "bob", actor="ann")
    unerased.policy(None, max_facts=100)
    unerased.policy("bob", max_age_days=30, max_bytes=10_000, fraction=0.5)
    others, own = retention_.policies(tenant)
    assert (own.owner, own.max_age_days, own.max_facts, own.max_bytes, own.fraction) == ("bob", 30, None, 10_000, 0.5)
    assert (others.owner, others.max_facts, others.fraction) == (None, 100, 0.1)
    assert [policy.owner for policy in retention_.policies(tenant)] == [None, "bob"]
    with pytest.raises(NotFound):
        unerased.policy("nobody", max_facts=3)
    with pytest.raises(InvalidInput, match="actor"):
        retention_.set_policy(tenant, "bob", actor=" ", max_facts=3)
    assert retention_.clear_policy(tenant, "bob", actor="ann")
    assert not retention_.clear_policy(tenant, "bob", actor="ann")
    assert [policy.owner for policy in retention_.policies(tenant)] == [None]
    assert retention_.preview(tenant, "bob").facts == ()
    audit = unerased.stack.services.operations.audit(tenant, "bob")
    assert [(entry.action, entry.actor, dict(entry.detail)) for entry in audit[:2]] == [
        ("clear_policy", "ann", {}),
        ("set_policy", "ann", {"max_age_s": 2_592_000, "max_bytes": 10_000, "fraction": "0.5"}),
    ]


def test_a_forest_under_its_budget_is_not_touched(unerased: Bounded) -> None:
    """Given a forest far under its budget, then a run measures it once and nothing is erased, written or marked."""
    before = unerased.stack.counts() | {"nodes": sum(unerased.ids("SELECT version FROM memforest.node"))}
    unerased.policy(max_facts=1_000, max_bytes=1_000_000, max_age_days=30_000)
    with statements(unerased.stack.services.engine) as seen:
        done = unerased.run()
    assert (
        len([statement for statement in seen if "retention_policy p" in statement or "memforest.fact f" in statement])
        <= 2
    )
    assert done == {"phase": "done"} | dict.fromkeys(COUNTS, 0)
    after = unerased.stack.counts() | {"nodes": sum(unerased.ids("SELECT version FROM memforest.node"))}
    changed = {name for name, count in after.items() if count != before[name]}
    assert changed == {"retention_policy", "maintenance", "audit"}


def test_the_least_important_unpinned_facts_go_first_and_at_most_a_fraction(bounded: Bounded) -> None:
    """Given a forest over its budget, with facts visited, pinned and superseded, when its policy is applied, then the
    superseded go, then the unvisited and oldest, as many as the fraction allows; the next run takes the rest."""
    tenant, forest = bounded.stack.tenant, bounded.forest()
    facts = bounded.ids(
        "SELECT fact_id FROM memforest.fact WHERE forest_id = :f ORDER BY key_time, key_ordinal", f=forest
    )
    total = len(facts)
    pinned, visited, superseded = facts[0], facts[1:3], facts[-1]
    bounded.stack.execute("UPDATE memforest.fact SET pinned = true WHERE fact_id = :f", f=pinned)
    bounded.stack.execute(
        "UPDATE memforest.fact SET superseded_by = :by, superseded_at = now() WHERE fact_id = :f",
        f=superseded,
        by=facts[-2],
    )
    add_visits(bounded.stack.services.engine, tenant, [Visited(forest, fact, 1, 0.0) for fact in visited])
    bounded.policy(max_facts=total - 7, fraction=0.25)
    quota = total // 4
    expected = [superseded, *facts[3 : 2 + quota]]
    assert quota < 7

    plan = bounded.retention.preview(tenant, "bob")
    assert list(plan.facts) == expected
    assert (plan.over_facts, plan.pinned_facts, plan.aged, plan.words) == (7, 1, (), ())
    done = bounded.run()
    assert set(bounded.facts().values()) == set(facts) - set(expected)
    assert (done["over_facts"], done["forgotten"], done["pinned_facts"], done["forests"]) == (7, quota, 1, 1)
    bounded.stack.assert_verified()

    second = bounded.run()
    assert (second["over_facts"], second["forgotten"]) == (7 - quota, min(7 - quota, (total - quota) // 4))
    while bounded.run()["forests"]:
        pass
    assert len(bounded.facts()) == total - 7
    assert {pinned, *visited} <= set(bounded.facts().values())
    bounded.stack.assert_verified()


def test_the_order_of_forgetting_is_the_one_of_the_domain(unerased: Bounded) -> None:
    """Given facts with all sorts of visits and ages, then Postgres orders them as ``retention`` does."""
    forest, now = unerased.forest(), datetime.now(UTC)
    facts = sorted(unerased.facts().values())
    for number, fact in enumerate(facts):
        moment = now - timedelta(hours=7 * (number * number % 23))
        unerased.stack.execute("UPDATE memforest.fact SET mentioned_at = :at WHERE fact_id = :f", f=fact, at=moment)
        if number % 3:
            visited = now - timedelta(hours=11 * (number % 7))
            unerased.stack.execute(
                "INSERT INTO memforest.visit VALUES (:t, :i, :f, :n, :at)",
                t=unerased.stack.tenant,
                i=fact,
                f=forest,
                n=(number * 7) % 40,
                at=visited,
            )
    with RetentionRows.opened(unerased.stack.services.engine, unerased.stack.tenant) as rows:
        ordered = [leaf.id for leaf in rows.first(Phase.FACTS, forest, When(now, {}), 1_000)]
    known = unerased.stack.rows(
        """SELECT f.fact_id, f.mentioned_at, f.key_time, f.key_ordinal, f.key_item, v.visits, v.last_visit_at
             FROM memforest.fact f LEFT JOIN memforest.visit v ON v.item_id = f.fact_id WHERE f.forest_id = :f""",
        f=forest,
    )

    def worth(row: Any) -> float:
        last = max(row.mentioned_at, row.last_visit_at or row.mentioned_at)
        return round(retention(row.visits or 0, (now - last) / timedelta(days=1)), 9)

    by_hand = sorted(known, key=lambda row: (worth(row), row.key_time, row.key_ordinal, row.key_item, row.fact_id))
    assert ordered == [row.fact_id for row in by_hand]
    assert len({worth(row) for row in known}) > 10


def test_what_is_too_old_goes_whole_but_not_what_a_pinned_fact_rests_on(bounded: Bounded) -> None:
    """Given a policy on age, then the cells of which every turn is older go, with their facts, however few there are;
    what a pinned fact rests on stays, and what is younger."""
    old = "SELECT c.cell_id FROM memforest.cell c JOIN memforest.session s USING (session_id) WHERE s.external_id = 'lamps'"
    cells = bounded.ids(f"{old} ORDER BY c.ordinal")
    bounded.stack.execute(
        """UPDATE memforest.fact SET pinned = true WHERE fact_id =
           (SELECT fact_id FROM memforest.occurrence WHERE cell_id = :c ORDER BY item LIMIT 1)""",
        c=cells[4],
    )
    days = (datetime.now(UTC) - datetime.fromtimestamp(MARCH, UTC)).total_seconds() / 86_400 + 10
    bounded.policy(max_age_days=days)
    plan = bounded.retention.preview(bounded.stack.tenant, "bob")
    assert set(plan.aged) == set(cells) - {cells[4]}
    planned = bounded.run(dry_run=True)
    assert planned["aged"] == len(cells) - 1
    done = bounded.run()
    assert {name: done[name] for name in ("aged", "forgotten", "pinned_facts")} == {
        "aged": len(cells) - 1,
        "forgotten": 0,
        "pinned_facts": 1,
    }
    words = bounded.ids("SELECT content FROM memforest.turn WHERE content LIKE '%lamp%' ORDER BY ordinal")
    assert words == LAMPS[8:10]
    bounded.stack.assert_verified()
    with_facts = bounded.ids("SELECT DISTINCT cell_id FROM memforest.occurrence WHERE cell_id = ANY(:c)", c=cells)
    assert with_facts == [cells[4]]
    assert bounded.ids("SELECT count(*) FROM memforest.turn WHERE content LIKE '%river%'") == [1]
    assert bounded.run()["forests"] == 0


def test_a_long_turn_stays_whole_when_a_pinned_fact_rests_on_a_part_of_it(bounded: Bounded) -> None:
    """Given a turn cut into several cells, one with a pinned fact, then none of them is too old to keep."""
    letter = "I live in Davis. " + "Are you there, and how was the journey? " * 300 + "I adopted a cat named Tom."
    bounded.stack.memory.ingest("zoe", "letter", said(letter, "I love hiking.", name="Zoe", step=90_000))
    bounded.stack.drive()
    parts = bounded.ids("SELECT cell_id FROM memforest.cell WHERE char_start IS NOT NULL ORDER BY ordinal")
    rest = bounded.ids("SELECT cell_id FROM memforest.cell WHERE forest_id = :f", f=bounded.forest("zoe"))
    assert len(parts) >= 2
    bounded.policy("zoe", max_age_days=30)
    assert set(bounded.retention.preview(bounded.stack.tenant, "zoe").aged) == set(rest)
    bounded.stack.execute(
        """UPDATE memforest.fact SET pinned = true
            WHERE fact_id IN (SELECT fact_id FROM memforest.occurrence WHERE cell_id = :c)""",
        c=parts[0],
    )
    assert set(bounded.retention.preview(bounded.stack.tenant, "zoe").aged) == set(rest) - set(parts)


def test_bytes_come_first_from_words_on_which_no_fact_rests(bounded: Bounded) -> None:
    """Given a budget of bytes, then cells without a fact go for it first, then facts, each by importance."""
    small_talk = ["Are you there, and how was the journey?", "What do you think of all that?"] * 6
    bounded.stack.memory.ingest("bob", "talk", said(*small_talk, start=MARCH + 90_000))
    bounded.stack.drive()
    bare = bounded.ids(
        """SELECT c.cell_id FROM memforest.cell c JOIN memforest.session s USING (session_id)
            WHERE s.external_id = 'talk' AND NOT EXISTS
                  (SELECT 1 FROM memforest.occurrence o WHERE o.cell_id = c.cell_id) ORDER BY c.ordinal"""
    )
    assert len(bare) == 6
    each = len("".join(small_talk[:2]))
    size = bounded.ids(
        """SELECT (SELECT sum(octet_length(content)) FROM memforest.turn JOIN memforest.session s USING (session_id)
                    WHERE s.forest_id = :f) + (SELECT sum(octet_length(text)) FROM memforest.fact WHERE forest_id = :f)""",
        f=bounded.forest(),
    )[0]
    bounded.policy(max_bytes=int(size) - each - 1, fraction=0.2)
    plan = bounded.retention.preview(bounded.stack.tenant, "bob")
    assert (plan.over_bytes, plan.words, plan.facts) == (each + 1, tuple(bare[:2]), ())
    done = bounded.run()
    assert (done["over_bytes"], done["words"], done["forgotten"]) == (each + 1, 2, 0)
    assert bounded.run()["forests"] == 0
    bounded.policy(max_bytes=1, fraction=0.1)
    facts = bounded.facts()
    done = bounded.run()
    assert int(done["words"]) >= 1
    assert done["forgotten"] == max(1, len(facts) // 10)


def test_two_workers_share_the_runs(bounded: Bounded) -> None:
    """Given runs over both forests and one over all, when two workers take them at once, then each forest loses what its
    policy says and no more."""
    bounded.policy(None, max_facts=1, fraction=1.0)
    tenant = bounded.stack.tenant
    requested = [bounded.retention.apply(tenant, owner, actor="ann")[0] for owner in ("bob", "eve", None)]
    failures: list[BaseException] = []

    def work() -> None:
        for _ in range(40):
            try:
                bounded.stack.services.maintenance.tasks.run_one(tenant, bounded.stack.runtime.worker)
            except StoreUnavailable as error:
                failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    bounded.stack.hurry()
    bounded.stack.drive()
    assert [bounded.stack.services.operations.get(tenant, task).state for task in requested] == ["done"] * 3
    assert len(bounded.facts("bob")) == len(bounded.facts("eve")) == 1
    bounded.stack.assert_verified()


def test_workers_apply_policies_by_themselves_now_and_then(bounded: Bounded) -> None:
    """Given a policy, when workers apply it, then one run over all forests is requested per period, its deeds are in
    the audit under the service's name, and an idle run leaves no line there."""
    assert bounded.retention.request_sweeps(3_600.0) == 0, "nobody has a policy"
    bounded.policy("eve", max_facts=1, fraction=1.0)
    bob = bounded.facts()
    assert [bounded.retention.request_sweeps(3_600.0) for _ in range(3)] == [1, 0, 0]
    bounded.stack.drive()
    assert bounded.retention.request_sweeps(3_600.0) == 0
    assert (len(bounded.facts("eve")), bounded.facts()) == (1, bob)
    noted = "SELECT actor, action, outcome FROM memforest.audit WHERE action = 'retain'"
    assert bounded.stack.rows(noted) == [("memforest", "retain", "forgets")]
    bounded.stack.execute("UPDATE memforest.maintenance SET created_at = now() - interval '2 hours'")
    assert bounded.retention.request_sweeps(3_600.0) == 1
    bounded.stack.drive()
    assert len(bounded.stack.rows(noted)) == 1


def test_a_frozen_forest_is_left_alone_and_visits_of_what_is_gone_are_dropped(bounded: Bounded) -> None:
    """Given a forest that is being merged, then a run passes it by; given a run, then no visit is left of what went."""
    bounded.policy(max_facts=1, fraction=1.0)
    seen = [Visited(bounded.forest(), fact, 1, 9_000.0) for fact in bounded.facts().values()]
    add_visits(bounded.stack.services.engine, bounded.stack.tenant, seen)
    bounded.stack.execute("UPDATE memforest.forest SET state = 'frozen' WHERE owner = 'bob'")
    assert bounded.run()["forests"] == 0
    bounded.stack.execute("UPDATE memforest.forest SET state = 'live' WHERE owner = 'bob'")
    assert bounded.run()["forests"] == 1
    stray = """SELECT item_id FROM memforest.visit EXCEPT SELECT fact_id FROM memforest.fact
               EXCEPT SELECT node_id FROM memforest.node"""
    assert bounded.ids(stray) == []
    assert len(bounded.facts()) == 1
