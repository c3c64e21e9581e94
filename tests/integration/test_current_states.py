"""The current state over the real pipeline: timelines and recall agree, in whatever order sessions arrive."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from memforest_core.domain.evidence import Evidence
from memforest_core.domain.times import TimeSpan
from memforest_core.models.calls import Embedder
from memforest_core.recall.rows.recall_rows import RecallStore
from memforest_core.recall.service import RecallService
from memforest_core.recall.states import TimelineState
from memforest_core.recall.timeline import open_timeline
from tests.harness.servers import SessionServers
from tests.harness.stack import Stack, stack
from tests.integration.test_recall import UnavailableEmbedder, UnavailableIndex

Case = dict[str, Any]
CASES: list[Case] = json.loads((Path(__file__).parent / "data" / "current_states.json").read_text(encoding="utf-8"))
"""Invented people. ``sessions`` are in the order in which they arrive, each with its timestamp and its turns;
``states`` is the whole chain; ``now`` and ``before`` are questions with words of the turn that answers them."""
FIRST = 3
"""Evidence items that have the answer about an earlier state among them, if several states may be current at a time."""
ONE_AT_A_TIME = {"residence", "job", "relationship"}


def arrives_late(case: Case) -> bool:
    return any(one[0] > other[0] for one, other in pairwise(case["sessions"]))


def tell(running: Stack, cases: list[Case]) -> None:
    """All sessions, each worked to its end before the next one of that owner arrives."""
    for number in range(max(len(case["sessions"]) for case in cases)):
        for case in cases:
            for said_at, *texts in case["sessions"][number : number + 1]:
                turns = [
                    {"id": f"t{at}", "role": "user", "name": case["name"], "content": text, "timestamp": said_at}
                    for at, text in enumerate(texts)
                ]
                running.memory.ingest(case["name"].casefold(), f"s{number}", turns)
        running.drive()


@pytest.fixture(scope="module")
def people(servers: SessionServers, tmp_path_factory: pytest.TempPathFactory, embedder: Embedder) -> Iterator[Stack]:
    """Everybody's memory; nothing here changes it."""
    with stack(servers, tmp_path_factory.mktemp("holding"), embedder=embedder) as running:
        tell(running, CASES)
        yield running


def day(span: TimeSpan | None) -> str:
    return "" if span is None or span.start is None else f"{span.start:%Y-%m-%d}"


def shown(state: TimelineState) -> dict[str, str]:
    planned = state.current and state.modality == "planned"
    mark = "planned" if planned else "now" if state.current else "over" if state.superseded_by else "told"
    return {"value": state.value, "began": day(state.time), "ended": day(state.ended), "mark": mark}


def states(people: Stack, case: Case, **options: Any) -> list[TimelineState]:
    named: dict[str, Any] = {"entity": case["entity"]} if "entity" in case else {}
    timeline = open_timeline(people.services.engine).timeline
    return list(
        timeline(people.tenant, case["name"].casefold(), attribute=case["attribute"], **named, **options).states
    )


def recalled(people: Stack, case: Case, question: str, k: int = FIRST, **options: Any) -> tuple[Evidence, ...]:
    return people.memory.recall(case["name"].casefold(), question, k=k, **options).evidence


each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case["why"])


def test_the_cases_cover_what_they_should() -> None:
    assert len(CASES) >= 40
    assert sum(arrives_late(case) for case in CASES) >= 15
    assert {case["attribute"] for case in CASES} == {"residence", "job", "pet", "possession", "relationship"}
    assert len({case["name"] for case in CASES}) == len(CASES)


@each_case
def test_the_timeline_has_the_states_with_their_order_and_length(people: Stack, case: Case) -> None:
    requested = {"as_of": case["as_of"]} if "as_of" in case else {}
    assert [shown(state) for state in states(people, case, **requested)] == case["states"]


@each_case
def test_a_question_about_now_finds_the_current_state_first(people: Stack, case: Case) -> None:
    question, words = case["now"]
    requested = {"as_of": case["as_of"]} if "as_of" in case else {}
    best = recalled(people, case, question, **requested)[0]
    assert words in best.text
    assert best.signals["current"] > 0


@pytest.mark.parametrize("case", [case for case in CASES if "before" in case], ids=lambda case: case["why"])
def test_a_question_about_before_has_the_earlier_state(people: Stack, case: Case) -> None:
    question, words = case["before"]
    found = recalled(people, case, question)
    named = any(state["value"] and state["value"].split()[-1] in question for state in case["states"])
    first = 1 if named and case["attribute"] in ONE_AT_A_TIME else FIRST
    assert any(words in piece.text for piece in found[:first])
    assert all("current" not in piece.signals for piece in found)


MOVED = CASES[0]
"""Somebody who lives in Oslo on 1 May 2024, and mentions on 10 May a move to Bergen two weeks ago."""


@pytest.mark.parametrize("mode", ["flat", "embedding"])
def test_the_current_state_comes_first_in_every_mode(people: Stack, mode: str) -> None:
    assert "Bergen" in recalled(people, MOVED, "Where do I live now?", mode=mode)[0].text


def test_the_current_state_comes_first_without_index_and_embedder(people: Stack) -> None:
    service = RecallService(
        RecallStore(people.services.engine),
        UnavailableIndex(),  # type: ignore[arg-type]
        UnavailableEmbedder(),
        people.settings.recall,
    )
    result = service.recall(people.tenant, MOVED["name"].casefold(), "Where do I live now?")
    assert "Bergen" in result.evidence[0].text
    assert len(result.degraded) == 2


def test_at_an_earlier_time_the_earlier_state_is_current(people: Stack) -> None:
    (oslo,) = states(people, MOVED, as_of="2024-05-05")
    assert (oslo.value, oslo.current, oslo.ended) == ("Oslo", True, None)
    assert "Oslo" in recalled(people, MOVED, "Where do I live now?", as_of="2024-05-05")[0].text


def test_pages_keep_the_order_of_the_states(people: Stack) -> None:
    case = next(case for case in CASES if len(case["states"]) > 2)
    found, cursor = [], None
    while True:
        page = open_timeline(people.services.engine).timeline(
            people.tenant, case["name"].casefold(), attribute=case["attribute"], limit=1, cursor=cursor
        )
        found += [shown(state) for state in page.states]
        cursor = page.cursor
        if cursor is None:
            break
    assert found == case["states"]


def test_the_last_of_more_mentions_than_are_read_still_counts(pipeline: Stack) -> None:
    """The first and the last mentions are read."""
    lived = [{"id": f"t{at}", "role": "user", "name": "Gil", "content": "I live in Visby."} for at in range(300)]
    moved = {"id": "m", "role": "user", "name": "Gil", "content": "I moved to Kalmar."}
    said = [*lived[:290], moved, *lived[290:]]
    for at, turn in enumerate(said):
        turn["timestamp"] = f"2024-03-{1 + at // 24:02}T{at % 24:02}:00:00Z"
    pipeline.memory.ingest("gil", "s", said)
    pipeline.drive()
    found = open_timeline(pipeline.services.engine).timeline(pipeline.tenant, "gil", attribute="residence").states
    assert [(state.value, state.current) for state in found] == [("Visby", False), ("Kalmar", False), ("Visby", True)]
    assert found[0].mentioned_at.day == 1
