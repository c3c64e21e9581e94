"""The window of a session on the real stack: what it shows, what it compacts, and what it never shows second."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from memforest_core import ForestFrozen, InvalidInput, NotFound
from memforest_core.assistant.condensing import Condenser
from memforest_core.assistant.conversation_window.records import SessionWindow
from memforest_core.assistant.conversation_window.service import WindowService
from memforest_core.models.calls import Embedder
from memforest_core.settings import WindowSettings
from tests.harness.model_answers import last_user_text
from tests.harness.model_faults import Fault
from tests.harness.model_server import ModelServer
from tests.harness.searching import in_tables
from tests.harness.servers import SessionServers
from tests.harness.stack import Stack, stack

START = 1_700_000_000
PAD = "and then the four of us walked along the river until the lamps were lit and the ferries had stopped"


def line(number: int, word: str = "stop") -> str:
    """About 130 characters: eight of them do not fit a summary."""
    return f"At {word} number {number} we bought {number + 3} tickets, {PAD}."


def tell(running: Stack, first: int, last: int, session: str = "trip", **words: str) -> None:
    """Append the turns from ``first`` to before ``last``; their ids are t0, t1, ..."""
    for number in range(first, last):
        turn = {
            "id": f"t{number}",
            "role": "user" if number % 2 == 0 else "assistant",
            "name": "Bob" if number % 2 == 0 else "Guide",
            "content": line(number, words.get(f"t{number}", "stop")),
            "timestamp": START + 60 * number,
        }
        running.memory.append("bob", session, turn)


def shown(window: SessionWindow) -> list[tuple[str, int, int]]:
    return [(part.kind.value, part.first, part.last) for part in window.parts]


def stored(running: Stack) -> list[tuple[int, str, str]]:
    rows = running.rows("SELECT turns, text, source FROM memforest.session_window ORDER BY turns")
    return [(row.turns, row.text, row.source) for row in rows]


class Summaries:
    """A model that numbers its summaries, and records the documents that it was shown."""

    def __init__(self) -> None:
        self.documents: list[dict[str, Any]] = []

    def __call__(self, body: Mapping[str, Any]) -> str:
        text = last_user_text(body)
        if '"so_far"' not in text:
            return text[:200] if not text.startswith("That answer") else json.dumps({"summary": "Mended. " + PAD * 9})
        self.documents.append(json.loads(text))
        return json.dumps({"summary": f"Summary {len(self.documents)}: {PAD * 7}"})


@pytest.fixture
def model() -> Summaries:
    return Summaries()


@pytest.fixture
def server(model: Summaries) -> Iterator[ModelServer]:
    with ModelServer(answer=model) as running:
        yield running


@pytest.fixture
def seeded(servers: SessionServers, tmp_path: Path, embedder: Embedder, server: ModelServer) -> Iterator[Stack]:
    """A stack whose summaries are written by a model of its own, over HTTP: an earlier server at the same port may have
    left the model paused in Redis."""
    model = f"openai/model-{uuid4().hex[:8]}"
    llm = {"summarize": {"model": model, "api_base": server.url, "api_key": "key-1", "timeout_s": 30.0}}
    with stack(servers, tmp_path, embedder=embedder, llm=llm) as running:
        yield running


# What it shows


def test_turns_stay_word_for_word_until_twelve_have_gathered(pipeline: Stack) -> None:
    """Given no worker and no model, when turns come one by one, then eleven are shown as they are, and of twelve the
    first eight become one summary that says how it was made."""
    tell(pipeline, 0, 11)
    early = pipeline.memory.window("bob", "trip")
    assert shown(early) == [("turn", at, at) for at in range(11)]
    assert [part.text for part in early.parts][:2] == [f"Bob: {line(0)}", f"Guide: {line(1)}"]
    assert (early.compacted, early.turns, early.calls, early.degraded) == (0, 11, 0, ())
    assert stored(pipeline) == []

    tell(pipeline, 11, 12)
    window = pipeline.memory.window("bob", "trip")
    assert shown(window) == [("summary", 0, 7), *(("turn", at, at) for at in range(8, 12))]
    summary, *turns = window.parts
    assert (summary.source, summary.turn_ids, summary.turns) == ("extractive", ("t0", "t7"), 8)
    assert len(summary.text) <= pipeline.settings.window.summary_chars
    assert (turns[0].turn_ids, turns[0].role, turns[0].speaker) == (("t8",), "user", "Bob")
    assert window.compacted == 8
    assert window.tokens == sum(part.tokens for part in window.parts) <= window.max_tokens
    assert pipeline.memory.window("bob", "trip") == window
    assert [(turns, source) for turns, _, source in stored(pipeline)] == [(8, "extractive")]


def test_a_summary_grows_by_what_is_new(seeded: Stack, model: Summaries) -> None:
    """Given a model, when eight more turns have gathered, then one call gets the summary so far and those eight."""
    tell(seeded, 0, 12)
    first = seeded.memory.window("bob", "trip")
    tell(seeded, 12, 19)
    assert seeded.memory.window("bob", "trip").calls == 0
    tell(seeded, 19, 20)
    second = seeded.memory.window("bob", "trip")

    assert [document["so_far"] for document in model.documents] == ["", first.parts[0].text]
    assert model.documents[0]["then"] == [f"{'Guide' if at % 2 else 'Bob'}: {line(at)}" for at in range(8)]
    assert model.documents[1]["then"] == [f"{'Guide' if at % 2 else 'Bob'}: {line(at)}" for at in range(8, 16)]
    assert (first.calls, second.calls) == (1, 1)
    assert shown(second) == [("summary", 0, 15), *(("turn", at, at) for at in range(16, 20))]
    assert second.parts[0].text.startswith("Summary 2:")
    assert second.parts[0].source == "model"
    assert [
        (row.step, row.outcome, row.session_id is not None)
        for row in seeded.rows("SELECT step, outcome, session_id FROM memforest.llm_call WHERE step = 'summarize'")
    ] == [("summarize", "ok", True)] * 2


def test_summaries_of_the_tree_are_used_where_they_are_clean(seeded: Stack, model: Summaries) -> None:
    """Given workers that keep up, then older turns are the tree's summaries, nothing is compacted and no model called."""
    tell(seeded, 0, 20)
    seeded.memory.session_close("bob", "trip")
    seeded.drive()
    window = seeded.memory.window("bob", "trip", max_tokens=4_000)
    summaries = [part for part in window.parts if part.kind == "summary"]
    assert summaries
    assert all(part.node_id is not None for part in summaries)
    covered = {at for part in window.parts for at in range(part.first, part.last + 1)}
    assert covered == set(range(20))
    assert [part.first for part in window.parts][-4:] == [16, 17, 18, 19]
    assert len({at for part in summaries for at in range(part.first, part.last + 1)} & set(range(16, 20))) == 0
    nodes = {row.node_id: row.text for row in seeded.rows("SELECT node_id, text FROM memforest.node_summary")}
    assert [nodes[part.node_id] for part in summaries] == [part.text for part in summaries]
    assert (window.calls, stored(seeded), model.documents) == (0, [], [])


def test_a_dirty_node_is_not_used(seeded: Stack) -> None:
    tell(seeded, 0, 11)
    seeded.memory.session_close("bob", "trip")
    seeded.drive()
    assert any(part.kind == "summary" for part in seeded.memory.window("bob", "trip").parts)
    seeded.execute("UPDATE memforest.node SET version = version + 1 WHERE level > 0")
    assert shown(seeded.memory.window("bob", "trip")) == [("turn", at, at) for at in range(11)]


def test_what_does_not_fit_is_compacted_once_and_left_out_by_name(seeded: Stack, model: Summaries) -> None:
    """Given summaries of the tree that are more than the budget, then they become one; what still does not fit is
    named, and no further call is made for it."""
    tell(seeded, 0, 40)
    seeded.memory.session_close("bob", "trip")
    seeded.drive()
    whole = seeded.memory.window("bob", "trip").tokens
    settings = WindowSettings(summary_chars=100)
    short = WindowService(seeded.services.engine, settings, Condenser(lambda: seeded.services.chat, 100))
    window = short.window(seeded.tenant, "bob", "trip", max_tokens=whole - 1)
    assert window.calls == 1
    assert shown(window) == [("summary", 0, 35), *(("turn", at, at) for at in range(36, 40))]
    assert window.tokens < whole
    tight = short.window(seeded.tenant, "bob", "trip", max_tokens=40)
    assert shown(tight) == [("turn", 39, 39)]
    assert {(each.kind.value, each.reason.value) for each in tight.left_out} == {
        ("turn", "budget"),
        ("summary", "budget"),
    }
    cut = short.window(seeded.tenant, "bob", "trip", max_tokens=10)
    assert cut.parts[0].cut
    assert cut.tokens <= 10
    assert len(model.documents) == 1


def test_latest_is_the_running_session_or_the_last_one(pipeline: Stack) -> None:
    tell(pipeline, 0, 2, "first")
    tell(pipeline, 0, 2, "second")
    assert pipeline.memory.window("bob").session_id == "second"
    pipeline.memory.session_switch("bob", "first")
    assert pipeline.memory.window("bob", "LATEST").session_id == "first"
    assert pipeline.memory.session_start("bob", "third").turns == 0
    empty = pipeline.memory.window("bob")
    assert (empty.session_id, empty.parts, empty.turns) == ("third", (), 0)


def test_unknown_names_and_wrong_values_are_distinguished(pipeline: Stack) -> None:
    assert not pipeline.memory.window("eve").owner_known
    tell(pipeline, 0, 2)
    with pytest.raises(NotFound, match="no session"):
        pipeline.memory.window("bob", "other")
    for options in ({"max_tokens": 0}, {"last_turns": 0}, {"last_turns": True}):
        with pytest.raises(InvalidInput, match="whole number"):
            pipeline.memory.window("bob", "trip", **options)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="items"):
        pipeline.memory.window_put("bob", "trip", [7])  # type: ignore[list-item]
    with pytest.raises(InvalidInput, match="items"):
        pipeline.memory.window_put("bob", "trip", ["no-id"])


def test_a_window_that_is_switched_off_is_empty_and_stores_nothing(
    servers: SessionServers, tmp_path: Path, embedder: Embedder
) -> None:
    with stack(servers, tmp_path, embedder=embedder, window={"enabled": False}) as running:
        tell(running, 0, 14)
        window = running.memory.window("bob", "trip")
        assert (window.enabled, window.parts) == (False, ())
        assert not running.memory.window_put("bob", "trip", [("trip", "t0")]).enabled
        assert stored(running) == []
        assert running.rows("SELECT 1 FROM memforest.window_item") == []


# The model fails


@pytest.mark.parametrize("fault", [Fault.RATE_LIMIT, Fault.DISCONNECT, Fault.CONTEXT_LENGTH])
def test_a_model_that_fails_degrades_and_is_called_by_the_next_window(
    seeded: Stack, server: ModelServer, fault: Fault
) -> None:
    """Given an unavailable model, then rules pick the summary, the window says so and nothing is stored; the next window
    calls the model."""
    tell(seeded, 0, 12)
    server.script(fault)
    window = seeded.memory.window("bob", "trip")
    assert shown(window) == [("summary", 0, 7), *(("turn", at, at) for at in range(8, 12))]
    assert window.parts[0].source == "degraded"
    assert [note.startswith("The summary of older turns was picked by rules: ") for note in window.degraded] == [True]
    assert stored(seeded) == []
    if fault not in (Fault.RATE_LIMIT, Fault.UNAUTHORIZED):  # these pause everybody for a while
        second = seeded.memory.window("bob", "trip")
        assert (second.parts[0].source, second.degraded) == ("model", ())


# Two at once, concurrent deletions, kills


def test_two_windows_at_once_compact_once(seeded: Stack, server: ModelServer) -> None:
    """Given two callers whose model answers differently, when both compact, then both show the text of the one that
    was stored first."""
    tell(seeded, 0, 12)
    server.latency_s = 0.5
    barrier = threading.Barrier(2)

    def read() -> SessionWindow:
        barrier.wait()
        return seeded.memory.window("bob", "trip")

    with ThreadPoolExecutor(2) as threads:
        one, other = [each.result() for each in [threads.submit(read), threads.submit(read)]]
    assert one.calls + other.calls == 2
    assert one.parts == other.parts
    assert [text for _, text, _ in stored(seeded)] == [one.parts[0].text]


def test_a_deletion_concurrent_with_a_compaction_leaves_no_word(
    seeded: Stack, server: ModelServer, model: Summaries
) -> None:
    """Given a model that is still writing, when a turn that it reads is deleted, then its text is not stored and the
    window is made of what is left."""
    deletions: list[Any] = []

    def answer(body: Mapping[str, Any]) -> str:
        made = model(body)
        if deletions:
            return made
        deletions.append(seeded.memory.lifecycle.forget("bob", session="trip", turns=["t3"], actor="test"))
        while not deletions[0].state().finished:
            seeded.runtime.maintain()
        return made.replace("Summary", "Summary zanzibarium")

    server.answer = answer
    tell(seeded, 0, 12, t3="zanzibarium")
    window = seeded.memory.window("bob", "trip")
    assert "zanzibarium" in json.dumps(model.documents[0])
    assert "zanzibarium" not in json.dumps(model.documents[1:])
    assert "zanzibarium" not in window.text
    assert in_tables(seeded, ["zanzibarium"]) == {}
    assert seeded.memory.lifecycle.receipt(deletions[0].id).clean


def test_deleting_a_turn_drops_the_summary_that_covers_it(pipeline: Stack) -> None:
    """Given stored summaries and items of two sessions, when a turn is deleted, then its session's summary is rebuilt
    from what is left and the other one stays; when the session and the owner go, nothing is left."""
    tell(pipeline, 0, 12, t2="quixotelia", t9="bromeliadix")
    tell(pipeline, 0, 12, "other")
    for session in ("trip", "other"):
        pipeline.memory.window("bob", session)
    pipeline.memory.window_put("bob", "other", [("trip", "t2"), ("trip", "t9"), ("trip", "t4")])
    assert "session_window.text" in in_tables(pipeline, ["quixotelia"])["quixotelia"]
    before = dict(
        pipeline.rows(
            "SELECT external_id, text FROM memforest.session_window JOIN memforest.session USING (session_id)"
        )
    )  # type: ignore[arg-type]

    deletion = pipeline.memory.lifecycle.forget("bob", session="trip", turns=["t2"], actor="test")
    pipeline.drive()
    assert in_tables(pipeline, ["quixotelia"]) == {}
    assert pipeline.memory.lifecycle.receipt(deletion.id).clean
    assert [text for _, text, _ in stored(pipeline)] == [before["other"]]
    assert len(pipeline.rows("SELECT 1 FROM memforest.window_item")) == 2
    window = pipeline.memory.window("bob", "trip")
    assert "quixotelia" not in window.text
    assert "bromeliadix" in window.text

    pipeline.memory.lifecycle.forget("bob", session="trip", actor="test")
    pipeline.drive()
    assert in_tables(pipeline, ["bromeliadix"]) == {}
    assert pipeline.rows("SELECT 1 FROM memforest.window_item") == []
    pipeline.memory.session_start("bob", "quibbertus")
    deletion = pipeline.memory.lifecycle.forget("bob", everything=True, actor="test")
    pipeline.drive()
    assert pipeline.memory.lifecycle.receipt(deletion.id).clean
    assert in_tables(pipeline, ["quibbertus", "ferries"]) == {}


KILLED = """
import os, sys, json
from memforest_core.settings import Settings
from memforest_core.models.model_opening import open_chat
from memforest_core.settings import WindowSettings
from memforest_core.store.engine import open_engine
from memforest_core.assistant import checked_calls
from memforest_core.assistant.condensing import Condenser
from memforest_core.assistant.conversation_window.rows import WindowRows
from memforest_core.assistant.conversation_window.service import WindowService
from memforest_core.domain.ids import TenantId

settings, where = Settings(), sys.argv[1]
place = checked_calls if where == "record_calls" else WindowRows
own = getattr(place, where)

def dying(rows, *arguments, **named):
    own(rows, *arguments, **named)
    os._exit(9)

setattr(place, where, dying)
service = WindowService(
    open_engine(settings.database), settings.window,
    Condenser(lambda: open_chat(settings.llm), settings.window.summary_chars),
)
service.window(TenantId(settings.tenant), "bob", "trip")
"""


@pytest.mark.parametrize("where", ["record_calls", "store"])
def test_a_process_that_dies_between_answer_and_commit_leaves_nothing_behind(
    seeded: Stack, model: Summaries, where: str
) -> None:
    """Given a process that gets the model's answer and dies before it is committed, then nothing is stored or locked, and
    the next window compacts."""
    tell(seeded, 0, 12)
    step = seeded.settings.llm.summarize
    assert step.api_key is not None
    variables = {
        "MEMFOREST_DATABASE__URL": seeded.settings.database.url.get_secret_value(),
        "MEMFOREST_LLM__SUMMARIZE__MODEL": str(step.model),
        "MEMFOREST_LLM__SUMMARIZE__API_BASE": str(step.api_base),
        "MEMFOREST_LLM__SUMMARIZE__API_KEY": step.api_key.get_secret_value(),
    }
    ended = subprocess.run([sys.executable, "-c", KILLED, where], env=os.environ | variables, check=False, timeout=120)
    assert ended.returncode == 9
    assert len(model.documents) == 1
    assert stored(seeded) == []
    window = seeded.memory.window("bob", "trip")
    assert (window.parts[0].source, window.parts[0].text[:10], window.degraded) == ("model", "Summary 2:", ())


def test_what_rules_picked_is_made_again_once_there_is_a_model(seeded: Stack, model: Summaries) -> None:
    tell(seeded, 0, 12)
    offline = WindowService(seeded.services.engine, seeded.settings.window, Condenser(None, 800))
    assert offline.window(seeded.tenant, "bob", "trip").parts[0].source == "extractive"
    tell(seeded, 12, 20)
    window = seeded.memory.window("bob", "trip")
    assert (window.parts[0].source, window.compacted) == ("model", 16)
    assert model.documents[0]["so_far"] == ""
    assert len(model.documents[0]["then"]) == 16


def test_many_last_turns_are_not_compacted_one_by_one(seeded: Stack) -> None:
    """Given more last turns than are compacted at once, then as many are compacted at once as stay word for word."""
    tell(seeded, 0, 19)
    assert seeded.memory.window("bob", "trip", last_turns=10).compacted == 0
    tell(seeded, 19, 20)
    assert seeded.memory.window("bob", "trip", last_turns=10).compacted == 10


def test_a_forest_that_is_being_merged_is_read_and_not_changed(pipeline: Stack) -> None:
    tell(pipeline, 0, 14)
    pipeline.execute("UPDATE memforest.forest SET state = 'frozen'")
    assert shown(pipeline.memory.window("bob", "trip")) == [("turn", at, at) for at in range(14)]
    with pytest.raises(ForestFrozen):
        pipeline.memory.window_put("bob", "trip", [("trip", "t0")])
    with pytest.raises(ForestFrozen):
        pipeline.memory.session_start("bob")
    assert stored(pipeline) == []


# Items


def test_items_are_references_that_go_with_what_they_name(pipeline: Stack) -> None:
    """Given evidence in a window, then it has ids and no words; what is forgotten falls out, what the window shows
    anyway is not shown twice, and what was corrected is left out."""
    pipeline.memory.enqueue(
        "bob",
        "old",
        [
            {"id": "o1", "role": "user", "name": "Bob", "content": "I adopted a dog named Wumpel.", "timestamp": START},
            {"id": "o2", "role": "user", "name": "Bob", "content": "I live in Davis.", "timestamp": START + 60},
        ],
    )
    tell(pipeline, 0, 6)
    pipeline.drive()
    evidence = pipeline.memory.recall("bob", "What is the dog of Bob called?", sessions=["old"]).evidence
    facts = pipeline.memory.facts("bob", session_id="old").items
    dog, davis = (next(fact for fact in facts if word in fact.text) for word in ("Wumpel", "Davis"))

    held = pipeline.memory.window_put("bob", "trip", [*evidence[:1], dog.id, str(davis.id), ("trip", "t5"), uuid4()])
    assert (held.held, held.added, held.unknown) == (4, 4, 1)
    assert "window_item" not in {place.partition(".")[0] for place in in_tables(pipeline, ["Wumpel"])["Wumpel"]}
    window = pipeline.memory.window("bob", "trip")
    items = [part for part in window.parts if part.kind == "item"]
    assert [(part.fact_id, part.turn_ids, part.session_id) for part in items] == [
        (None, evidence[0].turn_ids, "old"),
        (dog.id, ("o1",), "old"),
        (davis.id, ("o2",), "old"),
    ]
    assert [(each.reason.value, each.turn_ids) for each in window.left_out] == [("repeated", ("t5",))]
    assert shown(window)[3:] == [("turn", at, at) for at in range(6)]

    pipeline.memory.lifecycle.correct("bob", davis.id, text="Bob lives in Boston.", actor="test")
    pipeline.drive()
    corrected = pipeline.memory.window("bob", "trip")
    assert [each.fact_id for each in corrected.left_out if each.reason == "superseded"] == [davis.id]
    pipeline.memory.lifecycle.forget("bob", session="old", turns=["o1"], actor="test")
    pipeline.drive()
    left = pipeline.memory.window("bob", "trip")
    assert "Wumpel" not in left.text
    assert [part.fact_id for part in left.parts if part.kind == "item"] == []


@pytest.mark.parametrize("eviction, retained", [("LRU", ["t0", "t3", "t2"]), ("FIFO", ["t3", "t2", "t1"])])
def test_items_fall_out_by_the_setting(
    servers: SessionServers, tmp_path: Path, embedder: Embedder, eviction: str, retained: list[str]
) -> None:
    """Given room for three, when a fourth comes after the first one was found once more, then LRU retains that, FIFO not."""
    window = {"items": 3, "eviction": eviction}
    with stack(servers, tmp_path, embedder=embedder, window=window) as running:
        tell(running, 0, 4, "old")
        tell(running, 0, 2)
        for turn in ("t0", "t1", "t2"):
            running.memory.window_put("bob", "trip", [("old", turn)])
        held = running.memory.window_put("bob", "trip", [("old", "t0"), ("old", "t3")])
        assert (held.held, held.added, held.fallen) == (3, 1, 1)
        shown_now = running.memory.window("bob", "trip")
        assert [part.turn_ids[0] for part in shown_now.parts if part.kind == "item"] == retained
        assert running.memory.window_put("bob", "trip", [("old", f"t{n}") for n in range(4)]).held == 3


# Copies, and the faces


def test_a_merge_retains_the_target_s_windows_and_drops_the_source_s(pipeline: Stack) -> None:
    tell(pipeline, 0, 12)
    for number in range(12):
        pipeline.memory.append("ann", "talk", {"id": f"a{number}", "role": "user", "content": line(number, "pier")})
    pipeline.drive()
    pipeline.memory.window_put("ann", "talk", [("talk", "a1")])
    pipeline.memory.window_put("bob", "trip", [("trip", "t1")])
    pipeline.memory.session_start("ann")
    before = pipeline.memory.window("bob", "trip")
    pipeline.memory.lifecycle.merge(["ann"], into="bob", actor="test")
    pipeline.drive(200)
    assert pipeline.memory.window("bob", "trip").parts == before.parts
    moved = pipeline.memory.window("bob", "talk")
    assert moved.turns == 12
    assert [part for part in moved.parts if part.kind == "item"] == []
    assert len(pipeline.rows("SELECT 1 FROM memforest.window_item")) == 1
    assert pipeline.rows("SELECT 1 FROM memforest.running_session") == []
