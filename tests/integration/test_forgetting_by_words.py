"""60 requests to forget by words (tests/data/forget_by_words.json): what is not sure deletes nothing, with a model and with rules."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from memforest_core.models.calls import Embedder
from tests.harness.model_answers import messages_of
from tests.harness.model_server import ModelServer
from tests.harness.servers import SessionServers
from tests.harness.stack import Grown, Stack, cloned

MEMORIES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "data/forget_by_words.json").read_text(encoding="utf-8")
)
CASES = [(f"owner{at}", words, set(expected)) for at, each in enumerate(MEMORIES) for words, expected in each["cases"]]


def tell(running: Stack) -> None:
    for at, memory in enumerate(MEMORIES):
        for number, text in enumerate(memory["facts"]):
            running.memory.remember(f"owner{at}", text, session_id=f"n{number}", at=1_714_000_000 + number * 86_400)


def deleted(running: Stack, owner: str, words: str) -> set[int]:
    """Numbers of the notes whose facts would go."""
    found = running.memory.forget(owner, words, dry_run=True)
    return {int(place.session_id.removeprefix("n")) for place in (*found.turns, *found.left)}


def judged(running: Stack) -> tuple[list[str], list[str]]:
    """The requests that delete what they must not, and those that miss what they could delete."""
    found = [(words, expected, deleted(running, owner, words)) for owner, words, expected in CASES]
    return (
        [f"{words}: {got - expected}" for words, expected, got in found if got - expected],
        [words for words, expected, got in found if expected - got],
    )


def test_half_of_the_cases_must_find_nothing() -> None:
    assert len(CASES) >= 60 and sum(not expected for *_, expected in CASES) >= 30


def test_without_a_model_no_request_deletes_what_it_does_not_name(grown_once: Stack) -> None:
    wrong, missed = judged(grown_once)

    assert wrong == []
    assert len(missed) <= MISSED, missed


MISSED = 4
"""Requests in other words than the fact's, which only a model could match."""


def everything(document: Mapping[str, Any]) -> list[int]:
    return [each["number"] for each in document["facts"]]


def the_first(document: Mapping[str, Any]) -> list[int]:
    return everything(document)[:1]


def of_the_case(document: Mapping[str, Any]) -> list[int]:
    """What a careful model answers."""
    memory = next(each for each in MEMORIES if document["words"] in {words for words, _ in each["cases"]})
    meant = [memory["facts"][at] for words, found in memory["cases"] if words == document["words"] for at in found]
    return [each["number"] for each in document["facts"] if any(text[:-1] in each["text"] for text in meant)]


@pytest.mark.parametrize("choice", [everything, the_first, of_the_case])
def test_with_a_model_no_request_deletes_what_it_does_not_name(
    servers: SessionServers,
    grown: Grown,
    tmp_path: Path,
    embedder: Embedder,
    choice: Callable[[Mapping[str, Any]], list[int]],
) -> None:
    """Given a model that chooses everything it is shown, or the nearest fact, then nothing unrelated is deleted."""

    def answer(body: Mapping[str, Any]) -> str:
        shown = next(text for role, text in messages_of(body) if role == "user")
        return json.dumps({"facts": choice(json.loads(shown))})

    with ModelServer() as server:
        server.answer = answer
        llm = {"profile": {"model": "openai/test-model", "api_base": server.url, "api_key": "key-1"}}
        with cloned(servers, grown, tmp_path, embedder, llm=llm) as running:
            wrong, missed = judged(running)

    assert wrong == []
    assert choice is not of_the_case or len(missed) <= MISSED, missed


def test_words_that_fit_two_facts_delete_none_and_list_them(pipeline: Stack) -> None:
    for text in ("I have a dog named Rex.", "I have a dog named Fido."):
        pipeline.memory.remember("ann", text)
        pipeline.drive()

    found = pipeline.memory.forget("ann", "that I have a dog")

    assert not found.found and "several" in found.degraded[0]
    assert len(found.others) == 2
    assert len(pipeline.memory.forget("ann", "that I have a dog named Rex", dry_run=True).facts) == 1
