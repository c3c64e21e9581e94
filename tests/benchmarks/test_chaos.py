"""The chaos suite counts right, breaks what it says it breaks, and can be read by a machine."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from dataclasses import replace

import redis

from benchmarks.chaos.__main__ import passed
from benchmarks.chaos.breaking import Doubler
from benchmarks.chaos.outcome import Candidate, Facts, difference
from memforest_core.domain.ids import TenantId
from memforest_core.settings import BrokerSettings
from memforest_core.work.publishing import CeleryWakeUps
from tests.harness.servers import SessionServers


def candidate(item: int = 0, text: str = "Ann has a cat.") -> Candidate:
    return ("ann", "s1", 0, item, text, (0,))


def once(*candidates: Candidate) -> Facts:
    return Facts(Counter(candidates), 0)


def test_a_candidate_without_a_fact_is_missing_whether_it_was_extracted_or_not() -> None:
    calm = once(candidate(0), candidate(1))
    assert difference(calm, once(candidate(0))).missing == 1
    assert difference(calm, Facts(Counter({candidate(0): 1, candidate(1): 0}), 0)).missing == 1


def test_a_candidate_of_two_facts_and_doubled_rows_are_duplicates() -> None:
    calm = once(candidate())
    assert difference(calm, Facts(Counter({candidate(): 2}), 0)).duplicate == 1
    assert difference(calm, replace(calm, doubled=3)).duplicate == 3


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
