"""The chaos suite counts right, breaks what it says it breaks, and can be read by a machine."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
import redis

from benchmarks.chaos.__main__ import passed
from benchmarks.chaos.breaking import Doubler
from benchmarks.chaos.conversations import Conversation, conversations
from benchmarks.chaos.outcome import Candidate, Difference, Facts, difference, is_ready
from benchmarks.chaos.scenarios import SCENARIOS, UNRELIABLE
from memforest_core.domain.cells import Window, WindowTurn
from memforest_core.domain.ids import SessionId, TenantId
from memforest_core.domain.turns import Role
from memforest_core.ingest.accept.records import SessionProgress, Stage
from memforest_core.ingest.extract.offline.proposing import propose
from memforest_core.settings import BrokerSettings
from memforest_core.work.publishing import CeleryWakeUps
from tests.harness.servers import SessionServers


def candidate(item: int = 0, text: str = "Ann has a cat.") -> Candidate:
    return ("ann", "s1", 0, item, text, (0,))


def once(*candidates: Candidate) -> Facts:
    return Facts(Counter(candidates), 0)


def window(one: Conversation) -> Window:
    turns = tuple(
        WindowTurn(
            number=place + 1,
            cell=1 + place // 2,
            ordinal=place,
            role=Role(str(turn["role"])),
            speaker=one.owner,
            text=str(turn["content"]),
            occurred_at=datetime(2023, 5, 1, tzinfo=UTC),
        )
        for place, turn in enumerate(one.turns)
    )
    return Window(one.owner, "UTC", (), turns, 2)


def test_each_conversation_has_a_detail_of_its_own_that_is_extracted_from_it() -> None:
    """Given many conversations, when the offline rules read one, then a fact has its detail, and no other's."""
    made = conversations(60, 7)
    assert len({one.detail for one in made}) == 60
    assert len({(one.owner, one.session_id) for one in made}) == 60
    for one in made:
        texts = " ".join(item.text for item in propose(window(one)).items)
        assert one.detail in texts
        assert one.detail in one.question
        assert not any(other.detail in texts for other in made if other is not one)


def test_a_run_like_the_calm_one_differs_in_nothing() -> None:
    calm = once(candidate(0), candidate(1))
    assert difference(calm, once(candidate(1), candidate(0))) == Difference(missing=0, duplicate=0)


def test_a_candidate_without_a_fact_is_missing_whether_it_was_extracted_or_not() -> None:
    calm = once(candidate(0), candidate(1))
    assert difference(calm, once(candidate(0))).missing == 1
    assert difference(calm, Facts(Counter({candidate(0): 1, candidate(1): 0}), 0)).missing == 1


def test_other_words_are_one_missing_and_one_too_many() -> None:
    """Given a cell that was stored word by word, then the calm run's candidate is missing and another one is there."""
    assert difference(once(candidate()), once(candidate(text="I have a cat."))) == Difference(1, 1)


def test_a_candidate_of_two_facts_and_doubled_rows_are_duplicates() -> None:
    calm = once(candidate())
    assert difference(calm, Facts(Counter({candidate(): 2}), 0)).duplicate == 1
    assert difference(calm, replace(calm, doubled=3)).duplicate == 3


@pytest.mark.parametrize(
    ("changes", "ready"),
    [
        ({}, True),
        ({"stage": Stage.FACTS}, False),
        ({"ok": 1, "covered": 1, "dead": 1}, False),
        ({"ok": 1, "covered": 1, "verbatim": 1}, False),
        ({"ok": 1, "empty": 1}, True),
    ],
)
def test_a_session_is_ready_with_all_that_was_said_in_it(changes: dict[str, Any], ready: bool) -> None:
    whole = SessionProgress(
        session_id=SessionId(UUID(int=1)),
        stage=Stage.SUMMARIES,
        turns=4,
        cells=2,
        indexed=2,
        extracted=2,
        placed=2,
        ok=2,
        empty=0,
        repaired=0,
        verbatim=0,
        failed=0,
        dead=0,
        waiting=0,
        covered=2,
        facts=3,
        dirty_trees=0,
    )
    assert is_ready(replace(whole, **changes)) is ready


def test_a_broken_promise_or_a_run_that_never_ended_does_not_pass() -> None:
    good: dict[str, object] = {
        "lost": 0,
        "duplicate_facts": 0,
        "missing_facts": 0,
        "verify": 0,
        "unkept": 0,
        "recover_s": 3.5,
    }
    assert passed(good)
    for name in good:
        assert not passed(good | {name: None if name == "recover_s" else 1})


def test_the_eight_scenarios_are_there_and_the_model_fails_as_often_as_promised() -> None:
    assert [scenario.number for scenario in SCENARIOS] == list(range(1, 9))
    assert sorted(UNRELIABLE.values()) == [0.05, 0.05, 0.05, 0.1, 0.1, 0.2]


def test_every_message_comes_twice(servers: SessionServers) -> None:
    """Given real wake-ups on two queues, when they are doubled, then each is there twice, and not in their order."""
    sender = CeleryWakeUps(BrokerSettings.model_validate({"url": servers.broker_url}))
    tenant = TenantId("twice")
    with redis.Redis.from_url(servers.redis_url) as broker:
        broker.delete("extract", "reduce")
        doubler = Doubler(servers.redis_url, random.Random(7))
        with doubler.at_work():
            for queue in ("extract", "reduce"):
                assert sender.send(queue, tenant, queue, count=20)
            time.sleep(0.2)
        pushed = [json.loads(body) for queue in ("reduce", "extract") for body in broker.lrange(queue, 0, -1)]
        broker.delete("extract", "reduce")
    sender.close()
    tags = Counter(message["properties"]["delivery_tag"] for message in pushed)
    assert len(tags) == doubler.seen == doubler.repeated == 40
    assert set(tags.values()) == {2}
    order = list(dict.fromkeys(message["properties"]["delivery_tag"] for message in pushed))
    assert order != [message["properties"]["delivery_tag"] for message in pushed][:40]
