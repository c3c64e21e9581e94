"""Dead work on real Postgres: seen without what was said, tried again, or let go; memory is whole afterwards."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from uuid import UUID, uuid4

import pytest
import typer
from typer.testing import CliRunner, Result

from memforest_core.cli.commands import Commands
from memforest_core.cli.opener import ProgramOpener
from memforest_core.cli.toolkit.memory_opening import use_opener
from memforest_core.domain.ids import CellId, TenantId
from memforest_core.errors import InvalidInput, NotFound
from memforest_core.ingest.accept.records import Stage
from memforest_core.ingest.extract.rows import ExtractRows
from memforest_core.ingest.reduce.rows import ReduceRows
from memforest_core.store.engine import tenant_transaction
from memforest_core.work import cli as command
from memforest_core.work.dead import DeadLetters
from memforest_core.work.messages import Queue
from memforest_core.work.records import DeadKind, DeadRef
from memforest_core.work.rows.dead_rows import DeadRows
from tests.harness.sayings import said
from tests.harness.stack import Stack

TALK = ("I moved from Boston to Davis in May 2023.", "How nice.", "I bought 3 red kayaks there.", "Great.")
CELLS = """SELECT ordinal, window_ordinal, state, placed, outcome, attempts, lost_leases, error_code
             FROM memforest.cell ORDER BY ordinal"""
FACTS = """SELECT c.ordinal, k.item, k.statement->>'text', count(o.fact_id)
             FROM memforest.candidate k JOIN memforest.cell c USING (tenant_id, cell_id)
             LEFT JOIN memforest.occurrence o USING (tenant_id, cell_id, item)
            GROUP BY c.session_id, 1, 2, 3 ORDER BY 1, 2"""
CODE, REASON = "crashed", "Its extraction crashed."


class Sent:
    """Wake-ups that were sent."""

    def __init__(self) -> None:
        self.queues: list[tuple[str, int]] = []

    def send(self, queue: str, tenant: TenantId, ref: UUID | str, count: int = 1) -> bool:
        self.queues.append((str(queue), count))
        return True


def enqueued(pipeline: Stack, owner: str = "bob") -> None:
    pipeline.memory.client.enqueue(owner, "s1", said(*TALK))


def bury_window(pipeline: Stack) -> None:
    """Extraction gives up the next window: as it is when its workers died over it, with all its cells."""
    with ExtractRows.opened(pipeline.services.engine, pipeline.tenant) as rows:
        window = rows.claim_window(pipeline.runtime.worker, 60.0)
        assert window is not None
        rows.bury_window(window, CODE, REASON)


def bury_extracted(pipeline: Stack, ordinal: int = 0) -> None:
    """The reducer gives up a cell that was extracted."""
    pipeline.runtime.extract()
    cell = pipeline.rows(
        "SELECT cell_id FROM memforest.cell WHERE ordinal = :n AND state = 'done' AND NOT placed", n=ordinal
    )[0][0]
    with ReduceRows.opened(pipeline.services.engine, pipeline.tenant) as rows:
        waiting = rows.queue.waiting(1_000)
        assert waiting is not None
        assert rows.queue.bury_cell(
            replace(waiting, cells=(CellId(cell),)), "invariant_violated", "A stored statement is damaged."
        )


def bury_leafs_parent(pipeline: Stack) -> UUID:
    """A node of the session's tree is given up while it is dirty."""
    node = pipeline.rows(
        """SELECT n.node_id FROM memforest.node n JOIN memforest.tree r USING (tenant_id, tree_id)
            WHERE r.kind = 'session' AND n.level = 1 AND n.parent_id IS NOT NULL
            ORDER BY n.key_ordinal DESC LIMIT 1"""
    )[0][0]
    pipeline.execute(
        """UPDATE memforest.node SET dead = true, version = version + 1, attempts = 5, lost_leases = 2,
                  error_code = :code, error_text = :reason WHERE node_id = :n""",
        n=node,
        code=CODE,
        reason=REASON,
    )
    return UUID(str(node))


def bury_task(
    pipeline: Stack, kind: str = "index_rebuild", subject: str = "", *, state: str = "dead", task: UUID | None = None
) -> UUID:
    task = task or uuid4()
    pipeline.execute(
        """INSERT INTO memforest.maintenance (tenant_id, task_id, kind, subject, forest_id, state, attempts,
                                              finished_at, error_code, error_text, progress)
           VALUES (:t, :id, :kind, CAST(:subject AS text), CAST(nullif(:subject, '') AS uuid), :state, 5, now(), :code,
                   :reason, '{"marked": 7}')""",
        t=pipeline.tenant,
        id=task,
        kind=kind,
        subject=subject,
        state=state,
        code=CODE,
        reason=REASON,
    )
    return task


def letters(pipeline: Stack, sent: Sent | None = None, tenant: str | None = None, most: int = 8) -> DeadLetters:
    rows = partial(DeadRows.opened, pipeline.services.engine)
    return DeadLetters(rows, sent or Sent(), TenantId(tenant or pipeline.tenant), most)


@contextmanager
def looked(pipeline: Stack) -> Iterator[DeadRows]:
    with tenant_transaction(pipeline.services.engine, pipeline.tenant) as connection:
        yield DeadRows(connection, pipeline.tenant)


def only(pipeline: Stack) -> str:
    (letter,) = letters(pipeline).list()
    return str(letter.id)


def test_dead_work_of_every_kind_is_listed_with_its_error_and_without_what_was_said(pipeline: Stack) -> None:
    """Given work that extraction, the reducer, refresh and maintenance gave up, then the list names each and no text."""
    pipeline.memory.client.enqueue("ann", "a1", said(*[f"I paid {n} dollars for kayak {n}." for n in range(24)]))
    pipeline.drive()
    node = bury_leafs_parent(pipeline)
    enqueued(pipeline)
    bury_extracted(pipeline)
    pipeline.memory.client.enqueue("bob", "s2", said("I sold a kayak."))
    bury_window(pipeline)
    forest = pipeline.rows("SELECT forest_id FROM memforest.forest WHERE owner = 'ann'")[0][0]
    bury_task(pipeline, subject=str(forest))

    found = letters(pipeline).list()

    seen = [(each.kind, each.step, each.owner, each.session, each.code, each.attempts) for each in found]
    assert seen == [
        (DeadKind.CELL, "reduce", "bob", "s1", "invariant_violated", 1),
        (DeadKind.CELL, "extract", "bob", "s2", CODE, 1),
        (DeadKind.NODE, "refresh", "ann", "a1", CODE, 5),
        (DeadKind.TASK, "index_rebuild", "ann", None, CODE, 5),
    ]
    assert found[2].id == node and found[2].lost_leases == 2
    assert all(each.since is not None and each.text for each in found)
    assert "kayak" not in repr(found).lower()
    owned = letters(pipeline).list("bob", kinds=[DeadKind.CELL], code=CODE)
    assert [each.session for each in owned] == ["s2"]
    assert len(letters(pipeline).list(limit=2)) == 2
    assert letters(pipeline).list("ann", kinds=[DeadKind.CELL]) == []


def test_text_is_shown_only_when_it_is_requested(pipeline: Stack) -> None:
    pipeline.memory.client.enqueue("ann", "a1", said(*[f"I paid {n} dollars for kayak {n}." for n in range(24)]))
    pipeline.drive()
    node = str(bury_leafs_parent(pipeline))
    enqueued(pipeline)
    bury_window(pipeline)
    cell = str(letters(pipeline).list("bob")[0].id)
    task = str(bury_task(pipeline))

    for name, said_there in ((cell, "Boston"), (node, "dollars"), (task, "marked")):
        plain = letters(pipeline).show(name)
        assert plain.texts is None
        assert "Boston" not in repr(plain) and "dollars" not in repr(plain)
        full = letters(pipeline).show(name[:13], text=True)
        assert (full.letter, full.about) == (plain.letter, plain.about)
        if name != task:
            assert any(said_there in text for text in full.texts or ())
    about = letters(pipeline).show(cell).about
    assert (about["cell"], about["first_turn"], about["last_turn"], about["candidates"]) == (0, 0, 1, 0)
    whole = letters(pipeline).show(node, text=True)
    assert (whole.about["tree_kind"], whole.about["level"], whole.about["children"]) == (
        "session",
        1,
        len(whole.texts or ()),
    )
    assert letters(pipeline).show(task).about["progress.marked"] == 7


def test_a_cell_tried_again_ends_as_in_a_calm_run(pipeline: Stack) -> None:
    """Given a window that extraction gave up, when it is tried again, then its session has all its facts."""
    enqueued(pipeline, "calm")
    pipeline.drive()
    calm = [tuple(row) for row in pipeline.rows(FACTS)]
    enqueued(pipeline)
    bury_window(pipeline)
    pipeline.drive()
    assert pipeline.memory.status("bob", "s1").dead == 2
    sent = Sent()

    acted = letters(pipeline, sent).retry_all("bob")

    assert len(acted.changed) == 2 and acted.windows == 1
    assert sent.queues == [(Queue.EXTRACT, 1)]
    back = [row[2:] for row in pipeline.rows(CELLS) if row.state == "ready"]
    assert back == [("ready", False, None, 0, 0, CODE)] * 2
    assert (pipeline.memory.status("bob", "s1").failed, letters(pipeline).list()) == (2, [])
    pipeline.drive()
    assert [tuple(row) for row in pipeline.rows(FACTS)] == sorted(calm * 2)
    done = pipeline.memory.status("bob", "s1")
    assert (done.dead, done.failed, done.coverage, done.ready) == (0, 0, 1.0, True)


def test_a_cell_without_the_head_of_its_window_goes_alone(pipeline: Stack) -> None:
    """Given a dead window of two cells, when only the second is tried again, then it is extracted by itself."""
    enqueued(pipeline)
    bury_window(pipeline)
    second = pipeline.rows("SELECT cell_id FROM memforest.cell WHERE ordinal = 1")[0][0]

    assert letters(pipeline).retry(str(second)).windows == 1
    pipeline.drive()

    assert [tuple(row)[:4] for row in pipeline.rows(CELLS)] == [(0, 0, "dead", False), (1, 1, "done", True)]


def test_a_cell_that_the_reducer_gave_up_goes_back_to_the_reducer(pipeline: Stack) -> None:
    """Given an extracted cell that could not be placed, when it is tried again, then it is not extracted again."""
    enqueued(pipeline)
    bury_extracted(pipeline)
    pipeline.execute("UPDATE memforest.forest SET reduce_available_at = now() + interval '1 hour'")
    before = [tuple(row)[:3] for row in pipeline.rows(FACTS)]
    assert pipeline.rows(CELLS)[0].outcome == "dead"
    sent = Sent()

    acted = letters(pipeline, sent).retry(only(pipeline))

    assert (acted.windows, acted.forests, sent.queues) == (0, 1, [(Queue.REDUCE, 1)])
    assert tuple(pipeline.rows(CELLS)[0]) == (0, 0, "done", False, "ok", 0, 0, None)
    assert pipeline.runtime.extract() == 0
    pipeline.drive()
    assert [tuple(row) for row in pipeline.rows(FACTS)] == [(*row, 1) for row in before]
    assert pipeline.memory.status("bob", "s1").ready


def test_a_node_tried_again_is_summarized_and_its_ancestors_with_it(pipeline: Stack) -> None:
    """Given a dead node and a tree that was settled without it, when it is tried again, then all is fresh again."""
    pipeline.memory.client.enqueue("bob", "s1", said(*[f"I paid {n} dollars for lamp {n}." for n in range(24)]))
    pipeline.drive()
    node = bury_leafs_parent(pipeline)
    versions = "SELECT node_id, version FROM memforest.node WHERE parent_id IS NULL"
    before = {row.node_id: row.version for row in pipeline.rows(versions)}
    sent = Sent()

    acted = letters(pipeline, sent).retry(str(node))

    assert acted.changed == (DeadRef(DeadKind.NODE, node),) and acted.trees == 1
    assert sent.queues == [(Queue.REFRESH, 1)]
    assert sum(row.version > before[row.node_id] for row in pipeline.rows(versions)) == 1
    assert pipeline.rows("SELECT count(*) FROM memforest.tree WHERE due_at <= now()") == [(1,)]
    pipeline.drive()
    assert pipeline.rows("SELECT count(*) FROM memforest.node WHERE version > clean_version") == [(0,)]
    row = pipeline.rows("SELECT dead, attempts, lost_leases, error_code FROM memforest.node WHERE node_id = :n", n=node)
    assert row == [(False, 0, 0, None)]


def test_a_task_tried_again_is_ready_unless_its_like_is_under_way(pipeline: Stack) -> None:
    pipeline.execute("INSERT INTO memforest.tenant (tenant_id) VALUES (:t)", t=pipeline.tenant)
    bury_task(pipeline, "index_parity")
    newest = bury_task(pipeline, "index_parity")
    stays = bury_task(pipeline, "index_rebuild")
    bury_task(pipeline, "index_rebuild", state="ready")
    sent = Sent()

    acted = letters(pipeline, sent).retry_all()

    assert acted.changed == (DeadRef(DeadKind.TASK, newest),)
    assert sent.queues == [(Queue.MAINTAIN, 1)]
    repeated = "SELECT state, attempts, finished_at, progress FROM memforest.maintenance WHERE task_id = :n"
    assert pipeline.rows(repeated, n=newest) == [("ready", 0, None, {"marked": 7})]
    assert pipeline.rows(repeated, n=stays)[0].state == "dead"


def test_the_turns_of_a_discarded_cell_stay_recallable(pipeline: Stack) -> None:
    """Given a window that can't be extracted, when it is let go, then what was said is found, without facts."""
    enqueued(pipeline)
    bury_window(pipeline)
    pipeline.drive()
    assert pipeline.memory.status("bob", "s1").placed == 0
    sent = Sent()

    acted = letters(pipeline, sent).discard(*[str(each.id) for each in letters(pipeline).list()])
    pipeline.drive()

    assert (len(acted.changed), sent.queues) == (2, [(Queue.REDUCE, 1)])
    assert [tuple(row)[2:5] for row in pipeline.rows(CELLS)] == [("done", True, "dead")] * 2
    progress = pipeline.memory.status("bob", "s1")
    assert (progress.stage, progress.dead, progress.facts, progress.coverage) == (Stage.SUMMARIES, 2, 0, 0.0)
    assert progress.ready
    found = pipeline.memory.recall("bob", "How many kayaks did Bob buy?", mode="embedding")
    assert any("3 red kayaks" in piece.text for piece in found.evidence)
    assert pipeline.rows("SELECT count(*) FROM memforest.node WHERE payload_id IS NOT NULL") == [(2,)]
    assert letters(pipeline).list() == []


def test_a_discarded_cell_that_the_reducer_gave_up_loses_its_facts_alone(pipeline: Stack) -> None:
    enqueued(pipeline)
    bury_extracted(pipeline)
    others = [tuple(row)[:3] for row in pipeline.rows(FACTS) if row.ordinal == 1]
    assert len(others) < len(pipeline.rows(FACTS))

    letters(pipeline).discard(only(pipeline))
    pipeline.drive()

    assert [tuple(row) for row in pipeline.rows(FACTS)] == [(*row, 1) for row in others]
    assert [row.outcome for row in pipeline.rows(CELLS)] == ["dead", "ok"]
    assert pipeline.memory.status("bob", "s1").ready


def test_what_a_cell_has_in_the_trees_stays_when_its_second_extraction_is_discarded(pipeline: Stack) -> None:
    """Given facts word by word, and a second extraction that could not be placed, then discarding brings those back."""
    enqueued(pipeline)
    pipeline.drive()
    before = [tuple(row) for row in pipeline.rows(FACTS)]
    facts = [row for row in before if row[0] == 0]
    pipeline.execute(
        "UPDATE memforest.candidate SET item = -1 - item WHERE cell_id IN (SELECT cell_id FROM memforest.cell WHERE ordinal = 0)"
    )
    pipeline.execute(
        """INSERT INTO memforest.candidate SELECT tenant_id, cell_id, -1 - item, turn_ordinals, quote, statement,
                  text_hash, routing_hash FROM memforest.candidate WHERE item < 0"""
    )
    pipeline.execute("UPDATE memforest.cell SET placed = false, state = 'dead', outcome = 'dead' WHERE ordinal = 0")
    assert len(pipeline.rows(FACTS)) == len(before) + len(facts)

    letters(pipeline).discard(only(pipeline))

    assert [tuple(row) for row in pipeline.rows(FACTS)] == before
    assert tuple(pipeline.rows(CELLS)[0])[2:5] == ("done", True, "verbatim")


def test_the_summary_of_a_discarded_node_stays_until_something_changes(pipeline: Stack) -> None:
    pipeline.memory.client.enqueue("bob", "s1", said(*[f"I paid {n} dollars for lamp {n}." for n in range(24)]))
    pipeline.drive()
    node = bury_leafs_parent(pipeline)
    text = "SELECT text, version FROM memforest.node_summary WHERE node_id = :n"
    stored = pipeline.rows(text, n=node)

    letters(pipeline).discard(str(node))
    pipeline.drive()

    state = "SELECT state, dead, version - clean_version, attempts FROM memforest.node WHERE node_id = :n"
    assert pipeline.rows(state, n=node) == [("done", False, 0, 0)]
    assert pipeline.rows(text, n=node) == stored
    pipeline.execute("UPDATE memforest.node SET version = version + 1 WHERE node_id = :n", n=node)
    assert pipeline.rows(state, n=node)[0].state == "ready"


def test_a_discarded_task_is_over(pipeline: Stack) -> None:
    pipeline.execute("INSERT INTO memforest.tenant (tenant_id) VALUES (:t)", t=pipeline.tenant)
    task = bury_task(pipeline)
    letters(pipeline).discard(str(task))
    assert pipeline.rows("SELECT state, error_code FROM memforest.maintenance") == [("done", CODE)]


def test_what_somebody_else_revived_is_left_alone(pipeline: Stack) -> None:
    """Given dead work that was found, when another revives and claims it first, then nothing of it changes."""
    enqueued(pipeline)
    bury_window(pipeline)
    pipeline.execute("INSERT INTO memforest.tenant (tenant_id) VALUES (:t) ON CONFLICT DO NOTHING", t=pipeline.tenant)
    task = DeadRef(DeadKind.TASK, bury_task(pipeline))
    refs = [DeadRef(each.kind, each.id) for each in letters(pipeline).list()]
    assert task in refs and len(refs) == 3
    letters(pipeline).retry_all()
    pipeline.execute("UPDATE memforest.cell SET state = 'running', attempts = 1")
    pipeline.execute("UPDATE memforest.maintenance SET state = 'running', attempts = 1")

    for act in ("retry", "discard"):
        with looked(pipeline) as rows:
            assert getattr(rows, act)(refs).changed == ()

    assert {(row.state, row.attempts) for row in pipeline.rows(CELLS)} == {("running", 1)}
    assert pipeline.rows("SELECT state, attempts FROM memforest.maintenance") == [("running", 1)]


def test_tenants_see_and_change_only_their_own(pipeline: Stack) -> None:
    enqueued(pipeline)
    bury_window(pipeline)
    mine = [str(each.id) for each in letters(pipeline).list()]
    assert len(mine) == 2

    stranger = letters(pipeline, tenant="stranger")
    assert stranger.list() == []
    assert stranger.retry_all().changed == ()
    for call in (stranger.retry, stranger.discard, stranger.show):
        with pytest.raises(NotFound, match="Nothing dead has the id"):
            call(mine[0])
    with pytest.raises(NotFound, match="No owner 'bob'"):
        stranger.list("bob")
    assert [str(each.id) for each in letters(pipeline).list()] == mine


@pytest.fixture
def named(pipeline: Stack) -> tuple[UUID, UUID, UUID]:
    """Three dead tasks, two of whose ids begin alike."""
    pipeline.execute("INSERT INTO memforest.tenant (tenant_id) VALUES (:t)", t=pipeline.tenant)
    first, twin, other = (
        UUID(f"{beginning * 8}-aaaa-4000-8000-00000000000{number}") for number, beginning in enumerate("112", start=1)
    )
    for number, task in enumerate((first, twin, other)):
        bury_task(pipeline, f"kind {number}", task=task)
    return first, twin, other


def test_a_beginning_of_eight_hex_digits_names_the_one_that_has_it(
    pipeline: Stack, named: tuple[UUID, UUID, UUID]
) -> None:
    """Given dead work, then a beginning names what has it, and one that nothing or several have leaves all alone."""
    first, twin, other = named
    dead = letters(pipeline)
    for name in ("22222222", "22222222-AAAA", " 22222222aaaa4000 ", str(other), other.hex.upper()):
        assert dead.show(name).letter.id == other
    for name in ("2222222", "", "bob", "22222222%", "2222_222", "2" * 33):
        with pytest.raises(InvalidInput, match="first 8 characters") as refused:
            dead.retry(str(first), name)
        assert refused.value.code == "invalid_id"
    with pytest.raises(InvalidInput, match=f"2 ids begin with '11111111'.*{first}, {twin}") as refused:
        dead.discard("11111111")
    assert refused.value.code == "ambiguous_id"
    with pytest.raises(NotFound, match=r"Nothing dead has the id '33333333': see memforest dead list\."):
        dead.retry(str(first), "33333333")
    for call in (dead.list, dead.retry_all):
        with pytest.raises(NotFound, match="No owner 'eve'"):
            call("eve")
    assert [each.id for each in dead.list()] == [first, twin, other]

    assert len(dead.discard(str(other), "22222222", str(first)).changed) == 2
    assert [each.id for each in dead.list()] == [twin]


def test_workers_are_woken_within_bounds(pipeline: Stack, named: tuple[UUID, UUID, UUID]) -> None:
    sent = Sent()
    assert len(letters(pipeline, sent, most=2).retry_all().changed) == 3
    assert sent.queues == [(Queue.MAINTAIN, 2)]
    letters(pipeline, sent).retry_all()
    assert len(sent.queues) == 1


@pytest.fixture
def shell(pipeline: Stack, monkeypatch: pytest.MonkeyPatch) -> typer.Typer:
    """A program with the commands, over the stack's services."""
    monkeypatch.setenv("MEMFOREST_DATABASE__URL", pipeline.settings.database.url.get_secret_value())
    monkeypatch.setenv("MEMFOREST_BROKER__URL", pipeline.settings.broker.url.get_secret_value())
    program = typer.Typer(cls=Commands, pretty_exceptions_enable=False)
    program.add_typer(command.dead_app)
    program.command("other")(lambda: None)
    use_opener(ProgramOpener())
    return program


def run(program: typer.Typer, *arguments: str) -> Result:
    return CliRunner().invoke(program, ["dead", *arguments])


def test_the_command_lists_shows_retries_and_discards(pipeline: Stack, shell: typer.Typer) -> None:
    enqueued(pipeline)
    bury_window(pipeline)
    listed = run(shell, "list", "--json", "--owner", "bob")
    first, second = (each["id"] for each in json.loads(listed.stdout)["dead"])
    assert "Boston" not in listed.stdout
    table = run(shell, "list", "--kind", "cell").stdout
    assert first in table and f"{REASON} [{CODE}]" in table and "2 dead." in table

    assert "Boston" not in run(shell, "show", first).stdout
    shown = [run(shell, "show", each[:8], "--text", "--json") for each in (first, second)]
    assert any("Boston" in text for result in shown for text in json.loads(result.stdout)["texts"])

    assert json.loads(run(shell, "retry", first, "--json").stdout)["changed"] == [{"kind": "cell", "id": first}]
    assert run(shell, "discard", second, "--yes").stdout == "1 discarded.\n"
    pipeline.drive()
    assert run(shell, "list").stdout == "Nothing is dead.\n"
    gone = run(shell, "retry", first, "--json")
    assert (gone.exit_code, json.loads(gone.stderr)["error"]["code"]) == (2, "not_found")
    assert run(shell, "retry", "--all").stdout == "0 tried again.\n"
    assert run(shell, "list", "--owner", "eve").exit_code == 2
