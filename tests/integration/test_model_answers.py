"""Answers as chat models write them, over HTTP: the facts that can be read are stored, in one call where most can be."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from memforest_core.models.calls import Embedder
from tests.harness.model_answers import default_answer, last_user_text, wants_extraction
from tests.harness.model_server import ModelServer
from tests.harness.sayings import said
from tests.harness.servers import SessionServers
from tests.harness.stack import Stack, stack

TURNS = ("I moved to Bergen.", "My cat is called Pip.", "I am a nurse at Haukeland.", "I bought 3 red kayaks.")
MOVED: dict[str, Any] = {
    "text": "Kim moved to Bergen.",
    "turns": [1],
    "quote": "I moved to Bergen",
    "attribute": "residence",
    "value": "Bergen",
    "change": "switch",
}
CAT: dict[str, Any] = {"text": "Kim has a cat named Pip.", "turns": [2], "attribute": "pet", "value": "cat"}
NURSE: dict[str, Any] = {"text": "Kim is a nurse at Haukeland.", "turns": [3], "attribute": "job", "value": "nurse"}
KAYAKS: dict[str, Any] = {"text": "Kim bought 3 red kayaks.", "turns": [4]}
ALL = (MOVED, CAT, NURSE, KAYAKS)
Message = str | Mapping[str, Any]


def of(*items: Any, **more: Any) -> str:
    return json.dumps({"items": items, "summaries": [], **more})


def changed(**fields: Any) -> str:
    """The answer with other fields in each of its items."""
    return of(*({**item, **fields} for item in ALL))


GOOD = of(*ALL)
READ_AT_ONCE: dict[str, Message] = {
    "nulls": changed(quote=None, value=None, subject=None, entities=None, scene=None, when=None, previous_value=None),
    "some turns that are not there": of(*({**item, "turns": [*item["turns"], 99]} for item in ALL)),
    "thoughts": f"<think>Turn [1] says {{moved}}.</think>{GOOD}",
    "a tool call": {
        "tool_calls": [{"id": "1", "type": "function", "function": {"name": "extraction", "arguments": GOOD}}]
    },
    "a function call": {"function_call": {"name": "extraction", "arguments": GOOD}},
    "reasoning": {"content": "", "reasoning_content": f"They moved. {GOOD}"},
    "parts": {"content": [{"type": "text", "text": GOOD[:90]}, {"type": "text", "text": GOOD[90:]}]},
    "parts with a thought": {"content": [{"type": "thinking", "text": "Hm."}, {"type": "text", "text": GOOD}]},
}
PARTLY: dict[str, tuple[str, int, int, str]] = {
    # answer, facts, calls, why not all
    "one without a text": (of(*ALL, {"turns": [1], "value": "Bergen"}), 4, 1, "1 item had no text"),
    "one of no turn": (of(*ALL[:3], {**KAYAKS, "turns": [9]}), 3, 1, "1 item named no turn to extract from"),
    "one that is a loop": (of(*ALL[:3], {**KAYAKS, "text": KAYAKS["text"] * 60}), 3, 1, "1 item repeated its text"),
    "one of another call": (of(*ALL, {"text": "Zoe sold a Quibovix yacht.", "turns": [1]}), 4, 1, "1 item had nothing"),
    "a cut within an item": (GOOD[: GOOD.index("nurse at") + 5], 2, 3, "the answer was cut after 2 items"),
    "a cut between items": (GOOD[: GOOD.index(', {"text": "Kim is')], 2, 3, "the answer was cut after 2 items"),
    "most without a text": (of(MOVED, {"turns": [2]}, {"turns": [3]}), 1, 2, "2 items had no text"),
}
NOTHING: dict[str, tuple[Message, str]] = {
    "prose": ("I could not find anything in turn [1], {sorry}.", "has none of the fields items"),
    "no text anywhere": (of(*({**item, "text": None} for item in ALL)), "4 items had no text"),
    "a cut in the first item": (GOOD[:30], "cut before its first item ended"),
    "loops": (of({**MOVED, "text": "Kim moved to Bergen. " * 60}), "1 item repeated its text"),
    "an empty text": ({"content": ""}, "has no JSON object"),
    "another schema": ('{"verdict": "fine", "note": [1, 2, 3]}', "has none of the fields items"),
}


class Answered:
    """A stack whose model gives each owner's windows one message."""

    def __init__(self, pipeline: Stack, model: ModelServer) -> None:
        self.pipeline = pipeline
        self.model = model

    def ingest(self, owner: str, message: Message) -> int:
        """Extract one session of the owner; the number of calls."""
        first = len(self.model.requests)

        def answer(body: Mapping[str, Any]) -> Message:
            return message if wants_extraction(body) else last_user_text(body)[:200]

        self.model.answer = answer
        self.pipeline.memory.client.enqueue(owner, "s1", said(*TURNS, name="Kim"))
        self.pipeline.drive()
        return len([call for call in self.model.requests[first:] if wants_extraction(call.body)])

    def facts(self, owner: str) -> list[str]:
        return sorted(fact.text.replace("\n", " ") for fact in self.pipeline.memory.facts(owner).items)


@pytest.fixture(scope="module")
def answered(
    servers: SessionServers, tmp_path_factory: pytest.TempPathFactory, embedder: Embedder
) -> Iterator[Answered]:
    with ModelServer() as model:
        llm = {"model": "openai/test-model", "api_base": model.url, "api_key": "test-key"}
        place = tmp_path_factory.mktemp("answered")
        with stack(servers, place, embedder=embedder, llm=llm, accept={"window_turns": 8}) as pipeline:
            yield Answered(pipeline, model)


@pytest.mark.parametrize("name", READ_AT_ONCE)
def test_an_answer_that_can_be_read_gives_its_facts_in_one_call(answered: Answered, name: str) -> None:
    calls = answered.ingest(name, READ_AT_ONCE[name])

    facts = answered.facts(name)
    assert len(facts) == 4 and "Bergen" in " ".join(facts) and "kayaks" in " ".join(facts)
    assert calls == 1
    progress = answered.pipeline.memory.status(name, "s1")
    assert (progress.ok, progress.verbatim, progress.last_error) == (progress.cells, 0, None)


@pytest.mark.parametrize("name", PARTLY)
def test_what_can_be_read_of_an_answer_is_stored_and_what_cannot_is_named(answered: Answered, name: str) -> None:
    message, facts, calls, why = PARTLY[name]

    assert answered.ingest(name, message) == calls
    assert len(answered.facts(name)) == facts
    progress = answered.pipeline.memory.status(name, "s1")
    assert (progress.repaired, progress.verbatim) == (progress.cells, 0)
    assert progress.last_error is not None and progress.last_error.code == "items_left_out"
    assert why in progress.last_error.message
    assert not any(word in progress.last_error.message for word in ("Kim", "Bergen", "Quibovix"))


@pytest.mark.parametrize("name", NOTHING)
def test_of_an_answer_without_a_fact_the_turns_stay_word_by_word_after_two_calls(answered: Answered, name: str) -> None:
    message, why = NOTHING[name]

    assert answered.ingest(name, message) == 2
    assert len(answered.facts(name)) == len(TURNS)
    progress = answered.pipeline.memory.status(name, "s1")
    assert progress.verbatim == progress.cells
    assert progress.last_error is not None and progress.last_error.code == "content_fault"
    assert why in progress.last_error.message
    assert answered.pipeline.memory.dead.list() == []


def test_a_long_conversation_of_unreadable_answers_costs_two_calls_a_window(answered: Answered) -> None:
    """Given sixteen turns in two windows, when no item has a text, then no cell has calls of its own."""
    owner = "sixteen turns"
    answered.ingest(owner, "No.")
    first = len(answered.model.requests)
    turns = [f"{text} Number {number}." for number in range(4) for text in TURNS]
    answered.pipeline.memory.client.enqueue(owner, "s2", said(*turns, name="Kim"))
    answered.pipeline.drive()

    calls = [call for call in answered.model.requests[first:] if wants_extraction(call.body)]
    assert len(calls) == 4
    assert answered.pipeline.memory.status(owner, "s2").verbatim == 8


# A model server that returns the answer of another call: none of it becomes a fact


def llm(model: ModelServer) -> dict[str, object]:
    return {"model": "openai/test-model", "api_base": model.url, "api_key": "test-key"}


def test_a_call_that_gets_the_previous_calls_answer_is_repeated_and_none_of_it_is_stored(
    servers: SessionServers, tmp_path: Path, embedder: Embedder
) -> None:
    before: list[str] = []

    def previous(body: Mapping[str, Any]) -> str:
        own = default_answer(body)
        if not wants_extraction(body):
            return own
        before.append(own)
        return before[-2] if len(before) > 1 else own

    with ModelServer() as model, stack(servers, tmp_path, embedder=embedder, llm=llm(model)) as pipeline:
        model.answer = previous
        pipeline.memory.ingest("ann", "s1", said("I bought 3 red kayaks.", "I work at a bakery.", name="Ann"))
        pipeline.drive()
        pipeline.memory.ingest("bob", "s1", said("I live in Oslo.", "My sister Lena plays the harp.", name="Bob"))
        pipeline.drive()

        facts = " ".join(fact.text for fact in pipeline.memory.facts("bob").items)
        progress = pipeline.memory.status("bob", "s1")
    assert "Oslo" in facts and "kayak" not in facts and "bakery" not in facts
    assert progress.repaired == progress.cells and progress.verbatim == 0


def test_one_foreign_item_is_left_out_and_counted_in_the_cells_outcome(
    servers: SessionServers, tmp_path: Path, embedder: Embedder
) -> None:
    def more(body: Mapping[str, Any]) -> str:
        if not wants_extraction(body):
            return default_answer(body)
        answer = json.loads(default_answer(body))
        return json.dumps({**answer, "items": [*answer["items"], {"text": "Zoe sold a Quibovix yacht.", "turns": [1]}]})

    with ModelServer() as model, stack(servers, tmp_path, embedder=embedder, llm=llm(model)) as pipeline:
        model.answer = more
        pipeline.memory.ingest("bob", "s1", said("I live in Oslo.", "I work at a bakery."))
        pipeline.drive()

        facts = " ".join(fact.text for fact in pipeline.memory.facts("bob").items)
        cells = pipeline.rows("SELECT DISTINCT outcome, error_code, error_text FROM memforest.cell")
    assert "Oslo" in facts and "Quibovix" not in facts
    assert [tuple(row) for row in cells] == [
        ("repaired", "items_left_out", "Left out of the model's answer: 1 item had nothing of these turns.")
    ]
