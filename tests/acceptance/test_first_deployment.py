"""What somebody tries first, without Docker: each command works, or says in a sentence what is missing."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest
import sqlalchemy as sa

from memforest_core.store.schema import head_revision
from tests.harness.processes import MEMFOREST, Deployment, deployment, environment, free_port, program
from tests.harness.sayings import said
from tests.harness.servers import SessionServers
from tests.harness.stack import admin, at

CELERY = [sys.executable, "-m", "celery", "-A", "memforest_workers"]
TIMEOUT_S = 90.0
ROOT = Path(__file__).parents[2]


def run(*command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A command with these settings, to its end."""
    return subprocess.run(
        command, env=environment(**variables), capture_output=True, text=True, timeout=TIMEOUT_S, check=False, cwd=ROOT
    )


def until(condition: Callable[[], bool], process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert process.poll() is None and time.monotonic() < deadline, log.read_text()
        time.sleep(0.1)


@pytest.fixture
def running(servers: SessionServers, tmp_path: Path) -> Iterator[Deployment]:
    with deployment(servers, tmp_path, offline=True) as made:
        yield made


def test_errors_explain_the_order_of_a_first_start(servers: SessionServers) -> None:
    """Given an empty database and a service role that does not exist, when a worker is started, then it says that the
    role is missing and how it is made; when the upgrade runs without the owner's address, then it says that this is
    missing; with it, both role and schema are made."""
    name, role = f"first_{uuid4().hex}", f"first_{uuid4().hex}"
    admin(servers, f"CREATE DATABASE {name}")
    variables = {"MEMFOREST_DATABASE__URL": at(servers.postgres_url, database=name, user=role)}
    app_role = {"MEMFOREST_DATABASE__URL": at(servers.postgres_url, database=name, user="memforest_app")}
    try:
        worker = run(*MEMFOREST, "worker", **variables)
        assert worker.returncode != 0
        said_then = " ".join(worker.stderr.split())
        assert f"Postgres has no role '{role}'" in said_then
        assert "memforest db upgrade with MEMFOREST_DATABASE__MIGRATION_URL set makes the role" in said_then

        unset = run(*MEMFOREST, "db", "upgrade", **app_role)
        assert unset.returncode != 0
        assert "set MEMFOREST_DATABASE__MIGRATION_URL to the address of a role that may" in " ".join(
            unset.stderr.split()
        )

        variables["MEMFOREST_DATABASE__MIGRATION_URL"] = at(servers.postgres_url, database=name)
        upgraded = run(*MEMFOREST, "db", "upgrade", **variables)
        assert upgraded.returncode == 0, upgraded.stderr
        engine = sa.create_engine(variables["MEMFOREST_DATABASE__URL"])
        with engine.connect() as connection:
            assert connection.scalar(sa.text("SELECT version_num FROM memforest.schema_version")) == head_revision()
        engine.dispose()
    finally:
        admin(servers, f"DROP DATABASE {name} WITH (FORCE)")
        admin(servers, f"DROP ROLE IF EXISTS {role}")


def test_celerys_own_command_runs_a_worker(running: Deployment, tmp_path: Path) -> None:
    """Given ``celery -A memforest_workers worker``, then it is registered, does the work, and leaves in good order."""
    log = tmp_path / "celery.log"
    command = (*CELERY, "worker", "--concurrency", "2", "--hostname", "mine@here")
    with program(*command, log=log, guard=running.guard, cwd=ROOT, **running.variables) as worker:
        until(
            lambda: running.scalar("SELECT count(*) FROM memforest.worker WHERE name = 'mine@here'") == 1, worker, log
        )
        client = running.client()
        handle = client.enqueue("ann", "s1", said("I bought a pear.", "You have one."))
        assert handle.wait("facts", TIMEOUT_S).placed == 1, log.read_text()
        client.close()
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(TIMEOUT_S) == 0, log.read_text()
        assert running.scalar("SELECT count(*) FROM memforest.worker") == 0, log.read_text()
        assert "Traceback" not in log.read_text()


def test_celerys_own_command_refuses_what_ours_refuses(running: Deployment) -> None:
    """Given a pool of processes, or a database without tables, then the sentence is ours and the exit code is 1."""
    forked = run(*CELERY, "worker", "--pool", "solo", **running.variables)
    assert forked.returncode == 1
    assert "Leave --pool out" in forked.stdout + forked.stderr
    unavailable = {**running.variables, "MEMFOREST_DATABASE__URL": "postgresql+psycopg://app@127.0.0.1:1/none"}
    refused = run(*CELERY, "worker", **unavailable)
    assert refused.returncode == 1
    assert "store_unavailable" in refused.stdout + refused.stderr


def test_a_worker_counts_those_that_live(running: Deployment) -> None:
    """Given settings that speak of one worker, and live workers that may take what Postgres has, then one more refuses
    to start, and says how many live; dead ones do not count."""
    insert = sa.text(
        "INSERT INTO memforest.worker (worker_id, name, queues, connections, heartbeat_at)"
        " VALUES (gen_random_uuid(), 'other', '{extract}', 100000, clock_timestamp() + interval '1 h')"
    )
    url = running.settings.database.migration_url
    assert url is not None
    engine = sa.create_engine(url.get_secret_value())
    variables = {**running.variables, "MEMFOREST_DEPLOYMENT__WORKER_PROCESSES": "1"}
    try:
        with engine.begin() as connection:
            connection.execute(insert)
        refused = run(*MEMFOREST, "worker", **variables)
        assert refused.returncode == 2
        assert "2 live workers" in " ".join(refused.stderr.split())
        assert running.scalar("SELECT count(*) FROM memforest.worker") == 1
        doctor = run(*MEMFOREST, "doctor", **variables)
        assert "fail  connections: 1 live workers" in doctor.stdout

        with engine.begin() as connection:
            connection.execute(sa.text("UPDATE memforest.worker SET heartbeat_at = clock_timestamp() - interval '1 h'"))
        worker = running.start_worker()
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(TIMEOUT_S) == 0
    finally:
        engine.dispose()


def test_many_tasks_share_ten_connections(servers: SessionServers, tmp_path: Path) -> None:
    """Given the default pool, when 32 tasks at once wait for a model, then the worker opens ten connections at most, no
    task waits in vain for one, and all is done."""
    backends = (
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE datname = current_database() AND usename = 'memforest_app' AND pid <> ALL(:known)"
    )
    with deployment(servers, tmp_path, latency_s=3.0) as running:
        client = running.client()
        for number in range(40):
            client.enqueue(f"owner-{number}", "s1", said(f"I bought {number} pears.", "Good."))
        known = [row[0] for row in running.rows("SELECT pid FROM pg_stat_activity WHERE usename = 'memforest_app'")]
        running.launch_worker(concurrency=32)
        most, deadline = 0, time.monotonic() + TIMEOUT_S
        while running.scalar("SELECT count(*) FROM memforest.cell WHERE NOT placed"):
            assert running.workers[0].poll() is None, running.log_tail()
            most = max(most, running.scalar(backends, known=known))
            assert time.monotonic() < deadline, running.log_tail()
        assert running.control_model()["peak"] > 10
        client.close()
        assert 1 < most <= 10
        assert "are in use" not in running.log_tail()


@pytest.mark.parametrize("command", [[*MEMFOREST, "flower"], [*CELERY, "flower"]], ids=["memforest", "celery"])
def test_flower_does_not_start_open(running: Deployment, command: list[str]) -> None:
    refused = run(*command, **running.variables)
    assert refused.returncode == 2
    assert "FLOWER_BASIC_AUTH" in refused.stderr
    assert "--insecure" in refused.stderr


@pytest.mark.parametrize("insecure", [False, True])
def test_flower_requires_the_password(running: Deployment, tmp_path: Path, insecure: bool) -> None:
    """Given FLOWER_BASIC_AUTH alone, then pages want it, and nobody can stop a worker; --insecure lets everybody look."""
    port, log = free_port(), tmp_path / "flower.log"
    more = {} if insecure else {"FLOWER_BASIC_AUTH": "ann:secret"}
    command = (*MEMFOREST, "flower", "--port", str(port), *(["--insecure"] if insecure else []))
    with program(*command, log=log, guard=running.guard, **running.variables, **more) as page:
        until(lambda: answered(port, "healthcheck") == 200, page, log)
        assert answered(port, "workers") == (200 if insecure else 401)
        assert answered(port, "workers", "ann:secret") == 200
        assert answered(port, "api/worker/shutdown/any", "ann:secret", method="POST") in {401, 403}
        page.send_signal(signal.SIGTERM)
        assert page.wait(TIMEOUT_S) == 0, log.read_text()


def answered(port: int, path: str, user: str = "", method: str = "GET") -> int:
    """The status of Flower's answer, 0 while it does not answer."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}/{path}", method=method)
    if user:
        request.add_header("Authorization", f"Basic {b64encode(user.encode()).decode()}")
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0
