"""Corrected facts over the real pipeline: the old one is history, the new one is found, and everything agrees."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from memforest_core.domain.evidence import Evidence, EvidenceKind
from memforest_core.domain.ids import FactId, TenantId
from memforest_core.errors import ForestFrozen, IndexUnavailable, InvalidInput, ModelUnavailable, NotFound
from memforest_core.index.vector_index import Hits, IndexQuery, VectorIndex
from memforest_core.ingest.reduce.service import Reduced, ReductionService
from memforest_core.lifecycle.correct.service import Correction, CorrectionStuck, NotPlacedYet
from memforest_core.models.calls import Embedded, Embedder
from memforest_core.recall.rows.recall_rows import RecallStore
from memforest_core.recall.service import RecallService
from memforest_core.recall.states import TimelineState
from memforest_core.work.records import Numbers, OperationTask, TaskId
from tests.harness.model_faults import Fault
from tests.harness.model_server import ModelServer
from tests.harness.servers import SessionServers
from tests.harness.stack import Stack, stack

ACTOR = "ann"
SPRING = (
    ("2022-03-01T09:00:00Z", "I live in Bergen with my cousin."),
    ("2022-03-01T09:01:00Z", "I work as a baker."),
    ("2022-03-01T09:02:00Z", "I adopted a cat named Misty."),
    ("2022-03-01T09:03:00Z", "I weigh 81 kg."),
)
SUMMER = (("2022-07-10T09:00:00Z", "I moved to Porto in June 2022."), ("2022-07-10T09:01:00Z", "The sea is cold here."))
WHERE = "Where did Ines live with her cousin?"


def turns(said: Sequence[tuple[str, str]], name: str = "Ines") -> list[dict[str, object]]:
    return [
        {"id": f"t{at}", "role": "user", "name": name, "content": text, "timestamp": when}
        for at, (when, text) in enumerate(said)
    ]


def tell(running: Stack) -> None:
    """Two sessions of one owner, wholly processed, to be cloned. Scenes of one fact have a tree, so that one can become
    empty."""
    running.memory.ingest("ines", "spring", turns(SPRING))
    running.execute("""UPDATE memforest.forest SET rules = '{"scene_min_facts": 1}'""")
    running.memory.ingest("ines", "summer", turns(SUMMER))


@pytest.fixture
def ines(rested: Stack) -> Stack:
    return rested


def correction(pipeline: Stack) -> Correction:
    return pipeline.services.lifecycle.correction


def correct(pipeline: Stack, like: str, **wanted: str) -> OperationTask:
    """Correct the fact that says so, and do what there is to do."""
    corrections = correction(pipeline)
    task = corrections.correct(pipeline.tenant, "ines", fact(pipeline, like), actor=ACTOR, **wanted)  # type: ignore[arg-type]
    pipeline.drive()
    return seen(pipeline, task)


def fact(pipeline: Stack, like: str) -> FactId:
    rows = pipeline.rows("SELECT fact_id FROM memforest.fact WHERE text ILIKE :like", like=f"%{like}%")
    assert len(rows) == 1, rows
    return FactId(rows[0][0])


def seen(pipeline: Stack, task: TaskId) -> OperationTask:
    return pipeline.services.operations.get(pipeline.tenant, task)


def superseded(pipeline: Stack) -> dict[str, str | None]:
    """What each superseded fact says, and what its successor says."""
    rows = pipeline.rows(
        "SELECT f.text, n.text FROM memforest.fact f LEFT JOIN memforest.fact n ON n.fact_id = f.superseded_by"
        " WHERE f.superseded_at IS NOT NULL"
    )
    return {row[0]: row[1] for row in rows}


def assert_sound(pipeline: Stack) -> None:
    pipeline.assert_verified()
    assert pipeline.rows("SELECT count(*) FROM memforest.cell WHERE NOT placed") == [(0,)]


def first(pipeline: Stack, question: str = WHERE, **options: str) -> Evidence:
    return pipeline.memory.recall("ines", question, **options).evidence[0]  # type: ignore[arg-type]


def states(pipeline: Stack, attribute: str, as_of: str | None = None) -> list[TimelineState]:
    found = pipeline.services.timeline.timeline(pipeline.tenant, "ines", attribute=attribute, as_of=as_of)
    return list(found.states)


def test_another_value_replaces_the_old_one_everywhere(ines: Stack) -> None:
    """Given a wrong residence, when its value is corrected, then recall, timeline, summaries and audit agree on it."""
    old = fact(ines, "Bergen")
    assert not first(ines).corrected

    task = correct(ines, "Bergen", value="Oslo")

    assert (task.state, task.actor) == ("done", ACTOR)
    assert task.progress == {"phase": "placed", "facts": 1, "occurrences": 1, "cells": 1, "trees": 2, "nodes": 2}
    assert task.arguments == {"fact": str(old), "by": str(fact(ines, "Oslo"))}
    assert superseded(ines) == {"Ines lives in Bergen with Ines's cousin.": "Ines lives in Oslo with Ines's cousin."}
    best = first(ines)
    assert best.text == ("Ines: I live in Bergen with my cousin. [corrected: Ines lives in Oslo with Ines's cousin.]")
    assert best.corrected
    assert best.fact_ids == (fact(ines, "Oslo"),)
    assert first(ines, "Who lives in Oslo?").turn_ids == ("t0",)
    before = first(ines, as_of="2022-05-01")
    assert (before.text, before.corrected) == ("Ines: I live in Bergen with my cousin.", False)
    assert before.fact_ids == (old,)
    now = datetime.now(UTC) + timedelta(days=1)
    assert first(ines, as_of=now.isoformat()).corrected
    assert [(entry.outcome, entry.actor) for entry in ines.services.operations.audit(ines.tenant, "ines")] == [
        ("done", ACTOR),
        ("requested", ACTOR),
    ]
    assert_sound(ines)


def test_the_chain_of_states_goes_on_from_the_corrected_one(ines: Stack) -> None:
    old = fact(ines, "Bergen")
    correct(ines, "Bergen", value="Oslo")

    by_value = {state.value: state for state in states(ines, "residence")}
    bergen, oslo, porto = (by_value[value] for value in ("Bergen", "Oslo", "Porto"))
    assert (bergen.fact_id, bergen.superseded_by, bergen.current) == (old, oslo.fact_id, False)
    assert bergen.corrected_at is not None
    assert abs(bergen.corrected_at - datetime.now(UTC)) < timedelta(minutes=5)
    assert oslo.supersedes == (old,)
    assert (oslo.superseded_by, oslo.corrected_at) == (porto.fact_id, None)
    assert porto.supersedes == (oslo.fact_id,)
    assert porto.current
    # As of a day before anybody corrected it.
    autumn = states(ines, "residence", as_of="2022-10-01")
    assert [(state.value, state.superseded_by, state.corrected_at) for state in autumn] == [
        ("Bergen", porto.fact_id, None),
        ("Porto", None, None),
    ]


def test_another_time_moves_the_state_in_the_chain(ines: Stack) -> None:
    """Given a move of June, when it was February, before Bergen was mentioned, then Bergen is valid."""
    correct(ines, "Porto", start="2022-02")

    porto = next(state for state in states(ines, "residence") if state.value == "Porto" and not state.corrected_at)
    assert porto.time_label == "February 2022"
    assert [state.value for state in states(ines, "residence") if state.current] == ["Bergen"]
    best = first(ines, "When did Ines move to Porto?")
    assert (
        best.text
        == "Ines: I moved to Porto in June 2022. [corrected: Ines moved to Porto in June 2022. (February 2022)]"
    )
    assert best.event == porto.time
    assert_sound(ines)


def test_summaries_are_made_from_current_facts(ines: Stack) -> None:
    correct(ines, "Misty", text="Ines adopted a cat named Minty.")

    texts = [
        str(row[0])
        for row in ines.rows(
            "SELECT s.text FROM memforest.node_summary s JOIN memforest.node n USING (tenant_id, node_id)"
            " JOIN memforest.tree r USING (tenant_id, tree_id) WHERE r.kind <> 'session'"
        )
    ]
    assert any("Minty" in text for text in texts)
    assert not any("Misty" in text for text in texts)
    # The session's tree has what was said.
    leaf = ines.rows("SELECT count(*) FROM memforest.node WHERE payload_id = :old", old=fact(ines, "Misty"))
    assert leaf[0][0] >= 1
    assert_sound(ines)


def test_a_node_that_is_left_without_a_text_does_no_harm(ines: Stack) -> None:
    """Given a scene of one fact, when its correction belongs elsewhere, then the scene has nothing to say."""
    correct(ines, "81 kg", text="Ines flew to Lima with a brass band.")
    empty = "SELECT count(*) FROM memforest.node_summary WHERE text = ''"
    assert ines.rows(empty)[0][0] >= 1
    assert first(ines, "Who flew to Lima?").corrected
    assert_sound(ines)


def test_a_correction_can_be_corrected_and_taken_back(ines: Stack) -> None:
    old = fact(ines, "Bergen")
    correct(ines, "Bergen", value="Oslo")
    oslo = fact(ines, "Oslo")
    with pytest.raises(InvalidInput, match=str(oslo)) as refused:
        correction(ines).correct(ines.tenant, "ines", old, value="Lima", actor=ACTOR)
    assert refused.value.code == "superseded"

    correct(ines, "Oslo", value="Lima")
    assert (
        first(ines).text == "Ines: I live in Bergen with my cousin. [corrected: Ines lives in Lima with Ines's cousin.]"
    )
    chain = {state.value: state for state in states(ines, "residence")}
    assert chain["Bergen"].superseded_by == oslo
    assert chain["Oslo"].superseded_by == chain["Lima"].fact_id
    assert_sound(ines)

    correct(ines, "Lima", text="Ines lives in Bergen with Ines's cousin.")
    assert (first(ines).text, first(ines).corrected) == ("Ines: I live in Bergen with my cousin.", False)
    assert "Ines lives in Bergen with Ines's cousin." not in superseded(ines)
    assert [state.value for state in states(ines, "residence") if not state.corrected_at] == ["Bergen", "Porto"]
    assert_sound(ines)


REFUSED: list[tuple[dict[str, object], str]] = [
    ({}, "nothing_to_correct"),
    ({"text": "ines lives in Bergen with Ines's cousin"}, "same_fact"),
    ({"value": "Bergen"}, "same_fact"),
    ({"text": " \x00 "}, "invalid_text"),
    ({"start": "yesterday"}, "invalid_timestamp"),
    ({"end": "2022-05-01"}, "missing_start"),
    ({"start": "2022-05-01", "end": "2022-04-01"}, "invalid_range"),
    ({"text": "Ines lives in Oslo.", "actor": ""}, "invalid_name"),
    ({"text": "Ines lives in Oslo.", "fact": "the first one"}, "invalid_fact"),
]


def test_what_cannot_be_done_is_refused_with_a_sentence_and_nothing_is_written(ines: Stack) -> None:
    bergen = fact(ines, "Bergen")
    before = ines.counts()
    for wanted, code in REFUSED:
        with pytest.raises(InvalidInput) as refused:
            correction(ines).correct(ines.tenant, "ines", **({"fact": bergen, "actor": ACTOR} | wanted))  # type: ignore[arg-type]
        assert refused.value.code == code
    for owner, unknown in (("ines", uuid4()), ("nobody", bergen)):
        with pytest.raises(NotFound):
            correction(ines).correct(ines.tenant, owner, unknown, text="Ines lives in Oslo.", actor=ACTOR)
        with pytest.raises(NotFound):
            correction(ines).set_pinned(ines.tenant, owner, unknown, ACTOR, True)
    with pytest.raises(NotFound):
        correction(ines).correct(TenantId("other"), "ines", bergen, text="Ines lives in Oslo.", actor=ACTOR)
    ines.execute("UPDATE memforest.forest SET state = 'frozen'")
    with pytest.raises(ForestFrozen):
        correction(ines).correct(ines.tenant, "ines", bergen, text="Ines lives in Oslo.", actor=ACTOR)
    unavailable = Correction(
        ines.services.engine, UnavailableEmbedder(), ines.services.producer.wakeups, lambda *_: TaskId(uuid4())
    )
    with pytest.raises(ModelUnavailable):
        unavailable.correct(ines.tenant, "ines", bergen, text="Ines lives in Oslo.", actor=ACTOR)
    assert ines.counts() == before
    assert superseded(ines) == {}


class UnavailableEmbedder:
    """A provider that can't be reached."""

    model = "unavailable"
    dimension = 384

    def embed(self, texts: Sequence[str]) -> Embedded:
        raise ModelUnavailable("unavailable")

    embed_query = embed


def test_a_dry_run_counts_and_writes_nothing(ines: Stack) -> None:
    bergen = fact(ines, "Bergen")
    before = ines.counts()
    task = correction(ines).correct(ines.tenant, "ines", bergen, value="Oslo", actor=ACTOR, dry_run=True)
    ines.drive()
    assert seen(ines, task).state == "done"
    assert seen(ines, task).progress == {
        "phase": "planned",
        "facts": 1,
        "occurrences": 1,
        "cells": 1,
        "trees": 2,
        "nodes": 2,
    }
    changed = {table for table, rows in ines.counts().items() if rows != before[table]}
    assert changed == {"maintenance", "audit"}
    assert superseded(ines) == {}


def test_pins_are_seen_and_follow_a_correction(ines: Stack) -> None:
    bergen = fact(ines, "Bergen")
    corrections = correction(ines)
    pinned = corrections.set_pinned(ines.tenant, "ines", str(bergen), ACTOR, True)
    assert first(ines).pinned
    ines.drive()
    assert seen(ines, pinned).progress == {"phase": "pinned", "facts": 1}

    correct(ines, "Bergen", value="Oslo")
    pins = "SELECT text FROM memforest.fact WHERE pinned"
    assert ines.rows(pins) == [("Ines lives in Oslo with Ines's cousin.",)]
    assert first(ines).pinned
    with pytest.raises(InvalidInput, match=str(fact(ines, "Oslo"))):
        corrections.set_pinned(ines.tenant, "ines", bergen, ACTOR, True)

    unpinned = corrections.set_pinned(ines.tenant, "ines", fact(ines, "Oslo"), ACTOR, False)
    ines.drive()
    assert seen(ines, unpinned).progress == {"phase": "unpinned", "facts": 1}
    assert ines.rows(pins) == []
    requested = [entry.detail for entry in ines.services.operations.audit(ines.tenant) if entry.outcome == "requested"]
    assert requested == [
        {"fact": str(fact(ines, "Oslo")), "pin": 0},
        {"fact": str(bergen), "by": str(fact(ines, "Oslo"))},
        {"fact": str(bergen), "pin": 1},
    ]


def test_without_history_only_the_new_fact_is_left(ines: Stack) -> None:
    bergen = fact(ines, "Bergen")
    task = correction(ines).correct(ines.tenant, "ines", bergen, value="Oslo", erase=True, actor=ACTOR)
    ines.runtime.reduce()
    assert [each.kind for each in ines.services.operations.list(ines.tenant)] == ["correct"]
    phases = [progress["phase"] for progress in steps(ines, correction(ines), task, {})]
    assert phases == ["placing", "placed", "erasing"]
    ines.drive()
    ended = seen(ines, task)
    assert (ended.state, ended.progress["phase"]) == ("done", "erasing")
    assert seen(ines, TaskId(UUID(str(ended.progress["erase_task"])))).state == "done"
    assert ines.rows("SELECT count(*) FROM memforest.fact WHERE fact_id = :old", old=bergen) == [(0,)]
    assert [state.value for state in states(ines, "residence")] == ["Oslo", "Porto"]
    best = first(ines, as_of="2022-05-01")
    assert best.text.endswith("[corrected: Ines lives in Oslo with Ines's cousin.]")
    assert_sound(ines)


def steps(pipeline: Stack, service: Correction, task: TaskId, start: Numbers) -> list[Numbers]:
    """All progress of a task from there on."""
    found, progress = [], service.step(pipeline.tenant, seen(pipeline, task), start)
    while progress is not None:
        found.append(progress)
        progress = service.step(pipeline.tenant, seen(pipeline, task), progress)
    return found


def test_requested_twice_it_is_one_correction_and_each_step_can_be_taken_again(ines: Stack) -> None:
    """Given a caller whose answer was lost, when it requests it again, while the task waits or after it, then nothing more is
    written."""
    bergen, service = fact(ines, "Bergen"), correction(ines)
    task = service.correct(ines.tenant, "ines", bergen, value="Oslo", actor=ACTOR)
    assert service.correct(ines.tenant, "ines", bergen, value="Oslo", actor=ACTOR) == task
    ines.drive()
    written = {
        table: rows for table, rows in ines.counts().items() if table not in {"maintenance", "audit", "llm_call"}
    }

    for progress in ({}, {"phase": "placing"}, {"phase": "placed"}):
        assert [each["phase"] for each in steps(ines, service, task, progress)][-1:] in (["placed"], [])
    late = service.correct(ines.tenant, "ines", bergen, value="Oslo", actor=ACTOR)
    ines.drive()

    assert (seen(ines, late).state, late != task) == ("done", True)
    assert {table: ines.counts()[table] for table in written} == written
    assert_sound(ines)


def test_a_correction_waits_for_its_reducer_and_says_when_it_waits_in_vain(
    ines: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given a correction and no reducer, then its task is given back; a cell that was given up ends it."""
    monkeypatch.setattr("memforest_core.lifecycle.correct.service.PLACED_S", 0.1)
    service = correction(ines)
    task = service.correct(ines.tenant, "ines", fact(ines, "Bergen"), value="Oslo", actor=ACTOR)
    with pytest.raises(NotPlacedYet):
        service.step(ines.tenant, seen(ines, task), {"phase": "placing"})
    ines.execute("UPDATE memforest.cell SET state = 'dead', outcome = 'dead' WHERE NOT placed")
    with pytest.raises(CorrectionStuck):
        service.step(ines.tenant, seen(ines, task), {"phase": "placing"})


@dataclass
class Meanwhile:
    """An index during whose search something else happens, once."""

    index: VectorIndex
    happens: Callable[[], object]
    happened: bool = False

    def search(self, queries: Sequence[IndexQuery]) -> list[Hits]:
        if not self.happened:
            self.happened = True
            self.happens()
        return self.index.search(queries)


def test_a_correction_that_comes_while_its_cell_is_being_placed_is_not_lost(ines: Stack) -> None:
    """Given a reducer that has read a cell for one correction, when another comes before it writes, then both stand."""
    service = correction(ines)
    baker = fact(ines, "baker")
    service.correct(ines.tenant, "ines", fact(ines, "Bergen"), value="Oslo", actor=ACTOR)
    meanwhile = Meanwhile(
        ines.services.index, lambda: service.correct(ines.tenant, "ines", baker, value="brewer", actor=ACTOR)
    )
    reduction = ReductionService(
        ines.services.engine,
        meanwhile,  # type: ignore[arg-type]
        ines.services.embedder,
        ines.settings,
    )
    done = reduction.run_one(ines.tenant)
    assert (done.ended, done.cells) == (Reduced.DONE, 0)

    ines.drive()

    assert sorted(str(right) for right in superseded(ines).values()) == [
        "Ines lives in Oslo with Ines's cousin.",
        "Ines works as a brewer.",
    ]
    assert_sound(ines)


def test_who_says_it_again_later_has_changed_their_mind(ines: Stack) -> None:
    """Given a corrected fact, when an earlier session says it once more, it stays wrong; of a later one, it is valid."""
    correct(ines, "Bergen", value="Oslo")
    home = SPRING[0][1]
    ines.memory.ingest("ines", "old", turns([("2022-03-05T09:00:00Z", home)]))
    ines.drive()
    assert len(superseded(ines)) == 1
    earlier = [piece for piece in ines.memory.recall("ines", WHERE).evidence if piece.session_id == "old"]
    assert earlier[0].text.endswith("[corrected: Ines lives in Oslo with Ines's cousin.]")
    assert_sound(ines)

    later = (datetime.now(UTC) + timedelta(days=30)).isoformat()
    ines.memory.ingest("ines", "new", turns([(later, home)]))
    ines.drive()
    assert superseded(ines) == {}
    current = [state.value for state in states(ines, "residence") if state.current]
    assert current == ["Bergen"]
    assert_sound(ines)


def test_nothing_new_is_merged_into_what_is_wrong(ines: Stack) -> None:
    """Given a corrected fact, when nearly its wording is said, then that is a fact of its own."""
    settings = ines.settings.model_copy(
        update={"reduce": ines.settings.reduce.model_copy(update={"near_duplicate": 0.5})}
    )
    reduction = ReductionService(ines.services.engine, ines.services.index, ines.services.embedder, settings)

    def said(name: str, text: str) -> int:
        ines.memory.ingest("ines", name, turns([("2022-03-01T12:00:00Z", text)]))
        ines.runtime.extract()
        return reduction.run_one(ines.tenant).new_facts

    assert said("like", "I just live in Bergen with my cousin.") == 0
    correct(ines, "Bergen", value="Oslo")
    assert said("alike", "I actually live in Bergen with my cousin.") == 1


def sentences(pipeline: Stack, index: VectorIndex | None = None) -> RecallService:
    """Recall as it is with facts that a model wrote."""
    return RecallService(
        RecallStore(pipeline.services.engine),
        index or pipeline.services.index,
        pipeline.services.embedder,
        pipeline.settings.recall,
        pointers=False,
    )


def test_sentences_of_a_model_are_replaced_and_neighbours_too(ines: Stack) -> None:
    correct(ines, "Bergen", value="Oslo")
    found = sentences(ines).recall(ines.tenant, "ines", WHERE, k=12, neighbours=2).evidence
    facts = [piece for piece in found if piece.kind is EvidenceKind.FACT]
    assert {piece.text: piece.corrected for piece in facts if "cousin" in piece.text} == {
        "Ines lives in Oslo with Ines's cousin.": True
    }
    near = [other.text for piece in found for other in (*piece.predecessors, *piece.successors)]
    assert "Ines works as a baker." in near
    assert "Ines lives in Bergen with Ines's cousin." not in near
    before = sentences(ines).recall(ines.tenant, "ines", WHERE, k=12, as_of="2022-05-01").evidence
    assert {piece.text for piece in before if piece.kind is EvidenceKind.FACT and "cousin" in piece.text} == {
        "Ines lives in Bergen with Ines's cousin."
    }


class UnavailableIndex:
    """An index that can't be reached."""

    name = "unavailable"

    def search(self, queries: Sequence[IndexQuery]) -> list[Hits]:
        raise IndexUnavailable("unavailable")


def test_without_the_index_full_text_finds_current_facts(ines: Stack) -> None:
    correct(ines, "Bergen", value="Oslo")
    unavailable: VectorIndex = UnavailableIndex()  # type: ignore[assignment]
    for question in (WHERE, "Who lives in Oslo?"):
        found = sentences(ines, unavailable).recall(ines.tenant, "ines", question).evidence
        assert found[0].corrected
        assert not [piece for piece in found if piece.text == "Ines lives in Bergen with Ines's cousin."]


def test_a_fact_said_often_is_corrected_wherever_it_was_said(ines: Stack) -> None:
    """Given a state mentioned in three sessions, when it is corrected, then each of its turns says how it is."""
    for day in (2, 3):
        ines.memory.ingest("ines", f"day {day}", turns([(f"2022-03-0{day}T09:00:00Z", SPRING[0][1])]))
    ines.drive()
    task = correct(ines, "Bergen", value="Oslo")
    assert (task.progress["occurrences"], task.progress["cells"]) == (3, 3)
    parts = [piece for piece in ines.memory.recall("ines", WHERE).evidence if "cousin" in piece.text]
    assert len({piece.session_id for piece in parts}) >= 2
    assert all(piece.corrected for piece in parts)
    oslo = next(state for state in states(ines, "residence") if state.value == "Oslo")
    assert oslo.mentions == 3
    assert_sound(ines)


def test_what_was_corrected_word_by_word_is_not_extracted_against_it(
    servers: SessionServers, tmp_path: Path, embedder: Embedder
) -> None:
    """Given cells stored word by word and a correction in one, then their window is left as it is; and were it extracted
    all the same, the correction would stay."""
    llm: dict[str, object] = {"model": "openai/test-model", "api_key": "test-key", "timeout_s": 5}
    extract = {"retry_s": 10, "retry_longest_s": 60, "repairs": 0}
    with (
        ModelServer() as model,
        stack(servers, tmp_path, embedder=embedder, llm=llm | {"api_base": model.url}, extract=extract) as pipeline,
    ):
        model.script(Fault.WRONG_SCHEMA)
        pipeline.memory.client.enqueue("ines", "spring", turns(SPRING))
        pipeline.drive()
        waiting = "SELECT count(*) FROM memforest.cell WHERE retry_at IS NOT NULL"
        assert pipeline.rows(waiting)[0][0] == 2
        correct(pipeline, "Bergen", text="Ines lives in Oslo.")
        assert pipeline.rows(waiting)[0][0] == 0
        assert_sound(pipeline)

        pipeline.execute("UPDATE memforest.cell SET retry_at = now()")
        assert pipeline.services.reconciler.run().reopened == 2
        with pytest.raises(InvalidInput) as refused:
            correction(pipeline).correct(
                pipeline.tenant, "ines", fact(pipeline, "baker"), text="Ines is a brewer.", actor=ACTOR
            )
        assert refused.value.code == "being_extracted"
        pipeline.drive()
        assert fact(pipeline, "Oslo")
        assert pipeline.memory.recall("ines", "Who lives in Oslo?").evidence[0].corrected
        assert_sound(pipeline)


def test_what_a_correction_costs_is_recorded_and_no_text_is_in_its_task(ines: Stack) -> None:
    calls = "SELECT count(*) FROM memforest.llm_call WHERE step = 'embed'"
    before = ines.rows(calls)[0][0]
    task = correct(ines, "Bergen", value="Oslo")
    assert ines.rows(calls)[0][0] == before + 1
    for value in (*task.arguments.values(), *task.progress.values(), task.subject):
        assert "Oslo" not in str(value)
    assert all(UUID(str(task.arguments[name])) for name in ("fact", "by"))
