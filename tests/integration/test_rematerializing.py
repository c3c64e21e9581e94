"""Rebuilding a forest as a hidden one: other rules and prompts, the same memory, one switch, nothing lost."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from memforest_core.domain.ids import ForestId
from memforest_core.errors import InvalidInput, NotFound
from memforest_core.index.vector_index import PointKind
from memforest_core.lifecycle.rebuild.records import Options, copy_of
from memforest_core.lifecycle.rebuild.service import CopyLost, Rematerializing, StillMaterializing
from memforest_core.models.calls import Embedded, Embedder
from memforest_core.work.records import Numbers, OperationTask, TaskId
from tests.harness import model_answers
from tests.harness.model_server import ModelServer
from tests.harness.rendered_windows import parse_window
from tests.harness.sayings import said
from tests.harness.servers import SessionServers
from tests.harness.stack import Grown, Stack, cloned, stack
from tests.integration.test_pipeline import assert_trees_hold

LAMPS = said(*[f"I paid {n} dollars for a brass lamp numbered {n}." for n in range(20)])
PETS = said("I adopted a dog named Rex.", "I love hiking.", "I live in Davis.", start=1_700_900_000)
QUESTION = "How much was the brass lamp numbered 7?"


class Counting:
    """An embedder that counts the texts it embeds."""

    def __init__(self, inner: Embedder) -> None:
        self.model, self.dimension, self.embed_query = inner.model, inner.dimension, inner.embed_query
        self._inner, self.calls, self.texts = inner, 0, 0

    def embed(self, texts: Sequence[str]) -> Embedded:
        self.calls += 1
        self.texts += len(texts)
        return self._inner.embed(texts)


@pytest.fixture
def counting(embedder: Embedder) -> Counting:
    return Counting(embedder)


def tell(running: Stack) -> None:
    """Bob's two sessions, at rest, to be cloned."""
    running.memory.client.enqueue("bob", "lamps", LAMPS)
    running.memory.client.enqueue("bob", "pets", PETS)


@pytest.fixture
def bob(servers: SessionServers, grown: Grown, tmp_path: Path, counting: Counting) -> Iterator[Stack]:
    """Bob's two sessions, at rest."""
    with cloned(servers, grown, tmp_path, counting) as running:
        yield running


def rematerializing(of: Stack) -> Rematerializing:
    return of.services.lifecycle.rematerializing


def ask(of: Stack, options: Options, *, dry_run: bool = False) -> TaskId:
    return rematerializing(of).ask(of.tenant, "bob", options, actor="test", dry_run=dry_run)


def get(of: Stack, task: TaskId) -> OperationTask:
    return of.services.operations.get(of.tenant, task)


def finish(of: Stack, task: TaskId) -> OperationTask:
    """Run everything until the task has ended; nobody waits for back-offs."""
    for _ in range(30):
        of.hurry()
        of.drive(due=False)
        found = get(of, task)
        if found.finished:
            of.drive(due=False)
            return found
    raise AssertionError(f"the task does not end: {found}")


def live(of: Stack) -> ForestId:
    return of.services.operations.find_forest(of.tenant, "bob")


def evidence(of: Stack, question: str = QUESTION) -> set[str]:
    return {piece.text for piece in of.memory.recall("bob", question, k=50).evidence}


def best(of: Stack) -> str:
    return of.memory.recall("bob", QUESTION).evidence[0].text


def blank(of: Stack, forest: ForestId, session: str, ordinal: int) -> None:
    """What an erasure does to a turn's words."""
    mine = "session_id IN (SELECT session_id FROM memforest.session WHERE forest_id = :f AND external_id = :s)"
    values = {"f": forest, "s": session, "o": ordinal}
    cells = f"SELECT cell_id FROM memforest.cell WHERE {mine} AND :o BETWEEN first_turn AND last_turn"
    for statement in (
        f"UPDATE memforest.turn SET content = '', name = '', speaker_id = '', erased = true WHERE {mine} AND ordinal = :o",
        f"UPDATE memforest.cell SET text = 'gone', text_hash = sha256('gone') WHERE cell_id IN ({cells})",
        f"DELETE FROM memforest.occurrence WHERE cell_id IN ({cells}) AND :o = ANY(turn_ordinals)",
        f"DELETE FROM memforest.candidate WHERE cell_id IN ({cells}) AND :o = ANY(turn_ordinals)",
    ):
        of.execute(statement, **values)


def shape(of: Stack) -> dict[str, set[tuple[int, int]]]:
    """(branching, height) of the active trees of the live forest, by kind."""
    found: dict[str, set[tuple[int, int]]] = {}
    for row in of.rows(
        "SELECT kind, k, height FROM memforest.tree WHERE forest_id = :f AND state = 'active'", f=live(of)
    ):
        found.setdefault(row.kind, set()).add((row.k, row.height))
    return found


def only_forest(of: Stack, forest: ForestId) -> None:
    """Nothing of any other forest is left, in rows or points, and every promise is true."""
    assert of.broken() == {}
    assert_trees_hold(of)
    assert [row.forest_id for row in of.rows("SELECT forest_id FROM memforest.forest WHERE owner = 'bob'")] == [forest]
    for table in ("session", "cell", "fact", "tree", "speaker", "index_row"):
        assert {row.forest_id for row in of.rows(f"SELECT DISTINCT forest_id FROM memforest.{table}")} <= {forest}, (
            table
        )
    rows = of.rows("SELECT count(*) AS n FROM memforest.index_row")[0].n
    assert of.services.index.count(of.tenant, forest) == of.services.index.count(of.tenant) == rows


def calls(of: Stack, step: str) -> int:
    return int(of.rows("SELECT count(*) AS n FROM memforest.llm_call WHERE step = :s", s=step)[0].n)


def test_another_branching_changes_the_trees_and_nothing_else(bob: Stack, counting: Counting) -> None:
    old, before, found = live(bob), shape(bob), (best(bob), evidence(bob))
    plan = rematerializing(bob).plan(bob.tenant, "bob", Options({"session_k": 6, "entity_k": 3, "scene_k": 3}))
    task = ask(bob, Options({"session_k": 6, "entity_k": 3, "scene_k": 3}))

    ended = finish(bob, task)

    assert (ended.state, ended.progress["phase"], ended.attempts) == ("done", "attributed", 1)
    assert live(bob) != old
    assert {k for k, _ in before["session"]} == {3}
    assert {k for k, _ in shape(bob)["session"]} == {6}
    assert max(height for _, height in shape(bob)["session"]) < max(height for _, height in before["session"])
    assert {k for k, _ in shape(bob)["entity"]} == {k for k, _ in shape(bob)["scene"]} == {3}
    assert (counting.calls, calls(bob, "extract"), calls(bob, "summarize")) == (0, 0, 0)
    assert (plan.extraction_calls, plan.summary_calls, plan.texts_to_embed, plan.cost_usd) == (0, 0, 0, 0.0)
    assert plan.facts_to_place == ended.progress["candidates"]
    assert (best(bob), evidence(bob)) == found
    only_forest(bob, live(bob))


def test_later_sessions_keep_the_rules(bob: Stack) -> None:
    finish(bob, ask(bob, Options({"session_k": 6, "entity_k": 3})))
    bob.memory.ingest("bob", "later", said("I bought a kayak.", start=1_701_000_000))
    bob.drive()
    assert {k for k, _ in shape(bob)["session"]} == {6}
    finish(bob, ask(bob, Options({"session_k": 3})))
    assert bob.rows("SELECT rules FROM memforest.forest WHERE state = 'live'")[0].rules == {"entity_k": 3}
    assert {k for k, _ in shape(bob)["session"]} == {3}


def test_other_thresholds_change_the_routing(bob: Stack, counting: Counting) -> None:
    before = shape(bob), evidence(bob), count(bob, "scene"), count(bob, "fact")
    finish(bob, ask(bob, Options({"scene_cap": 4, "scene_assign": 0.9, "scene_weak": 0.85, "scene_merge": 1.0})))
    assert count(bob, "scene") > before[2]
    assert count(bob, "fact") == before[3]
    assert evidence(bob) == before[1]
    assert counting.calls == 0
    only_forest(bob, live(bob))


def count(of: Stack, what: str) -> int:
    table = "fact WHERE" if what == "fact" else "tree WHERE state = 'active' AND kind = 'scene' AND"
    return int(of.rows(f"SELECT count(*) FROM memforest.{table} forest_id = :f", f=live(of))[0][0])


def test_impossible_requests_are_refused_with_a_sentence(bob: Stack) -> None:
    with pytest.raises(InvalidInput, match="session_k is impossible"):
        ask(bob, Options({"session_k": 2}))
    with pytest.raises(NotFound, match="no memory yet"):
        rematerializing(bob).ask(bob.tenant, "nobody", Options(), actor="test")
    running = ask(bob, Options({"session_k": 6}))
    assert ask(bob, Options({"session_k": 6})) == running
    with pytest.raises(InvalidInput, match="being re-materialized"):
        ask(bob, Options({"session_k": 5}))


def test_a_dry_run_says_the_plan_and_writes_nothing(bob: Stack) -> None:
    options, before = Options({"session_k": 6}), bob.counts()
    ended = finish(bob, ask(bob, options, dry_run=True))
    plan = rematerializing(bob).plan(bob.tenant, "bob", options)
    assert ended.progress == {"phase": "planned", **plan.numbers()}
    assert bob.counts() == before | {"maintenance": before["maintenance"] + 1, "audit": before["audit"] + 2}


def drive_to(of: Stack, task: TaskId, phase: str, *, extract: bool = True) -> None:
    """Take steps until the task's next one is of this phase."""
    take = rematerializing(of).step
    for _ in range(60):
        found = get(of, task)
        if found.progress.get("phase") == phase:
            return
        try:
            after = take(of.tenant, found, found.progress)
        except StillMaterializing:
            work(of, extract=extract)
            continue
        assert after is not None
        put(of, task, after)
    raise AssertionError(f"phase {phase} does not come")


def work(of: Stack, *, extract: bool = True) -> None:
    """What workers do besides the task."""
    for _ in range(20):
        if not (of.runtime.extract() if extract else 0) + of.runtime.reduce() + of.runtime.refresh() + index(of):
            return


def index(of: Stack) -> int:
    return of.runtime.index(of.tenant, tuple(PointKind))


def put(of: Stack, task: TaskId, progress: Numbers) -> None:
    of.execute(
        "UPDATE memforest.maintenance SET progress = CAST(:p AS jsonb) WHERE task_id = :t",
        p=json.dumps(dict(progress)),
        t=task,
    )


def test_what_comes_and_goes_meanwhile_is_in_the_switched_memory(bob: Stack) -> None:
    task = ask(bob, Options({"session_k": 6}))
    drive_to(bob, task, "switch")
    old, found = live(bob), evidence(bob)
    assert bob.rows("SELECT state FROM memforest.forest WHERE forest_id = :f", f=copy_of(task))[0].state == "hidden"
    bob.memory.ingest("bob", "new", said("I bought a red kayak.", start=1_701_000_000))
    bob.memory.ingest("bob", "pets", [*PETS, *said("I adopted a cat named Ada.", start=1_700_900_900)])
    blank(bob, old, "lamps", 19)
    bob.execute("UPDATE memforest.fact SET pinned = true WHERE text LIKE '%hiking%' AND forest_id = :f", f=old)
    bob.execute(
        """UPDATE memforest.fact f SET superseded_at = now(), superseded_by = g.fact_id FROM memforest.fact g
            WHERE f.forest_id = :f AND g.forest_id = :f AND f.text LIKE '%Rex%' AND g.text LIKE '%hiking%'""",
        f=old,
    )
    for table, item in (("fact", "fact_id"), ("cell", "cell_id")):
        bob.execute(
            f"""INSERT INTO memforest.visit (tenant_id, item_id, forest_id, visits)
                SELECT tenant_id, {item}, forest_id, 3 FROM memforest.{table} WHERE forest_id = :f
                   AND text LIKE '%hiking%'""",
            f=old,
        )
    bob.execute(
        "INSERT INTO memforest.retention_policy (tenant_id, forest_id, max_facts) VALUES (:t, :f, 9)",
        t=bob.tenant,
        f=old,
    )
    assert live(bob) == old
    work(bob)
    assert evidence(bob) > {text for text in found if text != "Bob: I paid 19 dollars for a brass lamp numbered 19."}
    bob.drive(due=True)

    ended = finish(bob, task)

    assert ended.state == "done", ended
    assert int(ended.progress["recopied"]) >= 3
    new = live(bob)
    assert new == copy_of(task)
    names = {
        row.external_id: row.turn_count for row in bob.rows("SELECT external_id, turn_count FROM memforest.session")
    }
    assert names == {"lamps": 20, "pets": 4, "new": 1}
    assert [row.ordinal for row in bob.rows("SELECT ordinal FROM memforest.turn WHERE erased")] == [19]
    assert "Bob: I bought a red kayak." in evidence(bob, "What did I buy?")
    states = bob.rows(
        """SELECT f.text, f.pinned, g.text AS successor FROM memforest.fact f
             LEFT JOIN memforest.fact g ON g.fact_id = f.superseded_by WHERE f.pinned OR f.superseded_at IS NOT NULL"""
    )
    assert {
        (row.pinned, "hiking" in row.text, bool(row.successor and "hiking" in row.successor)) for row in states
    } == {(True, True, False), (False, False, True)}
    assert [(row.visits, row.forest_id) for row in bob.rows("SELECT visits, forest_id FROM memforest.visit")] == [
        (3, new)
    ] * 2
    assert [row.forest_id for row in bob.rows("SELECT forest_id FROM memforest.retention_policy")] == [new]
    only_forest(bob, new)


def test_an_operation_that_was_given_up_can_be_cleared_and_tried_again(bob: Stack) -> None:
    old, task = live(bob), ask(bob, Options({"session_k": 6}))
    drive_to(bob, task, "switch")
    with pytest.raises(InvalidInput, match="still at it"):
        rematerializing(bob).abandon(bob.tenant, "bob")
    for state in ("running", "dead"):
        bob.execute("UPDATE memforest.maintenance SET state = :s WHERE task_id = :t", s=state, t=task)

    assert rematerializing(bob).abandon(bob.tenant, "bob") == 1

    bob.drive(due=False)
    only_forest(bob, old)
    assert rematerializing(bob).abandon(bob.tenant, "bob") == 0
    bob.execute("UPDATE memforest.maintenance SET state = 'ready' WHERE task_id = :t", t=task)
    assert finish(bob, task).progress["phase"] == "attributed"
    only_forest(bob, copy_of(task))


def test_an_owner_that_goes_takes_the_copy_along(bob: Stack) -> None:
    task = ask(bob, Options({"session_k": 6}))
    drive_to(bob, task, "follow")
    bob.execute("UPDATE memforest.forest SET state = 'gone' WHERE forest_id = :f", f=live(bob))
    assert finish(bob, task).progress["phase"] == "overtaken"
    assert bob.rows("SELECT 1 FROM memforest.forest WHERE forest_id = :f", f=copy_of(task)) == []


def test_the_switch_waits_for_other_operations(bob: Stack) -> None:
    task = ask(bob, Options({"session_k": 6}))
    drive_to(bob, task, "switch")
    bob.execute(
        """INSERT INTO memforest.maintenance (tenant_id, task_id, kind, subject, forest_id)
           VALUES (:t, gen_random_uuid(), 'other', 'x', :f)""",
        t=bob.tenant,
        f=live(bob),
    )
    bob.execute(
        """INSERT INTO memforest.maintenance_forest (tenant_id, task_id, forest_id, role)
           SELECT tenant_id, task_id, forest_id, 'correct' FROM memforest.maintenance WHERE kind = 'other'"""
    )
    found = get(bob, task)
    with pytest.raises(StillMaterializing, match="Another operation"):
        rematerializing(bob).step(bob.tenant, found, found.progress)
    bob.execute("DELETE FROM memforest.maintenance WHERE kind = 'other'")
    assert finish(bob, task).state == "done"
    assert live(bob) == copy_of(task)


def test_what_waits_for_extraction_goes_on_in_the_new_forest(bob: Stack) -> None:
    task = ask(bob, Options({"session_k": 6}))
    drive_to(bob, task, "switch")
    bob.memory.client.enqueue("bob", "late", said("I bought a kayak.", "I sold a tent.", start=1_701_000_000))
    bob.memory.client.append("bob", "chat", said("I moved to Oslo.", start=1_701_100_000)[0])
    drive_to(bob, task, "switched", extract=False)

    states = bob.rows(
        """SELECT s.external_id, c.state FROM memforest.cell c JOIN memforest.session s USING (tenant_id, session_id)
            WHERE c.forest_id = :f AND NOT c.placed ORDER BY 1""",
        f=live(bob),
    )
    assert [tuple(row) for row in states] == [("chat", "held"), ("late", "ready")]
    assert "Bob: I moved to Oslo." in evidence(bob, "Where did I move?")
    bob.memory.client.append("bob", "chat", said("I love fjords.", start=1_701_100_060)[0])
    assert finish(bob, task).state == "done"
    facts = " ".join(row.text for row in bob.rows("SELECT text FROM memforest.fact WHERE forest_id = :f", f=live(bob)))
    assert all(word in facts for word in ("kayak", "tent", "Oslo", "fjords"))
    bob.drive()
    only_forest(bob, copy_of(task))


def test_pins_of_notes_go_along_and_one_that_only_the_copy_has_placed_is_pinned(bob: Stack) -> None:
    for session, text in (("n1", "I moved to Miami."), ("n2", "I bought a kayak.")):
        bob.memory.remember("bob", text, session_id=session)
    bob.drive()
    bob.execute("UPDATE memforest.fact SET pinned = false WHERE text LIKE '%kayak%'")
    task = ask(bob, Options({"session_k": 6}))
    drive_to(bob, task, "switch")
    bob.execute("UPDATE memforest.forest SET reduce_available_at = now() + interval '1 h' WHERE state = 'live'")
    bob.memory.remember("bob", "I adopted a parrot named Kiwi.", session_id="n3")
    drive_to(bob, task, "switched")

    assert live(bob) == copy_of(task)
    facts = bob.rows("SELECT text FROM memforest.fact WHERE pinned AND forest_id = :f", f=live(bob))
    pinned = {next(word for word in ("Miami", "kayak", "Kiwi") if word in row.text) for row in facts}
    assert pinned == {"Miami", "Kiwi"} and len(facts) == 2
    assert finish(bob, task).state == "done"


def test_a_copy_that_lost_cells_does_not_take_over(bob: Stack) -> None:
    task, old = ask(bob, Options({"session_k": 6})), live(bob)
    drive_to(bob, task, "switch")
    bob.execute(
        """UPDATE memforest.cell SET state = 'dead' WHERE cell_id =
              (SELECT cell_id FROM memforest.cell WHERE forest_id = :f LIMIT 1)""",
        f=copy_of(task),
    )
    found = get(bob, task)
    with pytest.raises(CopyLost, match="1 cells of the copy"):
        rematerializing(bob).step(bob.tenant, found, dict(found.progress) | {"phase": "follow"})
    assert live(bob) == old


class Scripted:
    """A model that reports a fact for each turn, in a wording that can be changed; its summaries are short."""

    def __init__(self) -> None:
        self.wording = "{who} said: {text}"

    def __call__(self, body: Mapping[str, Any]) -> str:
        if not model_answers.wants_extraction(body):
            return "A summary of what was said. " * 12
        shown = parse_window(model_answers.last_user_text(body))
        items = [
            {
                "text": self.wording.format(who=turn.speaker, text=turn.text),
                "turns": [turn.number],
                "quote": turn.text,
                "speaker": turn.speaker,
                "subject": turn.speaker,
                "attribute": "residence" if "Davis" in turn.text else "",
                "value": "Davis" if "Davis" in turn.text else "",
                "previous_value": "",
                "change": "none",
                "polarity": "positive",
                "modality": "asserted",
                "when": "",
                "entities": [],
                "scene": "home/things",
                "origin": "user",
            }
            for turn in shown.turns
        ]
        return json.dumps({"items": items, "summaries": []})


@pytest.fixture
def scripted(
    servers: SessionServers, tmp_path: Path, counting: Counting
) -> Iterator[tuple[Stack, Scripted, ModelServer]]:
    """Bob's sessions, read by a model, which names no scenes: a plan counts summaries."""
    answer = Scripted()
    refresh = {"quiet_s": 0.0, "title_sizes": []}
    with ModelServer(answer=answer) as server:
        llm = {"model": "openai/scripted", "api_base": server.url, "api_key": "none"}
        with stack(servers, tmp_path, embedder=counting, llm=llm, refresh=refresh) as running:
            running.memory.client.enqueue("bob", "lamps", LAMPS)
            running.memory.client.enqueue("bob", "pets", PETS)
            running.drive(due=False)
            running.drive()
            yield running, answer, server


def spent(of: Stack) -> dict[str, tuple[int, int, int]]:
    """(calls, prompt tokens, completion tokens) so far, by step."""
    rows = of.rows(
        "SELECT step, count(*) AS n, sum(prompt_tokens) AS p, sum(completion_tokens) AS c FROM memforest.llm_call"
        " WHERE outcome = 'ok' GROUP BY step"
    )
    found = {row.step: (int(row.n), int(row.p), int(row.c)) for row in rows}
    return {step: found.get(step, (0, 0, 0)) for step in ("extract", "summarize")}


def test_another_prompt_extracts_everything_and_costs_what_the_plan_says(
    scripted: tuple[Stack, Scripted, ModelServer],
) -> None:
    bob, answer, _ = scripted
    answer.wording = "{who} told that {text}"
    # Another prompt version or model has other keys: nothing that was paid for is found.
    bob.execute("DELETE FROM memforest.extraction_cache")
    bob.execute("UPDATE memforest.fact SET pinned = true WHERE text LIKE '%hiking%'")
    wrong = bob.rows("SELECT fact_id FROM memforest.fact WHERE text LIKE '%Davis%'")[0].fact_id
    bob.services.lifecycle.correction.correct(bob.tenant, "bob", wrong, text="Bob lives in Miami.", actor="test")
    bob.drive()
    before = spent(bob)
    plan = rematerializing(bob).plan(bob.tenant, "bob", Options(extract=True, summaries=True))

    ended = finish(bob, ask(bob, Options(extract=True, summaries=True)))

    assert (ended.state, ended.progress["phase"]) == ("done", "attributed"), ended
    after = spent(bob)
    calls_made = {step: after[step][0] - before[step][0] for step in after}
    assert calls_made["extract"] == plan.extraction_calls > 0
    assert plan.cells_to_extract == ended.progress["cells"]
    prompt = sum(after[step][1] - before[step][1] for step in after)
    completion = sum(after[step][2] - before[step][2] for step in after)
    assert plan.prompt_tokens == pytest.approx(prompt, rel=0.3)
    assert plan.completion_tokens == pytest.approx(completion, rel=0.3)
    assert plan.cost_usd is None
    texts = {row.text: row.pinned for row in bob.rows("SELECT text, pinned FROM memforest.fact")}
    assert texts.pop("Bob said: I love hiking.") is True
    assert texts.pop("Bob lives in Miami.") is False
    superseded = bob.rows(
        """SELECT f.text, g.text AS successor FROM memforest.fact f
             JOIN memforest.fact g ON g.fact_id = f.superseded_by WHERE f.superseded_at IS NOT NULL"""
    )
    assert [tuple(row) for row in superseded] == [("Bob told that I live in Davis.", "Bob lives in Miami.")]
    assert all(text.startswith("Bob told that ") for text in texts)
    assert len(texts) == len(LAMPS) + len(PETS)
    only_forest(bob, live(bob))


def test_another_branching_pays_for_the_summaries_of_the_plan(
    scripted: tuple[Stack, Scripted, ModelServer], counting: Counting
) -> None:
    bob, _, _ = scripted
    plan = rematerializing(bob).plan(bob.tenant, "bob", Options({"session_k": 5, "entity_k": 5, "scene_k": 5}))
    before = spent(bob)
    counting.calls = counting.texts = 0
    finish(bob, ask(bob, Options({"session_k": 5, "entity_k": 5, "scene_k": 5})))
    after = spent(bob)
    assert after["extract"] == before["extract"]
    assert 0 < after["summarize"][0] - before["summarize"][0] <= plan.summary_calls
    assert plan.prompt_tokens == pytest.approx(after["summarize"][1] - before["summarize"][1], rel=0.5)
    assert counting.texts <= plan.texts_to_embed
    repeated = rematerializing(bob).plan(bob.tenant, "bob", Options())
    assert (repeated.summary_calls, repeated.summaries_reused) == (0, plan.summary_calls)
    assert rematerializing(bob).plan(bob.tenant, "bob", Options(summaries=True)).summary_calls == plan.summary_calls
    only_forest(bob, live(bob))


def test_a_kill_between_two_steps_changes_nothing(bob: Stack) -> None:
    """Given a process that dies after a step's commit and before its progress is stored, when each step is retried,
    from the progress before too, then the end is the same."""
    facts, found = count(bob, "fact"), evidence(bob)
    task = ask(bob, Options({"session_k": 6}))
    take = rematerializing(bob).step
    before: Numbers = {}
    current: Numbers = {}
    for _ in range(100):
        requested = get(bob, task)
        try:
            take(bob.tenant, requested, current)
            repeated = take(bob.tenant, requested, before)
            if repeated is not None:
                take(bob.tenant, requested, repeated)
            after = take(bob.tenant, requested, current)
        except StillMaterializing:
            work(bob)
            continue
        if after is None:
            break
        before, current = current, after
    put(bob, task, current)
    ended = finish(bob, task)
    assert ended.state == "done"
    assert (count(bob, "fact"), evidence(bob)) == (facts, found)
    only_forest(bob, copy_of(task))
