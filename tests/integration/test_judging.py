"""What a chat model over HTTP may say about near duplicates and close scenes, on the whole stack and with its faults."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from benchmarks.support.model_answers import default_answer, last_user_text
from benchmarks.support.model_faults import Fault
from benchmarks.support.model_server import ModelServer
from benchmarks.support.sayings import said
from benchmarks.support.servers import SessionServers
from benchmarks.support.stack import Stack, stack
from memforest_core.models.calls import Embedder
from memforest_core.verify.service import open_verification

START = 1_700_000_000
NEAR = {"judge_duplicates": True, "near_duplicate": 0.995, "near_ask": 0.5}
"""So that a rewording is below the one and above the other."""
APART = {"scene_assign": 0.999, "scene_weak": 0.999, "scene_time_bonus": 0.0, "scene_merge": 0.999, "scene_ask": 0.3}
"""So that every fact begins a scene of its own, and all are close."""
SCENES = {"judge_scenes": True, "scene_min_facts": 1, **APART}

FAULTS = [Fault.SERVER_ERROR, Fault.DISCONNECT, Fault.RATE_LIMIT, Fault.MALFORMED, Fault.WRONG_SCHEMA, Fault.EMPTY]


class Says:
    """A model that says the same of every pair; ``before`` is done before it answers."""

    def __init__(self) -> None:
        self.same = True
        self.asked: list[list[dict[str, Any]]] = []
        self.before: Callable[[], object] = lambda: None

    def __call__(self, body: Mapping[str, Any]) -> str:
        shown = last_user_text(body)
        if not shown.startswith('{"pairs"'):
            return default_answer(body)
        pairs = json.loads(shown)["pairs"]
        self.asked.append(pairs)
        self.before()
        return json.dumps({"same": [pair["number"] for pair in pairs] if self.same else []})


@pytest.fixture
def says() -> Says:
    return Says()


@pytest.fixture
def server(says: Says) -> Iterator[ModelServer]:
    with ModelServer(retry_after_s=0.1, answer=says) as running:
        yield running


@contextmanager
def judged(
    servers: SessionServers, place: Path, embedder: Embedder, server: ModelServer | None, rules: Mapping[str, object]
) -> Iterator[Stack]:
    one = {} if server is None else {"model": "openai/test-model", "api_base": server.url, "api_key": "key-1"}
    groups = {"llm": {"summarize": one}, "reduce": rules, "refresh": {"title_sizes": []}}
    with stack(servers, place, embedder=embedder, **groups) as running:
        yield running


def tell(running: Stack, *texts: str, session: str, start: int = START) -> None:
    running.memory.enqueue("bob", session, said(*texts, start=start))
    running.drive()


def facts(running: Stack) -> list[str]:
    return sorted(fact.text for fact in running.memory.facts("bob").items)


def calls(running: Stack) -> list[str]:
    rows = running.rows("SELECT outcome FROM memforest.llm_call WHERE step = 'summarize' AND forest_id IS NOT NULL")
    return [str(row[0]) for row in rows]


def assert_verified(running: Stack) -> None:
    report = open_verification(running.services.engine, running.services.index, running.services.settings).run()
    assert [check for check in report.checks if check.violations] == []


BOAT, AGAIN = "We painted the old boat by the lake.", "We have painted the old boat at the lake."


@pytest.fixture
def near(servers: SessionServers, tmp_path: Path, embedder: Embedder, server: ModelServer) -> Iterator[Stack]:
    with judged(servers, tmp_path, embedder, server, NEAR) as running:
        tell(running, BOAT, session="s1")
        yield running


def test_facts_that_the_model_says_are_the_same_are_one(near: Stack, says: Says) -> None:
    """Given a rewording below the cosine of near duplicates, when the model says that both say the same, then the first
    fact has both sources; the call is recorded."""
    before = facts(near)
    tell(near, AGAIN, session="s2")

    assert facts(near) == before
    (fact,) = near.memory.facts("bob").items
    assert {source.session_id for source in fact.sources} == {"s1", "s2"}
    ((pair,),) = says.asked
    assert {pair["one"], pair["other"]} >= {before[0]} and calls(near) == ["ok"]


def test_facts_that_it_tells_apart_stay_two(near: Stack, says: Says) -> None:
    says.same = False
    tell(near, AGAIN, session="s2")
    assert len(facts(near)) == 2 and len(says.asked) == 1


@pytest.mark.parametrize("text", ["We painted 2 old boats by the lake.", "We never painted the old boat by the lake."])
def test_what_differs_in_what_matters_is_not_even_asked_about(near: Stack, says: Says, text: str) -> None:
    tell(near, text, session="s2")
    assert len(facts(near)) == 2 and says.asked == []


def test_the_same_sentence_again_needs_no_model(near: Stack, says: Says) -> None:
    tell(near, BOAT, session="s2")
    assert len(facts(near)) == 1 and says.asked == []


def test_at_most_four_pairs_of_a_batch_are_asked_about(near: Stack, says: Says) -> None:
    says.same = False
    turns = [
        f"We {verb} painted the old boat {where} the lake." for verb in ("have", "had") for where in ("at", "near")
    ]
    near.memory.enqueue("bob", "s2", said(*turns, "We painted the boat by the lake.", "We painted a boat by the lake."))
    near.drive()
    assert says.asked and max(len(pairs) for pairs in says.asked) <= 4


@pytest.mark.parametrize("fault", FAULTS)
def test_a_model_that_fails_joins_nothing_and_is_told_by_id(
    near: Stack, server: ModelServer, fault: Fault, capsys: pytest.CaptureFixture[str]
) -> None:
    """Given a model that fails, then both facts stay, the work goes on, and neither log nor ledger holds a word."""
    server.script(*[fault] * 4)
    near.memory.enqueue("bob", "s2", said(AGAIN))
    while near.runtime.extract():
        pass
    reduction = near.services.reduction.run_one(near.tenant)
    told = capsys.readouterr().out
    near.drive()
    assert (reduction.unjudged, reduction.near_merging) == (1, True)
    assert len(facts(near)) == 2
    assert calls(near) and "pairs_not_judged" in told and "lake" not in told


def test_a_fact_that_goes_while_the_model_thinks_takes_nothing_in(near: Stack, says: Says) -> None:
    """Given a model that is asked with nothing locked, when the fact is deleted meanwhile, then the candidate becomes a
    fact of its own."""

    def delete() -> None:
        near.memory.lifecycle.forget("bob", session="s1", actor="test")
        while near.runtime.maintain():
            pass

    says.before = delete
    tell(near, AGAIN, session="s2")
    (fact,) = near.memory.facts("bob").items
    assert "have painted" in fact.text
    assert [source.session_id for source in fact.sources] == ["s2"]


def test_without_a_model_or_by_default_nobody_is_asked(
    servers: SessionServers, tmp_path: Path, embedder: Embedder, server: ModelServer, says: Says
) -> None:
    for number, (model, rules) in enumerate([(None, NEAR), (server, {**NEAR, "judge_duplicates": False})]):
        place = tmp_path / str(number)
        place.mkdir()
        with judged(servers, place, embedder, model, rules) as running:
            tell(running, BOAT, session="s1")
            tell(running, AGAIN, session="s2")
            assert len(facts(running)) == 2 and says.asked == []


LAMPS = ("I bought a brass lamp for the hall.", "I bought a copper lamp for the hall.")


@pytest.fixture
def apart(servers: SessionServers, tmp_path: Path, embedder: Embedder, server: ModelServer) -> Iterator[Stack]:
    with judged(servers, tmp_path, embedder, server, SCENES) as running:
        tell(running, LAMPS[0], session="s1")
        yield running


def scenes(running: Stack) -> list[int]:
    """The sizes of the scenes that stand."""
    rows = running.rows(
        """SELECT (SELECT count(*) FROM memforest.placement p WHERE p.tenant_id = r.tenant_id AND p.tree_id = r.tree_id)
             FROM memforest.tree r WHERE kind = 'scene' AND state IN ('active', 'candidate')"""
    )
    return sorted(int(row[0]) for row in rows)


def test_scenes_that_the_model_says_are_one_topic_become_one(apart: Stack, says: Says) -> None:
    """Given two close scenes, when the model says that they are one topic, then one has the facts of both, in a sound
    tree, and the other has ended."""
    assert scenes(apart) == [1]
    tell(apart, LAMPS[1], session="s2")

    assert scenes(apart) == [2]
    (tree,) = apart.memory.trees("bob", kind="scene").items
    assert tree.leaves == 2 and "brass" in tree.summary and "copper" in tree.summary
    assert apart.rows("SELECT count(*) FROM memforest.tree WHERE kind = 'scene' AND state = 'merged'")[0][0] == 1
    ((pair,),) = says.asked
    assert {len(pair[side]["facts"]) for side in ("one", "other")} == {1}
    assert calls(apart) == ["ok"]
    assert_verified(apart)


def test_scenes_that_it_tells_apart_are_not_asked_about_again_until_they_grow(apart: Stack, says: Says) -> None:
    says.same = False
    tell(apart, LAMPS[1], session="s2")
    tell(apart, LAMPS[1], session="s3", start=START + 3_600)
    assert scenes(apart)[0] == 1 and len(scenes(apart)) >= 2 and len(says.asked) == 1


@pytest.mark.parametrize("fault", FAULTS)
def test_a_model_that_fails_unites_nothing(apart: Stack, server: ModelServer, fault: Fault) -> None:
    server.script(*[fault] * 4)
    apart.memory.enqueue("bob", "s2", said(LAMPS[1]))
    while apart.runtime.extract():
        pass
    reduction = apart.services.reduction.run_one(apart.tenant)
    assert (reduction.unjudged, reduction.cells) == (1, 1)
    apart.drive()
    assert scenes(apart) == [1, 1] and calls(apart)


def test_scenes_that_change_while_the_model_thinks_stay_apart(apart: Stack, says: Says) -> None:
    """Given a model that is asked with nothing locked, when one of the scenes loses its fact meanwhile, then nothing is
    united."""

    def delete() -> None:
        apart.memory.lifecycle.forget("bob", session="s1", actor="test")
        while apart.runtime.maintain():
            pass

    says.before = delete
    tell(apart, LAMPS[1], session="s2")
    assert says.asked and scenes(apart) == [1]
    assert_verified(apart)


def test_while_the_forest_is_written_nothing_is_united_and_the_answer_is_remembered(apart: Stack, says: Says) -> None:
    owner = apart.owner_engine()
    with owner.connect() as writing:
        says.before = lambda: writing.exec_driver_sql("SELECT 1 FROM memforest.forest FOR NO KEY UPDATE")
        tell(apart, LAMPS[1], session="s2")
        assert scenes(apart) == [1, 1]
    owner.dispose()


def test_without_a_model_or_by_default_scenes_stay_apart(
    servers: SessionServers, tmp_path: Path, embedder: Embedder, server: ModelServer, says: Says
) -> None:
    for number, (model, rules) in enumerate([(None, SCENES), (server, {**SCENES, "judge_scenes": False})]):
        place = tmp_path / str(number)
        place.mkdir()
        with judged(servers, place, embedder, model, rules) as running:
            tell(running, LAMPS[0], session="s1")
            tell(running, LAMPS[1], session="s2")
            assert scenes(running) == [1, 1] and says.asked == []
