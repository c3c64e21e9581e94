"""The doctor's checks, on real parts that are well and on parts that are not."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import SecretStr
from redis import Redis

from memforest_core.client.services import checkup as checks
from memforest_core.client.services.checkup import Check, State, checkup
from memforest_core.settings import DatabaseSettings, Settings, load_settings
from tests.harness.model_faults import Fault
from tests.harness.model_server import ModelServer
from tests.harness.servers import SessionServers
from tests.harness.stack import Stack, at


def by_name(settings: Settings, **options: Any) -> dict[str, Check]:
    return {check.name: check for check in checkup(settings, **options)}


def changed(pipeline: Stack, **groups: object) -> Settings:
    """The stack's settings with other groups; its index is closed, so that the checks can open it."""
    pipeline.services.index.close()
    same = {name: getattr(pipeline.settings, name) for name in ("database", "broker", "index")}
    return load_settings(**(same | groups))


def test_all_is_well_but_for_queues_without_a_worker(pipeline: Stack) -> None:
    pipeline.execute("UPDATE memforest.worker SET queues = '{extract,reduce,refresh}'")
    found = by_name(changed(pipeline))
    assert found.pop("workers of maintain").state is State.WARN
    assert {name: check.says for name, check in found.items() if check.state is not State.OK} == {}
    assert found["embedding"].says == "all-minilm-l6-v2-int8, 384 dimensions"
    assert "offline" in found["chat"].says
    assert found["index"].says.endswith("0 points")


def test_an_unavailable_part_does_not_end_the_checks_of_others(pipeline: Stack) -> None:
    settings = changed(
        pipeline,
        database=DatabaseSettings(url=SecretStr("postgresql+psycopg://app@127.0.0.1:1/none")),
        broker={"url": "redis://127.0.0.1:1/0"},
        index={"url": "http://127.0.0.1:1"},
    )
    found = by_name(settings)
    failed = {name: check.code for name, check in found.items() if check.state is State.FAIL}
    assert found["index"].says == "Qdrant can't be reached at 127.0.0.1:1: check MEMFOREST_INDEX__URL."
    assert failed == {"database": "store_unavailable", "broker": "broker_unavailable", "index": "index_unavailable"}
    assert "MEMFOREST_BROKER__URL" in found["broker"].says


def test_a_database_of_another_version_is_distinguished_from_a_missing_one(
    pipeline: Stack, servers: SessionServers
) -> None:
    pipeline.execute("UPDATE memforest.schema_version SET version_num = '9999'")
    found = by_name(changed(pipeline))
    assert found["database"].state is State.OK
    assert (found["schema"].code, "newer than this version" in found["schema"].says) == ("invalid_settings", True)
    missing = SecretStr(at(servers.postgres_url, database="no_such_one", user="memforest_app"))
    assert by_name(changed(pipeline, database=DatabaseSettings(url=missing)))["database"].code == (
        "store_database_missing"
    )


def test_a_wrong_password_of_the_broker_is_named(pipeline: Stack, servers: SessionServers) -> None:
    client = Redis.from_url(servers.redis_url)
    client.acl_setuser("doctored", enabled=True, passwords=["+right"], commands=["+ping"])
    try:
        path = servers.broker_url.removeprefix("redis+socket://")
        found = by_name(changed(pipeline, broker={"url": f"redis+socket://doctored:wrong@{path}"}))
    finally:
        client.acl_deluser("doctored")
        client.close()
    assert (found["broker"].state, found["broker"].code) == (State.FAIL, "broker_unavailable")
    assert "password" in found["broker"].says


@pytest.mark.parametrize(
    "fault, state, says", [(None, State.OK, "answered in"), (Fault.UNAUTHORIZED, State.FAIL, "API_KEY")]
)
def test_a_chat_model_is_called_when_wanted(pipeline: Stack, fault: Fault | None, state: State, says: str) -> None:
    with ModelServer() as server:
        server.script(fault)
        llm = {"model": "openai/test-model", "api_base": server.url, "api_key": "sk-secret"}
        settings = changed(pipeline, llm=llm)
        assert "--call" in by_name(settings)["chat"].says
        assert server.requests == []
        requested = by_name(settings, call=True)["chat"]
        assert (requested.state, says in requested.says) == (state, True)
        assert len(server.requests) == 1
        assert "sk-secret" not in requested.says


def test_a_chat_model_without_a_provider_is_named_without_a_call(pipeline: Stack) -> None:
    found = by_name(changed(pipeline, llm={"model": "llama-3.1", "api_base": "http://127.0.0.1:1/v1", "api_key": "x"}))
    assert found["chat"].state is State.FAIL
    assert "openai/llama-3.1" in found["chat"].says


def test_little_disk_space_and_a_wrong_clock_are_reported(pipeline: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = changed(pipeline)
    monkeypatch.setattr(checks, "DISK_WARN", 2**60)
    monkeypatch.setattr(checks, "SKEW_WARN_S", -1.0)
    found = by_name(settings)
    assert (found["disk"].state, found["clock"].state) == (State.WARN, State.WARN)
    monkeypatch.setattr(checks, "DISK_FAIL", 2**60)
    monkeypatch.setattr(checks, "SKEW_FAIL_S", -1.0)
    found = by_name(settings)
    assert (found["disk"].state, found["clock"].state) == (State.FAIL, State.FAIL)
