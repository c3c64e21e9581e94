"""Concurrent operations: each pair ends as if one had been done after the other, and nothing is lost in silence."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise, product
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from memforest_core.client.handles import Operation
from memforest_core.client.lifecycle import Lifecycle
from memforest_core.domain.ids import WorkerId
from memforest_core.domain.operation_rules import RULES, Answer, OperationKind, Role, answer
from memforest_core.errors import ForestFrozen, InvalidInput, NotFound
from memforest_core.lifecycle.bundle.importing import Import
from memforest_core.lifecycle.bundle.service import Bundles
from memforest_core.lifecycle.erase.service import Erasure
from memforest_core.work.runner import LEASE_S
from memforest_core.work.waiting import OperationFailed
from tests.harness.sayings import said
from tests.harness.stack import Stack

WORD = "zanzibarium"
BY = "tests"
SECRET = said(*[f"I bought a {WORD} numbered {n} in Rome." for n in range(6)], start=1_690_000_000, name="Ann")
HOME = said("I live in Davis.", "I adopted a dog named Rex.", "I love hiking.", start=1_691_000_000, name="Ann")
LATE = said("I sold a red kayak.", "I bought a blue tent.", start=1_692_000_000, name="Ann")
NOTES = said("I live in Lisbon.", "I love hiking.", start=1_693_000_000, name="Ben")


def tell(running: Stack) -> None:
    for session, turns in (("secret", SECRET), ("home", HOME), ("late", LATE)):
        running.memory.client.enqueue("ann", session, turns)
    running.memory.client.enqueue("ben", "notes", NOTES)


@pytest.fixture
def forests(rested: Stack) -> Stack:
    """The forests of Ann and Ben at rest."""
    return rested


def do(forests: Stack) -> Lifecycle:
    return forests.memory.lifecycle


def fact(forests: Stack, words: str) -> str:
    rows = forests.rows(
        "SELECT x.fact_id FROM memforest.fact x JOIN memforest.forest f USING (tenant_id, forest_id)"
        " WHERE f.owner = 'ann' AND f.state IN ('live', 'frozen') AND x.text LIKE :w",
        w=f"%{words}%",
    )
    return str(rows[0].fact_id)


def step(forests: Stack, times: int = 1) -> None:
    """Take single steps of whatever may be claimed."""
    tasks = forests.services.maintenance.tasks
    budget, tasks._budget_s = tasks._budget_s, 0.0
    for _ in range(times):
        forests.hurry()
        tasks.run_one(forests.tenant, forests.runtime.worker)
    tasks._budget_s = budget


UNDONE = "FROM memforest.maintenance WHERE state <> 'done' AND kind <> 'vacuum'"
LEFT = "SELECT 1 FROM memforest.maintenance WHERE state IN ('ready', 'running') AND kind <> 'vacuum'"


def rest(forests: Stack, seed: int = 0) -> None:
    """Work in a random order until no operation is left that workers do."""
    runtime, rng = forests.runtime, random.Random(seed)
    for _ in range(200):
        forests.hurry()
        forests.execute("UPDATE memforest.tree SET due_at = now() WHERE due_at IS NOT NULL")
        work: list[Callable[[], int]] = [runtime.extract, runtime.reduce, runtime.refresh, runtime.maintain]
        rng.shuffle(work)
        moved = sum(each() for each in work)
        if not moved and not forests.rows(LEFT):
            return
    raise AssertionError(forests.rows("SELECT kind, state, progress, error_text FROM memforest.maintenance"))


def said_of(forests: Stack, word: str) -> set[str]:
    """Whose turns have a word."""
    rows = forests.rows(
        "SELECT DISTINCT f.owner FROM memforest.turn x JOIN memforest.session s USING (tenant_id, session_id)"
        " JOIN memforest.forest f USING (tenant_id, forest_id) WHERE x.content LIKE :w",
        w=f"%{word}%",
    )
    return {row.owner for row in rows}


def ends(forests: Stack, kind: str) -> list[str]:
    rows = forests.rows("SELECT outcome FROM memforest.audit WHERE action = :k ORDER BY audit_id", k=kind)
    return [row.outcome for row in rows]


@dataclass(frozen=True)
class Querying:
    """How an operation on Ann's forest is requested: the first of a pair, and the second."""

    role: Role
    first: Callable[[Stack, Path], object]
    second: Callable[[Stack, Path], object]


def _call(method: str, *arguments: Any, **options: Any) -> Callable[[Stack, Path], object]:
    return lambda forests, _: getattr(do(forests), method)(*arguments, **options, actor=BY)


def _correct(old: str, new: str) -> Callable[[Stack, Path], object]:
    return lambda forests, _: do(forests).correct("ann", fact(forests, old), text=new, actor=BY)


def _export(name: str) -> Callable[[Stack, Path], object]:
    return lambda forests, place: do(forests).export("ann", place / name, actor=BY)


def _import(owner: str) -> Callable[[Stack, Path], object]:
    return lambda forests, place: do(forests).import_(place / "before.memforest", owner, actor=BY)


_INTO, _RETAIN = _call("merge", ["ben"], "ann"), _call("apply_policy", "ann")
_REBUILD = [_call("rematerialize", "ann", rules={"session_k": k}) for k in (4, 5)]

REQUESTED: Mapping[str, Querying] = {
    "erase": Querying(Role.ERASE, _call("forget", "ann", session="secret"), _call("forget", "ann", session="late")),
    "correct": Querying(Role.CORRECT, _correct("in Davis", "Ann lives in Woodland."), _correct("hiking", "Ann rests.")),
    "merge-from": Querying(Role.MERGE_FROM, _call("merge", ["ann"], "ben"), _call("merge", ["ann"], "both")),
    "merge-into": Querying(Role.MERGE_INTO, _INTO, _INTO),
    "export": Querying(Role.EXPORT, _export("a.memforest"), _export("b.memforest")),
    "import": Querying(Role.IMPORT, _import("twin"), _import("other")),
    "rematerialize": Querying(Role.REMATERIALIZE, *_REBUILD),
    "retain": Querying(Role.RETAIN, _RETAIN, _RETAIN),
}
FROM_A_FILE = ("export", "import")


def broken_off(*_: object) -> object:
    raise KeyboardInterrupt


def begin(forests: Stack, name: str, place: Path, steps: int) -> Callable[[], object]:
    """Ask for the first of a pair, and leave it in the midst; what its caller does to go on."""
    ask = REQUESTED[name].first
    if name not in FROM_A_FILE:
        ask(forests, place)
        step(forests, steps)
        return lambda: None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Bundles, "_write", broken_off)
        patch.setattr(Import, "_texts", broken_off)
        with pytest.raises(KeyboardInterrupt):
            ask(forests, place)
    return lambda: ask(forests, place)


def pairs() -> list[object]:
    """Each with each. With every change are tested those of a deletion, and of each operation and the next one."""
    following = set(pairwise([*REQUESTED, next(iter(REQUESTED))]))
    return [
        pytest.param(*pair, marks=() if "erase" in pair or pair in following else pytest.mark.release)
        for pair in product(REQUESTED, repeat=2)
    ]


@pytest.mark.parametrize(("earlier", "later"), pairs())
def test_a_pair_ends_as_one_after_the_other(forests: Stack, tmp_path: Path, earlier: str, later: str) -> None:
    rng = random.Random(f"{earlier} {later}")
    do(forests).export("ann", tmp_path / "before.memforest", actor="before")
    do(forests).set_policy("ann", max_facts=9, fraction=0.1, actor="before")
    go_on = begin(forests, earlier, tmp_path, rng.randint(0, 2))
    roles = REQUESTED[earlier].role, REQUESTED[later].role
    same = earlier == later and earlier in ("merge-into", "retain")
    refused = answer(*roles) is Answer.REFUSED and not same

    accepted: object = None
    if refused:
        with pytest.raises((ForestFrozen, InvalidInput)):
            REQUESTED[later].second(forests, tmp_path)
    else:
        accepted = REQUESTED[later].second(forests, tmp_path)
    go_on()
    rest(forests, rng.randint(0, 99))

    states = forests.rows(f"SELECT kind, state, error_text {UNDONE}")
    assert states == []
    requested, done = (
        forests.rows("SELECT count(DISTINCT task_id) AS n FROM memforest.audit WHERE outcome = :o", o=outcome)[0].n
        for outcome in ("requested", "done")
    )
    assert requested == done
    for row in forests.rows("SELECT task_id FROM memforest.maintenance WHERE kind = 'erase'"):
        assert do(forests).receipt(row.task_id).clean
    if earlier == "erase":
        assert said_of(forests, WORD) <= {"twin", "other"}
    if later == "erase" and accepted is not None:
        assert said_of(forests, "kayak") <= {"twin", "other"}
    assert said_of(forests, "Rex") - {"twin", "other"} in ({"ann"}, {"ben"}, {"both"})
    assert forests.broken() == {}


@pytest.mark.parametrize("later", ["merge-from", "merge-into"])
@pytest.mark.parametrize("earlier", ["erase", "rematerialize"])
def test_two_workers_at_once_keep_to_it(forests: Stack, tmp_path: Path, earlier: str, later: str) -> None:
    with suppress(ForestFrozen, InvalidInput):
        REQUESTED[earlier].first(forests, tmp_path)
        REQUESTED[later].second(forests, tmp_path)

    def work() -> None:
        worker = WorkerId(uuid4())
        forests.services.jobs.register(worker, "second", ("maintain",))
        for _ in range(40):
            forests.services.maintenance.tasks.run_one(forests.tenant, worker)

    with ThreadPoolExecutor(2) as workers:
        for done in [workers.submit(work) for _ in range(2)]:
            done.result()
    rest(forests)
    assert forests.rows(f"SELECT kind, error_text {UNDONE}") == []
    if earlier == "erase":
        assert said_of(forests, WORD) == set()
    assert forests.broken() == {}


def test_a_deletion_under_way_is_waited_for_by_a_merge(forests: Stack) -> None:
    deletion = do(forests).forget("ann", session="secret", actor=BY)
    step(forests)
    merge = do(forests).merge(["ann"], "ben", actor=BY)
    assert merge.state().waits_for == deletion.id
    assert deletion.state().waits_for is None
    rest(forests)
    assert said_of(forests, WORD) == set()
    assert said_of(forests, "Rex") == {"ben"}
    assert do(forests).receipt(deletion.id).clean
    assert merge.state().fulfilled


def test_the_database_has_the_table_of_the_code(forests: Stack) -> None:
    pairs = [(earlier, later) for earlier in Role for later in Role]
    found = forests.rows(
        "SELECT memforest.operation_rule(e, l) AS answer FROM unnest(CAST(:e AS text[]), CAST(:l AS text[])) AS u(e, l)",
        e=[earlier.value for earlier, _ in pairs],
        l=[later.value for _, later in pairs],
    )
    assert [row.answer for row in found] == [answer(*pair) for pair in pairs]
    assert set(RULES) == set(Role)


def test_a_merge_into_an_owner_whose_deletion_was_just_requested_goes_to_a_new_memory(
    forests: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as slow:
        slow.setattr(Erasure, "_give_up_forests", lambda *_: None)
        deletion = do(forests).forget("ann", everything=True, actor=BY)
    merge = do(forests).merge(["ben"], "ann", actor=BY)
    assert merge.state().waits_for == deletion.id
    rest(forests)
    assert (deletion.state().fulfilled, merge.state().fulfilled) == (True, True)
    assert do(forests).receipt(deletion.id).clean
    assert said_of(forests, WORD) == set()
    assert [forest.owner for forest in forests.rows("SELECT owner FROM memforest.forest WHERE state = 'live'")] == [
        "ann"
    ]
    assert forests.broken() == {}


def test_a_dead_deletion_blocks_operations_that_would_copy_its_words(forests: Stack, tmp_path: Path) -> None:
    deletion = do(forests).forget("ann", session="secret", actor=BY)
    merge = do(forests).merge(["ann"], "ben", actor=BY)
    forests.execute("UPDATE memforest.maintenance SET state = 'running' WHERE kind = 'erase'")
    forests.execute("UPDATE memforest.maintenance SET state = 'dead', error_code = 'x' WHERE kind = 'erase'")
    forests.runtime.maintain()
    assert (merge.state().state, merge.state().waits_for) == ("ready", deletion.id)
    with pytest.raises(InvalidInput, match=f"Operation {deletion.id}"):
        do(forests).export("ann", tmp_path / "a.memforest", actor=BY)
    with pytest.raises(InvalidInput, match=f"Operation {deletion.id}"):
        do(forests).rematerialize("ann", actor=BY)
    forests.memory.dead.retry(str(deletion.id))
    rest(forests)
    assert said_of(forests, WORD) == set()
    assert merge.state().fulfilled


@pytest.mark.parametrize("steps", [1, 3, 6])
def test_a_deletion_during_a_rebuild_reaches_the_copy(forests: Stack, steps: int) -> None:
    rebuild = do(forests).rematerialize("ann", rules={"session_k": 4}, actor=BY)
    step(forests, steps)
    forests.runtime.reduce()
    facts = forests.rows("SELECT DISTINCT text_hash FROM memforest.fact WHERE text LIKE :w", w=f"%{WORD}%")
    deletion = do(forests).forget("ann", session="secret", actor=BY)
    assert rebuild.state().waits_for == deletion.id
    rest(forests)
    assert rebuild.state().fulfilled
    assert do(forests).receipt(deletion.id).clean
    for table in ("turn", "cell", "fact", "candidate", "node_summary", "tree", "summary_cache", "extraction_cache"):
        assert forests.rows(f"SELECT 1 FROM memforest.{table} x WHERE x::text ILIKE '%{WORD}%'") == []
    hashes = [row.text_hash for row in facts]
    assert forests.rows("SELECT 1 FROM memforest.vector WHERE text_hash = ANY(:h)", h=hashes) == []
    assert forests.broken() == {}


@pytest.mark.parametrize("finished", [False, True])
def test_earlier_deletions_are_done_and_outlive_their_forest(forests: Stack, finished: bool) -> None:
    part = do(forests).forget("ann", session="secret", actor=BY)
    if finished:
        rest(forests)
    whole = do(forests).forget("ann", everything=True, actor=BY)
    with pytest.raises(NotFound):
        do(forests).forget("ann", session="home", actor=BY)
    rest(forests)
    assert all(do(forests).receipt(each.id).clean for each in (part, whole))
    assert part.wait(0)["sessions"] == 1 or not finished
    assert said_of(forests, "Rex") == set()


def cancelled(forests: Stack, operation: Operation) -> None:
    """Cancel, twice, and see that it was."""
    do(forests).cancel(operation.id, actor="boss")
    do(forests).cancel(operation.id, actor="boss")
    rest(forests)
    assert operation.state().cancelled
    with pytest.raises(OperationFailed, match="was cancelled"):
        operation.wait(0)
    rows = forests.rows(
        "SELECT actor, outcome FROM memforest.audit WHERE task_id = :t ORDER BY audit_id", t=operation.id
    )
    assert [tuple(row) for row in rows] == [(BY, "requested"), ("boss", "cancel requested"), ("boss", "cancelled")]
    states = forests.rows("SELECT owner, state FROM memforest.forest WHERE owner <> 'before' ORDER BY 1")
    assert [tuple(row) for row in states] == [("ann", "live"), ("ben", "live")]
    assert forests.broken() == {}


@pytest.mark.parametrize(
    ("name", "steps"), [("merge", 0), ("merge", 1), ("merge", 2), ("rebuild", 0), ("rebuild", 2), ("rebuild", 5)]
)
def test_a_merge_into_a_new_owner_and_a_rebuild_can_be_cancelled(forests: Stack, name: str, steps: int) -> None:
    def request() -> Operation:
        if name == "merge":
            return do(forests).merge(["ann", "ben"], "both", actor=BY)
        return do(forests).rematerialize("ann", rules={"session_k": 4}, actor=BY)

    operation = request()
    step(forests, steps)
    cancelled(forests, operation)
    forests.memory.client.enqueue("ann", "new", said("I bought a drum.", name="Ann"))
    assert request().id != operation.id


def test_what_waits_can_be_cancelled(forests: Stack) -> None:
    do(forests).forget("ann", session="secret", actor="other")
    waits = do(forests).forget("ann", session="late", actor=BY)
    cancelled(forests, waits)
    assert said_of(forests, "kayak") == {"ann"}
    assert not do(forests).receipt(waits.id).clean


def test_what_was_switched_can_not_be_cancelled(forests: Stack) -> None:
    merge = do(forests).merge(["ann"], "ben", actor=BY)
    step(forests, 2)
    deletion = do(forests).forget("ben", session="notes", actor=BY)
    with pytest.raises(InvalidInput, match="can't be cancelled any more: the sources are in the target already"):
        do(forests).cancel(merge.id, actor=BY)
    rest(forests)
    for each in (merge, deletion):
        with pytest.raises(InvalidInput, match="it is done"):
            do(forests).cancel(each.id, actor=BY)


def test_an_import_whose_file_is_gone_can_be_cancelled_or_forgotten(forests: Stack, tmp_path: Path) -> None:
    do(forests).export("ann", tmp_path / "before.memforest", actor="before")
    for owner in ("twin", "other"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Import, "_texts", broken_off)
            with pytest.raises(KeyboardInterrupt):
                do(forests).import_(tmp_path / "before.memforest", owner, actor=BY)
    other, twin = (each for each in do(forests).operations() if each.kind == OperationKind.IMPORT)
    assert said_of(forests, WORD) == {"ann", "twin", "other"}
    do(forests).cancel(twin.id, actor="boss")
    deletion = do(forests).forget("other", everything=True, actor=BY)
    rest(forests)
    assert said_of(forests, WORD) == {"ann"}
    assert do(forests).receipt(deletion.id).clean
    assert [do(forests).operation(each.id).cancelled for each in (other, twin)] == [True, True]
    assert ends(forests, "import") == ["requested", "requested", "cancel requested", "cancelled", "cancelled"]
    assert forests.broken() == {}


def test_an_export_that_was_killed_ends_with_its_memory(forests: Stack, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Bundles, "_write", broken_off)
        with pytest.raises(KeyboardInterrupt):
            do(forests).export("ann", tmp_path / "killed.memforest", actor=BY)
    (export,) = (each for each in do(forests).operations() if each.kind == OperationKind.EXPORT)
    deletion = do(forests).forget("ann", everything=True, actor=BY)
    rest(forests)
    assert do(forests).receipt(deletion.id).clean
    assert do(forests).operation(export.id).cancelled
    assert ends(forests, "export") == ["requested", "cancelled"]
    assert list(tmp_path.glob("*.memforest*")) == []
    assert forests.broken() == {}


def test_a_merge_that_was_given_up_releases_its_sources(forests: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    merging = forests.services.lifecycle.merging
    merge = do(forests).merge(["ann", "ben"], "both", actor=BY)
    monkeypatch.setattr(merging, "_compared", lambda *_: (_ for _ in ()).throw(InvalidInput("It is broken.")))
    rest(forests)
    assert merge.state().state == "dead"
    forests.memory.client.enqueue("ann", "new", said("I bought a drum.", name="Ann"))
    rest(forests)
    monkeypatch.undo()
    forests.memory.dead.retry(str(merge.id))
    step(forests, 2)
    assert merge.state().progress["next"] == 1
    monkeypatch.setattr(merging, "_compared", lambda *_: (_ for _ in ()).throw(InvalidInput("It is broken.")))
    rest(forests)
    assert merge.state().state == "dead"
    with pytest.raises(ForestFrozen, match="given up half-way"):
        do(forests).rematerialize("ann", actor=BY)
    monkeypatch.undo()
    forests.memory.dead.retry(str(merge.id))
    rest(forests)
    assert merge.state().fulfilled
    assert said_of(forests, "drum") == {"both"}
    assert forests.broken() == {}


def test_two_claims_at_once_never_take_two_that_exclude_each_other(forests: Stack) -> None:
    do(forests).forget("ann", session="secret", actor=BY)
    do(forests).forget("ann", session="late", actor=BY)
    open_tasks, kinds = forests.services.maintenance.tasks._open_tasks, (OperationKind.ERASE,)
    barrier, claimed = threading.Barrier(4), list[object]()

    def claim() -> None:
        barrier.wait()
        with open_tasks(forests.tenant) as rows:
            claimed.append(rows.claim(kinds, WorkerId(uuid4()), LEASE_S))

    threads = [threading.Thread(target=claim) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(each is not None for each in claimed) == 1
