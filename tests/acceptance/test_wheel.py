"""The built wheel is enough: migrations, settings and a worker that takes a session to facts, without the sources."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import zipfile
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest
import sqlalchemy as sa

from memforest_core.client.producer import MemForestClient
from memforest_core.ingest.accept.records import Stage
from memforest_core.store.schema import head_revision
from tests.harness.processes import ALL_QUEUES, environment, program, serving, settings_from
from tests.harness.servers import SessionServers
from tests.harness.stack import admin, database_settings
from tests.harness.timing import until

ROOT = Path(__file__).parents[2]
SOURCES = ("memforest_core", "memforest_workers", "pyproject.toml", "README.md", "LICENSE", "NOTICE")
TURNS = [
    {"role": "user", "name": "Bob", "content": "I moved from Boston to Davis.", "timestamp": "2023-05-01T09:00:00Z"},
    {"role": "assistant", "content": "How do you like it there?", "timestamp": "2023-05-01T09:00:10Z"},
]


@dataclass(frozen=True)
class Installation:
    """The wheel in an environment of its own, where nothing leads to the sources."""

    wheel: Path
    bin: Path
    empty: Path
    """The directory that processes start in."""

    def run(self, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run an installed command to its end."""
        return subprocess.run(
            [str(self.bin / command[0]), *command[1:]],
            cwd=self.empty,
            env=self.variables(variables),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def variables(self, values: dict[str, str]) -> dict[str, str]:
        """The environment of a process: nothing of Python's but what is installed."""
        stored = {name: value for name, value in environment(**values).items() if not name.startswith("PYTHON")}
        return stored | {"PATH": f"{self.bin}{os.pathsep}{os.environ['PATH']}"}


def outer_pip(*arguments: str) -> None:
    """Run pip without any network."""
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """Build the wheel from a copy of the sources, and install it into a new virtual environment.

    The dependencies are those of the running environment, reached by their folder: such a folder's own .pth files are
    not read, so the editable installation in it does not count.
    """
    source = tmp_path_factory.mktemp("source")
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, source / name)
    built = tmp_path_factory.mktemp("built")
    outer_pip("wheel", "--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", str(built), str(source))
    (wheel,) = built.glob("*.whl")

    home = tmp_path_factory.mktemp("home")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
    python = home / "bin" / "python"
    outer_pip("--python", str(python), "install", "--no-deps", "--no-index", str(wheel))
    packages = home / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return Installation(wheel, home / "bin", tmp_path_factory.mktemp("empty"))


def test_the_wheel_has_what_a_worker_needs(installation: Installation) -> None:
    """Given the wheel, then every file of the two packages is in it, and so are the licences; nothing else is."""
    with zipfile.ZipFile(installation.wheel) as wheel:
        packed = set(wheel.namelist())
    wanted = {
        str(path.relative_to(ROOT))
        for package in ("memforest_core", "memforest_workers")
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert wanted <= packed
    assert {"LICENSE", "NOTICE"} <= {Path(name).name for name in packed if ".dist-info/" in name}
    tops = {name.split("/")[0] for name in packed}
    assert {name for name in tops if not name.endswith(".dist-info")} == {"memforest_core", "memforest_workers"}


def test_everything_comes_from_the_wheel(installation: Installation) -> None:
    """Given the installed wheel, when its modules are imported, then none of them comes from the sources."""
    found = installation.run(
        "python",
        "-c",
        "import memforest_core, memforest_workers as w; from importlib.metadata import distribution as d;"
        "print(memforest_core.__file__, w.__file__, d('memforest').locate_file(''), sep='\\n')",
    )
    assert found.returncode == 0, found.stderr
    home = installation.bin.parent
    assert [path for path in found.stdout.split() if not Path(path).is_relative_to(home)] == []


def test_a_worker_starts_from_the_wheel(installation: Installation, servers: SessionServers, tmp_path: Path) -> None:
    """Given an empty database, when it is upgraded and a worker started from the wheel in an empty directory, then the
    worker takes a session to facts, and leaves in good order when it gets a signal to stop."""
    name = f"wheel_{uuid4().hex}"
    admin(servers, f"CREATE DATABASE {name}")
    address = database_settings(servers, name)
    assert address.migration_url is not None
    owner = sa.create_engine(address.migration_url.get_secret_value())
    try:
        with serving("tests.harness.qdrant_http", "--path", str(tmp_path / "qdrant"), "--port", "0") as port:
            variables = {
                "MEMFOREST_DATABASE__URL": address.url.get_secret_value(),
                "MEMFOREST_DATABASE__MIGRATION_URL": address.migration_url.get_secret_value(),
                "MEMFOREST_BROKER__URL": servers.broker_url,
                "MEMFOREST_INDEX__KIND": "qdrant",
                "MEMFOREST_INDEX__URL": f"http://127.0.0.1:{port}",
                "MEMFOREST_WORKER__HEALTH_FILE": str(tmp_path / "health"),
                "MEMFOREST_WORKER__HEARTBEAT_S": "0.5",
            }
            upgraded = installation.run("memforest", "db", "upgrade", **variables)
            assert upgraded.returncode == 0, upgraded.stdout + upgraded.stderr
            with owner.connect() as connection:
                found = connection.scalar(sa.text("SELECT version_num FROM memforest.schema_version"))
            assert found == head_revision()
            run_worker(installation, variables, owner, tmp_path / "worker.log")
    finally:
        owner.dispose()
        admin(servers, f"DROP DATABASE {name} WITH (FORCE)")
    assert list(installation.empty.iterdir()) == []


def run_worker(installation: Installation, variables: dict[str, str], owner: sa.Engine, log: Path) -> None:
    """Start a worker, give it a session, and stop it."""
    command = (installation.bin / "memforest", "worker", "--queues", ALL_QUEUES, "--concurrency", "4")
    with program(*command, log=log, cwd=installation.empty, exactly=installation.variables(variables)) as worker:
        until(lambda: registered(owner), failure=log.read_text)
        client = MemForestClient(settings_from(variables))
        handle = client.enqueue("bob", "s1", TURNS)
        until(lambda: handle.status().stage in {Stage.FACTS, Stage.SUMMARIES}, failure=log.read_text)
        client.close()
        health = ("memforest", "worker-health")
        until(lambda: installation.run(*health, **variables).returncode == 0, failure=log.read_text)
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(30) == 0, log.read_text()
        assert not registered(owner), log.read_text()


def registered(owner: sa.Engine) -> bool:
    """Whether a worker has a heartbeat row."""
    with owner.connect() as connection:
        return bool(connection.scalar(sa.text("SELECT EXISTS (SELECT FROM memforest.worker)")))
