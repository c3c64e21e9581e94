"""Status, top and cost on real rows: each number is a row's, and nobody sees another tenant's."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from memforest_core.cli.commands import Commands
from memforest_core.domain.ids import TenantId
from memforest_core.errors import InvalidInput, InvalidSettings, NotFound
from memforest_core.observe.cli import cost, status
from memforest_core.observe.inspection import InspectionService, open_inspection
from memforest_core.observe.records import CallFilter, CostBy, Spent
from tests.harness.stack import Stack
from tests.integration.test_pipeline import said

SECRET = "zanzibar"
MAY = datetime(2024, 5, 6, 12, tzinfo=UTC)
OTHER_TENANT = TenantId("rival")


def program() -> typer.Typer:
    """The commands of this file, as the program has them."""
    app = typer.Typer(cls=Commands, pretty_exceptions_enable=False)
    for command in (status.status, status.top, cost.cost, cost.calls):
        app.command()(command)
    return app


@dataclass
class Shell:
    """Runs commands against a pipeline's database; neither broker nor index can be reached."""

    pipeline: Stack

    def __call__(self, *arguments: str, code: int = 0) -> str:
        environment = {
            "MEMFOREST_DATABASE__URL": self.pipeline.settings.database.url.get_secret_value(),
            "MEMFOREST_BROKER__URL": "redis://127.0.0.1:1/0",
            "MEMFOREST_INDEX__URL": "http://127.0.0.1:1",
        }
        ended = CliRunner().invoke(program(), arguments, env=environment)
        assert ended.exit_code == code, ended.output
        return ended.stdout or ended.stderr

    def json(self, *arguments: str, code: int = 0) -> Any:
        return json.loads(self(*arguments, "--json", code=code))


@pytest.fixture
def shell(pipeline: Stack) -> Shell:
    return Shell(pipeline)


@pytest.fixture
def service(pipeline: Stack) -> InspectionService:
    return open_inspection(pipeline.services.engine, pipeline.settings)


def ingest(pipeline: Stack, owner: str, session: str) -> None:
    pipeline.memory.ingest(owner, session, said(*[f"I bought {n + 2} lamps in {SECRET}." for n in range(8)]))


def paid(
    pipeline: Stack,
    step: str,
    dollars: float,
    *,
    owner: str | None = None,
    session: str | None = None,
    model: str = "gpt",
    outcome: str = "ok",
    at: datetime = MAY,
    tenant: str = "default",
) -> None:
    """One model call of 100 prompt tokens, 40 of them cached, and 10 written ones."""
    pipeline.execute(
        """INSERT INTO memforest.llm_call (tenant_id, at, step, model, forest_id, session_id, prompt_tokens,
                                           completion_tokens, cached_tokens, cost_usd, latency_ms, outcome)
           VALUES (:tenant, :at, :step, :model,
                   (SELECT forest_id FROM memforest.forest WHERE tenant_id = :tenant AND owner = :owner),
                   (SELECT session_id FROM memforest.session JOIN memforest.forest USING (tenant_id, forest_id)
                     WHERE tenant_id = :tenant AND owner = :owner AND external_id = :session),
                   100, 10, 40, :dollars, 5.0, :outcome)""",
        tenant=tenant,
        at=at,
        step=step,
        model=model,
        dollars=dollars,
        owner=owner,
        session=session,
        outcome=outcome,
    )


@pytest.fixture
def spent(pipeline: Stack) -> Stack:
    """Two owners' calls in May: bob's two sessions on two days, ann's one, and one that is nobody's."""
    for owner, session in (("bob", "chat-1"), ("bob", "chat-2"), ("ann", "notes")):
        ingest(pipeline, owner, session)
    pipeline.execute("DELETE FROM memforest.llm_call")
    paid(pipeline, "extract", 0.25, owner="bob", session="chat-1")
    paid(pipeline, "extract", 0.0, owner="bob", session="chat-1", outcome="model_unavailable")
    paid(pipeline, "extract", 0.5, owner="bob", session="chat-2", at=MAY + timedelta(days=1))
    paid(pipeline, "summarize", 2.0, owner="ann", model="big")
    paid(pipeline, "plan", 0.125, model="big", at=MAY + timedelta(hours=11, minutes=59))
    paid(pipeline, "extract", 99.0, tenant=OTHER_TENANT)
    return pipeline


def by(service: InspectionService, what: CostBy, **which: Any) -> list[tuple[str, str, int, float]]:
    found = service.costs(TenantId("default"), what, CallFilter(**which))
    return [(row.name, row.owner, row.spent.calls, row.spent.cost_usd) for row in found.rows]


def test_costs_are_summed_by_each_thing(spent: Stack, service: InspectionService) -> None:
    assert by(service, CostBy.SESSION) == [
        ("", "ann", 1, 2.0),
        ("chat-2", "bob", 1, 0.5),
        ("chat-1", "bob", 2, 0.25),
        ("", "", 1, 0.125),
    ]
    assert by(service, CostBy.OWNER) == [("ann", "", 1, 2.0), ("bob", "", 3, 0.75), ("", "", 1, 0.125)]
    assert by(service, CostBy.STEP) == [("summarize", "", 1, 2.0), ("extract", "", 3, 0.75), ("plan", "", 1, 0.125)]
    assert by(service, CostBy.MODEL) == [("big", "", 2, 2.125), ("gpt", "", 3, 0.75)]
    assert by(service, CostBy.DAY) == [("2024-05-06", "", 4, 2.375), ("2024-05-07", "", 1, 0.5)]
    assert service.costs(spent.tenant, CostBy.STEP, CallFilter()).total == Spent(5, 1, 500, 50, 200, 2.875)
    assert service.costs(OTHER_TENANT, CostBy.STEP, CallFilter()).total.cost_usd == 99.0


def test_costs_can_be_narrowed(spent: Stack, service: InspectionService) -> None:
    assert by(service, CostBy.STEP, owner="bob") == [("extract", "", 3, 0.75)]
    assert by(service, CostBy.OWNER, since=MAY + timedelta(hours=1)) == [("bob", "", 1, 0.5), ("", "", 1, 0.125)]
    assert by(service, CostBy.OWNER, since=MAY, until=MAY + timedelta(minutes=1)) == [
        ("ann", "", 1, 2.0),
        ("bob", "", 2, 0.25),
    ]
    with pytest.raises(NotFound):
        service.costs(spent.tenant, CostBy.STEP, CallFilter(owner="nobody"))
    with pytest.raises(InvalidInput) as refused:
        service.costs(spent.tenant, CostBy.STEP, CallFilter(since=MAY, until=MAY))
    assert refused.value.code == "invalid_period"


def test_what_was_deleted_stays_paid_for(spent: Stack, service: InspectionService) -> None:
    spent.execute("UPDATE memforest.llm_call SET session_id = gen_random_uuid() WHERE cost_usd = 0.5")
    (row,) = [
        row for row in service.costs(spent.tenant, CostBy.SESSION, CallFilter()).rows if row.spent.cost_usd == 0.5
    ]
    assert len(row.name) == len("00000000-0000-0000-0000-000000000000")
    assert row.owner == "bob"


def test_cost_as_a_shell_sees_it(spent: Stack, shell: Shell) -> None:
    found = shell.json("cost", "--by", "owner", "--since", "2024-05-06", "--until", "2024-05-06")
    rows = [(row["owner"], row["calls"], row["cost_usd"]) for row in found["rows"]]
    assert (rows, found["total"]["failed"]) == ([("ann", 1, 2.0), ("bob", 2, 0.25), ("", 1, 0.125)], 1)
    assert shell.json("cost", "--owner", "nobody", code=2)["error"]["code"] == "not_found"


def test_single_calls_come_newest_first_and_page_by_page(spent: Stack) -> None:
    memory = spent.memory
    whole = memory.calls().items
    assert [call.cost_usd for call in whole] == [0.5, 0.125, 2.0, 0.0, 0.25]
    assert [call.id for call in whole[2:]] == sorted((call.id for call in whole[2:]), reverse=True)
    found, cursor = [], None
    for _ in range(3):
        page = memory.calls(limit=2, cursor=cursor)
        found += page.items
        cursor = page.cursor
    assert cursor is None
    assert tuple(found) == whole
    newest = whole[0]
    assert (newest.step, newest.model, newest.owner, newest.session_id) == ("extract", "gpt", "bob", "chat-2")
    assert (newest.prompt_tokens, newest.cached_tokens, newest.completion_tokens) == (100, 40, 10)
    assert (newest.latency_ms, newest.outcome, newest.at) == (5.0, "ok", MAY + timedelta(days=1))


def test_single_calls_can_be_narrowed(spent: Stack) -> None:
    memory = spent.memory

    def dollars(*owner: str, **which: Any) -> list[float]:
        return [call.cost_usd for call in memory.calls(*owner, **which).items]

    assert dollars("bob") == [0.5, 0.0, 0.25]
    assert dollars("bob", session_id="chat-1") == [0.0, 0.25]
    assert dollars(step="summarize") == [2.0]
    assert dollars(outcome="model_unavailable") == [0.0]
    assert dollars(since=MAY + timedelta(hours=1)) == [0.5, 0.125]
    assert dollars(since=MAY, until="2024-05-06T12:00:01Z") == [2.0, 0.0, 0.25]
    nobodys = memory.calls("nobody")
    assert (nobodys.items, nobodys.owner_known) == ((), False)


@pytest.mark.parametrize(
    "arguments, code",
    [
        ({"session_id": "chat-1"}, "missing_owner"),
        ({"step": "weather"}, "invalid_step"),
        ({"since": MAY, "until": MAY}, "invalid_period"),
        ({"since": "soon"}, "invalid_timestamp"),
        ({"limit": 0}, "invalid_limit"),
        ({"cursor": "WyJzb29uIiwgMV0"}, "invalid_cursor"),
        ({"cursor": "?"}, "invalid_cursor"),
    ],
)
def test_bad_questions_about_single_calls_are_refused(spent: Stack, arguments: dict[str, Any], code: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        spent.memory.calls(**arguments)
    assert refused.value.code == code
    with pytest.raises(NotFound):
        spent.memory.calls("bob", session_id="unknown")


def test_single_calls_as_a_shell_sees_them(spent: Stack, shell: Shell) -> None:
    found = shell.json("calls", "--owner", "bob", "--since", "2024-05-06", "--until", "2024-05-06", "--limit", "1")
    [call] = found["items"]
    assert (call["outcome"], call["session_id"], call["latency_ms"]) == ("model_unavailable", "chat-1", 5.0)
    next_page = shell.json("calls", "-o", "bob", "--until", "2024-05-06", "--cursor", found["cursor"])
    assert [(call["cost_usd"], call["step"]) for call in next_page["items"]] == [(0.25, "extract")]
    table = shell("calls", "--owner", "bob", "--session", "chat-2").splitlines()
    assert table[0].split() == ["at", "step", "model", "owner", "session", *cost._NUMBERS, "outcome"]
    assert table[1].split()[2:] == ["extract", "gpt", "bob", "chat-2", "100", "40", "10", "0.5000", "0.01", "ok"]
    assert "has no memory yet" in shell("calls", "--owner", "nobody")
    assert SECRET not in json.dumps(found)


def test_an_overview_is_what_the_rows_say(pipeline: Stack, service: InspectionService) -> None:
    ingest(pipeline, "bob", "s1")
    ingest(pipeline, "ann", "s2")
    now = service.overview(pipeline.tenant).at
    pipeline.execute("DELETE FROM memforest.llm_call")
    paid(pipeline, "extract", 0.25, at=now)
    paid(pipeline, "extract", 0.5, at=now.replace(hour=0, minute=0, second=0, microsecond=0), outcome="content_refused")
    paid(pipeline, "extract", 9.0, at=now - timedelta(days=1, minutes=2))
    seen = service.overview(pipeline.tenant)
    depths = {(depth.kind, depth.state): depth.items for depth in seen.queues}
    assert depths["extract", "ready"] == 4
    assert (seen.today.calls, seen.today.failed, seen.today.cost_usd) == (2, 1, 0.75)
    assert seen.last_minute.cost_usd >= 0.25
    assert [(worker.name, worker.alive) for worker in seen.workers] == [("test", True)]
    assert service.overview(OTHER_TENANT).queues == ()


def test_status_and_top_as_a_shell_sees_them(pipeline: Stack, shell: Shell) -> None:
    ingest(pipeline, "bob", "s1")
    state = shell.json("status")
    assert state["totals"]["cells"] == {"ready": 4}
    frame = shell.json("top")
    for found in (state, frame):
        depth = next(depth for depth in found["queues"] if depth["kind"] == "extract")
        assert (depth["state"], depth["items"], depth["tenant"]) == ("ready", 2, "default")
        assert found["dead"] == found["dirty_nodes"] == 0
        assert found["today"]["calls"] >= 0
    shown = shell("status")
    assert "extract" in shown and "nothing waits" not in shown
    assert "1 sessions, 8 turns" in shown
    once = shell("top", "--once")
    assert "workers 1 alive" in once
    assert "extract" in once
    for text in (json.dumps(state), json.dumps(frame), shown, once):
        assert SECRET not in text


def test_dead_work_is_pointed_at(pipeline: Stack, shell: Shell) -> None:
    ingest(pipeline, "bob", "s1")
    pipeline.execute("UPDATE memforest.cell SET state = 'running'")
    pipeline.execute("UPDATE memforest.cell SET state = 'dead', outcome = 'dead', error_code = 'content_fault'")
    assert shell.json("top")["dead"] == 4
    assert "4 items: memforest dead list" in shell("status")


def test_an_older_schema_is_named(pipeline: Stack, shell: Shell, service: InspectionService) -> None:
    pipeline.execute("DROP FUNCTION memforest.backlog()")
    with pytest.raises(InvalidSettings, match="memforest db upgrade"):
        service.overview(pipeline.tenant)
    assert "memforest db upgrade" in shell("top", "--once", code=2)
