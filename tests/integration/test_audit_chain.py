"""The chain of the audit is whole after concurrent writers, aborts and kills, and every change of a row is found."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic import command
from pydantic import SecretStr
from typer.testing import CliRunner

from memforest_core.cli.program import app
from memforest_core.domain.ids import TenantId
from memforest_core.errors import InvalidInput, InvalidSettings
from memforest_core.store import schema
from memforest_core.store.engine import open_engine
from memforest_core.store.schema import upgrade
from memforest_core.work import cli as work
from memforest_core.work.audit import AuditLog, AuditReport
from memforest_core.work.records import AuditEntry
from memforest_core.work.rows.operation_rows import OperationRows
from tests.harness.servers import SessionServers
from tests.harness.stack import Stack
from tests.migration.test_migrations import connected, empty

BEFORE = "0150"
"""The revision before the chain."""
KEY = SecretStr("a secret of the operator")
ADD = """INSERT INTO memforest.audit (tenant_id, actor, action, outcome, detail)
         VALUES (:t, 'Zoë, \\ "q"', 'erase', 'done', '{"n": 1, "é": "\\"x\\""}')"""


def opened(engine: sa.Engine, key: SecretStr | None) -> AuditLog:
    return AuditLog(partial(OperationRows.opened, engine), key)


@pytest.fixture
def log(pipeline: Stack) -> AuditLog:
    return opened(pipeline.services.engine, KEY)


def noted(running: Stack, actor: str, tenant: str | None = None) -> None:
    with OperationRows.opened(running.services.engine, TenantId(tenant or running.tenant)) as rows:
        rows.note(AuditEntry(actor, "erase", "done", owner="ada", detail={"turns": 3}))


def test_many_writers_that_abort_and_commit_late_make_one_chain(pipeline: Stack, log: AuditLog) -> None:
    """Given writers of two tenants at once, every third of which aborts, and one that stays open all the while, then
    nobody waits for it, each tenant's chain is whole at any moment, and the late one comes last."""
    opened, closing = threading.Event(), threading.Event()

    def late() -> None:
        with OperationRows.opened(pipeline.services.engine, pipeline.tenant) as rows:
            rows.note(AuditEntry("late", "erase", "requested"))
            opened.set()
            assert closing.wait(60)

    def write(n: int) -> bool:
        try:
            with OperationRows.opened(pipeline.services.engine, TenantId(("default", "other")[n % 2])) as rows:
                rows.note(AuditEntry(f"writer {n}", "erase", "done"))
                rows.note(AuditEntry(f"writer {n}", "erase", "done again"))
                if n % 3 == 0:
                    raise InvalidInput("It aborts.")
        except InvalidInput:
            return False
        return n % 2 == 0

    with ThreadPoolExecutor(5) as threads:
        waiting = threads.submit(late)
        assert opened.wait(60)
        wrote = [threads.submit(write, n) for n in range(60)]
        seen = [log.verify(pipeline.tenant) for _ in range(5)]
        own = 2 * sum(each.result() for each in wrote)
        before = log.head(pipeline.tenant)
        closing.set()
        waiting.result()
    assert all(each.sound for each in seen)
    report = log.verify(pipeline.tenant, before)
    assert (report.sound, report.head.rows, before.rows) == (True, own + 1, own)
    assert log.verify(TenantId("other")).head.rows == 40
    last = "SELECT actor FROM memforest.audit WHERE tenant_id = 'default' ORDER BY place DESC LIMIT 1"
    assert pipeline.rows(last)[0].actor == "late"


def test_a_writer_that_is_killed_leaves_a_whole_chain(pipeline: Stack, log: AuditLog) -> None:
    """Given a process that writes on and on, when it is killed with -9 in the middle, then all it committed is chained."""
    program = """if True:
        import sys, sqlalchemy as sa
        engine = sa.create_engine(sys.argv[1])
        for _ in range(100_000):
            with engine.begin() as connection:
                connection.execute(sa.text("SELECT set_config('memforest.tenant', 'default', true)"))
                for _ in range(3):
                    connection.execute(sa.text(sys.argv[2]), {"t": "default"})
    """
    url = pipeline.settings.database.url.get_secret_value()
    with subprocess.Popen([sys.executable, "-c", program, url, ADD]) as process:
        while log.head(pipeline.tenant).rows < 30:
            assert process.poll() is None
        process.send_signal(signal.SIGKILL)
    head = log.head(pipeline.tenant)
    noted(pipeline, "after")
    report = log.verify(pipeline.tenant, head)
    assert (report.sound, report.head.rows, head.rows % 3) == (True, head.rows + 1, 0)


CHANGED = {
    "an actor": ("UPDATE memforest.audit SET actor = 'nobody' WHERE place = 3", "Row 3 or"),
    "a number": ("UPDATE memforest.audit SET detail = '{\"turns\": 4}' WHERE place = 3", "Row 3 or"),
    "a time": ("UPDATE memforest.audit SET at = at - interval '1 microsecond' WHERE place = 6", "Row 6 or"),
    "an owner that is gone": ("UPDATE memforest.audit SET owner_hash = NULL WHERE place = 1", "Row 1 or"),
    "a row with its own hash": ("UPDATE memforest.audit SET actor = 'x', hash = sha256('x') WHERE place = 3", None),
    "a row less": ("DELETE FROM memforest.audit WHERE place = 3", "Row 4 follows row 2"),
    "the first less": ("DELETE FROM memforest.audit WHERE place = 1", "Row 2 follows row 0"),
    "the newest less": ("DELETE FROM memforest.audit WHERE place = 6", "Row 6 is not"),
    "all less": ("DELETE FROM memforest.audit", "Row 6 is not"),
    "a row more": (ADD, "A row of 20"),
    "a row moved away": (
        "UPDATE memforest.audit SET place = CASE place WHEN 3 THEN 30 ELSE place - 1 END WHERE place > 2",
        None,
    ),
    "another tenant's row": ("UPDATE memforest.audit SET tenant_id = 'default', place = 7 WHERE tenant_id = 'o'", None),
}


@pytest.mark.parametrize("change,finding", CHANGED.values(), ids=CHANGED)
def test_a_change_behind_the_triggers_is_found(
    pipeline: Stack, log: AuditLog, change: str, finding: str | None
) -> None:
    """Given somebody with all rights who switches the triggers off, then verify names what he did, and where."""
    for n in range(6):
        noted(pipeline, f"actor {n}")
    noted(pipeline, "elsewhere", "o")
    head = log.head(pipeline.tenant)
    assert log.verify(pipeline.tenant, head).sound
    with pipeline.owner.begin() as connection:
        connection.execute(sa.text("SET LOCAL session_replication_role = replica"))
        connection.execute(sa.text(change), {"t": pipeline.tenant} if ":t" in change else {})

    report = log.verify(pipeline.tenant, head)

    assert not report.sound and report.findings
    if finding is not None:
        (only,) = report.findings
        assert only.startswith(finding)


@pytest.mark.parametrize(
    "column,value", [("place", "9223372036854775807"), ("hash", "'x'"), ("at", "'2001-01-01'"), ("audit_id", "1")]
)
def test_the_service_has_no_say_in_the_chain(pipeline: Stack, log: AuditLog, column: str, value: str) -> None:
    """Given the role of the service, then it can't choose what would break the chain, now or for later rows."""
    added = ADD.replace("(tenant_id", f"({column}, tenant_id").replace("(:t", f"({value}, :t")
    with pipeline.services.engine.begin() as connection:
        connection.execute(sa.text("SELECT set_config('memforest.tenant', :t, true)"), {"t": pipeline.tenant})
        with pytest.raises(sa.exc.ProgrammingError, match="denied"):
            connection.execute(sa.text(added), {"t": pipeline.tenant})
    noted(pipeline, "after")
    assert log.verify(pipeline.tenant).sound


def test_heads_are_signed_and_compared(pipeline: Stack, log: AuditLog) -> None:
    """Given a signed head, then it is checked with the same key alone, and against its tenant."""
    noted(pipeline, "one")
    head = log.head(pipeline.tenant, sign=True)
    noted(pipeline, "two")
    assert log.verify(pipeline.tenant, head).extends == "signed"
    another = opened(pipeline.services.engine, SecretStr("the secret of another"))
    judges = ((another, pipeline.tenant, "was changed, or signed"), (log, TenantId("other"), "of another"))
    for judge, tenant, what in judges:
        report = judge.verify(tenant, head)
        assert not report.sound and what in report.findings[-1]
    assert not log.verify(pipeline.tenant, replace(head, hash="\ud800", signature="\ud800")).sound
    with pytest.raises(InvalidSettings, match="AUDIT_KEY"):
        opened(pipeline.services.engine, None).verify(pipeline.tenant, head)


def test_the_program_prints_heads_and_proves_the_audit(
    pipeline: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given a head in a file, then audit verify says whether the audit extends it, and its exit code too."""
    monkeypatch.setattr(work, "opened_memory", lambda *_, **__: nullcontext(pipeline.memory))
    noted(pipeline, "one")

    def run(*arguments: str, code: int = 0) -> str:
        done = CliRunner().invoke(app, ["audit", *arguments])
        assert done.exit_code == code, (done.stdout, done.stderr, done.exception)
        return done.stdout

    file = tmp_path / "head.json"
    file.write_text(run("head"))
    assert json.loads(file.read_text())["rows"] == 1
    assert "one" in run()
    assert "1 rows of the audit are as they were written, and extend the unsigned head." in run(
        "verify", "--head", str(file)
    )
    file.write_text(json.dumps(json.loads(file.read_text()) | {"hash": "00" * 32}))
    assert json.loads(run("verify", "--head", str(file), "--json", code=1))["findings"] == [
        "Row 1 is not the one of the given head."
    ]
    assert run("head", "--sign", code=2) == ""
    assert run("--data", "elsewhere", "head", code=2) == ""
    file.write_text("{}")
    assert run("verify", "--head", str(file), code=2) == ""


def test_rows_from_before_the_chain_are_chained_by_the_upgrade(servers: SessionServers) -> None:
    with empty(servers) as settings:
        upgrade(settings, BEFORE)
        with connected(settings) as connection:
            connection.execute(sa.text("SET LOCAL memforest.across = 'on'"))
            for tenant in ("a", "b", "a", "a"):
                connection.execute(sa.text(ADD), {"t": tenant})
        upgrade(settings)
        engine = open_engine(settings)
        try:
            reports: list[AuditReport] = [opened(engine, None).verify(TenantId(tenant)) for tenant in "ab"]
        finally:
            engine.dispose()
        assert [(each.sound, each.head.rows) for each in reports] == [(True, 3), (True, 1)]
        with connected(settings) as connection:
            command.downgrade(schema._config(connection), BEFORE)
