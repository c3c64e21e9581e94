"""Policies per kind, their order, and pins of turns and sessions: a run takes what its dry run said, never what is
pinned."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from memforest_core.domain.ids import CellId, ForestId, TenantId
from memforest_core.errors import InvalidInput, NotFound
from memforest_core.lifecycle.correct.records import PinnedTurn, Pins
from memforest_core.lifecycle.erase.steps import ForestEraser
from memforest_core.lifecycle.retain.records import Order
from memforest_core.lifecycle.retain.service import COUNTS, Retention
from memforest_core.models.calls import Embedder
from memforest_core.recall.records import Visited
from memforest_core.recall.rows.visit_rows import add_visits
from memforest_core.work.records import Numbers
from tests.harness.grown_forests import DAY_S, DINNER, HOME, KYOTO, LAMPS, MONDAY, OTHER_DINNER, WINDOWED
from tests.harness.retaining import ACTOR, Bounded, claimed_run
from tests.harness.sayings import said
from tests.harness.servers import SessionServers
from tests.harness.stack import MEMBERS, Grown, Stack, cloned

AGES = ("max_age_days", "facts_max_age_days", "digests_max_age_days", "window_max_age_days")


def tell(running: Stack) -> None:
    """What Bob said on four days, at rest, to be cloned; and on his phone the same evening and another one."""
    # A fact said twice has the wording and the time that it was placed with: dinner's, whatever is read first.
    running.memory.client.enqueue("bob", "dinner", DINNER)
    running.drive()
    for session, turns in (("home", HOME), ("kyoto", KYOTO), ("lamps", LAMPS)):
        running.memory.client.enqueue("bob", session, turns)
    running.memory.client.enqueue("phone", "home", HOME)
    running.memory.client.enqueue("phone", "dinner", OTHER_DINNER)


class Bob(Bounded):
    """Bob's memory, and what of it is there."""

    def fact(self, words: str) -> UUID:
        (found,) = [fact for text, fact in self.facts().items() if words in text]
        return found

    def turns(self, session: str = "%") -> list[str]:
        """What turns still say, in order."""
        return self.ids(
            """SELECT t.content FROM memforest.turn t JOIN memforest.session s USING (tenant_id, session_id)
                WHERE s.forest_id = :f AND s.external_id LIKE :s AND NOT t.erased
                ORDER BY t.occurred_at, s.external_id, t.ordinal""",
            f=self.forest(),
            s=session,
        )

    def days(self) -> list[str]:
        """The days that have a digest, as days after the first."""
        first = datetime.fromtimestamp(MONDAY, UTC).date()
        found = self.ids(
            "SELECT first_day FROM memforest.calendar_digest WHERE forest_id = :f ORDER BY 1", f=self.forest()
        )
        return [(day - first).days for day in found]

    def digested(self) -> None:
        for day in (0, 7, 40, 60):
            self.memory.summarize("bob", day=datetime.fromtimestamp(MONDAY + day * DAY_S, UTC).date().isoformat())
        assert self.days() == [0, 7, 40, 60]

    def windowed(self) -> None:
        for statement in WINDOWED:
            self.stack.execute(statement, owner="bob")

    def windows(self) -> set[str]:
        return set(self.ids("SELECT text FROM memforest.session_window WHERE forest_id = :f", f=self.forest()))

    def items(self) -> set[UUID]:
        return set(self.ids("SELECT fact_id FROM memforest.window_item WHERE forest_id = :f", f=self.forest()))

    def pin(self, fact: UUID | None = None, **words: str) -> None:
        self.driven(self.do.pin("bob", fact, **words, actor=ACTOR).id)


def until(day: float) -> float:
    """The age of what was said that many days after the first."""
    return (datetime.now(UTC).timestamp() - (MONDAY + day * DAY_S)) / DAY_S


@pytest.fixture
def bob(servers: SessionServers, grown: Grown, tmp_path: Path, embedder: Embedder) -> Iterator[Bob]:
    with cloned(servers, grown, tmp_path, embedder) as running:
        yield Bob(running)


def went(numbers: Numbers) -> dict[str, int]:
    """What is not 0 of a receipt's counts."""
    return {name: int(numbers[name]) for name in COUNTS if numbers.get(name)}


def test_facts_go_by_when_they_were_said_last_and_words_stay(bob: Bob) -> None:
    """Given an age of facts, then those that nobody said since go; one that was said again later stays, and all turns."""
    before, words = bob.facts(), bob.turns()
    later = bob.ids(
        """SELECT DISTINCT o.fact_id FROM memforest.occurrence o JOIN memforest.cell c USING (tenant_id, cell_id)
            WHERE c.forest_id = :f AND c.time_end >= to_timestamp(:at)""",
        f=bob.forest(),
        at=MONDAY + 30 * DAY_S,
    )
    assert 0 < len(later) < len(before)
    hiking = next(fact for text, fact in before.items() if "hiking" in text)
    assert hiking in later
    bob.policy(facts_max_age_days=until(30))
    plan = bob.do.preview_policy("bob")
    assert set(plan.aged_facts) == set(before.values()) - set(later)
    assert (plan.aged, plan.words, plan.facts, plan.digests, plan.windows) == ((), (), (), (), ())
    planned = bob.run(dry_run=True)
    assert bob.facts() == before

    done = bob.run()

    assert dict(planned) | {"phase": "done"} == done
    assert went(done) == {"forests": 1, "aged_facts": len(plan.aged_facts)}
    assert set(bob.facts().values()) == set(later)
    assert bob.turns() == words
    noted = [dict(entry.detail) for entry in bob.do.audit("bob") if entry.outcome == "forgets"]
    assert noted == [{"aged_facts": len(plan.aged_facts)}]
    assert bob.run()["forests"] == 0
    bob.stack.assert_verified()


def test_digests_go_when_their_time_is_too_long_ago(bob: Bob) -> None:
    """Given an age of digests, then those of times that ended before go and nothing else; requested again, the digest
    of a day is rebuilt, as its turns are there; the day of a pinned turn stays."""
    bob.digested()
    bob.pin(session="home", turn="home-1")
    facts, words = bob.facts(), bob.turns()
    bob.policy(digests_max_age_days=until(50))
    assert bob.do.preview_policy("bob").digests == ("day 2023-11-21", "day 2023-12-24")
    planned = bob.run(dry_run=True)
    done = bob.run()
    assert dict(planned) | {"phase": "done"} == done
    assert went(done) == {"forests": 1, "digests": 2, "pinned_turns": 1}
    assert bob.days() == [0, 60]
    assert (bob.facts(), bob.turns()) == (facts, words)
    assert bob.memory.summarize("bob", day="2023-11-21").speakers


def test_what_windows_hold_goes_when_it_is_too_old(bob: Bob) -> None:
    """Given an age of windows, then texts made before and items put in before go; those of pinned words and facts stay,
    and an item that is put in again is young."""
    bob.windowed()
    bob.pin(session="lamps")
    vases, rex = bob.fact("two vases"), bob.fact("named Rex")
    bob.pin(vases)
    bob.memory.window_put("bob", "dinner", [rex])
    held, lamps = bob.items(), {fact for text, fact in bob.facts().items() if "numbered" in text}
    bob.policy(window_max_age_days=until(50))
    plan = bob.do.preview_policy("bob")
    assert plan.windows == ("home", "kyoto")
    planned = bob.run(dry_run=True)
    done = bob.run()
    assert dict(planned) | {"phase": "done"} == done
    assert bob.windows() == {"lamps", "dinner"}
    late = {fact for text, fact in bob.facts().items() if any(w in text for w in ("Dana", "Miami", "red bike"))}
    assert bob.items() >= {vases, rex, *lamps, *late}
    assert went(done)["window_items"] == plan.window_items == len(held) - len(bob.items()) > 0
    assert went(done)["windows"] == 2


def test_all_ages_and_the_budget_together(bob: Bob) -> None:
    """Given every limit at once, then the run takes of each kind what the dry run said, and the audit names each."""
    bob.digested()
    bob.windowed()
    bob.pin(session="home", turn="home-3")
    bob.policy(
        max_age_days=until(20),
        facts_max_age_days=until(30),
        digests_max_age_days=until(50),
        window_max_age_days=until(50),
        max_facts=6,
        fraction=0.5,
    )
    planned = bob.run(dry_run=True)
    done = bob.run()
    assert dict(planned) | {"phase": "done"} == done
    taken = went(done)
    assert taken.keys() >= {"digests", "windows", "window_items", "aged", "aged_facts", "over_facts", "forgotten"}
    # The pinned turn's cell stays with both turns; of its facts only the one that rests on the pinned turn.
    assert bob.turns("home") == [HOME[2]["content"], HOME[3]["content"]]
    assert bob.turns("kyoto") == []
    assert not [text for text in bob.facts() if "40 dollars" in text]
    assert [text for text in bob.facts() if "hiking" in text]
    noted: dict[str, int] = {}
    for entry in bob.do.audit("bob"):
        if entry.outcome == "forgets":
            for name, count in entry.detail.items():
                noted[name] = noted.get(name, 0) + int(count)
    counted = ("digests", "windows", "window_items", "aged", "aged_facts", "words", "forgotten")
    assert noted == {name: taken[name] for name in counted if name in taken}
    bob.stack.assert_verified()


@pytest.mark.parametrize("seed", range(6))
def test_a_run_never_takes_what_is_pinned(bob: Bob, seed: int) -> None:
    """Given any pins and any policy, when runs take all they may, then pinned sessions and turns say what they said, with
    all that was learned from them, and pinned facts are there."""
    chance = random.Random(seed)
    bob.digested()
    bob.windowed()
    sessions = chance.sample(["home", "kyoto", "lamps", "dinner"], chance.randint(0, 2))
    turns = bob.stack.rows(
        """SELECT s.external_id AS session, t.external_id AS turn FROM memforest.turn t
             JOIN memforest.session s USING (tenant_id, session_id) WHERE s.forest_id = :f ORDER BY 1, t.ordinal""",
        f=bob.forest(),
    )
    for session in sessions:
        bob.pin(session=session)
    for row in chance.sample(turns, 3):
        bob.pin(session=row.session, turn=row.turn)
    facts = chance.sample(sorted(bob.facts().values()), 2)
    for fact in facts:
        bob.pin(fact)
    pinned = """SELECT t.content FROM memforest.turn t JOIN memforest.session s USING (tenant_id, session_id)
                 WHERE s.forest_id = :f AND (s.pinned OR t.pinned) ORDER BY 1"""
    rests = """SELECT o.cell_id::text || o.item FROM memforest.occurrence o
                 JOIN memforest.session s USING (tenant_id, session_id)
                WHERE s.forest_id = :f AND (s.pinned OR o.fact_id = ANY(:facts) OR EXISTS (
                      SELECT 1 FROM memforest.turn t WHERE t.session_id = o.session_id AND t.pinned
                         AND t.ordinal = ANY(o.turn_ordinals))) ORDER BY 1"""
    words, said_there = bob.ids(pinned, f=bob.forest()), bob.ids(rests, f=bob.forest(), facts=facts)
    limits: dict[str, Any] = {name: until(chance.choice((10, 50, 70))) for name in chance.sample(AGES, 2)}
    limits |= chance.choice(({"max_facts": 1}, {"max_bytes": 1}))
    bob.policy(**limits, fraction=chance.choice((0.3, 1.0)), order=chance.choice(list(Order)))

    for _ in range(8):
        planned, done = bob.run(dry_run=True), bob.run()
        assert dict(planned) | {"phase": "done"} == done

    assert bob.ids(pinned, f=bob.forest()) == words
    assert bob.ids(rests, f=bob.forest(), facts=facts) == said_there
    assert set(facts) <= set(bob.facts().values())
    free = bob.ids(
        """SELECT x.text FROM memforest.fact x WHERE x.forest_id = :f AND NOT x.pinned AND NOT EXISTS (
                  SELECT 1 FROM memforest.occurrence o JOIN memforest.session s USING (tenant_id, session_id)
                   WHERE o.fact_id = x.fact_id AND (s.pinned OR EXISTS (SELECT 1 FROM memforest.turn t
                         WHERE t.session_id = o.session_id AND t.pinned AND t.ordinal = ANY(o.turn_ordinals))))""",
        f=bob.forest(),
    )
    assert free == [] or len(bob.facts()) <= 1
    bob.stack.assert_verified()


def test_what_is_pinned_between_choosing_and_erasing_stays(bob: Bob) -> None:
    """Given a session that is pinned when a run has chosen its cells, then the run leaves it alone and ends."""

    class Late(ForestEraser):
        def __init__(self, eraser: ForestEraser) -> None:
            self._eraser = eraser

        def erase_cells(self, tenant: TenantId, forest: ForestId, cells: Sequence[CellId]) -> int:
            bob.do.pin("bob", session="kyoto", actor=ACTOR)
            return self._eraser.erase_cells(tenant, forest, cells)

    bob.policy(max_age_days=until(20))
    services, task = bob.stack.services, claimed_run(bob.stack, bob.forest())
    applying = Retention(services.engine, services.operations, Late(services.lifecycle.eraser))
    progress: Numbers | None = {}
    while progress is not None:
        receipt, progress = progress, applying.step(bob.stack.tenant, task, progress)
    assert (bob.turns("home"), len(bob.turns("kyoto"))) == ([], 4)
    assert (receipt["phase"], receipt["aged"], receipt["pinned_sessions"]) == ("done", 4, 1)


def test_a_step_of_any_kind_that_is_taken_again_takes_no_more(bob: Bob, monkeypatch: pytest.MonkeyPatch) -> None:
    """Given every step of a run taken twice, as after a kill between its commit and its progress, then it takes of each
    kind what the dry run said, also while new facts come in."""
    bob.digested()
    bob.windowed()
    ages = {name: until(day) for name, day in zip(AGES, (20, 50, 65, 65), strict=True)}
    bob.policy(**ages, max_facts=2, fraction=0.5)
    planned = bob.run(dry_run=True)
    monkeypatch.setattr("memforest_core.lifecycle.retain.service.BATCH", 2)
    services, task = bob.stack.services, claimed_run(bob.stack, bob.forest())
    applying = services.lifecycle.retention
    progress: Numbers | None = {}
    while progress is not None:
        applying.step(bob.stack.tenant, task, progress)
        if progress.get("phase") == "planning":
            bob.memory.ingest("bob", "late", said("I bought a late kite for 9 dollars.", start=MONDAY + 70 * DAY_S))
            bob.stack.drive()
        receipt, progress = progress, applying.step(bob.stack.tenant, task, progress)
    assert dict(planned) | {"phase": "done"} == receipt
    assert bob.days() == [] and bob.windows() <= {"late"}
    assert bob.fact("late kite")


def test_by_visits_what_was_not_visited_for_longest_goes_first(bob: Bob) -> None:
    """Given the order of visits, then facts that nobody visited go first, the oldest of them before; then by the last
    visit, then by how many there were."""
    forest, facts = bob.forest(), list(bob.facts().values())
    aged = bob.ids("SELECT fact_id FROM memforest.fact WHERE forest_id = :f ORDER BY mentioned_at, fact_id", f=forest)
    often, once, lately = aged[0], aged[1], aged[2]
    moment = datetime.now(UTC) - timedelta(days=3)
    for fact, visits, at in ((often, 50, moment), (once, 1, moment), (lately, 1, moment + timedelta(days=2))):
        bob.stack.execute(
            "INSERT INTO memforest.visit VALUES (:t, :i, :f, :n, :at)",
            t=bob.stack.tenant,
            i=fact,
            f=forest,
            n=visits,
            at=at,
        )
    bob.policy(max_facts=1, fraction=1.0, order="visits")
    assert bob.do.policies()[0].order == "visits"
    order = list(bob.do.preview_policy("bob").facts)
    assert len(order) == len(facts) - 1
    assert order[-2:] == [once, often]
    assert set(order[:-2]) == set(aged[3:])
    moments = {row.fact_id: row.mentioned_at for row in bob.stack.rows("SELECT * FROM memforest.fact")}
    assert [moments[fact] for fact in order[:-2]] == sorted(moments[fact] for fact in order[:-2])
    bob.run()
    assert list(bob.facts().values()) == [lately]
    bob.policy(max_facts=1, fraction=1.0)
    add_visits(bob.stack.services.engine, bob.stack.tenant, [Visited(forest, lately, 1, 0.0)])
    assert bob.do.policies()[0].order == "age"


def test_by_relevance_what_recent_questions_found_goes_last_and_its_neighbours_before(bob: Bob) -> None:
    """Given facts that recalls returned, then they go last, the one returned longer ago before; then those that share
    the lowest node of a tree with them; first those that nothing recent was near, the oldest first."""
    stored = bob.facts()
    hits = [
        bob.memory.recall("bob", question, k=1).evidence[0].fact_ids for question in ("Rex the dog?", "Kyoto trip?")
    ]
    bob.stack.services.visits.flush()
    found = {fact for each in hits for fact in each}
    assert found
    bob.stack.execute(
        "UPDATE memforest.visit SET last_visit_at = last_visit_at - interval '200 days' WHERE item_id = ANY(:i)",
        i=list(hits[0]),
    )
    near = set(
        bob.ids(
            """SELECT DISTINCT other.payload_id FROM memforest.node leaf JOIN memforest.node other USING (parent_id)
                WHERE leaf.payload_id = ANY(:i)""",
            i=list(found),
        )
    ) & set(stored.values())
    bob.policy(max_facts=1, fraction=1.0, order="relevance")
    order = list(bob.do.preview_policy("bob").facts)
    unseen = [fact for fact in order if fact not in near | found]
    assert unseen and order[: len(unseen)] == unseen
    moments = {row.fact_id: row.mentioned_at for row in bob.stack.rows("SELECT * FROM memforest.fact")}
    assert [moments[fact] for fact in unseen] == sorted(moments[fact] for fact in unseen)
    planned, done = bob.run(dry_run=True), bob.run()
    assert dict(planned) | {"phase": "done"} == done and done["forgotten"] == len(stored) - 1
    assert set(bob.facts().values()) <= set(hits[1])
    bob.stack.assert_verified()


def test_by_centrality_what_is_connected_least_goes_first(bob: Bob) -> None:
    """Given the order of centrality, then facts go by how many scopes have them, where they were said, what they
    corrected and what else is of their state, the fewest first; one that was said twice outlives its equals."""
    counted = {
        row.fact_id: row.links
        for row in bob.stack.rows(
            f"""SELECT x.fact_id,
                      (SELECT count(*) FROM {MEMBERS} p WHERE p.payload_id = x.fact_id)
                    + (SELECT count(*) FROM memforest.occurrence o WHERE o.fact_id = x.fact_id)
                    + CASE WHEN x.attribute = '' THEN 0 ELSE (SELECT count(*) - 1 FROM memforest.fact y
                            WHERE y.forest_id = x.forest_id AND y.subject_key = x.subject_key
                              AND y.attribute = x.attribute) END AS links
                 FROM memforest.fact x WHERE x.forest_id = :f""",
            f=bob.forest(),
        )
    }
    assert len(set(counted.values())) > 1
    bob.policy(max_facts=1, fraction=1.0, order="centrality")
    order = list(bob.do.preview_policy("bob").facts)
    assert [counted[fact] for fact in order] == sorted(counted.values())[:-1]
    planned, done = bob.run(dry_run=True), bob.run()
    assert dict(planned) | {"phase": "done"} == done
    (left,) = bob.facts().values()
    assert counted[left] == max(counted.values())
    bob.stack.assert_verified()


def test_pins_are_listed_set_and_taken_back(bob: Bob) -> None:
    """Given pins of each kind, then they are listed, and sessions say it; given unpin, then they are gone; what is not
    there is refused by name."""
    rex = bob.fact("named Rex")
    bob.pin(rex)
    bob.pin(session="lamps")
    bob.pin(session="home", turn="home-2")
    assert bob.do.pins("bob") == Pins(("lamps",), (PinnedTurn("home", "home-2"),), (rex,))
    assert [each.id for each in bob.memory.sessions("bob").items if each.pinned] == ["lamps"]
    assert bob.do.pins("phone") == Pins((), (), ())
    for words in ({"session": "lamps"}, {"session": "home", "turn": "home-2"}):
        bob.driven(bob.do.unpin("bob", **words, actor=ACTOR).id)
    bob.driven(bob.do.unpin("bob", rex, actor=ACTOR).id)
    assert bob.do.pins("bob") == Pins((), (), ())
    for wrong in ({}, {"turn": "home-2"}, {"session": "home", "fact": rex}):
        with pytest.raises(InvalidInput, match="Name a fact, a session, or a turn with its session"):
            bob.do.pin("bob", **wrong, actor=ACTOR)  # type: ignore[arg-type]
    for missing in ({"session": "nowhere"}, {"session": "home", "turn": "nowhere"}):
        with pytest.raises(NotFound, match="nowhere"):
            bob.do.pin("bob", **missing, actor=ACTOR)
    kinds = [entry.action for entry in bob.do.audit("bob") if entry.outcome == "done"]
    assert kinds.count("correct") == 6


def test_an_explicit_deletion_takes_what_is_pinned(bob: Bob) -> None:
    """Given a pinned session and a pinned turn, when they are deleted, then they go as others do; a deleted turn is not
    pinned any more."""
    bob.pin(session="kyoto")
    bob.pin(session="home", turn="home-0")
    for target, turns in (({"session": "kyoto"}, 4), ({"session": "home", "turns": ["home-0"]}, 1)):
        requested = bob.do.forget("bob", **target, actor=ACTOR)  # type: ignore[arg-type]
        bob.driven(requested.id)
        receipt = bob.do.receipt(requested.id)
        assert receipt.clean and receipt.removed["turns"] == turns
    assert bob.do.pins("bob") == Pins((), (), ())
    with pytest.raises(NotFound, match="home-0"):
        bob.do.pin("bob", session="home", turn="home-0", actor=ACTOR)
    bob.stack.assert_verified()


def test_pins_travel_with_merges_bundles_and_rebuilds(bob: Bob, tmp_path: Path) -> None:
    """Given pins on both sides of a merge, in an export, and set or taken back while a rebuild is under way, then each
    pin is where its words are."""
    bob.pin(session="kyoto")
    bob.pin(session="home", turn="home-1")
    bob.driven(bob.do.pin("phone", session="home", actor=ACTOR).id)
    bob.driven(bob.do.pin("phone", session="dinner", turn="turn@1", actor=ACTOR).id)
    bob.do.export("bob", tmp_path / "bob.memforest", actor=ACTOR)
    bob.do.import_(tmp_path / "bob.memforest", "copy", actor=ACTOR)
    bob.stack.drive()
    assert bob.do.pins("copy") == bob.do.pins("bob") == Pins(("kyoto",), (PinnedTurn("home", "home-1"),), ())

    bob.driven(bob.do.merge(["phone"], "bob", actor=ACTOR).id)
    merged = bob.do.pins("bob")
    assert merged.sessions == ("home", "kyoto")
    assert merged.turns == (PinnedTurn("dinner@phone", "turn@1"), PinnedTurn("home", "home-1"))

    rebuild = bob.do.rematerialize("bob", rules={"session_k": 4}, actor=ACTOR)
    for _ in range(2):
        bob.stack.services.maintenance.tasks.run_one(bob.stack.tenant, bob.stack.runtime.worker)
    assert bob.ids("SELECT count(*) FROM memforest.session s JOIN memforest.forest f USING (forest_id) "
                   "WHERE f.state = 'hidden'") != [0]  # fmt: skip
    for words in ({"session": "home"}, {"session": "home", "turn": "home-1"}):
        bob.do.unpin("bob", **words, actor=ACTOR)
    for words in ({"session": "lamps"}, {"session": "home", "turn": "home-3"}):
        bob.do.pin("bob", **words, actor=ACTOR)
    wanted = bob.do.pins("bob")
    for _ in range(20):
        bob.stack.hurry()
        bob.stack.drive()
    assert bob.do.operation(rebuild.id).state == "done"
    assert bob.do.pins("bob") == wanted
    assert wanted.sessions == ("kyoto", "lamps")
    assert wanted.turns == (PinnedTurn("dinner@phone", "turn@1"), PinnedTurn("home", "home-3"))
    bob.stack.assert_verified()


def test_a_fact_said_in_a_pinned_turn_and_elsewhere_stays_by_the_pinned_turn(bob: Bob) -> None:
    """Given a pinned turn whose fact was said again in words that go, then the fact stays, by the pinned words."""
    bob.pin(session="home", turn="home-3")
    bob.memory.ingest("bob", "later", said("I love hiking.", "I live in Davis.", start=MONDAY + 2 * DAY_S))
    bob.stack.drive()
    bob.policy(max_age_days=until(10), facts_max_age_days=until(70))
    bob.run()
    assert [text for text in bob.facts() if "hiking" in text]
    assert "I love hiking." in bob.turns("home")
    assert bob.turns("later") == []
    bob.stack.assert_verified()
